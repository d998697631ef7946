"""A server as people run it: `transduce serve` in a process of its own, on a free port."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

PROGRAM = [sys.executable, "-c", "from transduce.cli import main; main()"]
_START_SECONDS = 30


class LiveServer:
    """The process, its log as it comes, and where it listens."""

    def __init__(self, *arguments: str | Path) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", *map(str, arguments), "--port", "0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )  # fmt: skip
        self.lines: list[dict[str, object]] = []
        self._came: queue.Queue[dict[str, object] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_ready(self) -> None:
        self.url = str(self.wait_for("listening")["message"]).removeprefix("listening at ")
        self.wait_for("ready")
        self.seconds_to_ready = time.perf_counter() - self.started
        host, _, port = self.url.removeprefix("http://").partition(":")
        self.address = (host, int(port))

    def wait_for(self, words: str) -> dict[str, object]:
        """The next line of the log whose message begins so."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            line = self._came.get(timeout=_START_SECONDS)
            assert line is not None, f"the server left with code {self.process.wait()}: {self.lines}"
            if str(line["message"]).startswith(words):
                return line
        raise AssertionError(f"{words!r} never came: {self.lines}")

    def stop(self, seconds: float = 20) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=30)

    def _read(self) -> None:
        for line in self.process.stderr:
            try:
                found = json.loads(line)
            except ValueError:
                found = {"message": line.rstrip("\n")}
            self.lines.append(found)
            self._came.put(found)
        self._came.put(None)


@contextmanager
def live_server(*arguments: str | Path) -> Iterator[LiveServer]:
    server = LiveServer(*arguments)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.process.stderr.close()
