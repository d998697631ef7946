"""Cleaning: each rule drops what it says, keeps what it says, and is decided in one place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import RecipeError
from transduce.text import CleaningConfig, MemoryCorpus, check_corpus, clean
from transduce.text.cleaning import REASONS, HashSet, text_hash
from transduce.text.profile import learn_profile
from transduce.text.sampling import sample_evenly
from transduce.text.scripts import count_letters, main_script

ENGLISH = [
    "the house is old",
    "they went with her",
    "where have you been",
    "this was the best of them",
    "why not?",
]
GERMAN = [
    "das Haus ist alt",
    "wir gingen mit ihr",
    "wo bist du gewesen",
    "das war das beste von ihnen",
    "warum?",
]


def usual_pairs(count: int = 300, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs that no rule minds: German and English of fitting length, no two alike."""
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        chosen = [rng.randrange(len(ENGLISH)) for _ in range(rng.randint(1, 5))]
        source = ", ".join(ENGLISH[i] for i in chosen)
        pairs.append((f"{source} {number}", f"{', '.join(GERMAN[i] for i in chosen)} {number}"))
    return pairs


def dropped(extra: list[tuple[str, str]], **settings) -> dict[str, list[int]]:
    """Which of the extra pairs are dropped, counted from 1, by reason."""
    usual = usual_pairs()
    corpus = clean(MemoryCorpus(usual + extra), CleaningConfig(**settings))
    kept = {pair.line for pair in corpus}
    assert set(range(1, len(usual) + 1)) <= kept, "a usual pair was dropped"
    counts = corpus.counts
    assert counts.kept == len(kept)
    assert counts.total == len(usual) + len(extra)
    assert {line for lines in counts.examples.values() for line in lines}.isdisjoint(kept)
    return {reason: [line - len(usual) for line in lines] for reason, lines in counts.examples.items()}


@pytest.mark.parametrize("blank", ["", " ", "\t\xa0", "\u200b\ufeff", "\x00", "\u2028"])
def test_a_blank_side_is_dropped(blank: str) -> None:
    assert dropped([(blank, "warum?"), ("why?", blank), ("!", "!")]) == {"blank": [1, 2]}
    assert "blank" not in dropped([(blank, "warum?")], drop_blank=False)


def test_lines_over_the_limits_are_dropped() -> None:
    pair = ("the " * 40)[:-1], ("das " * 40)[:-1]  # 40 words, 159 characters
    assert dropped([pair], max_words=40, max_chars=159) == {}
    assert dropped([(pair[0] + " x", pair[1])], max_words=40) == {"too_long": [1]}
    assert dropped([(pair[0], pair[1] + " x")], max_words=40) == {"too_long": [1]}
    assert dropped([pair], max_chars=158) == {"too_long": [1]}


def test_damaged_lines_are_dropped() -> None:
    assert dropped([("where have y\ufffdu been", "wo bist du gewesen")]) == {"damaged": [1]}
    assert dropped([("where have y\ufffdu been", "wo bist du gewesen")], drop_damaged=False) == {}


def test_long_copies_are_dropped_and_names_stay() -> None:
    sentence = "abcdefgh ijklmnop qrstuvwx yz"
    extra = [("OK", "OK"), ("2019-03-04 12:30:00.000000 +01:00", "2019-03-04 12:30:00.000000 +01:00")]
    assert dropped([*extra, (sentence, sentence)]) == {"copy": [3]}
    assert dropped([(sentence, f" {sentence}  ")]) == {"copy": [1]}
    assert dropped([(sentence, sentence)], max_copy_letters=26) == {}
    assert dropped([(sentence, sentence)], drop_copies=False) == {}


def test_lines_in_another_script_are_dropped() -> None:
    extra = [
        ("where have you been", "где ты был"),
        ("你去哪儿了", "wo bist du gewesen"),
        ("the letter π here", "der Buchstabe π hier"),
        ("I said 你好 to her today", "ich sagte 你好 zu ihr heute"),
        ("Ωmega? no, the Omega", "Omega"),
    ]
    assert dropped(extra) == {"wrong_script": [1, 2]}
    assert dropped(extra, drop_wrong_script=False) == {}


