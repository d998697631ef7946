"""Every tag exactly once, nested as before, around the words that come from its own."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from transduce.translate.documents.inline import Element, elements, plain_text
from transduce.translate.documents.placing import Link, place

WORDS = st.sampled_from(["press", "the", "red", "key", ",", "now", "日本", " ", "  ", "."])


@st.composite
def forests(draw, depth=2, keys=None):
    keys = keys if keys is not None else iter(range(1000))
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "text", "element", "fixed"]))
        if kind == "text" or depth == 0:
            parts.append(draw(WORDS) + draw(st.sampled_from(["", " "])))
        elif kind == "fixed":
            parts.append(Element(next(keys), (draw(WORDS),), fixed=True))
        else:
            key = next(keys)
            parts.append(Element(key, draw(forests(depth=depth - 1, keys=keys))))
    return tuple(parts)


def parents(inline, above=None):
    """Each key with the key it is directly inside."""
    found = []
    for part in inline:
        if isinstance(part, Element):
            found.append((part.key, above))
            found += parents(part.content, part.key)
    return found


def bare(inline):
    """The text without what is fixed."""
    return "".join(p if isinstance(p, str) else "" if p.fixed else bare(p.content) for p in inline)


@given(forests(), st.text(alphabet="AB .日", max_size=20), st.data())
def test_every_element_stands_once_inside_the_same_one(source, text, data):
    size = len(plain_text(source))
    spans = st.tuples(st.integers(0, max(0, size - 1)), st.integers(0, max(0, len(text) - 1)))
    links = [Link((s, s + 1), (t, t + 1)) for s, t in data.draw(st.lists(spans, max_size=12))]
    placed = place(source, text, links)
    assert sorted(parents(placed.inline), key=str) == sorted(parents(source), key=str)
    fixed = {e.key: e.content for e in elements(source) if e.fixed}
    assert {e.key: e.content for e in elements(placed.inline) if e.fixed} == fixed
    if not fixed:
        assert plain_text(placed.inline) == text
    assert 0 <= placed.unplaced <= len(list(elements(source)))


@given(forests())
def test_what_is_not_changed_is_the_same(source):
    assert place(source, plain_text(source)) == (source, 0)


def links_of(source, target, pairs):
    """Links between words by their text."""
    return [
        Link(
            (source.index(s), source.index(s) + len(s)),
            (target.index(t), target.index(t) + len(t)),
        )
        for s, t in pairs
    ]


def test_a_tag_follows_its_words():
    source = ("Press the ", Element(0, ("red key",)), " now")
    target = "Jetzt die rote Taste drücken"
    links = links_of(
        plain_text(source),
        target,
        [("now", "Jetzt"), ("the", "die"), ("red", "rote"), ("key", "Taste"), ("Press", "drücken")],
    )
    placed = place(source, target, links)
    assert placed == (("Jetzt die ", Element(0, ("rote Taste",)), " drücken"), 0)


def test_one_stray_link_does_not_stretch_a_tag_over_the_sentence():
    source = ("a b c d ", Element(0, ("e",)))
    target = "A B C D E"
    links = links_of("a b c d e", target, [("b", "B"), ("c", "C"), ("d", "D"), ("e", "E"), ("e", "A")])
    assert place(source, target, links).inline == ("A B C D ", Element(0, ("E",)))


def test_lone_tags_go_before_the_word_they_stood_before_or_behind_the_one_they_were_glued_to():
    source = ("one ", Element(0), "two three", Element(1), " four")
    links = links_of(
        "one two three four", "FOUR THREE TWO ONE", [(w, w.upper()) for w in ("one", "two", "three", "four")]
    )
    placed = place(source, "FOUR THREE TWO ONE", links)
    assert placed == (("FOUR THREE", Element(1), " ", Element(0), "TWO ONE"), 0)


def test_tags_around_everything_at_the_beginning_and_at_the_end_need_no_alignment():
    source = (Element(0), Element(1, ("all of it", Element(2))))
    assert place(source, "DAS GANZE").inline == (Element(0), Element(1, ("DAS GANZE", Element(2))))
    assert place(source, "DAS GANZE").unplaced == 0


def test_without_any_hint_a_tag_stands_at_the_end_and_is_counted():
    placed = place(("one ", Element(0, ("two",)), " three"), "A B C")
    assert placed == (("A B C", Element(0)), 1)


def test_fixed_text_is_found_or_put_in_the_place_of_what_was_made_of_it():
    source = ("run ", Element(0, ("make",), fixed=True), " twice")
    assert place(source, "zweimal make ausführen").inline == (
        "zweimal ",
        Element(0, ("make",), fixed=True),
        " ausführen",
    )
    links = links_of(
        "run make twice",
        "zweimal machen ausführen",
        [("make", "machen"), ("run", "ausführen"), ("twice", "zweimal")],
    )
    assert place(source, "zweimal machen ausführen", links).inline == (
        "zweimal ",
        Element(0, ("make",), fixed=True),
        " ausführen",
    )


def test_a_placeholder_is_not_cut_and_words_do_not_come_down_to_a_full_stop():
    source = ("for ", Element(0, ("{name}",)), ".")
    links = [Link((0, 3), (0, 1)), Link((5, 9), (1, 5)), Link((0, 3), (5, 6)), Link((0, 3), (7, 10))]
    assert place(source, "{name} für.", links) == ((Element(0, ("{name}",)), " für."), 0)
    source = ("in the ", Element(0, ("kitchen",)), ".")
    placed = place(source, "drin.", [Link((7, 14), (4, 5)), Link((0, 2), (0, 4))])
    assert placed == (("drin.", Element(0)), 1)


def test_two_tags_do_not_overlap():
    source = (Element(0, ("a b",)), " ", Element(1, ("c d",)))
    links = links_of("a b c d", "C A D B", [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")])
    placed = place(source, "C A D B", links)
    assert [key for key, above in sorted(parents(placed.inline)) if above is None] == [0, 1]
    assert plain_text(placed.inline) == "C A D B"


def test_thousands_of_tags_in_one_sentence_end_in_time():
    words = [f"w{i}" for i in range(1500)]
    parts: list = []
    for key, word in enumerate(words):
        parts += [Element(key, (word,)), " "]
    text = " ".join(word.upper() for word in words)
    links, at = [], 0
    for word in words:
        links.append(Link((at, at + len(word)), (at, at + len(word))))
        at += len(word) + 1
    begun = time.monotonic()
    placed = place(tuple(parts), text, links)
    assert time.monotonic() - begun < 60
    assert sorted(e.key for e in elements(placed.inline)) == list(range(1500))
    assert plain_text(placed.inline) == text
    assert placed.unplaced == 1500 - 256


def test_fixed_texts_that_have_no_place_do_not_touch():
    source = ("a ", Element(0, ("x",), fixed=True), " b ", Element(1, ("y",), fixed=True), " c")
    placed = place(source, "Q.")
    assert plain_text(placed.inline) == "Q. x y"
    assert placed.unplaced == 2


def test_a_word_that_is_part_of_a_larger_one_for_the_model_is_placed_all_the_same():
    source = ("the form (", Element(0, ("model",), fixed=True), "), and")
    pairs = [("(model),", "(MODEL)"), ("form", "FORM")]
    links = links_of("the form (model), and", "UND, (MODEL) FORM DIE", pairs)
    assert plain_text(place(source, "UND, (MODEL) FORM DIE", links).inline) == "UND, (model) FORM DIE"
