"""Which target phrases a text asks for: the stated rules, one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.translate.glossary import Glossary
from transduce.translate.protect import Protection, find_spans
from transduce.translate.requirements import Needs, Requirements
from transduce.translate.words import has_edge, occurrences

LIGHT = Glossary(
    {"light": "Licht", "light switch": "Lichtschalter", "switch off": "ausschalten", "Polish": "Polnisch"}
)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("Turn on the light.", ["Licht"]),
        ("The light switch and the light", ["Licht", "Lichtschalter"]),
        ("LIGHT  switch", ["Lichtschalter"]),
        ("light,light (light)", ["Licht"] * 3),
        ("lights, twilight, light_1, highlights", []),
        ("light switch off", ["Lichtschalter"]),  # the longest, then the first
        ("a switch off", ["ausschalten"]),
        ("Polish or polish", ["Polnisch"]),
        ("light\u00a0switch\tand", ["Lichtschalter"]),
        ("", []),
    ],
)
def test_rules(text, needed):
    assert sorted(LIGHT.needed(text).elements()) == needed


def test_scripts_without_spaces_have_no_edges():
    chinese = Glossary({"开关": "switch", "灯": "light", "스위치": "Schalter", "switch": "开关"})
    assert chinese.needed("打开灯的开关") == Counter(["switch", "light"])
    assert chinese.needed("스위치를 켜다") == Counter(["Schalter"])
    assert chinese.needed("按switch键") == Counter(["开关"])
    hindi = Glossary({"क": "k"})
    assert hindi.needed("क का") == Counter(["k"])  # a vowel sign goes on with the word


def test_nothing_is_looked_up_in_spans():
    text = "{light} light"
    assert LIGHT.needed(text, find_spans(text)) == Counter(["Licht"])


@given(st.lists(st.sampled_from(["light", "switch", "off", "Polish", "x"]), max_size=8))
def test_as_often_as_it_stands(words):
    """Against a plain look: longest first, over the words."""
    left = list(words)
    expected: Counter[str] = Counter()
    longest_first = [
        (["light", "switch"], "Lichtschalter"),
        (["switch", "off"], "ausschalten"),
        (["Polish"], "Polnisch"),
        (["light"], "Licht"),
    ]
    places = sorted(
        (-len(" ".join(phrase)), i, phrase, target)
        for phrase, target in longest_first
        for i in range(len(left))
        if left[i : i + len(phrase)] == phrase
    )
    for _, i, phrase, target in places:
        if None not in left[i : i + len(phrase)]:
            left[i : i + len(phrase)] = [None] * len(phrase)
            expected[target] += 1
    assert LIGHT.needed(" ".join(words)) == expected


def test_a_file(tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_text("light switch\tLichtschalter\r\n\n  Light \t das  Licht \n", encoding="utf-8")
    glossary = Glossary.load(file)
    assert len(glossary) == 2
    assert glossary.needed("Light of the light switch").elements()
    assert sorted(glossary.needed("Light of the light switch")) == ["Lichtschalter", "das Licht"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("light Licht\n", r":1 is 'light Licht', expected two columns: source phrase, a tab"),
        ("a\tb\nlight\tLicht\tx\n", ":2 is .* expected two columns"),
        ("light\t \n", ":1 is .* expected two columns"),
        ("light\tLicht\nlight\tLampe\n", ":2 translates 'light' as 'Lampe', an earlier line as 'Licht'"),
    ],
)
def test_a_bad_file_names_the_line(tmp_path, content, message):
    file = tmp_path / "terms.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Glossary.load(file)


def test_bad_entries_and_files():
    with pytest.raises(DataError, match="is blank on one side"):
        Glossary({"light": " "})
    with pytest.raises(DataError, match="'light' as 'Licht' and as 'Lampe'"):
        Glossary({"light": "Licht", " light": "Lampe"})
    assert len(Glossary({"light": "Licht", "light ": "Licht"})) == 1
    with pytest.raises(DataError, match="nowhere"):
        Glossary.load(Path("/nowhere.tsv"))


def test_what_is_missing_counts_terms_inside_terms_once():
    needs = Needs(Counter({"Licht": 1, "Licht aus": 1}))
    assert needs.missing_terms("Das Licht aus") == ("Licht",)
    assert needs.missing_terms("Das Licht ist aus. Licht  aus") == ()
    assert needs.missing_terms("Lichter aus") == ("Licht", "Licht", "Licht aus")
    assert Needs().missing_terms("") == ()


def test_requirements_of_both_kinds():
    both = Requirements(LIGHT, Protection())
    needs = both.of("The light of {light} at 5")
    assert needs.terms == Counter(["Licht"])
    assert [span.text for span in needs.spans] == ["{light}"]
    assert both.difference(needs, "Licht {light}{light}") == ((), ("{light}",))
    assert both.forces
    assert not Requirements(protection=Protection(force=False)).forces
    assert not Requirements().forces


@given(st.text("ab ", max_size=8), st.text("ab", min_size=1, max_size=3))
def test_occurrences_are_whole_words(text, phrase):
    words = text.split()
    assert len(list(occurrences(phrase, text))) == words.count(phrase)
    assert len(list(occurrences(phrase, text, whole_words=False))) == text.count(phrase)
    assert has_edge("", "a")
    assert not has_edge("a", "1")
