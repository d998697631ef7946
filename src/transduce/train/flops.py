"""How much arithmetic training takes: model FLOPs, counted from sizes and lengths.

*Model* FLOPs are what the mathematics asks for, however a machine goes about it: padding, and what
is computed twice to save memory, count nowhere. Divided by the time and by the machine's peak they
give the use of it (MFU: Chowdhery et al., 2022, "PaLM", appendix B); the accounting by matrices is
that of Kaplan et al. (2020, "Scaling laws for neural language models", section 2.1), here without
their approximation of encoder-decoder models.

Knows: sizes, lengths. Does not know: time, machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transduce.batch.collate import Batch
from transduce.model.config import TransformerConfig

__all__ = ["Work", "forward_flops", "training_flops", "work_of"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What batches ask for, padding not counted. A pair is a query and a key of one sentence."""

    num_source_tokens: int
    num_target_tokens: int
    """Also the number of labels."""
    num_source_pairs: int
    """Σ src_len²: the encoder's self-attention."""
    num_target_pairs: int
    """Σ tgt_len²: the decoder's self-attention; hidden pairs count, as PaLM counts them."""
    num_cross_pairs: int
    """Σ tgt_len · src_len: cross-attention."""


def work_of(batches: Iterable[Batch], pad_id: int) -> Work:
    """Count the real tokens of `batches` and the pairs that attend."""
    sums = [0, 0, 0, 0, 0]
    for batch in batches:
        source, target = ((ids != pad_id).sum(1) for ids in (batch.source, batch.labels))  # (batch,)
        counts = (source, target, source * source, target * target, source * target)
        for index, count in enumerate(counts):
            sums[index] += int(count.sum())
    return Work(
        num_source_tokens=sums[0],
        num_target_tokens=sums[1],
        num_source_pairs=sums[2],
        num_target_pairs=sums[3],
        num_cross_pairs=sums[4],
    )


def forward_flops(config: TransformerConfig, work: Work) -> int:
    """FLOPs of the matrix products of one forward pass; a multiply-add is two.

    With h heads of widths d_k and d_v, N_e encoder and N_d decoder layers, V target pieces, and
    S, T, SS, TT, ST the counts of `work` in their order:

        A = d_model · h · (d_k + d_v)      w_q and w_o together; w_k and w_v together
        F = d_model · d_ff · 2             feed-forward layer; · 3 when gated

        FLOPs = 2 · (   S · N_e · (2 A + F)             encoder
                      + T · N_d · (3 A + F)             decoder, cross-attention's w_q and w_o too
                      + S · N_d · A                     cross-attention's w_k and w_v
                      + T · d_model · V                 output layer, at the labels only
                      + (N_e · SS + N_d · (TT + ST)) · h · (d_k + d_v) )     Q Kᵀ, weights · V

    Embeddings are looked up, and norms, softmax, activations, biases and dropout are no matrix
    products: none of them counts.
    """
    columns = config.num_heads * (config.key_width + config.value_width)
    projections = config.d_model * columns  # A
    feed_forward = (3 if config.activation == "swiglu" else 2) * config.d_model * config.d_ff
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    a_source_token = encoder * (2 * projections + feed_forward) + decoder * projections
    a_target_token = decoder * (3 * projections + feed_forward) + config.d_model * config.target_vocab_size
    multiply_adds = work.num_source_tokens * a_source_token + work.num_target_tokens * a_target_token
    pairs = encoder * work.num_source_pairs + decoder * (work.num_target_pairs + work.num_cross_pairs)
    multiply_adds += pairs * columns
    return 2 * multiply_adds


def training_flops(config: TransformerConfig, work: Work) -> int:
    """FLOPs of forward and backward pass: three times `forward_flops`.

    Each product of the forward pass has two of the same size in the backward pass, one for the
    gradient of either factor. The optimizer's arithmetic, which does not grow with the batch, is
    left out.
    """
    return 3 * forward_flops(config, work)
