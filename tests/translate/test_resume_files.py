"""Interrupted at any moment and resumed: byte by byte what it would have been. Nothing is lost in silence."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from digits import digit_pairs
from kills import dies_at
from transduce import cli
from transduce.translate.resume import cut_to_whole_lines, model_fingerprint, sidecar
from transduce.translate.translator import Translator
from word_by_word import WordByWord


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A directory that is taken for a model; the translator is a stand-in."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "recipe.toml").write_text("schema = 1\n")
    (directory / "card.md").write_text("# card\n")
    monkeypatch.setattr(Translator, "load", lambda path, **how: WordByWord())
    return directory


@pytest.fixture
def run(model, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["transduce", "translate", "model", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        _, err = capfd.readouterr()
        assert "Traceback" not in err
        return left.value.code, err

    return call


@pytest.fixture
def files(tmp_path):
    """An input of three windows, with blank and odd lines."""
    lines = [f"line {i} \u2028 of\rmany" if i % 7 else "" for i in range(2500)]
    source = tmp_path / "in.txt"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return source, tmp_path / "out.txt"


def test_nothing_stays_beside_a_finished_output(run, files):
    source, output = files
    assert run("--input", source, "--output", output)[0] == 0
    assert output.read_bytes().count(b"\n") == 2500
    assert not sidecar(output).exists()


@pytest.mark.parametrize("jsonl", [(), ("--jsonl",)], ids=["text", "jsonl"])
def test_cut_anywhere_and_resumed_it_is_the_same(run, files, jsonl):
    source, output = files
    ask = ("--input", source, "--output", output, *jsonl)
    assert run(*ask)[0] == 0
    whole = output.read_bytes()
    output.unlink()
    with dies_at(WordByWord, "translate", 2):
        sys.argv = ["transduce", "translate", "model", *map(str, ask)]
        cli.main()
    record = sidecar(output).read_bytes()
    rng = random.Random(1)
    cuts = [0, 1, len(whole) - 1, len(whole), *(rng.randrange(len(whole)) for _ in range(6))]
    for cut in cuts:
        output.write_bytes(whole[:cut])
        sidecar(output).write_bytes(record)
        code, err = run(*ask, "--resume")
        assert code == 0, err
        assert output.read_bytes() == whole, cut
        assert not sidecar(output).exists()


@pytest.mark.parametrize("window", [1, 2, 3])
def test_killed_while_translating_and_resumed(run, files, window):
    source, output = files
    ask = ("--input", source, "--output", output)
    with dies_at(WordByWord, "translate", window + 1):  # the first call only checks the settings
        sys.argv = ["transduce", "translate", "model", *map(str, ask)]
        cli.main()
    assert sidecar(output).exists()
    code, err = run(*ask, "--resume")
    assert code == 0
    assert ("goes on there" in err) == (window > 1)
    assert output.read_bytes().count(b"\n") == 2500
    resumed = output.read_bytes()
    assert run(*ask, "--overwrite")[0] == 0
    assert output.read_bytes() == resumed


def test_alignments_go_on_together_with_the_lines(run, files):
    source, output = files
    aligned = output.with_name("aligned")
    ask = ("--input", source, "--output", output, "--alignments", aligned)
    assert run(*ask)[0] == 0
    whole = output.read_bytes(), aligned.read_bytes()
    assert whole[1].count(b"\n") == 2500
    output.unlink()
    aligned.unlink()
    with dies_at(WordByWord, "translate", 3):
        sys.argv = ["transduce", "translate", "model", *map(str, ask)]
        cli.main()
    record = sidecar(output).read_bytes()
    for cut, other in ((0.5, 0.9), (0.9, 0.5), (0.99, 0.0)):
        output.write_bytes(whole[0][: int(len(whole[0]) * cut)])
        aligned.write_bytes(whole[1][: int(len(whole[1]) * other)])
        sidecar(output).write_bytes(record)
        assert run(*ask, "--resume")[0] == 0
        assert (output.read_bytes(), aligned.read_bytes()) == whole
    output.unlink()
    code, err = run(*ask)
    assert code == 2
    assert "aligned exists: --overwrite replaces it" in err


def test_an_output_is_not_lost_by_running_the_command_again(run, files):
    source, output = files
    output.write_text("precious\n")
    code, err = run("--input", source, "--output", output)
    assert (code, output.read_text()) == (2, "precious\n")
    assert "exists: --overwrite replaces it" in err
    with dies_at(WordByWord, "translate", 3):
        sys.argv = ["transduce", "translate", "model", "--input", str(source), "--output", str(output)]
        output.unlink()
        cli.main()
    before = output.read_bytes()
    code, err = run("--input", source, "--output", output)
    assert code == 2
    assert "is an interrupted translation: --resume continues it, --overwrite replaces it" in err
    assert output.read_bytes() == before


def test_an_empty_output_and_a_device_may_be_written(run, files):
    source, output = files
    output.touch()
    assert run("--input", source, "--output", output)[0] == 0
    assert run("--input", source, "--output", "/dev/null")[0] == 0
    assert not sidecar(output.parent / "null").exists()


def test_a_pipe_is_read_once(run, files):
    """`--input <(zcat a.gz)`: to count its lines first would use them up."""
    reader, writer = os.pipe()
    os.write(writer, b"one two\nthree\n")
    os.close(writer)
    assert run("--input", f"/dev/fd/{reader}", "--output", files[1])[0] == 0
    os.close(reader)
    assert files[1].read_bytes() == b"TWO ONE\nTHREE\n"
    code, err = run("--output", files[1])  # from stdin
    assert code == 2
    assert "exists: --overwrite replaces it" in err


def test_a_whole_output_is_left_alone(run, files):
    source, output = files
    run("--input", source, "--output", output)
    stamp = output.stat().st_mtime_ns
    code, err = run("--input", source, "--output", output, "--resume")
    assert code == 0
    assert "has all of its 2,500 lines; nothing to do" in err
    assert output.stat().st_mtime_ns == stamp


def interrupted(run, source, output, *more):
    with dies_at(WordByWord, "translate", 3):
        sys.argv = ["transduce", "translate", "model", "--input", str(source), "--output", str(output), *more]
        cli.main()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("weights", "the model"),
        ("beam", "beam_size was 2, is 1"),
        ("set", "max_len_ratio was not given, is 3"),
        ("jsonl", "jsonl was False, is True"),
        ("repair", "repair was False, is True"),
        ("input", "the input's content"),
        ("no record", "is not there"),
        ("damaged record", "cannot be read"),
        ("more lines", "2,501 lines, more than the 2,500 of the input"),
    ],
)
def test_what_was_begun_differently_is_not_continued(run, files, model, change, words):
    source, output = files
    interrupted(run, source, output, "--beam-size", "2")
    more = ["--beam-size", "2"]
    if change == "weights":
        (model / "model.safetensors").write_bytes(b"others")
    elif change == "beam":
        more = ["--beam-size", "1"]
    elif change == "set":
        more += ["--set", "search.max_len_ratio=3"]
    elif change in ("jsonl", "repair"):
        more += [f"--{change}"]
    elif change == "input":
        source.write_bytes(source.read_bytes().replace(b"line 1", b"line one"))
    elif change == "no record":
        sidecar(output).unlink()
    elif change == "damaged record":
        sidecar(output).write_text("[")
    else:
        output.write_bytes(b"\n" * 2501)
    before = output.read_bytes()
    code, err = run("--input", source, "--output", output, "--resume", *more)
    assert code == 2
    assert words in err
    assert "--overwrite" in err
    assert output.read_bytes() == before
    assert run("--input", source, "--output", output, "--overwrite", *more)[0] == 0
    assert output.read_bytes().count(b"\n") == 2500
    assert not sidecar(output).exists()


def test_the_card_is_no_part_of_the_model(model):
    before = model_fingerprint(model)
    (model / "card.md").write_text("other words")
    assert model_fingerprint(model) == before
    (model / "recipe.toml").write_text("schema = 1\nx = 2\n")
    assert model_fingerprint(model) != before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume"], "--resume continues a file: give --input FILE and --output FILE"),
        (["--input", "in.txt", "--resume"], "--resume continues a file"),
        (["--input", "in.txt", "--output", "o", "--resume", "--overwrite"], "give one of them"),
        (
            ["--input", "in.txt", "--input-format", "pdf"],
            "unknown --input-format 'pdf'; there are auto",
        ),
        (["--input-format", "html"], "--input-format html reads a file: give --input FILE"),
        (["--input", "none.po"], "none.po: no such file"),
        (["--input", "a.po", "--jsonl"], "not for documents"),
        (["--input", "."], "is a folder: give --output DIR"),
    ],
)
def test_what_cannot_be_asked_is_told(run, files, arguments, words):
    (files[0].parent / "a.po").write_text('msgid "a"\nmsgstr ""\n')
    code, err = run(*arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "lines", "left"),
    [(b"", 0, b""), (b"a", 0, b""), (b"a\n", 1, b"a\n"), (b"a\n\nb", 2, b"a\n\n"), (b"\n" * 9, 9, b"\n" * 9)],
)
def test_only_whole_lines_stay(tmp_path, content, lines, left):
    (tmp_path / "f").write_bytes(content)
    assert cut_to_whole_lines(tmp_path / "f") == lines
    assert (tmp_path / "f").read_bytes() == left


def test_only_so_many_lines_stay(tmp_path):
    (tmp_path / "f").write_bytes(b"0123456789\n" * 50 + b"0123456789" * 3)
    assert cut_to_whole_lines(tmp_path / "f", most=7) == 7
    assert (tmp_path / "f").read_bytes() == b"0123456789\n" * 7


def test_scores_too_are_the_same_to_the_last_digit(digit_run, tmp_path, monkeypatch, capfd):
    """A real model: what is translated together is the same after an interruption."""
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{pair[0]}\n" for pair in digit_pairs(1300, seed=8)))
    command = ["transduce", "translate", str(digit_run), "--input", str(source), "--output", str(output)]
    command += ["--jsonl", "--beam-size", "1"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        cli.main()
    whole = output.read_bytes()
    assert len(json.loads(whole.splitlines()[1100])["tokens"]) > 1
    with dies_at(Translator, "translate", 3):
        monkeypatch.setattr(sys, "argv", [*command, "--overwrite"])
        cli.main()
    cut = whole.index(b"\n", len(whole) * 9 // 10) + 5
    output.write_bytes(whole[:cut])
    monkeypatch.setattr(sys, "argv", [*command, "--resume"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0, capfd.readouterr().err
    assert output.read_bytes() == whole


@pytest.mark.slow
def test_killed_by_the_system_and_resumed(digit_run, tmp_path):
    """SIGKILL at random moments, until it is whole: byte by byte the undisturbed output."""
    source = tmp_path / "in"
    source.write_text("".join(f"{pair[0]}\n" for pair in digit_pairs(12_000, seed=5)))
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "translate", str(digit_run)]
    command += ["--input", str(source), "--beam-size", "1", "--output"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, timeout=300)
    output, rng = tmp_path / "out", random.Random(3)
    kills = 0
    for _ in range(3):
        process = subprocess.Popen([*command, str(output), "--resume"], stderr=subprocess.PIPE)
        size = output.stat().st_size if output.exists() else 0
        while process.poll() is None and (not output.exists() or output.stat().st_size <= size):
            time.sleep(0.01)
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills, "the machine is too fast for this test: give it more lines"
    subprocess.run([*command, str(output), "--resume"], check=True, timeout=300)
    assert output.read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "whole"]
