"""What a finished run of examples/multi30k.sh reached, as one JSON line.

    examples/multi30k.sh ../shared/data/multi30k runs/hour --set train.seed=2
    python benchmarks/train/multi30k.py runs/hour --data ../shared/data/multi30k

Training time is the run's own, validations counted; `wall_seconds` is all from the recipe, the run's
first file, to the last line of its log. Scores are of the test translations that the script left.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from record import ROOT, append_line, commit, hardware, today

from transduce import __version__
from transduce.evaluate import score
from transduce.model.transformer import Transformer
from transduce.recipe import load_recipe
from transduce.text.lines import read_lines
from transduce.train.history import read_events, when_reached

_TEST = "test_2016_flickr"
_VALUES = (36.0, 38.0, 40.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the run's directory")
    parser.add_argument("--data", type=Path, required=True, help="the dataset, as for the script")
    parser.add_argument("--remark", default="", help="such as what else the machine did")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    options = parser.parse_args()
    line = {"bench": "train/multi30k", "system": "transduce", "version": __version__}
    line |= course(options.run) | scores(options.run, options.data)
    line |= {"remark": options.remark} if options.remark else {}
    line |= {"date": today(), "hardware": hardware(), "commit": commit(), "torch": torch.__version__}
    append_line(options.results, line)


def course(run: Path) -> dict[str, Any]:
    """What was trained, for how long, and when it validated at what."""
    recipe = load_recipe(file=run / "model" / "recipe.toml")
    events = read_events(run)
    updates = [event for event in events if event["event"] == "train"]
    validations = [event for event in events if event["event"] == "validate"]
    started = (run / "recipe.toml").stat().st_mtime
    reached = when_reached(events, "bleu", _VALUES)
    return {
        "recipe": recipe.description,
        "seed": recipe.train.seed,
        "parameters": Transformer(recipe.model).num_parameters,
        "steps": validations[-1]["step"],
        "train_seconds": validations[-1]["seconds"],
        "wall_seconds": round(events[-1]["time"] - started),
        "tok_s": round(sorted(event["tokens_per_second"] for event in updates)[len(updates) // 2]),
        "peak_mb": max(event["memory_mb"] for event in updates),
        "valid_nll": round(validations[-1]["nll"], 4),
        "valid_bleu_greedy": round(validations[-1]["bleu"], 2),
        "seconds_to_valid_bleu_greedy": {f"{value:g}": seconds for value, seconds in reached.items()},
        "beam_size": recipe.search.beam_size,
        "length_penalty": recipe.search.length_penalty,
        "alpha": recipe.search.alpha,
    }


def scores(run: Path, data: Path) -> dict[str, Any]:
    """BLEU of the test translations: lower-cased and tokenised as published, and detokenised."""
    plain, tokenised = (lines(run / name) for name in ("test_2016.de", "test_2016.tok.de"))
    raw, lowered = lines(data / f"{_TEST}.de"), lines(data / "tok" / f"{_TEST}.lc.norm.tok.de")
    as_published = score(tokenised, lowered, tokenize="none").bleu
    cased = score(plain, raw, target_language="de").bleu
    uncased = score(plain, raw, target_language="de", lowercase=True).bleu
    return {
        "test_2016_bleu_tok_none": round(as_published.value, 2),
        "test_2016_bleu_detokenised": round(cased.value, 2),
        "test_2016_bleu_detokenised_lc": round(uncased.value, 2),
        "signatures": [as_published.signature, cased.signature, uncased.signature],
    }


def lines(file: Path) -> list[str]:
    """Of the plain file, or of the packed one."""
    return list(read_lines(file if file.exists() else file.with_name(f"{file.name}.gz")))


if __name__ == "__main__":
    main()
