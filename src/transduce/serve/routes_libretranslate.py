"""LibreTranslate's API, so that its clients work unchanged: /translate, /detect, /languages, /translate_file.

Fields, shapes of answers and the scale of confidence (0 to 100) are LibreTranslate's; errors are problems
that also have the member `error`, which its clients print. What is not offered is not there: suggestions.
Does not know: batches, formats.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from transduce.errors import TransduceError
from transduce.serve.access import Gate, address_of, bearer, get_gate
from transduce.serve.detection import CLEAR, Detection
from transduce.serve.disconnect import unless_gone
from transduce.serve.documents import TranslatedDocument
from transduce.serve.downloads import Downloads
from transduce.serve.forms import checked, read_fields
from transduce.serve.language_names import language_name
from transduce.serve.languages import detect_all, detect_one, pairs, sources_of, told_languages
from transduce.serve.options import TranslateOptions
from transduce.serve.problems import Problem, ProblemResponse, as_problem, problem_responses
from transduce.serve.routes_documents import FILES, Desk, attachment, upload_of
from transduce.serve.schemas import Language, Text
from transduce.serve.service import Service, TranslationService
from transduce.serve.texts import Way, translate_texts
from transduce.translate.documents import FORMATS

__all__ = ["router"]

_MOST_ALTERNATIVES: Final = 10


class _LibreRoute(APIRoute):
    """Answers errors with the member `error` beside those of a problem."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handler = super().get_route_handler()

        async def with_error(request: Request) -> Response:
            try:
                return await handler(request)
            except (Problem, TransduceError, HTTPException, RequestValidationError) as error:
                problem = as_problem(request, error)
                problem.extra["error"] = problem.detail
                return ProblemResponse(problem)

        return with_error


router = APIRouter(tags=["LibreTranslate"], route_class=_LibreRoute)

_PROBLEMS: Final = problem_responses(400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503)


class LibreTranslateRequest(BaseModel):
    """What a LibreTranslate client sends; fields that it may send besides are passed over."""

    q: Text | list[Text] = Field(description="One text or several.", examples=["Hello world!"])
    source: Language = Field(description="Language of the text, or auto.", examples=["en"])
    target: Language = Field(examples=["de"])
    format: Literal["text", "html"] = Field("text", description="html: tags stay in place.")
    alternatives: int = Field(0, ge=0, le=_MOST_ALTERNATIVES, description="Further translations.")
    api_key: str | None = None


class LibreDetectRequest(BaseModel):
    """A text of unknown language."""

    q: Text = Field(examples=["Hello world!"])
    api_key: str | None = None


class LibreFileRequest(BaseModel):
    """What comes beside a file."""

    file: Any = None
    source: Language
    target: Language
    api_key: str | None = None


async def get_downloads(request: Request) -> Downloads:
    """The application's."""
    downloads: Downloads = request.app.state.downloads
    return downloads


def _body(model: type[BaseModel], *kinds: str) -> dict[str, Any]:
    """What OpenAPI is told of a body that comes in several ways."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    if "file" in schema["properties"]:
        schema["properties"]["file"] = {"type": "string", "format": "binary"}
        schema["required"].append("file")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


_JSON_OR_FORM: Final = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")


@router.post("/translate", responses=_PROBLEMS, openapi_extra=_body(LibreTranslateRequest, *_JSON_OR_FORM))
async def translate(
    request: Request, service: Service, gate: Annotated[Gate, Depends(get_gate)]
) -> dict[str, Any]:
    """Translate one text or several."""
    fields = await _admitted_fields(request, gate)
    asked = checked(fields, LibreTranslateRequest)
    many = isinstance(asked.q, list)
    texts = asked.q if isinstance(asked.q, list) else [asked.q]
    service.check(texts)
    detected: list[Detection] = []
    if asked.source == "auto":
        detected = await detect_all(texts, sources_of(service, asked.target))
    sources = [d.language for d in detected] or [asked.source] * len(texts)
    found = await unless_gone(request, _translated(service, texts, sources, asked))
    answer: dict[str, Any] = {"translatedText": _plural([ways[0] for ways in found], many)}
    if detected:
        answer["detectedLanguage"] = _plural([_libre(d) for d in detected], many)
    if asked.alternatives:
        answer["alternatives"] = _plural([ways[1 : 1 + asked.alternatives] for ways in found], many)
    return answer


@router.post("/detect", responses=_PROBLEMS, openapi_extra=_body(LibreDetectRequest, *_JSON_OR_FORM))
async def detect(
    request: Request, service: Service, gate: Annotated[Gate, Depends(get_gate)]
) -> list[dict[str, Any]]:
    """Say which of the models' languages a text is in; a confidence of 0 says that nobody can tell."""
    asked = checked(await _admitted_fields(request, gate), LibreDetectRequest)
    found = await detect_one(asked.q, told_languages(service))
    if found and found[0].confidence < CLEAR:
        return [{"confidence": 0.0, "language": found[0].language}]
    return [_libre(d) for d in found if d.confidence >= 0.01]


