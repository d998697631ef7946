"""A folder in, the same tree out: what is known is translated, what is broken is told, the rest goes on."""

from __future__ import annotations

import gzip
import sys

import pytest

from document_samples import SAMPLES, docx_sample
from kills import dies_at
from transduce import cli, cli_options
from transduce.translate.resume import sidecar
from transduce.translate.translator import Translator
from word_by_word import WordByWord


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "recipe.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Translator, "load", lambda path, **how: WordByWord())

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["transduce", "translate", "model", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        assert out == ""
        return left.value.code, err

    return call


@pytest.fixture
def site(tmp_path):
    """One of each format in a tree, with a file of no known one, a hidden one and a link."""
    folder = tmp_path / "site"
    (folder / "deep" / "er").mkdir(parents=True)
    for n, (file, content, _) in enumerate(SAMPLES.values()):
        (folder / ["", "deep", "deep/er"][n % 3] / file).write_bytes(content.encode())
    (folder / "a.docx").write_bytes(docx_sample())
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"one two\n"))
    (folder / "logo.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.txt").write_text("secret\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.txt").write_text("secret\n")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    return folder


def tree(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and "loop" not in p.parts}


def test_every_known_file_is_translated_into_the_same_tree(run, site, tmp_path):
    code, err = run("--input", site, "--output", "out")
    assert code == 0
    expected = {n.removesuffix(".gz") for n in tree(site) if not n.startswith(".") and not n.endswith(".png")}
    assert tree(tmp_path / "out") == expected
    assert f"{len(expected)} files translated" in err
    assert "1 files are of no known format and were left out (1 .png)" in err
    assert (tmp_path / "out" / "b.txt").read_text() == "TWO ONE\n"
    assert b"HELLO" in (tmp_path / "out" / "deep" / "a.html").read_bytes()
    assert not sidecar(tmp_path / "out").exists()


def test_other_files_are_copied_on_request(run, site, tmp_path):
    assert run("--input", site, "--output", "out", "--copy-others")[0] == 0
    assert (tmp_path / "out" / "logo.png").read_bytes() == b"\x89PNG"
    assert not (tmp_path / "out" / ".git").exists()


def test_one_broken_file_does_not_stop_the_others(run, site, tmp_path):
    (site / "bad.po").write_text("no catalogue\n")
    (site / "deep" / "bad.docx").write_bytes(b"no archive")
    (site / "bad.txt").write_bytes(b"ok\n\xff\n")
    code, err = run("--input", site, "--output", "out")
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith("error: 3 of 14 files were not translated: ")
    assert "--resume" in last
    assert err.count("not translated: ") == 4
    assert "bad.txt:2: byte 0xff" in err
    assert (tmp_path / "out" / "a.docx").exists()
    assert not (tmp_path / "out" / "bad.po").exists()
    # Mended, and the same command again: only what is missing is done.
    (site / "bad.po").write_text('msgid "a"\nmsgstr ""\n')
    (site / "deep" / "bad.docx").write_bytes(docx_sample())
    code, err = run("--input", site, "--output", "out", "--resume", "--copy-others")
    assert "11 files finished before" in err
    assert code == 2  # bad.txt is still bad
    assert "1 of 14 files were not translated" in err


