"""What a Transformer looks like: sizes, norms, positions, ties. Nothing about how it is trained or run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transduce.errors import ModelError

__all__ = [
    "Activation",
    "NormPlacement",
    "PositionKind",
    "SinusoidVariant",
    "TransformerConfig",
    "Tying",
]

NormPlacement = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "swish", "swiglu"]
PositionKind = Literal["sinusoidal", "learned", "rotary"]
SinusoidVariant = Literal["interleaved", "halves", "tensor2tensor"]
Tying = Literal["none", "target", "all"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The architecture of one encoder-decoder model (defaults: the paper's base, Table 3).

    Raises:
        ModelError: a size is not positive, `num_heads` does not divide `d_model`, a rotary width
            is odd, or the embeddings are tied across unequal vocabularies.
    """

    source_vocab_size: int = 0
    """Pieces in the source vocabulary; 0 means: take the tokenizer's."""
    target_vocab_size: int = 0
    """Pieces in the target vocabulary; 0 means: take the tokenizer's."""
    pad_id: int = 0
    """The id that fills up short rows; it is never attended to and never a label."""

    num_encoder_layers: int = 6
    """Encoder layers (the paper's N)."""
    num_decoder_layers: int = 6
    """Decoder layers (the paper's N)."""
    d_model: int = 512
    """Width of every vector that travels through the stacks."""
    d_ff: int = 2048
    """Inner width of the feed-forward layer."""
    num_heads: int = 8
    """Attention heads."""
    d_k: int = 0
    """Width of one head's queries and keys; 0 means d_model / num_heads."""
    d_v: int = 0
    """Width of one head's values; 0 means d_k."""

    dropout: float = 0.1
    """Share of units dropped from each sub-layer's output and from the embedding sums (section 5.4)."""
    attention_dropout: float = 0.0
    """Share of attention weights dropped (tensor2tensor's addition; the paper drops none)."""
    activation_dropout: float = 0.0
    """Share of the feed-forward layer's inner units dropped (tensor2tensor's addition)."""

    norm: NormPlacement = "post"
    """`post`: LayerNorm(x + Sublayer(x)), the paper. `pre`: x + Sublayer(LayerNorm(x)), and one more
    LayerNorm on top of each stack."""
    layer_norm_eps: float = 1e-5
    """Added to the variance in LayerNorm."""
    activation: Activation = "relu"
    """The feed-forward layer's non-linearity: `relu` (the paper), `gelu`, `swish` (x · sigmoid(x), as in
    OPUS-MT), or `swiglu` (gated)."""

    position: PositionKind = "sinusoidal"
    """How a position is told: `sinusoidal` (the paper), `learned`, or `rotary` (in self-attention)."""
    sinusoid: SinusoidVariant = "interleaved"
    """`interleaved`: the paper's sin, cos, sin, cos. `halves`: all sines, then all cosines
    (Hugging Face Marian). `tensor2tensor`: halves with exponents i / (d/2 - 1) (fairseq, Marian)."""
    position_offset: int = 0
    """The position number of the first token (CTranslate2's built-in table begins at 1)."""
    max_len: int = 5000
    """Learned positions: the longest row. Sinusoidal and rotary tables grow beyond it by themselves."""

    bias: bool = True
    """Whether the attention projections have a bias (the feed-forward layer always has, eq. 2)."""
    output_bias: bool = False
    """Whether the output projection has a bias."""
    tie: Tying = "all"
    """Shared matrices: `all` = source embedding, target embedding and output projection (the paper,
    section 3.4; needs one joint vocabulary), `target` = the last two, `none`."""

    def __post_init__(self) -> None:
        self._check_sizes()
        if self.d_model % self.num_heads and not self.d_k:
            raise ModelError(
                f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads}): each head "
                f"gets d_model / num_heads columns; change one of the two, or set d_k"
            )
        if self.position == "rotary" and self.key_width % 2:
            raise ModelError(
                f"rotary positions turn pairs of columns, so a head's width must be even; it is "
                f"{self.key_width}: change num_heads or set d_k"
            )
        if self.tie == "all" and self.source_vocab_size != self.target_vocab_size:
            raise ModelError(
                f"tie = 'all' shares one embedding between both languages, but the source vocabulary has "
                f"{self.source_vocab_size} pieces and the target's {self.target_vocab_size}: use a joint "
                f"tokenizer (tokenizer.joint = true) or tie = 'target'"
            )

    def _check_sizes(self) -> None:
        """Every count and width is positive and every dropout a share below one."""
        for name in ("d_model", "d_ff", "num_heads", "max_len"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (
            "num_encoder_layers",
            "num_decoder_layers",
            "d_k",
            "d_v",
            "position_offset",
            "pad_id",
        ):
            if getattr(self, name) < 0:
                raise ModelError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ModelError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")

    @property
    def key_width(self) -> int:
        """d_k: columns of one head's queries and keys."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_width(self) -> int:
        """d_v: columns of one head's values."""
        return self.d_v or self.key_width
