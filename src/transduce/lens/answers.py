"""What a page asks a trace, answered in plain dictionaries and arrays: the page's very JSON.

In:  a `Trace` or a `Lens`. Out: dictionaries for JSON, `Arrays`.
Does not know: how they travel. The server sends them; a saved page holds them.
Every axis carries its labels: row r of a matrix is token r of the side that is named beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from transduce.lens.formulas import FORMULAS
from transduce.lens.interventions import AttentionKind, num_layers
from transduce.lens.lens import Lens
from transduce.lens.logit_lens import note
from transduce.lens.module_tree import configuration, module_tree
from transduce.lens.overview import STATISTICS
from transduce.lens.steps import StepFigures
from transduce.lens.tensors import Arrays
from transduce.lens.tokens import Token, Vocabulary
from transduce.lens.traces import Trace
from transduce.search.config import SearchConfig
from transduce.translate.alignment import pharaoh
from transduce.translate.alignment_heads import HeadAlignment

__all__ = [
    "CAUTION",
    "describe_model",
    "describe_trace",
    "head_arrays",
    "lens_rows",
    "logits_array",
    "occlusion_array",
    "overview_arrays",
    "search_words",
    "step_table",
    "walk_arrays",
]

_ALTERNATIVES = 5
CAUTION = "Attention is not proof of alignment."
_SEARCH = {"beam": "beam_size", "n_best": "n_best", "length_penalty": "alpha"}


def describe_model(lens: Lens) -> dict[str, Any]:
    """Configuration, parts, sizes, formulas."""
    config = lens.config
    kinds: tuple[AttentionKind, ...] = ("enc_self", "dec_self", "cross")
    return {
        "name": lens.name,
        "trained": lens.trained,
        "available": True,
        "note": None if lens.trained else "An untrained model: its numbers are real, its words mean nothing.",
        "languages": dict(zip(("source", "target"), lens.translator.languages, strict=True)),
        "config": configuration(lens.body),
        "num_parameters": lens.body.num_parameters,
        "heads": {kind: {"layers": num_layers(config, kind), "heads": config.num_heads} for kind in kinds},
        "search": search_words(lens.translator.config),
        "max_len": lens.translator.max_len,
        "alignment": _heads(lens.heads),
        "modules": module_tree(lens.body),
        "formulas": {key: asdict(formula) for key, formula in FORMULAS.items()},
    }


def search_words(config: SearchConfig) -> dict[str, Any]:
    """Search settings in the page's words."""
    mode = "sample" if config.method == "sample" else "greedy" if config.beam_size == 1 else "beam"
    return {
        "mode": mode,
        **{word: getattr(config, name) for word, name in _SEARCH.items()},
        "penalty_kind": config.length_penalty,
        "temperature": config.temperature,
        "top_k": config.top_k,
        "top_p": config.top_p,
        "seed": config.seed,
    }


def describe_trace(trace: Trace, trace_id: str = "", parent: str | None = None) -> dict[str, Any]:
    """Tokens, translation, alignment, one line a step."""
    best = trace.hypothesis
    count = max(1, len(best.token_log_probs))
    return {
        "id": trace_id,
        "parent": parent,
        "model": trace.lens.name,
        "trained": trace.lens.trained,
        "text": trace.text,
        "translation": trace.translation,
        "score": best.score,
        "confidence": math.exp(best.log_prob / count),
        "finished": best.finished,
        "src": [token.to_dict() for token in trace.source],
        "tgt": [token.to_dict() for token in trace.target],
        "rows": {"encoder": len(trace.source), "decoder": trace.num_rows},
        "hypotheses": _hypotheses(trace),
        "decode": search_words(trace.config),
        "steps": [_step_line(trace, row, figures) for row, figures in enumerate(trace.steps(1))],
        "alignment": _alignment(trace),
        "flags": [] if best.finished else ["truncated"],
        "interventions": asdict(trace.interventions),
        "force": list(trace.forced),
        "difference": None if trace.parent is None else _difference(trace.parent, trace),
        "timing": {f"{name}_ms": round(value, 3) for name, value in asdict(trace.timing).items()},
        "bytes": trace.num_bytes,
        "limits_applied": list(trace.limits_applied),
    }


