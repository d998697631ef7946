"""Heads are chosen by evidence: a network whose heads are made to align, or not, by hand."""

from __future__ import annotations

import json

import pytest
import torch

import transduce
from lens.lens_models import SENTENCE, make_lens
from serve.looked_into import write_run
from transduce.errors import DataError, ModelError
from transduce.lens import Lens
from transduce.lens.alignment import strongest
from transduce.lens.evidence import (
    Evidence,
    agreement_of,
    choose_heads,
    given_links,
    learnt_links,
    link_words,
)
from transduce.text.pairs import Pair
from transduce.translate.alignment import words
from transduce.translate.alignment_heads import ALIGNMENT_FILE, HeadAlignment, read_heads, write_heads

PAIRS = [
    Pair(text, translation, line)
    for line, (text, translation) in enumerate(
        [
            ("the light switch", "der Lichtschalter"),
            ("turn on the light", "schalte das Licht an"),
            ("the light is broken", "das Licht ist kaputt"),
            ("the switch", "der Schalter"),
            ("the house", "das Haus"),
            ("the light", "das Licht"),
        ]
        * 4,
        1,
    )
]


def by_a_head(lens: Lens, layer: int, head: int, pairs, row: str = "predicting") -> list[Evidence]:
    """Evidence that one head draws: that head must be found."""
    heads = HeadAlignment(heads=((layer, head),), row=row)
    found = []
    for pair in pairs:
        trace = lens.trace(pair.source, target=pair.target)
        weights = trace.head("cross", layer, head).weights
        ids = [token.id for token in trace.source[:-1]], [token.id for token in trace.target[1:-1]]
        links = strongest(weights, len(ids[0]), len(ids[1]), heads.row)
        found.append(Evidence(tuple(ids[0]), tuple(ids[1]), {t - 1: frozenset([s]) for s, t in links}))
    return found


@pytest.mark.parametrize("row", ["predicting", "reading"])
@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 0)])
def test_the_head_that_agrees_is_found(tokenizer, layer, head, row):
    lens = make_lens(tokenizer, seed=2)
    found = choose_heads(lens, by_a_head(lens, layer, head, PAIRS[:6], row), "a head")
    assert found.heads == ((layer, head),)
    assert found.row == row
    assert found.agreement == 1.0
    assert found.scores[layer][head] == 1.0
    assert found.evidence == "a head"
    assert found.sentences == 6


def test_agreement_is_the_share_of_tokens_linked_alike(tokenizer):
    lens = make_lens(tokenizer, seed=2)
    heads = HeadAlignment(heads=((0, 0),))
    evidence = by_a_head(lens, 0, 0, PAIRS[:2])
    assert agreement_of(lens, evidence, heads) == 1.0
    one = evidence[0]
    links = dict(one.links)
    links[0] = frozenset(range(len(one.source))) - links[0]
    wrong = Evidence(one.source, one.target, links)
    total = sum(len(e.links) for e in evidence)
    assert agreement_of(lens, [wrong, evidence[1]], heads) == pytest.approx((total - 1) / total)


def test_links_are_learnt_from_the_text(lens):
    found = learnt_links(lens, PAIRS, 6)
    source_tokenizer, target_tokenizer = lens.translator.tokenizers
    one = found[5]  # the light = das Licht
    names = [
        [next(i for i, w in enumerate(ws) if w.first <= token < w.end) for token in range(len(ids))]
        for ids, ws in (
            (one.source, words(source_tokenizer.pieces(one.source))),
            (one.target, words(target_tokenizer.pieces(one.target))),
        )
    ]
    drawn = {(names[0][s], names[1][t]) for t, sources in one.links.items() for s in sources}
    assert (1, 1) in drawn
    assert (1, 0) not in drawn


