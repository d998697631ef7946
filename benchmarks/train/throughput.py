"""Training throughput: ours beside other toolkits, the same work, in turn, on this machine.

    python benchmarks/train/throughput.py --shape small --data ../shared/data/multi30k --peers DIR

The work is Multi30k en-de in 8,000 joint BPE pieces, batches of 4,096 tokens, dropout 0.1, label
smoothing 0.1, fp32, two threads. Systems take turns (A B C, A B C, …), each time in a process of its own;
the figure is the median of their rounds, in real source + target tokens a second. A system that is not
there is told and left out. Needs a quiet machine. benchmarks/README.md says how to install the peers and
what could not be made equal.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

from command_line import COMMAND_LINES, MeasurementError
from command_line import measure as measure_command
from corpus import Corpus, prepare_corpus
from record import ROOT, append_line, commit, hardware, today
from shapes import SHAPES

_HERE = Path(__file__).parent
# What in_process.py knows; named here because importing it would bring torch into this process.
_IN_PROCESS = ("transduce", "plain", "nn.Transformer", "transformers-eager", "transformers-sdpa")
_SYSTEMS = (*_IN_PROCESS, *COMMAND_LINES)
_SHORTHANDS = {"transformers": ("transformers-eager", "transformers-sdpa")}
_REMARKS = {
    "opennmt-py": "pre-norm; dropout inside the feed-forward; its own batches, without repeated sources",
    "fairseq": "its own batches; target tokens logged, source tokens added by the corpus's ratio",
    "transduce-cli": "the whole `transduce train`; its own 8,000 pieces, 256 of them bytes",
}


def _run_json(command: list[str]) -> dict[str, float]:
    """Run one of this folder's scripts; the JSON object of its last line."""
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if result.returncode:
        raise MeasurementError(result.stderr.strip()[-2000:])
    answer: dict[str, float] = json.loads(result.stdout.strip().rpartition("\n")[2])
    return answer


def _measure(name: str, corpus: Corpus, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """One round of one system."""
    if name in COMMAND_LINES:
        return measure_command(
            name,
            options.shape,
            corpus,
            options.peers.resolve(),
            seconds=options.seconds,
            warm_up=options.warm_up,
            seed=seed,
        )
    command = [str(_HERE / "in_process.py"), "--system", name, "--shape", options.shape, "--seed", str(seed)]
    command += ["--work", str(corpus.directory), "--seconds", str(options.seconds)]
    return {**_run_json([*command, "--warm-up", str(options.warm_up)])}


def _rounds(corpus: Corpus, options: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    """All rounds of all systems, in turn; a system that fails is not tried again."""
    results: dict[str, list[dict[str, object]]] = {name: [] for name in options.systems}
    failed: set[str] = set()
    for seed in range(1, options.rounds + 1):
        for name in results:
            if name in failed:
                continue
            try:
                result = _measure(name, corpus, seed, options)
            except MeasurementError as error:
                failed.add(name)
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
                continue
            results[name].append(result)
            print(f"round {seed}: {name} {result['tok_s']:,.0f} tokens/s", file=sys.stderr, flush=True)
    return {name: rounds for name, rounds in results.items() if rounds}


def _line(
    name: str, rounds: list[dict[str, object]], peaks: list[dict[str, float]], corpus: Corpus, shape: str
) -> dict[str, object]:
    """What is recorded of a system; the share is of the higher of both ceilings, which flatters nobody."""
    tok_s = statistics.median(float(result["tok_s"]) for result in rounds)
    gflops = tok_s * corpus.flops_per_token[shape] / 1e9
    shared, split = (max(peak[kind] for peak in peaks) for kind in ("shared", "split"))
    line = {
        "bench": "train/throughput",
        "shape": shape,
        "system": name,
        "version": rounds[-1]["version"],
        "tok_s": round(tok_s, 1),
        "sgemm_share": round(gflops / shared, 4),
        "peak_mb": round(max(float(result["peak_mb"]) for result in rounds)),
        "loss": round(statistics.median(float(result["loss"]) for result in rounds), 3),
        "date": today(),
        "hardware": hardware(),
        "commit": commit(),
        "rounds": len(rounds),
        "tok_s_all": [round(float(result["tok_s"]), 1) for result in rounds],
        "updates": [result["updates"] for result in rounds],
        "gflops": round(gflops, 1),
        "sgemm_share_split": round(gflops / split, 4),
        "sgemm_gflops": shared,
        "sgemm_gflops_split": split,
        "sgemm_gflops_all": [peak["shared"] for peak in peaks],
        "mflop_per_token": round(corpus.flops_per_token[shape] / 1e6, 2),
        "torch": rounds[-1]["torch"],
        "threads": int(os.environ["OMP_NUM_THREADS"]),
    }
    return line | ({"remark": _REMARKS[name]} if name in _REMARKS else {})


def _systems(text: str) -> list[str]:
    """`a,b` → names; `transformers` stands for both of its attentions."""
    names = [name for word in text.split(",") for name in _SHORTHANDS.get(word, (word,))]
    if unknown := [name for name in names if name not in _SYSTEMS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(_SYSTEMS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument(
        "--systems", type=_systems, default=list(_SYSTEMS), help=f"of {', '.join(_SYSTEMS)} (all of them)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=45.0, help="of training a round, after warm-up")
    parser.add_argument("--warm-up", type=int, default=15, help="updates before the clock starts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, required=True, help="directory with train.en.gz, train.de.gz")
    parser.add_argument("--peers", type=Path, default=Path("peers"), help="directory of their environments")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmark-train"), help="kept between runs")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a running system is ended as well
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # the checkout's package, wherever it is installed from
    sys.path.insert(0, os.environ["PYTHONPATH"])
    corpus = prepare_corpus(options.data, options.work.resolve())
    peaks = [_run_json([str(_HERE / "sgemm.py")])]
    results = _rounds(corpus, options)
    peaks.append(_run_json([str(_HERE / "sgemm.py")]))
    for name, rounds in results.items():
        append_line(options.results, _line(name, rounds, peaks, corpus, options.shape))


if __name__ == "__main__":
    main()
