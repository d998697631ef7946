"""Beam search finds what it promises: the best of what it explores, whoever is in the batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import BOS, EOS, Script, Sentence, all_sequences, reference_beam, run

import transduce.search.beam as beam_module
from transduce.errors import SearchError
from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request

INF = math.inf
PENALTIES = [(kind, alpha) for kind in ("gnmt", "power") for alpha in (0.0, 0.6, 1.0, 2.5, -0.5)]


@st.composite
def cases(draw):
    """A script, sentences, a config's fields and suppressed ids that fit together."""
    vocab = draw(st.integers(3, 7))
    ids = st.integers(2, vocab - 1)
    limits = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    sentences = [
        Sentence(key, limit, tuple(draw(st.lists(ids, max_size=min(limit, 3)))))
        for key, limit in enumerate(limits)
    ]
    kind, alpha = draw(st.sampled_from(PENALTIES))
    size = draw(st.integers(2, 5))
    fields = {
        "beam_size": size,
        "n_best": draw(st.integers(1, size)),
        "length_penalty": kind,
        "alpha": alpha,
        "min_len": draw(st.integers(0, min(limits))),
        "no_repeat_ngram": draw(st.integers(0, 2)),
        "patience": draw(st.sampled_from([INF, INF, 1.0, 1.3, 2.0])),
    }
    script = Script(
        vocab,
        seed=draw(st.integers(0, 10**6)),
        spread=draw(st.sampled_from([0.3, 2.0, 6.0])),
        grid=draw(st.sampled_from([None, 1.0])),
    )
    suppress = draw(st.sampled_from([(), (2,)]))
    return script, sentences, fields, suppress


@settings(max_examples=150, deadline=None)
@given(cases())
def test_finds_what_a_plain_beam_search_without_early_exit_finds(case):
    script, sentences, fields, suppress = case
    config = SearchConfig(**fields)
    found = run(beam_search, script, sentences, config, suppress)
    assert found == [reference_beam(script, s, config, suppress) for s in sentences]


