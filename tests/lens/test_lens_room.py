"""The room's door: the public names, `trace`, what cannot be looked into; no torch until a name needs it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading

import pytest

import transduce.lens
from lens.lens_models import SENTENCE, make_lens
from served_models import write_model
from transduce.errors import DataError, ModelError, SearchError
from transduce.lens import Interventions, Lens, LensLimits, Temperature
from transduce.translate.translator import Translator


def test_the_public_names_are_these():
    assert transduce.lens.__all__ == [
        "Head",
        "HeadName",
        "Interventions",
        "Lens",
        "LensLimits",
        "MaskChange",
        "Temperature",
        "Trace",
        "trace",
    ]
    for name in transduce.lens.__all__:
        assert getattr(transduce.lens, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'torch'"):
        _ = transduce.lens.torch


@pytest.mark.parametrize("module", ["transduce.lens", "transduce.serve.app", "transduce.serve.lens_routes"])
def test_the_room_costs_nothing_until_it_is_used(module):
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_one_call_opens_a_translation(lens):
    trace = transduce.lens.trace(lens.translator, SENTENCE, beam_size=2)
    assert trace.config.beam_size == 2
    assert trace.translation == lens.translator.translate(SENTENCE, beam_size=2)[0].text
    importlib.import_module("transduce.lens.traces")  # a file of the room does not hide the function
    assert callable(transduce.lens.trace)
    with pytest.raises(SearchError, match="unknown search setting 'beam'"):
        transduce.lens.trace(lens.translator, SENTENCE, beam=2)


def test_an_export_is_not_the_network_itself(tmp_path):
    translator = Translator.load(write_model(tmp_path / "en-de"))
    with pytest.raises(ModelError, match=r'by transduce\.load\(…, engine="torch"\)'):
        transduce.lens.trace(translator, SENTENCE)


@pytest.mark.parametrize("text", ["", "   "])
def test_there_must_be_text(lens, text):
    with pytest.raises(DataError, match="there is no text to look into"):
        lens.trace(text)


def test_limits_are_told_with_both_numbers(tokenizer):
    lens = make_lens(
        tokenizer, limits=LensLimits(text_characters=60, source_tokens=6, target_tokens=3, beam=2)
    )
    with pytest.raises(DataError, match="the text has 61 characters, and a trace takes 60"):
        lens.trace("x" * 61)
    with pytest.raises(DataError, match=r"the text has \d+ tokens, and a trace takes 6"):
        lens.trace("light " * 9)
    with pytest.raises(DataError, match=r"the target has \d+ tokens, and a trace takes 3"):
        lens.trace("x", target="light " * 4)
    with pytest.raises(DataError, match="the beam has 3 hypotheses, and a trace takes 2"):
        lens.trace("x")


def test_learned_positions_are_a_limit_too(tokenizer):
    lens = make_lens(tokenizer, position="learned", max_len=8)
    with pytest.raises(DataError, match="a trace takes 7"):
        lens.trace("light " * 9)
    assert len(lens.trace("light").target) <= 8


def test_text_longer_than_the_model_was_trained_on_is_said(lens):
    text = "light " * 80
    trace = lens.trace(text, target="x")
    assert "whereas a translation would split it" in trace.limits_applied[0]
    assert str(len(trace.source) - 1) in trace.limits_applied[0]


def test_two_at_once_do_not_disturb_each_other(tokenizer):
    """A changed temperature in one thread must not be seen by another."""
    lens = make_lens(tokenizer, seed=4)
    plain = lens.trace(SENTENCE)
    expected = plain.head("cross", 0, 0).weights
    changes = Interventions(tau=(Temperature("cross", None, 0.2),))
    stop, wrong = threading.Event(), []

    def disturb():
        while not stop.is_set():
            plain.scored(changes)

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(30):
            wrong.append(not bool((plain.head("cross", 0, 0).weights == expected).all()))
    finally:
        stop.set()
        other.join()
    assert not any(wrong)


def test_a_lens_is_loaded_with_its_name(digit_run):
    lens = Lens.load(digit_run)
    assert lens.name == digit_run.name
    assert lens.trained
    with pytest.raises(ModelError, match="there is no model directory"):
        Lens.load(digit_run / "nowhere")
