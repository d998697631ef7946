"""A server in a process of its own, as a person starts it, and what stops it."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(command: Sequence[str | Path], *, log: Path, port: int | None = None, **options) -> Iterator[str]:
    """Run `COMMAND --port N` until the block ends; yields its address once `/ready` says so."""
    port = port or free_port()
    address = f"http://127.0.0.1:{port}"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*map(str, command), "--port", str(port)], stdout=stream, stderr=subprocess.STDOUT, **options
        )
        try:
            _wait_until_ready(process, address, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def _wait_until_ready(process: subprocess.Popen, address: str, log: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        assert process.poll() is None, f"the server left: {log.read_text()[-2000:]}"
        try:
            urllib.request.urlopen(f"{address}/ready", timeout=5).close()
            return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise AssertionError(f"the server was not ready after {PATIENCE:g} s: {log.read_text()[-2000:]}")
