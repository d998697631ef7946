"""Clients for load tests: plain HTTP/1.1 over one connection each, cheap enough to share the machine."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PATH = "/api/v1/translate"


@dataclass(frozen=True)
class Answer:
    """What one request came to."""

    text: str
    status: int
    seconds: float
    translation: str | None
    retry_after: int = 0


class Connection:
    """One client's connection, opened when needed and again when it broke."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, text: str, **options: Any) -> Answer:
        """Translate one text; OSError if the server is not there or goes away."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = json.dumps({"text": text, **options}).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = time.perf_counter()
        try:
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status, headers, content = await _read(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError("the server went away") from error
        if headers.get("connection") == "close":
            self.close()
        seconds = time.perf_counter() - begun
        found = json.loads(content)
        translation = found["translations"][0]["text"] if status == 200 else None
        return Answer(text, status, seconds, translation, int(headers.get("retry-after", 0)))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def closed_loop(
    port: int, clients: int, seconds: float, texts: Sequence[str], **options: Any
) -> tuple[list[Answer], float]:
    """So many clients, each asking again as soon as it is answered; all answers, and the time it took."""
    answers: list[Answer] = []
    end = time.perf_counter() + seconds

    async def client(seed: int) -> None:
        rng, connection = random.Random(seed), Connection(port)
        while time.perf_counter() < end:
            answers.append(await connection.ask(rng.choice(texts), **options))
        connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client(seed) for seed in range(clients)))
    return answers, time.perf_counter() - begun


async def open_loop(
    port: int, per_second: float, seconds: float, texts: Sequence[str], connections: int = 256, **options: Any
) -> list[Answer]:
    """Requests at a rate of their own, whether or not the server keeps up; refused ones are not repeated."""
    rng = random.Random(0)
    answers: list[Answer] = []
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(Connection(port))
    tasks: set[asyncio.Task[None]] = set()

    async def request(connection: Connection) -> None:
        answers.append(await connection.ask(rng.choice(texts), **options))
        free.put_nowait(connection)

    begun = time.perf_counter()
    sent = 0
    while (now := time.perf_counter() - begun) < seconds:
        while sent < now * per_second and not free.empty():
            task = asyncio.create_task(request(free.get_nowait()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().close()
    return answers


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status, *lines = head.strip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
