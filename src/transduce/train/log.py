"""What a run tells: `log.jsonl` for programs, TensorBoard for curves, a display for people.

Events are plain dictionaries of numbers, with the same names for all three; docs/training.md has
every one, with its unit:

    train      step, epoch, loss, nll, perplexity, learning_rate, grad_norm, tokens_per_second, …
    validate   step, loss, nll, perplexity, and what the validators return (bleu, chrf, …)
    skip       step, epoch, what (loss or gradient was not finite), in_a_row, lines of the text
    rollback   step, to (the step whose weights are taken), rate_scale
    crash      step, error, trace
    stop       step, reason

A figure that is not finite is `null` in `log.jsonl`: JSON has no word for it.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from transduce.errors import CheckpointError
from transduce.files import what_to_do, write_atomic, written_or
from transduce.progress import PLAIN_SECONDS, redraws

__all__ = [
    "CLOCKED_FIGURES",
    "Display",
    "Fields",
    "LiveDisplay",
    "PlainDisplay",
    "RunLog",
    "format_seconds",
    "make_display",
]

CLOCKED_FIGURES = frozenset(
    {"time", "seconds", "tokens_per_second", "mfu", "eta_seconds"}
    | {"memory_mb", "gpu_memory_mb", "energy_joules"}
)
"""Figures of events in which two equal runs differ: clock and meters."""

Fields = Mapping[str, Any]
"""An event's figures, by name: numbers, text, lists of numbers; `step` is always there."""


class Display(Protocol):
    """Shows a run's progress; takes the same events as the log."""

    def event(self, kind: str, fields: Fields) -> None:
        """One event."""

    def message(self, text: str) -> None:
        """One sentence that should stay readable."""

    def close(self) -> None:
        """Leave the screen tidy."""


class RunLog:
    """Appends events to `log.jsonl` and TensorBoard, and hands them to the display."""

    def __init__(
        self, directory: Path, display: Display, *, from_step: int = 0, tensorboard: bool = True
    ) -> None:
        """Open the log of a run that stands at `from_step`; later events of a lost end are removed.

        Raises:
            CheckpointError: `log.jsonl` cannot be written; so do events. TensorBoard's curves say the
                same, so a run goes on without them.
        """
        self.display = display
        self._file = directory / "log.jsonl"
        with self._written():
            self._told = _forget_after(self._file, from_step)
            self._stream = self._file.open("a", encoding="utf-8")
        self._writer: _Writer | None = None
        self._usual_hook = threading.excepthook
        threading.excepthook = self._thread_failed
        if tensorboard:
            with self._curves():
                self._writer = _tensorboard_writer(directory / "tensorboard", from_step)
                if self._writer is None:
                    display.message(
                        f"TensorBoard is not installed (`pip install tensorboard`); "
                        f"{self._file} has all figures"
                    )

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # what a full disk did not take is told already
            self._stream.close()
        with self._curves():
            if self._writer is not None:
                self._writer.close()
        threading.excepthook = self._usual_hook
        self.display.close()

    def event(self, kind: str, fields: Fields) -> None:
        """Record one event everywhere; one that was recorded before a kill is only shown again."""
        line = {"event": kind, **fields, "time": round(time.time(), 3)}
        if _identity(line) not in self._told:
            line = {name: None if _not_finite(value) else value for name, value in line.items()}
            with self._written():
                self._stream.write(json.dumps(line, allow_nan=False) + "\n")
                self._stream.flush()
            with self._curves():
                self._draw(kind, fields)
        self.display.event(kind, fields)

    def flush(self) -> None:
        """Hand everything to the system: TensorBoard's writer keeps points back for minutes."""
        with self._curves():
            if self._writer is not None:
                self._writer.flush()

    def _draw(self, kind: str, fields: Fields) -> None:
        """Points of TensorBoard's curves."""
        if self._writer is not None:
            for name, value in fields.items():
                if name != "step" and isinstance(value, int | float):
                    self._writer.add_scalar(f"{kind}/{name}", value, int(fields["step"]))

    def _written(self) -> contextlib.AbstractContextManager[None]:
        return written_or(
            CheckpointError, f"the log {self._file} could not be written (checkpoints are whole)"
        )

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """TensorBoard writes in a thread of its own, and tells the next call (`_curves`) what went wrong."""
        if not isinstance(failure.exc_value, OSError):
            self._usual_hook(failure)

    @contextlib.contextmanager
    def _curves(self) -> Iterator[None]:
        """Go on without TensorBoard when it cannot write, and say so once."""
        try:
            yield
        except OSError as error:
            self._writer = None
            self.display.message(
                f"no more curves for TensorBoard ({what_to_do(error)}); log.jsonl has all of them"
            )


class PlainDisplay:
    """Lines for a file, a pipe or a terminal that cannot redraw."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = 0.0

    def event(self, kind: str, fields: Fields) -> None:
        """Training lines come at most every ten seconds, all others at once."""
        now = time.monotonic()
        if kind == "train" and now - self._last < PLAIN_SECONDS:
            return
        self._last = now
        self.message(_sentence(kind, fields))

    def message(self, text: str) -> None:
        """Print it."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing to tidy."""


