"""Attention: one formula, two ways to run it, nothing seen through a mask."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import config_of
from torch.testing import assert_close

import transduce.model.attention as attention_module
from transduce.model import KeysValues, MultiHeadAttention, explicit_attention, fused_attention
from transduce.model.dropout import Dropout
from transduce.model.position import RotaryPosition

TEMPERATURES = [0.2, 1.0, 2.5]
HALF = [torch.float16, torch.bfloat16]


def qkv(seed=0, batch=2, heads=3, tgt_len=4, src_len=5, d_k=6, d_v=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = (tgt_len, d_k), (src_len, d_k), (src_len, d_v)
    return [torch.randn(batch, heads, *shape, generator=generator).to(dtype) for shape in shapes]


def random_mask(seed, *shape, share=0.5):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < share


def by_hand(queries, keys, values, visible, temperature):
    """Equation 1 of the paper, cell by cell, in Python's own numbers: the output and the weights."""
    batch, heads, tgt_len, d_k = queries.shape
    visible = visible.expand(batch, heads, tgt_len, keys.shape[2])
    weights = torch.zeros(batch, heads, tgt_len, keys.shape[2], dtype=torch.float64)
    out = torch.zeros(batch, heads, tgt_len, values.shape[3], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(tgt_len):
                seen = [j for j in range(keys.shape[2]) if visible[b, h, i, j]]
                products = {j: sum((queries[b, h, i] * keys[b, h, j]).tolist()) for j in seen}
                powers = {j: math.exp(x / (math.sqrt(d_k) * temperature)) for j, x in products.items()}
                for j in seen:
                    weights[b, h, i, j] = powers[j] / sum(powers.values())
                    out[b, h, i] += weights[b, h, i, j] * values[b, h, j]
    return out, weights


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_both_forms_follow_the_papers_formula(temperature):
    q, k, v = qkv()
    visible = random_mask(1, 2, 3, 4, 5)
    expected, weights = by_hand(q, k, v, visible, temperature)
    explicit, record = explicit_attention(q, k, v, visible, temperature)
    assert_close(explicit, expected)
    assert_close(record.weights, weights)
    assert_close(fused_attention(q, k, v, visible, temperature), expected)


def test_the_default_temperature_is_one():
    q, k, v = qkv()
    everywhere = torch.ones(1, 1, 4, 5, dtype=torch.bool)
    expected, _ = by_hand(q, k, v, everywhere, 1.0)
    assert_close(explicit_attention(q, k, v, everywhere)[0], expected)
    assert_close(fused_attention(q, k, v, everywhere), expected)


def test_no_mask_means_that_everything_is_visible():
    q, k, v = qkv()
    everywhere = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    assert_close(explicit_attention(q, k, v)[0], explicit_attention(q, k, v, everywhere)[0])
    assert_close(fused_attention(q, k, v), fused_attention(q, k, v, everywhere))
    assert_close(explicit_attention(q, k, v)[0], fused_attention(q, k, v))


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 1, 5), (1, 1, 4, 5), (1, 3, 1, 5)])
def test_a_mask_is_shared_by_whatever_its_axes_of_one_stand_for(shape):
    q, k, v = qkv()
    visible = random_mask(3, *shape)
    expected, _ = by_hand(q, k, v, visible, 1.0)
    assert_close(explicit_attention(q, k, v, visible)[0], expected)
    assert_close(fused_attention(q, k, v, visible), expected)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0, 1),
    temperature=st.sampled_from(TEMPERATURES),
    sizes=st.tuples(*[st.integers(1, 5)] * 6),
    precision=st.sampled_from([(torch.float64, 1e-12), (torch.float32, 2e-5), (torch.bfloat16, 0.15)]),
)
def test_fused_equals_explicit_in_values_and_gradients(seed, share, temperature, sizes, precision):
    dtype, tolerance = precision
    inputs = qkv(seed, *sizes, dtype=dtype)
    visible = random_mask(seed, sizes[0], 1, sizes[2], sizes[3], share=share)
    towards = torch.randn(*sizes[:3], sizes[5], generator=torch.Generator().manual_seed(seed)).to(dtype)

    def run(attend):
        leaves = [x.clone().requires_grad_() for x in inputs]
        out = attend(*leaves, visible, temperature)
        return out.detach(), *torch.autograd.grad(out, leaves, towards)

    explicit = run(lambda *args: explicit_attention(*args)[0])
    for fused, other in zip(run(fused_attention), explicit, strict=True):
        assert fused.dtype == dtype
        assert_close(fused, other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
def test_a_hidden_cell_has_weight_exactly_zero(dtype):
    q, k, v = qkv(batch=1, heads=1, tgt_len=1, src_len=4, d_k=1, d_v=4, dtype=dtype)
    q[:] = 1
    k[0, 0, :, 0] = torch.tensor([-3e4, 3e4, -3e4, 3e4])  # the hidden cells have by far the best scores
    v[0, 0] = torch.eye(4)
    visible = torch.tensor([True, False, True, False])[None, None, None]
    out, record = explicit_attention(q, k, v, visible)
    for weights in (record.weights, out, fused_attention(q, k, v, visible)):
        assert weights.dtype == dtype
        assert weights.flatten().tolist() == [0.5, 0.0, 0.5, 0.0]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0, 1),
    dtype=st.sampled_from([torch.float32, *HALF]),
    size=st.sampled_from([0.1, 10.0, 300.0]),
)
def test_weights_are_shares_of_what_is_visible(seed, share, dtype, size):
    q, k, v = qkv(seed, dtype=dtype)
    visible = random_mask(seed + 1, 2, 1, 4, 5, share=share)
    weights = explicit_attention(q * size, k, v, visible)[1].weights
    sees = visible.any(-1).expand(2, 3, 4)
    assert_close(weights.sum(-1)[sees].float(), torch.ones(int(sees.sum())), atol=1e-2, rtol=0)
    assert (weights >= 0).all()
    assert (weights[~visible.expand_as(weights)] == 0).all()
    assert (weights[~sees] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("others", [0, 2])
def test_a_query_that_sees_nothing_gets_zeros_and_gives_no_gradient(dtype, others):
    inputs = qkv(batch=2, tgt_len=1 + others, dtype=dtype)
    visible = torch.ones(2, 1, 1 + others, 5, dtype=torch.bool)
    visible[:, :, 0] = False
    for attend in (lambda *args: explicit_attention(*args)[0], fused_attention):
        q, k, v = (x.clone().requires_grad_() for x in inputs)
        out = attend(q, k, v, visible)
        out.square().sum().backward()
        assert (out[:, :, 0] == 0).all()
        assert (q.grad[:, :, 0] == 0).all()
        assert all(x.grad.isfinite().all() for x in (q, k, v))
        if others:  # who sees something is not disturbed
            alone = attend(inputs[0][:, :, 1:], *inputs[1:], visible[:, :, 1:])
            assert_close(out[:, :, 1:].detach(), alone)
        else:
            assert all((x.grad == 0).all() for x in (q, k, v))


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_recorded_scores_are_those_before_the_mask(temperature):
    q, k, v = qkv()
    visible = random_mask(5, 2, 1, 4, 5)
    _, record = explicit_attention(q, k, v, visible, temperature)
    expected = torch.einsum("bhid,bhjd->bhij", q, k) / (6**0.5 * temperature)
    assert_close(record.scores, expected)
    assert record.queries is q
    assert record.keys is k
    assert record.values is v


@pytest.mark.parametrize("attend", [lambda *args: explicit_attention(*args)[0], fused_attention])
def test_what_stands_in_hidden_places_does_not_matter(attend):
    q, k, v = qkv(dtype=torch.float32)
    visible = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0]], dtype=torch.bool)[:, None, None]
    hidden = ~visible[:, 0, 0, None, :, None]
    expected = attend(q, k, v, visible)
    for garbage in (1e4, -1e30):
        garbled = attend(q, k.masked_fill(hidden, 1e4), v.masked_fill(hidden, garbage), visible)
        assert torch.equal(garbled, expected)


