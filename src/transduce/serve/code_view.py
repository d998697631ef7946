"""The code that runs, beside the picture: the real source of a component, with its file and lines.

In:  a component's name. Out: its source, taken from the class that was imported, and coloured.
Does not know: models that were loaded. torch is loaded when something is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from transduce.serve.problems import Problem, problem_responses

__all__ = ["COMPONENTS", "router"]

router = APIRouter(prefix="/api/v1", tags=["code"])

COMPONENTS: dict[str, str] = {
    name: module
    for module, names in {
        "model.transformer": "Transformer Memory",
        "model.embedding": "Embedding OutputProjection",
        "model.position": "sinusoid_table SinusoidalPosition LearnedPosition RotaryPosition NoPosition",
        "model.masks": "padding_visible causal_visible target_visible",
        "model.attention": "explicit_attention fused_attention MultiHeadAttention KeysValues",
        "model.feed_forward": "FeedForward GatedFeedForward",
        "model.norm": "AddNorm final_norm",
        "model.layers": "EncoderLayer DecoderLayer",
        "model.encoder": "Encoder",
        "model.decoder": "Decoder",
        "model.cache": "LayerCache DecoderCache",
        "model.initialise": "initialise",
        "search.scores": "log_probabilities top_tokens best_attainable",
        "search.penalty": "length_penalty",
        "search.greedy": "greedy_search",
        "search.beam": "beam_search",
        "search.sample": "sample_search",
        "lens.decoding": "watch_search",
        "lens.interventions": "Interventions",
        "lens.logit_lens": "logit_lens",
    }.items()
    for name in names.split()
}
"""Name of a class or function → the module below `transduce` that holds it."""


@router.get("/code", responses=problem_responses(500, 501))
async def components() -> Response:
    """Every component whose code can be read here."""

    def listed() -> list[dict[str, Any]]:
        return [{"name": name, **_place(name)} for name in COMPONENTS]

    return JSONResponse({"components": await run_in_threadpool(listed)})


@router.get("/code/{component}", responses=problem_responses(404, 500, 501))
async def code(component: str) -> Response:
    """One component's source: the lines that run, their file, their hash, and the same in colour."""
    if component not in COMPONENTS:
        known = ", ".join(COMPONENTS)
        raise Problem(
            404, "No such component", f"there is no {component[:60]!r}; there are {known}", "no-component"
        )
    return JSONResponse(await run_in_threadpool(_described, component))


def _described(name: str) -> dict[str, Any]:
    found = _component(name)
    source = _source_of(found)
    return {
        "component": name,
        "kind": "class" if inspect.isclass(found) else "function",
        **source.to_dict(),
        "sha256": source.sha256,
        "language": "python",
        "source": source.text,
        "html": _coloured(source.text),
    }


def _place(name: str) -> dict[str, Any]:
    place: dict[str, Any] = _source_of(_component(name)).to_dict()
    return place


def _source_of(component: Any) -> Any:
    from transduce.lens.source_code import source_of

    return source_of(component)


def _component(name: str) -> type | Callable[..., Any]:
    """The class or function itself, imported from where the model imports it."""
    try:
        found: type | Callable[..., Any] = getattr(import_module(f"transduce.{COMPONENTS[name]}"), name)
    except ImportError as error:
        detail = f"{name} needs {error.name}, which is not installed here: pip install 'transduce[train]'"
        raise Problem(501, "The code cannot be imported", detail, "lens-unavailable") from error
    return found


@lru_cache(maxsize=128)
def _coloured(text: str) -> str:
    """Pygments' spans with its short class names, without a wrapper."""
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.python import PythonLexer

    coloured: str = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return coloured