@settings(max_examples=40, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_neighbours_and_their_order_change_nothing(case, random):
    script, sentences, fields, suppress = case
    config = SearchConfig(**fields)
    found = run(beam_search, script, sentences, config, suppress)
    together = dict(zip(sentences, found, strict=True))
    some = random.sample(sentences, random.randint(1, len(sentences)))
    again = run(beam_search, script, some, config, suppress)
    assert again == [together[sentence] for sentence in some]


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
def test_full_width_finds_the_best_of_all_sequences(kind, alpha):
    for seed, (vocab, limit) in enumerate([(3, 4), (4, 3), (5, 2), (6, 1), (4, 3), (4, 3)]):
        config = SearchConfig(
            beam_size=vocab**limit,
            n_best=min(8, vocab**limit),
            length_penalty=kind,
            alpha=alpha,
            min_len=seed % 2,
        )
        script = Script(vocab, seed=seed, spread=3.0)
        sentence = Sentence(seed, limit, (2,) if seed == 4 else ())
        expected = all_sequences(script, sentence, config)[: config.n_best]
        assert run(beam_search, script, [sentence], config) == [expected]


def test_the_reported_score_is_the_recomputed_one():
    config = SearchConfig(beam_size=3, n_best=3, length_penalty="power", alpha=0.7)
    script = Script(5, seed=3)
    for hypothesis in run(beam_search, script, [Sentence(0, 6)], config)[0]:
        tokens = (*hypothesis.ids, EOS)[: len(hypothesis.token_log_probs)]
        own = [script.log_probs(0, tokens[:i])[token] for i, token in enumerate(tokens)]
        assert list(hypothesis.token_log_probs) == own
        assert hypothesis.log_prob == pytest.approx(math.fsum(own), abs=1e-12)
        assert hypothesis.score == hypothesis.log_prob / len(own) ** 0.7


def test_eos_counts_in_the_length():
    always_eos = Script(3, table={(): [-9.0, 2.0, 1.0]})
    config = SearchConfig(beam_size=2, length_penalty="power", alpha=1.0)
    best = run(beam_search, always_eos, [Sentence(0, 0)], config)[0][0]
    assert (best.ids, best.finished, len(best.token_log_probs)) == ((), True, 1)
    assert best.score == best.log_prob / 1


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
def test_stopping_early_changes_nothing_and_saves_steps(kind, alpha, monkeypatch):
    def never(log_probs, next_penalty, last_penalty):
        return torch.where(log_probs > -INF, INF, -INF)

    config = SearchConfig(beam_size=3, n_best=2, length_penalty=kind, alpha=alpha)
    sentences = [Sentence(key, 12 + key) for key in range(6)]
    script, patient = Script(5, seed=1), Script(5, seed=1)
    early = run(beam_search, script, sentences, config)
    monkeypatch.setattr(beam_module, "best_attainable", never)
    assert run(beam_search, patient, sentences, config) == early
    assert len(patient.rows_fed) == 18
    assert len(script.rows_fed) <= 18
    if alpha <= 0.6 and kind == "gnmt":
        assert sum(script.rows_fed) < sum(patient.rows_fed) / 2


def test_a_later_hypothesis_wins_when_the_length_penalty_promises_it():
    """The first to finish is not the best (OpenNMT-py#1320, joeynmt#148, transformers#20901)."""
    table = {
        (): [-INF, math.log(0.5), math.log(0.4), math.log(0.1)],
        (2,): [-INF, math.log(0.01), math.log(0.97), math.log(0.02)],
        (2, 2): [-INF, math.log(0.97), math.log(0.01), math.log(0.02)],
    }
    script = Script(4, table=table, spread=0.1)
    config = SearchConfig(beam_size=2, length_penalty="power", alpha=1.0)
    best = run(beam_search, script, [Sentence(0, 4)], config)[0][0]
    assert best.ids == (2, 2)
    short = run(beam_search, script, [Sentence(0, 4)], replace(config, alpha=0.0))[0][0]
    assert short.ids == ()


def test_eos_takes_no_place_from_the_living_and_nothing_finished_is_overwritten():
    """OpenNMT-py#137: two of two hypotheses propose EOS first; both finish and both live on."""
    eos_first = [-INF, math.log(0.6), math.log(0.3), math.log(0.1)]
    table = {(): [-INF, -INF, 0.0, 0.0], (2,): eos_first, (3,): eos_first}
    table |= {(a, b): [-INF, 0.0, -INF, -INF] for a in (2, 3) for b in (2, 3)}
    script = Script(4, table=table)
    config = SearchConfig(beam_size=2, n_best=2, length_penalty="power", alpha=3.0)
    found = run(beam_search, script, [Sentence(0, 3)], config)[0]
    assert [h.ids for h in found] == [(2, 2), (3, 2)]
    config = replace(config, alpha=0.0)
    assert [h.ids for h in run(beam_search, script, [Sentence(0, 3)], config)[0]] == [(2,), (3,)]


def test_equal_scores_take_the_lower_slot_and_the_lower_id():
    flat = Script(300, table={(): [0.0] * 300, **{(i,): [0.0] * 300 for i in range(300)}})
    config = SearchConfig(beam_size=4, n_best=4, alpha=0.0, min_len=2)
    found = run(beam_search, flat, [Sentence(0, 2)], config)[0]
    assert [h.ids for h in found] == [(2, 2), (2, 3), (2, 4), (2, 5)]


def test_a_hypothesis_at_its_limit_is_cut_unless_eos_is_likely():
    """After one token the row ranks EOS 1st, 2nd or 3rd; the beam of 2 takes it in its first 2."""
    for rank, finished in [(0, True), (1, True), (2, False)]:
        after = [-INF, 2.5 - rank, 2.0, 1.0]
        script = Script(4, table={(): [-INF, -INF, 1.0, -INF], (2,): after})
        best = run(beam_search, script, [Sentence(0, 1)], SearchConfig(beam_size=2))[0][0]
        assert (best.ids, best.finished) == ((2,), finished)
        assert len(best.token_log_probs) == 1 + finished
        assert best.log_prob == sum(best.token_log_probs)


def test_finished_hypotheses_come_before_cut_ones_which_fill_the_rest():
    table = {
        (): [-INF, math.log(0.04), math.log(0.9), math.log(0.06)],
        (2,): [-INF, math.log(0.01), math.log(0.5), math.log(0.49)],
        (3,): [-INF, math.log(0.99), math.log(0.01), -INF],
    }
    script = Script(4, table=table)
    config = SearchConfig(beam_size=2, n_best=2)
    found = run(beam_search, script, [Sentence(0, 1)], config)[0]
    assert [(h.ids, h.finished) for h in found] == [((3,), True), ((2,), False)]
    assert found[0].score < found[1].score
    alone = run(beam_search, script, [Sentence(0, 1)], replace(config, n_best=1))[0]
    assert alone == found[:1]


def test_limits_are_each_sentences_own():
    never = Script(4, table={})
    never.logits = lambda key, history: [-INF, -INF, 1.0, 0.0]
    limits = [5, 0, 3, 1]
    found = run(beam_search, never, [Sentence(k, n) for k, n in enumerate(limits)], SearchConfig())
    assert [h[0].ids for h in found] == [(2,) * n for n in limits]
    assert not any(h[0].finished for h in found)
    assert found[1][0] == Hypothesis((), 0.0, 0.0, (), False)


def test_work_starts_with_one_row_per_sentence_and_shrinks_as_sentences_leave():
    never = Script(6)
    never.logits = lambda key, history: [-INF, -INF, 4.0, 3.0, 2.0, 1.0]
    run(beam_search, never, [Sentence(k, k) for k in range(4)], SearchConfig(beam_size=3))
    assert never.rows_fed == [4, 9, 6, 3]


def test_a_common_prefix_is_fed_with_one_row_per_sentence():
    script = Script(6, seed=2)
    sentences = [Sentence(0, 6, (2, 3, 4)), Sentence(1, 6, (5, 5))]
    run(beam_search, script, sentences, SearchConfig(beam_size=3, min_len=4))
    assert script.rows_fed[:4] == [2, 2, 2, 6]


def test_a_forced_token_keeps_the_models_own_log_probability_even_if_suppressed():
    script = Script(6, seed=2)
    sentence = Sentence(0, 5, (4, 4))
    config = SearchConfig(beam_size=3, n_best=3, no_repeat_ngram=1)
    for hypothesis in run(beam_search, script, [sentence], config, suppress=(4,))[0]:
        assert hypothesis.ids[:2] == (4, 4)
        assert 4 not in hypothesis.ids[2:]
        assert hypothesis.token_log_probs[0] == script.log_probs(0, ())[4]
        assert hypothesis.token_log_probs[1] == script.log_probs(0, (4,))[4]


def test_an_impossible_prefix_is_cut_before_the_impossible_token():
    script = Script(4, table={(): [0.0, 0.0, 0.0, -INF]})
    sentences = [Sentence(0, 3, (3,)), Sentence(1, 3, (2,))]
    found = run(beam_search, script, sentences, SearchConfig(beam_size=2))
    assert (found[0][0].ids, found[0][0].finished) == ((), False)
    assert found[1][0].ids[:1] == (2,)


def test_a_dead_end_returns_what_there_is():
    nothing = [-INF] * 4
    table = {(): [-INF, -INF, 2.0, 1.0], (2,): nothing, (3,): nothing}
    config = SearchConfig(beam_size=2, n_best=2)
    found = run(beam_search, Script(4, table=table), [Sentence(0, 9)], config)[0]
    assert [(h.ids, h.finished) for h in found] == [((2,), False), ((3,), False)]
    table[(3,)] = [-INF, 0.0, -INF, -INF]
    found = run(beam_search, Script(4, table=table), [Sentence(0, 9)], config)[0]
    assert [(h.ids, h.finished) for h in found] == [((3,), True), ((2,), False)]


@pytest.mark.parametrize(("bad", "named"), [(math.nan, "NaN"), (INF, r"\+inf")])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_broken_logits_are_an_error(bad, named, beam_size):
    script = Script(4, table={(2,): [0.0, 0.0, 0.0, bad], (): [-INF, -INF, 1.0, 0.0]})
    with pytest.raises(SearchError, match=f"hold {named} in . of . rows .first: row 0"):
        run(beam_search, script, [Sentence(0, 3)], SearchConfig(beam_size=beam_size))


@pytest.mark.parametrize("kind", ["beam", "sample"])
def test_no_sentences_give_no_hypotheses(kind):
    script = Script(4)
    assert run(search, script, [], SearchConfig(method=kind)) == []
    assert script.rows_fed == []


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy_search(seed):
    sentences = [Sentence(k, 5) for k in range(4)]
    config = SearchConfig(beam_size=1)
    found = [
        run(function, Script(4, seed=seed), sentences, config)
        for function in (beam_search, greedy_search, search)
    ]
    assert found[0] == found[1] == found[2]
    assert found[0] == [reference_greedy(Script(4, seed=seed), s, config) for s in sentences]


def reference_greedy(script, sentence, config):
    """A beam of one that stops at its first EOS."""
    best = reference_beam(script, sentence, config)
    for length in range(sentence.limit + 1):
        shorter = reference_beam(script, replace(sentence, limit=length), config)
        if shorter[0].finished:
            return shorter
    return best


def test_long_searches_whose_sentences_leave_at_different_times():
    sentences = [Sentence(k, 10 + 3 * (k % 7)) for k in range(24)]
    config = SearchConfig(beam_size=4, n_best=2, alpha=1.0)
    script = Script(12, seed=9, spread=1.5)
    found = run(beam_search, script, sentences, config)
    assert found == [reference_beam(script, s, config) for s in sentences]
    assert len(set(script.rows_fed)) > 4


def test_an_observer_can_rebuild_the_beam():
    config = SearchConfig(beam_size=3, n_best=2, alpha=1.0)
    sentences = [Sentence(k, 4 + k) for k in range(3)]
    records = []
    found = run(beam_search, Script(5, seed=4), sentences, config, observer=records.append)
    live = {k: {0: ((), 0.0)} for k in range(3)}
    finished = {k: {} for k in range(3)}
    for length, record in enumerate(records):
        assert record.length == length
        for s, sentence in enumerate(record.sentences.tolist()):
            following = {}
            for c, slot in enumerate(record.slots[s].tolist()):
                if record.totals[s, c] == -INF:
                    assert slot == -1
                    assert not record.finished[s, c]
                    continue
                ids, total = live[sentence][int(record.parents[s, c])]
                total += float(record.log_probs[s, c])
                assert total == float(record.totals[s, c])
                if record.finished[s, c]:
                    assert int(record.tokens[s, c]) == EOS
                    finished[sentence][ids] = total
                if slot >= 0:
                    following[slot] = ((*ids, int(record.tokens[s, c])), total)
            assert sorted(following) == list(range(len(following)))
            live[sentence] = following
    for sentence, hypotheses in enumerate(found):
        for h in hypotheses:
            if h.finished:
                assert finished[sentence][h.ids] == h.log_prob
    assert all(not following for following in live.values())


def test_bos_is_never_generated():
    eager = Script(3, table={(): [9.0, 1.0, 0.0]})
    found = run(beam_search, eager, [Sentence(0, 1)], SearchConfig(beam_size=2, n_best=2))[0]
    assert [h.ids for h in found] == [(), (2,)]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_bos_may_be_eos_as_in_fairseq(beam_size):
    """Also: no hypothesis is there twice, though the beam is wider than the vocabulary."""
    found = beam_search(
        lambda ids, state: (torch.tensor([[9.0, 1.0, 0.0]] * len(ids)), state),
        Script(3).start([0]),
        Request(
            bos_id=BOS,
            eos_id=BOS,
            limits=[1],
            config=SearchConfig(beam_size=beam_size, n_best=beam_size),
        ),
    )
    assert [h.ids for h in found[0]] == [(), (1,), (2,)][:beam_size]
    assert all(h.finished for h in found[0])
