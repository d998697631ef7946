"""Labels: what each token is, which characters and which word it belongs to, what its bytes spell."""

from __future__ import annotations

import pytest

from lens.lens_models import TEXTS
from transduce.lens.tokens import Vocabulary, label


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_spans_lie_in_the_text_in_order_and_words_cover_it(tokenizer, text):
    tokens, words = label(text, tokenizer.encode(text), tokenizer, eos=True)
    spans = [token.span for token in tokens[:-1]]
    assert spans == sorted(spans)
    assert "".join(text.split()) == "".join(
        "".join(text[start:end].split()) for start, end in dict.fromkeys(spans) if end > start
    )
    assert [token.i for token in tokens] == list(range(len(tokens)))
    assert tokens[-1].kind == "eos"
    assert tokens[-1].span is None
    for number, word in enumerate(words):
        assert {token.word for token in tokens[word.first : word.end]} == {number}
    assert "".join(word.text for word in words) == "".join(text.split())


@pytest.mark.parametrize(("character", "count"), [("爿", 3), ("😀", 4), ("ï", 2)])
def test_bytes_are_joined_to_the_character_that_they_spell(tokenizer, character, count):
    text = f"turn {character} on"
    spelt = [t for t in label(text, tokenizer.encode(text), tokenizer)[0] if t.bytes]
    assert [t.text for t in spelt] == [character] * count
    assert [t.bytes.part for t in spelt] == list(range(count))
    assert {(t.bytes.first, t.bytes.count, t.bytes.whole) for t in spelt} == {(spelt[0].i, count, True)}
    assert {t.span for t in spelt} == {(5, 6)}
    assert len({t.word for t in spelt}) == 1


def test_bytes_that_spell_nothing_stand_each_for_itself(tokenizer):
    lone = tokenizer.encode("爿")[-3:-1]
    text = tokenizer.decode(lone)
    tokens, _ = label(text, lone, tokenizer, bos=True)
    assert [t.text for t in tokens[1:]] == ["E7", "88"]
    assert [(t.bytes.count, t.bytes.whole) for t in tokens[1:]] == [(1, False)] * 2


def test_nothing_shown_holds_marks_of_the_vocabulary(tokenizer):
    for text in TEXTS:
        for token in label(text, tokenizer.encode(text), tokenizer, bos=True, eos=True)[0]:
            assert not any(mark in token.text for mark in ("\u2581", "<0x", "\ufffd"))


def test_words_and_tokens_count_from_the_start_symbol(tokenizer):
    text = "das Haus"
    tokens, words = label(text, tokenizer.encode(text), tokenizer, bos=True, eos=True)
    assert tokens[0].kind == "bos"
    assert [word.text for word in words] == ["das", "Haus"]
    assert words[0].first == 1
    assert tokens[words[1].first].text.startswith(" H")


def test_single_ids_have_names(tokenizer):
    names = Vocabulary(tokenizer)
    specials = {name: names.named(getattr(tokenizer, f"{name}_id")) for name in ("bos", "eos", "unk", "pad")}
    assert {name: named["kind"] for name, named in specials.items()} == {name: name for name in specials}
    assert specials["bos"]["text"] == "<s>"
    first = tokenizer.encode("das")[0]
    assert names.named(first)["text"] == " das"
