"""What our service is measured against: a FastAPI application as one writes it in ten minutes.

python benchmarks/serve/plain_server.py --kind lock --model runs/en-de --port 8001

lock     our own `Translator`, all threads, one request at a time: what the batches across requests bring
threads  `ctranslate2.Translator` with its defaults, called from FastAPI's thread pool
stub     a constant: what HTTP alone allows here, and whether the load generator keeps up
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

__all__ = ["KINDS", "make_app"]


class Question(BaseModel):
    text: str


class Answer(BaseModel):
    text: str


def _lock(model: Path, search: dict[str, Any]) -> Callable[[str], str]:
    from transduce.translate.runtime import Runtime
    from transduce.translate.threads import available_threads
    from transduce.translate.translator import Translator

    runtime = Runtime(threads=available_threads())
    translator, lock = Translator.load(model, engine="ctranslate2", runtime=runtime), threading.Lock()

    def answer(text: str) -> str:
        with lock:
            return translator.translate([text], details=False, **search)[0].text

    return answer


def _threads(model: Path, search: dict[str, Any]) -> Callable[[str], str]:
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    translator = ctranslate2.Translator(str(model / "ct2"))
    names = ("tokenizer",) if (model / "tokenizer.model").exists() else ("source", "target")
    processors = [SentencePieceProcessor(model_file=str(model / f"{name}.model")) for name in names]

    def answer(text: str) -> str:
        pieces = processors[0].encode(text, out_type=str)
        found = translator.translate_batch([pieces], beam_size=search.get("beam_size", 2))
        return str(processors[-1].decode(found[0].hypotheses[0]))

    return answer


def _stub(_model: Path, _search: dict[str, Any]) -> Callable[[str], str]:
    return lambda text: text


KINDS = {"lock": _lock, "threads": _threads, "stub": _stub}


def make_app(kind: str, model: Path, search: dict[str, Any]) -> FastAPI:
    """An application with one route."""
    app, answer = FastAPI(), KINDS[kind](model, search)

    @app.post("/translate")
    def translate(question: Question) -> Answer:  # no coroutine, so FastAPI calls it in a thread
        return Answer(text=answer(question.text))

    return app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--search", type=json.loads, default={}, help="JSON: fields of SearchConfig")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    app = make_app(options.kind, options.model, options.search)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
