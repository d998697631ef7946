"""The shift to the right, and padding (SOURCES T2, TRAPS 15)."""

from __future__ import annotations

import numpy as np

from transduce.batch.collate import SpecialIds, collate, pad_rows
from transduce.batch.store import TokenStore, build_store

IDS = SpecialIds(pad_id=0, bos_id=2, eos_id=3)


def test_source_target_and_labels(tmp_path):
    build_store(
        tmp_path / "s", [([11, 12], [21, 22, 23]), ([13], [24]), ([], [])], vocab_size=99, fingerprint=""
    )
    batch = collate(TokenStore(tmp_path / "s"), np.array([1, 0, 2]), IDS)
    assert batch.source.tolist() == [[13, 3, 0], [11, 12, 3], [3, 0, 0]]
    assert batch.target.tolist() == [[2, 24, 0, 0], [2, 21, 22, 23], [2, 0, 0, 0]]
    assert batch.labels.tolist() == [[24, 3, 0, 0], [21, 22, 23, 3], [3, 0, 0, 0]]
    assert (batch.num_source_tokens, batch.num_target_tokens) == (2 + 3 + 1, 2 + 4 + 1)
    assert batch.num_cells == 9 + 12
    assert batch.rows.tolist() == [1, 0, 2]


def test_rows_of_a_request():
    assert pad_rows([[5, 6], [7], []], IDS).tolist() == [[5, 6, 3], [7, 3, 0], [3, 0, 0]]
