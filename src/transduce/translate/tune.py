"""`transduce tune`: an export in every arrangement of threads and number form, in turn, and what is quickest.

A number form changes answers now and then: that of the export is kept unless others are named.
In:  an export, sample sentences or none. Out: a `Tuning` for `tuning.py`, and what was measured.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from transduce.errors import ModelError
from transduce.text.lines import read_lines
from transduce.translate.ctranslate2_library import load_translator
from transduce.translate.exported import ExportedModel, usable_export
from transduce.translate.runtime import ComputeType
from transduce.translate.threads import available_threads
from transduce.translate.tuning import Layout, Tuning, machine

__all__ = ["Timing", "measure", "tune_model"]

_SENTENCES = 64
_LONE_SENTENCES = 8
_SHORTEST, _LONGEST = 3, 25  # tokens of a random sentence
_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds a sentence of one arrangement, the median of several rounds."""

    compute_type: ComputeType
    layout: Layout
    many: float
    lone: float


def tune_model(model: Path, among: str = "", sample: Path | None = None) -> str:
    """Measure, keep the result beside the export, and tell it.

    Args:
        model: a model directory with an export, the run that holds one, or the export.
        among: number forms to choose from, with commas; "" keeps that of the export.
        sample: sentences to translate.

    Raises:
        ModelError: there is no export, a number form is unknown, or nothing can be kept there.
        DataError: the sample cannot be read.
    """
    exported = usable_export(model, needed=True)
    assert exported is not None, "it was needed"
    names = [name.strip() for name in among.split(",") if name.strip()] or ["default"]
    for name in names:
        if name not in get_args(ComputeType):
            known = ", ".join(get_args(ComputeType))
            raise ModelError(f"--among names {name!r}; the number forms are {known}")
    sources: list[list[str]] = []
    if sample is not None:
        tokenizer = exported.tokenizers()[0]
        lines = (tokenizer.encode(line)[: exported.facts.max_len] for line in read_lines(sample))
        filled = (tokenizer.pieces(ids) for ids in lines if ids)
        sources = [list(pieces) for _, pieces in zip(range(_SENTENCES), filled, strict=False)]
    tuning, timings = measure(
        exported, compute_types=[cast(ComputeType, name) for name in names], sources=sources
    )
    tuning.write(exported.path)
    return "\n".join([*_table(timings), *_choice(tuning, exported)])


def _table(timings: Sequence[Timing]) -> list[str]:
    """What was measured, a row an arrangement."""
    rows = [
        f"{one.compute_type:12} {one.layout!s:>17} {1000 * one.many:15.2f} {1000 * one.lone:16.2f}"
        for one in timings
    ]
    return [
        f"{'number form':12} {'workers x threads':>17} {'ms of 64, each':>15} {'ms of a lone one':>16}",
        *rows,
    ]


def _choice(tuning: Tuning, exported: ExportedModel) -> list[str]:
    form = exported.facts.quantization if tuning.compute_type == "default" else tuning.compute_type
    return [
        f"many sentences: {tuning.many} (workers x threads); a lone one: {tuning.lone}; in {form}",
        f"kept in {exported.path}, for this machine with {tuning.threads} threads",
    ]


def measure(
    exported: ExportedModel,
    *,
    compute_types: Sequence[ComputeType] = ("default",),
    sources: Sequence[Sequence[str]] = (),
    threads: int = 0,
) -> tuple[Tuning, list[Timing]]:
    """Translate a sample in every arrangement, in turn, and choose.

    Args:
        exported: the export.
        compute_types: number forms to choose from; the quickest for many sentences wins.
        sources: sample sentences as pieces, without the end symbol; by default random ones.
        threads: to share out; 0: as `available_threads`.

    Raises:
        ModelError: the export cannot be loaded, or not in one of these forms.
    """
    threads = threads or available_threads()
    sample = [list(source) for source in sources if source] or _random_sources(exported)
    arrangements = [(form, layout) for form in compute_types for layout in _layouts(threads)]
    seconds: list[list[tuple[float, float]]] = [[] for _ in arrangements]
    for _ in range(_ROUNDS):  # in turn, so that what else the machine does falls upon all of them
        for found, (form, layout) in zip(seconds, arrangements, strict=True):
            found.append(_seconds(exported.path, form, layout, sample))
    timings = [
        Timing(
            compute_type=form,
            layout=layout,
            many=statistics.median(many for many, _ in found),
            lone=statistics.median(lone for _, lone in found),
        )
        for found, (form, layout) in zip(seconds, arrangements, strict=True)
    ]
    best = min(timings, key=lambda timing: timing.many)
    same_form = [timing for timing in timings if timing.compute_type == best.compute_type]
    return (
        Tuning(
            machine=machine(),
            threads=threads,
            compute_type=best.compute_type,
            many=best.layout,
            lone=min(same_form, key=lambda timing: timing.lone).layout,
        ),
        timings,
    )


def _layouts(threads: int) -> list[Layout]:
    """All ways to share threads out evenly."""
    shares = (share for share in range(1, threads + 1) if threads % share == 0)
    return [Layout(workers=threads // share, threads=share) for share in shares]


def _seconds(
    path: Path, form: ComputeType, layout: Layout, sample: Sequence[Sequence[str]]
) -> tuple[float, float]:
    """Seconds a sentence, of many and of a lone one."""
    translator = load_translator(path, form, layout.workers, layout.threads)
    options: dict[str, Any] = {"beam_size": 1, "max_decoding_length": _LONGEST, "batch_type": "tokens"}

    def run(chosen: Sequence[Sequence[str]]) -> float:
        begun = time.perf_counter()
        size = max(1, sum(map(len, chosen)) // (2 * layout.workers))
        translator.translate_batch(chosen, max_batch_size=size, **options)
        return (time.perf_counter() - begun) / len(chosen)

    run(sample[:_LONE_SENTENCES])  # the first call makes its buffers
    return run(sample), statistics.median(run([row]) for row in sample[:_LONE_SENTENCES])


def _random_sources(exported: ExportedModel) -> list[list[str]]:
    """Sentences of random pieces: how long they take does not depend on sense."""
    pieces = exported.vocabularies()[0]
    rng = random.Random(0)
    lengths = (rng.randint(_SHORTEST, _LONGEST) for _ in range(_SENTENCES))
    return [[rng.choice(pieces) for _ in range(length)] for length in lengths]
