"""What was measured on this machine is used here, and only here."""

from __future__ import annotations

import json
import logging

import pytest

from both_engines import export_to, random_model
from transduce.errors import ModelError
from transduce.translate.ctranslate2_engine import CTranslate2Engine
from transduce.translate.ctranslate2_runtime import Workers
from transduce.translate.runtime import Runtime
from transduce.translate.tune import measure, tune_model
from transduce.translate.tuning import Layout, Tuning, machine, read_tuning


@pytest.fixture
def exported(tmp_path):
    return export_to(tmp_path / "ct2", random_model(0))


def tuning(**changes):
    fields = {
        "machine": machine(), "threads": 4, "compute_type": "float32",
        "many": Layout(workers=2, threads=2), "lone": Layout(workers=1, threads=1),
    }  # fmt: skip
    return Tuning(**{**fields, **changes})


def workers(exported, monkeypatch, idle=4, **runtime):
    monkeypatch.setattr("transduce.translate.ctranslate2_runtime.available_threads", lambda: 4)
    monkeypatch.setattr("transduce.translate.ctranslate2_runtime.idle_threads", lambda _: idle)
    return Workers(exported.path, Runtime(**runtime))


def test_every_arrangement_is_measured_and_the_quickest_is_kept(exported):
    found, timings = measure(exported, compute_types=["float32", "int8"], threads=2)
    assert [(t.compute_type, str(t.layout)) for t in timings] == [
        ("float32", "2 x 1"), ("float32", "1 x 2"), ("int8", "2 x 1"), ("int8", "1 x 2")
    ]  # fmt: skip
    assert all(0 < t.many < 10 and 0 < t.lone < 10 for t in timings)
    best = min(timings, key=lambda t: t.many)
    assert (found.compute_type, found.many) == (best.compute_type, best.layout)
    own = [t for t in timings if t.compute_type == found.compute_type]
    assert found.lone == min(own, key=lambda t: t.lone).layout
    assert found.threads == 2


def test_it_is_kept_and_followed(exported, monkeypatch):
    tuning().write(exported.path)
    assert read_tuning(exported.path, 4) == tuning()
    chosen = workers(exported, monkeypatch)
    lone, many = chosen.for_sentences(1), chosen.for_sentences(100)
    assert (many.num_translators, lone.num_translators) == (2, 1)
    assert many.compute_type == "float32"


def test_without_it_each_thread_is_a_worker(exported, monkeypatch):
    chosen = workers(exported, monkeypatch)
    assert chosen.for_sentences(100).num_translators == 4


@pytest.mark.parametrize(
    ("stored", "asked", "together"),
    [("float32", "default", 4), ("float32", "int8", 1), ("int8", "default", 1), ("int8", "float32", 4)],
)
def test_a_lone_sentence_in_eight_bits_has_one_thread_unless_measured_otherwise(
    tmp_path, monkeypatch, stored, asked, together
):
    """Two take up to four times what one takes there (benchmarks/LOG.md), and the weights are read once."""
    exported = export_to(tmp_path / "ct2", random_model(0), quantization=stored)
    monkeypatch.setattr("transduce.translate.ctranslate2_runtime.idle_threads", lambda _: 4)
    runtime = Runtime(threads=4, compute_type=asked)
    mine = CTranslate2Engine(exported, runtime)
    assert mine._workers._lone.threads == together
    assert [mine.together(beam) for beam in (1, 4, 64)] == ([16, 4, 1] if together > 1 else [0, 0, 0])
    lone, many = mine._workers.for_sentences(1), mine._workers.for_sentences(100)
    assert (lone is many) == (together == 1)
    assert mine._workers.for_sentences(4, 4) is lone
    assert mine._workers.for_sentences(5, 4) is many
    tuning(compute_type="default", lone=Layout(workers=1, threads=2)).write(exported.path)
    assert CTranslate2Engine(exported, runtime)._workers._lone.threads == 2


@pytest.mark.parametrize(
    ("changes", "runtime"),
    [({"machine": "another"}, {}), ({"threads": 8}, {}), ({}, {"threads": 3})],
)
def test_it_holds_for_its_machine_and_its_number_of_threads(exported, monkeypatch, changes, runtime):
    tuning(**changes).write(exported.path)
    chosen = workers(exported, monkeypatch, **runtime)
    assert chosen.for_sentences(100).num_translators == runtime.get("threads", 4)


def test_a_number_form_that_was_asked_for_wins(exported, monkeypatch):
    tuning(compute_type="int8").write(exported.path)
    assert workers(exported, monkeypatch).for_sentences(100).compute_type.startswith("int8")
    assert workers(exported, monkeypatch, compute_type="float32").for_sentences(100).compute_type == "float32"


def test_threads_that_other_work_has_are_not_waited_for(exported, monkeypatch):
    tuning(lone=Layout(workers=1, threads=4)).write(exported.path)
    chosen = workers(exported, monkeypatch, idle=2)
    assert chosen.for_sentences(1).num_translators == 1
    assert chosen._lone == Layout(workers=1, threads=2)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"machine": 1}', json.dumps({"many": {"workers": 0, "threads": 1}, "lone": {}})],
)
def test_a_damaged_file_is_told_and_passed_over(exported, content, caplog):
    (exported.path / "tuning.json").write_text(content)
    with caplog.at_level(logging.WARNING):
        assert read_tuning(exported.path, 4) is None
    assert "run `transduce tune` again" in caplog.text


@pytest.mark.parametrize("change", [{"workers": 0, "threads": 1}, {"workers": 1, "threads": -1}])
def test_sizes_out_of_range_are_passed_over(exported, change):
    tuning().write(exported.path)
    file = exported.path / "tuning.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "lone": change}))
    assert read_tuning(exported.path, 4) is None


def test_the_verb_tells_what_it_found(exported):
    told = tune_model(exported.path, "float32")
    assert "number form" in told
    assert "in float32" in told
    assert (exported.path / "tuning.json").exists()
    engine = CTranslate2Engine(exported, Runtime())
    assert engine is not None


def test_what_cannot_be_measured_is_said(exported, tmp_path):
    with pytest.raises(ModelError, match="--among names 'float8'; the number forms are"):
        tune_model(exported.path, "float8")
    with pytest.raises(ModelError, match="has no export for CTranslate2"):
        tune_model(tmp_path / "none")
