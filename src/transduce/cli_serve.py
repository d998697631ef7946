"""`transduce serve`: the verb's options; `cli.py` has all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce import cli_options as options

__all__ = ["serve"]


def serve(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model directories, or runs.")],
    host: Annotated[str, typer.Option("--host", help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: any free one.")] = 8000,
    engine: options.Engine = "auto",
    threads: options.Threads = None,
) -> None:
    """Serve models over HTTP.

    For example:

    - `transduce serve runs/en-de`
    """
    from transduce.serve.server import serve as run
    from transduce.serve.settings import ServeSettings

    run(ServeSettings(models=tuple(models), host=host, port=port, engine=engine, threads=threads or 0))