@router.get("/languages")
async def languages(service: Service) -> list[dict[str, Any]]:
    """Languages, and which can be translated into which."""
    known = pairs(service)
    return [
        {
            "code": code,
            "name": language_name(code),
            "targets": [pair.target for pair in known if pair.source == code],
        }
        for code in told_languages(service)
    ]


@router.post("/translate_file", responses=_PROBLEMS, openapi_extra=_body(LibreFileRequest, _JSON_OR_FORM[2]))
async def translate_file(
    request: Request,
    service: Service,
    desk: Desk,
    gate: Annotated[Gate, Depends(get_gate)],
    downloads: Annotated[Downloads, Depends(get_downloads)],
) -> dict[str, str]:
    """Translate a file; the answer says where it can be fetched, for a quarter of an hour."""
    asked = checked(await _admitted_fields(request, gate, forms_only=True), LibreFileRequest)
    file = upload_of(asked.file)
    source = asked.source
    if source == "auto":
        source = sources_of(service, asked.target)[0]
        if len(sources_of(service, asked.target)) > 1:
            raise Problem(
                422, "Which language", "files are not looked at for their language: name it in `source`"
            )
    way = Way(service, source, asked.target)
    done = await unless_gone(request, desk.translate(file.data, file.name, None, way))
    key = downloads.put(done.data, done.name, done.media_type)
    return {"translatedFileUrl": str(request.url_for("download_file", name=f"{key}.{done.name}"))}


@router.get(
    "/download_file/{name}",
    responses={200: {"content": FILES}, **problem_responses(404)},
    response_class=Response,
)
async def download_file(name: str, downloads: Annotated[Downloads, Depends(get_downloads)]) -> Response:
    """Fetch a translated file. What stands before the first dot finds it; the rest is for people."""
    found = downloads.get(name.partition(".")[0])
    if found is None:
        raise Problem(404, "Not found", "no such file waits here, or no longer: translate it again")
    done = TranslatedDocument(
        data=found.data, name=found.filename, media_type=found.media_type, segments=0, flags={}, notes={}
    )
    return attachment(done)


@router.get("/frontend/settings")
async def frontend_settings(service: Service, gate: Annotated[Gate, Depends(get_gate)]) -> dict[str, Any]:
    """What a LibreTranslate page asks first."""
    known = pairs(service)
    first = {
        side: {"code": code, "name": language_name(code)}
        for side, code in (known[0]._asdict() if known else {"source": "", "target": ""}).items()
    }
    return {
        "charLimit": service.settings.max_text_characters,
        "frontendTimeout": 500,
        "apiKeys": gate.needs_key,
        "keyRequired": gate.needs_key,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": [suffix for entry in FORMATS.values() for suffix in entry.suffixes],
        "language": first,
    }


async def _admitted_fields(request: Request, gate: Gate, *, forms_only: bool = False) -> dict[str, Any]:
    """A body's fields, if the key in header or body lets it in.

    Raises:
        Problem: 401, 403 or 429; or the body cannot be read.
    """
    key = bearer(request)
    if key is not None or not gate.needs_key:
        request.state.caller = gate.admit(key, address_of(request)).name
        return await read_fields(request, forms_only=forms_only)
    fields = await read_fields(request, forms_only=forms_only)
    given = fields.get("api_key")
    request.state.caller = gate.admit(given if isinstance(given, str) else None, address_of(request)).name
    return fields


async def _translated(
    service: TranslationService, texts: list[str], sources: list[str], asked: LibreTranslateRequest
) -> list[list[str]]:
    """Each text's translations; texts of one language go together."""
    options = TranslateOptions.of(n_best=asked.alternatives + 1 if asked.alternatives else None)
    found: list[list[str]] = [[] for _ in texts]
    for source in dict.fromkeys(sources):
        own = [i for i, one in enumerate(sources) if one == source]
        way = Way(service, source, asked.target, options)
        translated = await translate_texts(way, [texts[i] for i in own], html=asked.format == "html")
        for i, ways in zip(own, translated, strict=True):
            found[i] = ways
    return found


def _plural(values: list[Any], many: bool) -> Any:
    return values if many else values[0]


def _libre(detection: Detection) -> dict[str, Any]:
    return {"confidence": round(100 * detection.confidence, 1), "language": detection.language}
