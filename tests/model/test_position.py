"""Positions: the paper's table and its two variants, learned rows, rotations."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import ids_of, model_of
from torch.testing import assert_close

from transduce.errors import ModelError
from transduce.model import sinusoid_table
from transduce.model.position import LearnedPosition, NoPosition, RotaryPosition, SinusoidalPosition

few = settings(max_examples=25, deadline=None, derandomize=True)


def interleaved(pos: int, column: int, d: int) -> float:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))."""
    i = column // 2
    angle = pos / 10000 ** (2 * i / d)
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


def halves(pos: int, column: int, d: int) -> float:
    """Hugging Face Marian: the same numbers, sines first."""
    num_sines = math.ceil(d / 2)
    return interleaved(pos, 2 * column if column < num_sines else 2 * (column - num_sines) + 1, d)


def tensor2tensor(pos: int, column: int, d: int) -> float:
    """get_timing_signal_1d: timescales from 1 to 10000, both ends included."""
    num_sines, num_timescales = math.ceil(d / 2), d // 2
    step = math.log(10000.0) / max(num_timescales - 1, 1)
    i = column if column < num_sines else column - num_sines
    angle = pos * math.exp(-i * step)
    return math.sin(angle) if column < num_sines else math.cos(angle)


@pytest.mark.parametrize("formula", [interleaved, halves, tensor2tensor])
@pytest.mark.parametrize("d_model", [1, 2, 3, 4, 8, 9, 16])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_table_follows_its_formula(formula, d_model, offset):
    table = sinusoid_table(30, d_model, formula.__name__, offset)
    expected = [[formula(pos + offset, c, d_model) for c in range(d_model)] for pos in range(30)]
    assert table.dtype == torch.float32
    assert_close(table, torch.tensor(expected))


