"""Lines of a file or stream to lines of another, so that it can be interrupted at any moment.

In: an open translator, files. Out: a line for each line, and, when asked for, a line of word
alignments. What is translated together depends on the lines alone where the input is a file: a
translation that goes on is the one that was interrupted. Does not know: documents, folders, models.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console

from transduce.errors import DataError
from transduce.progress import track
from transduce.text.lines import count_lines, iter_lines, open_bytes
from transduce.translate.alignment import pharaoh
from transduce.translate.resume import Record, cut_to_whole_lines, sidecar
from transduce.translate.stream import translate_lines
from transduce.translate.translator import Translation, Translator

__all__ = ["LineFiles", "translate_line_file", "translate_line_stream"]


@dataclass
class LineFiles:
    """How lines are translated and written, and what happened to them."""

    translator: Translator
    jsonl: bool
    repair: bool
    console: Console
    options: dict[str, Any]
    """For `Translator.translate`."""
    flags: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def run(
        self,
        source: BinaryIO,
        name: str,
        target: BinaryIO,
        aligned: BinaryIO | None,
        *,
        total: int | None,
        patient: bool,
        skip: int = 0,
    ) -> None:
        """Translate from one open stream to others.

        Args:
            source: bytes of lines.
            name: of the source, for messages.
            target: where translations go.
            aligned: where alignments go.
            total: number of lines, when known.
            patient: see `translate_lines`.
            skip: lines that are done already.

        Raises:
            TransduceError: a line cannot be read or translated; what came before it is written.
        """
        outputs = [target] if aligned is None else [target, aligned]
        with track(self.console, "translating", "lines", total) as tell:
            for line, translation in translate_lines(
                self.translator,
                iter_lines(source, name, repair=self.repair, notes=self.notes),
                patient=patient,
                skip=skip,
                progress=_flushing(outputs, tell),
                alignment=self.jsonl or aligned is not None,
                details=self.jsonl,
                **self.options,
            ):
                target.write(_formatted(line, translation, jsonl=self.jsonl).encode() + b"\n")
                if aligned is not None:
                    aligned.write(pharaoh(translation.word_alignment).encode() + b"\n")
                self.flags.update(translation.flags)
        for stream in outputs:
            stream.flush()


def translate_line_stream(
    lines: LineFiles,
    input_file: Path | None,
    output_file: Path | None,
    alignments: Path | None,
    *,
    overwrite: bool,
) -> None:
    """Lines to a terminal, a pipe or a device, or from one: nothing to be continued.

    Args:
        lines: how.
        input_file: None for stdin.
        output_file: None for stdout.
        alignments: a file for word alignments.
        overwrite: replace what stands in the outputs.

    Raises:
        DataError: an output stands and may not be replaced.
    """
    for path in (output_file, alignments):
        if path is not None and not overwrite and path.is_file() and path.stat().st_size:
            raise DataError(f"{path} exists: --overwrite replaces it")
    is_file = input_file is not None and input_file.is_file()
    total = count_lines(input_file) if input_file is not None and is_file else None  # a pipe is read once
    with ExitStack() as stack:
        source = sys.stdin.buffer if input_file is None else stack.enter_context(open_bytes(input_file))
        target = sys.stdout.buffer if output_file is None else stack.enter_context(output_file.open("wb"))
        aligned = stack.enter_context(alignments.open("wb")) if alignments is not None else None
        name = "stdin" if input_file is None else str(input_file)
        lines.run(source, name, target, aligned, total=total, patient=is_file)


def translate_line_file(
    lines: LineFiles,
    input_file: Path,
    output_file: Path,
    record: Record,
    *,
    resume: bool,
    overwrite: bool,
    alignments: Path | None = None,
) -> None:
    """Translate a file of lines into a file of lines.

    Args:
        lines: how.
        input_file: `.gz` and `.zst` are unpacked.
        output_file: grows line by line.
        record: the model and settings.
        resume: go on where an interrupted translation stopped.
        overwrite: replace what stands in the outputs.
        alignments: a second output, for word alignments.

    Raises:
        DataError: an output stands and may not be replaced, or is not what `record` says.
    """
    record = record.of(input_file, alignments=alignments is not None)
    outputs = [output_file] if alignments is None else [output_file, alignments]
    total = count_lines(input_file)
    done = _lines_done(outputs, total, record, resume=resume, overwrite=overwrite)
    if done is None:
        lines.console.print(f"{output_file} has all of its {total:,} lines; nothing to do", soft_wrap=True)
        return
    if done:
        lines.console.print(
            f"{output_file} has {done:,} of {total:,} lines and goes on there", soft_wrap=True
        )
    with ExitStack() as stack:
        target, *others = (stack.enter_context(path.open("ab" if done else "wb")) for path in outputs)
        if not done:
            record.begin(output_file)
        source = stack.enter_context(open_bytes(input_file))
        aligned = others[0] if others else None
        lines.run(source, str(input_file), target, aligned, total=total, patient=True, skip=done)
        for stream in (target, *others):
            os.fsync(stream.fileno())
    record.end(output_file)


def _lines_done(
    outputs: list[Path], total: int, record: Record, *, resume: bool, overwrite: bool
) -> int | None:
    """Lines that need not be translated again; None when all are there.

    Raises:
        DataError: what stands in an output may neither be replaced nor continued.
    """
    output = outputs[0]
    unfinished = sidecar(output)
    standing = [path for path in outputs if path.exists() and path.stat().st_size]
    if overwrite or not (standing or (output.exists() and unfinished.exists())):
        unfinished.unlink(missing_ok=True)  # of a file that is no more
        return 0
    if not resume:
        if output.exists() and unfinished.exists():
            raise DataError(
                f"{output} is an interrupted translation: --resume continues it, --overwrite replaces it"
            )
        raise DataError(f"{standing[0]} exists: --overwrite replaces it")
    if not unfinished.exists() and all(path.exists() and count_lines(path) == total for path in outputs):
        return None
    record.check(output)
    done = min(cut_to_whole_lines(path) if path.exists() else 0 for path in outputs)
    if done > total:
        raise DataError(
            f"{output} has {done:,} lines, more than the {total:,} of the input: it is another file's "
            "translation; --overwrite begins anew"
        )
    for path in outputs:
        if path.exists():
            cut_to_whole_lines(path, most=done)
    if done == total:
        record.end(output)
        return None
    return done


def _flushing(outputs: list[BinaryIO], tell: Callable[[int], None]) -> Callable[[int], None]:
    """Progress that also hands on what was written: a person at a pipe waits for it."""

    def progress(done: int) -> None:
        for stream in outputs:
            stream.flush()
        tell(done)

    return progress


def _formatted(line: str, translation: Translation, *, jsonl: bool) -> str:
    """One line of output, without its end."""
    if jsonl:
        return json.dumps({"source": line, **translation.to_dict()}, ensure_ascii=False)
    # The model never writes a line end, but a long text is joined with what stood between its pieces.
    return translation.text.replace("\r", " ").replace("\n", " ")
