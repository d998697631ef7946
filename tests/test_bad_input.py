"""What a user sees for bad input: one line on stderr that says what came and what to do, exit code 2.

Each case makes its files in an empty directory, runs the real command there, and names the words
that its message must hold. Nothing may be left behind but what the case itself made.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys

import pytest

from transduce import cli

TRAIN = ["train", "--source", "a.en", "--target", "a.de", "--out", "run"]
CHECK = ["check", "--source", "a.en", "--target", "a.de"]
MODEL = ["translate", "model"]


def pairs(directory, source=b"one\ntwo\n", target=b"eins\nzwei\n"):
    (directory / "a.en").write_bytes(source)
    (directory / "a.de").write_bytes(target)


def one_file(name, content):
    def make(directory, model):
        (directory / name).write_bytes(content)

    return make


def two_files(source=b"one\ntwo\n", target=b"eins\nzwei\n"):
    def make(directory, model):
        pairs(directory, source, target)

    return make


def model_with(file, content=None, *, change=None):
    def make(directory, model):
        shutil.copytree(model, directory / "model")
        path = directory / "model" / file
        if content is not None:
            path.write_bytes(content)
        elif change is not None:
            path.write_text(change(path.read_text()))
        else:
            path.unlink()

    return make


def a_model(directory, model):
    shutil.copytree(model, directory / "model")


def a_model_and(name, content):
    def make(directory, model):
        a_model(directory, model)
        (directory / name).write_bytes(content)

    return make


def nothing(directory, model):
    pass


def a_directory(directory, model):
    (directory / "a.en").mkdir()
    (directory / "a.de").write_text("eins\n")


TMX = b'<?xml version="1.0"?><tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>one</seg></tuv></tu></body>'

CASES = {
    # text
    "no such file": (nothing, CHECK, ["a.en"]),
    "a directory": (a_directory, CHECK, ["a.en", "directory"]),
    "fewer target lines": (two_files(b"1\n2\n3\n"), CHECK, ["3", "2", "a.de"]),
    "fewer source lines": (two_files(b"1\n"), CHECK, ["1", "2", "a.en"]),
    "both empty": (two_files(b"", b""), TRAIN, ["no text"]),
    "only blank lines": (two_files(b"\n\n", b"\n \n"), TRAIN, ["no text"]),
    "not UTF-8": (two_files(b"one\ntw\xff\n"), CHECK, ["a.en:2", "0xff", "--repair"]),
    "UTF-16": (two_files("one\ntwo\n".encode("utf-16")), CHECK, ["a.en:1", "UTF-8"]),
    "damaged gzip": (
        one_file("a.tsv.gz", gzip.compress(bytes(f"{list(range(400))}\tb\n", "ascii"))[:99]),
        ["check", "--source", "a.tsv.gz"],
        ["a.tsv.gz"],
    ),
    "no gzip": (one_file("a.tsv.gz", b"one\teins\n"), ["check", "--source", "a.tsv.gz"], ["a.tsv.gz"]),
    "no zstd": (one_file("a.tsv.zst", b"one\teins\n"), ["check", "--source", "a.tsv.zst"], ["a.tsv.zst"]),
    "three columns": (
        one_file("a.tsv", b"a\tb\nc\td\te\n"),
        ["check", "--source", "a.tsv"],
        ["a.tsv:2", "3"],
    ),
    "one column": (one_file("a.tsv", b"a\n"), ["check", "--source", "a.tsv"], ["a.tsv:1"]),
    "one file of unknown form": (
        one_file("a.txt", b"a\n"),
        ["check", "--source", "a.txt"],
        [".tsv", ".jsonl", ".tmx"],
    ),
    "bad JSON": (one_file("a.jsonl", b'{"source": 1\n'), ["check", "--source", "a.jsonl"], ["a.jsonl:1"]),
    "JSON without target": (
        one_file("a.jsonl", b'{"source": "a"}\n'),
        ["check", "--source", "a.jsonl"],
        ["a.jsonl:1", "target"],
    ),
    "TMX without languages": (
        one_file("a.tmx", TMX + b"</tmx>"),
        ["check", "--source", "a.tmx"],
        ["language"],
    ),
    "broken TMX": (
        one_file("a.tmx", TMX),
        ["check", "--source", "a.tmx", "--source-language", "en", "--target-language", "de"],
        ["a.tmx"],
    ),
    "too little to hold out": (two_files(), TRAIN, ["too few", "--valid-source"]),
    "validation files differ": (
        lambda directory, model: (pairs(directory), (directory / "v").write_text("one\n")),
        [*TRAIN, "--valid-source", "v", "--valid-target", "a.de"],
        ["v", "a.de"],
    ),
    "no validation file": (two_files(), [*TRAIN, "--valid-source", "v", "--valid-target", "w"], ["v"]),
    # settings
    "no text named": (nothing, ["train"], ["--source"]),
    "unknown preset": (nothing, ["train", "--preset", "smal"], ["small"]),
    "unknown setting": (two_files(), [*TRAIN, "--set", "train.max_stps=3"], ["max_steps"]),
    "unknown room": (two_files(), [*TRAIN, "--set", "trian.max_steps=3"], ["train"]),
    "setting without value": (two_files(), [*TRAIN, "--set", "train.max_steps"], ["room.field=value"]),
    "a word for a number": (two_files(), [*TRAIN, "--set", "train.max_steps=many"], ["max_steps", "integer"]),
    "heads that do not divide": (
        two_files(),
        [*TRAIN, "--set", "model.num_heads=3"],
        ["d_model (256)", "num_heads (3)"],
    ),
    "no end": (two_files(), [*TRAIN, "--set", "train.max_steps=0"], ["max_steps", "max_minutes"]),
    "average more than is kept": (
        two_files(),
        [*TRAIN, "--set", "train.average_checkpoints=50"],
        ["keep_checkpoints"],
    ),
    "separate pieces, shared embedding": (
        two_files(),
        [*TRAIN, "--set", "tokenizer.joint=false"],
        ["model.tie"],
    ),
    "one source again and again": (
        two_files(b"one\n" * 30, b"".join(b"%d\n" % i for i in range(30))),
        [*TRAIN, "--set", "cleaning.drop_duplicates=false"],
        ["same source", "--valid-source"],
    ),
    "recipe that is no TOML": (one_file("r.toml", b"[train\n"), ["train", "r.toml"], ["r.toml", "TOML"]),
    "recipe of a later version": (
        one_file("r.toml", b"schema = 99\n"),
        ["train", "r.toml"],
        ["schema 99", "upgrade"],
    ),
    # a model to begin from
    "from nowhere": (two_files(), [*TRAIN, "--from", "model"], ["no model directory model"]),
    "from no model": (
        lambda directory, model: (pairs(directory), (directory / "model").mkdir()),
        [*TRAIN, "--from", "model"],
        ["model is no model directory", "recipe.toml"],
    ),
    "from damaged weights": (
        lambda directory, model: (
            pairs(directory),
            model_with("model.safetensors", b"\0" * 99)(directory, model),
        ),
        [*TRAIN, "--from", "model"],
        ["model.safetensors", "cannot be read"],
    ),
    "from a model of another form": (
        lambda directory, model: (pairs(directory), a_model(directory, model)),
        [*TRAIN, "--from", "model", "--set", "model.d_ff=64"],
        ["model.d_ff is 128 in the model, 64 in the recipe", "without --from"],
    ),
    "another vocabulary without asking": (
        lambda directory, model: (pairs(directory), a_model(directory, model)),
        [*TRAIN, "--from", "model", "--set", "tokenizer.kind=unigram"],
        ["tokenizer.kind", "--new-vocabulary"],
    ),
    "a new vocabulary for no model": (two_files(), [*TRAIN, "--new-vocabulary"], ["--from MODEL"]),
    # models and requests
    "no model": (nothing, MODEL, ["no model directory"]),
    "not a model": (lambda directory, model: (directory / "model").mkdir(), MODEL, ["recipe.toml"]),
    "no weights": (model_with("model.safetensors"), MODEL, ["model.safetensors"]),
    "damaged weights": (model_with("model.safetensors", b"\0" * 99), MODEL, ["model.safetensors"]),
    "foreign weights": (
        model_with("recipe.toml", change=lambda text: text.replace("d_ff = 128", "d_ff = 64")),
        MODEL,
        ["has shape"],
    ),
    "no tokenizer": (model_with("tokenizer.model"), MODEL, ["tokenizer"]),
    "damaged tokenizer": (model_with("tokenizer.model", b"no"), MODEL, ["tokenizer"]),
    "more answers than the beam": (
        a_model,
        [*MODEL, "--beam-size", "2", "--n-best", "3"],
        ["n_best", "beam_size"],
    ),
    "beam of nothing": (a_model, [*MODEL, "--beam-size", "0"], ["beam_size"]),
    "another room at decoding": (a_model, [*MODEL, "--set", "train.max_steps=1"], ["search settings"]),
    "unknown search setting": (a_model, [*MODEL, "--set", "search.beem_size=1"], ["beam_size"]),
    "export to a form that is none": (a_model, ["export", "model", "--to", "pdf"], ["'pdf'", "hf, onnx"]),
    "export into a file": (
        lambda directory, model: (a_model(directory, model), (directory / "out").write_text("mine")),
        ["export", "model", "--to", "hf", "--out", "out"],
        ["out is a file"],
    ),
    "import of a model that is ours": (
        a_model,
        ["import", "model", "--out", "other"],
        ["config.json", "Marian directory"],
    ),
    "import of another network": (
        lambda directory, model: (
            (directory / "bert").mkdir(),
            (directory / "bert" / "config.json").write_text('{"model_type": "bert"}'),
        ),
        ["import", "bert", "--out", "other"],
        ["'bert'", "marian"],
    ),
    "no input": (a_model, [*MODEL, "--input", "none.txt"], ["none.txt"]),
    "an output that exists": (
        a_model_and("out", b"precious\n"),
        [*MODEL, "--output", "out"],
        ["out exists", "--overwrite"],
    ),
    "a catalogue that is none": (
        a_model_and("a.po", b"no\n"),
        [*MODEL, "--input", "a.po"],
        ["a.po", "msgid"],
    ),
    "XML that declares entities": (
        a_model_and("a.xlf", b'<!DOCTYPE x [<!ENTITY a "b">]><xliff version="1.2"/>'),
        [*MODEL, "--input", "a.xlf"],
        ["a.xlf", "declares entities"],
    ),
    "no Word document": (
        a_model_and("a.docx", b"no"),
        [*MODEL, "--input", "a.docx", "--output", "b.docx"],
        ["a.docx", "zip"],
    ),
    "an unknown format": (a_model, [*MODEL, "--input-format", "pdf"], ["pdf", "docx"]),
    "output where nothing can be": (
        lambda directory, model: (a_model(directory, model), (directory / "in").write_text("one\n")),
        [*MODEL, "--input", "in", "--output", "no/where/out"],
        ["no/where/out"],
    ),
}


def test_there_are_thirty_kinds():
    assert len(CASES) >= 30


@pytest.mark.parametrize("name", CASES)
def test_one_line_that_helps(name, tmp_path, monkeypatch, capfd, digit_run):
    make, arguments, words = CASES[name]
    make(tmp_path, digit_run / "model")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["transduce", *arguments])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n")))
    with pytest.raises(SystemExit) as left:
        cli.main()
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert left.value.code == 2, err
    assert out == ""
    assert len(lines) == 1, err
    assert err.endswith(lines[0] + "\n")
    assert "Traceback" not in err
    for word in words:
        assert word in lines[0], f"{lines[0]!r} does not say {word!r}"
    if arguments[0] != "train":
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
    else:  # a run may have begun, but nothing half-made may look finished
        assert not list(tmp_path.rglob("store.json"))
        assert not list(tmp_path.rglob("*.tmp"))


def test_json_of_a_report_is_json(tmp_path, monkeypatch, capfd):
    pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["transduce", *CHECK, "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert json.loads(capfd.readouterr().out)
