"""The application: one router for each question, one service behind them.

Does not know: sockets, signals (`server.py`), what the routes do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from transduce import __version__
from transduce.serve import (
    code_view,
    lens_routes,
    routes_documents,
    routes_health,
    routes_libretranslate,
    routes_v1,
    training_log,
)
from transduce.serve.access import Admitted, Gate
from transduce.serve.documents import DocumentDesk
from transduce.serve.downloads import Downloads
from transduce.serve.keys import Keys
from transduce.serve.lens_service import LensService
from transduce.serve.middleware import Around
from transduce.serve.problems import add_problem_handlers, problem_responses
from transduce.serve.security import SecurityHeaders, add_host_checks
from transduce.serve.service import TranslationService
from transduce.serve.settings import ServeSettings
from transduce.serve.static_page import page_router

__all__ = ["create_app"]


def create_app(settings: ServeSettings, service: TranslationService | None = None) -> FastAPI:
    """Make the application; its lifespan starts and stops the service.

    Args:
        settings: models and limits.
        service: instead of one over `settings.models`.
    """
    service = service or TranslationService(settings)
    lenses = LensService(settings.models, engine=settings.engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        lenses.stop()
        await service.stop()

    # The usual pages of documentation load scripts from elsewhere; no request leaves the machine here.
    app = FastAPI(
        title="transduce", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False, responses=problem_responses(422, 500),
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )  # fmt: skip
    app.state.settings, app.state.service, app.state.lenses = settings, service, lenses
    add_problem_handlers(app)
    add_host_checks(app, settings)
    app.add_middleware(Around, settings=settings, metrics=service.metrics, admit=service.admit)
    app.add_middleware(SecurityHeaders)
    app.state.gate = Gate(
        Keys(settings.keys_file) if settings.keys_file else None,
        requests_per_minute=settings.requests_per_minute,
    )
    app.state.documents = DocumentDesk(
        max_bytes=settings.max_document_bytes, max_characters=settings.max_document_characters
    )
    app.state.downloads = Downloads()
    inside = (lens_routes.router, code_view.router, training_log.router)
    for router in (routes_v1.router, routes_documents.router, *inside):
        app.include_router(router, dependencies=[Admitted])
    for router in (routes_libretranslate.router, routes_health.router, page_router()):
        app.include_router(router)
    return app
