"""The whole model: the same whether cached or not, deaf to padding, the future and neighbours."""

from __future__ import annotations

import math
import random
import re
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import A_FEW, BOS, PAD, VARIANTS, VOCAB, config_of, ids_of, model_of, name_of, padded
from torch.testing import assert_close

from transduce.errors import ModelError
from transduce.model import Memory, Transformer, TransformerConfig, padding_visible, sinusoid_table
from transduce.model.dropout import Dropout

few = settings(max_examples=8, deadline=None, derandomize=True)
all_variants = pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
a_few_variants = pytest.mark.parametrize("variant", A_FEW, ids=name_of)
SOURCE = padded([[5, 6, 7, 8, 9, 2], [3, 4, 2], [11, 2]])


def started(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    """Target rows that begin with the start symbol."""
    ids = ids_of(rows, length, seed)
    ids[:, 0] = BOS
    return ids


# --- What is computed ---


def test_encode_is_embedding_plus_position_through_the_stack():
    model = model_of()
    x = model.source_embedding.weight[SOURCE] * math.sqrt(12) + sinusoid_table(6, 12)
    memory = model.encode(SOURCE)
    visible = SOURCE.ne(PAD)[:, None, None]
    assert torch.equal(memory.visible, visible)
    assert_close(memory.states, model.encoder(x, visible))


def test_decode_is_embedding_plus_position_through_the_stack_over_the_memory():
    model, target = model_of(tie="none"), started(3, 4)
    memory = model.encode(SOURCE)
    x = model.target_embedding.weight[target] * math.sqrt(12) + sinusoid_table(4, 12)
    causal = torch.ones(4, 4).tril().bool()[None, None]
    states = model.decoder(x, causal, model.decoder.remember(memory.states), memory.visible)
    assert_close(model.decode(target, memory), states)
    assert_close(model(SOURCE, target), states @ model.output.weight.T)


@pytest.mark.parametrize("variant", ["interleaved", "halves", "tensor2tensor"])
def test_the_configuration_chooses_the_sinusoids(variant):
    model = model_of(sinusoid=variant, position_offset=3)
    expected = sinusoid_table(64, 12, variant, 3)
    assert torch.equal(model.source_position.table, expected)
    assert torch.equal(model.target_position.table, expected)


def test_the_configuration_chooses_the_rotations():
    model = model_of(position="rotary", position_offset=3, d_k=4)
    rotary = model.encoder.layers[0].self_attention.rotary
    assert model.decoder.layers[1].self_attention.rotary is rotary
    assert (rotary.d_k, rotary.offset, len(rotary.cos)) == (4, 3, 64)


@all_variants
def test_the_order_of_words_matters(variant):
    model = model_of(**variant)
    target = started(1, 4)
    forth, back = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[7, 6, 5, 2]])
    assert not torch.allclose(model(forth, target), model(back, target), atol=1e-4)
    swapped = target[:, [0, 2, 1, 3]]
    if target[0, 1] != target[0, 2]:
        assert not torch.allclose(model(forth, target)[:, 3], model(forth, swapped)[:, 3], atol=1e-5)


@a_few_variants
def test_every_parameter_takes_part(variant):
    model = model_of(**variant)
    towards = torch.randn(3, 5, VOCAB, generator=torch.Generator().manual_seed(2))
    (model(SOURCE, started(3, 5)) * towards).sum().backward()
    for name, parameter in model.named_parameters():
        if not name.endswith("w_k.bias"):  # the softmax does not feel what all keys share
            assert parameter.grad is not None, name
            assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_both_embedding_sums_and_on_each_sublayers_output(norm):
    """Section 5.4; and on nothing else unless asked."""
    model = model_of(norm=norm, dropout=0.3).train()
    names = {module: name for name, module in model.named_modules()}
    seen = []
    for module in model.modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(
                lambda module, args, out: seen.append(names[module]) if module.p else None
            )
    model(SOURCE, started(3, 4))
    encoder = [f"encoder.layers.{i}.{s}_add_norm" for i in (0, 1) for s in ("self_attention", "feed_forward")]
    decoder = [
        f"decoder.layers.{i}.{s}_add_norm"
        for i in (0, 1)
        for s in ("self_attention", "cross_attention", "feed_forward")
    ]
    expected = ["", *encoder, "", *decoder]
    assert seen == [f"{name}.dropout".removeprefix(".") for name in expected]


