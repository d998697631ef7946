"""What a person sees of memory and of over-long pairs: `--memory`, what is told, what the card keeps."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from digits import TINY_SETTINGS, digit_pairs
from transduce import cli
from transduce.errors import RecipeError
from transduce.pipeline import train
from transduce.recipe import load_recipe

SHORT = [*TINY_SETTINGS, "train.max_steps=2", "train.validate_sentences=3", "search.max_extra_len=5"]


@pytest.fixture
def text(tmp_path, write_pairs):
    """200 short pairs, two of them long, and a validation text with a long one."""
    long = (" ".join(["three"] * 60), " ".join(["drei"] * 60))
    train_pairs = digit_pairs(200)
    train_pairs[20:20] = [long]
    train_pairs[70:70] = [("six " + long[0], "sechs " + long[1])]
    write_pairs(tmp_path / "train", train_pairs)
    write_pairs(tmp_path / "valid", [*digit_pairs(6, seed=1), long])
    return {
        f"{kind}{side}": str(tmp_path / f"{name}.{suffix}")
        for kind, name in (("", "train"), ("valid_", "valid"))
        for side, suffix in (("source", "en"), ("target", "de"))
    }


def run(text, path, *changes):
    stream = io.StringIO()
    outcome = train(load_recipe(overrides=[*SHORT, *changes], data=text), path, Console(file=stream))
    return outcome, stream.getvalue()


@pytest.mark.parametrize(
    ("too_long", "fate", "of_validation"),
    [
        ("drop", "are left out", "count in BLEU and chrF, not in the loss"),
        ("cut", "are cut there", "are cut there"),
    ],
)
def test_over_long_pairs_are_counted_and_told(text, tmp_path, too_long, fate, of_validation):
    outcome, said = run(
        text, tmp_path / "run", f"batch.too_long={too_long}", "train.max_epochs=1", "train.max_steps=0"
    )
    card = (tmp_path / "run/model/card.md").read_text()
    for told in (said, card):
        assert f"2 pairs are longer than batch.max_len = 32 tokens and {fate}" in told
        assert f"1 validation pairs are longer than batch.max_len = 32 tokens and {of_validation}" in told
    tokens = outcome.state.num_target_tokens
    kept = 200 * 32 if too_long == "cut" else 0
    assert (
        tokens
        > run(text, tmp_path / "other", "train.max_epochs=1", "train.max_steps=0")[0].state.num_target_tokens
    ) == bool(kept)


def test_a_budget_is_kept_to_and_said(text, tmp_path, monkeypatch):
    outcome, said = run(text, tmp_path / "run", "train.memory=100GB")
    assert outcome.finished
    assert "memory: 100.0 GB budget" in said
    assert json.loads((tmp_path / "run/parts.json").read_text())[0]["part_tokens"] == 512


def test_a_budget_below_what_the_process_has_is_told(text, tmp_path):
    with pytest.raises(RecipeError, match=r"longest pair \(\d+ tokens\) needs about .* raise --memory to"):
        run(text, tmp_path / "run", "train.memory=2MB")


def test_the_option_is_the_setting(text, tmp_path, monkeypatch, capfd):
    arguments = [
        "train",
        "--source",
        text["source"],
        "--target",
        text["target"],
        "--out",
        str(tmp_path / "run"),
    ]
    for size, said in (("lots", "such as 8GB"), ("2MB", "raise --memory to")):
        settings = [word for setting in SHORT for word in ("--set", setting)]
        monkeypatch.setattr("sys.argv", ["transduce", *arguments, "--memory", size, *settings])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 2
        assert said in capfd.readouterr().err
