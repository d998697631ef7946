"""The built page over HTTP: `GET /` and the files it asks for.

Knows: the directory that the package's build filled (`hatch_build.py`), HTTP.
Does not know: models, the API, what the page does.

The files are few and small, and are held in memory. A path that is none of their names is not
looked for on disk, so no path leads out of the directory. A file with a hash of its content in its
name is kept by browsers for good; every other is asked for anew each time (ETag, 304).
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

__all__ = ["CONTENT_SECURITY_POLICY", "STATIC", "StaticFile", "page_router", "read_static"]

STATIC = Path(__file__).parent / "static"
"""Where the build puts the page; git ignores it."""

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # pictures that the page draws itself, to be saved
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing from elsewhere, no inline script or style, in no other page's frame."""

# Said here and not left to `mimetypes`, whose table is the machine's: some Windows machines map
# `.js` to text/plain, and a browser refuses such a module: a blank page.
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_INDEX = "index.html"
_REASON = "not-built.txt"
_HASHED = re.compile(r"-[\w-]{8}\.\w+$")
_FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class StaticFile:
    """One file of the page, ready to be sent."""

    content: bytes
    zipped: bytes
    """The same, gzip-compressed."""
    media_type: str
    cache_control: str

    @property
    def etag(self) -> str:
        """A strong validator of the content."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def read_static(directory: Path) -> Mapping[str, StaticFile]:
    """Every file of the built page by its path (`index.html`, `assets/x-1a2b.js`), hidden files left out.

    Empty when the page was not built.
    """
    if not (directory / _INDEX).is_file():
        return {}
    files = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if not path.is_file() or path.is_symlink() or name.startswith(".") or "/." in name:
            continue
        content = path.read_bytes()
        files[name] = StaticFile(
            content=content,
            zipped=gzip.compress(content, mtime=0),
            media_type=_TYPES.get(path.suffix.lower(), "application/octet-stream"),
            cache_control=_FOR_GOOD if _HASHED.search(name) else "no-cache",
        )
    return files


def page_router(directory: Path = STATIC) -> APIRouter:
    """Routes of the built page in `directory`: `/`, `/assets/…` and the other files by their names.

    A page that is built anew while the server runs is served from the next `GET /` on. Where none
    was built, `/` says so, and how to get it (503).
    """
    router = APIRouter(include_in_schema=False)
    shelf = _Shelf(directory)
    shelf.refresh()

    async def index(request: Request) -> Response:
        shelf.refresh()
        return shelf.answer(request, _INDEX) if shelf.files else _not_built(directory)

    async def asset(request: Request) -> Response:
        return shelf.answer(request, request.url.path.removeprefix("/"))

    router.add_api_route("/", index, methods=["GET", "HEAD"])
    router.add_api_route("/assets/{name:path}", asset, methods=["GET", "HEAD"])
    for name in shelf.files:
        if not name.startswith("assets/"):
            router.add_api_route(f"/{name}", asset, methods=["GET", "HEAD"])
    return router


class _Shelf:
    """The page's files in memory, read again when the page was built anew."""

    def __init__(self, directory: Path) -> None:
        self.files: Mapping[str, StaticFile] = {}
        self._directory = directory
        self._built_at = 0

    def refresh(self) -> None:
        """Read the files if `index.html` is not the one that was read."""
        try:
            built_at = (self._directory / _INDEX).stat().st_mtime_ns
        except OSError:
            return
        if built_at != self._built_at:
            self.files = read_static(self._directory)
            self._built_at = built_at

    def answer(self, request: Request, name: str) -> Response:
        """The file, compressed if the client takes that; 304 if it has it already; 404 if there is none."""
        file = self.files.get(name)
        if file is None:
            raise HTTPException(404, "the page has no such file")
        headers = {
            "cache-control": file.cache_control,
            "content-security-policy": CONTENT_SECURITY_POLICY,
            "etag": file.etag,
            "referrer-policy": "no-referrer",
            "vary": "accept-encoding",
            "x-content-type-options": "nosniff",
        }
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(file.zipped if zipped else file.content, headers=headers, media_type=file.media_type)


def _not_built(directory: Path) -> Response:
    """What a browser shows where the page would be."""
    try:
        reason = (directory / _REASON).read_text(encoding="utf-8").strip()
    except OSError:
        reason = "transduce was installed without it"
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>transduce: no page</title>'
        "<h1>The page was not built</h1>"
        f"<p>The service works, but its page is missing: {escape(reason)}.</p>"
        "<p>In a checkout, with Node and the npm registry at hand, <code>make page</code> builds it; "
        'a released wheel holds it. The API: <a href="openapi.json">/openapi.json</a>.</p></html>'
    )
    headers = {"cache-control": "no-store", "content-security-policy": CONTENT_SECURITY_POLICY}
    return Response(text, status_code=503, headers=headers, media_type="text/html; charset=utf-8")