def test_training_is_random_and_evaluation_is_not():
    model, target = model_of(dropout=0.3), started(3, 4)
    assert torch.equal(model(SOURCE, target), model(SOURCE, target))
    assert torch.equal(model(SOURCE, target), model_of(dropout=0.0)(SOURCE, target))
    model.train()
    assert not torch.allclose(model(SOURCE, target), model(SOURCE, target))


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_half_precision_stays_half_and_close(position):
    model, target = model_of(position=position), started(3, 4)
    expected = model(SOURCE, target)
    model.bfloat16()
    logits = model(SOURCE, target)
    assert logits.dtype == torch.bfloat16
    assert_close(logits.float(), expected, atol=0.5, rtol=0.1)
    with torch.no_grad():
        stepped, _ = model.step(target[:, 0], model.start(model.encode(SOURCE)))
    assert_close(stepped.float(), expected[:, 0], atol=0.5, rtol=0.1)


# --- Cached = not cached ---


@all_variants
@torch.no_grad()
def test_step_by_step_equals_all_at_once(variant):
    model, target = model_of(**variant), started(3, 6)
    expected = model(SOURCE, target)
    cache = model.start(model.encode(SOURCE))
    for i in range(6):
        logits, same = model.step(target[:, i], cache)
        assert same is cache
        assert cache.length == i + 1
        assert_close(logits, expected[:, i], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
@torch.no_grad()
def test_steps_go_on_beyond_the_tables_and_the_cache_buffers(position):
    model, target = model_of(position=position, max_len=8, num_encoder_layers=1), started(3, 70)
    expected = model(SOURCE, target)
    other = model_of(position=position, max_len=8, num_encoder_layers=1)  # tables not grown yet
    cache = other.start(other.encode(SOURCE))
    logits = torch.stack([other.step(target[:, i], cache)[0] for i in range(70)], dim=1)
    assert_close(logits, expected, atol=5e-5, rtol=1e-4)


@a_few_variants
@pytest.mark.parametrize("group", [1, 3])
@torch.no_grad()
def test_a_beam_that_reorders_equals_decoding_its_hypotheses_from_scratch(variant, group):
    """Rows change parents within their sentence at each step; a sentence leaves halfway; one more later."""
    model, chance = model_of(**variant), random.Random(group)
    cache = model.start(model.encode(SOURCE))
    sentences = [0, 1, 2]
    histories = [[BOS] for _ in sentences]
    cache.select(torch.arange(3).repeat_interleave(group))
    histories = [list(history) for history in histories for _ in range(group)]
    for step in range(8):
        logits, _ = model.step(torch.tensor([history[-1] for history in histories]), cache)
        own = SOURCE[[sentence for sentence in sentences for _ in range(group)]]
        expected = model(own, torch.tensor(histories))[:, -1]
        assert_close(logits, expected, atol=5e-5, rtol=1e-4)
        parents = [n * group + chance.randrange(group) for n in range(len(sentences)) for _ in range(group)]
        if step in (3, 5):
            gone = chance.randrange(len(sentences))
            parents = parents[: gone * group] + parents[(gone + 1) * group :]
            del sentences[gone]
        cache.select(torch.tensor(parents))
        histories = [[*histories[parent], chance.randrange(2, VOCAB)] for parent in parents]
        assert cache.num_rows == len(histories)


@torch.no_grad()
def test_start_looks_at_the_memory_once():
    model = model_of()
    memory = model.encode(SOURCE)
    cache = model.start(memory)
    assert cache.num_rows == 3
    assert cache.length == 0
    assert cache.memory_visible is memory.visible
    for kept, made in zip(cache.memory, model.decoder.remember(memory.states), strict=True):
        assert_close(kept.keys, made.keys)
        assert_close(kept.values, made.values)


# --- Deaf to what must not be heard ---


@a_few_variants
@few
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), more=st.tuples(*[st.integers(0, 7)] * 2))
def test_padding_never_changes_the_logits_of_real_tokens(variant, lengths, more):
    model = model_of(**variant)
    sources = [ids_of(1, length, seed=length)[0].tolist() for length in lengths]
    targets = [started(1, 7 - length, seed=length)[0].tolist() for length in lengths]
    source, target = padded(sources), padded(targets)
    wide = padded(sources, source.shape[1] + more[0]), padded(targets, target.shape[1] + more[1])
    with torch.no_grad():
        logits, widened = model(source, target), model(*wide)
        for row, (own_source, own_target) in enumerate(zip(sources, targets, strict=True)):
            alone = model(torch.tensor([own_source]), torch.tensor([own_target]))[0]
            assert_close(logits[row, : len(own_target)], alone, atol=2e-5, rtol=1e-4)
            assert_close(widened[row, : len(own_target)], alone, atol=2e-5, rtol=1e-4)


