"""Sentences to ask for and their offline translations, as the file that load.py reads.

Does not know: servers, loads.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

__all__ = ["add_search", "languages_of", "read_sentences", "search_of", "translate_offline", "write_texts"]

_COMPANIES = (1, 2, 4, 8, 16, 32, 64)  # sentences in a call


def read_sentences(source: Path, most: int) -> list[str]:
    """The first `most` different lines with text, of a plain file or a `.gz`.

    Raises:
        ValueError: there are none.
    """
    raw = source.read_bytes()
    text = (gzip.decompress(raw) if source.suffix == ".gz" else raw).decode("utf-8")
    found = list(dict.fromkeys(line for line in text.split("\n") if line.strip()))[:most]
    if not found:
        raise ValueError(f"{source} has no line with text: give a file of sentences")
    return found


def translate_offline(model: Path, texts: list[str], search: dict[str, Any]) -> list[list[str]]:
    """What the server may answer: each sentence's translations by the same export without a server.

    With float32 there is one for each. Products in int8 round differently beside other sentences, in
    CTranslate2 itself, so that a near tie may end otherwise: sentences are translated in several companies,
    and all answers kept.
    """
    from transduce.translate.translator import Translator

    translator = Translator.load(model, engine="ctranslate2")
    found: list[dict[str, None]] = [{} for _ in texts]
    rng = random.Random(1)
    for size in _COMPANIES:
        order = rng.sample(range(len(texts)), len(texts))
        for start in range(0, len(order), size):
            own = order[start : start + size]
            answers = translator.translate([texts[i] for i in own], details=False, **search)
            for i, answer in zip(own, answers, strict=True):
                found[i][answer.text] = None
    return [list(answers) for answers in found]


def languages_of(model: Path) -> tuple[str, str]:
    """Source and target, as the export tells them."""
    from transduce.translate.exported import usable_export

    exported = usable_export(model, needed=True)
    assert exported is not None, "it was needed"
    return exported.facts.source_language, exported.facts.target_language


def write_texts(path: Path, texts: list[str], expected: list[list[str]] | None, more: dict[str, Any]) -> Path:
    """The file for `load.py --texts`."""
    path.write_text(json.dumps({"texts": texts, "expected": expected, "more": more}), encoding="utf-8")
    return path


def add_search(parser: argparse.ArgumentParser) -> None:
    """How all systems search; what CTranslate2 and LibreTranslate do unless told otherwise."""
    parser.add_argument("--beam-size", type=int, default=4, help="LibreTranslate's is 4")
    parser.add_argument(
        "--patience", type=float, default=1.0,
        help="of our engine: 1 as CTranslate2's; inf leaves it to the model, whose search then takes longer",
    )  # fmt: skip


def search_of(options: argparse.Namespace) -> dict[str, Any]:
    """Fields of `SearchConfig`, as JSON can hold them."""
    patience = {} if math.isinf(options.patience) else {"patience": options.patience}
    return {"beam_size": options.beam_size, **patience}
