"""`transduce translate`: a stream or file of lines to a stream or file of translations.

Nothing but translations goes to stdout; what was split, cut or repaired is counted on stderr.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.console import Console

from transduce.errors import DataError
from transduce.progress import track
from transduce.text.lines import count_lines, iter_lines, open_bytes
from transduce.translate.stream import translate_lines
from transduce.translate.translator import EngineName, Translation, Translator

if TYPE_CHECKING:
    from transduce.translate.ctranslate2_runtime import Runtime

__all__ = ["translate_stream"]

_TOLD = {
    "split": "were longer than the model takes at once and were translated in pieces",
    "truncated": "reached the length limit and were cut",
    "repeated": "repeat themselves",
    "copied": "were copied unchanged",
}


def translate_stream(
    model: Path,
    input_file: Path | None,
    output_file: Path | None,
    *,
    jsonl: bool,
    repair: bool,
    console: Console,
    engine: EngineName = "auto",
    runtime: Runtime | None = None,
    **search: Any,
) -> None:
    """Translate every line of the input, in order.

    Args:
        model: model directory or finished run.
        input_file: `.gz` and `.zst` are unpacked; None for stdin.
        output_file: None for stdout.
        jsonl: a JSON object a line instead of plain text.
        repair: replace bytes that are not UTF-8 instead of stopping.
        console: where progress and counts are shown.
        engine: as `Translator.load`.
        runtime: threads and number form of an export.
        search: fields of `SearchConfig`.

    Raises:
        TransduceError: the model or the input cannot be read.
    """
    if output_file is not None and input_file is not None and output_file.resolve() == input_file.resolve():
        raise DataError(f"{output_file} is the input as well: choose another --output")
    total = count_lines(input_file) if input_file is not None else None
    translator = Translator.load(model, engine=engine, runtime=runtime)
    flags: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    with ExitStack() as stack:
        source, name = _input(input_file, stack)
        target = _output(output_file, stack)
        tell = stack.enter_context(track(console, "translating", "lines", total))
        lines = iter_lines(source, name, repair=repair, notes=notes)
        for line, translation in translate_lines(
            translator, lines, progress=_flushing(target, tell), alignment=jsonl, details=jsonl, **search
        ):
            target.write(_formatted(line, translation, jsonl=jsonl).encode() + b"\n")
            flags.update(translation.flags)
        target.flush()
    _report(flags, notes, console)


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
