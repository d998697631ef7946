"""Work that ends when its client goes away. Does not know: what the work is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request

from transduce.serve.problems import Problem

__all__ = ["unless_gone"]

T = TypeVar("T")


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await `work`; cancel it when the client closes the connection. The body must have been read.

    Raises:
        Problem: the client is gone (status 499; nobody reads it, but the log and the metrics tell).
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Problem(499, "The client is gone", "the connection was closed before the answer", "client-gone")
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
