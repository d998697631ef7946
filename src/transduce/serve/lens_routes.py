"""The API that looks inside: traces, heads, shapes, steps, what-ifs, positions.

Does not know: how anything is computed (see the room `lens`), who draws it.

Structure and text are JSON. Arrays are safetensors bytes, or JSON where a client asks for that. A trace
never changes, so all that hangs below one may be kept by the client for good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from transduce.errors import TransduceError
from transduce.serve.lens_schemas import Kind, TraceRequest, WhatIfRequest
from transduce.serve.lens_service import Kept, Lenses, LensService
from transduce.serve.problems import Problem, problem_responses

if TYPE_CHECKING:
    from transduce.lens import Trace
    from transduce.lens.tensors import Arrays

__all__ = ["router"]

SAFETENSORS = "application/x-safetensors"
_PREFIX = "/api/v1"
_PARTS = ("shapes", "overview", "head", "steps", "logits", "lens", "tensors", "occlusion")
_TENSORS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Arrays by name", "content": {SAFETENSORS: {}, "application/json": {}}}
}

router = APIRouter(prefix=_PREFIX, tags=["lens"])
Model = Annotated[str | None, Query(description="Which model; by default the first.", max_length=200)]
Layer = Annotated[int, Query(ge=0, le=1000)]
TopK = Annotated[int, Query(ge=1, description="How many of the likeliest tokens.")]


@router.get("/model", responses=problem_responses(404, 429, 500))
async def model(lenses: Lenses, model: Model = None) -> Response:
    """A model's configuration, parts, formulas and limits; `available` says whether it can be looked into."""

    def describe() -> dict[str, Any]:
        try:
            lens = lenses.lens(model)
        except Problem as problem:
            if problem.status != 501:
                raise
            path = lenses.path(model)
            name = None if path is None else path.name
            return {"name": name, "available": False, "trained": None, "note": problem.detail}
        from transduce.lens.answers import describe_model

        return describe_model(lens)

    return _json({**await lenses.run(describe), "models": list(lenses.models), "limits": lenses.limits})


@router.post("/traces", status_code=201, responses=problem_responses(400, 404, 413, 422, 429, 500, 501))
async def make_trace(asked: TraceRequest, lenses: Lenses, model: Model = None) -> Response:
    """Translate a sentence and open the translation."""

    def work() -> dict[str, Any]:
        lens = lenses.lens(model)
        search = asked.decode.over(lens.translator.config)
        limits = lens.limits
        _check_size(len(asked.text), limits.text_characters, "characters", "text")
        trace = lens.trace(
            asked.text,
            search=search,
            target=asked.target,
            force=_known_ids(asked.force, lens.config.target_vocab_size),
            max_len=asked.decode.max_len,
        )
        return lenses.keep(trace, lambda trace_id: _described(trace, trace_id)).described

    return _created(await _asking(lenses, work))


@router.get("/traces/{trace_id}", responses=problem_responses(404, 429, 500))
async def get_trace(trace_id: str, request: Request, lenses: Lenses) -> Response:
    """A trace again, as it was answered first."""
    return await _answer(lenses, trace_id, request, lambda kept: kept.described)


@router.delete("/traces/{trace_id}", status_code=204, responses=problem_responses(404, 500))
async def delete_trace(trace_id: str, lenses: Lenses) -> Response:
    """Let a trace go before its time."""
    lenses.forget(trace_id)
    return Response(status_code=204)


@router.get("/traces/{trace_id}/shapes", responses=problem_responses(404, 429, 500))
async def shapes(trace_id: str, request: Request, lenses: Lenses) -> Response:
    """Every tensor of one real pass, in the order in which it was computed."""
    return await _answer(lenses, trace_id, request, lambda kept: kept.trace.shapes().to_dict())


@router.get("/traces/{trace_id}/steps", responses=problem_responses(404, 422, 429, 500))
async def steps(trace_id: str, request: Request, lenses: Lenses, k: TopK = 10) -> Response:
    """What was expected at each step, the search's tree, and how its cache grew."""
    _check_top_k(k, lenses)

    def work(kept: Kept) -> dict[str, Any]:
        from transduce.lens.answers import step_table

        return step_table(kept.trace, k)

    return await _answer(lenses, trace_id, request, work)


