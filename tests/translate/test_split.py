"""Long text is split at sentence ends, translated and re-joined, never silently cut."""

import itertools
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translate.split import Segment, join, split_lines, split_sentences, split_text

PIECES = [
    *"aZ ß\t\n.!?,;:-—()\"'…0\u00a0",
    "Dr. ",
    "z. B. ",
    "3.5",
    ". ",
    "。",
    "！",
    "？」",
    "，",
    "中",
    "あ",
    "\u0301",
    "\u200d",
    "\ufe0f",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "👍🏽",
    "한",
    "\u1112\u1161\u11ab",
    "क्षि",
    "ำ",
    "\ud83d",
    "\udc69",
    "؟ ",
    "। ",
    "\r\n",
    "\u2028",
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=60).map("".join)
measures = st.sampled_from(
    [len, lambda s: len(s.split()), lambda s: len(s.encode("utf-8", "surrogatepass")), lambda s: 3]
)


def together(segments):
    return "".join(s.text + s.separator for s in segments)


def texts_of(text, max_len, length=len):
    return [s.text for s in split_text(text, max_len, length)]


# --- Properties ---------------------------------------------------------------------------------


@given(texts, st.integers(1, 40), measures)
def test_nothing_is_lost(text, max_len, length):
    segments = split_text(text, max_len, length)
    assert together(segments) == text
    assert all(s.separator == "" or s.separator.isspace() for s in segments)


@given(texts, st.integers(1, 40), measures)
def test_every_segment_fits_or_is_one_visible_character(text, max_len, length):
    for segment in split_text(text, max_len, length):
        if length(segment.text) > max_len:
            assert len(segment.text) <= 32
            assert len(texts_of(segment.text, 1)) == 1, "it could have been cut further"


@given(texts, st.integers(1, 40))
def test_no_segment_begins_inside_a_visible_character(text, max_len):
    for before, after in itertools.pairwise(split_text(text, max_len, len)):
        if after.text and len(before.text) < 32:
            assert unicodedata.category(after.text[0]) not in ("Mn", "Me")
            assert after.text[0] not in "\u200d\ufe0f"
            assert not (before.text + before.separator).endswith("\u200d")


@given(texts, st.integers(1, 40), measures)
def test_text_that_fits_is_left_alone(text, max_len, length):
    if length(text) <= max_len:
        assert split_text(text, max_len, length) == [Segment(text, "")]


@given(texts, st.integers(1, 40))
def test_a_translator_that_copies_gives_the_text_back(text, max_len):
    segments = split_text(text, max_len, len)
    assert join([s.text for s in segments], segments) == text


@given(texts)
def test_sentences_put_together_are_the_text(text):
    assert together(split_sentences(text)) == text


@given(texts, st.integers(1, 20))
def test_segments_are_packed_greedily(text, max_len):
    """Two neighbouring whole sentences that fit together are not left apart."""
    sentences = split_sentences(text.strip())
    if all(len(s.text) <= max_len for s in sentences):
        segments = split_text(text.strip(), max_len, len)
        for one, two in itertools.pairwise(segments):
            shortest = split_sentences(two.text)[0].text
            assert len(one.text + one.separator + shortest) > max_len


# --- Where the cuts fall ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Stop!" Then he left.', ['He said "Stop!"', "Then he left."]),
        ("(See below.) Now go.", ["(See below.)", "Now go."]),
        ("“Yes.” “No.” Well…  Fine.", ["“Yes.”", "“No.”", "Well…", "Fine."]),
        ("Dr. Smith met J. R. Brown. They talked.", ["Dr. Smith met J. R. Brown.", "They talked."]),
        ("Es gibt z.B. Äpfel und z. B. Birnen. Gut.", ["Es gibt z.B. Äpfel und z. B. Birnen.", "Gut."]),
        ("Am 3. Mai kam Nr. 512. Gut so.", ["Am 3. Mai kam Nr. 512.", "Gut so."]),
        ("Pi is 3.5 or so. Yes.", ["Pi is 3.5 or so.", "Yes."]),
        ("He said no. Then he left.", ["He said no.", "Then he left."]),
        ("See https://a.b/c?d=e. It works!", ["See https://a.b/c?d=e.", "It works!"]),
        ("e.g. this, i.e. that. End.", ["e.g. this, i.e. that.", "End."]),
        ("你好。世界！「好。」是吗？是", ["你好。", "世界！", "「好。」", "是吗？", "是"]),
        ("ماذا؟ نعم. لا۔ حسنا", ["ماذا؟", "نعم.", "لا۔", "حسنا"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("A title\n\nThe text\ngoes on", ["A title", "The text\ngoes on"]),
        ("Bonjour\u00a0! Ça va\u00a0?", ["Bonjour\u00a0!", "Ça va\u00a0?"]),
        ("Es war 5.\u00a0Mai. So", ["Es war 5.\u00a0Mai.", "So"]),
        ("", [""]),
    ],
)
def test_sentence_ends(text, sentences):
    assert [s.text for s in split_sentences(text)] == sentences


