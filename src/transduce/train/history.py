"""A run's log, read back: what was measured, and when a value was first reached."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.errors import DataError

__all__ = ["LOWER_IS_BETTER", "reaches", "read_events", "when_reached"]

LOWER_IS_BETTER = frozenset({"loss", "nll", "perplexity"})
"""Figures that fall as a model gets better; all others rise."""


def read_events(directory: Path) -> list[dict[str, Any]]:
    """The events of the run in `directory`, oldest first; a line that a kill cut short is left out.

    Raises:
        DataError: there is no log.
    """
    file = directory / "log.jsonl"
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise DataError(f"{directory} has no log ({error}): give the directory of a run") from error
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def reaches(metric: str, figure: float, value: float) -> bool:
    """Whether `figure` is at least as good as `value`."""
    return figure <= value if metric in LOWER_IS_BETTER else figure >= value


def when_reached(
    events: Iterable[Mapping[str, Any]], metric: str, values: Sequence[float]
) -> dict[float, float | None]:
    """Seconds of training after which a validation first showed each of `values`; None for never.

    Training time: validations count, interruptions do not. The model was as good a little earlier,
    since it is looked at only every `train.validate_every` updates.

    Args:
        events: a run's log.
        metric: a figure of its validations: `bleu`, `chrf`, `loss`, ….
        values: to look for.

    Raises:
        DataError: no validation shows this metric.
    """
    validations = [event for event in events if event.get("event") == "validate"]
    told = [event for event in validations if event.get(metric) is not None]
    if not told:
        known = sorted(
            {name for event in validations for name in event} - {"event", "time", "step", "seconds"}
        )
        raise DataError(
            f"no validation of the run shows {metric!r}: "
            + (f"there are {', '.join(known)}" if known else "there was none yet")
        )
    return {
        value: next((e["seconds"] for e in told if reaches(metric, e[metric], value)), None)
        for value in values
    }
