"""Fitting to a budget: cheap where there is plenty, measured where there is not, exact always."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from transduce.errors import RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.train import fit as fit_module
from transduce.train.config import TrainConfig
from transduce.train.fit import Budget, Load, estimated_bytes, find_budget, fit
from transduce.train.memory import peak_bytes_of
from transduce.train.optimizer import make_optimizer
from transduce.train.parallel import Workers
from transduce.train.parts import Parts
from transduce.train.step import accumulate_gradients

CPU = torch.device("cpu")
MIB = 2**20
WANTED = Parts(num_parts=2, part_tokens=4096, num_workers=2)
LOAD = Load(longest=256, batch_tokens=4096, num_batches=1)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def make_model(**changes):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 50, "target_vocab_size": 50, "d_model": 32, "d_ff": 64, "num_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return Transformer(TransformerConfig(**{**sizes, **layers, "dropout": 0.1, **changes})).train()


def fitted(budget, *, load=LOAD, wanted=WANTED, config=None, model=None):
    model, config = model or make_model(), config or TrainConfig()
    return fit(model, make_optimizer(model, config), config, load, wanted, budget)


@pytest.fixture
def machine(monkeypatch):
    """Measures a tenth of a mebibyte for each token of the parts that are computed at once."""
    tried = []

    def gradients(model, batches, *more, workers, **named):
        tried.append((*batches[0].source.shape, len(batches), workers.num_workers))

    def peak(work):
        tried.append(None)
        work()
        shape = tried.pop()
        tried[-1] = shape
        rows, length, at_once, _ = shape
        return rows * length * at_once * MIB // 10

    monkeypatch.setattr(fit_module, "accumulate_gradients", gradients)
    monkeypatch.setattr(fit_module, "peak_bytes_of", peak)
    return tried


def budget(mebibytes):
    """With so much room, and 100 MiB taken."""
    return Budget(int((mebibytes + 100) * MIB / 0.85) + 1, 100 * MIB)


def test_a_small_run_begins_without_any_trial(machine):
    parts, sentence = fitted(budget(16_000))
    assert parts == WANTED
    assert machine == []
    assert sentence.startswith("memory: ")


def test_without_a_budget_nothing_is_tried_or_said(machine):
    assert fitted(None) == (WANTED, "")
    assert machine == []


@pytest.mark.parametrize(
    ("room", "part_tokens", "num_workers", "tokens_at_once"),
    [(420, 4096, 2, 4096), (300, 1024, 2, 2048), (110, 512, 2, 1024), (60, 256, 2, 512), (30, 256, 1, 256)],
)
def test_the_largest_parts_that_were_measured_to_fit(machine, room, part_tokens, num_workers, tokens_at_once):
    parts, sentence = fitted(budget(room))
    assert parts == Parts(num_parts=2, part_tokens=part_tokens, num_workers=num_workers)
    rows, length, at_once, threads = machine[-1]
    assert rows * length * at_once == tokens_at_once, "the worst update was really computed"
    assert threads == at_once == num_workers
    assert f"parts of {part_tokens:,} tokens, {num_workers} at once" in sentence
    assert "longest pair (256 tokens) needs about" in sentence


def test_no_trial_is_made_that_would_not_fit(machine):
    fitted(budget(60))
    assert all(rows * length * at_once <= 600 for rows, length, at_once, _ in machine)


def test_where_not_one_pair_fits_a_length_is_named_that_does(machine):
    with pytest.raises(RecipeError) as caught:
        fitted(budget(17))
    message = str(caught.value)
    assert "longest pair (256 tokens)" in message
    fits = int(message.rpartition(" ")[2])
    assert 100 < fits < 175
    load = Load(longest=fits, batch_tokens=4096, num_batches=1)
    assert fitted(budget(17), load=load)[0].num_workers == 1


def test_the_raise_that_is_named_suffices(machine):
    with pytest.raises(RecipeError, match=r"raise --memory to (\S+ \S+), or") as caught:
        fitted(Budget(130 * MIB, 100 * MIB))
    size = str(caught.value).split("raise --memory to ")[1].split(",")[0]
    fitted(Budget(find_budget(size, CPU).total, 100 * MIB))


def test_a_model_that_does_not_fit_itself_gets_no_length(machine):
    with pytest.raises(RecipeError) as caught:
        fitted(Budget(100 * MIB, 100 * MIB))
    assert "max_len" not in str(caught.value)


def test_one_batch_with_one_longest_pair_is_not_counted_for_every_worker(machine, monkeypatch):
    monkeypatch.setattr(fit_module, "_PLAINLY", 0.0)
    load = Load(longest=4000, batch_tokens=4096, num_batches=1)
    parts, _ = fitted(budget(450), load=load)
    assert parts == WANTED
    assert machine[-1][:3] == (1, 4000, 1)
    several = Load(longest=4000, batch_tokens=4096, num_batches=4)
    assert fitted(budget(450), load=several)[0].num_workers == 1


def test_a_trial_that_runs_out_of_memory_is_a_trial_that_does_not_fit(machine, monkeypatch):
    original = fit_module.peak_bytes_of

    def peak(work):
        size = original(work)
        if size > 60 * MIB:
            raise MemoryError
        return size

    monkeypatch.setattr(fit_module, "peak_bytes_of", peak)
    with pytest.raises(RecipeError):
        fitted(budget(300), load=Load(longest=1024, batch_tokens=4096, num_batches=1))


@linux
def test_trials_leave_no_trace():
    model, config = make_model(attention_dropout=0.1), TrainConfig(r_drop=1.0)
    optimizer = make_optimizer(model, config)
    before = [p.detach().clone() for p in model.parameters()]
    random = torch.get_rng_state()
    found = find_budget("", CPU)
    tight = Budget(int((found.taken + 400 * MIB) / 0.85), found.taken)
    load = Load(longest=64, batch_tokens=512, num_batches=1)
    wanted = Parts(num_parts=2, part_tokens=512, num_workers=2)
    called = []
    model.register_forward_hook(lambda *a: called.append(1))
    parts, sentence = fit(model, optimizer, config, load, wanted, tight)
    assert "longest pair" in sentence, "something was tried"
    assert parts.num_parts == 2
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training


@linux
@pytest.mark.parametrize(
    "changes",
    [{}, {"attention_dropout": 0.1}, {"norm": "pre", "activation": "swiglu"}, {"d_ff": 64}],
)
def test_the_estimate_is_above_what_is_measured_and_not_far(changes):
    from transduce.batch.collate import Batch

    model = make_model(
        **{"d_model": 128, "d_ff": 512, "num_encoder_layers": 2, "num_decoder_layers": 2, **changes}
    )
    ids = torch.ones(4, 256, dtype=torch.int64)
    batch = Batch(ids, ids, ids, 1024, 1024, np.arange(4))

    def update():
        accumulate_gradients(model, [batch], 0.1, workers=Workers(1))

    update()
    measured = peak_bytes_of(update)
    assert measured < estimated_bytes(model.config, 4, 256) + 30 * MIB
    assert estimated_bytes(model.config, 4, 256) < 2.5 * measured


@linux
def test_the_budget_is_what_was_named_or_a_share_of_what_is_free(monkeypatch):
    assert find_budget("3GB", CPU).total == 3 * 10**9
    monkeypatch.setattr(fit_module, "free_bytes", lambda: 10 * 10**9)
    found = find_budget("", CPU)
    assert found.total == found.taken + 8 * 10**9
    assert found.most == int(0.85 * found.total) == found.room + found.taken
    monkeypatch.setattr(fit_module, "free_bytes", lambda: None)
    assert find_budget("", CPU) is None
