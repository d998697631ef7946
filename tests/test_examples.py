"""The examples run, and detokenising does what it says."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from digits import ROOT, digit_pairs
from transduce.recipe import load_recipe
from transduce.text.lines import read_lines

EXAMPLES = ROOT / "examples"
ENVIRONMENT = os.environ | {"TRANSDUCE": str(Path(sys.executable).parent / "transduce")}
GZIP = gzip.compress(b"Ein Mann ruft die Frau.\n" * 9)


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(command, timeout=300):
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=timeout)


@pytest.mark.parametrize(
    ("tokenised", "plain"),
    [
        ("ein mann , der 3 @-@ d @-@ brillen trägt .", "ein mann, der 3-d-brillen trägt."),
        ("&quot; na klar &quot; , sagt er &amp; geht", '"na klar", sagt er & geht'),
        ("( links ) und rechts !", "(links) und rechts!"),
        ("", ""),
    ],
)
def test_detokenise(tokenised, plain):
    assert load("detokenise").detokenise(tokenised) == plain


@pytest.mark.parametrize(
    ("lower", "cased"),
    [
        ("der mann trägt eine 3-d-brille.", "Der Mann trägt eine 3-D-Brille."),  # DER stood first only once
        ('"mann!", ruft die frau.', '"Mann!", ruft die Frau.'),
        ("die eislaufhalle", "Die Eislaufhalle"),  # never seen: a compound
        ("3 männer", "3 Männer"),
        ("", ""),
    ],
)
def test_case_is_learnt_from_text(lower, cased):
    text = [
        "Der Mann ruft der Frau zu, die eine Brille trägt.",
        "DER Mann mit der 3-D-Brille trägt eine Frau.",
        "Männer! Ruft die Frau!",
        "Trägt die Frau einen Mann und ruft eine zweite Frau?",
        "",
    ]
    examples = load("detokenise")
    assert examples.with_case(lower, examples.learn_cases(text)) == cased


@pytest.mark.parametrize(
    ("name", "content"),
    [("none", None), ("latin", "Männer".encode("latin-1")), ("plain.gz", b"Ein Mann"), ("cut.gz", GZIP[:-9])],
)
def test_text_whose_cases_cannot_be_learnt_is_told_in_a_line(tmp_path, name, content):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    command = [sys.executable, str(EXAMPLES / "detokenise.py"), "--cases", str(file)]
    done = subprocess.run(command, input="ein mann .\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: --cases {file} cannot be read" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("row", load("ablate").PAPER)
def test_a_scaled_row_stands_to_the_scaled_base_as_in_the_paper(row):
    ablate = load("ablate")
    base, changed = (load_recipe(preset=ablate.preset_of(name)) for name in ("base", row))
    small_base, small = (
        load_recipe(preset=ablate.preset_of(name), overrides=ablate.scaled(recipe, 1000))
        for name, recipe in (("base", base), (row, changed))
    )
    assert small_base.model.d_model == 128
    for name in (*ablate.WIDTHS, *ablate.DEPTHS, "num_heads", "key_width", "value_width"):
        ours = getattr(small.model, name) * getattr(base.model, name)
        assert ours == getattr(changed.model, name) * getattr(small_base.model, name), name
    assert small.model.dropout == changed.model.dropout
    assert small.model.position == changed.model.position
    assert small.train.label_smoothing == changed.train.label_smoothing


@pytest.mark.slow
def test_ablate_script_prints_the_table_and_goes_on(tmp_path, write_pairs):
    """Two rows of four updates; the second time nothing is trained."""
    for name, count in (("train", 400), ("val", 20)):
        source, target = write_pairs(tmp_path / "data" / "tok" / name, digit_pairs(count))
        source.rename(source.with_suffix(".lc.norm.tok.en"))
        target.rename(target.with_suffix(".lc.norm.tok.de"))
    command = ["bash", str(EXAMPLES / "ablate.sh"), str(tmp_path / "data"), str(tmp_path / "out")]
    command += ["--rows", "base,C4", "--updates", "4", "--set", "tokenizer.vocab_size=300"]
    command += ["--set", "search.beam_size=1", "--set", "search.max_extra_len=0"]

    first = run_script(command)
    assert first.returncode == 0, first.stderr[-3000:]
    header, base, row = (line.split() for line in first.stdout.splitlines()[1:])
    assert header[:3] == ["row", "base", "with"]
    assert base[0] == "base"
    assert base[-3:] == ["M", "4.92", "25.8"]
    assert row[:4] == ["C4", "d_model", "/", "2"]
    assert int(row[4].replace(",", "")) < int(base[1].replace(",", ""))
    assert row[5] == "4"
    again = run_script(command)
    assert again.stdout == first.stdout
    assert again.stderr.count("nothing to do") == 2
    wrong = run_script([*command, "--rows", "C9"])
    assert wrong.returncode == 2
    assert "no row C9" in wrong.stderr


@pytest.mark.slow
def test_diversify_trains_on_three_texts_and_goes_on(tmp_path, write_pairs):
    """A few updates of teacher and model; the second time nothing is trained or translated."""
    source, target = write_pairs(tmp_path / "train", digit_pairs(300))
    valid_source, valid_target = write_pairs(tmp_path / "valid", digit_pairs(20))
    out = tmp_path / "run"
    command = [sys.executable, str(EXAMPLES / "diversify.py"), "--preset", "tiny"]
    command += ["--source", str(source), "--target", str(target), "--out", str(out)]
    command += ["--valid-source", str(valid_source), "--valid-target", str(valid_target)]
    command += ["--set", "train.max_steps=6", "--teacher", "train.max_steps=3"]
    command += ["--set", "tokenizer.vocab_size=300", "--set", "search.beam_size=1"]
    command += ["--set", "search.max_extra_len=0", "--set", "train.validate_sentences=0"]

    first = run_script(command)
    assert first.returncode == 0, first.stderr[-3000:]

    def lines(name):
        return list(read_lines(tmp_path / "run.text" / f"{name}.txt"))  # they may hold any character

    true_source, true_target = (list(read_lines(file)) for file in (source, target))
    assert len(lines("forward")) == len(lines("backward")) == 300
    assert lines("both.source") == true_source + true_target
    assert lines("both.target") == true_target + true_source
    assert lines("all.source") == true_source + true_source + lines("backward")
    assert lines("all.target") == true_target + lines("forward") + true_target
    for run, updates in ((out, 6), (tmp_path / "run.teacher", 3)):
        last = json.loads((run / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        assert last["step"] == updates
    again = run_script(command)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("nothing to do") == 4

    source.unlink()
    out = tmp_path / "other"
    command[command.index("--out") + 1] = str(out)
    wrong = run_script(command)
    assert wrong.returncode == 1
    assert f"error: {source}" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.slow
def test_multi30k_script_runs_to_its_end(tmp_path, shared_data):
    """Thirty updates instead of an hour; the scores are poor and the road is whole."""
    small = [
        "train.max_minutes=0",
        "train.max_steps=30",
        "train.validate_every=0",
        "train.validate_sentences=0",
    ]
    small += ["search.beam_size=1", "search.max_extra_len=0", "search.max_len_ratio=0.5"]
    command = ["bash", str(EXAMPLES / "multi30k.sh"), str(shared_data / "multi30k"), str(tmp_path / "run")]
    for setting in small:
        command += ["--set", setting]
    result = run_script(command, timeout=900)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "tok:none" in result.stdout
    assert "case:lc" in result.stdout
