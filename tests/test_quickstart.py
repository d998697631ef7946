"""The quickstart from its wheel to its last line, with a wheel made here and a few seconds of training."""

from __future__ import annotations

import itertools
import sys

import pytest

from digits import TINY_SETTINGS, digit_pairs
from test_quickstart_data import ENTRY, PLACES, STATES, THINGS, make_wheel
from transduce import quickstart as room
from transduce.errors import DataError
from transduce.recipe import load_recipe


@pytest.fixture
def wheel(tmp_path):
    english, german = {}, {}
    for i, (a, b, c) in enumerate(itertools.product(THINGS, STATES, PLACES)):
        english[str(i)] = f"The {a} in the {c} is {b} now"
        german[str(i)] = f"Das {a} im {c} ist jetzt {b} geworden"
    return make_wheel(tmp_path / "a.whl", {ENTRY.format("x", "en"): english, ENTRY.format("x", "de"): german})


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    """The real recipe would train for minutes."""
    settings = [*TINY_SETTINGS, "train.max_steps=20", "search.max_extra_len=3"]
    monkeypatch.setattr(room, "_recipe", lambda data, minutes: load_recipe(overrides=settings, data=data))


def test_from_wheel_to_translations(tmp_path, monkeypatch, capsys, wheel):
    monkeypatch.chdir(tmp_path)
    arguments = {"pair": "en-de", "out": None, "source": None, "target": None, "minutes": 1}
    room.quickstart(**arguments, sentences=["The lamp in the hall is quiet now"], wheel=wheel)
    out = capsys.readouterr().out
    for part in (
        "BLEU",
        "chrF",
        "held-out pairs",
        "yours        The lamp in the hall",
        "transduce translate runs",
    ):
        assert part in out
    assert out.count("  source       ") == 3
    assert out.count("  reference    ") == 3
    assert (tmp_path / "runs" / "quickstart-de" / "model" / "card.md").exists()


def test_own_text(tmp_path, monkeypatch, capsys, write_pairs):
    monkeypatch.chdir(tmp_path)
    source, target = write_pairs(tmp_path / "mine", digit_pairs(400))
    room.quickstart(pair="en-de", sentences=(), out=None, source=source, target=target, minutes=1)
    assert "BLEU" in capsys.readouterr().out
    assert (tmp_path / "runs" / "quickstart" / "model").is_dir()


def test_an_unknown_pair_names_the_known(tmp_path):
    with pytest.raises(
        DataError, match="no text for --pair en-tlh; there is en-de, en-fr, en-es, en-zh, en-zh-hant"
    ):
        room.quickstart(pair="en-tlh", sentences=(), out=tmp_path, source=None, target=None, minutes=1)


def test_a_terminal_is_asked_for_more(monkeypatch, capsys):
    class Echo:
        def translate(self, texts):
            texts = [texts] if isinstance(texts, str) else texts
            return [type("T", (), {"text": f"<{text}>"}) for text in texts]

    typed = iter(["hello", ""])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    room._translate_own(Echo(), ["first"])
    out = capsys.readouterr().out
    assert "<first>" in out
    assert "<hello>" in out