def test_sentences_are_packed_and_clauses_come_next():
    text = "One two. Three four. Five six, seven eight; nine."
    assert texts_of(text, 4, words) == ["One two. Three four.", "Five six, seven eight;", "nine."]


def test_words_come_after_clauses_and_characters_last():
    assert texts_of("aa bb cc, dd", 5) == ["aa bb", "cc,", "dd"]
    assert texts_of("Donaudampfschiff fährt", 6) == ["Donaud", "ampfsc", "hiff", "fährt"]


def test_abbreviations_do_not_cut_clauses_either():
    assert texts_of("Hier ist z. B. Herr Dr. Schmidt, und er lacht", 38) == [
        "Hier ist z. B. Herr Dr. Schmidt,",
        "und er lacht",
    ]


def test_leading_and_trailing_space_is_kept_outside():
    assert split_text("  a b ", 1, len) == [Segment("", "  "), Segment("a", " "), Segment("b", " ")]
    assert split_text(" " * 9, 3, len) == [Segment("", " " * 9)]


@pytest.mark.parametrize("cluster", ["👩\u200d👩\u200d👧", "e\u0301\u0302", "🇩🇪", "क्षि", "👍🏽", "กำ"])
def test_a_visible_character_stays_whole_even_if_too_long(cluster):
    assert texts_of(cluster * 3, 1) == [cluster] * 3


def test_an_endless_pile_of_marks_is_cut():
    text = "e" + "\u0301" * 1000
    segments = split_text(text, 1, len)
    assert together(segments) == text
    assert max(len(s.text) for s in segments) <= 32


def test_a_length_of_zero_is_our_mistake():
    with pytest.raises(ValueError, match="max_len is 0"):
        split_text("a", 0, len)


# --- Joining ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("translations", "separators", "joined"),
    [
        (["Hallo.", "Welt."], [" ", ""], "Hallo. Welt."),
        (["Hello.", "World."], ["", "\n"], "Hello. World.\n"),  # from Chinese
        (["你好。", "世界。"], [" ", ""], "你好。世界。"),  # to Chinese
        (["你好。", "世界。"], ["\n\n", ""], "你好。\n\n世界。"),
        (["使用 Python", "很好"], ["", ""], "使用 Python很好"),
        (["안녕.", "세계."], [" ", ""], "안녕. 세계."),
        (["สวัสดี", "ครับ"], [" ", ""], "สวัสดี ครับ"),
        (["Danube", "steam"], ["", ""], "Danube steam"),
        (["", "Hi"], ["  ", ""], "  Hi"),
    ],
)
def test_seams(translations, separators, joined):
    segments = [Segment(f"source {i}", separator) for i, separator in enumerate(separators)]
    assert join(translations, segments) == joined


def test_join_wants_one_translation_for_each_segment():
    with pytest.raises(ValueError, match="1 translations for 2 segments"):
        join(["a"], [Segment("x", " "), Segment("y", "")])


# --- Speed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "." * 1_000_000,
        "-," * 500_000,
        " " * 500_000 + "\n" + "b" * 500_000,
        "e\u0301" * 500_000,
        "🇩" * 500_000,
        "\u0301" * 500_000,
        '.")' * 300_000,
        "word " * 200_000,
        "One two. " * 100_000,
        "中" * 500_000,
        "。" * 500_000,
        "\n \r" * 300_000,
    ],
    ids=lambda text: ascii(text[:4]),
)
def test_a_megabyte_does_not_hang(text):
    start = time.perf_counter()
    segments = split_text(text, 100, len)
    assert time.perf_counter() - start < 5, "half a second at rest; quadratic would take minutes"
    assert together(segments) == text


def words(text):
    return len(text.split())


@given(st.lists(st.sampled_from([*"ab \t\n\r\v\f\x85\u2028\u2029\u00a0"]), max_size=20).map("".join))
def test_lines_put_together_are_the_text_and_hold_no_line_ends(text):
    segments = split_lines(text)
    assert "".join(s.text + s.separator for s in segments) == text
    for segment in segments:
        assert not set(segment.text) & set("\n\r\v\f\x85\u2028\u2029") or not text.strip()
        assert not segment.separator.strip()


def test_lines_of_a_million_characters_take_no_time():
    start = time.perf_counter()
    for text in (" " * 10**6 + "a", " " * 10**6 + "\n" + " " * 10**6, "a \n" * 10**5, "\n" * 10**6):
        split_lines(text)
    assert time.perf_counter() - start < 5
