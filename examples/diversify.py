"""A better translator from the same text, where training may take longer.

    python examples/diversify.py recipe.toml --source train.en --target train.de \\
        --valid-source valid.en --valid-target valid.de --out runs/en-de \\
        --set train.max_minutes=100 --teacher train.max_minutes=40

1. A teacher learns both directions at once: OUT.teacher.
2. It translates the training text forwards and backwards: OUT.text.
3. The model learns from the true pairs, the true source with the teacher's translation, and the teacher's
   translation back with the true target, three times as many pairs: OUT.

The validation text must be a text of its own: pairs held out of the training text would come back in the
teacher's translations. What is not listed below is handed on to `transduce train`, for teacher and model
alike. Stopped at any moment, the same command goes on. The command is `transduce`, or what the environment's
TRANSDUCE says. This is data diversification (Nguyen et al., 2020) with one teacher.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from transduce.errors import TransduceError
from transduce.files import atomic_file
from transduce.text.corpus import open_corpus
from transduce.text.lines import read_lines

TRANSDUCE = os.environ.get("TRANSDUCE", "transduce")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--source", type=Path, required=True, help="source sentences, or TSV or JSONL with both"
    )
    parser.add_argument("--target", type=Path, help="target sentences, line by line")
    parser.add_argument("--out", type=Path, required=True, help="the model's run directory")
    parser.add_argument(
        "--teacher",
        action="append",
        default=[],
        metavar="ROOM.FIELD=VALUE",
        help="a --set for the teacher alone",
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--valid-{side}", required=True, metavar="FILE", help=f"held-out {side} sentences"
        )
    options, common = parser.parse_known_args()
    common += ["--valid-source", options.valid_source, "--valid-target", options.valid_target]
    try:
        diversify(options, common)
    except TransduceError as error:
        parser.exit(1, f"error: {error}\n")


def diversify(options: argparse.Namespace, common: list[str]) -> None:
    """All three steps; what is there already is kept."""
    teacher, text = (options.out.with_name(options.out.name + end) for end in (".teacher", ".text"))
    text.mkdir(parents=True, exist_ok=True)
    source, target, forward, backward = (
        text / f"{name}.txt" for name in ("source", "target", "forward", "backward")
    )
    if not target.exists():
        pairs = list(open_corpus(options.source, options.target))
        write(source, (pair.source for pair in pairs))
        write(target, (pair.target for pair in pairs))
    own = [part for setting in options.teacher for part in ("--set", setting)]
    both = joined(text / "both", [(source, target), (target, source)])
    run("the teacher", "train", *common, *own, "--out", teacher, *both)
    run("forwards", "translate", teacher, "--input", source, "--output", forward, "--resume")
    run("backwards", "translate", teacher, "--input", target, "--output", backward, "--resume")
    everything = joined(text / "all", [(source, target), (source, forward), (backward, target)])
    run("the model", "train", *common, "--out", options.out, *everything)


def joined(name: Path, texts: Sequence[tuple[Path, Path]]) -> Sequence[str | Path]:
    """One parallel text after the other in NAME.source.txt and NAME.target.txt, as options of `train`."""
    files = [name.with_name(f"{name.name}.{side}.txt") for side in ("source", "target")]
    for file, parts in zip(files, zip(*texts, strict=True), strict=True):
        write(file, (line for part in parts for line in read_lines(part)))
    return "--source", files[0], "--target", files[1]


def run(title: str, *command: str | Path) -> None:
    """A `transduce` command under a title; if it fails, its status is ours."""
    print(f"--- {command[0]}: {title}", file=sys.stderr, flush=True)
    status = subprocess.run([TRANSDUCE, *map(str, command)], check=False).returncode
    if status:
        sys.exit(status)


def write(file: Path, lines: Iterable[str]) -> None:
    """The whole file, or none: what was interrupted is not taken for finished."""
    with atomic_file(file) as out:
        out.writelines(f"{line}\n".encode() for line in lines)


if __name__ == "__main__":
    main()
