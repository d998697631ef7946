"""The model's card: what it is, what it learnt from, how good it is, how it was made."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from transduce import __version__
from transduce.evaluate.scores import Scores
from transduce.recipe import Recipe
from transduce.train.history import LOWER_IS_BETTER, reaches, when_reached
from transduce.train.log import format_seconds

if TYPE_CHECKING:
    from transduce.train.checkpoint import RunState
    from transduce.train.loop import Outcome

__all__ = ["made_with", "model_card", "training_facts"]

_AVERAGES = {
    "last": "mean of the checkpoints of steps",
    "best": "mean of the checkpoints of steps",
    "ema": "moving average of the weights at step",
    "none": "of the checkpoint of step",
}
_VALUES_TOLD = 4  # that BLEU passed on the way, counted from the best
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


def _troubles(state: RunState) -> list[str]:
    """What went wrong on the way, if anything did."""
    lines = []
    if state.num_skipped:
        lines.append(
            f"- {state.num_skipped:,} updates were left out because the loss or gradient was not finite; "
            f"log.jsonl of the run names their text"
        )
    for rollback in state.rollbacks:
        to = f"the weights of step {rollback.to:,}" if rollback.to else "the initial weights"
        lines.append(f"- at step {rollback.step:,} training went back to {to} and on with a lower rate")
    if state.rollbacks:
        lines.append(
            f"- {state.num_lost:,} updates were lost by it; the rate ended at {state.rate_scale:.3g} of the "
            f"schedule's"
        )
    return lines


def model_card(
    recipe: Recipe,
    num_parameters: int,
    facts: Sequence[str],
    outcome: Outcome,
    averaged_steps: Sequence[str],
    scores: Scores,
    events: Sequence[Mapping[str, Any]],
) -> str:
    """Write the card in Markdown.

    Args:
        recipe: resolved.
        num_parameters: trained numbers, a tied matrix counted once.
        facts: sentences about the text.
        outcome: how training ended.
        averaged_steps: which checkpoints the weights come from.
        scores: of the finished model, on the validation text.
        events: the run's log.
    """
    model, data = recipe.model, recipe.data
    languages = f"{data.source_language or 'source'} → {data.target_language or 'target'}"
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
        *(f"- {line}" for line in training_facts(outcome.state, events)),
        *_troubles(outcome.state),
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


def training_facts(state: RunState, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """What training reached, when, and at what cost; a sentence each, nothing that was not measured."""
    tokens = state.num_source_tokens + state.num_target_tokens
    facts = [
        f"{state.step:,} updates, {tokens:,} source and target tokens, {format_seconds(state.seconds)}"
        f" (validations: {format_seconds(state.seconds - state.update_seconds)})"
    ]
    if state.machines:
        facts.append(f"on {', then '.join(state.machines)}; at most {state.peak_memory_mb:,} MB of memory")
    if state.flops and state.update_seconds:
        facts.append(_arithmetic(state))
    if state.energy_source:
        facts.append(
            f"{state.energy_joules / 3600:,.1f} Wh of energy, as the machine's {state.energy_source} told"
            f" (whatever else ran on it included)"
        )
    else:
        facts.append("energy: the machine does not tell")
    metric = "bleu" if any("bleu" in event for event in events) else "loss"
    return facts + _milestones(metric, events)


def _arithmetic(state: RunState) -> str:
    """FLOPs, their speed, and the share of the machine's peak."""
    speed = state.flops / state.update_seconds
    peak = state.peak_flops
    share = f", {speed / peak:.0%} of the measured peak of {peak / 1e9:,.1f}" if peak else ""
    return (
        f"{state.flops:.2e} model FLOPs (padding not counted), {speed / 1e9:,.1f} GFLOP/s in updates{share}"
    )


def _milestones(metric: str, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The best validation and, for BLEU, when the last whole steps on the way were passed."""
    shown = [e for e in events if e.get("event") == "validate" and e.get(metric) is not None]
    if not shown:
        return []
    choose = min if metric in LOWER_IS_BETTER else max
    best = choose(shown, key=lambda event: event[metric])
    name = "BLEU (greedy)" if metric == "bleu" else metric
    facts = [
        f"best validation: {name} {best[metric]:.4g} at step {best['step']:,}, "
        f"after {format_seconds(best['seconds'])}"
    ]
    values = [value for value in range(2, 100, 2) if reaches(metric, best[metric], value)]
    if metric == "bleu" and values:
        times = when_reached(events, metric, values[-_VALUES_TOLD:])
        told = ", ".join(f"{v} after {format_seconds(t)}" for v, t in times.items() if t is not None)
        facts.append(f"first validation with a {name} of {told}")
    return facts
