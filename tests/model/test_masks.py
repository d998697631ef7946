"""Masks: True = may be attended to."""

from __future__ import annotations

import pytest
import torch

from transduce.model import causal_visible, explicit_attention, padding_visible, target_visible


def rows(mask):
    return mask.int().tolist()


def test_padding_hides_the_padding_from_every_query():
    ids = torch.tensor([[5, 6, 7, 0], [5, 6, 9, 9], [9, 9, 9, 9]])
    visible = padding_visible(ids, pad_id=9)
    assert visible.shape == (3, 1, 1, 4)
    assert visible.dtype == torch.bool
    assert rows(visible[:, 0, 0]) == [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_causal_lets_a_token_see_itself_and_what_came_before():
    visible = causal_visible(4)  # <s> A B C, as source document B draws it
    assert visible.shape == (1, 1, 4, 4)
    assert visible.dtype == torch.bool
    assert rows(visible[0, 0]) == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]


def test_causal_lets_new_tokens_see_the_whole_past():
    visible = causal_visible(2, past_len=3)
    assert visible.shape == (1, 1, 2, 5)
    assert rows(visible[0, 0]) == [
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
    assert rows(causal_visible(1, past_len=3)[0, 0]) == [[1, 1, 1, 1]]


@pytest.mark.parametrize("past_len", range(4))
def test_causal_with_a_past_is_the_lower_part_of_causal_without(past_len):
    assert torch.equal(causal_visible(3, past_len), causal_visible(3 + past_len)[:, :, past_len:])


def test_target_is_causal_and_padding_together():
    ids = torch.tensor([[1, 5, 6, 7], [1, 5, 0, 0], [0, 1, 5, 6]])  # <s> A B C; <s> A; padded on the left
    visible = target_visible(ids, pad_id=0)
    assert visible.shape == (3, 1, 4, 4)
    assert rows(visible[:, 0]) == [
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]],
    ]


def test_masks_are_made_where_the_ids_are():
    ids = torch.zeros(1, 3, dtype=torch.long, device="meta")
    assert target_visible(ids, 0).device.type == "meta"
    assert causal_visible(3, device=torch.device("meta")).device.type == "meta"


def test_true_is_what_attention_gives_weight_to():
    q = k = v = torch.zeros(1, 1, 4, 2)
    weights = explicit_attention(q, k, v, causal_visible(4))[1].weights[0, 0]
    assert torch.equal(weights > 0, causal_visible(4)[0, 0])
    assert weights[1].tolist() == [0.5, 0.5, 0.0, 0.0]
