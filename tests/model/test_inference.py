"""The model laid out for decoding says what the model says, whatever happens to its cache."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import A_FEW, VARIANTS, ids_of, model_of, name_of, padded
from torch.testing import assert_close

from transduce.errors import ModelError
from transduce.model.inference import InferenceTransformer
from transduce.model.products import make_product

SOURCE = padded([[5, 6, 7, 8, 9, 2], [3, 4, 2], [11, 2]])


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


def close(left, right):
    assert_close(left, right, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS + A_FEW, ids=name_of)
def test_it_encodes_and_steps_as_the_model(variant):
    model = model_of(**variant)
    inference = InferenceTransformer(model)
    memory = model.encode(SOURCE)
    encoded = inference.encode(SOURCE)
    real = memory.visible[:, 0, 0]
    close(encoded.states[real], memory.states[real])
    assert torch.equal(encoded.visible, memory.visible)
    expected, found = model.start(memory), inference.start(encoded)
    ids = ids_of(3, 40)
    for step in range(40):  # past the first capacity of the buffers
        right, expected = model.step(ids[:, step], expected)
        left, found = inference.step(ids[:, step], found)
        close(left, right)


@pytest.mark.parametrize("variant", VARIANTS + A_FEW, ids=name_of)
def test_known_targets_are_read_at_once_as_the_model_reads_them(variant):
    model = model_of(**variant)
    inference = InferenceTransformer(model)
    memory = model.encode(SOURCE)
    targets = padded([[1, 6, 7, 8, 9, 5, 4], [1, 4], [1, 11, 3]])
    expected = model.output(model.decode(targets, memory))
    found = inference.decode(targets, memory)
    for row, length in enumerate((7, 2, 3)):  # what stands where padding is read is nobody's
        close(found[row, :length], expected[row, :length])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_rows_change_places_and_sentences_leave_as_in_the_models_cache(data):
    model = model_of(norm="pre", position=data.draw(st.sampled_from(["sinusoidal", "rotary"])), d_k=4, d_v=7)
    inference = InferenceTransformer(model)
    memory = model.encode(SOURCE)
    caches = model.start(memory), inference.start(inference.encode(SOURCE))
    sentences, group = 3, 1
    for step in range(data.draw(st.integers(1, 6))):
        ids = ids_of(sentences * group, 1, seed=step)[:, 0]
        close(inference.step(ids, caches[1])[0], model.step(ids, caches[0])[0])
        kept = data.draw(st.lists(st.sampled_from(range(sentences)), min_size=1, unique=True).map(sorted))
        wider = data.draw(st.integers(1, 3))
        rows = torch.tensor(
            [s * group + data.draw(st.integers(0, group - 1)) for s in kept for _ in range(wider)]
        )
        assert all(cache.select(rows) is cache for cache in caches)
        sentences, group = len(kept), wider
    ids = ids_of(sentences * group, 1, seed=99)[:, 0]
    close(inference.step(ids, caches[1])[0], model.step(ids, caches[0])[0])


def test_buffers_grow_after_rows_were_selected():
    model = model_of()
    inference = InferenceTransformer(model)
    caches = model.start(model.encode(SOURCE)), inference.start(inference.encode(SOURCE))
    for cache in caches:
        cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    for step in range(70):
        ids = ids_of(6, 1, seed=step)[:, 0]
        close(inference.step(ids, caches[1])[0], model.step(ids, caches[0])[0])
        if step % 7 == 0:
            for cache in caches:
                cache.select(torch.tensor([1, 0, 2, 2, 5, 4]))


def test_unequal_groups_are_our_mistake():
    inference = InferenceTransformer(model_of())
    cache = inference.start(inference.encode(SOURCE))
    cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    with pytest.raises(AssertionError, match="equally many"):
        cache.select(torch.tensor([0, 0, 1, 2]))


def test_padding_is_removed_and_says_nothing():
    inference = InferenceTransformer(model_of())
    wide = torch.cat([SOURCE, torch.zeros(3, 5, dtype=torch.long)], dim=1)
    narrow, wider = inference.encode(SOURCE), inference.encode(wide)
    close(wider.states[:, :6][narrow.visible[:, 0, 0]], narrow.states[narrow.visible[:, 0, 0]])
    ids = ids_of(3, 1)[:, 0]
    close(inference.step(ids, inference.start(wider))[0], inference.step(ids, inference.start(narrow))[0])


def test_a_temperature_set_before_counts():
    model = model_of()
    for layer in model.decoder.layers:
        layer.cross_attention.temperature = 0.3
    inference = InferenceTransformer(model)
    memory, ids = model.encode(SOURCE), ids_of(3, 1)[:, 0]
    close(inference.step(ids, inference.start(memory))[0], model.step(ids, model.start(memory))[0])


@pytest.mark.parametrize("variant", A_FEW, ids=name_of)
def test_int8_is_near_the_model_but_not_the_same(variant):
    model = model_of(**{**variant, "d_model": 32, "d_ff": 64, "num_heads": 4})
    exact, rounded = InferenceTransformer(model), InferenceTransformer(model, "int8")
    ids = ids_of(3, 1)[:, 0]
    right = exact.step(ids, exact.start(exact.encode(SOURCE)))[0]
    left = rounded.step(ids, rounded.start(rounded.encode(SOURCE)))[0]
    distance = (left - right).norm() / right.norm()
    assert 0 < distance < 0.25


# --- Products ---


@pytest.mark.parametrize("rows", [1, 2, 32, 33, 64])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("out_width", "in_width"), [(24, 16), (16, 24), (16, 16)])
def test_a_product_is_x_times_w_turned_plus_b(rows, relu, with_bias, out_width, in_width):
    torch.manual_seed(0)
    weight, bias = torch.randn(out_width, in_width), torch.randn(out_width) if with_bias else None
    x = torch.randn(rows, in_width)
    expected = torch.nn.functional.linear(x, weight, bias)
    expected = expected.relu() if relu else expected
    assert_close(make_product(weight, bias, "float32", relu=relu)(x), expected)
    rounded = make_product(weight, bias, "int8", relu=relu)(x)
    assert (rounded - expected).abs().max() < 0.03 * expected.abs().max()


def test_int8_scales_each_row_of_the_weight_by_itself():
    torch.manual_seed(0)
    weight = torch.randn(4, 64) * torch.tensor([1e-3, 1.0, 1e3, 0.0])[:, None]
    x = torch.randn(3, 64)
    expected = x @ weight.T
    found = make_product(weight, None, "int8")(x)
    assert ((found - expected).abs().amax(0) <= 0.03 * expected.abs().amax(0)).all()
    assert (found[:, 3] == 0).all()


def test_int8_needs_a_cpu():
    with pytest.raises(ModelError, match="int8 runs on a CPU, but the model is on meta"):
        make_product(torch.empty(4, 4, device="meta"), None, "int8")


def test_int8_that_this_torch_lacks_is_told(monkeypatch):
    monkeypatch.setattr(torch, "quantize_per_channel", None, raising=False)
    monkeypatch.delattr(torch, "quantize_per_channel")
    with pytest.raises(ModelError, match="has no int8 products"):
        make_product(torch.ones(4, 4), None, "int8")


def test_without_vnni_inputs_have_seven_bits(monkeypatch):
    """The kernel's 16-bit sums of two products would overflow at eight."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    torch.manual_seed(0)
    weight, x = torch.randn(32, 64), torch.randn(8, 64)
    narrow = make_product(weight, None, "int8")(x)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": True})
    wide = make_product(weight, None, "int8")(x)
    assert not torch.equal(narrow, wide)
    assert (narrow - x @ weight.T).abs().max() < 0.05 * (x @ weight.T).abs().max()