def test_dropped_weights_are_zero_or_scaled_and_the_record_keeps_the_undropped():
    torch.manual_seed(0)
    q, k, _ = qkv(batch=4, tgt_len=40, src_len=40, dtype=torch.float32)
    one_hot = torch.eye(40).expand(4, 3, 40, 40)  # the output is then the weights that were used
    used, record = explicit_attention(q, k, one_hot, dropout=Dropout(0.5).train())
    dropped = used == 0
    assert 0.48 < dropped.float().mean() < 0.52
    assert_close(used[~dropped], 2 * record.weights[~dropped])
    assert_close(record.weights, explicit_attention(q, k, one_hot)[1].weights)
    used, record = explicit_attention(q, k, one_hot, dropout=Dropout(0.5).eval())
    assert_close(used, record.weights)


# --- Many heads ---


def attention_of(seed=0, rotary=None, **changes):
    torch.manual_seed(seed)
    return MultiHeadAttention(config_of(**changes), rotary).eval()


def vectors(seed, batch=2, length=5):
    return torch.randn(batch, length, 12, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("changes", [{}, {"bias": False}, {"num_heads": 3, "d_k": 2, "d_v": 5}])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_multi_head_attention_is_the_join_of_single_heads(changes, temperature):
    attention = attention_of(**changes).double()
    attention.temperature = temperature
    config = config_of(**changes)
    x, memory = vectors(1, length=4).double(), vectors(2).double()
    visible = random_mask(3, 2, 1, 4, 5)

    def project(layer, rows, head, width):
        columns = slice(head * width, (head + 1) * width)
        bias = 0 if layer.bias is None else layer.bias[columns]
        return rows @ layer.weight[columns].T + bias

    heads = []
    for h in range(config.num_heads):
        q = project(attention.w_q, x, h, config.key_width)
        k = project(attention.w_k, memory, h, config.key_width)
        v = project(attention.w_v, memory, h, config.value_width)
        heads.append(by_hand(q[:, None], k[:, None], v[:, None], visible, temperature)[0][:, 0])
    joined = torch.cat(heads, dim=-1) @ attention.w_o.weight.T
    expected = joined if attention.w_o.bias is None else joined + attention.w_o.bias
    assert_close(attention(x, attention.keys_values(memory), visible), expected)


def test_projections_have_the_papers_shapes_and_a_bias_only_if_asked():
    attention = attention_of(num_heads=3, d_k=2, d_v=5, bias=False)
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "w_q.weight": (6, 12),
        "w_k.weight": (6, 12),
        "w_v.weight": (15, 12),
        "w_o.weight": (12, 15),
    }
    biases = {name for name, _ in attention_of().named_parameters() if name.endswith("bias")}
    assert biases == {"w_q.bias", "w_k.bias", "w_v.bias", "w_o.bias"}


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_an_observer_sees_everything_and_changes_nothing(temperature):
    attention = attention_of()
    attention.temperature = temperature
    x, keys_values = vectors(1), attention.keys_values(vectors(2))
    visible = random_mask(3, 2, 1, 5, 5)
    unobserved = attention(x, keys_values, visible)
    records = []
    attention.observer = records.append
    assert_close(attention(x, keys_values, visible), unobserved)
    (record,) = records
    assert_close(record.keys, keys_values.keys)
    assert_close(record.values, keys_values.values)
    out, again = explicit_attention(record.queries, *keys_values, visible, temperature)
    assert_close(record.scores, again.scores)
    assert_close(record.weights, again.weights)
    assert_close(attention.w_o(out.transpose(1, 2).flatten(2)), unobserved)
    attention.observer = None
    attention(x, keys_values, visible)
    assert len(records) == 1


