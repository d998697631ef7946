"""Lines in, lines out: the same number, in the same order, in constant memory, as soon as they are ready.

A reader thread keeps a window of lines at hand. The translator takes what is there, up to a whole
window, so that a person who types one line gets one line back and a file of millions is read in
windows large enough to sort by length. Output is written in the order of the input.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from transduce.translate.translator import Translation, Translator

__all__ = ["WINDOW_LINES", "translate_lines", "windows"]

WINDOW_LINES: Final = 1024
_PATIENCE: Final = 0.02  # seconds without a new line after which a window is closed
_WINDOW_CHARACTERS: Final = 1_000_000  # a window of very long lines is closed earlier


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    *,
    window_lines: int = WINDOW_LINES,
    patient: bool = False,
    skip: int = 0,
    progress: Callable[[int], None] | None = None,
    **options: object,
) -> Iterator[tuple[str, Translation]]:
    """Yield each line with its translation, in order.

    Args:
        translator: does the work.
        lines: read in a thread of its own, at most a window ahead.
        window_lines: most lines translated together.
        patient: wait for whole windows, so that the same lines always make the same windows.
        skip: lines at the beginning that are done already; their windows are cut as if they were not.
        progress: told the number of lines done after each window.
        options: for `Translator.translate`.

    Raises:
        DataError, SearchError: whatever `lines` or the translator raises, after what came before it.
    """
    done = 0
    for window in windows(lines, window_lines, patient=patient):
        if done + len(window) > skip:
            # All of the window: what is translated together must not depend on where it was interrupted.
            pairs = zip(window, translator.translate(window, **options), strict=True)  # type: ignore[arg-type]
            yield from islice(pairs, max(0, skip - done), None)
        done += len(window)
        if progress is not None:
            progress(done)


def windows(lines: Iterable[str], most: int, *, patient: bool = False) -> Iterator[list[str]]:
    """Lists of consecutive lines: whatever has arrived, at least one line, at most `most`.

    With `patient`, a window is closed only when it is full or the lines are over.
    """
    patience = None if patient else _PATIENCE
    arrived: queue.Queue[str | _End] = queue.Queue(maxsize=most)
    stop = threading.Event()
    thread = threading.Thread(target=_read, args=(lines, arrived, stop), daemon=True)
    thread.start()
    try:
        end: _End | None = None
        while end is None:
            window: list[str] = []
            size = 0
            item = arrived.get()
            while not isinstance(item, _End):
                window.append(item)
                size += len(item)
                if len(window) >= most or size >= _WINDOW_CHARACTERS:
                    break
                try:
                    item = arrived.get(timeout=patience)
                except queue.Empty:
                    break
            else:
                end = item
            if window:
                yield window
        if end.error is not None:
            raise end.error
    finally:
        stop.set()


class _End:
    """The last thing in the queue: the lines are over, or reading them failed."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _read(lines: Iterable[str], arrived: queue.Queue[str | _End], stop: threading.Event) -> None:
    """Move lines into the queue until they end, fail, or nobody wants them any more."""
    error: BaseException | None = None
    try:
        for line in lines:
            while not stop.is_set():
                try:
                    arrived.put(line, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if stop.is_set():
                return
    except BaseException as problem:
        error = problem
    while not stop.is_set():
        try:
            arrived.put(_End(error), timeout=0.2)
            return
        except queue.Full:
            continue