def test_the_table_is_the_papers_unless_asked_otherwise():
    assert torch.equal(sinusoid_table(9, 6), sinusoid_table(9, 6, "interleaved", 0))
    assert sinusoid_table(2, 4)[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert_close(sinusoid_table(2, 4)[1], torch.tensor([0.841471, 0.540302, 0.0099998, 0.99995]))


def test_tensor2tensor_reaches_the_longest_wave_and_the_paper_stops_short():
    far = torch.tensor(5000.0)
    assert_close(sinusoid_table(5001, 8, "tensor2tensor")[5000, 3], torch.sin(far / 10000))
    assert_close(sinusoid_table(5001, 8, "halves")[5000, 3], torch.sin(far / 1000))


@pytest.mark.parametrize("formula", [interleaved, halves, tensor2tensor])
def test_far_positions_are_exact(formula):
    """Angles in float32 would be off by 1e-2 here: the table is computed in float64."""
    table = sinusoid_table(1, 6, formula.__name__, offset=1_000_000)
    expected = [formula(1_000_000, column, 6) for column in range(6)]
    assert_close(table[0], torch.tensor(expected), atol=1e-6, rtol=0)


@few
@given(
    d_model=st.sampled_from([2, 4, 10, 32]),
    shift=st.integers(0, 200),
    variant=st.sampled_from(["interleaved", "halves", "tensor2tensor"]),
)
def test_a_shift_is_a_rotation_of_each_sine_cosine_pair(d_model, shift, variant):
    table = sinusoid_table(260, d_model, variant).double()
    if variant == "interleaved":
        sines, cosines = table[:, 0::2], table[:, 1::2]
    else:
        sines, cosines = table[:, : d_model // 2], table[:, d_model // 2 :]
    divisor = max(d_model / 2 - 1, 1) if variant == "tensor2tensor" else d_model / 2
    for i in range(d_model // 2):
        angle = shift / 10000 ** (i / divisor)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        pairs = torch.stack((sines[:60, i], cosines[:60, i]))
        shifted = torch.stack((sines[shift : shift + 60, i], cosines[shift : shift + 60, i]))
        assert_close(rotation.double() @ pairs, shifted, atol=1e-6, rtol=0)


# --- Added to the embeddings ---


@pytest.mark.parametrize("variant", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("past_len", [0, 3, 9])
def test_sinusoidal_adds_the_row_of_each_position_within_and_beyond_max_len(variant, offset, past_len):
    position = SinusoidalPosition(6, variant, offset, max_len=8)
    x = torch.randn(2, 5, 6)
    expected = x + sinusoid_table(40, 6, variant, offset)[past_len : past_len + 5]
    assert_close(position(x, past_len), expected)
    assert_close(position(x, past_len), expected)  # and again, when the table has grown


def test_the_table_grows_once_and_keeps_its_type():
    position = SinusoidalPosition(4, "interleaved", 0, max_len=4).bfloat16()
    position(torch.zeros(1, 4, 4, dtype=torch.bfloat16))
    assert len(position.table) == 4
    out = position(torch.zeros(1, 5, 4, dtype=torch.bfloat16))
    grown = position.table
    assert out.dtype == grown.dtype == torch.bfloat16
    assert_close(out[0], sinusoid_table(5, 4).bfloat16())
    position(torch.zeros(1, 1, 4, dtype=torch.bfloat16), 6)
    assert position.table is grown


def test_sinusoids_are_neither_trained_nor_saved():
    for position in (SinusoidalPosition(4, "interleaved", 0, 8), RotaryPosition(4, 0, 8)):
        assert list(position.parameters()) == []
        assert position.state_dict() == {}


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("past_len", [0, 3])
def test_learned_adds_the_trained_row_of_each_position(offset, past_len):
    position = LearnedPosition(6, offset, max_len=8)
    torch.nn.init.normal_(position.weight)
    x = torch.randn(2, 5, 6)
    expected = x.clone()
    for i in range(5):
        expected[:, i] += position.weight.detach()[offset + past_len + i]
    assert position.weight.shape == (8 + offset, 6)
    assert_close(position(x, past_len), expected)


def test_learned_refuses_what_it_never_saw():
    position = LearnedPosition(6, offset=2, max_len=8)
    torch.nn.init.normal_(position.weight)
    position(torch.zeros(1, 8, 6))
    position(torch.zeros(1, 3, 6), 5)
    for x, past_len in ((torch.zeros(1, 9, 6), 0), (torch.zeros(1, 3, 6), 6)):
        with pytest.raises(ModelError, match=r"learned 8 positions and was given a row of 9 tokens.*max_len"):
            position(x, past_len)


def test_no_position_adds_nothing():
    x = torch.randn(2, 3, 4)
    assert NoPosition()(x, 7) is x


# --- Rotary ---


@few
@given(
    d_k=st.sampled_from([2, 4, 8]),
    i=st.integers(0, 40),
    j=st.integers(0, 40),
    shift=st.integers(0, 60),
    seed=st.integers(0, 10**6),
)
def test_the_product_of_turned_vectors_depends_on_their_distance_only(d_k, i, j, shift, seed):
    rotary = RotaryPosition(d_k, 0, max_len=16)
    torch.manual_seed(seed)
    q, k = torch.randn(2, 1, 1, 1, d_k)
    here = (rotary(q, i) * rotary(k, j)).sum()
    there = (rotary(q, i + shift) * rotary(k, j + shift)).sum()
    assert_close(here, there, atol=1e-5, rtol=1e-5)


@few
@given(d_k=st.sampled_from([2, 6]), past_len=st.integers(0, 40), offset=st.integers(0, 3))
def test_each_pair_of_columns_is_turned_by_the_angle_of_its_position(d_k, past_len, offset):
    rotary = RotaryPosition(d_k, offset, max_len=16)
    x = torch.randn(2, 3, 4, d_k, generator=torch.Generator().manual_seed(past_len))
    expected = torch.empty_like(x)
    for t in range(4):
        for pair in range(d_k // 2):
            angle = (offset + past_len + t) / 10000 ** (2 * pair / d_k)
            a, b = x[:, :, t, 2 * pair], x[:, :, t, 2 * pair + 1]
            expected[:, :, t, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            expected[:, :, t, 2 * pair + 1] = a * math.sin(angle) + b * math.cos(angle)
    assert_close(rotary(x, past_len), expected)


def test_turning_keeps_lengths_and_the_first_position_stays():
    x = torch.randn(2, 3, 9, 8)
    turned = RotaryPosition(8, 0, 16)(x)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1], x[:, :, 1], atol=1e-3)


def test_turning_token_by_token_equals_turning_at_once():
    rotary, beyond = RotaryPosition(8, 1, 32), RotaryPosition(8, 1, 4)
    x = torch.randn(2, 3, 20, 8)
    at_once = rotary(x)
    one_by_one = torch.cat([beyond(x[:, :, t : t + 1], t) for t in range(20)], dim=2)
    assert torch.equal(at_once, one_by_one)  # also after the tables have grown
    assert len(rotary.cos) == len(rotary.sin) == 32
    assert len(beyond.cos) == 22  # 4, then twice what was needed: 10, 22


@few
@given(
    d_k=st.sampled_from([2, 6]), room=st.integers(0, 3), start=st.integers(0, 3), past_len=st.integers(0, 20)
)
def test_while_training_the_turn_is_the_same_and_so_is_its_gradient(d_k, room, start, past_len):
    """Also where heads lie in wider rows, so that pairs begin at odd places in memory."""
    rotary = RotaryPosition(d_k, 1, max_len=16).double()
    torch.manual_seed(past_len)
    wide = torch.randn(2, 4, 3, d_k + room + start, dtype=torch.float64)
    x = wide[..., start : start + d_k].transpose(1, 2)  # (batch, heads, tgt_len, d_k)
    expected = rotary(x, past_len)
    trained = rotary(x.requires_grad_(), past_len)
    assert_close(trained.detach(), expected)
    grad = torch.randn_like(expected)
    (found,) = torch.autograd.grad(trained, x, grad)
    back = RotaryPosition(d_k, 1, max_len=16).double()
    back.sin, back.cos = -rotary.sin, rotary.cos  # a turn's transpose turns the other way
    assert_close(found, back(grad, past_len))


def test_the_turn_while_training_is_one_product():
    """Slices and sums take five times as long, there and back."""
    x = torch.randn(2, 4, 3, 6, requires_grad=True).transpose(1, 2)
    node, steps = RotaryPosition(6, 0, 4)(x).grad_fn, []
    while node is not None:
        steps.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    assert steps.count("MulBackward0") == 1
    assert not [step for step in steps if step.startswith(("Stack", "Slice", "Clone", "Add", "Sub"))]


def test_turning_keeps_half_precision():
    x = torch.randn(1, 2, 6, 4, dtype=torch.bfloat16)
    turned = RotaryPosition(4, 0, 4)(x)
    assert turned.dtype == torch.bfloat16
    assert_close(turned.float(), RotaryPosition(4, 0, 8)(x.float()), atol=0.05, rtol=0.05)


def test_tables_grow_where_they_are():
    sinusoidal = SinusoidalPosition(4, "interleaved", 0, max_len=4).to("meta")
    assert sinusoidal(torch.zeros(1, 9, 4, device="meta")).device.type == "meta"
    assert sinusoidal.table.device.type == "meta"
    rotary = RotaryPosition(4, 0, max_len=4).to("meta")
    assert rotary(torch.zeros(1, 1, 9, 4, device="meta")).device.type == "meta"
    assert rotary.cos.device.type == rotary.sin.device.type == "meta"


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_tables_that_grew_in_inference_serve_training(position):
    model = model_of(position=position, max_len=4)
    with torch.inference_mode():
        model(ids_of(2, 9), ids_of(2, 9))
    model(ids_of(2, 9), ids_of(2, 9)).sum().backward()
    assert model.encoder.layers[0].self_attention.w_v.weight.grad.isfinite().all()
