"""The search's tree, the full distributions, the cache: against the search itself and against the model."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from lens.by_hand import ByHand
from lens.lens_models import SENTENCE, make_lens
from transduce.lens.decoding import ROOT, path_to
from transduce.search.config import SearchConfig
from transduce.search.scores import length_penalty


def test_the_chosen_path_is_the_hypothesis(trace):
    best, nodes = trace.hypothesis, trace.watched.nodes
    path = trace.chosen_nodes
    assert [nodes[n].token for n in path] == [*best.ids, *[trace.lens.ids.eos_id] * best.finished]
    assert [nodes[n].logp for n in path] == list(best.token_log_probs)
    assert nodes[path[-1]].score == best.score
    assert nodes[path[-1]].state == ("finished" if best.finished else "live")
    assert nodes[path[0]].parent == ROOT


def test_the_tree_adds_up_and_what_lives_on_is_the_best(trace):
    config, nodes = trace.config, trace.watched.nodes
    penalty = length_penalty(config.length_penalty, config.alpha)
    steps = max(node.step for node in nodes) + 1
    assert [node.n for node in nodes] == list(range(len(nodes)))
    for node in nodes:
        above = 0.0 if node.parent == ROOT else nodes[node.parent].total
        assert node.total == pytest.approx(above + node.logp, abs=1e-9)
        assert node.score == pytest.approx(node.total / penalty(node.step + 1), abs=1e-9)
        assert (node.state == "finished") == (node.token == trace.lens.ids.eos_id) or node.state == "pruned"
        if node.parent != ROOT:
            assert nodes[node.parent].step == node.step - 1
            assert nodes[node.parent].state == "live"
    for step in range(steps):
        here = [node for node in nodes if node.step == step and node.token != trace.lens.ids.eos_id]
        live = [node.total for node in here if node.state == "live"]
        assert len(live) <= config.beam_size
        assert min(live, default=math.inf) >= max(
            (node.total for node in here if node.state == "pruned"), default=-math.inf
        )
    assert any(node.state == "pruned" for node in nodes)


def test_what_had_finished_begins_with_what_was_returned(trace):
    if trace.hypothesis.finished:
        assert trace.watched.endings()[0] == trace.hypothesis
    scores = [hypothesis.score for hypothesis in trace.watched.endings()]
    assert scores == sorted(scores, reverse=True)


def test_logits_after_any_node_are_the_models_after_that_path(trace):
    hand = ByHand(trace.lens.translator.engine.model)
    for node in [ROOT, *range(0, len(trace.watched.nodes), 7)]:
        target = [trace.lens.ids.bos_id, *path_to(trace.watched.nodes, node)]
        expected = hand.run(trace.done.source.tolist(), target)[-1]
        assert_close(trace.logits(node=node), expected, rtol=1e-5, atol=1e-5)


def test_a_nodes_log_probability_comes_from_its_parents_logits(trace):
    for node in trace.watched.nodes[::5]:
        logits = trace.logits(node=node.parent)
        assert float(logits.log_softmax(0)[node.token]) == pytest.approx(node.logp, abs=1e-4)


def test_steps_are_of_the_whole_vocabulary(trace):
    hand = ByHand(trace.lens.translator.engine.model)
    logits = hand.run(trace.done.source.tolist(), trace.done.target.tolist()).double()
    log_probs = logits.log_softmax(1)
    for row, step in enumerate(trace.steps(5)):
        own = log_probs[row]
        values, ids = own.topk(5)
        assert [id_ for id_, _, _ in step.top] == ids.tolist()
        assert [logp for _, _, logp in step.top] == pytest.approx(values.tolist(), abs=1e-5)
        assert step.logsumexp == pytest.approx(float(logits[row].logsumexp(0)), abs=1e-5)
        assert step.entropy == pytest.approx(float(-(own.exp() * own).sum()), abs=1e-5)
        assert step.rest == pytest.approx(1 - float(values.exp().sum()), abs=1e-5)
        assert step.chosen.id == trace.target[row + 1].id
        assert step.chosen.logp == pytest.approx(float(own[step.chosen.id]), abs=1e-5)
        assert step.chosen.rank == int((own > own[step.chosen.id]).sum())
        assert_close(trace.logits(step=row).double(), logits[row], rtol=1e-5, atol=1e-5)


def test_the_cache_is_measured_and_grows_by_one_token_a_step(trace):
    config, caches = trace.lens.config, trace.watched.caches
    per_token = 2 * config.num_decoder_layers * config.d_model * 4  # keys and values, float32
    # A search that stops at its limit computes one step more, from which nothing could follow.
    assert 0 <= len(caches) - 1 - max(node.step for node in trace.watched.nodes) <= 1
    for step, cache in enumerate(caches):
        assert cache.length == step + 1
        assert cache.self_bytes == cache.rows * cache.length * per_token
        assert cache.self_bytes == 4 * (math.prod(cache.self_keys) + math.prod(cache.self_values))
        assert cache.cross_bytes == len(trace.source) * per_token
    assert caches[0].rows == 1
    assert caches[1].rows == trace.config.beam_size


def test_what_the_cache_says_is_what_its_tensors_hold(trace):
    model = trace.lens.translator.engine.model
    with torch.inference_mode():
        cache = model.start(model.encode(trace.done.source[None]))
        for token in trace.done.target[:3].tolist():
            _, cache = model.step(torch.tensor([token]), cache)
    held = [t[:, :, : cache.length] for layer in cache.layers for t in (layer._keys, layer._values)]
    one_row = trace.watched.caches[2].self_bytes / trace.watched.caches[2].rows
    assert sum(t.contiguous().numpy().nbytes for t in held) == one_row


def test_an_output_that_is_given_is_followed(lens):
    trace = lens.trace(SENTENCE, target="das Licht")
    assert trace.translation == "das Licht"
    assert len(trace.watched.nodes) == len(trace.target) - 1
    assert trace.chosen_nodes == list(range(len(trace.target) - 1))
    steps = [step.chosen.logp for step in trace.steps(1)]
    assert list(trace.hypothesis.token_log_probs) == pytest.approx(steps, abs=1e-5)
    penalty = length_penalty(trace.config.length_penalty, trace.config.alpha)
    assert trace.hypothesis.score == pytest.approx(sum(steps) / penalty(len(steps)), abs=1e-5)


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"method": "sample", "n_best": 3, "seed": 5}])
def test_greedy_and_samples_have_trees_too(lens, settings):
    trace = lens.trace(SENTENCE, search=SearchConfig(max_extra_len=6, max_len_ratio=0.5, **settings))
    path = trace.chosen_nodes
    chosen = [trace.watched.nodes[n].token for n in path]
    best = trace.hypothesis
    assert chosen == [*best.ids, *[trace.lens.ids.eos_id] * best.finished]


def test_an_output_that_was_cut_has_no_end_symbol_and_no_last_choice(tokenizer):
    lens = make_lens(tokenizer, seed=1)
    trace = lens.trace(SENTENCE, max_len=2, search=SearchConfig(beam_size=1))
    assert not trace.hypothesis.finished
    assert [token.kind for token in trace.target][-1] != "eos"
    assert trace.num_rows == len(trace.target)
    assert trace.steps(3)[-1].chosen is None
    assert trace.limits_applied == ("The output may have 2 tokens here.",)
