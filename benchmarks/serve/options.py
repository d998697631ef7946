"""What the three scripts are all told, and what they all do before they begin.

Does not know: servers, loads.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from questions import add_search  # noqa: E402
from record import today  # noqa: E402

__all__ = ["begin", "common_parser"]


def common_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of all three."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="model directory with an export")
    parser.add_argument("--source", type=Path, required=True, help="sentences, one a line, plain or .gz")
    parser.add_argument("--sentences", type=int, default=1000)
    add_search(parser)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmark-serve"))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    return parser


def begin(work: Path) -> None:
    """Take the checkout's package, here and in processes, wherever it is installed from; make `work`."""
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    sys.path.insert(0, os.environ["PYTHONPATH"])
    work.mkdir(parents=True, exist_ok=True)
