"""`transduce serve`: the verb's options; `cli.py` has all others.

A limit that is not given is `ServeSettings`' own. Nothing heavy is imported before the verb runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce import cli_options as options

if TYPE_CHECKING:
    from transduce.serve.settings import ServeSettings

__all__ = ["serve"]

_LIMITS = "Limits, each told in the error that it causes"
_TIMES = "Time limits, in seconds"
_WHO = "Who may ask"

Count = int | None
Seconds = float | None


def _option(name: str, what: str, panel: str = _LIMITS, metavar: str | None = None) -> Any:
    return typer.Option(name, metavar=metavar, help=what, rich_help_panel=panel)


_KeysFile = Annotated[
    Path | None,
    _option(
        "--keys", "API keys, from `transduce keys create`; without it everybody may translate.", _WHO, "FILE"
    ),
]
_RequestsPerMinute = Annotated[
    Count,
    _option(
        "--requests-per-minute", "Most of one key (or without keys, of one address); 0: any number.", _WHO
    ),
]
_Origins = Annotated[
    list[str] | None,
    _option("--cors", "Let pages of this origin ask from a browser; may be given again.", _WHO, "ORIGIN"),
]
_Names = Annotated[
    list[str] | None,
    _option(
        "--allow-host", "Another name that clients call this server by; may be given again.", _WHO, "NAME"
    ),
]
_Proxies = Annotated[
    list[str] | None,
    _option(
        "--proxy",
        "Believe what a proxy at this address says of clients' addresses; may be given again.",
        _WHO,
        "ADDRESS",
    ),
]


def serve(
    models: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL...]", help="Model directories, or runs.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: any free one, which the log tells.")] = 8000,
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Load a model when it is first asked for, not at the start.")
    ] = False,
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Unload models that rest above this, such as 2GB.")
    ] = "",
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", help="How often to look for changed models; 0: never."),
    ] = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write texts into the log.")] = False,
    keys_file: _KeysFile = None,
    requests_per_minute: _RequestsPerMinute = None,
    cors_origins: _Origins = None,
    host_names: _Names = None,
    proxies: _Proxies = None,
    engine: options.Engine = "auto",
    threads: options.Threads = None,
    compute_type: options.ComputeType = None,
    overrides: options.Overrides = None,
    max_body_bytes: Annotated[Count, _option("--max-body-bytes", "Of a request.")] = None,
    max_header_bytes: Annotated[Count, _option("--max-header-bytes", "Of a request.")] = None,
    max_document_bytes: Annotated[Count, _option("--max-document-bytes", "Of a file.")] = None,
    max_document_characters: Annotated[
        Count, _option("--max-document-characters", "To translate of a file.")
    ] = None,
    max_texts: Annotated[Count, _option("--max-texts", "Texts of a request.")] = None,
    max_text_characters: Annotated[Count, _option("--max-text-characters", "Of one text.")] = None,
    max_beam_size: Annotated[Count, _option("--max-beam-size", "Also of n_best.")] = None,
    max_queue_requests: Annotated[Count, _option("--max-queue-requests", "Requests that may wait.")] = None,
    max_queue_texts: Annotated[Count, _option("--max-queue-texts", "Texts that may wait.")] = None,
    max_queue_tokens: Annotated[Count, _option("--max-queue-tokens", "Source tokens that may wait.")] = None,
    max_connections: Annotated[Count, _option("--max-connections", "Open at once.")] = None,
    batch_tokens: Annotated[Count, _option("--batch-tokens", "Source tokens of a batch.")] = None,
    request_seconds: Annotated[Seconds, _option("--request-seconds", "For an answer.", _TIMES)] = None,
    header_seconds: Annotated[Seconds, _option("--header-seconds", "For headers to arrive.", _TIMES)] = None,
    body_seconds: Annotated[Seconds, _option("--body-seconds", "For a body to arrive.", _TIMES)] = None,
    send_seconds: Annotated[Seconds, _option("--send-seconds", "For an answer to be read.", _TIMES)] = None,
    shutdown_seconds: Annotated[
        Seconds, _option("--shutdown-seconds", "To finish what runs.", _TIMES)
    ] = None,
) -> None:
    """Serve models over HTTP, to this machine unless told otherwise.

    Each model translates from its source to its target language; requests choose by these. A directory
    that changes is loaded again, and takes its place without a pause. Without a model the page opens on a
    small one that has learnt nothing, and says so.

    For example:

    - `transduce serve runs/en-de`
    - `transduce serve runs/en-de runs/de-en --port 8080 --lazy --memory 4GB`
    - `transduce serve runs/en-de --max-texts 50 --request-seconds 10 --set search.patience=1`
    - `transduce serve runs/en-de --host 0.0.0.0 --keys keys.toml --requests-per-minute 300`
    """
    settings = _settings(dict(locals()))
    from transduce.serve.server import serve as run

    run(settings)


def _settings(given: dict[str, Any]) -> ServeSettings:
    """What the options come to; one that was not given keeps the setting's own value."""
    from transduce.serve.settings import ServeSettings
    from transduce.train.memory import parse_size

    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    own |= {name: tuple(value) for name, value in own.items() if isinstance(value, list)}
    own["models"] = own.get("models", ())
    own["memory"] = parse_size(own["memory"]) if own["memory"] else 0
    if "watch" in own:
        own["watch_seconds"] = own.pop("watch")
    if overrides := own.pop("overrides", ()):  # reading recipes loads more than an export needs
        from transduce.recipe import search_overrides

        own["search"] = tuple(sorted(search_overrides(overrides).items()))
    return ServeSettings(**own)
