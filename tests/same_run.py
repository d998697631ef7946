"""Are two runs the same? Every file of both, byte for byte, but for what the clock or the machine decides.

Left out, and nothing else:

    state.json      `CLOCKED_FIELDS`, of the run and of the window  (and so its line of SHA256SUMS)
    log.jsonl       `CLOCKED_FIGURES` of each event
    card.md         durations, memory, speed and energy
    tensorboard/    names of files, wall times, curves of `CLOCKED_FIGURES`: what is compared is every
                    point of every curve, as TensorBoard would draw it from all files together
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from transduce.train.checkpoint import CLOCKED_FIELDS
from transduce.train.history import read_events
from transduce.train.log import CLOCKED_FIGURES

_MEASURED = re.compile(
    r"((?:target tokens, |at most |not counted\), |after )).*|^- [\d.,]+ Wh .*", re.MULTILINE
)
"""What a card says of clock and meters; the rest of such a line says nothing else."""


def contents(run: Path) -> dict[str, str]:
    """Name → digest for every file of a run, leftovers too; `tensorboard/` is one entry."""
    files = {}
    for file in sorted(run.rglob("*")):
        name = str(file.relative_to(run))
        if name.startswith("tensorboard/"):
            continue
        if file.is_dir():
            files[name] = _curves(file) if name == "tensorboard" else "directory"
        else:
            files[name] = hashlib.sha256(_timeless(file)).hexdigest()
    return files


def differences(run: Path, undisturbed: Path) -> list[str]:
    """What a run has otherwise than the undisturbed one, a sentence a file."""
    left, right = contents(run), contents(undisturbed)
    found = []
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            where = (
                "differs" if name in left and name in right else "only here" if name in left else "missing"
            )
            found.append(f"{name} {where}")
    return found


def events(run: Path) -> list[dict[str, Any]]:
    """The log without `CLOCKED_FIGURES`."""
    return [_without(CLOCKED_FIGURES, event) for event in read_events(run)]


def _without(names: frozenset[str], fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _timeless(file: Path) -> bytes:
    """A file's bytes without what the clock decides."""
    if file.name == "log.jsonl":
        return json.dumps(events(file.parent)).encode()
    content = file.read_bytes()
    if file.name == "state.json":
        state = json.loads(content)
        state["window"] = _without(CLOCKED_FIELDS, state["window"])
        return json.dumps(_without(CLOCKED_FIELDS, state)).encode()
    if file.name == "SHA256SUMS":
        return re.sub(rb"^\w{64}(?=  state\.json$)", b"", content, flags=re.MULTILINE)
    if file.name == "card.md":
        return _MEASURED.sub(r"\1", content.decode()).encode()
    return content


def _curves(directory: Path) -> str:
    """Every point of every curve; what a restart declared void is left out, as TensorBoard does."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    curves = {
        tag: [(point.step, point.value) for point in accumulator.Scalars(tag)]
        for tag in sorted(accumulator.Tags()["scalars"])
        if tag.rsplit("/", 1)[-1] not in CLOCKED_FIGURES
    }
    return json.dumps({tag: points for tag, points in curves.items() if points})
