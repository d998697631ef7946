"""Terms and placeholders are in the text, or the translation says which are not: real tokenizers."""

from __future__ import annotations

import random
from collections import Counter

import jaxtyping
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_translators import make_engine, make_tokenizer, make_translator

from transduce.errors import DataError, SearchError
from transduce.search.phrases import Phrases
from transduce.translate.engine import RequiringEngine
from transduce.translate.glossary import Glossary
from transduce.translate.protect import Protection
from transduce.translate.spelling import Speller
from transduce.translate.words import occurrences, plain

GLOSSARY = {
    "light": "Licht",
    "light switch": "Lichtschalter",
    "door": "die Tür",
    "house": "Häuser",
    "lamp": "灯",
    "Page": "Seite № 12",
}
SOURCES = [
    "turn on the light",
    "the light switch and the light",
    "the door of the house, the Door",
    "nothing to see",
    "the lamp on Page 3",
    "",
    "light light light",
]


@pytest.fixture(scope="module", autouse=True)
def _without_type_checks():
    """The search's own tests check types; here they would cost a minute."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request, tmp_path_factory):
    return make_tokenizer(
        tmp_path_factory.mktemp("text"), request.param, 420 if request.param == "bpe" else 360
    )


@pytest.fixture(scope="module")
def translator(tokenizer):
    return make_translator(tokenizer)


def test_every_term_is_in_the_text(translator):
    needed = [Glossary(GLOSSARY).needed(source) for source in SOURCES]
    found = translator.translate(SOURCES, glossary=GLOSSARY, max_extra_len=40)
    for translation, terms in zip(found, needed, strict=True):
        for term, count in terms.items():
            assert len(list(occurrences(term, plain(translation.text)))) >= count, translation.text
        assert translation.missing == ()
        assert "glossary" not in translation.flags
    assert sum(terms.total() for terms in needed) == 11
    assert not occurrences_of_all(translator.translate(SOURCES))


def occurrences_of_all(translations):
    return [t.text for t in translations for term in GLOSSARY.values() if term in t.text]


def test_without_a_term_nothing_changes(translator):
    """Bit for bit, also for the neighbours of a sentence with one."""
    plainly = translator.translate(SOURCES)
    assert translator.translate(SOURCES, glossary={"xyzzy": "Licht"}) == plainly
    assert translator.translate(SOURCES, protect=True) == plainly
    some = translator.translate(SOURCES, glossary={"lamp": "Licht"})
    for i, (one, other) in enumerate(zip(some, plainly, strict=True)):
        assert (one.tokens == other.tokens) == (i != 4)


def test_company_does_not_matter(translator):
    together = translator.translate(SOURCES, glossary=GLOSSARY)
    order = random.Random(1).sample(range(len(SOURCES)), 3)
    mixed = translator.translate([SOURCES[i] for i in order], glossary=GLOSSARY)
    for i, other in zip(order, mixed, strict=True):
        (alone,) = translator.translate(SOURCES[i], glossary=GLOSSARY)
        assert together[i].tokens == alone.tokens == other.tokens


def test_spans_are_kept_as_often_as_they_stand(translator):
    sources = ["hello {name}, you have %d {name}", "see https://a.org/b?c=d now", "press `x y`", "no span"]
    wanted = [["{name}", "{name}", "%d"], ["https://a.org/b?c=d"], ["`x y`"], []]
    found = translator.translate(sources, protect=True, beam_size=1, max_extra_len=30)
    for translation, spans in zip(found, wanted, strict=True):
        for span, count in Counter(spans).items():
            assert translation.text.count(span) >= count
        assert translation.lost == ()
    (only_told, *_) = translator.translate(sources, protect=Protection(force=False))
    assert sorted(only_told.lost) == ["%d", "{name}", "{name}"]
    assert "placeholders" in only_told.flags
    assert only_told.text == translator.translate(sources)[0].text


def test_what_does_not_fit_is_told(translator):
    (found,) = translator.translate(["light"], glossary={"light": "Lichtschalter " * 5}, max_extra_len=2)
    assert found.missing == (plain("Lichtschalter " * 5),)
    assert "glossary" in found.flags
    fields = found.to_dict()
    assert fields["missing"] == list(found.missing)


def test_alternatives_hold_them_too(translator):
    (best,) = translator.translate(["the light"], glossary=GLOSSARY, n_best=3, max_extra_len=20)
    assert best.alternatives
    for one in (best, *best.alternatives):
        assert "Licht" in one.text or "glossary" in one.flags


def test_a_long_text_is_checked_as_a_whole(translator):
    text = "the light. " * 30
    (found,) = translator.translate([text], glossary=GLOSSARY, max_extra_len=30)
    assert "split" in found.flags
    assert len(list(occurrences("Licht", plain(found.text)))) >= 30
    assert "glossary" not in found.flags


def test_a_prefix_may_hold_a_term_already(translator):
    (found,) = translator.translate(["light"], glossary={"light": "Licht"}, prefixes=["das Licht"])
    assert found.text.startswith("das Licht")
    assert found.missing == ()


class Plain:
    """An engine that cannot be made to write anything."""

    def __init__(self, engine):
        self.search, self.align = engine.search, engine.align


def test_who_cannot_says_so(tokenizer, translator):
    bare = make_translator(tokenizer, Plain(translator.engine))
    assert not isinstance(bare.engine, RequiringEngine)
    for wish in ({"glossary": GLOSSARY}, {"protect": True}):
        with pytest.raises(SearchError, match="Plain cannot be made to write a glossary's terms"):
            bare.translate(["nothing here"], **wish)
        with pytest.raises(SearchError, match="samples cannot be made to hold"):
            translator.translate(["nothing here"], method="sample", **wish)
    assert bare.translate(SOURCES) == translator.translate(SOURCES)
    (told,) = bare.translate(["{x}"], protect=Protection(force=False))
    assert told.lost == ("{x}",)
    with pytest.raises(DataError, match="blank on one side"):
        translator.translate(["x"], glossary={"x": " "})


# --- Spelling: what ids say and what the text says ------------------------------------------------

PHRASES = ["Licht", "das Licht", "Tür", "{name}", "12", "灯", "(see", "Häuser,", "Qx№", "%d"]


@settings(max_examples=150)
@given(st.sampled_from(PHRASES), st.lists(st.integers(0, 10**6), max_size=4), st.data())
def test_what_is_met_in_ids_stands_in_the_text(tokenizer, phrase, numbers, data):
    """Whatever stands around it, and as a whole word."""
    wanted = Phrases([Speller(tokenizer).phrase(phrase)])
    around = [4 + number % (tokenizer.vocab_size - 4) for number in numbers]
    at = data.draw(st.integers(0, len(around)))
    one = data.draw(st.sampled_from(["", " ", "(", "x"]))
    own = tokenizer.encode(one + phrase)
    ids = around[:at] + own + around[at:]
    progress = wanted.start()
    for id_ in ids:
        progress = wanted.advance(progress, id_)
    if wanted.met(progress):
        assert list(occurrences(phrase, tokenizer.decode(ids))), tokenizer.pieces(ids)


@settings(max_examples=100)
@given(st.sampled_from(["Licht", "das Licht", "{name}", "12"]), st.data())
def test_what_a_plain_text_holds_is_met(tokenizer, phrase, data):
    words = st.lists(st.sampled_from(["das", "Haus", "ist", "x", "broken"]), max_size=3)
    text = " ".join([*data.draw(words), phrase, *data.draw(words)])
    wanted = Phrases([Speller(tokenizer).phrase(phrase)])
    progress = wanted.start()
    for id_ in tokenizer.encode(text):
        progress = wanted.advance(progress, id_)
    assert wanted.met(progress)


def test_a_word_is_not_found_in_a_longer_one(tokenizer):
    wanted = Phrases([Speller(tokenizer).phrase("Licht")])
    for text, met in [
        ("Lichtschalter", False),
        ("xLicht", False),
        ("(Licht)", True),
        ("Licht\u00a0an", True),
        ("„Licht“", False),
    ]:
        progress = wanted.start()
        for id_ in tokenizer.encode(text):
            progress = wanted.advance(progress, id_)
        assert wanted.met(progress) == met, text


def test_a_span_touches_no_word_unless_it_did_in_the_source(tokenizer):
    for edges, glued in (("apart", False), ("any", True)):
        wanted = Phrases([Speller(tokenizer).phrase("{name}", edges=edges)])
        for text, met in {
            "sehen{name}": glued,
            "{name}an": glued,
            "das {name}!": True,
            "({name})": True,
        }.items():
            progress = wanted.start()
            for id_ in tokenizer.encode(text):
                progress = wanted.advance(progress, id_)
            assert wanted.met(progress) == met, (edges, text)


def test_engines_say_what_they_can(tokenizer):
    assert isinstance(make_engine(tokenizer), RequiringEngine)


def test_sums_are_compared_where_terms_are_required(translator):
    """The length penalty is for the others: it would let a sentence with an unlikely term ramble on."""
    bound, free = translator.translate(["the light", "nothing"], glossary=GLOSSARY)
    assert bound.score == pytest.approx(sum(bound.token_log_probs))
    assert free.score > sum(free.token_log_probs)
    (asked,) = translator.translate(["the light"], glossary=GLOSSARY, required_alpha=0.6)
    assert asked.score > sum(asked.token_log_probs)
