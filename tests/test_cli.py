"""The command line as a newcomer meets it: answers at once, one line for each mistake, never a traceback."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys

import pytest

from digits import digit_pairs
from transduce import cli

VERBS = ("quickstart", "check", "train", "evaluate", "translate", "export", "import")


@pytest.fixture
def run(capfd, monkeypatch):
    """Call the command in this process; return exit code, stdout and stderr."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        return left.value.code, out, err

    return call


def test_help_is_complete(run):
    code, out, _ = run("--help")
    assert code == 0
    for verb in (
        "quickstart",
        "check",
        "train",
        "evaluate",
        "translate",
        "export",
        "import",
        "tune",
        "info",
        "presets",
    ):
        assert f" {verb} " in out


@pytest.mark.parametrize(
    "verb", ["quickstart", "check", "train", "evaluate", "translate", "export", "import", "tune"]
)
def test_every_verb_shows_an_example(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert out.split("─ Options")[0].count(f"transduce {verb}") >= 2  # usage and an example
    assert "For example" in out


def test_help_loads_nothing_heavy():
    heavy = [
        "torch",
        "ctranslate2",
        "numpy",
        "sentencepiece",
        "sacrebleu",
        "pydantic",
        "lxml",
        "fastapi",
        "uvicorn",
    ]
    code = (
        "import sys\nsys.argv = ['transduce', '--help']\nfrom transduce.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_version(run):
    from transduce import __version__

    assert run("--version")[:2] == (0, f"transduce {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tranlsate"], "tranlsate"),
        (["tranlsate"], "(`transduce --help` lists what there is)"),
        (["translate"], "Missing argument"),
        (["translate"], "(`transduce translate --help` lists what there is)"),
        (["translate", "/nowhere"], "there is no model directory /nowhere"),
        (["translate", "/nowhere", "--engine", "ct2"], "must be one of auto, torch, ctranslate2"),
        (["translate", "/nowhere", "--engine", "ctranslate2"], "has no export for CTranslate2"),
        (["translate", "/nowhere", "--compute-type", "int4"], "compute_type is 'int4'"),
        (["export", "/nowhere"], "there is no model directory /nowhere"),
        (
            ["export", "/nowhere", "--to", "gguf"],
            "there is no form 'gguf' to export to; there are ct2, hf, onnx",
        ),
        (["info", "/nowhere"], "there is no model directory /nowhere"),
        (["check", "--source", "/nowhere.en", "--target", "/nowhere.de"], "/nowhere.en"),
        (["check", "--source", "/nowhere.en", "--trget", "x"], "--trget"),
        (["train"], "no training text: give --source and --target"),
        (["train", "--preset", "tyni"], "did you mean tiny?"),
        (["train", "--set", "model.d_modl=3"], "did you mean d_model?"),
        (["train", "/nowhere.toml"], "the recipe /nowhere.toml cannot be read"),
        (["evaluate", "/m", "--source", "/n"], "--reference"),
        (["export", "/nowhere", "--to", "hf"], "there is no model directory /nowhere"),
        (["import", "/nowhere", "--out", "m"], "there is no directory /nowhere to import"),
        (["quickstart", "--minutes", "0"], "--minutes must be above 0"),
        (["quickstart", "--minutes", "soon"], "--minutes"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_unequal_files_name_both_counts(run, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    code, _, err = run(
        "train", "--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--out", tmp_path / "r"
    )
    assert code == 2
    assert "3" in err
    assert "2" in err


def test_a_file_that_is_not_utf8_names_the_place(run, tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\ntw\xff\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    code, _, err = run("check", "--source", tmp_path / "a.en", "--target", tmp_path / "a.de")
    assert code == 2
    assert "a.en:2" in err
    assert "--repair" in err


def test_check_reports_and_speaks_json(run, tmp_path):
    (tmp_path / "a.en").write_text("the same\nthe same\n\nthird\n")
    (tmp_path / "a.de").write_text("dasselbe\ndasselbe\nleer\ndrittes\n")
    files = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de")
    code, out, _ = run("check", *files)
    assert code == 0
    assert "a.en:2" in out
    assert json.loads(run("check", *files, "--json")[1])


def test_translate_keeps_lines_and_stdout_clean(run, digit_run):
    sources = [source for source, _ in digit_pairs(5, seed=9)]
    stdin = ("\n".join([*sources, "", "last without newline"])).encode()
    code, out, _ = run("translate", digit_run, stdin=stdin)
    assert code == 0
    lines = out.split("\n")
    assert len(lines) == 8
    assert lines[5] == ""  # the empty line
    assert lines[7] == ""  # the end of the last one


def test_translate_files(run, digit_run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("one two\nthree four five\n")
    code, out, _ = run(
        "translate", digit_run, "--input", source, "--output", tmp_path / "out.txt", "--beam-size", 1
    )
    assert (code, out) == (0, "")
    assert (tmp_path / "out.txt").read_text().count("\n") == 2
    code, _, err = run("translate", digit_run, "--input", source, "--output", source)
    assert code == 2
    assert "is the input as well" in err
    assert source.read_text().startswith("one two")


def test_jsonl_tells_everything(run, digit_run):
    code, out, _ = run("translate", digit_run, "--jsonl", "--n-best", 3, stdin=b"one two three\n\n")
    first, second = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert first["source"] == "one two three"
    assert len(first["alternatives"]) == 2
    assert first["alignment"].startswith("0-0") or "-" in first["alignment"]
    assert second["text"] == ""


def test_bad_input_ends_with_one_line_after_what_came_before(run, digit_run):
    code, out, err = run("translate", digit_run, stdin=b"one two\n\xff\n")
    assert code == 2
    assert "stdin:2" in err
    assert "Traceback" not in err
    assert out.count("\n") in (0, 1)


def test_evaluate_prints_three_scores_with_signatures(run, digit_run, tmp_path, write_pairs):
    source, target = write_pairs(tmp_path / "test", digit_pairs(20, seed=6))
    code, out, _ = run("evaluate", digit_run, "--source", source, "--reference", target)
    assert code == 0
    for name in ("BLEU", "chrF", "TER"):
        assert name in out
    assert "version:" in out
    kept = tmp_path / "kept.txt"
    code, out, _ = run(
        "evaluate", digit_run, "--source", source, "--reference", target, "--reference", target, "--json",
        "--output", kept, "--set", "search.beam_size=1",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["bleu"]["value"] > 60
    assert kept.read_text().count("\n") == 20


def test_evaluate_refuses_unequal_files(run, digit_run, tmp_path):
    (tmp_path / "s").write_text("one\n")
    (tmp_path / "r").write_text("eins\nzwei\n")
    code, _, err = run("evaluate", digit_run, "--source", tmp_path / "s", "--reference", tmp_path / "r")
    assert code == 2
    assert "has 1 lines" in err
    assert "has 2 lines" in err


def test_info_shows_the_card(run, digit_run):
    code, out, _ = run("info", digit_run)
    assert code == 0
    for part in ("# Translation model en → de", "parameters", "kept ", "BLEU", "version:", "updates"):
        assert part in out


def test_presets_are_listed_with_what_they_are_for(run):
    code, out, _ = run("presets")
    assert code == 0
    assert "base " in out
    assert "table3-A1" in out
    assert "The paper's base" in out


def test_a_closed_pipe_is_no_traceback(digit_run):
    ours = f"{sys.executable} -c 'from transduce.cli import main; main()' translate {digit_run} --beam-size 1"
    command = f"yes 'one two' | head -3000 | {ours} | head -1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert result.stdout.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_evaluate_scores_files_and_compares_systems(run, tmp_path):
    references = [f"this is the sentence number {i} of the test" for i in range(60)]
    worse = [r.replace("sentence", "line") if i % 2 else r for i, r in enumerate(references)]
    for name, lines in (("ref", references), ("good", references), ("bad", worse)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    reference = ("--reference", tmp_path / "ref")
    code, out, _ = run("evaluate", "--hypothesis", tmp_path / "good", *reference)
    assert code == 0
    assert "= 100.0" in out
    code, out, _ = run(
        "evaluate", "--hypothesis", tmp_path / "good", "--hypothesis", tmp_path / "bad", *reference
    )
    assert code == 0
    assert "p = 0.0" in out
    assert "bs:1000" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hypothesis", "a"], "--reference FILE"),
        (["--reference", "r"], "either MODEL with --source, or --hypothesis FILE"),
        (["m", "--reference", "r"], "either MODEL with --source"),
        (["m", "--source", "s", "--hypothesis", "h", "--reference", "r"], "either MODEL with --source"),
        (["--hypothesis", "a", "--hypothesis", "a", "--reference", "a"], "named twice"),
        (["--hypothesis", "a", "--reference", "a", "--tokenize", "words"], "words"),
        (["--hypothesis", "a", "--reference", "b"], "lines"),
        (["--hypothesis", "none", "--reference", "b"], "none"),
    ],
)
def test_evaluate_says_what_it_needs(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("one\n")
    code, out, err = run("evaluate", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("finished", "code"), [(True, 0), (False, 130)])
def test_a_stopped_training_leaves_with_the_shells_code_for_it(run, monkeypatch, tmp_path, finished, code):
    from transduce import pipeline
    from transduce.train.checkpoint import RunState
    from transduce.train.loop import Outcome

    outcome = Outcome("stopped by SIGINT; run the same command to go on", finished, RunState())
    monkeypatch.setattr(pipeline, "train", lambda *what, **how: outcome)
    found, _, err = run("train", "--source", "a", "--target", "b", "--out", tmp_path / "run")
    assert found == code
    assert ("run the same command" in err) == (not finished)


def test_an_export_translates_until_the_weights_change(run, digit_run, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(digit_run / "model", model)
    sources = "".join(source + "\n" for source, _ in digit_pairs(12, seed=8)).encode()
    with_torch = run("translate", model, stdin=sources)[1]
    (tmp_path / "sample.en").write_bytes(sources)
    code, out, _ = run(
        "export", model, "--to", "ct2", "--quantization", "float32", "--sample", tmp_path / "sample.en"
    )
    assert code == 0
    assert "same ids: 12 of 12" in out
    assert run("translate", model, "--engine", "ctranslate2", stdin=sources)[1] == with_torch
    assert run("translate", model, "--threads", 1, "--jsonl", stdin=b"one two\n")[0] == 0
    assert "## CTranslate2 export" in run("info", model)[1]
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    code, _, err = run("translate", model, "--engine", "ctranslate2", stdin=sources)
    assert code == 2
    assert "was made from other weights" in err
