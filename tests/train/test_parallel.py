"""Workers: results in order, errors told, and the same update whoever computes its parts."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.errors import RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.train.config import TrainConfig
from transduce.train.parallel import Workers, choose_num_workers
from transduce.train.step import accumulate_gradients

IDS = SpecialIds(0, 2, 3)
CPU = torch.device("cpu")


@pytest.fixture
def parts(tmp_path):
    """Sixteen pairs in four parts."""
    rng = np.random.default_rng(0)
    rows = [(rng.integers(4, 30, n).tolist(), rng.integers(4, 30, 12 - n).tolist()) for n in [2, 4, 6, 8] * 4]
    build_store(tmp_path / "s", rows, vocab_size=30, fingerprint="")
    store = TokenStore(tmp_path / "s")
    return [collate(store, part, IDS) for part in np.array_split(np.arange(16), 4)]


def make_model(**changes):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 30, "target_vocab_size": 30, "d_model": 16, "d_ff": 32, "num_heads": 2}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    return Transformer(TransformerConfig(**{**sizes, **layers, "dropout": 0.3, **changes})).train()


def gradient(model, parts, workers=None, draw=(1, 1)):
    accumulate_gradients(model, parts, 0.1, draw=draw, workers=workers)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items_on_that_many_threads(num_workers):
    at_once = threading.Semaphore(0)

    def work(item):
        at_once.release()
        time.sleep(0.02 if item % 2 else 0.0)
        return item * item, threading.current_thread().name

    with Workers(num_workers) as workers:
        results = list(workers.map(work, range(8)))
    assert [square for square, _ in results] == [n * n for n in range(8)]
    assert len({name for _, name in results}) == num_workers


def test_an_error_comes_out_and_nothing_runs_on():
    running = set()

    def work(item):
        running.add(item)
        try:
            time.sleep(0.03)
            if item == 1:
                raise MemoryError("part 1")
        finally:
            running.discard(item)

    with Workers(2) as workers:
        with pytest.raises(MemoryError, match="part 1"):
            list(workers.map(work, range(6)))
        assert not running
        assert list(workers.map(abs, [-1, -2])) == [1, 2], "the threads are there for the next update"


def test_torchs_threads_are_divided_and_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with Workers(2) as workers:
            assert list(workers.map(lambda _: torch.get_num_threads(), range(4))) == [2] * 4
            assert torch.get_num_threads() == 4
        found = []
        later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert found == [4]
    finally:
        torch.set_num_threads(before)


def test_the_gradient_does_not_depend_on_the_number_of_workers(parts):
    """With one thread each, bit for bit: dropout and the order of sums follow the parts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = make_model(attention_dropout=0.1, activation_dropout=0.1)
        alone = gradient(model, parts)
        for num_workers in (2, 3):
            with Workers(num_workers) as workers:
                assert torch.equal(gradient(model, parts, workers), alone)
    finally:
        torch.set_num_threads(before)


def test_dropout_is_decided_by_seed_step_and_part_alone(parts):
    model = make_model()
    first = gradient(model, parts[:1])
    torch.rand(5)  # torch's own generator has no say
    assert torch.equal(gradient(model, parts[:1]), first)
    for other in ((1, 2), (2, 1)):
        assert not torch.equal(gradient(model, parts[:1], draw=other), first)
    twice = gradient(model, [parts[0], parts[0]])
    assert not torch.allclose(twice, first), "two parts of one update have masks of their own"


@pytest.mark.parametrize("changes", [{}, {"tie": "none", "norm": "pre"}, {"position": "learned"}])
def test_gradients_share_no_memory(parts, changes):
    """They are added to and clipped in place."""
    model = make_model(**changes)
    gradient(model, parts[:1])
    places = [p.grad.untyped_storage().data_ptr() for p in model.parameters()]
    assert len(set(places)) == len(places)


def test_how_many_workers(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert choose_num_workers(0, 4096, CPU) == 4
    assert choose_num_workers(0, 25_000, CPU) == 8
    assert choose_num_workers(0, 500, CPU) == 1
    assert choose_num_workers(3, 500, CPU) == 3
    assert choose_num_workers(3, 4096, torch.device("cuda")) == 1
    with pytest.raises(RecipeError, match="workers must be at least 0"):
        TrainConfig(workers=-1)