class LiveDisplay:
    """Three lines that redraw themselves; validations and messages scroll above them.

    Each line fits 80 columns; on a narrower terminal its end is cut, so that drawing over it works.
    """

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._score = ""
        self._live.start()

    def event(self, kind: str, fields: Fields) -> None:
        """Redraw, or scroll."""
        if kind != "train":
            if kind == "validate":
                self._score = _score(fields)
            self.message(_sentence(kind, fields))
            return
        done = float(fields.get("done", 0.0))
        last = Table.grid(padding=(0, 2))
        last.add_row(
            ProgressBar(total=1.0, completed=done, width=24),
            _line([f"{done:4.0%}", _time_left(fields), self._score]),
        )
        lines = (_line(_learning(fields)), _line(_working(fields)))
        self._live.update(Group(*lines, last), refresh=True)

    def message(self, text: str) -> None:
        """Print above the lines."""
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Stop redrawing."""
        self._live.stop()


def make_display(console: Console) -> Display:
    """The live display on a terminal, plain lines elsewhere."""
    return LiveDisplay(console) if redraws(console) else PlainDisplay(console)


def format_seconds(seconds: float) -> str:
    """`3 h 05 min`, `12 min 30 s`, `45 s`."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _sentence(kind: str, fields: Fields) -> str:
    """An event in words."""
    if kind == "train":
        parts = [*_learning(fields), *_working(fields), _time_left(fields)]
        return "  ".join(part for part in parts if part)
    if kind in _WORDS:
        return _WORDS[kind](fields)
    numbers = "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in fields.items()
        if name not in {"step", "seconds"}
    )
    after = f"  after {format_seconds(float(fields['seconds']))}" if "seconds" in fields else ""
    return f"step {fields['step']:,}  {kind}: {numbers}{after}"


def _learning(fields: Fields) -> list[str]:
    """What a training event says of the model."""
    skipped = f"{fields['skipped']} skipped" if fields.get("skipped") else ""
    return [
        f"step {fields['step']:,}",
        f"epoch {fields['epoch']}",
        f"loss {fields['loss']:.3f}",
        f"ppl {fields['perplexity']:.1f}",
        f"gradient {fields['grad_norm']:.2f}",
        skipped,
    ]


def _working(fields: Fields) -> list[str]:
    """What a training event says of the machine."""
    return [
        f"{fields['tokens_per_second']:,.0f} tokens/s",
        f"{fields['mfu']:.0%} of peak" if "mfu" in fields else "",
        f"{fields['padding']:.0%} padding",
        f"{fields['memory_mb']:,} MB",
        f"rate {fields['learning_rate']:.1e}",
    ]


def _time_left(fields: Fields) -> str:
    """Until the limit that comes first, if the run goes on as it did."""
    return f"{format_seconds(float(fields['eta_seconds']))} left" if "eta_seconds" in fields else ""


def _score(fields: Fields) -> str:
    """The validation in one figure."""
    return f"BLEU {fields['bleu']:.1f}" if "bleu" in fields else f"validation loss {fields['loss']:.3f}"


def _line(parts: list[str]) -> Text:
    return Text("  ".join(part for part in parts if part), no_wrap=True, overflow="ellipsis")


def _skip_sentence(fields: Fields) -> str:
    where = "lines" if "lines" in fields else "rows"
    pairs: list[int] = fields[where]
    first = ", ".join(map(str, pairs[:3])) + (", …" if len(pairs) > 3 else "")
    of = "the training text" if where == "lines" else "the token store"
    return (
        f"step {fields['step']}  skipped, {fields['in_a_row']} in a row: the {fields['what']} is not finite; "
        f"it was made from {len(pairs):,} pairs ({where} {first} of {of}; log.jsonl has all)"
    )


def _rollback_sentence(fields: Fields) -> str:
    to = f"the weights of step {fields['to']}" if fields["to"] else "the initial weights"
    return (
        f"step {fields['step']}  went back to {to}; goes on after the text that failed, "
        f"at {fields['rate_scale']:.3g} of the rate"
    )


_WORDS: dict[str, Callable[[Fields], str]] = {
    "skip": _skip_sentence,
    "rollback": _rollback_sentence,
    "crash": lambda fields: f"step {fields['step']}  broke off: {fields['error']}",
}


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _identity(event: Fields) -> tuple[object, ...]:
    """What makes two lines the same event: kind, step, and why training stopped."""
    return event["event"], int(event["step"]), event.get("reason")


def _forget_after(file: Path, step: int) -> set[tuple[object, ...]]:
    """Drop the events that a continued run will make again, and a last line that a kill cut short.

    Returns the identities of those of `step` itself: training may have been killed after it was saved.
    """
    told: set[tuple[object, ...]] = set()
    if not file.exists():
        return told
    kept = []
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                event = json.loads(line)
                identity, at = _identity(event), int(event["step"])
            except (ValueError, KeyError, TypeError):
                continue
            if at <= step and line.endswith("\n"):
                kept.append(line)
                if at == step:
                    told.add(identity)
    write_atomic(file, "".join(kept))
    return told


class _Writer(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def _tensorboard_writer(directory: Path, from_step: int) -> _Writer | None:
    """TensorBoard's writer, where TensorBoard is installed."""
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        return None
    # Also from 0: a run killed before its first checkpoint has drawn points that will be drawn again.
    writer: _Writer = SummaryWriter(str(directory), purge_step=from_step + 1)
    return writer