@a_few_variants
@torch.no_grad()
def test_future_tokens_never_change_past_logits(variant):
    model, target = model_of(**variant), started(3, 6)
    expected = model(SOURCE, target)
    for position in range(1, 6):
        changed = target.clone()
        changed[:, position:] = 2 + (target[:, position:] - 1) % (VOCAB - 2)
        logits = model(SOURCE, changed)
        assert_close(logits[:, :position], expected[:, :position])
        assert ((logits[:, position] - expected[:, position]).abs().amax(-1) > 1e-5).all()


@a_few_variants
@torch.no_grad()
def test_neighbours_in_the_batch_do_not_matter(variant):
    model, target = model_of(**variant), started(3, 5)
    together = model(SOURCE, target)
    turned = model(SOURCE[[2, 0, 1]], target[[2, 0, 1]])
    assert_close(turned[[1, 2, 0]], together, atol=1e-5, rtol=1e-5)
    others = SOURCE.clone()
    others[1:] = ids_of(2, 6, seed=9)
    assert_close(model(others, target)[0], together[0], atol=1e-5, rtol=1e-5)
    for row in range(3):
        alone = model(SOURCE[row : row + 1], target[row : row + 1])[0]
        assert_close(alone, together[row], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_what_the_encoder_leaves_at_padded_places_is_never_read():
    model, target = model_of(), started(3, 5)
    memory = model.encode(SOURCE)
    expected = model.decode(target, memory)
    garbage = memory.states.masked_fill(SOURCE.eq(PAD)[..., None], 1e4)
    assert torch.equal(model.decode(target, Memory(garbage, memory.visible)), expected)


@torch.no_grad()
def test_a_source_of_nothing_but_padding_gives_finite_logits_and_disturbs_nobody():
    model, target = model_of(), started(2, 5)
    source = padded([[5, 6, 7], []])
    assert not padding_visible(source, PAD)[1].any()
    logits = model(source, target)
    assert logits.isfinite().all()
    assert_close(logits[:1], model(source[:1], target[:1]), atol=1e-5, rtol=1e-5)


def test_another_padding_id_is_followed_everywhere():
    """The same weights with the rows of ids 0 and 6 exchanged say the same about exchanged ids."""
    model, other = model_of(), model_of(pad_id=6)
    exchange = torch.arange(VOCAB)
    exchange[[0, 6]] = torch.tensor([6, 0])
    other.load_tensors(
        {**model.tensors(), "source_embedding.weight": model.source_embedding.weight.detach()[exchange]}
    )
    source = padded([[5, 1, 7], [3]])
    target = started(2, 4)
    logits = other(exchange[source], exchange[target])
    assert_close(logits[..., exchange], model(source, target))


def test_everything_made_on_the_way_is_made_where_the_model_is():
    """Without an accelerator at hand: torch's meta device stands for one."""
    model, made = model_of().to("meta"), []
    ids = SOURCE.to("meta")
    model.decoder.register_forward_pre_hook(lambda module, args: made.extend([args[1], args[3]]))
    model(ids, ids)
    assert [mask.device.type for mask in made] == ["meta", "meta"]


# --- Parameters ---


def unique_names(model):
    return set(dict(model.named_parameters()))


@pytest.mark.parametrize(
    ("tie", "first_names", "shared"),
    [
        ("all", {"source_embedding.weight"}, "source target output"),
        ("target", {"source_embedding.weight", "target_embedding.weight"}, "target output"),
        ("none", {"source_embedding.weight", "target_embedding.weight", "output.weight"}, ""),
    ],
)
def test_ties_share_exactly_the_matrices_that_they_name(tie, first_names, shared):
    model = model_of(tie=tie)
    weights = {
        "source": model.source_embedding.weight,
        "target": model.target_embedding.weight,
        "output": model.output.weight,
    }
    for left, one in weights.items():
        for right, two in weights.items():
            together = left == right or (left in shared.split() and right in shared.split())
            assert (one is two) == together, (left, right)
    outer = {name for name in model.tensors() if not name.startswith(("encoder.", "decoder."))}
    assert outer == first_names


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_tensors_holds_every_parameter_once_and_shares_its_memory(tie):
    model = model_of(tie=tie, output_bias=True)
    tensors = model.tensors()
    assert {t.data_ptr() for t in tensors.values()} == {p.data_ptr() for p in model.parameters()}
    assert len(tensors) == len({t.data_ptr() for t in tensors.values()})
    assert sum(t.numel() for t in tensors.values()) == model.num_parameters
    assert not any(t.requires_grad for t in tensors.values())


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_loading_gives_the_same_model_and_keeps_its_ties(tie):
    model, other = model_of(tie=tie, norm="pre"), model_of(seed=5, tie=tie, norm="pre")
    before = list(other.parameters())
    target = started(3, 4)
    assert not torch.allclose(other(SOURCE, target), model(SOURCE, target), atol=1e-2)
    other.load_tensors({name: tensor.clone() for name, tensor in model.tensors().items()})
    assert torch.equal(other(SOURCE, target), model(SOURCE, target))
    assert all(one is two for one, two in zip(other.parameters(), before, strict=True))
    assert all(p.requires_grad for p in other.parameters())
    assert (other.output.weight is other.target_embedding.weight) == (tie != "none")
    assert (other.source_embedding.weight is other.target_embedding.weight) == (tie == "all")


def test_ties_survive_a_step_of_training():
    model = model_of(tie="all")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(SOURCE, started(3, 4)).square().mean().backward()
    optimiser.step()
    assert model.output.weight is model.target_embedding.weight is model.source_embedding.weight


def test_other_weights_are_refused_by_name():
    model = model_of()
    tensors = model.tensors()
    missing = {name: t for name, t in tensors.items() if not name.startswith("encoder.layers.1.")}
    unknown = {**tensors, "encoder.layers.9.x": torch.zeros(1), "a": torch.zeros(1)}
    names = [f"encoder.layers.1.feed_forward.{n}" for n in ("w_1.bias", "w_1.weight", "w_2.bias")]
    with pytest.raises(ModelError, match=re.escape(f"missing {names}, unknown [] (16 and 0 in all)")):
        model.load_tensors(missing)
    many = {f"a{i}": torch.zeros(1) for i in range(5)}
    message = "missing [], unknown ['a0', 'a1', 'a2'] (0 and 5 in all)"
    with pytest.raises(ModelError, match=re.escape(message)):
        model.load_tensors({**tensors, **many})
    with pytest.raises(
        ModelError, match=r"missing \[\], unknown \['a', 'encoder\.layers\.9\.x'\] \(0 and 2 in all\)"
    ):
        model.load_tensors(unknown)


def test_another_shape_is_refused_with_both_and_nothing_is_loaded():
    model = model_of()
    name = "decoder.layers.1.feed_forward.w_2.bias"
    with pytest.raises(
        ModelError, match=re.escape(f"{name} has shape (7,), but the configuration asks for (12,)")
    ):
        model.load_tensors({**model.tensors(), name: torch.zeros(7)})


def test_weights_of_another_precision_are_taken():
    model, other = model_of(), model_of(seed=5)
    other.load_tensors({name: t.half() for name, t in model.tensors().items()})
    assert {p.dtype for p in other.parameters()} == {torch.float32}
    assert_close(other.tensors(), {n: t.half().float() for n, t in model.tensors().items()})


@pytest.mark.parametrize("sizes", [(0, 0), (0, 19), (19, 0)])
def test_a_model_needs_both_vocabulary_sizes(sizes):
    config = config_of(source_vocab_size=sizes[0], target_vocab_size=sizes[1], tie="none")
    message = f"source_vocab_size = {sizes[0]}, target_vocab_size = {sizes[1]}"
    with pytest.raises(ModelError, match=message):
        Transformer(config)
    Transformer(config_of(source_vocab_size=1, target_vocab_size=1))  # however small


def test_two_vocabularies_may_differ():
    model = model_of(source_vocab_size=19, target_vocab_size=23, tie="target")
    assert model.source_embedding.weight.shape == (19, 12)
    assert model.target_embedding.weight.shape == (23, 12)
    assert model(SOURCE, started(3, 4)).shape == (3, 4, 23)


def test_only_learned_positions_have_a_longest_row():
    assert model_of(position="learned", max_len=33).longest == 33
    assert model_of(position="sinusoidal", max_len=33).longest == sys.maxsize
    assert model_of(position="rotary", max_len=33).longest == sys.maxsize


@pytest.mark.parametrize("stack", ["num_encoder_layers", "num_decoder_layers"])
def test_a_stack_may_be_empty(stack):
    model, target = model_of(**{stack: 0}), started(3, 3)
    logits = model(SOURCE, target)
    assert logits.shape == (3, 3, VOCAB)
    with torch.no_grad():
        cache = model.start(model.encode(SOURCE))
        stepped = torch.stack([model.step(target[:, i], cache)[0] for i in range(3)], dim=1)
    assert_close(stepped, logits)


# --- Sizes: the paper's Table 3 ---

BASE = {"source_vocab_size": 37_000, "target_vocab_size": 37_000}
BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16}


