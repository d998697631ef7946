"""The API, version 1: documents, and which language a text is in.

Does not know: formats, batches.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from transduce.serve.detection import CLEAR
from transduce.serve.disconnect import unless_gone
from transduce.serve.documents import MEDIA_TYPES, DocumentDesk, TranslatedDocument
from transduce.serve.forms import Upload, checked, read_fields
from transduce.serve.languages import detect_one, told_languages
from transduce.serve.problems import Problem, problem_responses
from transduce.serve.schemas import Language, StrictModel, Text
from transduce.serve.service import Service
from transduce.serve.texts import Way
from transduce.translate.documents import FORMATS

__all__ = ["FILES", "Desk", "attachment", "router", "upload_of"]

router = APIRouter(prefix="/api/v1", tags=["translate"])

FILES: Final[dict[str, Any]] = {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()}
"""What OpenAPI is told of an answer that is a file."""
_FORM: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary", "description": "The document."},
                        "source": {"type": "string", "description": "Its language, or auto."},
                        "target": {"type": "string", "description": "The language to translate into."},
                        "format": {"type": "string", "enum": list(FORMATS), "description": "Or by its name."},
                        "protect": {"type": "boolean", "default": True},
                        "retranslate": {"type": "boolean", "default": False},
                        "fuzzy": {"type": "boolean", "default": True},
                    },
                }
            }
        },
    }
}


class DocumentFields(BaseModel):
    """What comes beside a document."""

    model_config = ConfigDict(extra="forbid")

    file: Any = None
    source: Language | None = None
    target: Language | None = None
    format: str | None = None
    protect: bool = True
    """Keep placeholders, URLs, addresses and code as they are."""
    retranslate: bool = False
    """Replace translations that PO, XLIFF and TMX files hold."""
    fuzzy: bool = True
    """Mark translations as unreviewed (PO, XLIFF)."""


async def get_desk(request: Request) -> DocumentDesk:
    """The application's."""
    desk: DocumentDesk = request.app.state.documents
    return desk


Desk = Annotated[DocumentDesk, Depends(get_desk)]


@router.post(
    "/documents",
    responses={
        200: {"description": "The translated file", "content": FILES},
        **problem_responses(400, 404, 408, 413, 415, 422, 429, 500, 503),
    },
    openapi_extra=_FORM,
    response_class=Response,
)
async def documents(request: Request, service: Service, desk: Desk) -> Response:
    """Translate a file: PO, XLIFF, TMX, SRT, WebVTT, HTML, Markdown, DOCX, text; tags stay in place."""
    asked = checked(await read_fields(request, forms_only=True), DocumentFields)
    file = upload_of(asked.file)
    source = None if asked.source == "auto" else asked.source
    work = desk.translate(
        file.data,
        file.name,
        asked.format,
        Way(service, source, asked.target),
        protect=asked.protect,
        retranslate=asked.retranslate,
        fuzzy=asked.fuzzy,
    )
    done = await unless_gone(request, work)
    told = {"segments": done.segments, "flags": done.flags, "notes": done.notes}
    return attachment(done, {"Transduce-Report": json.dumps(told)})


class DetectRequest(StrictModel):
    """A text of unknown language."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Where does the bus leave from?"}]})

    text: Text


class Candidate(BaseModel):
    """A language, and how likely the text is in it."""

    language: str
    confidence: float = Field(ge=0, le=1, description="A share among 140 languages, not only among these.")


class DetectResponse(BaseModel):
    """What can be said about a text's language."""

    language: str | None = Field(description="Null where nobody can tell: too short, or none of these.")
    candidates: list[Candidate]


@router.post(
    "/detect", response_model=DetectResponse, responses=problem_responses(400, 408, 413, 415, 422, 429, 500)
)
async def detect(asked: DetectRequest, service: Service) -> Response:
    """Say which of the models' languages a text is in."""
    found = await detect_one(asked.text, told_languages(service))
    best = found[0].language if found and found[0].confidence >= CLEAR else None
    candidates = [{"language": d.language, "confidence": round(d.confidence, 4)} for d in found]
    return JSONResponse({"language": best, "candidates": candidates})


def upload_of(file: Any) -> Upload:
    """The file of a request.

    Raises:
        Problem: it is no file, or an empty one.
    """
    if not isinstance(file, Upload):
        what = "nothing came" if file is None else "something else came"
        raise Problem(422, "A field is wrong", f"#/file: expected one file with a name, and {what}")
    if not file.data:
        raise Problem(422, "A field is wrong", "#/file: the file is empty")
    return file


def attachment(done: TranslatedDocument, headers: dict[str, str] | None = None) -> Response:
    """A file to be saved; never a page that runs in this service's name."""
    return Response(
        done.data,
        media_type=done.media_type,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(done.name)}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "no-store",
            **(headers or {}),
        },
    )
