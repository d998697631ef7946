"""R-Drop is what its formula says, gradients too; chunks, padding and micro-batches change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transduce.batch.collate import SpecialIds, collate
from transduce.batch.store import TokenStore, build_store
from transduce.errors import RecipeError
from transduce.model import Transformer, TransformerConfig
from transduce.recipe import Recipe
from transduce.train.config import TrainConfig
from transduce.train.loss import batch_loss, smoothed_loss
from transduce.train.optimizer import make_optimizer
from transduce.train.r_drop import r_drop_sums
from transduce.train.step import accumulate_gradients, train_step

IDS = SpecialIds(0, 2, 3)
PAIRS, D_MODEL, VOCAB = 23, 8, 19


def formula(states, weight, bias, labels, smoothing, alpha):
    """The paper's loss, halved, by autograd over the whole logits."""
    first, second = F.linear(states, weight, bias).chunk(2)
    entropies = [
        F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        for logits in (first, second)
    ]
    log_p, log_q = first.log_softmax(1), second.log_softmax(1)
    divergences = F.kl_div(log_q, log_p, reduction="sum", log_target=True) + F.kl_div(
        log_p, log_q, reduction="sum", log_target=True
    )
    return (sum(entropies) + alpha * 0.5 * divergences) / 2


def inputs(dtype=torch.float64, bias=True):
    torch.manual_seed(0)
    shapes = [(2 * PAIRS, D_MODEL), (VOCAB, D_MODEL)] + ([(VOCAB,)] if bias else [])
    tensors = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    return tensors if bias else [*tensors, None]


LABELS = torch.randint(0, VOCAB, (PAIRS,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 5.0), (0.1, 1.0), (0.2, 0.3)])
@pytest.mark.parametrize("pairs_per_chunk", [1, 5, 23, 100])
def test_equals_the_formula(dtype, tolerance, bias, smoothing, alpha, pairs_per_chunk):
    tensors = inputs(dtype, bias)
    loss, nll = r_drop_sums(*tensors, LABELS, smoothing, alpha, chunk_cells=2 * VOCAB * pairs_per_chunk)
    theirs = formula(*tensors, LABELS, smoothing, alpha)
    torch.testing.assert_close(loss, theirs, rtol=tolerance, atol=0)
    both = F.cross_entropy(F.linear(*tensors), LABELS.repeat(2), reduction="sum")
    torch.testing.assert_close(nll, both / 2, rtol=tolerance, atol=0)
    wanted = [tensor for tensor in tensors if tensor is not None]
    for mine, reference in zip(
        torch.autograd.grad(loss / 3, wanted), torch.autograd.grad(theirs / 3, wanted), strict=True
    ):
        assert (mine - reference).norm() <= tolerance * reference.norm()


def test_finite_differences_agree():
    states, weight, bias = inputs()
    few = [x.detach().clone().requires_grad_() for x in (states[:6, :3], weight[:5, :3], bias[:5])]
    assert torch.autograd.gradcheck(
        lambda *tensors: r_drop_sums(*tensors, LABELS[:3] % 5, 0.1, 5.0, chunk_cells=20)[0], few
    )


def test_equal_passes_give_the_plain_loss_whatever_alpha():
    states, weight, bias = inputs(torch.float32)
    half = states.detach()[:PAIRS]
    loss, nll = r_drop_sums(half.repeat(2, 1), weight, bias, LABELS, 0.1, 5.0, 1 << 10)
    plain = smoothed_loss(half, weight, bias, LABELS, 0.1)
    torch.testing.assert_close(loss, plain.loss)
    torch.testing.assert_close(nll, plain.nll)
    for mine, reference in zip(
        torch.autograd.grad(loss, [weight, bias]),
        torch.autograd.grad(plain.loss, [weight, bias]),
        strict=True,
    ):
        torch.testing.assert_close(mine, reference)


def test_large_logits_stay_finite():
    states = torch.tensor([[300.0], [-300.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]])
    loss, nll = r_drop_sums(states, weight, None, torch.tensor([0]), 0.0, 1.0, 1 << 10)
    # NLL 0 and 600, halved; both divergences are 600, a quarter of their sum is 300.
    assert nll.item() == pytest.approx(300.0)
    assert loss.item() == pytest.approx(600.0)
    assert torch.autograd.grad(loss, states)[0].isfinite().all()


def test_nll_carries_no_gradient_and_no_grad_mode_works():
    tensors = inputs()
    assert not r_drop_sums(*tensors, LABELS, 0.1, 5.0, 1 << 10)[1].requires_grad
    with torch.no_grad():
        assert not r_drop_sums(*tensors, LABELS, 0.1, 5.0, 1 << 10)[0].requires_grad


# --- through the model ----------------------------------------------------------------------------


def make_model(dropout):
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(
            source_vocab_size=30, target_vocab_size=30, d_model=16, d_ff=32, num_heads=2,
            num_encoder_layers=1, num_decoder_layers=1, dropout=dropout,
        )
    ).train()  # fmt: skip


