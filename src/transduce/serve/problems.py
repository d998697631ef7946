"""Errors as problem JSON (RFC 9457): what was expected, what came, what to do; in every case.

In:  exceptions, whoever raises them. Out: `application/problem+json`.
Does not know: models, what a route does.

    400  the body is no JSON               415  the body is of another type
    404  no such address, no such model    422  a field is wrong: `errors` says which, and why
    405  another method                    429  too much at once: `Retry-After` says when
    408  the body came too slowly          500  our mistake; the log knows more, by the request's id
    413  the body is too large             503  not ready, or the time limit has passed
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from transduce.errors import DataError, SearchError, TransduceError

__all__ = [
    "Problem",
    "ProblemResponse",
    "add_problem_handlers",
    "as_problem",
    "problem_body",
    "problem_of",
    "problem_responses",
    "unexpected",
]

_log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:transduce:problem:"
_KINDS = {
    400: "bad-request",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid-request",
    429: "too-many-requests",
    431: "headers-too-large",
    500: "internal-error",
    503: "unavailable",
}
_REMEDIES = {
    404: "nothing lies at {path}: /openapi.json lists what there is",
    405: "{path} cannot be asked by {method}: /openapi.json lists what can",
}


class Problem(Exception):  # noqa: N818 -- RFC 9457's word
    """An answer that is an error; raise it anywhere below a route."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        kind: str = "",
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe it.

        Args:
            status: the HTTP status.
            title: the same for every problem of the kind.
            detail: what was expected, what came, what to do.
            kind: the last part of the `type` URI; by default the status's own.
            extra: further members of the JSON object, such as the limit that was passed.
            headers: further headers, such as Retry-After.
        """
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail
        self.kind = kind or _kind(status)
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})


class ProblemResponse(JSONResponse):
    """A `Problem` on its way to the client."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem) -> None:
        """Make the response."""
        super().__init__(problem_body(problem), status_code=problem.status, headers=problem.headers)


def problem_body(problem: Problem) -> dict[str, Any]:
    """The JSON object."""
    return {
        "type": _TYPE + problem.kind,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }


def add_problem_handlers(app: FastAPI) -> None:
    """Let `app` answer every error that is told with problem JSON; `middleware.py` answers for the rest."""

    @app.exception_handler(Problem)
    async def own(_: Request, error: Problem) -> Response:
        return ProblemResponse(error)

    @app.exception_handler(TransduceError)
    async def of_the_rooms(_: Request, error: TransduceError) -> Response:
        return ProblemResponse(problem_of(error))

    @app.exception_handler(HTTPException)
    async def of_the_framework(request: Request, error: HTTPException) -> Response:
        return ProblemResponse(_of_framework(request, error))

    @app.exception_handler(RequestValidationError)
    async def wrong_fields(_: Request, error: RequestValidationError) -> Response:
        return ProblemResponse(_of_validation(error))


def as_problem(request: Request, error: Exception) -> Problem:
    """An error that the handlers above know, as they answer it."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, HTTPException):
        return _of_framework(request, error)
    return problem_of(error) if isinstance(error, TransduceError) else unexpected()


def problem_of(error: TransduceError) -> Problem:
    """What a client is told of an error of another room."""
    if isinstance(error, (SearchError, DataError)):
        return Problem(422, "The request cannot be followed", str(error), "cannot-follow")
    # The message names files of the server, which are no client's business.
    _log.error("a model cannot be used: %s", error)
    detail = "the model cannot be used at the moment; the server's log says why: try again later"
    return Problem(
        503, "The model cannot be used", detail, "model-unavailable", headers={"Retry-After": "10"}
    )


def unexpected() -> Problem:
    """What a client is told of a mistake of ours."""
    detail = "the server made a mistake; its log says more under this request's id (X-Request-Id)"
    return Problem(500, "Internal error", detail)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route declares in OpenAPI for the problems that it can answer with."""
    content = {MEDIA_TYPE: {"schema": _SCHEMA}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def _of_framework(request: Request, error: HTTPException) -> Problem:
    status = error.status_code
    detail = _REMEDIES.get(status, str(error.detail)).format(path=request.url.path, method=request.method)
    if status == 400:  # unreadable bytes, or nested too deeply to be read
        detail = "the body is no JSON that can be read: expected UTF-8, nested a few levels deep"
    return Problem(status, HTTPStatus(status).phrase, detail, headers=error.headers)


def _of_validation(error: RequestValidationError) -> Problem:
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        place, why = found[0]["loc"][-1], found[0]["ctx"]["error"]
        return Problem(
            400, "Not JSON", f"the body is no JSON: {why} at character {place}; see /openapi.json", "not-json"
        )
    if isinstance(found[0].get("input"), bytes):
        detail = "the body must come as JSON: send it with the header Content-Type: application/json"
        return Problem(415, "Not sent as JSON", detail)
    errors = [{"pointer": _pointer(one["loc"]), "detail": one["msg"]} for one in found]
    first = errors[0]
    more = f" (and {len(errors) - 1} more, see `errors`)" if len(errors) > 1 else ""
    detail = f"{first['pointer']}: {first['detail']}{more}"
    return Problem(422, "A field is wrong", detail, extra={"errors": errors})


def _pointer(place: Iterable[str | int]) -> str:
    """A JSON pointer into the body; or where else the field was, as in `query:name`."""
    where, *path = [str(part) for part in place]
    parts = [part.replace("~", "~0").replace("/", "~1") for part in path]
    return "#" + "".join(f"/{part}" for part in parts) if where == "body" else f"{where}:{'/'.join(parts)}"


def _kind(status: int) -> str:
    return _KINDS.get(status) or HTTPStatus(status).phrase.lower().replace(" ", "-")


_SCHEMA = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": [_TYPE + "invalid-request"]},
        "title": {"type": "string", "examples": ["A field is wrong"]},
        "status": {"type": "integer", "examples": [422]},
        "detail": {"type": "string", "examples": ["#/beam_size: Input should be a valid integer"]},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
