"""Ctrl-C and SIGTERM as a wish: the update in hand is finished and saved first; a second one breaks off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["StopWish", "stop_signals"]


class StopWish:
    """Set by a signal, read by the loop."""

    stop = False
    name = ""


@contextmanager
def stop_signals() -> Iterator[StopWish]:
    """Turn the first SIGINT or SIGTERM into a wish; a second one acts as usual."""
    wish = StopWish()
    usual: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        wish.stop, wish.name = True, signal.Signals(number).name
        for known, handler in usual.items():
            signal.signal(known, handler)

    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            usual[number] = signal.signal(number, note)
    except ValueError:  # not the main thread: a notebook or server handles signals itself
        pass
    try:
        yield wish
    finally:
        for known, handler in usual.items():
            signal.signal(known, handler)
