"""`transduce export`: a model directory in, another format out, a report in the card and on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from rich.console import Console

from transduce.errors import ModelError
from transduce.export.ctranslate2 import Quantization, export_ctranslate2
from transduce.export.forms import FORMS, export_form, refuse_foreign
from transduce.export.parity import measure_parity, sample_sources
from transduce.export.shortlist import vocabulary_map
from transduce.files import write_atomic, written_or
from transduce.progress import track
from transduce.text.corpus import open_corpus
from transduce.translate.model_directory import ModelDirectory

__all__ = ["export_model", "with_section"]

_TITLE = "CTranslate2 export"
_PAIRS_TOLD = 1000  # read between two signs of progress


def export_model(
    model: Path,
    to: str,
    quantization: str,
    out: Path | None,
    sample: Path | None,
    console: Console,
    *,
    shortlist: tuple[Path, Path | None] | None = None,
) -> str:
    """Export, compare, and return the report.

    Args:
        model: model directory or finished run.
        to: `ct2`, or one of `FORMS`.
        quantization: number form of the exported weights.
        out: instead of `MODEL/ct2`, `MODEL/hf`, ...
        sample: sentences to compare on; else random ids.
        console: where it is shown what is being done.
        shortlist: source and target text (or one file with both) to learn a target-vocabulary
            shortlist from.

    Raises:
        TransduceError: the format is unknown, a setting cannot be carried, a file cannot be read, or
            the export cannot be written.
    """
    if to in FORMS:
        if sample is not None or shortlist is not None:
            raise ModelError(f"--sample and --source are for --to ct2; {to} is written exactly")
        place, notes = export_form(model, to, out)
        return "\n".join([f"exported to {place}", *notes])
    if to != "ct2":
        raise ModelError(f"there is no form {to!r} to export to; there are ct2, {', '.join(FORMS)}")
    if quantization not in get_args(Quantization):
        known = ", ".join(get_args(Quantization))
        raise ModelError(f"quantization is {quantization!r}, but must be one of {known}")
    if out is not None:
        refuse_foreign(out)
    directory = ModelDirectory(model)
    sources = sample_sources(directory, sample)
    if not sources:
        raise ModelError(f"{sample} holds no sentence to compare the export on: give a file with text")
    words = "" if shortlist is None else _shortlist(directory, *shortlist, console)
    path = export_ctranslate2(
        directory,
        quantization=quantization,  # type: ignore[arg-type]
        out=out,
        shortlist=words,
    )
    size = sum(file.stat().st_size for file in path.iterdir())
    facts = [f"{quantization}, {size / 1e6:,.1f} MB, in {path.name}/"]
    if words:
        facts.append(f"with a target-vocabulary shortlist for {words.count(chr(10)) - 1:,} source pieces")
    if find_spec("torch") is None:
        facts.append("not compared with the model: torch is not installed")
    else:
        console.print("comparing the export with the model", soft_wrap=True)
        parity = measure_parity(directory, path, sources, of_text=sample is not None)
        facts += parity.lines()
        if words:
            without = measure_parity(
                directory, path, sources, of_text=sample is not None, with_shortlist=False
            )
            facts.append(
                f"the shortlist costs {without.bleu - parity.bleu:.1f} BLEU and changes the answer to "
                f"{without.equal_ids - parity.equal_ids:,} more sentences"
            )
    with written_or(ModelError, f"the card of {directory.path} could not be written"):
        write_atomic(directory.path / "card.md", with_section(directory.card, _TITLE, facts))
    return "\n".join([f"exported to {path}", *facts])


def _shortlist(directory: ModelDirectory, source: Path, target: Path | None, console: Console) -> str:
    """Learn a shortlist from parallel text; byte pieces, which spell what has no piece, are always in it."""
    data = directory.recipe.data
    corpus = open_corpus(
        source,
        target,
        source_language=data.source_language or None,
        target_language=data.target_language or None,
    )
    ours, theirs = directory.tokenizers
    with track(console, "aligning", "pairs") as tell:

        def pairs() -> Iterator[tuple[list[int], list[int]]]:
            for done, pair in enumerate(corpus, 1):
                yield ours.encode(pair.source), theirs.encode(pair.target)
                if done % _PAIRS_TOLD == 0:
                    tell(done)

        pieces = theirs.pieces(range(theirs.vocab_size))
        spelling = [i for i, piece in enumerate(pieces) if re.fullmatch(r"<0x[0-9A-F]{2}>", piece)]
        return vocabulary_map(pairs(), ours.pieces(range(ours.vocab_size)), pieces, always=spelling)


def with_section(card: str, title: str, facts: list[str]) -> str:
    """The card with this section, in the place of an older one or at the end."""
    section = "\n".join([f"## {title}", "", *(f"- {fact}" for fact in facts), ""])
    older = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if older.search(card):
        return older.sub(lambda found: section + ("" if found.end() == len(card) else "\n"), card, count=1)
    return f"{card.rstrip()}\n\n{section}" if card.strip() else section
