"""Every pair once an epoch, within the budget, in an order that can be taken up anywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.config import BatchConfig
from transduce.batch.order import BatchOrder, Position
from transduce.batch.store import TokenStore, build_store
from transduce.errors import DataError, RecipeError

IDS = SpecialIds(0, 2, 3)


def make_store(directory, lengths, copies=1):
    rows = [([5] * source, [6] * target) for source, target in lengths]
    build_store(directory, rows, vocab_size=9, fingerprint="", num_copies=copies)
    return TokenStore(directory)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
    st.integers(24, 90),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_every_pair_once_and_no_batch_over_budget(tmp_path_factory, lengths, budget, epoch, curriculum):
    store = make_store(tmp_path_factory.mktemp("o") / "s", [(1, 1), *lengths])
    lengths = [(1, 1), *lengths]
    order = BatchOrder(
        store, BatchConfig(batch_tokens=budget, max_len=24, curriculum_epochs=curriculum), seed=3
    )
    batches = order.epoch(epoch)
    kept = [i for i, (s, t) in enumerate(lengths) if max(s, t) + 1 <= 24]
    assert order.num_too_long == len(lengths) - len(kept)
    assert sorted(np.concatenate(batches).tolist()) == kept
    for rows in batches:
        batch = collate(store, rows, IDS)
        assert max(batch.source.numel(), batch.target.numel()) <= budget


def test_batches_are_filled(tmp_path):
    store = make_store(tmp_path / "s", [(9, 9)] * 100)
    sizes = [len(b) for b in BatchOrder(store, BatchConfig(batch_tokens=100, max_len=20), 1).epoch(0)]
    assert sizes == [10] * 10


def test_epochs_differ_and_seeds_differ_but_repeat(tmp_path):
    store = make_store(tmp_path / "s", [(i % 9, i % 7) for i in range(200)])
    config = BatchConfig(batch_tokens=60, max_len=20)

    def flat(seed, epoch):
        return [b.tolist() for b in BatchOrder(store, config, seed).epoch(epoch)]

    assert flat(1, 0) == flat(1, 0)
    assert flat(1, 0) != flat(1, 1)
    assert flat(1, 0) != flat(2, 0)


def test_order_is_the_same_on_every_machine(tmp_path):
    """A golden order: a change here makes every unfinished run un-continuable, so say it in CHANGELOG."""
    store = make_store(tmp_path / "s", [(3, 2), (1, 1), (2, 2), (4, 1), (1, 3), (2, 1)])
    batches = BatchOrder(store, BatchConfig(batch_tokens=8, max_len=8), 7).epoch(2)
    assert [b.tolist() for b in batches] == GOLDEN_ORDER


GOLDEN_ORDER = [[5, 1], [3], [4], [2, 0]]


def test_a_curriculum_begins_with_short_batches_and_ends_shuffled_as_ever(tmp_path):
    store = make_store(tmp_path / "s", [(i % 40, i % 40) for i in range(2000)])

    def epoch(number, curriculum):
        config = BatchConfig(batch_tokens=60, max_len=50, curriculum_epochs=curriculum)
        return [batch.tolist() for batch in BatchOrder(store, config, 1).epoch(number)]

    def sortedness(number):
        """Correlation of a batch's place with its length: 1 is sorted, 0 shuffled."""
        lengths = [store.lengths("target")[batch[0]] for batch in epoch(number, 2)]
        return np.corrcoef(np.arange(len(lengths)), lengths)[0, 1]

    assert epoch(0, 2) == epoch(0, 2)
    assert sorted(epoch(0, 2)) == sorted(epoch(0, 0))  # the same batches, in another order
    assert 0.99 > sortedness(0) > 0.8 > sortedness(1) > 0.3
    assert abs(sortedness(2)) < 0.1
    assert epoch(2, 2) == epoch(2, 0)