def head_arrays(trace: Trace, kind: AttentionKind, layer: int, head: int) -> Arrays:
    """Scores, mask, weights, q, k and v of one head.

    Raises:
        ModelError: there is no such head.
    """
    seen = trace.head(kind, layer, head)
    sides = _sides(kind)
    return Arrays(
        {
            "scores": _numbers(seen.scores),
            "mask": seen.mask.numpy().astype(np.uint8),
            "weights": _numbers(seen.weights),
            "q": _numbers(seen.q),
            "k": _numbers(seen.k),
            "v": _numbers(seen.v),
            "q_tokens": _ids(seen.q_tokens),
            "k_tokens": _ids(seen.k_tokens),
        },
        {
            "kind": kind,
            "layer": layer,
            "head": head,
            **sides,
            "tau": seen.temperature,
            "d_k": seen.q.shape[1],
            "ablated": seen.ablated,
        },
    )


def overview_arrays(trace: Trace, kind: AttentionKind) -> Arrays:
    """Thumbnails and figures of all heads of a kind."""
    seen, (queries, keys) = trace.overview(kind), trace.tokens_of(kind)
    return Arrays(
        {
            "thumb": seen.thumbnails.numpy(),
            "stats": _numbers(seen.statistics),
            "q_tokens": _ids(queries),
            "k_tokens": _ids(keys),
        },
        {"kind": kind, **_sides(kind), "stats": ",".join(STATISTICS)},
    )


def logits_array(trace: Trace, step: int | None, node: int | None) -> Arrays:
    """The whole vocabulary's logits at a step, or after a node of the tree.

    Raises:
        IndexError: there is no such step or node.
    """
    reads = None if node is not None else trace.num_rows - 1 if step is None else step
    return Arrays(
        {"logits": _numbers(trace.logits(step, node))}, {"step": reads, "node": node, "reads": reads}
    )


def walk_arrays(trace: Trace, names: Sequence[str]) -> Arrays:
    """Tensors of the pass by name, in the shapes that the walk tells.

    Raises:
        NoSuchPart: the pass makes no tensor of that name.
    """
    kinds = {"bool": np.uint8, "int64": np.int32}
    arrays = {name: tensor.cpu().numpy() for name, tensor in trace.tensors(names).items()}
    return Arrays({name: a.astype(kinds.get(a.dtype.name, np.float32)) for name, a in arrays.items()})


def occlusion_array(trace: Trace) -> Arrays:
    """How much each source token did for each output token; row r predicts token r + 1."""
    queries, keys = trace.tokens_of("cross")
    return Arrays(
        {"drop": _numbers(trace.occlusion()), "q_tokens": _ids(queries), "k_tokens": _ids(keys)},
        {"q_side": "tgt", "k_side": "src", "unit": "nats"},
    )


def step_table(trace: Trace, k: int) -> dict[str, Any]:
    """What was expected at each step, the search's tree, and how its cache grew."""
    names = _names(trace)
    searched: list[dict[str, Any]] = [
        {"step": step, "nodes": [], "cache": cache.to_dict()}
        for step, cache in enumerate(trace.watched.caches)
    ]
    for node in trace.watched.nodes:
        named = names.named(node.token)
        searched[node.step]["nodes"].append(
            {
                "n": node.n,
                "parent": node.parent,
                "token": node.token,
                "piece": named["piece"],
                "text": named["text"],
                "kind": named["kind"],
                "logp": node.logp,
                "total": node.total,
                "score": node.score,
                "state": node.state,
            }
        )
    return {
        "k": k,
        "eos_id": trace.lens.ids.eos_id,
        "steps": [_step(names, row, figures) for row, figures in enumerate(trace.steps(k))],
        "search": searched,
        "chosen_nodes": trace.chosen_nodes,
        "beam": trace.config.beam_size,
        "penalty": {"kind": trace.config.length_penalty, "alpha": trace.config.alpha},
    }


def lens_rows(trace: Trace, layers: Sequence[int], k: int) -> dict[str, Any]:
    """What the decoder would have said after each of some layers.

    Raises:
        ModelError: there is no such layer.
    """
    names = _names(trace)
    return {
        "approximate": True,
        "note": note(trace.lens.body),
        "layers": [
            {
                "layer": layer,
                "rows": [_step(names, row.row, row.figures) for row in trace.logit_lens(layer, k)],
            }
            for layer in layers
        ],
    }


