"""`transduce align` on a model that was trained: word by word, so the right links are known."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from digits import digit_pairs
from transduce.cli import app
from transduce.lens import Lens
from transduce.lens.evidence import learnt_links
from transduce.text.pairs import Pair
from transduce.translate.alignment import words


@pytest.fixture(scope="module")
def run(digit_run, tmp_path_factory):
    return shutil.copytree(digit_run, tmp_path_factory.mktemp("align") / "run")


def test_heads_are_found_kept_and_used(run, tmp_path, write_pairs):
    """This small network's heads align badly; what is promised is that this is measured and said."""
    source, target = write_pairs(tmp_path / "test", digit_pairs(80, seed=3))
    out = tmp_path / "links"
    arguments = ["align", run, "--source", source, "--target", target, "--sentences", 60, "--out", out]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    heads = Lens.load(run).heads
    assert f"agreement {heads.agreement:.3f}" in result.stdout
    assert heads.sentences == 60
    assert len(heads.scores) == 1
    assert len(heads.scores[0]) == 2
    trace = Lens.load(run).trace("three one seven")
    assert trace.alignment.heads == heads
    assert trace.translation == "drei eins sieben"
    lines = out.read_text().split("\n")[:-1]
    assert len(lines) == 80
    for line, (_, target) in zip(lines, digit_pairs(80, seed=3), strict=True):
        linked = {int(link.split("-")[1]) for link in line.split()}
        assert linked == set(range(len(target.split())))


def test_what_is_learnt_from_the_text_is_right(run):
    """`three one` is `drei eins`: word i comes from word i."""
    lens = Lens.load(run)
    pairs = [Pair(source, target, line) for line, (source, target) in enumerate(digit_pairs(400, seed=5), 1)]
    right = total = 0
    for one in learnt_links(lens, pairs, 50):
        source, target = (
            words(tokenizer.pieces(ids))
            for tokenizer, ids in zip(lens.translator.tokenizers, (one.source, one.target), strict=True)
        )
        for t, sources in one.links.items():
            for s in sources:
                place = [
                    next(i for i, word in enumerate(side) if word.first <= token < word.end)
                    for side, token in ((source, s), (target, t))
                ]
                right += place[0] == place[1]
                total += 1
    assert total > 200
    assert right / total > 0.95


def test_a_damaged_choice_is_chosen_anew(run, tmp_path, write_pairs):
    file = run / "model" / "alignment.json"
    file.write_text("{")
    source, target = write_pairs(tmp_path / "test", digit_pairs(20, seed=6))
    arguments = [str(argument) for argument in ("align", run, "--source", source, "--target", target)]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert Lens.load(run).heads.sentences == 20


def test_links_that_people_drew_are_taken(run, tmp_path, write_pairs):
    pairs = digit_pairs(20, seed=4)
    source, target = write_pairs(tmp_path / "test", pairs)
    links = tmp_path / "gold"
    links.write_text("".join(" ".join(f"{i}-{i}" for i in range(len(s.split()))) + "\n" for s, _ in pairs))
    arguments = ["align", run, "--source", source, "--target", target, "--links", links]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    assert "the links of gold" in result.stdout
    assert Lens.load(run).heads.evidence == "the links of gold"
