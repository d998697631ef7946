"""A run's figures while it trains and afterwards: loss, BLEU, learning rate, from its `log.jsonl`.

In:  where a model lies. Out: the log's events, in order, from a given one on.
Does not know: training, models. The file is read as it stands; a line that is not yet whole is left for
the next time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from transduce.serve.lens_service import Lenses, name_of
from transduce.serve.problems import Problem, problem_responses

__all__ = ["read_log", "router"]

router = APIRouter(prefix="/api/v1", tags=["lens"])

_LOG = "log.jsonl"
_MOST = 5000  # events of one answer; a client asks on for the rest
_SILENCE = 600.0  # seconds without a word after which a run is taken to have stopped
_TOLD = ("train", "validate", "skip", "rollback", "stop")


@router.get("/training", responses=problem_responses(404, 422, 500))
async def training(
    lenses: Lenses,
    after: Annotated[int, Query(ge=0, description="How many lines are known already.")] = 0,
    model: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The events of the run that made a model; `next` is what to ask on with."""
    path = lenses.path(model)
    if path is None:
        detail = "no model was given, so nothing was trained: serve a model that `transduce train` made"
        raise Problem(404, "No training log", detail, "no-log")
    answer = await run_in_threadpool(read_log, path, after)
    return JSONResponse(answer)


def read_log(path: Path, after: int = 0) -> dict[str, Any]:
    """Read the log of the run around a model directory, or of the run itself.

    Args:
        path: the directory that is served.
        after: lines to pass over.

    Raises:
        Problem: there is no log.
    """
    file = next((place / _LOG for place in (path, path.parent) if (place / _LOG).is_file()), None)
    if file is None or (file.parent == path.parent and path.resolve().name != "model"):
        detail = f"{name_of(path)} lies here without the run that made it: its {_LOG} would be one level up"
        raise Problem(404, "No training log", detail, "no-log")
    lines = file.read_bytes().split(b"\n")[:-1]
    chosen = lines[after : after + _MOST]
    events = [event for event in map(_event, chosen) if event is not None]
    last = _event(lines[-1]) if lines else None
    silent = time.time() - file.stat().st_mtime
    return {
        "run": name_of(path),
        "running": silent < _SILENCE and (last is None or last["event"] != "stop"),
        "next": after + len(chosen),
        "more": after + len(chosen) < len(lines),
        "events": events,
    }


def _event(line: bytes) -> dict[str, Any] | None:
    """One line's figures; nothing of a damaged line, or of an event that is not about progress."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("event") not in _TOLD:
        return None
    return {
        name: value for name, value in event.items() if value is None or isinstance(value, (int, float, str))
    }
