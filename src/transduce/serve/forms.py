"""Bodies of requests as one kind of thing: fields by name, whether they came as JSON or as a form.

In: a request. Out: a mapping of names to strings, lists, JSON values and uploads; or a problem that says
what cannot be read. Does not know: which fields a route has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from transduce.serve.problems import Problem

__all__ = ["Upload", "checked", "read_fields"]

_JSON: Final = "application/json"
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
_MOST_FIELDS: Final = 2_000

_Model = TypeVar("_Model", bound=BaseModel)


class Upload(NamedTuple):
    """A file of a form."""

    name: str
    """As the client calls it."""
    data: bytes


def checked(fields: Mapping[str, Any], model: type[_Model]) -> _Model:
    """Fields, if they are those of a model.

    Raises:
        RequestValidationError: a field is wrong.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        errors = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(errors) from None


async def read_fields(request: Request, *, forms_only: bool = False) -> dict[str, Any]:
    """Read a body: JSON, a form, or a form with files. A name that comes several times makes a list.

    Args:
        request: with its body unread.
        forms_only: refuse JSON, which cannot hold files.

    Raises:
        Problem: 400 if it cannot be read, 415 if it is of another type, 422 if it is no JSON object.
    """
    declared = request.headers.get("content-type", "")
    kind = declared.partition(";")[0].strip().lower()
    accepted = _FORMS[1:] if forms_only else (_JSON, *_FORMS)
    if kind not in accepted:
        raise Problem(
            415,
            "Unsupported media type",
            f"the body is {kind[:100] or 'of no declared type'}; expected {' or '.join(accepted)}",
        )
    if kind == _JSON:
        return _object(await request.body())
    return await _form(request)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one; so are over-long numbers
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise Problem(400, "Not JSON", f"the body is no JSON: {why}", "not-json") from None
    if not isinstance(found, dict):
        raise Problem(422, "A field is wrong", '#: the body should be a JSON object, such as {"q": "…"}')
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


async def _form(request: Request) -> dict[str, Any]:
    try:
        form = await request.form(max_files=1, max_fields=_MOST_FIELDS)
    except HTTPException as error:
        raise _no_form(str(error.detail)) from None
    except (ValueError, KeyError, LookupError, AttributeError) as error:  # of the parser, on odd headers
        raise _no_form(f"{type(error).__name__}: {error}") from None
    fields: dict[str, Any] = {}
    try:
        for name, value in form.multi_items():
            own = value if isinstance(value, str) else await _upload(name, value)
            if name not in fields:
                fields[name] = own
            elif isinstance(fields[name], list):
                fields[name].append(own)
            else:
                fields[name] = [fields[name], own]
    finally:
        await form.close()
    return fields


async def _upload(name: str, file: UploadFile) -> Upload:
    if name != "file":
        raise Problem(422, "A field is wrong", f"#/{name[:100]}: expected text, and a file came")
    return Upload(file.filename or "", await file.read())


def _no_form(why: str) -> Problem:
    return Problem(400, "Not a form", f"the body is no form that can be read: {why[:200]}", "not-a-form")
