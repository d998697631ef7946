"""From the settings to a server that listens; what `transduce serve` calls."""

from __future__ import annotations

import uvicorn

from transduce.serve.app import create_app
from transduce.serve.settings import ServeSettings

__all__ = ["serve"]


def serve(settings: ServeSettings) -> None:
    """Serve until told to stop."""
    uvicorn.run(create_app(settings), host=settings.host, port=settings.port)
