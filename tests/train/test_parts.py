"""Parts: every row once, none too large, decided once and written down; smaller ones where memory ends."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.errors import CheckpointError
from transduce.model import Transformer, TransformerConfig
from transduce.train import step as step_module
from transduce.train import validate as validate_module
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizer, set_rate
from transduce.train.parts import Parts, PartsRecord, PartsTooLargeError, cut, first_parts
from transduce.train.step import train_step
from transduce.train.validate import cut_batches, validation_loss

IDS = SpecialIds(0, 2, 3)
FIRST = Parts(num_parts=2, part_tokens=64, num_workers=2)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 200))
def test_every_row_is_in_one_part_and_parts_are_small_enough(lengths, num_parts, part_tokens):
    rows, widths = np.arange(len(lengths)) + 7, np.array(lengths)
    parts = Parts(num_parts=num_parts, part_tokens=part_tokens, num_workers=1)
    pieces = cut(rows, widths, parts)
    assert np.concatenate(pieces).tolist() == rows.tolist()
    assert len(pieces) >= min(num_parts, len(rows))
    for piece in pieces:
        assert len(piece) == 1 or len(piece) * widths[piece - 7].max() <= part_tokens


def test_without_a_limit_there_is_a_part_for_each_worker():
    parts = first_parts(TrainConfig(workers=3), 64, torch.device("cpu"))
    assert parts == Parts(num_parts=3, part_tokens=64, num_workers=3)
    assert [len(piece) for piece in cut(np.arange(16), np.full(16, 4), parts)] == [6, 5, 5]


@pytest.mark.parametrize(
    ("workers", "accumulate", "num_parts"), [(2, 1, 2), (2, 2, 1), (2, 4, 1), (2, 3, 2), (4, 2, 2), (6, 4, 3)]
)
def test_batches_of_an_update_go_to_workers_evenly_and_in_parts_as_large_as_can_be(
    workers, accumulate, num_parts
):
    config = TrainConfig(workers=workers, accumulate=accumulate)
    parts = first_parts(config, 64, torch.device("cpu"))
    assert parts == Parts(num_parts=num_parts, part_tokens=64, num_workers=workers)
    grows = replace(config, accumulate_final=8)
    assert first_parts(grows, 64, torch.device("cpu")).num_parts == workers


def test_an_update_of_several_small_batches_has_work_for_several_workers(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    parts = first_parts(TrainConfig(accumulate=4), 1024, torch.device("cpu"))
    assert parts == Parts(num_parts=1, part_tokens=1024, num_workers=4)


def test_what_was_decided_is_read_again_and_holds_from_its_update_on(tmp_path):
    record = PartsRecord(tmp_path / "parts.json", FIRST)
    assert record.is_new
    assert not (tmp_path / "parts.json").exists()
    record.decide(1, FIRST)
    small = Parts(num_parts=2, part_tokens=16, num_workers=1)
    record.decide(9, small)
    again = PartsRecord(tmp_path / "parts.json", Parts(num_parts=8, part_tokens=99, num_workers=8))
    assert not again.is_new
    assert [again.at(step) for step in (1, 8, 9, 10)] == [FIRST, FIRST, small, small]
    again.decide(5, small)
    assert [entry["from_step"] for entry in json.loads((tmp_path / "parts.json").read_text())] == [1, 5]


def test_another_number_of_workers_is_followed_and_the_limit_stays(tmp_path):
    record = PartsRecord(tmp_path / "parts.json", FIRST)
    record.decide(1, Parts(num_parts=2, part_tokens=16, num_workers=1))
    assert PartsRecord(tmp_path / "parts.json", FIRST).wanted(4) == record.at(4), "the same number"
    four = PartsRecord(tmp_path / "parts.json", Parts(num_parts=4, part_tokens=64, num_workers=4))
    assert four.wanted(4) == Parts(num_parts=4, part_tokens=16, num_workers=4)


@pytest.mark.parametrize("content", ["", "[]", "[1]", '[{"from_step": 1}]', '[{"from_step": 3, "x": 1}]'])
def test_a_damaged_record_is_told(tmp_path, content):
    (tmp_path / "parts.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"parts\.json cannot be read .* delete it"):
        PartsRecord(tmp_path / "parts.json", FIRST)


class Memory:
    """Holds `cells` of a part and `at_once` of them, as an update would find out."""

    def __init__(self, cells, width, at_once=9):
        self.cells, self.width, self.at_once, self.seen = cells, width, at_once, []

    def update(self, pieces, workers):
        self.seen.append(([len(piece) for piece in pieces], workers))
        if min(workers, len(pieces)) > self.at_once or max(map(len, pieces)) * self.width > self.cells:
            raise PartsTooLargeError
        return "done"

    def compute(self, record, rows, messages, step=5):
        def widths(rows):
            return np.full(len(rows), self.width)

        return record.compute(step, [np.arange(rows)], widths, self.update, messages.append)


def test_an_update_that_does_not_fit_is_done_again_in_halves_which_then_stay(tmp_path):
    record, messages = PartsRecord(tmp_path / "parts.json", FIRST), []
    record.decide(1, FIRST)
    memory = Memory(cells=17, width=8)
    assert memory.compute(record, 16, messages) == "done"
    assert [parts for parts, _ in memory.seen] == [[8, 8], [4] * 4, [2] * 8]
    assert [m.split(";")[0] for m in messages] == ["update 5 did not fit into memory"] * 2
    assert "parts of at most 16 tokens (the batch stays the same)" in messages[-1]
    again = PartsRecord(tmp_path / "parts.json", FIRST)
    assert again.at(4).part_tokens == 64
    assert again.at(5).part_tokens == 16


def test_single_pairs_are_computed_one_at_a_time_at_last(tmp_path):
    record, messages = PartsRecord(tmp_path / "parts.json", FIRST), []
    memory = Memory(cells=40, width=40, at_once=1)
    assert memory.compute(record, 2, messages) == "done"
    assert memory.seen == [([1, 1], 2), ([1, 1], 1)]
    assert "one part at a time" in messages[0]


def test_a_pair_that_does_not_fit_is_told_with_its_length(tmp_path):
    memory = Memory(cells=10, width=40)
    with pytest.raises(
        CheckpointError, match=r"update 5 does not fit .* pair of 40 tokens.*max_len below 40"
    ):
        memory.compute(PartsRecord(tmp_path / "parts.json", FIRST), 2, [])


# --- real updates ---------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(rng.integers(4, 30, n).tolist(), rng.integers(4, 30, 9 - n).tolist()) for n in [2, 4, 5, 7] * 4]
    build_store(tmp_path / "s", rows, vocab_size=30, fingerprint="")
    return TokenStore(tmp_path / "s")


def make_model():
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 30, "target_vocab_size": 30, "d_model": 16, "d_ff": 32, "num_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return Transformer(TransformerConfig(**sizes, **layers, dropout=0.0)).train()


def out_of_memory_above(monkeypatch, module, cells):
    original = module.batch_loss

    def batch_loss(model, source, target, *more):
        loss = original(model, source, target, *more)
        if source.numel() > cells:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to …")
        return loss

    monkeypatch.setattr(module, "batch_loss", batch_loss)


def updated(store, tmp_path, name):
    """Two updates of a fresh model, of all 16 pairs each; its weights, and the record of parts."""
    model, config = make_model(), TrainConfig(learning_rate=1e-2, adam_epsilon=1e-3)
    optimizer = make_optimizer(model, config)
    set_rate(optimizer, 1e-2)
    record = PartsRecord(tmp_path / name, Parts(num_parts=1, part_tokens=999, num_workers=1))

    def widths(rows):
        return np.maximum(store.lengths_of("source", rows), store.lengths_of("target", rows)) + 1

    for step in (1, 2):

        def update(pieces, workers):
            batches = [collate(store, rows, IDS) for rows in pieces]
            return train_step(model, optimizer, batches, config, step=step)  # noqa: B023

        record.compute(step, [np.arange(16)], widths, update, lambda text: None)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), record


def test_the_maths_of_a_split_update_is_the_same(store, tmp_path, monkeypatch):
    whole, _ = updated(store, tmp_path, "whole")
    out_of_memory_above(monkeypatch, step_module, 40)
    split, record = updated(store, tmp_path, "split")
    assert record.at(2).part_tokens < 999
    torch.testing.assert_close(split, whole, rtol=1e-6, atol=1e-7)


def test_running_out_of_memory_changes_nothing(store, monkeypatch):
    model, config = make_model(), TrainConfig()
    optimizer = make_optimizer(model, config)
    before = [p.detach().clone() for p in model.parameters()]
    out_of_memory_above(monkeypatch, step_module, 0)
    with pytest.raises(PartsTooLargeError):
        train_step(model, optimizer, [collate(store, np.arange(16), IDS)], config, step=1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert not optimizer.state


def test_other_errors_come_out_as_they_are(store, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(step_module, "batch_loss", broken)
    model, config = make_model(), TrainConfig()
    with pytest.raises(RuntimeError, match="shapes do not match"):
        train_step(model, make_optimizer(model, config), [collate(store, np.arange(2), IDS)], config, step=1)


def test_validation_in_pieces_measures_the_same(store, monkeypatch):
    model = make_model().eval()
    whole = [collate(store, np.arange(16), IDS)]
    figures = validation_loss(model, whole, 0.1)
    pieces = cut_batches(whole, 20, IDS.pad_id)
    assert max(len(p.rows) * max(p.source.shape[1], p.target.shape[1]) for p in pieces) <= 20
    assert np.concatenate([piece.rows for piece in pieces]).tolist() == list(range(16))
    assert validation_loss(model, pieces, 0.1) == pytest.approx(figures, rel=1e-6)
    out_of_memory_above(monkeypatch, validate_module, 20)
    assert validation_loss(model, whole, 0.1) == pytest.approx(figures, rel=1e-6)
    out_of_memory_above(monkeypatch, validate_module, 3)
    with pytest.raises(RuntimeError, match="can't allocate"):
        validation_loss(model, whole, 0.1)