def test_a_negative_curriculum_is_refused():
    with pytest.raises(RecipeError, match=r"batch\.curriculum_epochs must not be negative, got -1"):
        BatchConfig(curriculum_epochs=-1)


def test_walk_goes_on_from_any_position(tmp_path):
    store = make_store(tmp_path / "s", [(i % 9, i % 7) for i in range(100)])
    order = BatchOrder(store, BatchConfig(batch_tokens=60, max_len=20), 1)
    whole = list(itertools.islice(order.walk(Position()), 40))
    per_epoch = len(order.epoch(0))
    assert per_epoch < 40  # the walk below crosses an epoch's end
    for cut in (1, per_epoch - 1, per_epoch, per_epoch + 1):
        rest = list(itertools.islice(order.walk(whole[cut - 1][1]), 40 - cut))
        assert [b.tolist() for b, _ in rest] == [b.tolist() for b, _ in whole[cut:]]
        assert [p for _, p in rest] == [p for _, p in whole[cut:]]


def test_epochs_take_turns_with_the_copies(tmp_path):
    store = make_store(tmp_path / "s", [(2, 2)] * 4 + [(3, 3)] * 4, copies=2)
    order = BatchOrder(store, BatchConfig(batch_tokens=99, max_len=20), 1)
    assert sorted(order.epoch(0)[0].tolist()) == [0, 1, 2, 3]
    assert sorted(order.epoch(1)[0].tolist()) == [4, 5, 6, 7]
    assert sorted(order.epoch(2)[0].tolist()) == [0, 1, 2, 3]


def test_all_too_long_is_told(tmp_path):
    store = make_store(tmp_path / "s", [(30, 2), (2, 30)])
    with pytest.raises(DataError, match=r"all 2 pairs are longer than batch\.max_len = 20"):
        BatchOrder(store, BatchConfig(batch_tokens=60, max_len=20), 1)


def test_a_budget_below_the_longest_row_is_refused():
    with pytest.raises(RecipeError, match=r"batch_tokens \(10\) is smaller than batch.max_len \(20\)"):
        BatchConfig(batch_tokens=10, max_len=20)


def test_padding_on_real_text_is_under_five_percent(tmp_path, shared_data):
    from transduce.text.lines import read_lines
    from transduce.text.pairs import Pair
    from transduce.text.tokenizer import TokenizerConfig
    from transduce.text.vocabulary import train_tokenizers

    sides = [read_lines(shared_data / "multi30k" / f"train.{language}.gz") for language in ("en", "de")]
    pairs = [Pair(s, t, n) for n, (s, t) in enumerate(zip(*sides, strict=True), 1)]
    source, target = train_tokenizers(pairs, TokenizerConfig(vocab_size=8000, sample_size=5000), tmp_path)
    ids = zip(
        source.encode_batch([p.source for p in pairs]),
        target.encode_batch([p.target for p in pairs]),
        strict=True,
    )
    build_store(tmp_path / "s", ids, vocab_size=8000, fingerprint="")
    store = TokenStore(tmp_path / "s")
    real = cells = 0
    for rows in BatchOrder(store, BatchConfig(batch_tokens=4096), seed=1).epoch(0):
        batch = collate(store, rows, IDS)
        real += batch.num_source_tokens + batch.num_target_tokens
        cells += batch.num_cells
    assert 1 - real / cells < 0.05


def test_the_longest_pair_and_the_widths_of_rows(tmp_path):
    lengths = [(3, 9), (4, 2), (20, 1), (5, 5), (3, 12), (0, 0)]  # two copies of three pairs
    order = BatchOrder(
        make_store(tmp_path / "s", lengths, copies=2), BatchConfig(max_len=14, batch_tokens=40), 0
    )
    assert order.num_too_long == 1
    assert order.longest == 13, "of all copies, those that are left out not counted"
    assert order.widths(np.array([4, 0, 2])).tolist() == [13, 10, 21]