@pytest.fixture
def batches(tmp_path):
    """A function that cuts sixteen pairs of unequal lengths into `parts` batches."""
    rng = np.random.default_rng(0)
    rows = [
        (rng.integers(4, 30, rng.integers(1, 9)).tolist(), rng.integers(4, 30, rng.integers(1, 9)).tolist())
        for _ in range(16)
    ]
    build_store(tmp_path / "s", rows, vocab_size=30, fingerprint="")
    store = TokenStore(tmp_path / "s")
    return lambda parts: [collate(store, part, IDS) for part in np.array_split(np.arange(16), parts)]


def gradients(model, batches, r_drop):
    model.zero_grad()
    loss, nll = accumulate_gradients(model, batches, 0.1, r_drop)
    return loss, nll, torch.cat([p.grad.flatten() for p in model.parameters()])


def make_passes_differ(model):
    """Instead of dropout: the second half of the rows gets other states, the same for every batch cut."""

    def change(module, arguments, states):
        first, second = states.chunk(2)
        return torch.cat([first, second * torch.linspace(0.5, 1.5, states.shape[-1])])

    for stack in (model.encoder, model.decoder):
        stack.register_forward_hook(change)


@pytest.mark.parametrize("parts", [2, 4])
def test_micro_batches_give_the_gradient_of_the_whole(batches, parts):
    model = make_model(0.0)
    make_passes_differ(model)
    whole, cut = gradients(model, batches(1), 5.0), gradients(model, batches(parts), 5.0)
    assert (whole[2] - gradients(model, batches(1), 1e-9)[2]).norm() > 0.01 * whole[2].norm()
    assert cut[0] == pytest.approx(whole[0], rel=1e-6)
    assert cut[1] == pytest.approx(whole[1], rel=1e-6)
    assert (cut[2] - whole[2]).norm() <= 2e-6 * whole[2].norm()


def test_padding_counts_nowhere(batches):
    model = make_model(0.0)
    make_passes_differ(model)
    (batch,) = batches(1)
    pad = torch.nn.functional.pad
    wider = replace(
        batch,
        source=pad(batch.source, (0, 3)),
        target=pad(batch.target, (0, 5)),
        labels=pad(batch.labels, (0, 5)),
    )
    plain, padded = gradients(model, [batch], 5.0), gradients(model, [wider], 5.0)
    assert padded[0] == pytest.approx(plain[0], rel=1e-6)
    assert (plain[2] - padded[2]).norm() <= 2e-6 * plain[2].norm()


def test_both_passes_are_of_the_same_pairs_with_dropout_of_their_own(batches):
    """Against the model run on doubled rows, from the same random numbers."""
    model = make_model(0.3)
    (batch,) = batches(1)
    torch.manual_seed(5)
    ours = batch_loss(model, batch.source, batch.target, batch.labels, 0.1, 5.0)
    torch.manual_seed(5)
    logits = model(batch.source.repeat(2, 1), batch.target.repeat(2, 1))  # (2 · batch, tgt_len, vocab)
    real = batch.labels != 0
    first, second = (half[real] for half in logits.chunk(2))
    theirs = formula(torch.cat([first, second]), torch.eye(30), None, batch.labels[real], 0.1, 5.0)
    torch.testing.assert_close(ours.loss, theirs)
    assert (first - second).abs().mean() > 0.01


def test_off_is_the_plain_path_bit_for_bit(batches):
    model = make_model(0.3)
    off = gradients(model, batches(2), 0.0)
    accumulate_gradients(model, batches(2), 0.1)
    assert torch.equal(off[2], torch.cat([p.grad.flatten() for p in model.parameters()]))


def test_a_step_uses_the_setting_and_counts_the_text_once(batches):
    results = []
    for r_drop in (0.0, 5.0):
        model = make_model(0.3)
        config = TrainConfig(r_drop=r_drop)
        torch.manual_seed(5)
        results.append(train_step(model, make_optimizer(model, config), batches(1), config, step=1))
    plain, dropped = results
    assert dropped.loss > plain.loss * 1.01  # the divergences are in it
    assert dropped.nll == pytest.approx(plain.nll, rel=0.2)  # the mean of both passes, not their sum
    assert dropped.num_target_tokens == plain.num_target_tokens
    assert dropped.num_source_tokens == plain.num_source_tokens


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(RecipeError, match="r_drop must not be negative, got -1"):
        TrainConfig(r_drop=-1.0)
    with pytest.raises(RecipeError, match=r"train\.r_drop \(5\.0\).*no dropout.*set model\.dropout"):
        Recipe(train=TrainConfig(r_drop=5.0), model=TransformerConfig(dropout=0.0))
    Recipe(train=TrainConfig(r_drop=5.0), model=TransformerConfig(dropout=0.0, attention_dropout=0.1))
