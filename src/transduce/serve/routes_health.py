"""Is it alive, is it ready, how is it doing: for supervisors, containers, load balancers, Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from transduce.serve.problems import Problem, problem_responses
from transduce.serve.service import Service

__all__ = ["router"]

router = APIRouter(tags=["operation"])

_METRICS = {200: {"description": "Prometheus's text form", "content": {"text/plain": {}}}}


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers, whether or not its models are loaded."""
    return {"status": "ok"}  # the word that LibreTranslate's clients look for


@router.get("/ready", responses=problem_responses(503))
async def ready(service: Service) -> dict[str, str]:
    """Requests are taken: every model that is to be loaded at the start is."""
    if not service.ready:
        detail = "the models are being loaded, or the server is being stopped: ask again in a few seconds"
        raise Problem(503, "Not ready", detail, "not-ready", headers={"Retry-After": "2"})
    return {"status": "ready"}


@router.get("/metrics", responses=_METRICS)  # type: ignore[arg-type]
async def metrics(service: Service) -> Response:
    """Counts and durations; see docs/serving.md."""
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