def num_parameters(**changes) -> int:
    with torch.device("meta"):  # counts without allocating
        return Transformer(TransformerConfig(**{**BASE, **changes})).num_parameters


def counted(d_model=512, d_ff=2048, layers=6, vocab=37_000) -> int:
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    return vocab * d_model + encoder + decoder


def test_base_and_big_have_the_papers_sizes():
    assert num_parameters() == counted() == 63_082_496
    assert num_parameters() == pytest.approx(65e6, rel=0.03)
    assert num_parameters(**BIG) == counted(1024, 4096) == 214_245_376
    assert num_parameters(**BIG) == pytest.approx(213e6, rel=0.02)


@pytest.mark.parametrize(
    ("row", "millions", "changes"),
    [
        ("B", 58, {"d_k": 16, "d_v": 64}),
        ("B", 60, {"d_k": 32, "d_v": 64}),
        ("C", 36, {"num_encoder_layers": 2, "num_decoder_layers": 2}),
        ("C", 50, {"num_encoder_layers": 4, "num_decoder_layers": 4}),
        ("C", 80, {"num_encoder_layers": 8, "num_decoder_layers": 8}),
        ("C", 28, {"d_model": 256, "d_k": 32, "d_v": 32}),
        ("C", 168, {"d_model": 1024, "d_k": 128, "d_v": 128}),
        ("C", 53, {"d_ff": 1024}),
        ("C", 90, {"d_ff": 4096}),
    ],
)
def test_variations_have_the_sizes_of_table_3(row, millions, changes):
    """The paper counts some 2 M more than its figures explain, so differences from base are compared."""
    difference = (num_parameters(**changes) - num_parameters()) / 1e6
    assert difference == pytest.approx(millions - 65, abs=2.5), row


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_every_variant_can_be_sized_without_allocating(position):
    more = 2 * 5000 * 512 if position == "learned" else 0
    assert num_parameters(position=position) == counted() + more


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"norm": "pre"}, 2 * 2 * 512),
        ({"tie": "target"}, 37_000 * 512),
        ({"tie": "none"}, 2 * 37_000 * 512),
        ({"output_bias": True}, 37_000),
        ({"bias": False}, -18 * 4 * 512),
        ({"activation": "swiglu"}, 12 * (512 * 2048 + 2048)),
    ],
)
def test_each_variant_adds_what_it_says(changes, more):
    assert num_parameters(**changes) == counted() + more
