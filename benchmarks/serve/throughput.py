"""Throughput and latency of the service at 1, 4 and 64 clients, beside plain handlers and LibreTranslate.

    python benchmarks/serve/throughput.py --model runs/en-de/model --source test.en --peers PEERS
    python benchmarks/serve/throughput.py --model MODEL --source test.en --rounds 1 --seconds 2   # a try

The model needs a CTranslate2 export (`transduce export MODEL --to ct2`). Each client asks for one sentence
at a time, over a connection of its own, from a process of its own; systems take turns (A B C, A B C, …), each
time in a new process; figures are medians of the rounds. All search with the same beam. About 3 minutes a
round with LibreTranslate. Needs a quiet machine and no OMP_NUM_THREADS: every system takes its own defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from options import begin, common_parser  # noqa: E402
from questions import (  # noqa: E402
    languages_of,
    read_sentences,
    search_of,
    translate_offline,
    write_texts,
)
from record import append_line, commit, cpu_seconds, hardware, resident_mb, today  # noqa: E402
from servers import System, running, systems, versions  # noqa: E402

CLIENTS = (1, 4, 64)
SYSTEMS = ("transduce", "one-at-a-time", "fastapi-ctranslate2", "libretranslate", "fastapi-stub")
_LOAD = Path(__file__).with_name("load.py")

_MEDIANS = (
    "requests_s", "p50_ms", "p95_ms", "max_ms", "server_cpu_ms", "cpu_share", "cpu_ms_a_request",
    "resident_mb",
)  # fmt: skip
_TABLE = ("requests_s", "p50_ms", "p95_ms", "server_cpu_ms", "wrong", "failed", "cpu_share")

Figures = dict[str, Any]


def load(port: int, system: System, texts: Path, *arguments: str) -> Figures:
    """Run the generator to its end; its figures."""
    command = [sys.executable, str(_LOAD), "--port", str(port), "--wire", system.wire, "--texts", str(texts)]
    result = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(result.stdout.strip().rpartition("\n")[2])
    return found


def measure(
    name: str, system: System, texts: Path, first: str, options: argparse.Namespace
) -> dict[int, Figures]:
    """One round of one system: figures by number of clients."""
    with running(system, first, options.work / f"{name}.log") as (port, pid):
        found = {}
        for clients in options.clients:
            how = ["--clients", str(clients), "--seconds", str(options.seconds)]
            how += ["--warm-up", str(options.warm_up)]
            cpu = cpu_seconds(pid)
            own = load(port, system, texts, *how)
            answered = own["requests"] + own["warm_up_requests"]
            own["server_cpu_ms"] = round(1000 * (cpu_seconds(pid) - cpu) / max(1, answered), 2)
            found[clients] = own | {"resident_mb": round(resident_mb(pid), 1)}
    return found


def median(rounds: list[Figures]) -> Figures:
    """Of each figure that every round has; counts are added up."""
    found: Figures = {}
    for key in _MEDIANS:
        values = [figures[key] for figures in rounds if figures[key] is not None]
        found[key] = round(statistics.median(values), 2) if values else None
    found["requests_s_all"] = [figures["requests_s"] for figures in rounds]
    found["wrong"] = sum(figures["wrong"] for figures in rounds)
    found["failed"] = sum(figures["requests"] - figures["statuses"].get("200", 0) for figures in rounds)
    return found


def aims(found: Mapping[str, Mapping[int, Figures]]) -> Figures:
    """What the service is to reach, from medians: throughput of many clients, latency of a few."""
    ours, aim = found.get("transduce", {}), {}
    lone = found.get("one-at-a-time", {})
    if 64 in ours and 64 in lone:
        aim["times_one_at_a_time"] = round(ours[64]["requests_s"] / lone[64]["requests_s"], 2)
    if 1 in ours and 4 in ours:
        aim["p95_of_4_over_lone_p95"] = round(ours[4]["p95_ms"] / ours[1]["p95_ms"], 2)
        aim["p95_of_4_over_lone_p50"] = round(ours[4]["p95_ms"] / ours[1]["p50_ms"], 2)
    return aim


def table(found: Mapping[str, Mapping[int, Figures]]) -> str:
    """For people, in Markdown."""
    lines = [
        "| system | clients | requests/s | p50 ms | p95 ms | server's CPU ms a request | wrong | failed "
        "| generator's share of a core |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, by_clients in found.items():
        for clients, own in by_clients.items():
            cells = [own[key] for key in _TABLE]
            lines.append(f"| {name} | {clients} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _all_rounds(
    found: Mapping[str, System], texts: list[str], options: argparse.Namespace
) -> dict[str, list[dict[int, Figures]]]:
    """Every round of every system, in turn; one that fails is told, and not tried again."""
    expected = translate_offline(options.model, texts, options.search)
    results: dict[str, list[dict[int, Figures]]] = {name: [] for name in found}
    failed: set[str] = set()
    for number in range(options.rounds):
        for name, system in found.items():
            if name in failed:
                continue
            file = options.work / f"{name}.json"
            write_texts(file, texts, expected if system.ours else None, system.more)
            try:
                own = measure(name, system, file, texts[0], options)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                failed.add(name)
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
                continue
            results[name].append(own)
            rates = ", ".join(f"{clients}: {figures['requests_s']}/s" for clients, figures in own.items())
            print(f"round {number + 1}: {name} {rates}", file=sys.stderr, flush=True)
    return {name: rounds for name, rounds in results.items() if rounds}


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = common_parser(__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"of {', '.join(SYSTEMS)} (all)")
    parser.add_argument("--clients", type=_numbers, default=list(CLIENTS), help="such as 1,4,64")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number of clients")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds before, not counted")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="directory of their environments")
    options = parser.parse_args()
    options.search = search_of(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a running server is ended as well
    begin(options.work)
    texts = read_sentences(options.source, options.sentences)
    known = systems(
        options.model.resolve(), options.search, options.peers.resolve(), options.work.resolve(),
        languages_of(options.model),
    )  # fmt: skip
    names = options.systems.split(",")
    for name in names:
        if name not in known:
            print(f"{name} is left out: it is unknown, or not installed in {options.peers}", file=sys.stderr)
    chosen = {name: known[name] for name in names if name in known}
    rounds = _all_rounds(chosen, texts, options)
    found = {
        name: {clients: median([one[clients] for one in own]) for clients in options.clients}
        for name, own in rounds.items()
    }
    for name, by_clients in found.items():
        line: Figures = {"bench": "serve/throughput", "system": name, "versions": versions(chosen[name])}
        line |= {"clients": by_clients, "sentences_a_request": 1, "sentences": len(texts)}
        line |= {"search": options.search, "seconds": options.seconds, "rounds": len(rounds[name])}
        line |= aims(found) if name == "transduce" else {}
        line |= {"python": platform.python_version(), "date": today(), "hardware": hardware()}
        line |= {"omp_num_threads": os.environ.get("OMP_NUM_THREADS"), "commit": commit()}
        append_line(options.results, line)
    print(table(found))
    print(json.dumps(aims(found)))


if __name__ == "__main__":
    main()