def test_a_killed_folder_goes_on_where_it_was(run, site, tmp_path):
    assert run("--input", site, "--output", "whole")[0] == 0
    with dies_at(WordByWord, "translate", 7):
        sys.argv = ["transduce", "translate", "model", "--input", str(site), "--output", "out"]
        cli.main()
    assert sidecar(tmp_path / "out").exists()
    some = tree(tmp_path / "out")
    assert some
    assert run("--input", site, "--output", "out")[0] == 2  # not without saying what to do
    code, err = run("--input", site, "--output", "out", "--resume", "--beam-size", "3")
    assert code == 2
    assert "beam_size was not given, is 3" in err
    code, err = run("--input", site, "--output", "out", "--resume")
    assert code == 0
    assert "files finished before" in err
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    for name in tree(tmp_path / "out"):
        if not name.endswith(".docx"):
            assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_output_inside_the_input_is_not_translated_again(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one two\n")
    for _ in range(2):
        assert run("--input", "in", "--output", "in/out", "--resume")[0] == 0
    assert tree(tmp_path / "in") == {"a.txt", "out/a.txt"}
    assert run("--input", "in", "--output", "in/copy", "--copy-others")[0] == 0
    assert tree(tmp_path / "in" / "copy") == {"a.txt", "out/a.txt"}


def test_only_one_format_on_request(run, site, tmp_path):
    assert run("--input", site, "--output", "out", "--input-format", "html")[0] == 0
    assert tree(tmp_path / "out") == {"deep/a.html"}


def test_paragraphs_of_text_files_on_request(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n\nthree\n")
    assert run("--input", "in", "--output", "out", "--input-format", "paragraphs")[0] == 0
    assert (tmp_path / "out" / "a.txt").read_text() == "TWO ONE\n\nTHREE\n"


def test_two_files_with_one_translation_are_told(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one two\n")
    (tmp_path / "in" / "a.txt.gz").write_bytes(gzip.compress(b"three four\n"))
    code, err = run("--input", "in", "--output", "out", "--overwrite")
    assert code == 2
    assert "out/a.txt is the translation of another file" in err
    assert (tmp_path / "out" / "a.txt").read_text() == "TWO ONE\n"


@pytest.mark.parametrize(
    ("output", "more", "words"),
    [
        ("full", [], "full is not empty: --resume goes on with what is missing"),
        ("site", [], "is the input as well"),
        ("file", [], "file is a file"),
        ("new", ["--jsonl"], "not for documents and folders"),
    ],
)
def test_what_cannot_be_asked_is_told(run, site, tmp_path, output, more, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("precious")
    (tmp_path / "file").write_text("precious")
    code, err = run("--input", site, "--output", output, *more)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert (tmp_path / "full" / "x").read_text() == "precious"


# --- One document -------------------------------------------------------------------------------


def test_a_document_through_the_command(run, tmp_path):
    (tmp_path / "a.html").write_text("<p>one <b>two</b> three</p>")
    assert run("--input", "a.html", "--output", "b.html")[0] == 0
    assert (tmp_path / "b.html").read_text() == "<p>THREE <b>TWO</b> ONE</p>"
    code, err = run("--input", "a.html", "--output", "b.html")
    assert code == 2
    assert "b.html exists: --overwrite replaces it" in err
    assert "nothing to do" in run("--input", "a.html", "--output", "b.html", "--resume")[1]
    assert run("--input", "a.html", "--output", "b.html", "--overwrite")[0] == 0


def test_a_device_is_written_to_and_not_replaced(run, tmp_path):
    import os

    (tmp_path / "a.html").write_text("<p>one two</p>")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("--input", "a.html", "--output", "pipe")[0] == 0
    assert os.read(reader, 100) == b"<p>TWO ONE</p>"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_document_named_otherwise(run, tmp_path):
    (tmp_path / "page").write_text("<p>one two</p>")
    assert run("--input", "page", "--output", "out", "--input-format", "html")[0] == 0
    assert (tmp_path / "out").read_text() == "<p>TWO ONE</p>"
    assert run("--input", "page", "--output", "lines")[0] == 0
    assert (tmp_path / "lines").read_text() == "TWO</P> <P>ONE\n"


def test_what_was_kept_and_what_is_doubtful_is_told(run, tmp_path):
    (tmp_path / "a.po").write_text(SAMPLES["po"][1])
    code, err = run("--input", "a.po", "--output", "b.po", "--no-fuzzy")
    assert code == 0
    assert "1 texts had a translation and were kept (--retranslate replaces them)" in err
    assert (tmp_path / "b.po").read_text().count("#, fuzzy") == 1


def test_placeholders_stay_without_being_asked_for(digit_run, tmp_path, monkeypatch, capfd):
    """A real model, whose search is made to write them."""
    import polib

    messages = ["one {name} two", "three %(count)d four", "five https://example.org/a six"]
    text = "".join(f'msgid "{message}"\nmsgstr ""\n\n' for message in messages)
    (tmp_path / "a.po").write_text(text)
    command = ["translate", digit_run, "--input", tmp_path / "a.po", "--output", tmp_path / "b.po"]
    monkeypatch.setattr(sys, "argv", ["transduce", *map(str, command)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0, capfd.readouterr().err
    for entry, kept in zip(
        polib.pofile(str(tmp_path / "b.po")), ("{name}", "%(count)d", "https://example.org/a"), strict=True
    ):
        assert entry.msgstr.count(kept) == 1
        assert entry.msgstr != entry.msgid


def test_a_word_document_needs_a_file(run, tmp_path):
    (tmp_path / "a.docx").write_bytes(docx_sample())
    code, err = run("--input", "a.docx")
    assert code == 2
    assert "give --output FILE" in err


def test_the_help_names_every_format():
    from transduce.translate.documents import FORMATS

    (option,) = cli_options.InputFormat.__metadata__
    for name in FORMATS:
        assert name in option.help
