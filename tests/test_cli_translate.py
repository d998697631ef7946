"""`transduce translate` with terms, placeholders, samples, alignments and several models."""

from __future__ import annotations

import io
import json
import sys

import pytest

from transduce import cli


@pytest.fixture
def run(capfd, monkeypatch):
    """Call the command in this process; return exit code, stdout and stderr."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["transduce", "translate", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        return left.value.code, out, err

    return call


def test_a_glossary(run, digit_run, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("three\tneun neun\nFour\tacht\n", encoding="utf-8")
    stdin = b"one three two\nfour five\n\n"
    code, out, err = run(digit_run, "--glossary", terms, stdin=stdin)
    assert code == 0
    first, second, third = out.split("\n")[:3]
    assert "neun neun" in first
    assert second == run(digit_run, stdin=b"four five\n")[1].strip()  # Four is not four
    assert third == ""
    terms.write_text("three\t" + "sieben " * 60 + "\n", encoding="utf-8")
    code, out, err = run(digit_run, "--glossary", terms, "--jsonl", stdin=b"three\n")
    found = json.loads(out)
    assert found["flags"].count("glossary") == 1
    assert found["missing"] == [" ".join(["sieben"] * 60)]
    assert "1 lines lack a term of the glossary" in err


def test_protected_parts(run, digit_run):
    stdin = b"one {name} two\nthree ACME-7\n"
    code, out, _ = run(digit_run, "--protect", "usual", "--protect-pattern", r"ACME-\d", stdin=stdin)
    assert code == 0
    first, second = out.splitlines()
    assert "{name}" in first
    assert "ACME-7" in second


def test_samples_repeat_with_their_seed(run, digit_run):
    def sample(*options):
        code, out, _ = run(
            digit_run, "--sample", "--temperature", 3, *options, stdin=b"one two three four\n" * 3
        )
        assert code == 0
        return out

    first = sample("--seed", 1)
    lines = first.removesuffix("\n").split("\n")  # not splitlines: so wild a sample may hold any character
    assert len(lines) == 3
    assert len(set(lines)) == 1  # the same sentence gives the same sample
    assert sample("--seed", 1) == first
    assert sample("--seed", 2) != first
    assert sample("--seed", 1, "--top-k", 1) == sample("--seed", 2, "--top-p", 0.01)


def test_alignments(run, digit_run, tmp_path):
    file = tmp_path / "pairs.txt"
    stdin = b"one two three\n\nseven four\n"
    code, out, _ = run(digit_run, "--alignments", file, stdin=stdin)
    assert code == 0
    lines = file.read_text().split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    for source, target, pairs in zip(stdin.decode().split("\n"), out.split("\n"), lines, strict=True):
        for pair in pairs.split():
            s, t = map(int, pair.split("-"))
            assert s < len(source.split())
            assert t < len(target.split())


def test_an_ensemble(run, digit_run):
    alone = run(digit_run, stdin=b"one two\nnine\n")
    together = run(digit_run, "--ensemble", digit_run / "model", stdin=b"one two\nnine\n")
    assert together == alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", 3], "--seed only matters to samples: give --sample as well"),
        (["--top-k", 3], "--top-k only matters to samples"),
        (["--sample", "--top-p", 2], "top_p is 2.0, but must lie in (0, 1]"),
        (["--sample", "--temperature", 0], "temperature is 0.0, but must be above 0"),
        (["--sample", "--protect", "usual"], "samples cannot be made to hold"),
        (["--protect", "links"], "unknown kind of protected text 'links'"),
        (["--protect-pattern", "("], "is no regular expression"),
        (["--glossary", "/nowhere.tsv"], "/nowhere.tsv"),
        (["--set", "search.alpha=99.5"], "alpha is 99.5, but must lie in"),
        (["--ensemble-mean", "log_probability"], "--ensemble-mean only matters to several models"),
        (["--ensemble", "/nowhere"], "there is no model directory /nowhere"),
    ],
)
def test_a_mistake_is_told_before_any_line_is_read(run, digit_run, options, message):
    code, out, err = run(digit_run, *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_files_are_not_written_over(run, digit_run, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    for options in (["--alignments", file], ["--alignments", tmp_path / "b", "--output", tmp_path / "b"]):
        code, _, err = run(digit_run, "--input", file, *options)
        assert code == 2
        assert "choose another --alignments" in err
    assert file.read_text() == "one\n"
