"""What happens, counted, for Prometheus; a registry of its own, so that two apps in a process do not meet.

Does not know: HTTP routes, models; it is told.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from transduce.serve.batching import BatchTold
from transduce.train.memory import resident_bytes

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_PIECES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """Counters, gauges and histograms; see `docs/serving.md` for their meaning."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._registry = own = CollectorRegistry()
        self.requests = Counter(
            "transduce_requests", "Requests answered", ["route", "method", "status"], registry=own
        )
        self.latency = Histogram(
            "transduce_request_seconds", "From a request's headers to its answer's end", ["route"],
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self.batch_pieces = Histogram(
            "transduce_batch_pieces",
            "Texts, or pieces of long ones, of a batch",
            buckets=_PIECES,
            registry=own,
        )
        self.batch_tokens = Histogram(
            "transduce_batch_tokens", "Source tokens of a batch", buckets=_TOKENS, registry=own
        )
        self.batch_jobs = Histogram(
            "transduce_batch_requests", "Requests that share a batch", buckets=_PIECES, registry=own
        )
        self.batch_seconds = Histogram(
            "transduce_batch_seconds", "Time that a batch takes", buckets=_SECONDS, registry=own
        )
        self.tokens = Counter("transduce_source_tokens", "Source tokens translated", registry=own)
        self.texts = Counter("transduce_texts", "Texts translated", registry=own)
        self._gauge("transduce_resident_bytes", "Resident memory of the process", resident_bytes)

    def watch_queue(self, *, pieces: Callable[[], int], tokens: Callable[[], int]) -> None:
        """Read the queue's length there."""
        self._gauge("transduce_queue_pieces", "Texts, or pieces of long ones, that wait", pieces)
        self._gauge("transduce_queue_tokens", "Source tokens that wait", tokens)

    def watch_models(self, loaded: Callable[[], int]) -> None:
        """Read the number of models in memory there."""
        self._gauge("transduce_models_loaded", "Models in memory", loaded)

    def batch(self, told: BatchTold) -> None:
        """Count a batch."""
        self.batch_pieces.observe(told.pieces)
        self.batch_tokens.observe(told.tokens)
        self.batch_jobs.observe(told.jobs)
        self.batch_seconds.observe(told.seconds)
        self.tokens.inc(told.tokens)

    def render(self) -> bytes:
        """In Prometheus's text form."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, what: str, read: Callable[[], float]) -> None:
        Gauge(name, what, registry=self._registry).set_function(read)
