"""Peak resident memory of every stage on a large generated corpus.

    python benchmarks/memory/large_corpus.py --pairs 2000000 --work /tmp/large

Each stage runs in a process of its own, so that one's peak does not hide another's. Prints a JSON
line: for each stage seconds and peak MB; for training also what model and optimiser themselves need.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

STEPS = 50


def generate(work: Path, pairs: int) -> None:
    """Sentences of made-up words, all different, in two 'languages' that correspond word by word."""
    rng = random.Random(0)
    syllables = ["ka", "lo", "mi", "ren", "tu", "sha", "vo", "pel", "qui", "dor", "est", "ang", "blu", "wir"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(60_000)]
    other = [word[::-1] + rng.choice(["en", "e", "er", ""]) for word in words]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    work.mkdir(parents=True, exist_ok=True)
    with (work / "train.xx").open("w") as source, (work / "train.yy").open("w") as target:
        done = 0
        while done < pairs:
            stream = rng.choices(range(len(words)), weights, k=200_000)
            at = 0
            while at + 25 < len(stream) and done < pairs:
                length = rng.randint(4, 24)
                sentence = stream[at : at + length]
                at += length
                source.write(" ".join(words[i] for i in sentence) + ".\n")
                target.write(" ".join(other[i] for i in sentence) + ".\n")
                done += 1


def measured(arguments: list[str]) -> dict[str, float]:
    """Run one command; its wall seconds and peak resident memory."""
    before = time.monotonic()
    code = (
        "import json, resource, sys\nsys.argv = ['transduce', *json.loads(sys.argv[1])]\n"
        "from transduce.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    sys.stderr.write(f'PEAK {peak}\\n')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        sys.exit(result.stderr[-3000:])
    peak = int(result.stderr.rsplit("PEAK ", 1)[1]) / 1024
    return {"seconds": round(time.monotonic() - before, 1), "peak_mb": round(peak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    if not (options.work / "train.yy").exists():
        generate(options.work, options.pairs)
    files = ["--source", str(options.work / "train.xx"), "--target", str(options.work / "train.yy")]
    train = ["train", *files, "--preset", "small", "--out", str(options.work / "run")]
    train += [
        "--set",
        "train.validate_every=0",
        "--set",
        "train.validate_sentences=0",
        "--set",
        "train.average_checkpoints=1",
    ]
    stages = {
        "check": measured(["check", *files]),
        # One update: nearly all of it is cleaning, learning the vocabulary and tokenizing.
        "prepare": measured([*train, "--set", "train.max_steps=1"]),
        "train_50": measured([*train, "--set", f"train.max_steps={STEPS}", "--allow-changes"]),
    }
    weights = (options.work / "run" / "model" / "model.safetensors").stat().st_size / 2**20
    line = {
        "bench": "memory/large_corpus",
        "pairs": options.pairs,
        "stages": stages,
        "model_and_optimizer_mb": round(4 * weights),  # weights, gradients, two moments
        "corpus_mb": round(sum((options.work / f"train.{x}").stat().st_size for x in ("xx", "yy")) / 2**20),
        "version": version("transduce"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "hardware": platform.processor() or platform.machine(),
        "date": date.today().isoformat(),
        "self_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
