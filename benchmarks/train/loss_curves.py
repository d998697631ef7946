"""Does the fast path learn the same? Losses of 200 updates beside the plain path's, at equal batches.

    python benchmarks/train/loss_curves.py --shape small --data ../shared/data/multi30k

Fast is what `transduce train` runs (`train_step`, the chunked loss, fused Adam); plain is plain.py with full
logits, `F.cross_entropy`, attention written out and torch's Adam, not fused, from the same weights. Without
dropout, both losses of every update are compared: the largest relative difference is recorded, over all
updates and over the first half. Rounding grows from update to update in any training; how fast, a third run
tells: the plain path again, half of its first weights moved to the next float32. With dropout fast and plain
draw other numbers, so that only the course of the curves can be compared: several seeds of each are run, and
the gap of their means over the last updates is told in standard errors of that gap.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from itertools import islice
from pathlib import Path

import torch
from corpus import PAD_ID, VOCAB_SIZE, Corpus, prepare_corpus
from in_process import Text, Update, plain_update, transduce_model, transduce_update
from plain import PlainTransformer
from record import ROOT, append_line, commit, hardware, today
from shapes import SHAPES
from torch import Tensor

from transduce import __version__

_LAST = 20  # updates whose mean is a curve's end, with dropout


Curves = dict[str, list[float]]
"""By path: mean smoothed loss of each update."""


def curves(
    shape: str, corpus: Corpus, steps: int, seed: int, dropout: float, *, yardstick: bool = False
) -> Curves:
    """Fast, plain and, as a `yardstick`, nudged, from the same weights over the same batches."""
    torch.manual_seed(seed)
    text = Text(corpus.directory / "store")
    model = transduce_model(SHAPES[shape], dropout)
    weights = {name: weight.clone() for name, weight in model.tensors().items()}
    updates = {"fast": transduce_update(model, text), "plain": plain(shape, dropout, weights, text)}
    if yardstick:
        updates["nudged"] = plain(shape, dropout, nudged(weights), text)
    losses: Curves = {path: [] for path in updates}
    for step, rows in enumerate(islice(text.batches(seed), steps), 1):
        for path, update in updates.items():
            losses[path].append(update(rows))
        if step % 10 == 0:
            told = ", ".join(f"{path} {losses[path][-1]:.6f}" for path in losses)
            print(f"seed {seed}, step {step}: {told}", file=sys.stderr, flush=True)
    return losses


def plain(shape: str, dropout: float, weights: dict[str, Tensor], text: Text) -> Update:
    """The plain path from these weights."""
    model = PlainTransformer(SHAPES[shape], VOCAB_SIZE, PAD_ID, dropout)
    model.load_state_dict(weights)
    return plain_update(model, lambda batch: model(batch.source, batch.target), text)


def nudged(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Half of the weights, drawn, moved up to the next float32: as little as there is."""
    up = torch.tensor(math.inf)
    return {
        name: torch.where(torch.rand_like(weight) < 0.5, torch.nextafter(weight, up), weight)
        for name, weight in weights.items()
    }


def exact(shape: str, corpus: Corpus, steps: int) -> dict[str, object]:
    """Without dropout: how far fast, and the yardstick, come from plain."""
    losses = curves(shape, corpus, steps, seed=1, dropout=0.0, yardstick=True)
    found: dict[str, object] = {"loss": round(losses["fast"][-1], 6)}
    for path, prefix in (("plain", "plain_"), ("nudged", "nudged_")):
        found[f"{prefix}loss"] = round(losses[path][-1], 6)
    for path, prefix in (("fast", ""), ("nudged", "nudged_")):
        differences = [abs(a - b) / b for a, b in zip(losses[path], losses["plain"], strict=True)]
        worst = max(range(steps), key=lambda step: differences[step])
        found[f"{prefix}largest_relative_difference"] = float(f"{differences[worst]:.3g}")
        found[f"{prefix}at_step"] = worst + 1
        found[f"{prefix}largest_in_first_half"] = float(f"{max(differences[: steps // 2]):.3g}")
    return found


def statistical(shape: str, corpus: Corpus, steps: int, seeds: int) -> dict[str, object]:
    """With dropout 0.1: mean gap of the curves' ends over seeds, and its standard error."""
    gaps, ends = [], []
    for seed in range(1, seeds + 1):
        losses = curves(shape, corpus, steps, seed, dropout=0.1)
        ends.append(statistics.fmean(losses["fast"][-_LAST:]))
        # The same batches: their noise cancels.
        gaps.append(ends[-1] - statistics.fmean(losses["plain"][-_LAST:]))
    gap, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(seeds)
    return {
        "loss": round(statistics.fmean(ends), 4),
        "seeds": seeds,
        "mean_gap": round(gap, 5),
        "standard_error": round(error, 5),
        "gap_in_errors": round(gap / error, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--dropout-seeds", type=int, default=0, help="runs with dropout too; 0, or at least 2"
    )
    parser.add_argument("--data", type=Path, required=True, help="directory with train.en.gz, train.de.gz")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmark-train"), help="kept between runs")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    options = parser.parse_args()
    corpus = prepare_corpus(options.data, options.work.resolve())
    kinds = {0.0: lambda: exact(options.shape, corpus, options.steps)}
    if options.dropout_seeds > 1:
        kinds[0.1] = lambda: statistical(options.shape, corpus, options.steps, options.dropout_seeds)
    for dropout, run in kinds.items():
        line = {"bench": "train/loss_curves", "shape": options.shape, "system": "transduce"}
        line |= {"version": __version__, "dropout": dropout, "steps": options.steps, **run()}
        line |= {"date": today(), "hardware": hardware(), "commit": commit()}
        line |= {"torch": torch.__version__, "threads": torch.get_num_threads()}
        append_line(options.results, line)


if __name__ == "__main__":
    main()
