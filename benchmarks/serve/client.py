"""One client on loopback: HTTP/1.1 over asyncio's streams, and how each server wants to be asked.

A load generator shares the cores with what it measures, so its client must cost next to nothing: httpx2
took 0.8 to 1.0 ms of a core for a request here, this one 0.1 ms (benchmarks/LOG.md).
Does not know: loads, timing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["WIRES", "Connection", "Wire"]

_HOST = "127.0.0.1"
_HEAD = (
    "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    "Content-Length: {length}\r\n\r\n"
)


@dataclass(frozen=True)
class Wire:
    """A server's way to be asked for one sentence."""

    path: str
    text_field: str
    answer_path: tuple[str | int, ...]
    """Keys that lead to the translation in the answer."""
    extra: tuple[tuple[str, Any], ...] = ()

    def body(self, text: str, more: dict[str, Any]) -> bytes:
        """The request's JSON, with `more` fields of this run (languages, beam size)."""
        return json.dumps({self.text_field: text, **dict(self.extra), **more}).encode()

    def translation(self, body: bytes) -> str:
        """The text in an answer.

        Raises:
            ValueError, KeyError, IndexError, TypeError: it is no such answer.
        """
        found: Any = json.loads(body)
        for key in self.answer_path:
            found = found[key]
        return str(found)


WIRES = {
    "transduce": Wire("/api/v1/translate", "text", ("translations", 0, "text")),
    "plain": Wire("/translate", "text", ("text",)),
    "libretranslate": Wire("/translate", "q", ("translatedText",), (("format", "text"),)),
}


class Connection:
    """One connection, kept while the server keeps it."""

    def __init__(self, port: int) -> None:
        """Connect with the first request."""
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_open(self) -> bool:
        """Whether another request can go through it."""
        return self._writer is not None and not self._writer.is_closing() and not self._at_end()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Ask with a body; status and body of the answer.

        Raises:
            OSError: the connection was refused, or broke before the whole answer came.
        """
        return await self._ask("POST", path, body)

    async def get(self, path: str) -> tuple[int, bytes]:
        """Ask without one, as `post`.

        Raises:
            OSError: as `post`.
        """
        return await self._ask("GET", path, b"")

    async def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Ask over the connection, which is opened where it is not.

        Raises:
            OSError: the connection was refused, or broke before the whole answer came.
        """
        if not self.is_open:
            self.close()
            self._reader, self._writer = await asyncio.open_connection(_HOST, self._port)
        assert self._reader is not None, "it has just been opened"
        assert self._writer is not None, "it has just been opened"
        head = _HEAD.format(method=method, path=path, port=self._port, length=len(body)).encode()
        try:
            self._writer.write(head + body)
            return await self._answer(self._reader)
        except asyncio.IncompleteReadError as error:
            self.close()
            raise ConnectionResetError("the server closed the connection before its answer") from error
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    def _at_end(self) -> bool:
        return self._reader is None or self._reader.at_eof()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if not found:
            raise ConnectionError(f"an answer without a length: {head[:200]!r}")
        body = await reader.readexactly(int(rest.partition(b"\r\n")[0]))
        if b"\r\nconnection: close" in head:
            self.close()
        return status, body
