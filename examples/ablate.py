"""Table 3 of "Attention Is All You Need", scaled down: see ablate.sh for how to run it.

Each row is its preset with every width divided by 4 (`d_model`, `d_ff`, `d_k`, `d_v`) and every depth
by 2, so that rows stand to each other as in the paper; heads, dropout and smoothing are as they are.
The text is small, so the vocabulary, the batch, warm-up and the number of updates are smaller too.
The rate is the paper's formula, which gives narrower models a higher one.

What it can show is in which direction a choice moves the figures, not the paper's figures: the text
is 29,000 captions, seen some ten times, where the paper has 4.5 million pairs. Perplexity is of the
last update's weights, per piece; BLEU is of the averaged weights; both on the validation text, one
seed each. Differences of half a BLEU mean nothing here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from transduce.recipe import Recipe, load_recipe

WIDTHS = ("d_model", "d_ff", "d_k", "d_v")
DEPTHS = ("num_encoder_layers", "num_decoder_layers")

PAPER: dict[str, tuple[str, float, float, int]] = {
    "base": ("", 4.92, 25.8, 65),
    "A1": ("1 head", 5.29, 24.9, 65),
    "A2": ("4 heads", 5.00, 25.5, 65),
    "A3": ("16 heads", 4.91, 25.8, 65),
    "A4": ("32 heads", 5.01, 25.4, 65),
    "B1": ("d_k / 4", 5.16, 25.1, 58),
    "B2": ("d_k / 2", 5.01, 25.4, 60),
    "C1": ("depth / 3", 6.11, 23.7, 36),
    "C2": ("depth · 2/3", 5.19, 25.3, 50),
    "C3": ("depth · 4/3", 4.88, 25.5, 80),
    "C4": ("d_model / 2", 5.75, 24.5, 28),
    "C5": ("d_model · 2", 4.66, 26.0, 168),
    "C6": ("d_ff / 2", 5.12, 25.4, 53),
    "C7": ("d_ff · 2", 4.75, 26.2, 90),
    "D1": ("dropout 0", 5.77, 24.6, 65),
    "D2": ("dropout 0.2", 4.95, 25.5, 65),
    "D3": ("smoothing 0", 4.67, 25.3, 65),
    "D4": ("smoothing 0.2", 5.47, 25.7, 65),
    "E": ("learned positions", 4.92, 25.7, 65),
    "big": ("big, dropout 0.3", 4.33, 26.4, 213),
}
"""Row: what differs from base; in the paper (newstest2013) perplexity, BLEU, million parameters."""


def preset_of(row: str) -> str:
    """The name that `--preset` knows a row by."""
    return row if row in ("base", "big") else f"table3-{row}"


def scaled(recipe: Recipe, updates: int) -> list[str]:
    """Settings that make a row's preset small."""
    model = recipe.model
    settings = {f"model.{name}": getattr(model, name) // 4 for name in WIDTHS}
    settings |= {f"model.{name}": getattr(model, name) // 2 for name in DEPTHS}
    settings |= {
        "data.tokenized": "true",
        "tokenizer.vocab_size": 8000,
        "batch.batch_tokens": 4096,
        "train.max_steps": updates,
        "train.warmup_steps": max(1, updates * 2 // 5),
        "train.validate_every": 0,  # only at the end
        "train.validate_sentences": 0,
        "train.checkpoint_every": max(1, updates // 20),
        "train.keep_checkpoints": 5,
        "train.average_checkpoints": 5,
    }
    return [f"{name}={value}" for name, value in settings.items()]


def text_file(data: Path, name: str) -> str:
    """The plain file of the dataset, or the packed one."""
    plain = data / "tok" / f"{name.replace('.', '.lc.norm.tok.')}"
    return str(plain if plain.exists() else plain.with_name(plain.name + ".gz"))


def train(row: str, options: argparse.Namespace) -> None:
    """Run a row, or go on with it; one that is finished says so and is left alone."""
    command = [os.environ.get("TRANSDUCE", "transduce"), "train", "--preset", preset_of(row)]
    command += ["--out", str(options.out / row)]
    for option, name in (("source", "train.en"), ("target", "train.de")):
        command += [f"--{option}", text_file(options.data, name)]
    for option, name in (("valid-source", "val.en"), ("valid-target", "val.de")):
        command += [f"--{option}", text_file(options.data, name)]
    for setting in [*scaled(load_recipe(preset=preset_of(row)), options.updates), *options.settings]:
        command += ["--set", setting]
    print(f"--- {row} {PAPER[row][0]}", file=sys.stderr, flush=True)
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def figures(run: Path) -> tuple[int, int, float, float]:
    """Parameters, updates, perplexity and BLEU of a finished row, from its log and its card."""
    log = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [event for event in log if event["event"] == "validate"][-1]
    card = (run / "model" / "card.md").read_text(encoding="utf-8")
    parameters = re.search(r"^- ([\d,]+) parameters", card, re.MULTILINE)
    bleu = re.search(r"^BLEU\S* = ([\d.]+)", card, re.MULTILINE)
    assert parameters is not None, f"{run}: the card does not tell the size"
    assert bleu is not None, f"{run}: the card does not tell the score"
    return int(parameters[1].replace(",", "")), last["step"], last["perplexity"], float(bleu[1])


def table(out: Path, rows: list[str]) -> str:
    """All rows beside the paper's."""
    lines = [
        f"{'':27}{'here':^36}{'the paper':^26}",
        f"{'row':5}{'base with':20}{'parameters':>12}{'updates':>9}{'ppl':>8}{'BLEU':>7}"
        f"{'parameters':>13}{'ppl':>7}{'BLEU':>7}",
    ]
    for row in rows:
        what, paper_ppl, paper_bleu, millions = PAPER[row]
        parameters, updates, ppl, bleu = figures(out / row)
        lines.append(
            f"{row:5}{what:20}{parameters:>12,}{updates:>9,}{ppl:>8.2f}{bleu:>7.1f}"
            f"{f'{millions} M':>13}{paper_ppl:>7.2f}{paper_bleu:>7.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ablate.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the dataset's directory")
    parser.add_argument("out", type=Path, nargs="?", default=Path("runs/table3"), help="a run a row")
    parser.add_argument("--rows", help="some of them, as base,A1,C3; default all but big")
    parser.add_argument("--updates", type=int, default=1000, help="of each row")
    parser.add_argument("--set", action="append", default=[], metavar="ROOM.FIELD=VALUE", dest="settings")
    options = parser.parse_args()
    rows = options.rows.split(",") if options.rows else [row for row in PAPER if row != "big"]
    unknown = [row for row in rows if row not in PAPER]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; the rows are {', '.join(PAPER)}")
    for row in rows:
        train(row, options)
    print(table(options.out, rows))


if __name__ == "__main__":
    main()
