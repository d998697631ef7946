"""Parallel readers: every format gives the same pairs, names places, and stops at what is not parallel."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
from pathlib import Path

import pytest
import zstandard

from transduce.errors import DataError
from transduce.text import Corpus, MemoryCorpus, Pair, open_corpus
from transduce.text.alignment import first_suspicious_line, sign_lines

PAIRS = [("Hello.", "Hallo."), ("", "leer"), ("Two\u2028parts", "Zwei\x0bTeile"), ("ﬁ", "fi \x00")]


def write(path: Path, lines: list[str]) -> Path:
    content = "".join(f"{line}\n" for line in lines).encode()
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def two_files(folder: Path, source: list[str], target: list[str]) -> Corpus:
    return open_corpus(write(folder / "train.en", source), write(folder / "train.de", target))


def as_pairs(corpus: Corpus) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in corpus]


def tmx(*units: str, head: str = "") -> str:
    return f'<?xml version="1.0"?>{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'


def unit(**segments: str) -> str:
    variants = (f'<tuv xml:lang="{k.replace("_", "-")}"><seg>{v}</seg></tuv>' for k, v in segments.items())
    return f"<tu>{''.join(variants)}</tu>"


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("form", ["text", "tsv", "jsonl", "translation", "tmx"])
def test_every_format_gives_the_same_pairs_again_and_again(tmp_path: Path, form: str, suffix: str) -> None:
    pairs = [(s, t) for s, t in PAIRS if form != "tmx" or not {"\x00", "\x0b"} & set(s + t)]
    if form == "text":
        corpus = open_corpus(
            write(tmp_path / f"a.en{suffix}", [s for s, _ in pairs]),
            write(tmp_path / f"a.de{suffix}", [t for _, t in pairs]),
        )
    else:
        lines = {
            "tsv": [f"{s}\t{t}" for s, t in pairs],
            "jsonl": [json.dumps({"source": s, "target": t}) for s, t in pairs],
            "translation": [json.dumps({"translation": {"de": t, "en": s, "fr": "x"}}) for s, t in pairs],
            "tmx": [tmx(*(unit(de=t, en=s) for s, t in pairs))],
        }[form]
        name = "jsonl" if form == "translation" else form
        file = write(tmp_path / f"a.{name}{suffix}", lines)
        corpus = open_corpus(file, source_language="en", target_language="de")
    assert as_pairs(corpus) == pairs
    assert as_pairs(corpus) == pairs
    assert [pair.line for pair in corpus] == list(range(1, len(pairs) + 1))
    assert not corpus.notes


def test_places_name_the_file_and_the_line(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, ["a"], ["b"])
    assert corpus.where(17) == "train.en:17 / train.de:17"
    assert corpus.where(17, "target") == "train.de:17"
    assert open_corpus(write(tmp_path / "a.tsv", [])).where(3, "source") == "a.tsv:3"
    assert MemoryCorpus([]).where(2) == "memory:2"
    (tmp_path / "en").mkdir()
    (tmp_path / "de").mkdir()
    same = open_corpus(write(tmp_path / "en" / "t", []), write(tmp_path / "de" / "t", []))
    assert same.where(1) == f"{tmp_path}/en/t:1 / {tmp_path}/de/t:1"


def test_fingerprint_follows_content_and_reading(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", ["a\tb"])
    prints = [
        two_files(tmp_path, ["a"], ["b"]).fingerprint(),
        two_files(tmp_path, ["a"], ["c"]).fingerprint(),
        two_files(tmp_path, ["b"], ["a"]).fingerprint(),
        open_corpus(tsv).fingerprint(),
        open_corpus(tsv, columns=(2, 1)).fingerprint(),
        open_corpus(tsv, repair=True).fingerprint(),
        MemoryCorpus([("a", "b")]).fingerprint(),
        MemoryCorpus([("ab", "")]).fingerprint(),
    ]
    assert len(set(prints)) == len(prints)
    assert open_corpus(tsv).fingerprint() == prints[3]
    assert open_corpus(tsv, columns=(1, 2)).fingerprint() == prints[3]


def test_text_files_keep_tabs_and_repair_is_counted(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"a\tb\n\xff\n")
    (tmp_path / "t").write_bytes(b"\tc\nd\n")
    corpus = open_corpus(tmp_path / "s", tmp_path / "t", repair=True)
    for _ in range(2):
        assert as_pairs(corpus) == [("a\tb", "\tc"), ("\ufffd", "d")]
        assert corpus.notes == {"repaired": 1}
    with pytest.raises(DataError, match=r"s:2: byte 0xff"):
        list(open_corpus(tmp_path / "s", tmp_path / "t"))


def sentences(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Sentences of varied length with some numbers and marks, and their 'translations'."""
    rng = random.Random(seed)
    source, target = [], []
    for _ in range(count):
        length, mark = rng.randint(2, 25), rng.choice(["."] * 5 + ["?", "!", ""])
        number = f" {rng.randint(1, 99)}" if rng.random() < 0.15 else ""
        source.append("word " * length + "end" + number + mark)
        target.append("Wort " * max(1, length + rng.randint(-2, 2)) + "Schluss" + number + mark)
    return source, target


