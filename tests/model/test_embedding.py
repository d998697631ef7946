"""Embedding and output projection: scaled rows in, logits out."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import model_of
from torch import nn
from torch.testing import assert_close

from transduce.model.embedding import Embedding, OutputProjection


@pytest.mark.parametrize("d_model", [4, 12, 16])
def test_rows_are_scaled_by_the_root_of_d_model(d_model):
    embedding = Embedding(7, d_model, pad_id=0)
    nn.init.normal_(embedding.weight)
    ids = torch.tensor([[3, 1, 6], [2, 2, 0]])
    expected = embedding.weight.detach()[ids] * math.sqrt(d_model)
    assert embedding.weight.shape == (7, d_model)
    assert_close(embedding(ids).detach(), expected)


def test_a_token_has_the_same_vector_in_a_short_and_in_a_long_sentence():
    """Source document B scales by the root of the sentence's length: a bug."""
    embedding = Embedding(7, 8, pad_id=0)
    nn.init.normal_(embedding.weight)
    short, long = torch.tensor([[3]]), torch.tensor([[3, 1, 4, 1, 5, 2, 6, 5, 3]])
    assert torch.equal(embedding(short)[0, 0], embedding(long)[0, 0])


@pytest.mark.parametrize("pad_id", [0, 5])
def test_the_padding_row_takes_no_gradient(pad_id):
    embedding = Embedding(7, 4, pad_id)
    nn.init.normal_(embedding.weight)
    embedding(torch.tensor([[1, 2, pad_id, pad_id]])).sum().backward()
    grad = embedding.weight.grad
    assert (grad[pad_id] == 0).all()
    assert_close(grad[[1, 2]], torch.full((2, 4), 2.0))  # 1 · √4
    assert (grad[[3, 4, 6]] == 0).all()


@pytest.mark.parametrize("bias", [False, True])
def test_logits_are_products_with_each_row(bias):
    weight = nn.Parameter(torch.randn(7, 4))
    output = OutputProjection(weight, bias=bias)
    assert (output.bias is not None) == bias
    if bias:
        assert (output.bias == 0).all()
        nn.init.normal_(output.bias)
    for shape in ((4,), (3, 4), (2, 3, 4)):
        x = torch.randn(shape)
        rows = [(x * weight[token]).sum(-1) + (output.bias[token] if bias else 0) for token in range(7)]
        assert_close(output(x), torch.stack(rows, dim=-1))
    assert output.weight is weight


def test_a_tied_output_does_not_divide_by_the_scale_again():
    model = model_of(tie="all")
    x = torch.randn(3, 12)
    assert_close(model.output(x), x @ model.source_embedding.weight.T)