def test_latin_names_stay_beside_another_script_but_latin_sentences_do_not() -> None:
    pairs = [(f"this is sentence {n} of many", f"这是许多句子中的第{n}句") for n in range(200)]
    extra = [
        ("GitHub", "GitHub"),
        ("use Visual Studio Code Insiders", "用 Visual Studio Code Insiders"),
        ("not translated", "this is one long sentence"),
    ]
    corpus = clean(MemoryCorpus(pairs + extra), CleaningConfig())
    assert len(list(corpus)) == 201 + 1
    assert corpus.counts.examples == {"wrong_script": [203]}


def test_japanese_may_be_all_han() -> None:
    pairs = [(f"this is sentence number {n}", f"これは{n}番目の文です") for n in range(100)]
    corpus = clean(
        MemoryCorpus([*pairs, ("Tokyo Metropolitan Government", "東京都庁舎前")]), CleaningConfig()
    )
    assert len(list(corpus)) == 101


def test_lines_that_read_like_the_other_side_are_dropped() -> None:
    english, german = (
        "where have you been, this was the best of them",
        "wo bist du gewesen, das war das beste von ihnen",
    )
    extra = [
        (german, english),
        (english, english.upper()),
        (german, german.upper()),
        ("the", "das"),
        (english, german),
    ]
    assert dropped(extra) == {"wrong_language": [1, 2, 3]}
    assert dropped(extra[:1], drop_wrong_language=False) == {}


def test_little_evidence_of_the_other_language_is_not_enough() -> None:
    noise = " ".join("0123456789" for _ in range(12))
    german_words = "das Haus ist alt"
    assert dropped([("das", "the"), (f"{german_words} {noise}", f"the house is old {noise}")]) == {}
    assert dropped([(german_words, "the house is old")]) == {"wrong_language": [1]}


def test_sides_in_different_scripts_need_no_reader() -> None:
    chinese = learn_profile(MemoryCorpus([("the house", "房子很旧")]), sample_pairs=9, seed=1)
    german = learn_profile(MemoryCorpus([("the house", "das Haus")]), sample_pairs=9, seed=1)
    assert chinese.reader is None
    assert german.reader is not None


def test_a_pair_is_charged_to_the_first_of_its_reasons() -> None:
    long = "das Haus ist alt, wir gingen mit ihr, wo bist du gewesen"
    assert dropped([("", long), ("", long), ("\ufffd", long)]) == {"blank": [1, 2], "damaged": [3]}
    assert dropped([("", long)], drop_blank=False) == {"ratio": [1]}


def test_two_sides_in_one_language_are_left_alone() -> None:
    pairs = [(source, f"well, {source}") for source, _ in usual_pairs()]
    corpus = clean(MemoryCorpus(pairs), CleaningConfig())
    assert len(list(corpus)) == len(pairs)


def test_length_ratio_is_relative_to_the_corpus() -> None:
    assert dropped([("the house is old and they went with her today", "@@")]) == {"ratio": [1]}
    assert dropped([("why not?", "das Haus ist alt, wir gingen mit ihr, wo bist du gewesen")]) == {
        "ratio": [1]
    }
    assert dropped([("OK", "In Ordnung, ja")]) == {}
    assert dropped([("OK", "In Ordnung, ja")], ratio_slack=0) == {"ratio": [1]}
    chinese = [(f"this is sentence number {n} of a good many", f"第{n}句") for n in range(200)]
    assert len(list(clean(MemoryCorpus(chinese), CleaningConfig()))) == 200


def test_repeated_pairs_are_dropped_once_seen() -> None:
    first = usual_pairs(1)[0]
    extra = [first, (first[0], "warum, das Haus ist alt"), first, ("new", "neu"), ("new", "neu")]
    assert dropped(extra) == {"duplicate": [1, 3, 5]}
    assert dropped(extra, drop_duplicates=False) == {}


def test_each_walk_counts_anew_and_decides_the_same() -> None:
    corpus = clean(MemoryCorpus([*usual_pairs(), ("", "x"), *usual_pairs(2)]), CleaningConfig())
    walks = [[pair.line for pair in corpus] for _ in range(2)]
    assert walks[0] == walks[1]
    assert corpus.counts.dropped == {"blank": 1, "duplicate": 2}
    assert corpus.counts.summary() == (
        "kept 300 of 303 pairs; dropped 2 (the same pair came before), 1 (a side is blank)"
    )


mixed_line = st.one_of(
    st.sampled_from(
        ["", "OK", "the house is old", "das Haus ist alt", "где ты был", "x" * 90, "a\ufffdb", "@@"]
    ),
    st.text(max_size=12),
)