def test_weights_are_dropped_in_training_only():
    attention, undropped = attention_of(attention_dropout=0.4), attention_of()
    x, keys_values = vectors(1), attention.keys_values(vectors(2))
    expected = undropped(x, keys_values)
    assert torch.equal(attention(x, keys_values), expected)
    attention.train()
    torch.manual_seed(7)
    trained = attention(x, keys_values)
    assert not torch.allclose(trained, expected, atol=1e-3)
    torch.manual_seed(7)
    q = attention.w_q(x).view(2, 5, 2, 6).transpose(1, 2)
    heads, _ = explicit_attention(q, *keys_values, dropout=Dropout(0.4).train())
    assert_close(trained, attention.w_o(heads.transpose(1, 2).flatten(2)))
    undropped.train()
    assert torch.equal(undropped(x, keys_values), expected)


@pytest.mark.parametrize("training", [False, True])
def test_the_matrix_of_weights_is_written_only_for_who_asks(monkeypatch, training):
    """Section M13 of our sources: memory is linear in the length unless somebody looks at the weights."""

    def refuse(*args):
        raise AssertionError("the explicit form ran")

    monkeypatch.setattr(attention_module, "explicit_attention", refuse)
    attention = attention_of(attention_dropout=0.0 if training else 0.4).train(training)
    attention(vectors(1), attention.keys_values(vectors(2)))
    attention.observer = print
    with pytest.raises(AssertionError, match="explicit"):
        attention(vectors(1), attention.keys_values(vectors(2)))


def test_an_observer_in_training_is_handed_the_weights_before_they_are_dropped():
    attention = attention_of(attention_dropout=0.4).train()
    records = []
    attention.observer = records.append
    attention(vectors(1), attention.keys_values(vectors(2)))
    assert_close(records[0].weights.sum(-1), torch.ones(2, 2, 5))


def test_rotary_turns_queries_and_keys_from_their_position_on_but_not_values():
    rotary = RotaryPosition(6, 0, 16)
    attention = attention_of(rotary=rotary)
    x, past_len = vectors(1), 3
    plain = attention_of()  # the same weights
    turned, unturned = attention.keys_values(x, past_len), plain.keys_values(x)
    assert_close(turned.keys, rotary(unturned.keys, past_len))
    assert torch.equal(turned.values, unturned.values)
    q = rotary(plain.w_q(x).view(2, 5, 2, 6).transpose(1, 2), past_len)
    heads = fused_attention(q, *turned)
    assert_close(attention(x, turned, past_len=past_len), plain.w_o(heads.transpose(1, 2).flatten(2)))
    assert_close(  # and by default from position 0 on
        attention(x, attention.keys_values(x)), attention(x, attention.keys_values(x, 0), past_len=0)
    )


def test_keys_values_may_come_from_elsewhere():
    attention = attention_of()
    made = attention.keys_values(vectors(2))
    assert isinstance(made, KeysValues)
    assert_close(made.keys, attention.w_k(vectors(2)).view(2, 5, 2, 6).transpose(1, 2))
    assert_close(made.values, attention.w_v(vectors(2)).view(2, 5, 2, 6).transpose(1, 2))
