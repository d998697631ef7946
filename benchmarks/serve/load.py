"""The service under load, on loopback: how fast, what happens at three times that, and after a kill -9.

    python benchmarks/serve/load.py MODEL TEXT speed     --seconds 10
    python benchmarks/serve/load.py MODEL TEXT overload  --seconds 60
    python benchmarks/serve/load.py MODEL TEXT kill      --kills 3

MODEL has an export for CTranslate2; TEXT has a sentence a line. Each prints one JSON line and adds it to
benchmarks/results/DATE.jsonl (--results). The exit code is 1 when a promise is broken: a wrong answer, a
status other than 200, 429 and 503, memory that grows by more than 10 % from a third of the time on, a
restart that takes more than 2 s. Timings want a quiet machine: the clients share it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from traffic import Answer, Connection, closed_loop, open_loop

import transduce

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from record import append_line, commit, hardware, today  # noqa: E402

CLIENTS = (1, 4, 16, 64)
DECLARED = {200, 429, 503}
SERVE = [sys.executable, "-c", "from transduce.cli import main; main()", "serve"]
PLAIN = [sys.executable, str(Path(__file__).with_name("plain_server.py"))]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "the server left"
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if connection.recv(100).split()[1] == b"200":
                    return
        except OSError:
            pass
        time.sleep(0.01)


@contextmanager
def started(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, process)
        yield process
    finally:
        process.kill()
        process.wait()


def command_of(system: str, model: Path, port: int, *options: str) -> list[str]:
    if system == "transduce":
        return [*SERVE, str(model), "--port", str(port), *options]
    return [*PLAIN, str(model), str(port), *(["--one-at-a-time"] if system == "one at a time" else [])]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def summary(answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    times = sorted(answer.seconds for answer in answers if answer.status == 200)
    return {
        "per_second": round(len(times) / seconds, 1),
        "p50_ms": round(1e3 * statistics.median(times), 1),
        "p95_ms": round(1e3 * times[int(0.95 * (len(times) - 1))], 1),
    }


def wrong(answers: Sequence[Answer], right: dict[str, str]) -> int:
    return sum(a.status == 200 and a.translation != right[a.text] for a in answers)


class Work(NamedTuple):
    """What is asked for, and what must come."""

    model: Path
    texts: list[str]
    right: dict[str, str]
    search: dict[str, Any]


async def speed(work: Work, seconds: float) -> dict[str, Any]:
    """Closed loops of few and many clients, ours and the two plain servers in turn."""
    figures: dict[str, dict[str, Any]] = {}
    mistakes = 0
    for system in ("one at a time", "plain", "transduce"):
        port = free_port()
        with started(command_of(system, work.model, port), port) as process:
            await closed_loop(port, 4, min(1.0, seconds), work.texts, **work.search)
            for clients in CLIENTS:
                before = cpu_seconds(process.pid)
                answers, took = await closed_loop(port, clients, seconds, work.texts, **work.search)
                own = summary(answers, took)
                own["cpu_ms"] = round(1e3 * (cpu_seconds(process.pid) - before) / len(answers), 2)
                mistakes += wrong(answers, work.right)
                figures.setdefault(system, {})[str(clients)] = own
                print(f"{system:14} {clients:3} clients", own, file=sys.stderr)
    ours, single = figures["transduce"], figures["one at a time"]
    return {
        "figures": figures,
        "wrong": mistakes,
        "times_one_at_a_time": round(ours["64"]["per_second"] / single["64"]["per_second"], 2),
        "p95_at_4_by_lone_p95": round(ours["4"]["p95_ms"] / ours["1"]["p95_ms"], 2),
        "good": mistakes == 0,
    }


async def overload(work: Work, seconds: float) -> dict[str, Any]:
    """Three times what it can carry; nothing but declared refusals, right answers, flat memory."""
    port = free_port()
    with started(command_of("transduce", work.model, port, "--max-queue-texts", "1000"), port) as process:
        lone, took = await closed_loop(port, 1, 3, work.texts, **work.search)
        before = summary(lone, took)
        answers, took = await closed_loop(port, 64, 5, work.texts, **work.search)
        capacity = summary(answers, took)["per_second"]
        load = asyncio.create_task(
            open_loop(port, 3 * capacity, seconds, work.texts, connections=1200, **work.search)
        )
        memory = []
        while not load.done():
            memory.append(resident_mb(process.pid))
            await asyncio.sleep(0.5)
        answers = load.result()
        ended = time.perf_counter()
        lone, took = await closed_loop(port, 1, 2, work.texts, **work.search)
        recovered = time.perf_counter() - ended
        after = summary(lone, took)
    statuses = Counter(str(answer.status) for answer in answers)
    growth = max(memory[len(memory) // 3 :]) / memory[len(memory) // 3]
    mistakes = wrong(answers, work.right)
    return {
        "capacity_per_second": capacity, "offered_per_second": round(len(answers) / seconds, 1),
        "statuses": dict(statuses), "wrong": mistakes, "memory_mb": [round(memory[0]), round(max(memory))],
        "memory_growth": round(growth, 3), "lone_before": before, "lone_after": after,
        "seconds_after": round(recovered, 1),
        "good": mistakes == 0 and {int(s) for s in statuses} <= DECLARED and growth < 1.1,
    }  # fmt: skip


async def kill(work: Work, kills: int) -> dict[str, Any]:
    """A supervisor that starts it again at once; clients that try again lose nothing."""
    port = free_port()
    command = command_of("transduce", work.model, port)
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL)]
    wait_until_ready(port, processes[-1])
    answers: list[Answer] = []
    todo = iter(work.texts)
    tries = 0

    async def client() -> None:
        nonlocal tries
        connection = Connection(port)
        for text in todo:
            while True:
                tries += 1
                try:
                    answer = await connection.ask(text, **work.search)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status == 200:
                    answers.append(answer)
                    break
                await asyncio.sleep(0.05)
        connection.close()

    clients = asyncio.gather(*(client() for _ in range(16)))
    seconds = []
    try:
        for turn in range(kills):
            while len(answers) < len(work.texts) * (turn + 1) / (kills + 1):
                await asyncio.sleep(0.01)
            processes[-1].send_signal(signal.SIGKILL)
            processes[-1].wait()
            begun = time.perf_counter()
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            await asyncio.to_thread(wait_until_ready, port, processes[-1])
            seconds.append(round(time.perf_counter() - begun, 2))
        await clients
    finally:
        processes[-1].kill()
        processes[-1].wait()
    mistakes = wrong(answers, work.right)
    lost = len(work.texts) - len(answers)
    good = mistakes == 0 and lost == 0 and max(seconds) <= 2
    return {
        "texts": len(work.texts),
        "tries": tries,
        "wrong": mistakes,
        "lost": lost,
        "seconds_to_ready": seconds,
        "good": good,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("what", choices=["speed", "overload", "kill"])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--patience", type=float, help="Of the search, for both; else the model's own.")
    parser.add_argument("--beam-size", type=int)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    given = parser.parse_args()
    search = {
        name: value for name in ("patience", "beam_size") if (value := getattr(given, name)) is not None
    }
    texts = list(dict.fromkeys(given.text.read_text(encoding="utf-8").strip().split("\n")))[:1000]
    found = transduce.load(given.model, engine="ctranslate2").translate(texts, details=False, **search)
    right = {text: translation.text for text, translation in zip(texts, found, strict=True)}
    work = Work(given.model, texts, right, search)
    if given.what == "kill":
        result = asyncio.run(kill(work, given.kills))
    else:
        result = asyncio.run((speed if given.what == "speed" else overload)(work, given.seconds))
    load_average = round(os.getloadavg()[0], 1)
    append_line(given.results, {
        "benchmark": f"serve/{given.what}", "date": today(), "commit": commit(), "hardware": hardware(),
        "load_average": load_average, "search": search, **result,
    })  # fmt: skip
    return 0 if result["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
