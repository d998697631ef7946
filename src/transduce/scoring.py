"""Files and models to scores: what `transduce evaluate` does.

Does not know: training. The scores themselves are `transduce.evaluate`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from transduce.errors import DataError
from transduce.evaluate.scores import Scores, score
from transduce.evaluate.significance import Comparison, compare
from transduce.files import write_atomic
from transduce.progress import track
from transduce.recipe import search_overrides
from transduce.text.lines import read_lines
from transduce.translate.runtime import Runtime
from transduce.translate.translator import EngineName, Translator

__all__ = ["compare_files", "score_file", "score_model", "translate_all"]

_SENTENCES = 256  # translated between two signs of progress


def score_model(
    model: Path,
    source: Path,
    references: Sequence[Path],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    output: Path | None = None,
    overrides: Sequence[str] = (),
    engine: EngineName = "auto",
    runtime: Runtime | None = None,
    console: Console,
) -> Scores:
    """Translate a test set and score it.

    Args:
        model: model directory or finished run.
        source: sentences to translate.
        references: files of translations, line by line; several make a multi-reference score.
        tokenize: BLEU's tokenizer; by default the target language's, `none` for tokenised text.
        lowercase: ignore case in BLEU.
        output: where the translations are kept.
        overrides: `search.field=value`.
        engine: as `Translator.load`.
        runtime: threads and number form of an export.
        console: where progress is shown.

    Raises:
        TransduceError: a file cannot be read, line counts differ, or the model is damaged.
    """
    sources = list(read_lines(source))
    columns = _references(references, source, len(sources))
    translator = Translator.load(model, engine=engine, runtime=runtime)
    texts = translate_all(translator, sources, console, **search_overrides(overrides))
    if output is not None:
        write_atomic(output, "".join(f"{text}\n" for text in texts))
    return score(
        texts,
        columns,
        tokenize=tokenize,
        lowercase=lowercase,
        target_language=translator.languages[1] or None,
    )


def score_file(
    hypothesis: Path,
    references: Sequence[Path],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    target_language: str | None = None,
) -> Scores:
    """Score translations that are there already.

    Raises:
        DataError: a file cannot be read, or line counts differ.
    """
    lines = list(read_lines(hypothesis))
    return score(
        lines,
        _references(references, hypothesis, len(lines)),
        tokenize=tokenize,
        lowercase=lowercase,
        target_language=target_language,
    )


def compare_files(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    target_language: str | None = None,
) -> dict[str, Comparison]:
    """Several systems' translations of one test set, by paired bootstrap against the first.

    Raises:
        DataError: a file is named twice or cannot be read, or line counts differ.
    """
    if len(set(hypotheses)) < len(hypotheses):
        raise DataError("a file of translations is named twice: a system cannot be compared with itself")
    systems = {str(file): list(read_lines(file)) for file in hypotheses}
    first = len(systems[str(hypotheses[0])])
    return compare(
        systems,
        _references(references, hypotheses[0], first),
        tokenize=tokenize,
        lowercase=lowercase,
        target_language=target_language,
    )


def _references(files: Sequence[Path], beside: Path, count: int) -> list[tuple[str, ...]]:
    """For each line its references, one from each file."""
    columns = [list(read_lines(file)) for file in files]
    for file, lines in zip(files, columns, strict=True):
        if len(lines) != count:
            raise DataError(
                f"{beside} has {count} lines, {file} has {len(lines)} lines: they must be parallel"
            )
    return list(zip(*columns, strict=True))


def translate_all(
    translator: Translator, sources: Sequence[str], console: Console, **search: Any
) -> list[str]:
    """Texts of the translations, with progress."""
    texts: list[str] = []
    with track(console, "translating", "sentences", len(sources)) as tell:
        for start in range(0, len(sources), _SENTENCES):
            part = translator.translate(sources[start : start + _SENTENCES], details=False, **search)
            texts += [translation.text for translation in part]
            tell(len(texts))
    return texts