@pytest.mark.parametrize("lost", ["source", "target"])
@pytest.mark.parametrize("places", [[300], [1], [950], [200, 201, 202], [150, 420, 800]])
def test_unequal_files_stop_with_both_counts_and_the_place(
    tmp_path: Path, lost: str, places: list[int]
) -> None:
    source, target = sentences(1000)
    side = source if lost == "source" else target
    for place in reversed(places):
        del side[place - 1]
    with pytest.raises(DataError) as caught:
        list(two_files(tmp_path, source, target))
    message = str(caught.value)
    assert f"train.en has {len(source):,} lines" in message
    assert f"train.de has {len(target):,};" in message
    assert "\n" not in message
    line = int(message.partition("near line ")[2].partition(":")[0].replace(",", ""))
    assert abs(line - places[0]) <= 8


def test_the_place_is_shown_from_both_files(tmp_path: Path) -> None:
    source = [f"Item {number}." for number in range(1, 60)]
    target = [f"Punkt {number}." for number in range(1, 60) if number != 20]
    with pytest.raises(DataError, match=r"near line 20: 'Item 20\.' / 'Punkt 21\.'"):
        list(two_files(tmp_path, source, target))


def test_many_lost_lines_in_one_place() -> None:
    source, target = sentences(600)
    del target[249:290]
    assert abs(first_suspicious_line(sign_lines(source), sign_lines(target)) - 250) <= 8


@pytest.mark.parametrize("clue", ["length", "number", "mark"])
def test_each_clue_is_enough_to_find_the_place(clue: str) -> None:
    rng = random.Random(2)
    forms = {
        "length": ["word " * count + "word" for count in range(1, 20)],
        "number": [f"item {number:03} here" for number in range(100)],
        "mark": [f"the same length{mark}" for mark in ".?!:"],
    }[clue]
    source = [rng.choice(forms) for _ in range(300)]
    target = source[:120] + source[121:]
    assert abs(first_suspicious_line(sign_lines(source), sign_lines(target)) - 121) <= 4


def test_files_of_very_different_length(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 0 lines, .* has 3; .*cut short"):
        list(two_files(tmp_path, [], ["a", "b", "c"]))
    with pytest.raises(DataError, match=r"has 1 lines, .* has 3"):
        list(two_files(tmp_path, ["a"], ["a", "b", "c"]))


def test_pairs_are_given_before_the_files_end(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, ["a", "b"], ["c"])
    assert list(itertools.islice(corpus, 1)) == [Pair("a", "c", 1)]


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (["a\tb", "a\tb\tc"], None, r"a\.tsv:2: 3 columns, expected 2 \(source TAB target\)"),
        (["a"], None, r"a\.tsv:1: 1 column, expected 2"),
        (["a\tb\tc"], None, r"a\.tsv:1: 3 columns, expected 2"),
        (["1\ta\t2"], (2, 4), r"a\.tsv:1: 3 columns, expected at least 4"),
        (["1\ta\t2\tb", "1\ta\t2\tb\tc"], (2, 4), r"a\.tsv:2: 5 columns, expected 4 as in line 1"),
    ],
)
def test_tsv_with_other_columns_is_refused(tmp_path: Path, lines, columns, message) -> None:
    with pytest.raises(DataError, match=message):
        list(open_corpus(write(tmp_path / "a.tsv", lines), columns=columns))


def test_tsv_columns_are_chosen_from_one_and_quotes_are_text(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path / "a.tsv", ['1\t"a\t2\tb"']), columns=(4, 2))
    assert as_pairs(corpus) == [('b"', '"a')]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"a\.jsonl:2: not JSON"),
        ("", r"a\.jsonl:2: not JSON"),
        ("[" * 100_000, r"a\.jsonl:2: not JSON"),
        ("[1]", r"a\.jsonl:2: expected an object with the texts 'source', 'target'"),
        ('{"source": "a"}', r"a\.jsonl:2: expected an object"),
        ('{"source": "a", "target": null}', r"a\.jsonl:2: expected an object"),
        ('{"translation": {"en": "a", "fr": "b"}}', r"a\.jsonl:2: expected .* 'en', 'de'"),
        ('{"translation": 3}', r"a\.jsonl:2: expected .* 'en', 'de'"),
    ],
)
def test_json_lines_that_are_not_pairs_are_placed(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path / "a.jsonl", ['{"source": "a", "target": "b"}', line])
    with pytest.raises(DataError, match=message):
        list(open_corpus(file, source_language="en", target_language="de"))