@router.get("/traces/{trace_id}/lens", responses=problem_responses(404, 422, 429, 500))
async def logit_lens(
    trace_id: str,
    request: Request,
    lenses: Lenses,
    layer: Annotated[int | None, Query(ge=-1, le=1000)] = None,
    k: TopK = 5,
) -> Response:
    """What the decoder would have said after a layer, or after each."""
    _check_top_k(k, lenses)

    def work(kept: Kept) -> dict[str, Any]:
        from transduce.lens.answers import lens_rows

        count = kept.trace.lens.config.num_decoder_layers
        return lens_rows(kept.trace, range(-1, count) if layer is None else [layer], k)

    return await _answer(lenses, trace_id, request, work)


@router.get("/traces/{trace_id}/head", responses={**_TENSORS, **problem_responses(404, 413, 422, 429, 500)})
async def head(
    trace_id: str, request: Request, lenses: Lenses, kind: Kind, layer: Layer, head: Layer
) -> Response:
    """Scores before the mask, mask, weights, q, k and v of one head, each axis with its tokens."""

    def work(trace: Trace) -> Arrays:
        from transduce.lens.answers import head_arrays

        return head_arrays(trace, kind, layer, head)

    return await _arrays_of(lenses, trace_id, request, work)


@router.get(
    "/traces/{trace_id}/overview", responses={**_TENSORS, **problem_responses(404, 413, 422, 429, 500)}
)
async def overview(trace_id: str, request: Request, lenses: Lenses, kind: Kind) -> Response:
    """Thumbnails of all heads of a kind, and five figures of each."""

    def work(trace: Trace) -> Arrays:
        from transduce.lens.answers import overview_arrays

        return overview_arrays(trace, kind)

    return await _arrays_of(lenses, trace_id, request, work)


@router.get("/traces/{trace_id}/logits", responses={**_TENSORS, **problem_responses(404, 413, 422, 429, 500)})
async def logits(
    trace_id: str,
    request: Request,
    lenses: Lenses,
    step: Annotated[int | None, Query(ge=0)] = None,
    node: Annotated[int | None, Query(ge=-1)] = None,
) -> Response:
    """The whole vocabulary's logits at a step of the output, or after a node of the search's tree."""

    def work(trace: Trace) -> Arrays:
        from transduce.lens.answers import logits_array

        try:
            return logits_array(trace, step, node)
        except IndexError as error:
            most = f"steps 0 to {trace.num_rows - 1}, nodes -1 to {len(trace.watched.nodes) - 1}"
            raise Problem(404, "No such step", f"this trace has {most}", "no-step") from error

    return await _arrays_of(lenses, trace_id, request, work)


@router.get(
    "/traces/{trace_id}/tensors", responses={**_TENSORS, **problem_responses(404, 413, 422, 429, 500)}
)
async def tensors(
    trace_id: str,
    request: Request,
    lenses: Lenses,
    name: Annotated[list[str], Query(min_length=1, max_length=16, description="As `shapes` has them.")],
) -> Response:
    """Tensors of the pass, whole, by their names in the walk."""

    def work(trace: Trace) -> Arrays:
        from transduce.lens.answers import walk_arrays

        return walk_arrays(trace, name)

    return await _arrays_of(lenses, trace_id, request, work)


@router.get("/traces/{trace_id}/occlusion", responses={**_TENSORS, **problem_responses(404, 413, 429, 500)})
async def occlusion(trace_id: str, request: Request, lenses: Lenses) -> Response:
    """How much less likely the output becomes when a source token is hidden: a cause, not attention."""

    def work(trace: Trace) -> Arrays:
        from transduce.lens.answers import occlusion_array

        return occlusion_array(trace)

    return await _arrays_of(lenses, trace_id, request, work)


@router.post(
    "/traces/{trace_id}/what-if",
    status_code=201,
    responses=problem_responses(400, 404, 413, 422, 429, 500, 501),
)
async def what_if(trace_id: str, asked: WhatIfRequest, lenses: Lenses) -> Response:
    """The same text by a changed model, or with a forced beginning: a new trace, and what is different."""
    parent = lenses.find(trace_id)

    def work() -> dict[str, Any]:
        forced = _known_ids(asked.force, parent.trace.lens.config.target_vocab_size)
        trace = parent.trace.what_if(asked.interventions(), force=forced, fixed=asked.fixed)
        return lenses.keep(trace, lambda trace_id: _described(trace, trace_id, parent.id)).described

    return _created(await _asking(lenses, work))


@router.get("/positions", responses={**_TENSORS, **problem_responses(404, 413, 422, 429, 500, 501)})
async def positions(
    request: Request, lenses: Lenses, length: Annotated[int, Query(ge=1)] = 24, model: Model = None
) -> Response:
    """The model's own positions: the formula's table, the learned one, or the angles of rotation."""
    _check_size(length, lenses.settings.positions, "positions", "length")

    def work() -> tuple[dict[str, Any], Arrays]:
        from transduce.lens.positions import positions

        lens = lenses.lens(model)
        with lens.alone() as body:
            return positions(body, length)

    about, arrays = await _asking(lenses, work)
    accepted = request.headers.get("accept", "")
    return _tensors(arrays, lenses, as_json=SAFETENSORS not in accepted, about=about)


