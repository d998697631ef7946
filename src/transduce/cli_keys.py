"""`transduce keys`: make, list and revoke the API keys of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["keys"]

keys = typer.Typer(
    name="keys", help="Make, list and revoke the API keys of `transduce serve`.", no_args_is_help=True
)

KeysFile = Annotated[Path, typer.Option("--keys", metavar="FILE", help="The file of keys.")]


@keys.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom or what the key is for.")],
    file: KeysFile,
    requests_per_minute: Annotated[
        int, typer.Option("--requests-per-minute", help="The key's own rate limit; 0: the service's.")
    ] = 0,
) -> None:
    """Make a key; it is shown once, and the file keeps only its hash.

    For example:

    - `transduce keys create "web site" --keys keys.toml`
    - `transduce keys create nightly --keys keys.toml --requests-per-minute 600`
    """
    from transduce.serve.keys import KeyFile

    key = KeyFile(file).create(name, requests_per_minute=requests_per_minute)
    typer.echo(key)
    typer.echo(f"{file} keeps only its hash: note the key down now, it cannot be shown again", err=True)


@keys.command(name="list")
def list_(file: KeysFile) -> None:
    """List the keys: id, when made, limit, whether revoked, name.

    For example:

    - `transduce keys list --keys keys.toml`
    """
    from transduce.serve.keys import KeyFile

    for key in KeyFile(file).read():
        limit = f"{key.requests_per_minute}/min" if key.requests_per_minute else "-"
        state = f"revoked {key.revoked:%Y-%m-%d %H:%M}" if key.revoked else "valid"
        typer.echo(f"{key.id}  {key.created:%Y-%m-%d %H:%M}  {limit:>10}  {state:24}  {key.name}")


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it, or the key itself.")],
    file: KeysFile,
) -> None:
    """Revoke a key: a running service refuses it within a second.

    For example:

    - `transduce keys revoke k3v7q2aa --keys keys.toml`
    """
    from transduce.serve.keys import KeyFile

    revoked = KeyFile(file).revoke(key)
    typer.echo(f"{revoked.id} ({revoked.name}) is revoked", err=True)
