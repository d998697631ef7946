"""kill -9 under load: a supervisor starts the service again, and clients that ask again lose nothing.

    python benchmarks/serve/restart.py --model runs/en-de/model --source test.en
    python benchmarks/serve/restart.py --model MODEL --source test.en --kills 1 --clients 2   # a try

Clients ask for one sentence after the other; one that gets no translation (refused, broken off, 503) waits
50 ms and asks for the same again. The service is killed at random moments, and started again by a loop that
waits for its end, as a supervisor does. `ready_s` is the time from the kill to the first `/ready` that says
so. Exit code 1 if a sentence was lost or came back wrong, or a restart took more than 2 s. Needs a quiet
machine for its times.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from client import WIRES, Connection  # noqa: E402
from load import Questions  # noqa: E402
from options import begin, common_parser  # noqa: E402
from questions import (  # noqa: E402
    read_sentences,
    search_of,
    translate_offline,
    write_texts,
)
from record import append_line, commit, hardware, today  # noqa: E402
from servers import SERVE, free_port  # noqa: E402

_READY_SECONDS = 2.0
_PAUSE = 0.05  # of a client before it asks again
_PATIENCE = 60.0  # of a client for one sentence, and of us for a start
_QUIET = (0.5, 2.0)  # seconds of load before a kill, at random


class Supervisor:
    """Keeps the service running, and nothing else."""

    def __init__(self, command: list[str]) -> None:
        """Remember what to run."""
        self._command = command
        self._stopping = False
        self.process: Process | None = None
        self.starts = 0

    async def run(self) -> None:
        """Start it again whenever it ends, until `stop`."""
        while not self._stopping:
            self.process = await create_subprocess_exec(*self._command, stdout=DEVNULL, stderr=DEVNULL)
            self.starts += 1
            await self.process.wait()

    def kill(self) -> None:
        """SIGKILL: it cannot clean up."""
        assert self.process is not None, "run has started it"
        self.process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Kill it for good."""
        self._stopping = True
        if self.process is not None and self.process.returncode is None:
            self.kill()


@dataclass
class Answers:
    """What the clients got."""

    right: int = 0
    wrong: int = 0
    lost: int = 0
    retries: int = 0
    waits: list[float] = field(default_factory=list)
    """Seconds that a client waited for each translation, all its tries together."""


async def client(questions: Questions, port: int, answers: Answers, over: asyncio.Event) -> None:
    """Ask for one sentence after the other; ask again for each until it is there."""
    connection = Connection(port)
    while not over.is_set():
        number, begun = questions.next(), time.perf_counter()
        while True:
            try:
                status, body = await connection.post(questions.wire.path, questions.bodies[number])
            except OSError:
                status, body = 0, b""
            if status == 200:
                right = questions.is_right(number, body)
                answers.right += right
                answers.wrong += not right
                answers.waits.append(time.perf_counter() - begun)
                break
            if time.perf_counter() - begun > _PATIENCE:
                answers.lost += 1
                break
            answers.retries += 1
            await asyncio.sleep(_PAUSE)
    connection.close()


async def kill_and_wait(supervisor: Supervisor, port: int) -> float:
    """Seconds from the kill to a service that is ready again.

    Raises:
        TimeoutError: as `until_ready`.
    """
    begun, starts = time.perf_counter(), supervisor.starts
    supervisor.kill()
    while supervisor.starts == starts:  # who answers before is the one that was killed
        await asyncio.sleep(0.001)
    await until_ready(port)
    return time.perf_counter() - begun


async def until_ready(port: int) -> None:
    """Ask `/ready` until it says so.

    Raises:
        TimeoutError: a minute was not enough.
    """
    async with asyncio.timeout(_PATIENCE):
        while True:
            connection = Connection(port)
            try:
                status, _ = await connection.get("/ready")
                if status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            await asyncio.sleep(0.005)


async def measure(
    questions: Questions, command: list[str], port: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Load, kills and restarts; the figures."""
    supervisor, answers, over = Supervisor(command), Answers(), asyncio.Event()
    running = asyncio.create_task(supervisor.run())
    rng, ready = random.Random(options.seed), []
    try:
        await until_ready(port)
        clients = [
            asyncio.create_task(client(questions, port, answers, over)) for _ in range(options.clients)
        ]
        for _ in range(options.kills):
            await asyncio.sleep(rng.uniform(*_QUIET))
            ready.append(round(await kill_and_wait(supervisor, port), 3))
        await asyncio.sleep(_QUIET[0])
        over.set()
        await asyncio.gather(*clients)
    finally:
        supervisor.stop()
        await running
    return {
        "kills": options.kills,
        "starts": supervisor.starts,
        "ready_s": ready,
        "clients": options.clients,
        "right": answers.right,
        "wrong": answers.wrong,
        "lost": answers.lost,
        "retries": answers.retries,
        "longest_wait_s": round(max(answers.waits), 3),
    }


def main() -> None:
    parser = common_parser(__doc__)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments")
    options = parser.parse_args()
    begin(options.work)
    search, port = search_of(options), free_port()
    sentences = read_sentences(options.source, options.sentences)
    expected = translate_offline(options.model, sentences, search)
    texts = write_texts(options.work / "restart.json", sentences, expected, search)
    command = [*SERVE, str(options.model), "--port", str(port)]
    found = asyncio.run(measure(Questions.read(texts, WIRES["transduce"]), command, port, options))
    line = {"bench": "serve/restart", **found, "search": search, "sentences": len(sentences)}
    line |= {"python": platform.python_version(), "date": today(), "hardware": hardware()}
    line |= {"load_average": os.getloadavg()[0], "commit": commit()}
    append_line(options.results, line)
    sys.exit(bool(found["wrong"] or found["lost"]) or max(found["ready_s"], default=0.0) > _READY_SECONDS)


if __name__ == "__main__":
    main()
