"""Required phrases are there, and what holds them is the best that does: beam against all sequences."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import BOS, EOS, Script, Sentence, all_sequences, reference_beam, run
from test_beam import cases

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.phrases import Phrase, Phrases, Spelling
from transduce.search.required import required_search

INF = math.inf
PENALTIES = [(kind, alpha) for kind in ("gnmt", "power") for alpha in (0.0, 0.6, 1.5, -0.5)]


def phrase(*ids, count=1, after=None, before=None):
    return Phrase((Spelling(ids, after, before),), count)


@st.composite
def phrases(draw, vocab, most=2, longest=2):
    ids = st.integers(2, vocab - 1)
    neighbours = st.none() | st.frozensets(ids)
    spelling = st.tuples(st.lists(ids, min_size=1, max_size=longest).map(tuple), neighbours, neighbours)
    spellings = st.lists(spelling, min_size=1, max_size=2)
    return draw(st.lists(st.tuples(spellings, st.integers(1, 2)), max_size=most))


def made(drawn):
    """Phrases of what `phrases` drew (types are checked where they are made, with chance of its own)."""
    return [Phrase(tuple(Spelling(*s) for s in spellings), count) for spellings, count in drawn]


def num_occurrences(ids, wanted):
    """Of all places where a phrase stands, the most that do not overlap."""
    places = []
    for spelling in wanted.spellings:
        for start in range(len(ids)):
            end = start + len(spelling.ids)
            fits = tuple(ids[start:end]) == spelling.ids
            fits &= start == 0 or spelling.after is None or ids[start - 1] in spelling.after
            fits &= end >= len(ids) or spelling.before is None or ids[end] in spelling.before
            if fits:
                places.append((end, start))
    count, last = 0, 0
    for end, start in sorted(places):
        if start >= last:
            count, last = count + 1, end
    return count


def holds(ids, wanted):
    return all(num_occurrences(ids, one) >= one.count for one in wanted)


@settings(max_examples=400)
@given(phrases(5, most=3, longest=3), st.lists(st.integers(2, 4), max_size=12))
def test_progress_finds_what_a_plain_look_finds(drawn, ids):
    wanted = made(drawn)
    all_of_them = Phrases(wanted)
    progress = all_of_them.start()
    for id_ in ids:
        reached = all_of_them.reached(progress)
        assert 0 <= reached <= all_of_them.size
        following = all_of_them.advance(progress, id_)
        if all_of_them.reached(following) > reached:
            assert id_ in all_of_them.wanted(progress)
        progress = following
    assert all_of_them.met(progress) == holds(ids, wanted)
    if holds(ids, wanted):
        assert all_of_them.reached(progress) == all_of_them.size


@settings(max_examples=80)
@given(st.data())
def test_full_width_finds_the_best_of_all_sequences_that_hold_the_phrases(data):
    vocab, limit = data.draw(st.sampled_from([(4, 4), (5, 3), (3, 5)]))
    kind, alpha = data.draw(st.sampled_from(PENALTIES))
    config = SearchConfig(
        beam_size=vocab**limit,
        n_best=data.draw(st.integers(1, 6)),
        length_penalty=kind,
        alpha=alpha,
        min_len=data.draw(st.integers(0, 2)),
        no_repeat_ngram=data.draw(st.sampled_from([0, 0, 2])),
    )
    wanted = made(data.draw(phrases(vocab)))
    prefix = data.draw(st.lists(st.integers(2, vocab - 1), max_size=2).map(tuple))
    sentence = Sentence(data.draw(st.integers(0, 9)), limit, prefix)
    script = Script(vocab, seed=data.draw(st.integers(0, 99)), spread=3.0)
    expected = [h for h in all_sequences(script, sentence, config) if holds(h.ids, wanted)]
    found = run(required_search, script, [sentence], config, required=[wanted])[0]
    if expected:
        finished = [h for h in found if h.finished]
        assert finished == expected[: config.n_best]
        assert all(holds(h.ids, wanted) for h in found)
    else:
        assert not any(h.finished and holds(h.ids, wanted) for h in found)


@settings(max_examples=100)
@given(cases())
def test_without_phrases_it_is_the_plain_beam(case):
    script, sentences, fields, suppress = case
    config = SearchConfig(**fields)
    found = run(required_search, script, sentences, config, suppress, required=[[] for _ in sentences])
    assert found == [reference_beam(script, s, config, suppress) for s in sentences]


@settings(max_examples=20)
@given(st.data(), st.randoms(use_true_random=False))
def test_a_narrow_beam_holds_them_too_and_neighbours_change_nothing(data, random):
    vocab = data.draw(st.integers(5, 30))
    config = SearchConfig(
        beam_size=data.draw(st.integers(1, 4)),
        patience=data.draw(st.sampled_from([math.inf, 1.0])),
    )
    wanted = [made(data.draw(phrases(vocab, longest=4))) for _ in range(3)]
    # After each phrase one token that belongs to none: so much room is enough for every condition.
    limits = [sum(p.count * (p.size + 2) for p in ps) + 4 for ps in wanted]
    possible = [Phrases(ps).size <= 16 and all(_can_stand(p) for p in ps) for ps in wanted]
    sentences = [Sentence(key, limit) for key, limit in enumerate(limits)]
    script = Script(vocab, seed=data.draw(st.integers(0, 999)), spread=2.0)
    found = run(required_search, script, sentences, config, required=wanted)
    for hypotheses, ps, sure in zip(found, wanted, possible, strict=True):
        if sure:
            assert all(holds(h.ids, ps) for h in hypotheses)
    order = random.sample(range(3), random.randint(1, 3))
    again = run(
        required_search, script, [sentences[i] for i in order], config, required=[wanted[i] for i in order]
    )
    assert again == [found[i] for i in order]


def _can_stand(wanted):
    return all(s.after is None and s.before is None for s in wanted.spellings)


def test_the_end_is_closed_until_everything_is_there_however_likely_it_is():
    script = Script(6)
    script.logits = lambda key, history: [-INF, 9.0, 3.0, 0.0, -3.0, -6.0]
    for beam_size in (1, 2, 5):
        config = SearchConfig(beam_size=beam_size, alpha=0.0)
        best = run(search, script, [Sentence(0, 9)], config, required=[[phrase(5, 4, 5)]])[0][0]
        assert best.ids == (5, 4, 5)
        assert best.finished
        best = run(search, script, [Sentence(0, 9)], config, required=[[phrase(4, count=2), phrase(3)]])
        assert sorted(best[0][0].ids) == [3, 4, 4]


def test_a_word_inside_a_longer_word_does_not_count():
    """2 begins a word, 3 and 4 go on with one; wanted is the word 2 3, not its beginning in 2 3 4."""
    first = [-INF, -9.0, 5.0, -9.0, -9.0]
    table = {(): first, (2,): [-INF, -9.0, -9.0, 5.0, -9.0], (2, 3): [-INF, -2.0, -3.0, -9.0, 5.0]}
    script = Script(5, table=table)
    whole_word = phrase(2, 3, before=frozenset([2]))
    config = SearchConfig(beam_size=2)
    inside = run(search, script, [Sentence(0, 4)], config, required=[[phrase(2, 3)]])[0][0]
    assert inside.ids[:3] == (2, 3, 4)
    alone = run(search, script, [Sentence(0, 4)], config, required=[[whole_word]])[0][0]
    assert num_occurrences(alone.ids, whole_word) == 1
    assert alone.finished


def test_an_impossible_phrase_gives_what_came_furthest():
    script = Script(6, seed=1)
    config = SearchConfig(beam_size=2, n_best=2)
    short = run(search, script, [Sentence(0, 2)], config, required=[[phrase(2, 3, 4)]])[0]
    assert short
    assert short[0].ids == (2, 3)
    banned = run(search, script, [Sentence(0, 5)], config, suppress=(4,), required=[[phrase(2, 3, 4)]])[0]
    assert 4 not in banned[0].ids
    script.logits = lambda key, history: [0.0, 1.0, -INF, 0.0, 0.0, 0.0]
    never = run(search, script, [Sentence(0, 5)], config, required=[[phrase(2)]])[0]
    assert all(h.finished for h in never)  # rather an end without it than no end


def test_a_long_phrase_is_reached_though_it_has_more_tokens_than_slots():
    long = phrase(*(2 + i % 7 for i in range(60)))
    script = Script(12, seed=3)
    best = run(search, script, [Sentence(0, 80)], SearchConfig(beam_size=2), required=[[long]])[0][0]
    assert holds(best.ids, [long])
    assert max(script.rows_fed) == 2 * 2 + 16


def test_an_observer_sees_each_step():
    records = []
    sentences, wanted = [Sentence(0, 5), Sentence(1, 7)], [[phrase(3, 4)], []]
    config = SearchConfig(beam_size=2)
    found = run(search, Script(6), sentences, config, required=wanted, observer=records.append)
    live = {0: {0: ()}, 1: {0: ()}}
    ended = {0: set(), 1: set()}
    for record in records:
        for s, sentence in enumerate(record.sentences.tolist()):
            following = {}
            for c, slot in enumerate(record.slots[s].tolist()):
                ids = (*live[sentence][int(record.parents[s, c])], int(record.tokens[s, c]))
                if record.finished[s, c]:
                    assert ids[-1] == EOS
                    ended[sentence].add(ids[:-1])
                if slot >= 0:
                    following[slot] = ids
            live[sentence] = following
    assert all(found[s][0].ids in ended[s] for s in (0, 1))


@pytest.mark.parametrize(
    ("required", "config", "message"),
    [
        ([], {}, "0 lists of required phrases came for 1 sentences"),
        ([[phrase(2)]], {"method": "sample"}, "samples cannot be made to hold required phrases"),
        ([[phrase()]], {}, "requires a phrase without tokens"),
        ([[phrase(2, count=0)]], {}, "or 0 times"),
        ([[phrase(2, EOS)]], {}, r"holds eos_id \(1\)"),
        ([[phrase(9)]], {}, "required holds 9, but the model has ids 0 to 5"),
        ([[phrase(-1)]], {}, "required holds -1"),
    ],
)
def test_contradictory_requests_are_named(required, config, message):
    with pytest.raises(SearchError, match=message):
        run(search, Script(6), [Sentence(0, 4)], SearchConfig(**config), required=required)


def test_bos_stays_forbidden_inside_a_phrase():
    found = run(search, Script(5), [Sentence(0, 6)], SearchConfig(), required=[[phrase(BOS)]])[0]
    assert BOS not in found[0].ids
