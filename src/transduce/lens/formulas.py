"""Every formula of the model once, by a key: as a line of text, and as MathML for whoever draws it.

Knows: the paper's notation. Does not know: tensors, pages.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FORMULAS", "Formula"]


@dataclass(frozen=True)
class Formula:
    """One formula."""

    text: str
    """In one line."""
    mathml: str
    """A whole `<math>` element."""
    meaning: str
    """What it is for, in a sentence."""


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _i(name: str) -> str:
    """An identifier."""
    return f"<mi>{name}</mi>"


def _n(number: str) -> str:
    return f"<mn>{number}</mn>"


def _o(sign: str) -> str:
    return f"<mo>{sign}</mo>"


def _sub(base: str, index: str) -> str:
    return f"<msub>{_i(base)}{_i(index)}</msub>"


def _sup(base: str, index: str) -> str:
    return f"<msup>{base}{index}</msup>"


def _power(base: str, index: str) -> str:
    return _sup(_i(base), _i(index))


def _fraction(above: str, below: str) -> str:
    return f"<mfrac>{above}{below}</mfrac>"


def _root(inside: str) -> str:
    return f"<msqrt>{inside}</msqrt>"


def _call(name: str, *arguments: str) -> str:
    inside = _o(",").join(arguments)
    return _row(_i(name), _o("("), inside, _o(")"))


def _formula(text: str, meaning: str, *parts: str) -> Formula:
    return Formula(text, f"<math>{_row(*parts)}</math>", meaning)


_DIMENSION = _sub("d", "model")
_SCORE = _fraction(_row(_i("Q"), _power("K", "T")), _row(_root(_sub("d", "k")), _i("τ")))
_POSITION = _fraction(_i("pos"), _sup(_n("10000"), _row(_n("2"), _i("i"), _o("/"), _sub("d", "model"))))

FORMULAS: dict[str, Formula] = {
    "ids": _formula(
        "x_1 … x_n", "Which row of the vocabulary each token is.", _sub("x", "1"), _o("…"), _sub("x", "n")
    ),
    "lookup": _formula(
        "E[id]", "One row of the embedding matrix a token.", _i("E"), _o("["), _i("id"), _o("]")
    ),
    "embedding": _formula(
        "E[id] · √d_model",
        "The rows are scaled, so that they are not small beside the positions.",
        _i("E"),
        _o("["),
        _i("id"),
        _o("]"),
        _o("·"),
        _root(_DIMENSION),
    ),
    "position_table": _formula(
        "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same)",
        "A row of waves tells where a token stands.",
        _call("PE", _i("pos"), _row(_n("2"), _i("i"))),
        _o("="),
        _call("sin", _POSITION),
        _o(","),
        _call("PE", _i("pos"), _row(_n("2"), _i("i"), _o("+"), _n("1"))),
        _o("="),
        _call("cos", _POSITION),
    ),
    "learned_position": _formula(
        "P[pos]", "A trained row for each position.", _i("P"), _o("["), _i("pos"), _o("]")
    ),
    "position": _formula(
        "x + PE[pos]",
        "Meaning and place in one vector.",
        _i("x"),
        _o("+"),
        _i("PE"),
        _o("["),
        _i("pos"),
        _o("]"),
    ),
    "rotary": _formula(
        "(a, b) → (a cos θ - b sin θ, a sin θ + b cos θ), θ = pos / 10000^(2i/d_k)",
        "Queries and keys are turned by their position, so that their product tells the distance.",
        _o("("),
        _i("a"),
        _o(","),
        _i("b"),
        _o(")"),
        _o("→"),
        _o("("),
        _i("a"),
        _call("cos", _i("θ")),
        _o("-"),
        _i("b"),
        _call("sin", _i("θ")),
        _o(","),
        _i("a"),
        _call("sin", _i("θ")),
        _o("+"),
        _i("b"),
        _call("cos", _i("θ")),
        _o(")"),
    ),
    "linear": _formula(
        "x W + b", "Each vector is multiplied by one matrix.", _i("x"), _i("W"), _o("+"), _i("b")
    ),
    "queries": _formula(
        "Q = x W^Q", "What each position asks for.", _i("Q"), _o("="), _i("x"), _power("W", "Q")
    ),
    "keys": _formula(
        "K = x W^K", "What each position offers to be found by.", _i("K"), _o("="), _i("x"), _power("W", "K")
    ),
    "values": _formula(
        "V = x W^V",
        "What each position hands over when it is found.",
        _i("V"),
        _o("="),
        _i("x"),
        _power("W", "V"),
    ),
    "split": _formula(
        "[B, n, h·d_k] → [B, h, n, d_k]",
        "The columns are dealt out to the heads.",
        _o("["),
        _i("B"),
        _o(","),
        _i("n"),
        _o(","),
        _i("h"),
        _o("·"),
        _sub("d", "k"),
        _o("]"),
        _o("→"),
        _o("["),
        _i("B"),
        _o(","),
        _i("h"),
        _o(","),
        _i("n"),
        _o(","),
        _sub("d", "k"),
        _o("]"),
    ),
    "scores": _formula(
        "Q Kᵀ / (√d_k · τ)", "How well each query matches each key; the model's own τ is 1.", _SCORE
    ),
    "mask": _formula(
        "visible(i, j)",
        "Which keys a query may see: real tokens, and in the decoder none that come later.",
        _call("visible", _i("i"), _i("j")),
    ),
    "weights": _formula(
        "softmax(Q Kᵀ / (√d_k · τ)), 0 where hidden",
        "Each row shares out 1 among the keys it may see.",
        _call("softmax", _SCORE),
    ),
    "heads": _formula(
        "softmax(…) V", "The values, mixed by the weights.", _call("softmax", _o("…")), _i("V")
    ),
    "concat": _formula(
        "Concat(head_1, …, head_h)",
        "The heads side by side again.",
        _call("Concat", _sub("head", "1"), _o("…"), _sub("head", "h")),
    ),
    "attention": _formula(
        "MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O",
        "Each position gathers from the positions that it matches.",
        _call("MultiHead", _i("Q"), _i("K"), _i("V")),
        _o("="),
        _call("Concat", _sub("head", "1"), _o("…"), _sub("head", "h")),
        _power("W", "O"),
    ),
    "attention_output": _formula(
        "Concat(…) W^O", "One matrix mixes the heads.", _call("Concat", _o("…")), _power("W", "O")
    ),
    "residual": _formula(
        "x + Sublayer(x)",
        "What the sub-layer found is added to what was there.",
        _i("x"),
        _o("+"),
        _call("Sublayer", _i("x")),
    ),
    "norm": _formula(
        "γ (x - μ) / √(σ² + ε) + β",
        "Each vector is brought to mean 0 and variance 1, then scaled and shifted as was learnt.",
        _i("γ"),
        _fraction(_row(_i("x"), _o("-"), _i("μ")), _root(_row(_sup(_i("σ"), _n("2")), _o("+"), _i("ε")))),
        _o("+"),
        _i("β"),
    ),
    "add_norm_post": _formula(
        "LayerNorm(x + Sublayer(x))",
        "Add, then norm: the paper.",
        _call("LayerNorm", _row(_i("x"), _o("+"), _call("Sublayer", _i("x")))),
    ),
    "add_norm_pre": _formula(
        "x + Sublayer(LayerNorm(x))",
        "Norm before the sub-layer, nothing after the sum.",
        _i("x"),
        _o("+"),
        _call("Sublayer", _call("LayerNorm", _i("x"))),
    ),
    "inner": _formula(
        "activation(x W_1 + b_1)",
        "Each position by itself is widened and bent.",
        _call("activation", _row(_i("x"), _sub("W", "1"), _o("+"), _sub("b", "1"))),
    ),
    "gated_inner": _formula(
        "SiLU(x W_g + b_g) ⊙ (x W_1 + b_1)",
        "Widened twice; the one gates the other.",
        _call("SiLU", _row(_i("x"), _sub("W", "g"), _o("+"), _sub("b", "g"))),
        _o("⊙"),
        _o("("),
        _i("x"),
        _sub("W", "1"),
        _o("+"),
        _sub("b", "1"),
        _o(")"),
    ),
    "feed_forward": _formula(
        "FFN(x) = activation(x W_1 + b_1) W_2 + b_2",
        "Works on each position by itself.",
        _call("FFN", _i("x")),
        _o("="),
        _call("activation", _row(_i("x"), _sub("W", "1"), _o("+"), _sub("b", "1"))),
        _sub("W", "2"),
        _o("+"),
        _sub("b", "2"),
    ),
    "encoder_layer": _formula(
        "self-attention → Add & Norm → FFN → Add & Norm",
        "Mix the positions, then work on each.",
        _i("self-attention"),
        _o("→"),
        _i("Add & Norm".replace("&", "&amp;")),
        _o("→"),
        _i("FFN"),
        _o("→"),
        _i("Add &amp; Norm"),
    ),
    "decoder_layer": _formula(
        "masked self-attention → Add & Norm → cross-attention → Add & Norm → FFN → Add & Norm",
        "Look at what was written, then at the source, then work on each position.",
        _i("self-attention"),
        _o("→"),
        _i("cross-attention"),
        _o("→"),
        _i("FFN"),
    ),
    "stack": _formula("layer_N(… layer_1(x))", "One layer after another.", _call("layer", _o("…"))),
    "logits": _formula(
        "x Wᵀ", "How well each word of the vocabulary would follow.", _i("x"), _power("W", "T")
    ),
    "softmax": _formula(
        "softmax(logits)",
        "Probabilities of all words that could follow: they sum to 1.",
        _call("softmax", _i("logits")),
    ),
    "transformer": _formula(
        "softmax(Decoder(target, Encoder(source)) Wᵀ)",
        "Source and target so far in, the next word's probabilities out.",
        _call(
            "softmax", _row(_call("Decoder", _i("target"), _call("Encoder", _i("source"))), _power("W", "T"))
        ),
    ),
}
"""By key; the keys are what `Entry.formula` and the module tree name."""