def test_json_translation_needs_languages(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", ['{"translation": {"fr": "b", "en": "a"}}'])
    with pytest.raises(DataError, match=r"choose the languages .*this line has: en, fr"):
        list(open_corpus(file))


def test_line_ends_inside_json_become_spaces_and_are_counted(tmp_path: Path) -> None:
    record = {"source": "a\nb\r\nc", "target": "d\re\u2028f"}
    corpus = open_corpus(
        write(tmp_path / "a.json", [json.dumps(record), '{"source":"\\ud83d","target":"x"}'])
    )
    assert as_pairs(corpus) == [("a b c", "d\re\u2028f"), ("\ufffd", "x")]
    assert corpus.notes == {"joined": 1, "repaired": 1}


def test_tmx_text_leaves_codes_out_and_joins_lines(tmp_path: Path) -> None:
    segment = (
        'Click <bpt i="1">&lt;b&gt;</bpt>the <hi>red <hi>big</hi></hi> button<ept i="1">&lt;/b&gt;</ept>'
        "<!-- no --> &amp;\n<ph>{0}</ph>go"
    )
    file = write(tmp_path / "a.tmx", [tmx(unit(en_US=segment, de="Drück"))])
    corpus = open_corpus(file, source_language="en", target_language="de")
    assert as_pairs(corpus) == [("Click the red big button & go", "Drück")]
    assert corpus.notes == {"joined": 1}


def test_tmx_languages_match_by_their_beginning(tmp_path: Path) -> None:
    units = [
        unit(en_GB="colour", en_US="color", de_DE="Farbe"),
        unit(EN="x", de_AT="y"),
        unit(eng="no", de="nein"),
    ]
    again = '<tu><tuv xml:lang="en"><seg>1st</seg></tuv><tuv xml:lang="en"><seg>2nd</seg></tuv></tu>'
    file = write(tmp_path / "a.tmx", [tmx(*units, again.replace("</tu>", unit(de="1.")[4:]))])
    general = open_corpus(file, source_language="EN", target_language="de")
    assert [(p.source, p.line) for p in general] == [("colour", 1), ("x", 2), ("1st", 4)]
    assert general.notes == {"skipped": 1}
    assert general.where(2) == "a.tmx:unit 2"
    american = open_corpus(file, source_language="en_us", target_language="de-de")
    assert as_pairs(american) == [("color", "Farbe")]


def test_tmx_says_which_languages_it_has(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tmx", [tmx(unit(en="x", de="y"))])
    with pytest.raises(DataError, match=r"no unit has both en and fr; languages in the file: en, de"):
        list(open_corpus(file, source_language="en", target_language="fr"))
    with pytest.raises(DataError, match="choose two with source_language="):
        open_corpus(file)


def test_tmx_expands_no_entity_and_reads_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    head = (
        f'<!DOCTYPE tmx SYSTEM "tmx14.dtd" [<!ENTITY a "AAAAAAAAAA"><!ENTITY b "&a;&a;&a;&a;&a;&a;">'
        f'<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    )
    file = write(tmp_path / "a.tmx", [tmx(unit(en="x&b;&x;y", de="z"), head=head)])
    source, _ = as_pairs(open_corpus(file, source_language="en", target_language="de"))[0]
    assert "AAAA" not in source
    assert "SECRET" not in source


def test_tmx_that_is_not_xml_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tmx", [tmx(unit(en="x", de="y"))[:-20]])
    with pytest.raises(DataError, match=r"a\.tmx: not well-formed XML") as caught:
        list(open_corpus(file, source_language="en", target_language="de"))
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"e\.tmx: not well-formed XML \((?!None)"):
        list(open_corpus(write(tmp_path / "e.tmx", []), source_language="en", target_language="de"))
    (tmp_path / "b.tmx.gz").write_bytes(gzip.compress(tmx(unit(en="x", de="y")).encode() * 9)[:-9])
    with pytest.raises(DataError, match=r"b\.tmx\.gz"):
        list(open_corpus(tmp_path / "b.tmx.gz", source_language="en", target_language="de"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_refused_because_it_can_be_read_once_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe is a pipe, but a corpus is read more than once"):
        open_corpus(tmp_path / "pipe", tmp_path / "pipe")


def test_unknown_and_missing_files_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must end in \.tsv, \.jsonl or \.tmx"):
        open_corpus(write(tmp_path / "a.txt", []))
    with pytest.raises(DataError, match="no such file"):
        open_corpus(tmp_path / "a.txt", tmp_path / "b.txt")
