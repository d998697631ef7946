"""The load: many clients who ask one sentence at a time, in a process of its own; figures as one JSON line.

    python benchmarks/serve/load.py --port 8000 --wire transduce --texts TEXTS.json --clients 64 --seconds 10

Closed loop (--clients): each asks again when it has its answer. Open loop (--rate): requests come at
random moments, so many a second on average, whatever became of those before. TEXTS.json holds `texts`,
`expected` (what each may come back as, or null) and `more` (fields of every request). throughput.py and
overload.py start it; `cpu_share` says whether it was itself the bottleneck: near 1 it was.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client import WIRES, Connection, Wire

__all__ = ["Questions", "Tally", "closed_loop", "open_loop", "percentile", "ramp"]

_BROKEN = "broken"  # in place of a status: refused, or closed before the answer
_PAUSE = 0.02  # of a client that was refused, so that it does not spin
_LAST_SECONDS = 130.0  # that an open loop's last requests are waited for: more than the server's own limit


@dataclass
class Questions:
    """Sentences in turn, and what must come back."""

    wire: Wire
    bodies: list[bytes]
    expected: list[list[str]] | None
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def read(cls, path: Path, wire: Wire) -> Questions:
        """From TEXTS.json."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(wire, [wire.body(text, told["more"]) for text in told["texts"]], told["expected"])

    def next(self) -> int:
        """Number of the next sentence."""
        return next(self._numbers) % len(self.bodies)

    def is_right(self, number: int, body: bytes) -> bool:
        """Whether an answer is an offline translation of this sentence."""
        try:
            found = self.wire.translation(body)
        except (ValueError, KeyError, IndexError, TypeError):
            return False
        return self.expected is None or found in self.expected[number]


@dataclass
class Tally:
    """What came back."""

    statuses: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Problems by the last part of their `type`; `undeclared` for an error that is no problem."""
    wrong: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each translation, from question to answer."""
    ends: list[float] = field(default_factory=list)
    """When each translation was there, from the loop's beginning."""

    def take(self, status: int, body: bytes, right: bool, begun: float, now: float, start: float) -> None:
        """Count one answer."""
        self.statuses[str(status)] += 1
        if status == 200:
            self.wrong += not right
            self.seconds.append(now - begun)
            self.ends.append(now - start)
        else:
            self.kinds[problem_kind(body)] += 1

    def figures(self, seconds: float) -> dict[str, Any]:
        """Rates within `seconds`, latencies, counts."""
        return {
            "requests_s": round(sum(end <= seconds for end in self.ends) / seconds, 2),
            "p50_ms": round(1000 * statistics.median(self.seconds), 2) if self.seconds else None,
            "p95_ms": round(1000 * percentile(self.seconds, 0.95), 2) if self.seconds else None,
            "max_ms": round(1000 * max(self.seconds), 2) if self.seconds else None,
            "requests": sum(self.statuses.values()),
            "statuses": dict(self.statuses),
            "problems": dict(self.kinds),
            "wrong": self.wrong,
        }


def problem_kind(body: bytes) -> str:
    """Which problem a body tells."""
    try:
        return str(json.loads(body)["type"]).rpartition("/")[2].rpartition(":")[2]
    except (ValueError, KeyError, TypeError):
        return "undeclared"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not pass."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def ramp(ends: Sequence[float], rate: float, *, share: float = 0.9, window: float = 1.0) -> float | None:
    """When `share` of `rate` was reached: the start of the first window that has it, in steps of 0.1 s.

    None if it never was, in all windows that are whole.
    """
    last = max(ends, default=0.0)
    for step in range(int(max(0.0, last - window) * 10) + 1):
        start = step / 10
        if sum(start <= end < start + window for end in ends) >= share * rate * window:
            return start
    return None


async def closed_loop(questions: Questions, port: int, clients: int, seconds: float) -> Tally:
    """So many clients, each with a connection of its own, for so long."""
    tally, start = Tally(), time.perf_counter()

    async def client() -> None:
        connection = Connection(port)
        while time.perf_counter() - start < seconds:
            if not await _ask(questions, connection, tally, start):
                await asyncio.sleep(_PAUSE)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return tally


async def open_loop(
    questions: Questions, port: int, rate: float, seconds: float, told: Callable[[], None] = lambda: None
) -> tuple[Tally, float]:
    """So many requests a second, for so long; what came, and how late the latest was sent, in seconds.

    `told` is called when the last was sent; answers are waited for after it.
    """
    tally, rng, start = Tally(), random.Random(1), time.perf_counter()
    free: list[Connection] = []
    under_way: set[asyncio.Task[None]] = set()

    async def request() -> None:
        connection = free.pop() if free else Connection(port)
        await _ask(questions, connection, tally, start)
        if connection.is_open:
            free.append(connection)

    due, late = rng.expovariate(rate), 0.0
    while due < seconds:
        now = time.perf_counter() - start
        if due > now:
            await asyncio.sleep(due - now)
            continue
        late = max(late, now - due)
        task = asyncio.create_task(request())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        due += rng.expovariate(rate)
        if len(under_way) % 32 == 0:
            await asyncio.sleep(0)  # answers are read even when the loop is behind its schedule
    told()
    if under_way:
        _, lost = await asyncio.wait(set(under_way), timeout=_LAST_SECONDS)
        if lost:
            tally.statuses["unanswered"] = len(lost)
        for task in lost:
            task.cancel()
    for connection in free:
        connection.close()
    return tally, late


async def _ask(questions: Questions, connection: Connection, tally: Tally, start: float) -> bool:
    """Ask for the next sentence; whether its translation came."""
    number, begun = questions.next(), time.perf_counter()
    try:
        status, body = await connection.post(questions.wire.path, questions.bodies[number])
    except OSError:
        tally.statuses[_BROKEN] += 1
        return False
    now = time.perf_counter()
    right = status != 200 or questions.is_right(number, body)
    tally.take(status, body, right, begun, now, start)
    return status == 200


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    questions = Questions.read(options.texts, WIRES[options.wire])
    warm_up = await closed_loop(questions, options.port, options.clients or 4, options.warm_up)
    begun, cpu = time.perf_counter(), time.process_time()
    late = 0.0
    if options.rate:
        tally, late = await open_loop(
            questions, options.port, options.rate, options.seconds, lambda: print("sent", flush=True)
        )
    else:
        tally = await closed_loop(questions, options.port, options.clients, options.seconds)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    found = tally.figures(options.seconds) | {"cpu_share": round(cpu / wall, 3)}
    found["warm_up_requests"] = sum(warm_up.statuses.values())
    found["cpu_ms_a_request"] = round(1000 * cpu / max(1, found["requests"]), 3)
    if options.rate:
        found["late_ms"] = round(1000 * late, 1)
    return found | ({"ends": [round(end, 3) for end in tally.ends]} if options.ends else {})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wire", choices=WIRES, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--clients", type=int, default=0, help="closed loop")
    kind.add_argument("--rate", type=float, default=0.0, help="open loop: requests a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds before, not counted")
    parser.add_argument("--ends", action="store_true", help="tell when each translation was there")
    print(json.dumps(asyncio.run(_run(parser.parse_args()))))


if __name__ == "__main__":
    main()