def test_links_that_are_given_become_links_of_the_words_tokens(lens):
    pair = Pair("the light", "das Licht", 1)
    [found] = given_links(lens, [pair], ["0-0 1-1"], 5)
    source_tokenizer, target_tokenizer = lens.translator.tokenizers
    source, target = (
        words(tok.pieces(tok.encode(text)))
        for tok, text in ((source_tokenizer, pair.source), (target_tokenizer, pair.target))
    )
    for t, sources in found.links.items():
        word = next(i for i, w in enumerate(target) if w.first <= t < w.end)
        assert sources == frozenset(range(source[word].first, source[word].end))
    assert len(found.links) == len(found.target)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0 x"], "line 1 of the links holds 'x', but expected pairs such as 0-0 1-2"),
        (["0-9"], "line 1 links words 0-9, but the sentences have 2 and 2 words"),
        (["0-0", "0-0"], "not one line of links for each pair"),
        ([], "not one line of links for each pair"),
    ],
)
def test_links_that_do_not_fit_are_refused(lens, lines, message):
    with pytest.raises(DataError, match=message):
        given_links(lens, [Pair("the light", "das Licht", 1)], lines, 5)


def test_too_little_evidence_is_an_error(lens):
    with pytest.raises(DataError, match="0 pairs have links"):
        choose_heads(lens, [], "nothing")
    with pytest.raises(DataError, match="no pair has tokens on both sides"):
        learnt_links(lens, [Pair("", "x", 1)], 5)


def test_the_end_symbol_is_no_answer_and_rows_are_shifted():
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.1, 0.6], [0.0, 0.2, 0.8]])
    assert strongest(weights, 2, 2, "predicting") == ((1, 1), (0, 2))
    assert strongest(weights, 2, 2, "reading") == ((0, 1), (1, 2))


def test_a_trace_is_aligned_by_the_chosen_heads(tokenizer):
    heads = HeadAlignment(heads=((0, 1),), row="reading")
    trace = make_lens(tokenizer, heads=heads).trace(SENTENCE, target="schalte das Licht an")
    weights = trace.head("cross", 0, 1).weights
    found = trace.alignment
    assert [t for _, t in found.pairs] == list(range(1, len(trace.target) - 1))
    for s, t in found.pairs:
        assert s == int(weights[t, :-1].argmax())
    assert {t for _, t in found.word_pairs} <= set(range(4))
    assert found.pharaoh == " ".join(f"{s}-{t}" for s, t in found.word_pairs)
    pair = Pair(SENTENCE, "schalte das Licht an", 1)
    assert link_words(trace.lens, pair, heads) == found.pharaoh
    assert link_words(trace.lens, Pair("", "x", 1), heads) == ""
    assert link_words(trace.lens, Pair("light " * 300, "x", 1), heads) is None


@pytest.mark.parametrize("row", ["predicting", "reading"])
def test_translations_are_aligned_by_the_heads_that_were_kept(tmp_path, row):
    model = write_run(tmp_path / "run")
    texts = [SENTENCE, "the light", "x"]
    usual = [t.alignment for t in transduce.load(model, engine="torch").translate(texts, alignment=True)]
    heads = HeadAlignment(heads=((0, 1), (1, 0)), row=row)
    write_heads(heads, model)
    found = transduce.load(model, engine="torch").translate(texts, alignment=True)
    lens = Lens.load(model)
    for text, translation in zip(texts, found, strict=True):
        trace = lens.trace(text)
        assert trace.translation == translation.text
        assert translation.alignment == tuple((s, t - 1) for s, t in trace.alignment.pairs)
    assert [translation.alignment for translation in found] != usual


def test_the_choice_is_kept_beside_the_weights(tmp_path, lens):
    heads = HeadAlignment(
        heads=((0, 1), (1, 1)),
        row="reading",
        agreement=0.75,
        sentences=9,
        evidence="test",
        scores=((0.1, 0.2),) * 2,
    )
    assert read_heads(tmp_path, lens.config) == HeadAlignment(heads=((0, 0), (0, 1)))
    write_heads(heads, tmp_path)
    assert read_heads(tmp_path, lens.config) == heads


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: "{", "cannot be read"),
        (lambda table: json.dumps({**table, "schema": 2}), "is not of schema 1"),
        (lambda table: json.dumps({**table, "heads": [[0]]}), "is incomplete"),
        (lambda table: json.dumps({**table, "heads": [[7, 0]]}), "layer 7, head 0, which this model has not"),
        (lambda table: "[]", "is not of schema 1"),
    ],
)
def test_a_damaged_choice_says_what_to_do(tmp_path, lens, change, message):
    file = write_heads(HeadAlignment(heads=((0, 0),)), tmp_path)
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(ModelError, match=message) as error:
        read_heads(tmp_path, lens.config)
    assert "transduce align" in str(error.value)
    assert ALIGNMENT_FILE in str(error.value)
