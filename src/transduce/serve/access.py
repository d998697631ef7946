"""Who may ask, and how often: keys and rate limits as one gate in front of the routes.

In: a request's key and address. Out: a `Caller`, or a problem: 401 without a key where one is needed,
403 for a key that is unknown or revoked, 429 with Retry-After for too many requests.
Does not know: what is asked.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request

from transduce.serve.keys import Keys
from transduce.serve.problems import Problem
from transduce.serve.rate_limits import TokenBuckets, network_of

__all__ = ["Admitted", "Caller", "Gate", "admitted", "bearer", "get_gate"]

_HOW: Final = "send it as `Authorization: Bearer KEY`, or in a LibreTranslate request as `api_key`"


class Caller(NamedTuple):
    """Who asks."""

    name: str
    """For the log: `key:ID`, or `address:NETWORK` without keys."""
    limit: int
    """Requests a minute; 0 is without limit."""


class Gate:
    """Lets requests in."""

    def __init__(self, keys: Keys | None, *, requests_per_minute: int = 0) -> None:
        """Open for all, or for those with a key.

        Args:
            keys: None lets everybody in.
            requests_per_minute: most of one key (which may have its own limit), or without keys of one
                address; 0 is without limit.
        """
        self._keys, self._per_minute = keys, requests_per_minute
        self._buckets = TokenBuckets()

    @property
    def needs_key(self) -> bool:
        """Whether a request must carry a key."""
        return self._keys is not None

    def admit(self, key: str | None, address: str) -> Caller:
        """Let a request in.

        Args:
            key: what it carries, if anything.
            address: where it comes from.

        Raises:
            Problem: 401, 403 or 429.
        """
        caller = self._caller(key, address)
        wait = self._buckets.take(caller.name, caller.limit)
        if wait:
            raise Problem(
                429,
                "Too many requests",
                f"{caller.limit} requests a minute are allowed; come back in {math.ceil(wait)} s",
                "rate-limit",
                {"requests_per_minute": caller.limit},
                {"Retry-After": str(math.ceil(wait))},
            )
        return caller

    def _caller(self, key: str | None, address: str) -> Caller:
        if self._keys is None:
            return Caller(f"address:{network_of(address)}", self._per_minute)
        if not key:
            raise Problem(
                401,
                "A key is needed",
                f"this service asks for an API key: {_HOW}",
                "key-needed",
                headers={"WWW-Authenticate": "Bearer"},
            )
        known = self._keys.find(key)
        if known is None:
            # Guessing keys is hopeless, and costs its own bucket all the same.
            self._slow_down(address)
            raise Problem(
                403,
                "The key is not valid",
                "the API key is unknown or was revoked; whoever runs this service makes keys with "
                "`transduce keys create`",
                "key-invalid",
            )
        return Caller(f"key:{known.id}", known.requests_per_minute or self._per_minute)

    def _slow_down(self, address: str) -> None:
        wait = self._buckets.take(f"wrong:{network_of(address)}", _WRONG_PER_MINUTE)
        if wait:
            raise Problem(
                429,
                "Too many wrong keys",
                f"{_WRONG_PER_MINUTE} wrong keys a minute are answered; come back in {math.ceil(wait)} s",
                "rate-limit",
                {"requests_per_minute": _WRONG_PER_MINUTE},
                {"Retry-After": str(math.ceil(wait))},
            )


_WRONG_PER_MINUTE: Final = 60


async def get_gate(request: Request) -> Gate:
    """The application's gate."""
    gate: Gate = request.app.state.gate
    return gate


def bearer(request: Request) -> str | None:
    """The key in `Authorization: Bearer KEY`, if there is one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def address_of(request: Request) -> str:
    """Where a request comes from; behind a proxy, what the proxy says (uvicorn sees to that)."""
    return request.client.host if request.client else "unknown"


async def admitted(request: Request, gate: Annotated[Gate, Depends(get_gate)]) -> Caller:
    """For routes whose key stands in the header.

    Raises:
        Problem: 401, 403 or 429.
    """
    caller = gate.admit(bearer(request), address_of(request))
    request.state.caller = caller.name
    return caller


Admitted = Depends(admitted)
"""What a router names in its `dependencies`."""
