"""The lens: looks into a translation while the model makes it, and changes nothing.

Knows: model, search, text, the translator over our own network. Does not know: HTTP, training.

    trace = transduce.lens.trace(translator, "…")       tokens, translation, alignment
    trace.head("cross", layer, head)                    scores, mask, weights, queries, keys, values
    trace.steps(), trace.logits(step)                   what was expected at each step
    trace.shapes()                                      every tensor on the way
    trace.logit_lens(layer)                             what a lower layer would have said
    trace.what_if(…)                                    heads taken out, τ, masks, forced words

The names below are imported when first used: torch is loaded then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.lens.interventions import HeadName, Interventions, MaskChange, Temperature
    from transduce.lens.lens import Lens, LensLimits
    from transduce.lens.traces import Head, Trace
    from transduce.translate.translator import Translator

__all__ = [
    "Head",
    "HeadName",
    "Interventions",
    "Lens",
    "LensLimits",
    "MaskChange",
    "Temperature",
    "Trace",
    "trace",
]

_FILES = {
    "Head": "traces",
    "HeadName": "interventions",
    "Interventions": "interventions",
    "Lens": "lens",
    "LensLimits": "lens",
    "MaskChange": "interventions",
    "Temperature": "interventions",
    "Trace": "traces",
}


def trace(translator: Translator, text: str, *, target: str | None = None, **search: Any) -> Trace:
    """Translate a text and open the translation.

    Args:
        translator: over our own network: `transduce.load(…, engine="torch")`.
        text: one sentence or a few; it goes through the model as one.
        target: an output to look into instead of searching for one.
        search: any field of `SearchConfig`, such as beam_size=1.

    Raises:
        ModelError: the translator runs an export, or several models.
        DataError: there is no text, or too much of it.
        SearchError: an unknown setting, or settings that contradict each other.
    """
    from transduce.lens.lens import Lens

    lens = Lens(translator)
    return lens.trace(text, target=target, search=translator.check(**search))


def __getattr__(name: str) -> object:
    """Find a public name in the file that has it."""
    if name in _FILES:
        found: object = getattr(import_module(f"transduce.lens.{_FILES[name]}"), name)
        return found
    raise AttributeError(f"module 'transduce.lens' has no attribute {name!r}")
