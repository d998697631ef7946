"""Threads that share an update: each takes a part of the batch at a time, on cores of its own.

One operation spread over all cores waits at its end for the slowest of them, several hundred times
an update; a part on its own core waits once. With small models that is a fifth of the time, and far
more when the cores have other work as well (benchmarks/LOG.md). Python's lock does not matter: torch
lets go of it in every operation.

What is computed depends on the parts, never on which thread took which, nor on how many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

__all__ = ["Workers", "choose_num_workers"]

_LEAST_TOKENS = 1024  # of a part: with fewer, matrix products are too small to keep a core busy

Item = TypeVar("Item")
Result = TypeVar("Result")


def choose_num_workers(wanted: int, update_tokens: int, device: torch.device) -> int:
    """How many threads share an update: as wanted; for 0, one a core while parts have 1,024 tokens.

    On other devices than the CPU it is one: the device spreads the work itself.
    """
    if device.type != "cpu":
        return 1
    return wanted or max(1, min(torch.get_num_threads(), update_tokens // _LEAST_TOKENS))


class Workers:
    """A fixed number of threads, between which torch's own threads are divided."""

    def __init__(self, num_workers: int = 1) -> None:
        """One worker is the calling thread itself, with all of torch's threads."""
        self.num_workers = num_workers
        self._num_threads = torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None
        if num_workers > 1:
            each = max(1, self._num_threads // num_workers)
            self._pool = ThreadPoolExecutor(
                num_workers, "train", initializer=torch.set_num_threads, initargs=(each,)
            )

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            # A thread's number counts for that thread, and as the default of threads yet to come.
            torch.set_num_threads(self._num_threads)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """`work` done on every item, results in the items' order; an exception of `work` comes out here."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[Result]] = deque(self._pool.submit(work, item) for item in items)
        try:
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # after an exception nothing of this update may still be running
                future.cancel()
            for future in waiting:
                if not future.cancelled():
                    future.exception()
