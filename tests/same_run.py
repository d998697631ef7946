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
    """Every point of every curve; what a restart declared void is left out, as TensorBoard does.

    TensorBoard reads files in the order of their names, which have whole seconds: too coarse for runs
    of a second each, so they are put in the order in which they were written.
    """
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.compat.proto.event_pb2 import SessionLog
    from tensorboard.util.tensor_util import make_ndarray

    curves: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(directory.iterdir(), key=lambda file: file.stat().st_mtime_ns):
        for event in EventFileLoader(str(file)).Load():
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                curves = {
                    tag: [point for point in points if point[0] < event.step]
                    for tag, points in curves.items()
                }
            for value in event.summary.value:
                if value.tag.rsplit("/", 1)[-1] not in CLOCKED_FIGURES:
                    points = curves.setdefault(value.tag, [])
                    points.append((event.step, float(make_ndarray(value.tensor))))
    return json.dumps({tag: curves[tag] for tag in sorted(curves) if curves[tag]})
