"""The model's card: what it is, what it learnt from, how good it is, how it was made."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from transduce import __version__
from transduce.evaluate.scores import Scores
from transduce.recipe import Recipe
from transduce.train.log import format_seconds

if TYPE_CHECKING:
    from transduce.train.loop import Outcome

__all__ = ["made_with", "model_card"]

_AVERAGES = {
    "last": "mean of the checkpoints of steps",
    "best": "mean of the checkpoints of steps",
    "ema": "moving average of the weights at step",
    "none": "of the checkpoint of step",
}
_PACKAGES = ("torch", "sentencepiece", "numpy", "sacrebleu", "safetensors")


def made_with() -> dict[str, str]:
    """Versions that a run depends on."""
    found = {"transduce": __version__, "python": platform.python_version(), "platform": sys.platform}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def model_card(
    recipe: Recipe,
    num_parameters: int,
    facts: Sequence[str],
    outcome: Outcome,
    averaged_steps: Sequence[str],
    scores: Scores,
) -> str:
    """Write the card in Markdown.

    Args:
        recipe: resolved.
        num_parameters: trained numbers, a tied matrix counted once.
        facts: sentences about the text.
        outcome: how training ended.
        averaged_steps: which checkpoints the weights come from.
        scores: of the finished model, on the validation text.
    """
    model, state, data = recipe.model, outcome.state, recipe.data
    languages = f"{data.source_language or 'source'} → {data.target_language or 'target'}"
    tokens = state.num_source_tokens + state.num_target_tokens
    versions = ", ".join(f"{name} {value}" for name, value in recipe.made_with.items())
    lines = [
        f"# Translation model {languages}",
        "",
        recipe.description,
        "",
        "## Model",
        "",
        f"- {num_parameters:,} parameters: {model.num_encoder_layers} + {model.num_decoder_layers} layers, "
        f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads, {model.norm}-norm",
        f"- vocabulary: {model.source_vocab_size:,} source and {model.target_vocab_size:,} target pieces"
        f" ({'joint' if recipe.tokenizer.joint else 'separate'} {recipe.tokenizer.kind})",
        "",
        "## Text",
        "",
        *(f"- {fact}" for fact in facts),
        "",
        "## Training",
        "",
        f"- ended: {outcome.reason}",
        f"- {state.step:,} updates, {tokens:,} source and target tokens, {format_seconds(state.seconds)}",
        f"- weights: {_AVERAGES[recipe.train.average]} {', '.join(averaged_steps)}",
        f"- made with {versions}",
        "",
        "## Scores on the validation text",
        "",
        "```",
        scores.render(),
        "```",
        "",
        f"Search: {recipe.search.method}, beam_size {recipe.search.beam_size}, length_penalty "
        f"{recipe.search.length_penalty} with alpha {recipe.search.alpha}.",
        "",
    ]
    return "\n".join(lines)
