"""The check report: every oddity at its place, numbers that are right, text that can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transduce.text import CheckReport, CleaningConfig, Finding, MemoryCorpus, check_corpus, open_corpus
from transduce.text.cleaning import REASONS
from transduce.text.oddities import NOT_COMPOSED, ODDITIES, find_oddities

ODD_TEXT = {
    "null": "nul\x00l",
    "tab": "tab\there",
    "carriage_return": "cr\rhere",
    "control": "bell\x07 and \x9f",
    "line_separator": "next\x85line\u2028or\u2029paragraph",
    "no_break_space": "no\xa0break\u202fspace",
    "zero_width": "zero\u200bwidth",
    "soft_hyphen": "soft\xadhyphen",
    "byte_order_mark": "in\ufeffside",
    "direction": "right\u202eleft",
    "private_use": "logo \uf8ff \U000f1234",
    "mojibake": "MÃ¤nner, itâ€™s",
    "word_boundary": "mark\u2581here",
    "joiner": "Män@@ ner",
    "entity": "a &amp; b &apos;c&#39; &#x1F600;",
    "spaces": " two  spaces ",
    "not_nfc": "u\u0308ber",
}


def corpus_with(extra: dict[int, tuple[str, str]], count: int = 200) -> MemoryCorpus:
    """Pairs without oddities, some of them replaced, by number from 1."""
    pairs = [
        (f"the house number {n} is old", f"das Haus mit der Nummer {n} ist alt") for n in range(1, count + 1)
    ]
    for number, pair in extra.items():
        pairs[number - 1] = pair
    return MemoryCorpus(pairs, "c")


def check(extra: dict[int, tuple[str, str]], **options) -> dict[tuple[str, str], Finding]:
    report = check_corpus(corpus_with(extra), CleaningConfig(), **options)
    return {(finding.kind, finding.side): finding for finding in report.findings}


def test_a_usual_corpus_has_no_findings() -> None:
    assert check({}) == {}


def test_every_kind_has_a_sample_here() -> None:
    assert set(ODD_TEXT) == {oddity.kind for oddity in (*ODDITIES, NOT_COMPOSED)}


@pytest.mark.parametrize("kind", sorted(ODD_TEXT))
@pytest.mark.parametrize("side", ["source", "target"])
def test_each_oddity_is_found_alone_at_its_line(kind: str, side: str) -> None:
    text, usual = ODD_TEXT[kind], "an ordinary line"
    found = check({77: (text, usual) if side == "source" else (usual, text)})
    assert set(found) == {(kind, side)}
    finding = found[kind, side]
    assert finding.lines == 1
    assert finding.occurrences == sum(1 for _ in by_kind(kind).pattern.finditer(text)) or kind == "not_nfc"
    assert [example.where for example in finding.examples] == ["c:77"]
    assert all(character.isprintable() for character in finding.examples[0].excerpt)
    assert finding.fate.startswith("kept")


def by_kind(kind: str):
    return next(oddity for oddity in (*ODDITIES, NOT_COMPOSED) if oddity.kind == kind)


@pytest.mark.parametrize(
    ("kind", "characters"),
    [
        ("control", "\x01\x08\x0b\x0c\x0e\x1f\x7f\x80\x84\x86\x9f"),
        ("line_separator", "\x85\u2028\u2029"),
        ("no_break_space", "\xa0\u202f"),
        ("zero_width", "\u200b\u2060"),
        ("direction", "\u202a\u202e\u2066\u2069"),
        ("private_use", "\ue000\uf8ff\U000f0000\U0010fffd"),
    ],
)
def test_each_character_of_a_kind_is_found(kind: str, characters: str) -> None:
    for character in characters:
        assert [oddity.kind for oddity in find_oddities(f"a{character}b")] == [kind], hex(ord(character))


def test_what_is_seldom_odd_is_not_found() -> None:
    for line in (
        "AT&T & co;",
        "a@b.c",
        "naïve Ängste, Âme",
        "x < y > z",
        "R&D;",
        "&nosuch",
        "it’s “so” – fine…",
        "日本語。",
        "",
    ):
        assert find_oddities(line) == [], line


def test_examples_show_the_place_and_are_few() -> None:
    long = "word " * 40 + "ends\x00here " + "word " * 40
    found = check({n: (long.strip(), "an ordinary line") for n in (3, 9, 11, 50)})["null", "source"]
    assert [example.where for example in found.examples] == ["c:3", "c:9", "c:11"]
    assert "ends\\x00here" in found.examples[0].excerpt
    assert found.examples[0].excerpt.startswith("…")
    assert found.lines == 4
    assert len(check(dict.fromkeys((3, 9), ("\x00", "x")), examples=1)["null", "source"].examples) == 1


def test_findings_about_pairs() -> None:
    english, german = "where have you been, my house is old", "wo bist du gewesen, mein Haus ist alt"
    usual = {n: (f"{english} {n}", f"{german} {n}") for n in range(1, 100)}
    found = check(
        usual
        | {
            101: (f"{german} x", f"{english} x"),
            102: (f"{english} y", f"my house is old, {english}"),
            103: (f"mein Haus ist alt, {german}", f"{german} y"),
            104: ("Berlin", "Berlin"),
            105: ("the house number 150 is old", "something else entirely"),
            106: (english * 3, english * 3),
            107: ("", ""),
            108: ("где ты был", "wo bist du"),
            109: ("x", "a much, much longer line than this source can ever be the reason for"),
            110: ("the house number 151 is old", "das Haus mit der Nummer 151 ist alt"),
            111: ("word " * 201, "Wort " * 201),
            112: ("lost \ufffd \ufffd", "verloren"),
        }
    )
    places = {key: [example.where for example in finding.examples] for key, finding in found.items()}
    assert places == {
        ("swapped", "pair"): ["c:101"],
        ("wrong_language", "target"): ["c:102", "c:106"],
        ("wrong_language", "source"): ["c:103"],
        ("short_copy", "pair"): ["c:104"],
        ("several_targets", "pair"): ["c:150"],
        ("copy", "pair"): ["c:106"],
        ("blank", "source"): ["c:107"],
        ("blank", "target"): ["c:107"],
        ("wrong_script", "source"): ["c:108"],
        ("ratio", "pair"): ["c:109"],
        ("duplicate", "pair"): ["c:151"],
        ("too_long", "source"): ["c:111"],
        ("too_long", "target"): ["c:111"],
        ("spaces", "source"): ["c:111"],
        ("spaces", "target"): ["c:111"],
        ("damaged", "source"): ["c:112"],
    }
    kept = {"short_copy", "several_targets", "spaces"}
    assert all((finding.fate == "dropped") == (kind not in kept) for (kind, _), finding in found.items())
    assert found["damaged", "source"].occurrences == 2


def report_of(pairs: list[tuple[str, str]], **settings) -> CheckReport:
    return check_corpus(MemoryCorpus(pairs, "c"), CleaningConfig(**settings))


def test_lengths_and_counts_are_exact() -> None:
    pairs = [("a " * n + "b", "x" * n) for n in range(1, 101)]
    report = report_of(pairs, max_ratio=99)
    words, characters = report.source.words, report.target.characters
    assert (words.mean, words.p50, words.p95, words.p99, words.max) == (51.5, 51, 96, 100, 101)
    assert (characters.mean, characters.p50, characters.p95, characters.max) == (50.5, 50, 95, 100)
    assert report.target.words.max == 1
    assert (report.pairs, report.source.different, report.target.different) == (100, 100, 100)
    assert report.source.scripts == ("Latin",)
    assert report.target_per_source == pytest.approx(0.5, abs=0.02)


def test_quantiles_are_the_nearest_rank() -> None:
    lengths = report_of([("x" * n, "y") for n in range(1, 11)], max_ratio=99).source.characters
    assert (lengths.p50, lengths.p95, lengths.p99, lengths.max) == (5, 10, 10, 10)


def test_report_of_an_empty_corpus() -> None:
    report = report_of([])
    assert (report.pairs, report.kept, report.findings, report.source.words.max) == (0, 0, (), 0)
    assert "Found nothing odd." in report.render()


def test_data_and_text_say_the_same() -> None:
    report = check_corpus(
        corpus_with({5: ("", "x"), 7: ("a\x00", "b"), 9: ("n\xa0m", "\xa0\xa0.")}), CleaningConfig()
    )
    data = json.loads(json.dumps(report.to_dict()))
    assert data["dropped"] == {"blank": 1}
    assert data["kept"] == 199
    assert data["findings"][0]["examples"][0] == {"where": "c:5", "excerpt": ""}
    text = report.render()
    assert "Training keeps 199 pairs and drops 1:\n         1  a side is blank\n" in text
    assert "         1  no-break space (U+00A0, U+202F) in the target, 2 times: kept\n" in text
    assert "              c:7  a\\x00\n" in text
    assert all(character == "\n" or character.isprintable() for character in text)
    assert max(map(len, text.split("\n"))) < 120


def test_reasons_are_described_once() -> None:
    text = report_of([("", "x"), ("", "y")]).render()
    assert REASONS["blank"] in text


def test_notes_of_the_reader_are_in_the_report(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"source": "a\\nb", "target": "c"}\n')
    report = check_corpus(open_corpus(file), CleaningConfig())
    assert report.notes == {"joined": 1}
    assert "Note     1 texts had a line end inside" in report.render()


def test_progress_ends_with_the_number_of_pairs() -> None:
    heard: list[int] = []
    check_corpus(MemoryCorpus([("a", "b")] * 20_001), CleaningConfig(), progress=heard.append)
    assert heard == [10_000, 20_000, 20_001]
