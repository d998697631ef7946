"""The API, version 1: translate, and what there is to translate with.

Does not know: batches, engines.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from transduce.errors import TransduceError
from transduce.serve.disconnect import unless_gone
from transduce.serve.options import TranslateOptions
from transduce.serve.problems import Problem, problem_body, problem_of, problem_responses
from transduce.serve.schemas import Models, TranslateRequest, TranslateResponse
from transduce.serve.service import Service
from transduce.translate.protect import DEFAULT_KINDS
from transduce.translate.translation import Translation

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["translate"])

_EVENT_STREAM = "text/event-stream"
_EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # a proxy must not hold them back
_EVENT_EXAMPLE = (
    'event: translation\ndata: {"index": 0, "text": "eins zwei", …}\n\nevent: done\ndata: {"texts": 1}\n\n'
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The translations; or, with `Accept: text/event-stream`, an event for each as soon as "
        "it is there (`translation`), and a last one (`done`, or `error` with a problem)",
        "content": {_EVENT_STREAM: {"schema": {"type": "string"}, "example": _EVENT_EXAMPLE}},
    },
    **problem_responses(400, 404, 408, 413, 415, 422, 429, 500, 503),
}


@router.post("/translate", response_model=TranslateResponse, responses=_RESPONSES)
async def translate(asked: TranslateRequest, request: Request, service: Service) -> Response:
    """Translate one text or several."""
    texts, options = asked.all_texts, options_of(asked)
    model = service.registry.choose(asked.source, asked.target)
    how: dict[str, Any] = {"source": asked.source, "target": asked.target, "options": options}
    if _EVENT_STREAM in request.headers.get("accept", ""):
        stream = service.stream(texts, **how)
        # What is wrong with the request comes before the first event, and gets a status of its own.
        first = await unless_gone(request, anext(stream, None))
        events = _events(len(texts), first, stream)
        return StreamingResponse(events, media_type=_EVENT_STREAM, headers=_EVENT_HEADERS)
    found = await unless_gone(request, service.translate(texts, **how))
    return JSONResponse(
        {
            "model": model.name,
            "source": model.source,
            "target": model.target,
            "translations": [translation.to_dict() for translation in found],
        }
    )


@router.get("/models", response_model=Models, responses=problem_responses(500))
async def models(service: Service) -> Any:
    """Which models there are, and what a request may ask for."""
    return {"models": service.models(), "limits": service.settings.limits}


def options_of(asked: TranslateRequest) -> TranslateOptions:
    """A request's options in the service's words.

    Raises:
        SearchError, DataError: they contradict each other.
    """
    kinds = DEFAULT_KINDS if asked.protect is True else tuple(asked.protect or ())
    prefixes = [asked.prefix] if asked.prefix is not None else asked.prefixes
    return TranslateOptions.of(
        glossary=asked.glossary,
        alignment=asked.alignment,
        details=asked.details,
        protect=kinds,
        prefixes=None if prefixes is None else tuple(prefixes),
        format=asked.format,
        **{name: getattr(asked, name) for name in _SEARCH},
    )


_SEARCH = (
    "beam_size", "n_best", "length_penalty", "alpha", "patience",
    "method", "seed", "temperature", "top_k", "top_p",
)  # fmt: skip


async def _events(
    count: int, first: tuple[int, Translation] | None, stream: AsyncGenerator[tuple[int, Translation], None]
) -> AsyncIterator[str]:
    """Each text's translation as it comes, then that all are there, or what went wrong."""
    async with contextlib.aclosing(stream):
        if first is not None:
            yield _event("translation", _numbered(first))
        try:
            async for found in stream:
                yield _event("translation", _numbered(found))
        except Problem as problem:
            yield _event("error", problem_body(problem))
        except TransduceError as error:
            yield _event("error", problem_body(problem_of(error)))
        else:
            yield _event("done", {"texts": count})


def _numbered(found: tuple[int, Translation]) -> dict[str, Any]:
    return {"index": found[0], **found[1].to_dict()}


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
