"""API keys in a file: made and revoked by the command line, checked by the service.

In: a TOML file of mode 0600. Out: which key a request carries, if any. The file holds no key, only
what a key is recognised by; a key is shown once, when it is made. A file that changes is read again,
so a revoked key stops working within a second, without a restart.
Does not know: HTTP, rate limits' counting.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import re
import secrets
import stat
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from transduce.errors import ServeError
from transduce.files import write_atomic, written_or

__all__ = ["ApiKey", "KeyFile", "Keys"]

_log = logging.getLogger(__name__)

_SCHEMA: Final = 1
_KEY: Final = re.compile(r"td-(?P<id>[a-z2-7]{8})-(?P<secret>[A-Za-z0-9_-]{43})")
_MOST_NAME: Final = 100
_LOOK_EVERY: Final = 1.0  # seconds between looks at the file
_UNKNOWN: Final = "0" * 64  # compared with where there is no such key, so that both take as long


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """What is kept of one key."""

    id: str
    """Its public part: names it in lists, in logs and to `revoke`."""
    name: str
    """Whom or what it is for."""
    sha256: str
    """Of id and secret. A secret is 256 random bits, which nobody can guess or look up in tables, so
    that the slow hashes and salts made for passwords would only cost time in every request."""
    created: datetime
    requests_per_minute: int = 0
    """0: as the service is set."""
    revoked: datetime | None = None


class KeyFile:
    """The file, for those who manage it; what changes it holds a lock meanwhile."""

    def __init__(self, path: Path) -> None:
        """A file that exists or is made by the first `create`."""
        self.path = path

    def read(self) -> list[ApiKey]:
        """All keys, in the order they were made; revoked ones too.

        Raises:
            ServeError: the file is missing, cannot be read or is no file of keys.
        """
        try:
            table = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ServeError(
                f"{self.path}: {error.strerror or error}; `transduce keys create NAME --keys {self.path}` "
                "makes a file of keys"
            ) from error
        except ValueError as error:
            raise ServeError(f"{self.path} is no file of keys ({error}): restore it from a copy") from error
        if table.get("schema") != _SCHEMA:
            raise ServeError(f"{self.path} is no file of keys of schema {_SCHEMA}: make it with this version")
        try:
            return [_checked(ApiKey(**entry)) for entry in table.get("keys", [])]
        except (TypeError, ValueError) as error:
            raise ServeError(f"{self.path} holds a damaged key ({error}): restore it from a copy") from error

    def create(self, name: str, *, requests_per_minute: int = 0) -> str:
        """Make a key, and return it: it cannot be shown again.

        Args:
            name: whom or what it is for; two keys may have the same.
            requests_per_minute: its own rate limit; 0 is the service's.

        Raises:
            ServeError: the name or limit is not usable, or the file cannot be read or written.
        """
        name = name.strip()
        if not name or len(name) > _MOST_NAME or not name.isprintable():
            raise ServeError(f"a key's name is 1 to {_MOST_NAME} printable characters; got {name!r}")
        if requests_per_minute < 0:
            raise ServeError(f"a key's limit is {requests_per_minute}, but must be 0 (the service's) or more")
        with self._locked():
            keys = self.read() if self.path.exists() else []
            key_id, secret = _new_id({key.id for key in keys}), secrets.token_urlsafe(32)
            made = ApiKey(
                id=key_id,
                name=name,
                sha256=_digest(key_id, secret),
                created=datetime.now(UTC).replace(microsecond=0),
                requests_per_minute=requests_per_minute,
            )
            self._write([*keys, made])
        return f"td-{key_id}-{secret}"

    def revoke(self, key_id: str) -> ApiKey:
        """Let a key be refused from now on; it stays in the file, so that lists show it.

        Args:
            key_id: as `read` gives it, or a whole key.

        Raises:
            ServeError: there is no such key, or the file cannot be read or written.
        """
        match = _KEY.fullmatch(key_id)
        wanted = match["id"] if match else key_id
        with self._locked():
            keys = self.read()
            found = next((key for key in keys if key.id == wanted), None)
            if found is None:
                raise ServeError(
                    f"{self.path} has no key {wanted!r}: `transduce keys list --keys {self.path}` shows all"
                )
            if found.revoked is None:
                revoked = replace(found, revoked=datetime.now(UTC).replace(microsecond=0))
                self._write([revoked if key is found else key for key in keys])
                return revoked
        return found

    def _write(self, keys: list[ApiKey]) -> None:
        import tomli_w

        tables = [{k: v for k, v in asdict(key).items() if v is not None} for key in keys]
        text = tomli_w.dumps({"schema": _SCHEMA, "keys": tables})
        with written_or(ServeError, f"{self.path} could not be written"):
            write_atomic(self.path, text, 0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, or two keys made at once would leave only one."""
        from filelock import FileLock

        lock = self.path.with_name(f".{self.path.name}.lock")
        with written_or(ServeError, f"{self.path} could not be written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(lock, timeout=30):
                yield


class Keys:
    """The keys a service knows: the file's, as it stands now."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ServeError: it cannot be read.
        """
        self._file = KeyFile(path)
        self._stamp = self._state()
        self._known = {key.id: key for key in self._file.read()}
        self._looked = time.monotonic()
        self._warn_of_mode()

    def find(self, text: str) -> ApiKey | None:
        """The key that a request carries; None if it is unknown, misspelt or revoked.

        Takes as long for an unknown key as for a known one, and for a wrong secret as for a right one.
        """
        self._refresh()
        match = _KEY.fullmatch(text)
        key_id, secret = (match["id"], match["secret"]) if match else ("", "")
        key = self._known.get(key_id)
        right = hmac.compare_digest(_digest(key_id, secret), key.sha256 if key else _UNKNOWN)
        return key if key is not None and right and key.revoked is None else None

    def _refresh(self) -> None:
        """Read the file again if it changed; one that became unreadable leaves the old keys standing."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        stamp = self._state()
        if stamp == self._stamp:
            return
        try:
            known = {key.id: key for key in self._file.read()}
        except ServeError as error:
            _log.warning("the keys stay as they were: %s", error)
        else:
            self._known = known
        self._stamp = stamp

    def _state(self) -> tuple[int, int, int] | None:
        """Changes when the file does: it is replaced as a whole, so its number does too."""
        try:
            status = self._file.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _warn_of_mode(self) -> None:
        with contextlib.suppress(OSError):
            if self._file.path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                _log.warning("%s can be read by others: chmod 600 %s", self._file.path, self._file.path)


def _digest(key_id: str, secret: str) -> str:
    return hashlib.sha256(f"{key_id}:{secret}".encode()).hexdigest()


def _new_id(taken: set[str]) -> str:
    """Eight letters and digits of base 32."""
    while True:
        key_id = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(8))
        if key_id not in taken:
            return key_id


def _checked(key: ApiKey) -> ApiKey:
    """What a file says, if every part is of its kind."""
    kinds = {"id": str, "name": str, "sha256": str, "created": datetime, "requests_per_minute": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(key, name), kind):
            raise ValueError(f"{name} is {getattr(key, name)!r}")
    if not re.fullmatch(r"[0-9a-f]{64}", key.sha256) or not isinstance(key.revoked, datetime | None):
        raise ValueError(f"sha256 or revoked of key {key.id!r}")
    return key