def _names(trace: Trace) -> Vocabulary:
    return Vocabulary(trace.lens.translator.tokenizers[1])


def _sides(kind: str) -> dict[str, str]:
    return {
        "q_side": "src" if kind == "enc_self" else "tgt",
        "k_side": "tgt" if kind == "dec_self" else "src",
    }


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return cast("NDArray[np.float32]", tensor.float().contiguous().numpy())


def _ids(tokens: Sequence[Token]) -> NDArray[np.int32]:
    return np.array([token.id for token in tokens], np.int32)


def _heads(heads: HeadAlignment) -> dict[str, Any]:
    return {**asdict(heads), "measured": heads.agreement is not None, "note": CAUTION}


def _alignment(trace: Trace) -> dict[str, Any]:
    found = trace.alignment
    heads = _heads(found.heads)
    return {
        "pairs": found.pairs,
        "word_pairs": found.word_pairs,
        "pharaoh": found.pharaoh,
        "token_pharaoh": pharaoh((s, t - 1) for s, t in found.pairs),
        "words": {
            "source": [word.text for word in trace.source_words],
            "target": [word.text for word in trace.target_words],
        },
        **{name: heads[name] for name in ("heads", "row", "agreement", "measured", "note")},
    }


def _hypotheses(trace: Trace) -> list[dict[str, Any]]:
    """Each text once, best first: what the search returned, then what else it had finished."""
    tokenizer = trace.lens.translator.tokenizers[1]
    found: dict[str, dict[str, Any]] = {}
    most = max(_ALTERNATIVES, len(trace.hypotheses))
    for hypothesis in (*trace.hypotheses, *trace.watched.endings()):
        text = tokenizer.decode(hypothesis.ids)
        found.setdefault(
            text,
            {
                "rank": len(found),
                "text": text,
                "score": hypothesis.score,
                "log_prob": hypothesis.log_prob,
                "finished": hypothesis.finished,
                "ids": list(hypothesis.ids),
                "pieces": tokenizer.pieces(hypothesis.ids),
            },
        )
    return list(found.values())[:most]


def _step_line(trace: Trace, row: int, figures: StepFigures) -> dict[str, Any]:
    chosen = figures.chosen
    named = trace.target[row + 1] if chosen is not None else None
    return {
        "step": row,
        "reads": row,
        "predicts": row + 1,
        "id": chosen.id if chosen else None,
        "text": named.text if named else None,
        "logp": chosen.logp if chosen else None,
        "probability": math.exp(chosen.logp) if chosen else None,
        "rank": chosen.rank if chosen else None,
        "entropy": figures.entropy,
    }


def _step(names: Vocabulary, row: int, figures: StepFigures) -> dict[str, Any]:
    chosen = figures.chosen
    return {
        "step": row,
        "row": row,
        "reads": row,
        "predicts": row + 1,
        "chosen": {**asdict(chosen), **names.named(chosen.id)} if chosen else None,
        "top": [{**names.named(id_), "logit": logit, "logp": logp} for id_, logit, logp in figures.top],
        "logsumexp": figures.logsumexp,
        "entropy": figures.entropy,
        "rest": figures.rest,
    }


def _difference(before: Trace, after: Trace) -> dict[str, Any]:
    """What a what-if changed: the outputs, and what the changed model thinks of the old one."""
    now = before.scored(after.interventions)
    then = [step.chosen.logp for step in before.steps(1) if step.chosen is not None]
    old, new = ([token.id for token in trace.target] for trace in (before, after))
    first = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    return {
        "same": old == new,
        "text_before": before.translation,
        "text_after": after.translation,
        "score_before": before.hypothesis.score,
        "score_after": after.hypothesis.score,
        "first_difference": None if old == new else first,
        "parent_log_prob": sum(then),
        "log_prob_now": sum(now),
        "tokens": [
            {"i": token.i, "id": token.id, "text": token.text, "logp_before": a, "logp_now": b}
            for token, a, b in zip(before.target[1:], then, now, strict=True)
        ],
    }
