"""Is it alive, is it ready: for supervisors, containers and load balancers."""

from __future__ import annotations

from fastapi import APIRouter

from transduce.serve.problems import Problem, problem_responses
from transduce.serve.service import Service

__all__ = ["router"]

router = APIRouter(tags=["operation"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process answers, whether or not its models are loaded."""
    return {"status": "alive"}


@router.get("/ready", responses=problem_responses(503))
async def ready(service: Service) -> dict[str, str]:
    """Every model that is to be loaded at the start is."""
    if not service.ready:
        raise Problem(503, "Not ready", "the models are being loaded: try again in a few seconds")
    return {"status": "ready"}
