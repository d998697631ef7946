"""The API, version 1: translate, and what there is to translate with.

Does not know: batches, engines.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from transduce.serve.options import TranslateOptions
from transduce.serve.problems import problem_responses
from transduce.serve.schemas import Models, TranslateRequest, TranslateResponse
from transduce.serve.service import Service
from transduce.translate.protect import DEFAULT_KINDS

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["translate"])


@router.post(
    "/translate",
    response_model=TranslateResponse,
    responses=problem_responses(400, 404, 408, 413, 422, 429, 500, 503),
)
async def translate(asked: TranslateRequest, service: Service) -> Response:
    """Translate one text or several."""
    texts = asked.all_texts
    found = await service.translate(texts, source=asked.source, target=asked.target, options=_options(asked))
    return JSONResponse({"translations": [translation.to_dict() for translation in found]})


@router.get("/models", response_model=Models, responses=problem_responses(500))
async def models(service: Service) -> Any:
    """Which models there are, and what a request may ask for."""
    return {"models": service.models(), "limits": service.settings.limits}


def _options(asked: TranslateRequest) -> TranslateOptions:
    kinds = DEFAULT_KINDS if asked.protect is True else tuple(asked.protect or ())
    prefixes = [asked.prefix] if asked.prefix is not None else asked.prefixes
    return TranslateOptions.of(
        glossary=asked.glossary,
        alignment=asked.alignment,
        details=asked.details,
        protect=kinds,
        prefixes=None if prefixes is None else tuple(prefixes),
        beam_size=asked.beam_size,
        n_best=asked.n_best,
        length_penalty=asked.length_penalty,
        alpha=asked.alpha,
        method=asked.method,
        seed=asked.seed,
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
    )
