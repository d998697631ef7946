"""The engine over a random network: search and network agree with each other (contract 3)."""

from __future__ import annotations

import random

import pytest
import torch

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.model import Transformer, TransformerConfig
from transduce.search.config import SearchConfig
from transduce.translate.runtime import Runtime
from transduce.translate.torch_engine import TorchEngine

IDS = SpecialIds(0, 2, 3)


def make_engine(batch_tokens=4096, runtime=None, **changes):
    torch.manual_seed(0)
    config = {
        "source_vocab_size": 40, "target_vocab_size": 40, "d_model": 32, "d_ff": 64, "num_heads": 4,
        "num_encoder_layers": 2, "num_decoder_layers": 2, "norm": "pre",
    }  # fmt: skip
    model = Transformer(TransformerConfig(**{**config, **changes})).eval()
    with torch.no_grad():  # a random network that ends its sentences and prefers some words
        model.output.weight.mul_(3)
    return TorchEngine(model, IDS, runtime=runtime or Runtime(batch_tokens=batch_tokens))


def sources(count, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(4, 40) for _ in range(rng.randint(1, 12))] for _ in range(count)]


CONFIGS = [
    SearchConfig(beam_size=1, max_extra_len=8),
    SearchConfig(beam_size=4, max_extra_len=8),
    SearchConfig(beam_size=3, n_best=3, length_penalty="power", alpha=1.0, max_extra_len=5),
    SearchConfig(method="sample", n_best=2, top_k=8, max_extra_len=8, seed=3),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_the_score_is_the_networks_own(config, position):
    """Score reported = score recomputed by a forward pass with teacher forcing, no cache."""
    engine = make_engine(position=position)
    inputs = sources(12)
    for source, hypotheses in zip(inputs, engine.search(inputs, config, keys=range(12)), strict=True):
        for found in hypotheses:
            labels = [*found.ids, IDS.eos_id] if found.finished else list(found.ids)
            target = torch.tensor([[IDS.bos_id, *labels[:-1]]])
            with torch.no_grad():
                log_probs = engine.model(pad_rows([source], IDS), target).log_softmax(-1)[0]
            picked = log_probs[range(len(labels)), labels]
            assert list(found.token_log_probs) == pytest.approx(picked.tolist(), abs=2e-4)
            assert found.log_prob == pytest.approx(picked.sum().item(), abs=1e-3)


@pytest.mark.parametrize("config", CONFIGS)
def test_company_does_not_matter(config):
    inputs = sources(30)
    keys = list(range(30))
    whole = make_engine().search(inputs, config, keys=keys)
    small = make_engine(batch_tokens=64).search(inputs, config, keys=keys)
    order = list(range(30))
    random.Random(1).shuffle(order)
    shuffled = make_engine().search([inputs[i] for i in order], config, keys=[keys[i] for i in order])
    for i in range(30):
        ids = [h.ids for h in whole[i]]
        assert ids == [h.ids for h in small[i]]
        assert ids == [h.ids for h in shuffled[order.index(i)]]


def test_limits_are_each_rows_own():
    """TRAPS 25: a long neighbour must not let a short sentence run on."""
    engine = make_engine()
    config = SearchConfig(beam_size=1, max_extra_len=0, max_len_ratio=1.0, min_len=1)
    for source, (best, *_) in zip(inputs := sources(20), engine.search(inputs, config), strict=True):
        assert len(best.ids) <= len(source)


def test_learned_positions_bound_the_length():
    engine = make_engine(position="learned", max_len=14)
    found = engine.search(sources(6), SearchConfig(beam_size=2, max_extra_len=50))
    assert max(len(best[0].ids) for best in found) <= 13


def test_suppressed_ids_never_appear():
    engine = make_engine()
    banned = engine.search(sources(10), CONFIGS[0])[0][0].ids[0]
    other = TorchEngine(engine.model, IDS, suppress=[banned])
    for hypotheses in other.search(sources(10), CONFIGS[1]):
        assert not {banned, IDS.pad_id, IDS.bos_id} & set(hypotheses[0].ids)


def test_a_forced_prefix_begins_every_hypothesis():
    engine = make_engine()
    prefixes = [[5, 6, 7] if i % 2 else [] for i in range(8)]
    for prefix, hypotheses in zip(
        prefixes, engine.search(sources(8), CONFIGS[2], prefixes=prefixes), strict=True
    ):
        assert all(list(h.ids[: len(prefix)]) == prefix for h in hypotheses)


def test_alignment_is_the_strongest_cross_attention_of_that_layer():
    engine = make_engine()
    inputs, targets = sources(5), sources(5, seed=9)
    aligned = engine.align(inputs, targets)
    records = []
    attention = engine.model.decoder.layers[0].cross_attention  # the one before the last of two
    attention.observer = records.append
    for source, target, pairs in zip(inputs, targets, aligned, strict=True):
        records.clear()
        with torch.no_grad():
            engine.model(pad_rows([source], IDS), torch.tensor([[IDS.bos_id, *target]]))
        weights = records[0].weights[0].mean(0)[: len(target), : len(source)]
        assert [t for _, t in pairs] == list(range(len(target)))
        assert [s for s, _ in pairs] == weights.argmax(-1).tolist()
    assert engine.align([[5]], [[]]) == [()]


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_int8_checked_by_float32_gives_float32s_answers(position):
    inputs = sources(200)
    prefixes = [[5, 6][: i % 3] for i in range(200)]
    plain = make_engine(position=position)
    quick = make_engine(position=position, runtime=Runtime(compute_type="int8"))
    checked = make_engine(position=position, runtime=Runtime(compute_type="int8", exact=True))
    for config in (CONFIGS[0], CONFIGS[1], SearchConfig(beam_size=1, no_repeat_ngram=2, max_extra_len=8)):
        wanted = plain.search(inputs, config, prefixes=prefixes)
        found = checked.search(inputs, config, prefixes=prefixes)
        assert [h[0].ids for h in found] == [h[0].ids for h in wanted]
        assert [h[0].score for h in found] == pytest.approx([h[0].score for h in wanted], abs=1e-4)
        if config.beam_size == 1:  # the check had something to do
            assert [h[0].ids for h in quick.search(inputs, config, prefixes=prefixes)] != [
                h[0].ids for h in wanted
            ]
