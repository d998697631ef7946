"""`transduce translate`: a stream or file of lines to a stream or file of translations.

Nothing but translations goes to stdout; what was split, cut or repaired is counted on stderr.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from rich.console import Console

from transduce.errors import DataError
from transduce.progress import track
from transduce.text.lines import count_lines, iter_lines, open_bytes
from transduce.translate.alignment import pharaoh
from transduce.translate.glossary import Glossary
from transduce.translate.stream import translate_lines
from transduce.translate.translator import Translation, Translator

if TYPE_CHECKING:
    from transduce.search.ensemble import Mean

__all__ = ["translate_stream"]

_TOLD = {
    "split": "were longer than the model takes at once and were translated in pieces",
    "truncated": "reached the length limit and were cut",
    "repeated": "repeat themselves",
    "copied": "were copied unchanged",
    "length": "are much longer or shorter than their source",
    "empty": "have an empty translation",
    "glossary": "lack a term of the glossary",
    "placeholders": "lost or doubled a protected part",
}


def translate_stream(
    model: Path,
    input_file: Path | None,
    output_file: Path | None,
    *,
    jsonl: bool,
    repair: bool,
    console: Console,
    alignments: Path | None = None,
    glossary: Path | None = None,
    ensemble: Sequence[Path] = (),
    mean: str = "probability",
    **options: Any,
) -> None:
    """Translate every line of the input, in order.

    Args:
        model: model directory or finished run.
        input_file: `.gz` and `.zst` are unpacked; None for stdin.
        output_file: None for stdout.
        jsonl: a JSON object a line instead of plain text.
        repair: replace bytes that are not UTF-8 instead of stopping.
        console: where progress and counts are shown.
        alignments: a file for word alignments in Pharaoh's form, a line for each line.
        glossary: a file of lines `source TAB target`.
        ensemble: models that translate together with `model`.
        mean: what they are averaged by.
        options: for `Translator.translate`: `protect`, and fields of `SearchConfig`.

    Raises:
        TransduceError: the model or the input cannot be read.
    """
    _refuse_same_file("--output", output_file, input_file)
    _refuse_same_file("--alignments", alignments, input_file)
    if alignments is not None and output_file is not None and alignments.resolve() == output_file.resolve():
        raise DataError(f"{alignments} is the output as well: choose another --alignments")
    if glossary is not None:
        options["glossary"] = Glossary.load(glossary)
    total = count_lines(input_file) if input_file is not None else None
    if mean != "probability" and not ensemble:
        raise DataError("--ensemble-mean only matters to several models: give --ensemble as well")
    models = [model, *ensemble] if ensemble else model
    translator = Translator.load(models, mean=cast("Mean", mean))
    translator.translate([], **options)  # settings that contradict each other are told before any line
    flags: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    with ExitStack() as stack:
        source, name = _input(input_file, stack)
        target = _output(output_file, stack)
        aligned = stack.enter_context(alignments.open("wb")) if alignments is not None else None
        tell = stack.enter_context(track(console, "translating", "lines", total))
        lines = iter_lines(source, name, repair=repair, notes=notes)
        for line, translation in translate_lines(
            translator,
            lines,
            progress=_flushing(target, tell),
            alignment=jsonl or aligned is not None,
            **options,
        ):
            target.write(_formatted(line, translation, jsonl=jsonl).encode() + b"\n")
            if aligned is not None:
                aligned.write(pharaoh(translation.word_alignment).encode() + b"\n")
            flags.update(translation.flags)
        target.flush()
    _report(flags, notes, console)


def _refuse_same_file(option: str, file: Path | None, input_file: Path | None) -> None:
    """Writing over what is being read would destroy it."""
    if file is not None and input_file is not None and file.resolve() == input_file.resolve():
        raise DataError(f"{file} is the input as well: choose another {option}")


def _input(file: Path | None, stack: ExitStack) -> tuple[BinaryIO, str]:
    if file is None:
        return sys.stdin.buffer, "stdin"
    return stack.enter_context(open_bytes(file)), str(file)


def _output(file: Path | None, stack: ExitStack) -> BinaryIO:
    return sys.stdout.buffer if file is None else stack.enter_context(file.open("wb"))


def _flushing(target: BinaryIO, tell: Callable[[int], None]) -> Callable[[int], None]:
    """Progress that also hands on what was written: a person at a pipe waits for it."""

    def progress(done: int) -> None:
        target.flush()
        tell(done)

    return progress


def _formatted(line: str, translation: Translation, *, jsonl: bool) -> str:
    """One line of output, without its end."""
    if jsonl:
        return json.dumps({"source": line, **translation.to_dict()}, ensure_ascii=False)
    # The model never writes a line end, but a long text is joined with what stood between its pieces.
    return translation.text.replace("\r", " ").replace("\n", " ")


def _report(flags: Counter[str], notes: Counter[str], console: Console) -> None:
    for flag, count in flags.items():
        console.print(f"{count:,} lines {_TOLD[flag]}", soft_wrap=True)
    if notes["repaired"]:
        console.print(f"{notes['repaired']:,} lines were not UTF-8 and were repaired", soft_wrap=True)
