"""When did a run first validate at given values?

    python benchmarks/train/when_reached.py runs/en-de 36 38 40
    python benchmarks/train/when_reached.py runs/en-de --metric loss 3.0 2.5

A line a value: the value, and the training time at the first validation that showed it (validations
counted, interruptions not), or `-`. With --json one JSON line, in seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from transduce.errors import TransduceError
from transduce.train.history import read_events, when_reached
from transduce.train.log import format_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, help="the run's directory")
    parser.add_argument("values", type=float, nargs="+", help="such as 36 38 40")
    parser.add_argument("--metric", default="bleu", help="a figure of the validations (default: bleu)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        times = when_reached(read_events(arguments.run), arguments.metric, arguments.values)
    except TransduceError as error:
        sys.exit(f"error: {error}")
    if arguments.json:
        seconds = {f"{value:g}": time for value, time in times.items()}
        print(json.dumps({"run": str(arguments.run), "metric": arguments.metric, "seconds": seconds}))
        return
    for value, time in times.items():
        print(f"{arguments.metric} {value:g}\t{'-' if time is None else format_seconds(time)}")


if __name__ == "__main__":
    main()
