"""Ten pairs of 4,000 tokens among thousands of short ones, trained on within a memory budget.

    python benchmarks/memory/budget.py --work /tmp/budget
    python benchmarks/memory/budget.py --work /tmp/budget --memory 3GB --updates 30

Two runs of `transduce train --memory SIZE`, d_model 256 and 8,000 pieces:

    dropped     batch.max_len = 256: the ten pairs are left out, and the run says so
    kept        batch.max_len = 4100: they are trained on, in smaller pieces if need be

Each must end by itself, and its peak resident memory (VmHWM, the kernel's own high-water mark) must
stay within the budget. Prints one JSON line; the exit code is 1 unless all of that is so. With
`--memory none` nothing is limited, which shows what the budget is up against.

The long pairs are words of one token each, so that 4,000 words are about 4,000 tokens whatever the
vocabulary; the line tells how long they really became.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np

NUM_LONG, LONG_WORDS = 10, 4000
SHAPE = ["d_model=256", "d_ff=1024", "num_heads=4", "num_encoder_layers=3", "num_decoder_layers=3"]
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}


def generate(work: Path, pairs: int) -> None:
    """Short sentences of made-up words, and evenly among them ten very long ones, in two 'languages'."""
    rng = random.Random(0)
    syllables = ["ka", "lo", "mi", "ren", "tu", "sha", "vo", "pel", "qui", "dor", "est", "ang", "blu", "wir"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    common = range(50)  # so frequent that each becomes one piece
    work.mkdir(parents=True, exist_ok=True)
    every = pairs // NUM_LONG
    for name, count in (("train", pairs), ("valid", 50)):
        with (work / f"{name}.xx").open("w") as source, (work / f"{name}.yy").open("w") as target:
            for number in range(count):
                if name == "train" and number % every == every // 2 and number // every < NUM_LONG:
                    sentence = rng.choices(common, k=LONG_WORDS)
                else:
                    sentence = rng.choices(range(len(words)), weights, k=rng.randint(4, 24))
                source.write(" ".join(words[i] for i in sentence) + "\n")
                target.write(" ".join(words[i][::-1] for i in sentence) + "\n")


def peak_bytes(pid: int) -> int:
    """The kernel's high-water mark of a process's resident memory; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def run(work: Path, name: str, max_len: int, memory: str, updates: int) -> dict[str, object]:
    """One training: how it ended, its peak, what it said about long pairs, how long they are."""
    out = work / name
    shutil.rmtree(out, ignore_errors=True)
    settings = [f"model.{size}" for size in SHAPE]
    settings += ["tokenizer.vocab_size=8000", f"batch.max_len={max_len}", "batch.batch_tokens=4200"]
    # Cleaning has limits of its own, in words and characters, which are not what is measured here.
    settings += ["cleaning.max_words=10000", "cleaning.max_chars=100000"]
    settings += [f"train.max_steps={updates}", "train.validate_every=0", "train.validate_sentences=0"]
    settings += ["train.average_checkpoints=1", "search.beam_size=1", "search.max_extra_len=5"]
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "train"]
    command += ["--source", str(work / "train.xx"), "--target", str(work / "train.yy")]
    command += ["--valid-source", str(work / "valid.xx"), "--valid-target", str(work / "valid.yy")]
    command += ["--out", str(out)]
    if memory != "none":
        command += ["--memory", memory]
    for setting in settings:
        command += ["--set", setting]
    begun, peak = time.monotonic(), 0
    with (work / f"{name}.stderr").open("w+") as stream:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream)
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            time.sleep(0.05)
        stream.seek(0)
        said = [line.strip() for line in stream]
    if process.returncode:
        print("\n".join(said[-5:]), file=sys.stderr)
    return {
        "max_len": max_len,
        "exit": process.returncode,
        "peak_mb": round(peak / 2**20),
        "seconds": round(time.monotonic() - begun, 1),
        "told": [line for line in said if re.search(r"long|memory|micro|split", line)],
        "longest_tokens": longest(out / "store" / "train"),
        "finished": (out / "model" / "model.safetensors").exists(),
    }


def longest(store: Path) -> int:
    """Tokens of the longest stored source sentence."""
    file = store / "source.offsets"
    return int(np.diff(np.fromfile(file, np.int64)).max()) if file.exists() else 0


def bytes_of(size: str) -> int:
    """`3GB` as bytes, in powers of 1,024."""
    found = re.fullmatch(r"([\d.]+)\s*([KMG]B)", size.strip().upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"a size is a number and KB, MB or GB, as 3GB; got {size!r}")
    return int(float(found[1]) * UNITS[found[2]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="directory for text and runs")
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--memory", default="3GB")
    parser.add_argument("--updates", type=int, default=30)
    options = parser.parse_args()
    budget = float("inf") if options.memory == "none" else bytes_of(options.memory)
    generate(options.work, options.pairs)
    dropped = run(options.work, "dropped", 256, options.memory, options.updates)
    kept = run(options.work, "kept", 4100, options.memory, options.updates)
    # "10 pairs are longer than …": the first run must say it, the second must not.
    told = [
        any(re.match(rf"{NUM_LONG} pairs are longer", line) for line in r["told"]) for r in (dropped, kept)
    ]
    within = [r["finished"] and r["peak_mb"] * 2**20 <= budget for r in (dropped, kept)]
    good = told == [True, False] and all(within)
    line = {
        "bench": "memory/budget",
        "memory": options.memory,
        "pairs": options.pairs,
        "updates": options.updates,
        "dropped": dropped,
        "kept": kept,
        "good": good,
        "version": version("transduce"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "hardware": platform.processor() or platform.machine(),
        "date": date.today().isoformat(),
    }
    print(json.dumps(line))
    sys.exit(not good)


if __name__ == "__main__":
    main()
