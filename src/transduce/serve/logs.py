"""The log: a JSON object a line for machines, plain lines on a terminal; each with its request's id.

What clients send is not in it, unless `log_text` asks for it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any, TextIO

__all__ = ["LOGGER_NAMES", "JsonLines", "PlainLines", "request_id", "set_up_logs"]

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request under way, in its task and in what it starts."""

LOGGER_NAMES = ("transduce", "uvicorn.error", "asyncio", "py.warnings")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, request_id, and the record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if own := request_id.get():
            line["request_id"] = own
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """For a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; with the traceback below it, if there is one."""
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        parts = [_time(record), record.levelname.lower(), record.getMessage(), fields]
        line = " ".join(part for part in parts if part)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logs(stream: TextIO | None = None, *, plain: bool | None = None) -> None:
    """Write the package's and uvicorn's log to `stream` (stderr); plain by default on a terminal."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines() if (stream.isatty() if plain is None else plain) else JsonLines())
    for name in LOGGER_NAMES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
    logging.captureWarnings(True)
    # Uvicorn tells at this level what `server.py` and the middleware tell better.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
