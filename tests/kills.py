"""A process that is killed, as a test sees it: something dies in the middle, and nobody tidies up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["dies_at"]


class _Killed(BaseException):
    """No `except Exception` may take it for an error that can be told."""


@contextmanager
def dies_at(owner: Any, name: str, call: int) -> Iterator[None]:
    """`owner.name` dies when it is called for the `call`-th time; the block under it must end so."""
    calls = 0
    original = getattr(owner, name)

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise _Killed
        return original(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(_Killed):
            yield
    assert calls == call
