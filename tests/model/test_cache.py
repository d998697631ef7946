"""The cache: what was put in comes out, in the order asked for, copied only when it must."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import ids_of, model_of

from transduce.model import DecoderCache, KeysValues
from transduce.model.cache import LayerCache

HEADS, D_K, D_V = 2, 3, 5


def some(rows, length):
    return KeysValues(torch.randn(rows, HEADS, length, D_K), torch.randn(rows, HEADS, length, D_V))


def joined(parts):
    return KeysValues(*(torch.cat(kind, dim=2) for kind in zip(*parts, strict=True)))


def same(left, right):
    return torch.equal(left.keys, right.keys) and torch.equal(left.values, right.values)


@pytest.mark.parametrize("lengths", [[1] * 70, [5, 30, 1, 40], [33], [32, 1], [64, 1, 63, 1], [100]])
def test_append_returns_everything_so_far_across_each_growth(lengths):
    torch.manual_seed(0)
    cache, parts = LayerCache(), []
    for length in lengths:
        parts.append(some(2, length))
        assert same(cache.append(parts[-1]), joined(parts))
        assert cache.length == sum(len(part.keys[0, 0]) for part in parts)


def test_append_copies_the_past_only_when_the_buffer_is_full():
    cache = LayerCache()
    first = cache.append(some(2, 1))
    addresses = {cache.append(some(2, 1)).keys.data_ptr() for _ in range(31)}
    assert addresses == {first.keys.data_ptr()}  # 32 fit
    grown = cache.append(some(2, 1))
    assert grown.keys.data_ptr() != first.keys.data_ptr()
    addresses = {cache.append(some(2, 1)).keys.data_ptr() for _ in range(31)}
    assert addresses == {grown.keys.data_ptr()}  # 64 fit
    assert cache.append(some(2, 1)).keys.data_ptr() != grown.keys.data_ptr()


def test_a_new_cache_is_empty_and_may_be_selected_from():
    cache = LayerCache()
    cache.select(torch.tensor([1, 0]))
    assert cache.length == 0
    assert cache.num_bytes == 0


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_select_gives_each_row_the_past_of_the_row_named(data):
    cache, past, num_rows = LayerCache(), None, data.draw(st.integers(1, 4))
    for _ in range(data.draw(st.integers(1, 5))):
        new = some(num_rows, data.draw(st.sampled_from([1, 2, 20])))
        past = new if past is None else joined([past, new])
        assert same(cache.append(new), past)
        rows = torch.tensor(data.draw(st.lists(st.integers(0, num_rows - 1), min_size=1, max_size=5)))
        cache.select(rows)
        past = KeysValues(past.keys[rows], past.values[rows])
        num_rows = len(rows)
        new = some(num_rows, 1)
        past = joined([past, new])
        assert same(cache.append(new), past)


def test_select_keeps_the_room_to_grow():
    cache = LayerCache()
    cache.append(some(2, 3))
    cache.select(torch.tensor([1, 1, 0]))
    address = cache.append(some(3, 1)).keys.data_ptr()
    assert {cache.append(some(3, 1)).keys.data_ptr() for _ in range(28)} == {address}


def filled(sentences=3, layers=2, src_len=4, tokens=5):
    torch.manual_seed(0)
    visible = torch.rand(sentences, 1, 1, src_len) < 0.7
    cache = DecoderCache([some(sentences, src_len) for _ in range(layers)], visible)
    pasts = [some(sentences, tokens) for _ in range(layers)]
    for layer, past in zip(cache.layers, pasts, strict=True):
        layer.append(past)
    return cache, pasts


def addresses(cache):
    return [t.data_ptr() for m in cache.memory for t in m] + [cache.memory_visible.data_ptr()]


def held(layer):
    nothing = some(layer._keys.shape[0], 0)
    return layer.append(nothing)


def test_a_new_decoder_cache_has_a_row_and_a_layer_for_each():
    cache, _ = filled(sentences=3, layers=2)
    assert cache.num_rows == 3
    assert len(cache.layers) == 2
    assert cache.length == 0  # `step` counts it


@pytest.mark.parametrize(
    "rows",
    [[0, 0, 1, 1, 2, 2], [0, 1, 2]],
)
def test_the_memory_stays_where_it_is_while_all_sentences_stay(rows):
    cache, pasts = filled()
    before = addresses(cache)
    assert cache.select(torch.tensor(rows)) is cache
    assert addresses(cache) == before
    assert cache.num_rows == len(rows)
    for layer, past in zip(cache.layers, pasts, strict=True):
        assert same(held(layer), KeysValues(past.keys[rows], past.values[rows]))


def test_hypotheses_change_places_and_the_memory_does_not_move():
    cache, pasts = filled()
    before = addresses(cache)
    cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    for layer in cache.layers:  # make the two hypotheses of each sentence differ
        layer.append(some(6, 1))
    now = [held(layer) for layer in cache.layers]
    now = [KeysValues(kv.keys.clone(), kv.values.clone()) for kv in now]
    rows = [1, 0, 2, 2, 5, 4]
    cache.select(torch.tensor(rows))
    assert addresses(cache) == before
    for layer, past in zip(cache.layers, now, strict=True):
        assert same(held(layer), KeysValues(past.keys[rows], past.values[rows]))
    assert pasts[0].keys.shape[0] == 3


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([0, 1, 4, 5], [0, 2]),
        ([3, 2], [1]),
        ([4, 4, 1, 0], [2, 0]),
        ([2, 5], [1, 2]),
        ([5, 4, 5], [2]),
        ([3, 2, 0, 0, 4, 5], [1, 0, 2]),  # nobody left, but sentences changed places
    ],
)
def test_the_memory_follows_the_sentences_that_stay(rows, kept):
    cache, _ = filled()
    cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    memory, visible = cache.memory, cache.memory_visible
    pasts = [held(layer) for layer in cache.layers]
    cache.select(torch.tensor(rows))
    assert cache.num_rows == len(rows)
    assert torch.equal(cache.memory_visible, visible[kept])
    for now, before in zip(cache.memory, memory, strict=True):
        assert same(now, KeysValues(before.keys[kept], before.values[kept]))
    for layer, past in zip(cache.layers, pasts, strict=True):
        assert same(held(layer), KeysValues(past.keys[rows], past.values[rows]))


def test_after_a_sentence_left_the_others_are_found_by_their_new_rows():
    cache, _ = filled()
    cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    cache.select(torch.tensor([2, 3, 4, 5]))  # sentence 0 left
    memory = cache.memory
    cache.select(torch.tensor([3, 2]))  # what was sentence 2 stays
    assert same(cache.memory[0], KeysValues(memory[0].keys[1:], memory[0].values[1:]))
    assert cache.num_rows == 2


def test_unequal_groups_are_our_mistake():
    cache, _ = filled()
    with pytest.raises(AssertionError, match="equally many"):
        cache.select(torch.tensor([0, 0, 1, 2]))


@pytest.mark.parametrize("group", [1, 3])
def test_num_bytes_is_what_the_tokens_take(group):
    model = model_of()
    layers, d_model, sentences, src_len, steps = 2, 12, 2, 7, 5
    with torch.no_grad():
        cache = model.start(model.encode(ids_of(sentences, src_len)))
        assert cache.num_bytes["self"] == 0
        cache.select(torch.arange(sentences).repeat_interleave(group))
        for step in range(steps):
            model.step(ids_of(sentences * group, steps)[:, step], cache)
    a_token = 2 * layers * d_model * 4
    assert cache.num_bytes == {
        "self": sentences * group * steps * a_token,
        "cross": sentences * src_len * a_token,  # once a sentence, however many hypotheses
    }
    measured = sum(t.contiguous().nbytes for layer in cache.layers for t in held_pair(layer))
    assert cache.num_bytes["self"] == measured
    assert cache.num_bytes["cross"] == sum(t.nbytes for m in cache.memory for t in m)


def held_pair(layer):
    return layer._keys[:, :, : layer.length], layer._values[:, :, : layer.length]


def test_num_bytes_counts_half_precision_as_half():
    whole, half = LayerCache(), LayerCache()
    whole.append(some(2, 3))
    half.append(KeysValues(*(t.half() for t in some(2, 3))))
    assert whole.num_bytes == 2 * HEADS * 3 * (D_K + D_V) * 4 == 2 * half.num_bytes
