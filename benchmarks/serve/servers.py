"""The servers that are measured, each started in a process of its own and ended again.

In:  a model, a name. Out: a port that answers. Does not know: loads, figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import libretranslate
from client import WIRES, Connection

__all__ = ["SERVE", "System", "free_port", "running", "systems", "versions"]

_HERE = Path(__file__).parent
_START_SECONDS = 120.0
SERVE = [sys.executable, "-c", "from transduce.cli import main; main()", "serve"]


@dataclass(frozen=True)
class System:
    """A server, and how it is asked."""

    command: Callable[[int], list[str]]
    """Its command line for a port."""
    wire: str
    more: dict[str, Any]
    """Fields of every request."""
    distributions: tuple[str, ...]
    """Whose versions are recorded."""
    ours: bool = False
    """Whether its answers must be our offline translations."""
    environment: dict[str, str] | None = None
    python: str = sys.executable

    def with_options(self, options: Sequence[str]) -> System:
        """The same, with more words at the end of its command line."""
        return replace(self, command=lambda port: [*self.command(port), *options])


def systems(
    model: Path, search: dict[str, Any], peers: Path, work: Path, languages: tuple[str, str]
) -> dict[str, System]:
    """All by name; LibreTranslate only where it is installed in `peers`."""

    def plain(kind: str, *distributions: str) -> System:
        command = [sys.executable, str(_HERE / "plain_server.py"), "--kind", kind, "--model", str(model)]
        command += ["--search", json.dumps(search), "--port"]
        used = ("fastapi", "uvicorn", *distributions)
        return System(lambda port: [*command, str(port)], "plain", {}, used, ours=kind == "lock")

    found = {
        "transduce": System(
            lambda port: [*SERVE, str(model), "--port", str(port)], "transduce", search,
            ("transduce", "fastapi", "uvicorn", "ctranslate2"), ours=True,
        ),
        "one-at-a-time": plain("lock", "transduce", "ctranslate2"),
        "fastapi-ctranslate2": plain("threads", "ctranslate2"),
        "fastapi-stub": plain("stub"),
    }  # fmt: skip
    if (peers / "libretranslate").exists():
        libretranslate.write_packages(work, model, languages)
        found["libretranslate"] = System(
            lambda port: libretranslate.command(peers, port, languages), "libretranslate",
            {"source": languages[0], "target": languages[1]},
            ("libretranslate", "argos-translate-lt", "waitress", "ctranslate2"),
            environment=libretranslate.environment(work),
            python=str(peers / "libretranslate" / "bin" / "python"),
        )  # fmt: skip
    return found


def versions(system: System) -> dict[str, str]:
    """Of what it is made of, as its own Python knows them."""
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    command = [system.python, "-c", code, *system.distributions]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(system.distributions, found, strict=True))


def free_port() -> int:
    """A port that nobody listened at a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(system: System, text: str, log: Path) -> Iterator[tuple[int, int]]:
    """Start it; give its port and process id once it has translated `text`; end it.

    Raises:
        RuntimeError: it left, or did not translate within two minutes; with the end of its log.
    """
    port = free_port()
    with log.open("w") as file:
        process = subprocess.Popen(
            system.command(port), stdout=file, stderr=subprocess.STDOUT, env=system.environment or os.environ
        )
    try:
        body = WIRES[system.wire].body(text, system.more)
        asyncio.run(_until_it_answers(process, port, WIRES[system.wire].path, body, log))
        yield port, process.pid
    finally:
        _end(process)


async def _until_it_answers(
    process: subprocess.Popen[bytes], port: int, path: str, body: bytes, log: Path
) -> None:
    end, answer = time.monotonic() + _START_SECONDS, b""
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server left with code {process.returncode}: {log.read_text()[-2000:]}")
        connection = Connection(port)
        try:
            status, answer = await connection.post(path, body)
            if status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        await asyncio.sleep(0.05)
    raise RuntimeError(f"no translation in time: {answer[-300:]!r}; {log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