async def _answer(
    lenses: LensService, trace_id: str, request: Request, work: Callable[[Kept], dict[str, Any]]
) -> Response:
    """JSON about a trace."""
    kept = lenses.find(trace_id)
    return await _unchanging(request, lambda: _json_of(lenses, kept, work))


async def _json_of(lenses: LensService, kept: Kept, work: Callable[[Kept], dict[str, Any]]) -> Response:
    return _json(await _asking(lenses, lambda: work(kept)))


async def _arrays_of(
    lenses: LensService, trace_id: str, request: Request, work: Callable[[Trace], Arrays]
) -> Response:
    """Arrays of a trace."""
    kept = lenses.find(trace_id)
    as_json = _wants_json(request)

    async def make() -> Response:
        return _tensors(await _asking(lenses, lambda: work(kept.trace)), lenses, as_json=as_json)

    return await _unchanging(request, make)


async def _unchanging(request: Request, make: Callable[[], Any]) -> Response:
    """Answer, or say that the client's copy is as good as new."""
    form = "json" if _wants_json(request) else "bytes"
    address = f"{request.url.path}?{request.url.query}#{form}"
    tag = f'"{hashlib.sha256(address.encode()).hexdigest()[:20]}"'
    headers = {"ETag": tag, "Cache-Control": "private, immutable, max-age=1800", "Vary": "Accept"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    response: Response = await make()
    response.headers.update(headers)
    return response


async def _asking(lenses: LensService, work: Callable[[], Any]) -> Any:
    """Compute in turn; what the model has not is the client's error, not the server's."""

    def careful() -> Any:
        try:
            return work()
        except TransduceError as error:
            from transduce.lens.interventions import NoSuchPart
            from transduce.lens.lens import TooLong

            if isinstance(error, TooLong):
                raise Problem(413, "Too long", str(error), "too-long", {"limit": error.limit}) from error
            if isinstance(error, NoSuchPart):
                raise Problem(422, "The model has no such part", str(error), "no-such-part") from error
            raise

    return await lenses.run(careful)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _described(trace: Trace, trace_id: str, parent: str | None = None) -> dict[str, Any]:
    from transduce.lens.answers import describe_trace

    address = f"{_PREFIX}/traces/{trace_id}"
    links = {
        "self": address,
        **{name: f"{address}/{name}" for name in _PARTS},
        "what_if": f"{address}/what-if",
    }
    return {**describe_trace(trace, trace_id, parent), "links": links}


def _json(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, headers, "application/json")


def _created(content: dict[str, Any]) -> Response:
    return _json(content, 201, {"Location": content["links"]["self"], "Cache-Control": "no-store"})


def _tensors(
    arrays: Arrays, lenses: LensService, *, as_json: bool, about: dict[str, Any] | None = None
) -> Response:
    if not as_json:
        return Response(arrays.to_safetensors(), media_type=SAFETENSORS)
    most = lenses.settings.json_values
    if arrays.num_values > most:
        detail = (
            f"the answer holds {arrays.num_values} numbers, and JSON takes {most}: "
            f"ask for it with Accept: {SAFETENSORS}"
        )
        raise Problem(413, "Too much for JSON", detail, "too-many-values", {"limit": most})
    return _json({**(about or {}), **arrays.to_dict()})


def _check_top_k(k: int, lenses: LensService) -> None:
    if k > lenses.settings.top_k:
        detail = f"k is {k}, and at most {lenses.settings.top_k} tokens are told"
        raise Problem(422, "Too many tokens", detail, "too-many-tokens", {"limit": lenses.settings.top_k})


def _check_size(size: int, most: int, what: str, name: str) -> None:
    if size > most:
        detail = f"{name} has {size} {what}, and at most {most} are taken: ask for fewer"
        raise Problem(413, "Too long", detail, "too-long", {"limit": most})


def _known_ids(ids: list[int], vocab_size: int) -> list[int]:
    """Refuse ids that the vocabulary has not."""
    for id_ in ids:
        if not 0 <= id_ < vocab_size:
            detail = f"force holds id {id_}, but the target vocabulary has ids 0 to {vocab_size - 1}"
            raise Problem(422, "No such token", detail, "no-such-token")
    return ids