@given(st.lists(st.tuples(mixed_line, mixed_line), max_size=12), st.sets(st.sampled_from(sorted(REASONS))))
def test_the_report_says_what_training_does(pairs: list[tuple[str, str]], off: set[str]) -> None:
    flags = {"copy": "copies", "duplicate": "duplicates"}
    switches = {f"drop_{flags.get(reason, reason)}": False for reason in off - {"too_long", "ratio"}}
    config = CleaningConfig(max_chars=80, max_copy_letters=3, **switches)
    corpus = MemoryCorpus(usual_pairs(40) + pairs)
    report = check_corpus(corpus, config)
    cleaned = clean(corpus, config)
    kept = list(cleaned)
    assert report.kept == len(kept)
    assert report.dropped == dict(cleaned.counts.dropped)
    assert set(report.dropped).isdisjoint(off - {"too_long", "ratio"})
    for finding in report.findings:
        assert finding.fate == "dropped" or finding.lines <= report.pairs
        if finding.kind in report.dropped:
            assert finding.fate == "dropped"


def test_cleaning_settings_have_their_part_in_the_fingerprint() -> None:
    corpus = MemoryCorpus([("a", "b")])
    prints = {
        clean(corpus, config).fingerprint() for config in (CleaningConfig(), CleaningConfig(max_words=9))
    }
    assert len(prints) == 2
    assert clean(corpus, CleaningConfig()).fingerprint() in prints
    assert clean(MemoryCorpus([("a", "c")]), CleaningConfig()).fingerprint() not in prints


@pytest.mark.parametrize(
    "settings",
    [{"max_words": 0}, {"max_chars": -1}, {"max_ratio": 1.0}, {"ratio_slack": -1}, {"sample_pairs": 0}],
)
def test_settings_without_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(RecipeError, match=f"{next(iter(settings))} must"):
        CleaningConfig(**settings)


def test_profile_of_nothing() -> None:
    profile = learn_profile(MemoryCorpus([]), sample_pairs=10, seed=1)
    assert (profile.pairs, profile.target_per_source) == (0, 1.0)
    assert list(clean(MemoryCorpus([]), CleaningConfig())) == []


@given(st.lists(st.integers(0, 400)), st.integers(0, 50))
def test_hash_set_is_a_set(numbers: list[int], expected: int) -> None:
    ours, theirs = HashSet(expected), set()
    for number in numbers:
        hashed = text_hash(str(number))
        assert ours.add(hashed) == (hashed not in theirs)
        theirs.add(hashed)
    assert len(ours) == len(theirs)


def test_hash_set_grows() -> None:
    numbers = HashSet()
    assert all(numbers.add(text_hash(str(i))) for i in range(5000))
    assert not any(numbers.add(text_hash(str(i))) for i in range(5000))


@given(st.lists(st.integers()), st.integers(1, 20), st.integers(0, 3))
def test_sample_is_an_ordered_part(items: list[int], size: int, seed: int) -> None:
    sample = sample_evenly(enumerate(items), size, seed)
    assert len(sample) == min(size, len(items))
    assert [item for _, item in sample] == [items[index] for index, _ in sample]
    assert sample == sorted(sample, key=lambda entry: entry[0])
    assert sample == sample_evenly(enumerate(items), size, seed)


def test_sample_is_even_and_bounded() -> None:
    counts = [0] * 40
    for seed in range(400):
        for item in sample_evenly(range(40), 10, seed):
            counts[item] += 1
    assert 60 < min(counts) <= max(counts) < 145  # 100 expected
    sample = sample_evenly(range(1000), 500, 1, weight=lambda item: 10, max_weight=205)
    assert len(sample) == 20
    assert max(sample) > 500


@pytest.mark.parametrize(
    ("line", "letters", "main"),
    [
        ("abc 12 ÄÖ", {"Latin": 5}, "Latin"),
        ("12 ×÷ …", {}, None),
        ("Привет, мир", {"Cyrillic": 9}, "Cyrillic"),
        ("用 Visual Studio", {"Han": 1, "Latin": 12}, "Latin"),
        ("我用 Visual Studio", {"Han": 2, "Latin": 12}, "Han"),
        ("これは文です", {"Kana": 5, "Han": 1}, "Kana"),
        ("한국어 עברית ไทย", {"Hangul": 3, "Hebrew": 5, "Thai": 3}, "Hebrew"),
    ],
)
def test_letters_are_counted_by_script(line: str, letters: dict[str, int], main: str | None) -> None:
    assert count_letters(line) == letters
    assert main_script(count_letters(line)) == main
