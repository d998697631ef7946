"""Real corpora: what their READMEs state is found exactly, and little else is called wrong.

The texts are not part of the project; without them beside the checkout these tests skip.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transduce.errors import DataError
from transduce.text import (
    CheckReport,
    CleaningConfig,
    MemoryCorpus,
    TokenizerConfig,
    check_corpus,
    clean,
    open_corpus,
    read_lines,
    train_tokenizers,
)


@pytest.fixture(scope="module")
def multi30k(shared_data: Path) -> Path:
    return shared_data / "multi30k"


@pytest.fixture(scope="module")
def captions(multi30k: Path) -> CheckReport:
    return check_corpus(open_corpus(multi30k / "train.en.gz", multi30k / "train.de.gz"), CleaningConfig())


def test_multi30k_is_reported_as_its_readme_says(captions: CheckReport) -> None:
    found = {(f.kind, f.side): (f.lines, f.occurrences) for f in captions.findings}
    assert found == {
        ("ratio", "pair"): (2, 2),
        ("duplicate", "pair"): (3, 3),
        ("several_targets", "pair"): (6, 6),
        ("tab", "target"): (1, 1),
        ("no_break_space", "target"): (44, 47),
        ("joiner", "target"): (2, 2),
        ("entity", "source"): (16, 16),
        ("entity", "target"): (1, 1),
        ("spaces", "source"): (1, 2),
        ("spaces", "target"): (84, 84),
    }
    places = {(f.kind, f.side): [e.where for e in f.examples] for f in captions.findings}
    assert places["joiner", "target"] == ["train.de.gz:16510", "train.de.gz:16664"]
    assert places["tab", "target"] == ["train.de.gz:7366"]
    assert places["entity", "target"] == ["train.de.gz:14875"]
    assert [where.rpartition(":")[2] for where in places["ratio", "pair"]] == ["16510", "16664"]


def test_multi30k_counts(captions: CheckReport) -> None:
    assert captions.pairs == 29_000
    assert captions.source.different == 28_991
    assert captions.source.words.max == 37
    assert (captions.kept, captions.dropped) == (28_995, {"ratio": 2, "duplicate": 3})


@pytest.mark.parametrize("pair", [("de", "fr"), ("en", "cs")])
def test_other_languages_have_few_false_alarms(multi30k: Path, pair: tuple[str, str]) -> None:
    source, target = (list(read_lines(multi30k / f"val.{language}.gz")) for language in pair)
    report = check_corpus(MemoryCorpus(zip(source, target, strict=True)), CleaningConfig())
    assert report.dropped == {}


def test_injected_mix_ups_are_found(multi30k: Path) -> None:
    english, german = (list(read_lines(multi30k / f"val.{language}.gz")) for language in ("en", "de"))
    pairs = list(zip(english, german, strict=True))
    swapped, untranslated = range(100, 150), range(300, 350)
    for number in swapped:
        pairs[number] = pairs[number][::-1]
    for number in untranslated:
        pairs[number] = (pairs[number][0], english[number + 50])
    corpus = clean(MemoryCorpus(pairs), CleaningConfig())
    dropped = set(range(len(pairs))) - {pair.line - 1 for pair in corpus}
    wrong = set(swapped) | set(untranslated)
    assert len(wrong - dropped) <= 2
    assert len(dropped - wrong) == 0


def test_tatoeba_has_few_false_alarms(shared_data: Path) -> None:
    folder = shared_data / "tatoeba-cmn-eng"
    report = check_corpus(open_corpus(folder / "train.en.gz", folder / "train.zh.gz"), CleaningConfig())
    assert (report.source.scripts, report.target.scripts) == (("Latin",), ("Han",))
    assert sum(report.dropped.values()) <= 2


@pytest.mark.parametrize(("side", "line"), [("en", 11), ("de", 500), ("en", 1000), ("de", 742)])
def test_a_lost_caption_is_placed(multi30k: Path, tmp_path: Path, side: str, line: int) -> None:
    for language in ("en", "de"):
        lines = list(read_lines(multi30k / f"val.{language}.gz"))
        if language == side:
            del lines[line - 1]
        (tmp_path / f"val.{language}").write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        list(open_corpus(tmp_path / "val.en", tmp_path / "val.de"))
    named = int(str(caught.value).partition("near line ")[2].partition(":")[0].replace(",", ""))
    assert abs(named - line) <= 6


def test_tokenizer_of_captions(multi30k: Path, tmp_path: Path) -> None:
    corpus = open_corpus(multi30k / "train.en.gz", multi30k / "train.de.gz")
    tokenizer, _ = train_tokenizers(corpus, TokenizerConfig(sample_size=5000), tmp_path)
    assert tokenizer.vocab_size == 8000
    lines = list(read_lines(multi30k / "val.de.gz"))
    ids = tokenizer.encode_batch(lines)
    assert [tokenizer.decode(row) for row in ids] == [" ".join(line.split(" ")).strip() for line in lines]
    assert np.mean([len(row) for row in ids]) < 16
