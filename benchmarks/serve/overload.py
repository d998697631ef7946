"""Three times the load that the service can carry, for a minute: what it answers, keeps and becomes.

    python benchmarks/serve/overload.py --model runs/en-de/model --source test.en
    python benchmarks/serve/overload.py --model MODEL --source test.en --seconds 6 --probe-seconds 2   # a try

First what it can carry: 64 clients in a closed loop. Then three times as many requests a second at random
moments, whatever became of those before (--seconds); each second resident memory, and `/health`. The moment
that the last is sent, 64 clients begin as before, beside what is left of the load. Each sentence's answer is
compared with its offline translation. Options after `--` are the server's: `-- --max-queue-texts 100`. A
float32 export has one right answer for each sentence; an int8 one a few (see questions.py). Exit code 1
if a promise is broken: a 5xx or 429 that is no declared problem, a wrong or lost answer, no `/health`, memory
that is not flat, full speed later than 2 s after the load. Needs a quiet machine for its times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from client import WIRES, Connection  # noqa: E402
from load import Questions, closed_loop, ramp  # noqa: E402
from options import begin, common_parser  # noqa: E402
from questions import (  # noqa: E402
    languages_of,
    read_sentences,
    search_of,
    translate_offline,
    write_texts,
)
from record import append_line, commit, hardware, resident_mb, today  # noqa: E402
from servers import System, running, systems, versions  # noqa: E402

DECLARED = {"200", "429", "503"}
UNDECLARED = "undeclared"  # as load.py calls an error that is no problem
CLIENTS = 64
_TIMES = 3.0
_FLAT = 0.10
_FULL_SECONDS = 2.0
_HEALTH_SECONDS = 5.0  # what supervisors wait
_LOAD = Path(__file__).with_name("load.py")

Figures = dict[str, Any]


class Load:
    """The open loop, in a process of its own."""

    def __init__(self, port: int, texts: Path, rate: float, seconds: float) -> None:
        """Begin."""
        command = [sys.executable, str(_LOAD), "--port", str(port), "--wire", "transduce"]
        command += ["--texts", str(texts), "--rate", str(rate), "--seconds", str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def wait_until_sent(self) -> None:
        """Return when the last request is sent.

        Raises:
            RuntimeError: the generator failed.
        """
        assert self._process.stdout, "it is a pipe"
        if self._process.stdout.readline() != "sent\n":
            raise RuntimeError(f"the load generator left with code {self._process.wait()}")

    def figures(self) -> Figures:
        """What came back, when all has."""
        out, _ = self._process.communicate()
        found: Figures = json.loads(out)
        return found


def watch(pid: int, port: int, stop: threading.Event, samples: list[float], health: list[float]) -> None:
    """Each second, until told to stop: resident memory, and how long `/health` takes (inf: no 200)."""
    while not stop.wait(1.0):
        samples.append(round(resident_mb(pid), 1))
        begun = time.perf_counter()
        good = asyncio.run(_is_healthy(port))
        health.append(round(1000 * (time.perf_counter() - begun), 1) if good else math.inf)


async def _is_healthy(port: int) -> bool:
    connection = Connection(port)
    try:
        async with asyncio.timeout(_HEALTH_SECONDS):
            status, _ = await connection.get("/health")
    except OSError:  # TimeoutError is one
        return False
    finally:
        connection.close()
    return status == 200


def spread(samples: Sequence[float], start: int) -> float | None:
    """(most - least) / median from second `start` on; None if there is nothing to compare."""
    late = samples[start:]
    return round((max(late) - min(late)) / statistics.median(late), 4) if len(late) > 1 else None


def kept(found: Figures) -> dict[str, bool]:
    """Each promise, and whether it was kept."""
    load, after = found["load"], found["after"]
    statuses = set(load["statuses"]) | set(after["statuses"])
    undeclared = load["problems"].get(UNDECLARED, 0) + after["problems"].get(UNDECLARED, 0)
    return {
        "statuses": statuses <= DECLARED and not undeclared,
        "answers": load["wrong"] + after["wrong"] + found["before"]["wrong"] == 0,
        "health": found["health_failed"] == 0,
        "memory": found["memory_spread"] is not None and found["memory_spread"] <= _FLAT,
        "full_speed": found["full_speed_s"] is not None and found["full_speed_s"] <= _FULL_SECONDS,
    }


def measure(system: System, texts: Path, first: str, options: argparse.Namespace) -> Figures:
    """Everything, in turn."""
    wire = WIRES["transduce"]

    def clients(port: int, seconds: float) -> tuple[Figures, list[float]]:
        tally = asyncio.run(closed_loop(Questions.read(texts, wire), port, CLIENTS, seconds))
        return tally.figures(seconds), tally.ends

    with running(system, first, options.work / "overload.log") as (port, pid):
        clients(port, min(2.0, options.probe_seconds))  # warms up
        before, _ = clients(port, options.probe_seconds)
        rate = _TIMES * before["requests_s"]
        stop, samples, health = threading.Event(), list[float](), list[float]()
        watcher = threading.Thread(target=watch, args=(pid, port, stop, samples, health))
        watcher.start()
        begun = time.perf_counter()
        load = Load(port, texts, rate, options.seconds)
        load.wait_until_sent()
        stop.set()
        watcher.join()
        sending = time.perf_counter() - begun
        after, ends = clients(port, options.probe_seconds + _FULL_SECONDS)
        loaded = load.figures()
    return {
        "before": before,
        "rate": round(rate, 1),
        "load": loaded,
        "load_seconds": round(sending, 1),
        "after": after,
        "full_speed_s": ramp(ends, before["requests_s"]),
        "memory_mb": samples,
        "health_failed": health.count(math.inf),
        "health_max_ms": max((ms for ms in health if ms < math.inf), default=None),
        "memory_spread": spread(samples, min(20, len(samples) // 3)),
    }


def main() -> None:
    parser = common_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the load")
    parser.add_argument("--probe-seconds", type=float, default=6.0, help="of the clients before and after it")
    parser.add_argument("server_options", nargs="*", metavar="OPTION", help="after `--`: of transduce serve")
    options = parser.parse_args()
    begin(options.work)
    search = search_of(options)
    sentences = read_sentences(options.source, options.sentences)
    expected = translate_offline(options.model, sentences, search)
    languages = languages_of(options.model)
    system = systems(options.model.resolve(), search, Path("nowhere"), options.work, languages)["transduce"]
    system = system.with_options(options.server_options)
    texts = write_texts(options.work / "overload.json", sentences, expected, search)
    found = measure(system, texts, sentences[0], options)
    promises = kept(found)
    line = {"bench": "serve/overload", **found, "kept": promises, "server_options": options.server_options}
    line |= {"sentences": len(sentences), "search": search}
    line |= {"different_answers": len({answers[0] for answers in expected})}
    line |= {"with_several_answers": sum(len(answers) > 1 for answers in expected)}
    line |= {"versions": versions(system), "python": platform.python_version(), "date": today()}
    line |= {"hardware": hardware(), "load_average": os.getloadavg()[0], "commit": commit()}
    append_line(options.results, line)
    sys.exit(not all(promises.values()))


if __name__ == "__main__":
    main()
