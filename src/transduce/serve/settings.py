"""What a server may be asked for, and how much of it: every limit in one place.

Does not know: HTTP frameworks, models.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transduce.errors import ServeError

__all__ = ["ServeSettings"]


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How a server runs.

    Raises:
        ServeError: a value is out of its range, or two values contradict each other.
    """

    models: tuple[Path, ...] = ()
    """Model directories, or finished runs."""
    host: str = "127.0.0.1"
    """Where to listen; only this machine can reach the default."""
    port: int = 8000
    """0: any free one, which the log names."""
    keys_file: Path | None = None
    """API keys, hashed; without it everybody who reaches the port may translate."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of which other hosts may call the API from a browser."""
    host_names: tuple[str, ...] = ()
    """Names, besides localhost, that clients may call the server by; looked at where only this machine can
    reach it, or where there are some."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies whose word on a client's address (X-Forwarded-For) is believed."""
    requests_per_minute: int = 0
    """Most requests of one key, or without keys of one address; 0: as many as it likes."""

    engine: str = "auto"
    """As in `transduce translate`: `ctranslate2`, `torch` or `auto`."""
    compute_type: str = "default"
    """Number form of the products (see translate/runtime.py)."""
    threads: int = 0
    """Threads that compute; 0: the physical cores that the process may use, or `OMP_NUM_THREADS`."""
    search: tuple[tuple[str, Any], ...] = ()
    """Fields of `SearchConfig` instead of the models' own, where a request gives none."""
    lazy: bool = False
    """Load a model when it is first asked for, not at the start."""
    memory: int = 0
    """Bytes of resident memory above which models that rest are unloaded; 0: never."""
    watch_seconds: float = 2.0
    """How often model directories are looked at for changes; 0: never."""

    max_body_bytes: int = 2_000_000
    max_header_bytes: int = 16_384
    max_document_bytes: int = 10_000_000
    """Of the body of a request that brings a document."""
    max_document_characters: int = 500_000
    """Characters to translate of one document."""
    max_texts: int = 1000
    """Texts of one request."""
    max_text_characters: int = 20_000
    """Characters of one text."""
    max_beam_size: int = 16
    max_glossary: int = 1000
    """Entries of one request's glossary."""
    max_queue_requests: int = 128
    """Requests that wait; fewer than `max_connections`, so that `/health` is answered all the same."""
    max_queue_texts: int = 4000
    """Texts that wait; a request that finds no room gets 429."""
    max_queue_tokens: int = 400_000
    """Source tokens that wait, as above."""
    max_connections: int = 512
    request_seconds: float = 120.0
    """Most time from a request's last byte to its answer's."""
    header_seconds: float = 10.0
    """Most time for a request's headers to arrive."""
    body_seconds: float = 30.0
    """Most time for a request's body to arrive."""
    send_seconds: float = 30.0
    """Most time that a client may leave a part of its answer unread."""
    shutdown_seconds: float = 30.0
    """Most time for what runs to be finished when the server is told to stop."""

    batch_tokens: int = 0
    """Most source tokens, padding counted, of a batch; 0: as suits the engine."""
    batch_window_seconds: float = 0.003
    """How long a batch waits for company when others are under way; a lone request never waits."""

    log_text: bool = False
    """Write texts and translations into the log."""

    def __post_init__(self) -> None:
        """Check every field, then the fields against each other."""
        for name, value in asdict(self).items():
            if isinstance(value, (int, float)) and value < _LEAST.get(name, 0):
                raise ServeError(f"{name} is {value}, but must be at least {_LEAST.get(name, 0)}: raise it")
        if self.port > 65_535:
            raise ServeError(f"port is {self.port}, but must lie in [0, 65535]: 8000 is usual")
        if self.max_texts > self.max_queue_texts:
            raise ServeError(
                f"max_texts ({self.max_texts}) is larger than max_queue_texts ({self.max_queue_texts}): "
                "such a request would never find room; raise max_queue_texts"
            )

    @property
    def limits(self) -> dict[str, Any]:
        """What a client must know, for `GET /api/v1/models`."""
        return {name: getattr(self, name) for name in _TOLD}


_LEAST = {
    "max_body_bytes": 1,
    "max_document_bytes": 1,
    "max_document_characters": 1,
    "max_header_bytes": 1024,
    "max_texts": 1,
    "max_text_characters": 1,
    "max_beam_size": 1,
    "max_queue_requests": 1,
    "max_queue_texts": 1,
    "max_queue_tokens": 1,
    "max_connections": 1,
    "request_seconds": 0.01,
    "header_seconds": 0.01,
    "body_seconds": 0.01,
    "send_seconds": 0.01,
}

_TOLD = (
    "max_body_bytes",
    "max_document_bytes",
    "max_document_characters",
    "max_texts",
    "max_text_characters",
    "max_beam_size",
    "max_glossary",
    "max_queue_requests",
    "max_queue_texts",
    "max_queue_tokens",
    "request_seconds",
)
