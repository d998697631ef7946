"""Progress of work that goes through many items: a bar with an ETA on a terminal, lines elsewhere.

Always on stderr: stdout belongs to results.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["PLAIN_SECONDS", "redraws", "stderr_console", "track"]

PLAIN_SECONDS = 10.0
"""Between two lines where no terminal redraws them."""


def stderr_console() -> Console:
    """The console that all messages go to.

    Work does not stop because nobody can hear of it any more: a closed pipe or a full disk behind
    stderr is passed over.
    """
    return Console(file=cast("TextIO", _Unheard(sys.stderr)), highlight=False)


class _Unheard:
    """A stream; what it cannot take is left unsaid."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def redraws(console: Console) -> bool:
    """Whether a line can be drawn over: not in a file, a pipe or a dumb terminal."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def track(
    console: Console, title: str, unit: str, total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many items are done.

    Args:
        console: where to show it.
        title: what is being done, such as "reading".
        unit: what is counted, such as "pairs".
        total: how many there will be; None when unknown.
    """
    if redraws(console):
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(title, total=total)
            yield lambda done: progress.update(task, completed=done)
        return
    yield _plain(console, title, unit, total)


def _plain(console: Console, title: str, unit: str, total: int | None) -> Callable[[int], None]:
    """A line every ten seconds; nothing at all for short work."""
    started = last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < PLAIN_SECONDS:
            return
        last = now
        rate = done / (now - started)
        left = f", {round((total - done) / rate):,} s left" if total and rate else ""
        of = f" of {total:,}" if total else ""
        console.print(f"{title}: {done:,}{of} {unit}, {rate:,.0f}/s{left}", markup=False, soft_wrap=True)

    return tell
