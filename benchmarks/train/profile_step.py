"""Where the time of our training step goes: torch's profiler over some updates, on one thread.

    python benchmarks/train/profile_step.py --shape small --work DIR

DIR is the prepared text of throughput.py. One thread, because that is what each worker of a training has.
Prints what every kind of operation takes, and one JSON line with these shares, the speed of the products
inside the step, and the speed of large products alone: their ratio says how much of the gap to the peak is
lost inside of products, the shares how much outside.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import torch
from in_process import Text, transduce_model, transduce_update
from record import ROOT, append_line, commit, hardware, today
from sgemm import _SHAPES, _median_gflops
from shapes import SHAPES
from torch.profiler import ProfilerActivity, profile

_WARM_UP = 12  # until the allocator has what it needs and pages are there
_KINDS = {  # the first that has the operation's name
    "products": ("aten::mm", "aten::addmm", "aten::addmm_", "mkldnn::_linear_pointwise"),
    "attention": ("attention", "bmm", "softmax"),
    "loss": ("exp", "logsumexp", "amax", "log", "gather", "scatter", "sub_", "div_"),
    "dropout": ("random", "bernoulli", "lt", "le", "ge", "gt", "where", "masked", "view_dtype"),
    "norm": ("layer_norm",),
    "optimizer": ("adam", "foreach", "linalg"),
    "embedding": ("embedding", "index"),
    "copies and zeros": ("copy_", "zero", "fill", "contiguous", "clone", "cat"),
    "sums and activations": ("add", "relu", "threshold", "clamp", "mul", "sum"),
}


def kind_of(name: str) -> str:
    """Which of the kinds an operation, such as `aten::mm`, belongs to."""
    for kind, words in _KINDS.items():
        exact = kind == "products"
        if any(name == word if exact else word in name.lower() for word in words):
            return kind
    return "other"


def product_flops(event: Any) -> int:
    """Of all calls that `event` stands for; torch counts no FLOPs for oneDNN's products."""
    matrices = [shape for shape in event.input_shapes if len(shape) > 1]
    if event.key == "aten::addmm_":
        del matrices[0]  # the sum
    left, right = matrices[:2]  # a third is what the result is written to
    columns = right[0] if event.key.startswith("mkldnn") else right[1]
    return int(2 * prod(left) * columns * event.count)


def measure(shape: str, work: Path, updates: int) -> dict[str, Any]:
    """Shares of the time of `updates` updates, and speeds of the products in and outside of them."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    text = Text(work / "store")
    update = transduce_update(transduce_model(SHAPES[shape], 0.1), text)
    batches = text.batches(seed=1)
    for rows in islice(batches, _WARM_UP):
        update(rows)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as profiler:
        for rows in islice(batches, updates):
            update(rows)
    events = profiler.key_averages(group_by_input_shape=True)
    times, names = Counter[str](), Counter[str]()
    flops = 0
    for event in events:
        times[kind_of(event.key)] += event.self_cpu_time_total
        names[event.key] += event.self_cpu_time_total
        flops += product_flops(event) if kind_of(event.key) == "products" else 0
    total = sum(times.values())
    alone = max(_median_gflops(*sizes, 0.5) for sizes in _SHAPES)
    return {
        "shares": {kind: round(time / total, 3) for kind, time in times.most_common()},
        "product_gflops": round(flops / times["products"] / 1e3, 1),
        "product_gflops_alone": round(alone, 1),
        "ms_per_update": round(total / updates / 1e3, 1),
        "top": {name: round(time / total, 3) for name, time in names.most_common(20)},
    }


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=sorted(SHAPES), default="small")
    parser.add_argument("--work", type=Path, required=True, help="the prepared text (throughput.py makes it)")
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results" / f"{today()}.jsonl")
    args = parser.parse_args()
    figures = measure(args.shape, args.work, args.updates)
    for kind, share in figures["shares"].items():
        print(f"{share:6.1%}  {kind}")
    line = {
        "bench": "train/profile_step",
        "shape": args.shape,
        "system": "transduce",
        "version": torch.__version__,
    }
    append_line(args.results, line | figures | {"date": today(), "hardware": hardware(), "commit": commit()})


if __name__ == "__main__":
    main()
