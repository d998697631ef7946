"""The token store gives back what was put in, whole or not at all."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.batch.store import TokenStore, build_store, stored_fingerprint
from transduce.errors import DataError

ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 69_999), max_size=9), st.lists(st.integers(0, 69_999), max_size=9)),
    min_size=1,
    max_size=20,
)


@given(ROWS)
def test_rows_come_back_as_they_went_in(tmp_path_factory, rows):
    directory = tmp_path_factory.mktemp("store") / "s"
    build_store(directory, rows, vocab_size=70_000, fingerprint="f")
    store = TokenStore(directory)
    assert len(store) == len(rows)
    for side, column in (("source", 0), ("target", 1)):
        assert store.lengths(side).tolist() == [len(row[column]) for row in rows]
        order = np.arange(len(rows))[::-1].copy()
        flat, lengths = store.rows(side, order)
        parts = np.split(flat, np.cumsum(lengths)[:-1])
        assert [part.tolist() for part in parts] == [row[column] for row in rows[::-1]]


def test_number_form_follows_the_vocabulary(tmp_path):
    assert build_store(tmp_path / "a", [([65_535], [1])], vocab_size=65_536, fingerprint="").dtype == "uint16"
    assert build_store(tmp_path / "b", [([65_536], [1])], vocab_size=65_537, fingerprint="").dtype == "uint32"
    assert TokenStore(tmp_path / "a").rows("source", np.array([0]))[0].tolist() == [65_535]
    assert TokenStore(tmp_path / "b").rows("source", np.array([0]))[0].tolist() == [65_536]


def test_rows_beyond_one_flush(tmp_path):
    rows = [([i % 50], [i % 7, 1]) for i in range(45_001)]
    info = build_store(tmp_path / "s", iter(rows), vocab_size=50, fingerprint="")
    assert (info.num_pairs, info.num_source_tokens, info.num_target_tokens) == (45_001, 45_001, 90_002)
    flat, _ = TokenStore(tmp_path / "s").rows("target", np.array([45_000, 20_000, 19_999]))
    assert flat.tolist() == [45_000 % 7, 1, 20_000 % 7, 1, 19_999 % 7, 1]


def test_copies_are_apart(tmp_path):
    rows = [([1], [1]), ([2, 2], [2]), ([3], [3]), ([4, 4, 4], [4])]
    build_store(tmp_path / "s", rows, vocab_size=9, fingerprint="", num_copies=2)
    store = TokenStore(tmp_path / "s")
    assert len(store) == 2
    assert store.lengths("source", 0).tolist() == [1, 2]
    assert store.lengths("source", 1).tolist() == [1, 3]


def test_nothing_to_store_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no pair is left"):
        build_store(tmp_path / "s", [], vocab_size=9, fingerprint="")
    with pytest.raises(DataError, match="3 rows are no multiple of 2"):
        build_store(tmp_path / "s", [([1], [1])] * 3, vocab_size=9, fingerprint="", num_copies=2)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_fails_half_way_keeps_the_old_one(tmp_path):
    build_store(tmp_path / "s", [([1], [2])], vocab_size=9, fingerprint="old")

    def broken():
        yield [3], [4]
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        DataError, match=r"token store .*/s could not be written: the disk is full; make room"
    ):
        build_store(tmp_path / "s", broken(), vocab_size=9, fingerprint="new")
    assert stored_fingerprint(tmp_path / "s") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_damage_is_told(tmp_path):
    build_store(tmp_path / "s", [([1], [2])], vocab_size=9, fingerprint="f")
    tokens = tmp_path / "s" / "target.tokens"
    tokens.write_bytes(tokens.read_bytes() + b"\0\0")
    with pytest.raises(DataError, match="damaged"):
        TokenStore(tmp_path / "s")
    assert stored_fingerprint(tmp_path / "none") is None
    info = tmp_path / "s" / "store.json"
    info.write_text(json.dumps(json.loads(info.read_text()) | {"schema": 99}))
    with pytest.raises(DataError, match="schema 99 is newer"):
        TokenStore(tmp_path / "s")


@given(ROWS, st.integers(1, 6))
def test_rows_are_cut_as_they_are_read(tmp_path_factory, rows, most):
    directory = tmp_path_factory.mktemp("store") / "s"
    build_store(directory, rows, vocab_size=70_000, fingerprint="f")
    whole, cut = TokenStore(directory), TokenStore(directory).cut_at(most)
    indices = np.arange(len(rows))
    for side, column in (("source", 0), ("target", 1)):
        assert cut.lengths(side).tolist() == cut.lengths_of(side, indices).tolist()
        flat, lengths = cut.rows(side, indices)
        parts = np.split(flat, np.cumsum(lengths)[:-1])
        assert [part.tolist() for part in parts] == [row[column][:most] for row in rows]
        assert whole.lengths_of(side, indices).tolist() == [len(row[column]) for row in rows]
    assert whole.num_longer(most) == sum(max(map(len, row)) > most for row in rows)
    assert cut.num_longer(most) == 0
