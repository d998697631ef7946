"""A million short lines through `transduce translate`: flat memory, and whole after a kill.

    python benchmarks/translate/million_lines.py --lines 1000000 --work /tmp/million

Trains a tiny model that copies digits (once, kept under --work), makes the file, translates it in a
process whose resident memory is sampled, then does the same again, kills that process (SIGKILL) at
random moments and resumes it each time, and compares the two outputs byte by byte. Flat means: the
most memory in the last half of the run is at most --slack MB above the most in its second tenth.

Prints one JSON line and adds it to benchmarks/results/DATE.jsonl (--results); the exit code is 1
when memory is not flat or the outputs are not equal.
"""

from __future__ import annotations

import argparse
import platform
import random
import signal
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from record import append_line, commit, hardware, resident_mb  # noqa: E402

from digits import TINY_SETTINGS, digit_pairs  # noqa: E402

COMMAND = [sys.executable, "-c", "from transduce.cli import main; main()"]
OWN_SETTINGS = ["model.d_model=32", "model.d_ff=64", "batch.max_len=16", "search.beam_size=1"]
SAMPLE_SECONDS = 0.1


class Watched(NamedTuple):
    """A process that was watched to its end, or to its kill."""

    samples: list[tuple[int, float]]  # bytes of output so far, resident MB
    seconds: float
    killed: bool


def copy_model(work: Path, settings: list[str]) -> Path:
    """A model that has learnt to say what it is told; made by the real command, once."""
    run = work / "copy"
    if not (run / "model" / "model.safetensors").exists():
        for name, count, seed in (("train", 3000, 0), ("valid", 60, 1)):
            text = "".join(f"{source}\n" for source, _ in digit_pairs(count, seed))
            (work / f"{name}.txt").write_text(text)
        command = [*COMMAND, "train", "--out", str(run)]
        for side in ("source", "target"):
            command += [f"--{side}", str(work / "train.txt"), f"--valid-{side}", str(work / "valid.txt")]
        for setting in [*TINY_SETTINGS, *OWN_SETTINGS, "cleaning.drop_copies=false", *settings]:
            command += ["--set", setting]
        subprocess.run(command, check=True)
    return run


def write_lines(path: Path, lines: int) -> None:
    """Short lines of number words, all from one seed."""
    with path.open("w") as file:
        for source, _ in digit_pairs(lines, seed=7):
            file.write(source + "\n")


def watch(command: list[str], output: Path, kill_at: int | None = None) -> Watched:
    """Run a command to its end, or kill it when its output has `kill_at` bytes; sample its memory."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    samples: list[tuple[int, float]] = []
    while process.poll() is None:
        size = output.stat().st_size if output.exists() else 0
        samples.append((size, resident_mb(process.pid)))
        if kill_at is not None and size >= kill_at:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(SAMPLE_SECONDS)
    _, errors = process.communicate()
    killed = process.returncode == -signal.SIGKILL
    if process.returncode and not killed:
        sys.exit(errors[-3000:])
    return Watched(samples, time.monotonic() - begun, killed)


def killed_and_resumed(command: list[str], output: Path, size: int, kills: int, rng: random.Random) -> int:
    """Kill the command as often as asked, each time further on, then let it end; how often it was hit."""
    hit = 0
    for moment in sorted(rng.uniform(0.02, 0.98) for _ in range(kills)):
        hit += watch(command, output, int(size * moment)).killed
    watch(command, output)
    return hit


def growth_mb(samples: list[tuple[int, float]], size: int) -> float | None:
    """Most memory in the last half of the output, less the most in its second tenth; None if too short."""
    early = [mb for at, mb in samples if 0.1 * size <= at < 0.2 * size]
    late = [mb for at, mb in samples if at >= 0.5 * size]
    return max(late) - max(early) if early and late else None


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, as the fields of the JSON line."""
    options.work.mkdir(parents=True, exist_ok=True)
    model = copy_model(options.work, options.settings)
    source, whole, resumed = (options.work / name for name in ("lines.txt", "whole.txt", "resumed.txt"))
    write_lines(source, options.lines)
    for output in (whole, resumed):
        output.unlink(missing_ok=True)
    command = [*COMMAND, "translate", str(model), "--input", str(source), "--resume", "--output"]
    undisturbed = watch([*command, str(whole)], whole)
    size = whole.stat().st_size
    rng = random.Random(options.seed)
    hit = killed_and_resumed([*command, str(resumed)], resumed, size, options.kills, rng)
    lines_out = whole.read_bytes().count(b"\n")
    right = sum(a == b for a, b in zip(source.open(), whole.open(), strict=False))
    growth = growth_mb(undisturbed.samples, size)
    return {
        "bench": "translate/million_lines",
        "lines": options.lines,
        "lines_out": lines_out,
        "copied_right": round(right / options.lines, 4),
        "seconds": round(undisturbed.seconds, 1),
        "peak_mb": round(max(mb for _, mb in undisturbed.samples)),
        "growth_mb": None if growth is None else round(growth, 1),
        "flat": None if growth is None else growth <= options.slack,
        "kills": hit,
        "equal_after_kills": whole.read_bytes() == resumed.read_bytes() and lines_out == options.lines,
        "seed": options.seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments")
    parser.add_argument("--slack", type=float, default=30.0, help="MB that memory may grow and count as flat")
    parser.add_argument("--set", action="append", default=[], metavar="ROOM.FIELD=VALUE", dest="settings")
    parser.add_argument("--work", type=Path, required=True, help="for model, input and outputs; kept")
    parser.add_argument("--results", type=Path, help="file to add the line to; default results/DATE.jsonl")
    options = parser.parse_args()
    found = measure(options)
    line = {
        **found,
        "version": version("transduce"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "hardware": hardware(),
        "commit": commit(),
        "date": date.today().isoformat(),
    }
    results = options.results or ROOT / "benchmarks" / "results" / f"{date.today().isoformat()}.jsonl"
    append_line(results, line)
    sys.exit(found["flat"] is False or not found["equal_after_kills"])


if __name__ == "__main__":
    main()
