"""The translator: text in, `Translation` out, one for each text and in its order.

Empty in, empty out. A text longer than the model was trained for is split at sentence ends,
translated piece by piece and joined again; nothing is cut in silence, and what was cut is flagged.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from transduce.errors import DataError, ModelError, SearchError
from transduce.search.config import SearchConfig
from transduce.text.tokenizer import Tokenizer
from transduce.translate.engine import Alignment, Engine
from transduce.translate.quality import is_copied, is_repeated
from transduce.translate.split import Segment, join, split_text

if TYPE_CHECKING:
    from transduce.model.transformer import Transformer
    from transduce.recipe import Recipe
    from transduce.search.hypothesis import Hypothesis
    from transduce.translate.ctranslate2_runtime import Runtime
    from transduce.translate.exported import ExportedModel

__all__ = ["EngineName", "Translation", "Translator"]

EngineName: TypeAlias = Literal["auto", "torch", "ctranslate2"]


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One text's translation, and what is known about it."""

    text: str
    score: float
    """What the search compared by: log-probability over the length penalty (mean over pieces)."""
    confidence: float
    """Geometric mean of the tokens' probabilities, 0 to 1."""
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    """One for each of `tokens`, and one for each end symbol; empty without `details`."""
    alignment: Alignment = ()
    """(source token, target token) pairs, when asked for."""
    flags: tuple[str, ...] = ()
    """`truncated`: cut at the length limit. `repeated`: a run of tokens stands several times in a
    row. `copied`: the source again. `split`: too long for one pass, translated in pieces."""
    alternatives: tuple[Translation, ...] = ()
    """The next best, with `n_best` > 1 (not for texts that were split)."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields: dict[str, Any] = {
            "text": self.text,
            "score": round(self.score, 5),
            "confidence": round(self.confidence, 5),
            "source_tokens": list(self.source_tokens),
            "tokens": list(self.tokens),
            "flags": list(self.flags),
        }
        if self.alignment:
            fields["alignment"] = " ".join(f"{s}-{t}" for s, t in self.alignment)
        if self.alternatives:
            fields["alternatives"] = [
                {"text": other.text, "score": round(other.score, 5)} for other in self.alternatives
            ]
        return fields


@dataclass(frozen=True)
class _Piece:
    """What goes through the engine as one: a text, or a part of a long one."""

    text: str
    ids: list[int]


class Translator:
    """A model that is ready to translate."""

    def __init__(
        self,
        engine: Engine,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: SearchConfig,
        *,
        max_len: int,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        """Put a translator together.

        Args:
            engine: runs the model.
            source_tokenizer: text to ids.
            target_tokenizer: ids to text.
            config: search settings where a call gives none.
            max_len: most source tokens of one pass; longer texts are split.
            languages: source and target language, when known.
        """
        self.engine = engine
        self._source, self._target = source_tokenizer, target_tokenizer
        self.config = config
        self.max_len = max_len
        self.languages = languages

    @classmethod
    def load(
        cls, model: str | Path, *, engine: EngineName = "auto", runtime: Runtime | None = None
    ) -> Translator:
        """Load a model directory, or the run that holds one.

        Args:
            model: where it lies; an export (`MODEL/ct2`) will do as well.
            engine: `ctranslate2` runs the export, `torch` the weights themselves; `auto` takes the
                export if there is one and it was made from these weights.
            runtime: threads and number form of the export.

        Raises:
            ModelError: there is none, it cannot be read, or the export that was asked for is missing
                or older than the weights.
        """
        if engine not in get_args(EngineName):
            raise ModelError(f"engine is {engine!r}, but must be one of {', '.join(get_args(EngineName))}")
        if engine != "torch":
            from transduce.translate.exported import usable_export

            exported = usable_export(Path(model), needed=engine == "ctranslate2")
            if exported is not None:
                return cls.over_export(exported, runtime)
        from transduce.translate.model_directory import ModelDirectory

        directory = ModelDirectory(Path(model))
        transformer = directory.load_transformer()
        return cls.over_torch(transformer, directory.recipe, *directory.tokenizers)

    @classmethod
    def over_export(cls, exported: ExportedModel, runtime: Runtime | None = None) -> Translator:
        """A translator over a CTranslate2 export.

        Args:
            exported: where it lies.
            runtime: threads and number form.

        Raises:
            ModelError: a file of it cannot be read.
        """
        from transduce.translate.ctranslate2_engine import CTranslate2Engine

        facts = exported.facts
        return cls(
            CTranslate2Engine(exported, runtime),
            *exported.tokenizers(),
            exported.search_config(),
            max_len=facts.max_len,
            languages=(facts.source_language, facts.target_language),
        )

    @classmethod
    def over_torch(
        cls, model: Transformer, recipe: Recipe, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
    ) -> Translator:
        """A translator over a network in memory (during training, for instance).

        Args:
            model: in evaluation mode.
            recipe: the model's.
            source_tokenizer: the model's.
            target_tokenizer: the model's.
        """
        from transduce.batch.collate import SpecialIds
        from transduce.translate.torch_engine import TorchEngine

        ids = SpecialIds(target_tokenizer.pad_id, target_tokenizer.bos_id, target_tokenizer.eos_id)
        # A line break inside a translation would shift every line after it (TRAPS 28).
        suppress = [target_tokenizer.unk_id, *target_tokenizer.newline_ids]
        engine = TorchEngine(model, ids, suppress=suppress)
        return cls(
            engine,
            source_tokenizer,
            target_tokenizer,
            recipe.search,
            max_len=recipe.batch.max_len - 1,
            languages=(recipe.data.source_language, recipe.data.target_language),
        )

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        alignment: bool = False,
        prefixes: Sequence[str] | None = None,
        details: bool = True,
        **search: Any,
    ) -> list[Translation]:
        """Translate texts, each on its own; the order and the batch do not matter to the result.

        Args:
            texts: one text, or several.
            alignment: find the source token that each target token looked at most.
            prefixes: for each text the words that its translation must begin with.
            details: find each token's log-probability, for which an export needs a second pass.
            search: any field of `SearchConfig` for this call, such as beam_size=1 or n_best=3.

        Raises:
            SearchError: an unknown search setting, or settings that contradict each other.
            DataError: prefixes and texts differ in number.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        config = self._configured(search)
        if prefixes is not None and len(prefixes) != len(texts):
            raise DataError(f"{len(texts)} texts came with {len(prefixes)} prefixes: give one for each")
        segments = [self._segments(text) for text in texts]
        pieces = [_Piece(s.text, self._source.encode(s.text)) for parts in segments for s in parts]
        results = iter(
            self._translate_pieces(pieces, config, _spread(prefixes, segments), alignment, details)
        )
        translated = []
        for text, parts in zip(texts, segments, strict=True):
            own = [next(results) for _ in parts]
            translated.append(own[0] if len(own) == 1 else _joined(text, own, parts))
        return translated

    def _configured(self, search: dict[str, Any]) -> SearchConfig:
        """The translator's search settings with this call's over them."""
        known = SearchConfig.__dataclass_fields__
        unknown = search.keys() - known.keys()
        if unknown:
            raise SearchError(f"unknown search setting {sorted(unknown)[0]!r}; there are {', '.join(known)}")
        if "n_best" in search and "beam_size" not in search:
            search["beam_size"] = max(self.config.beam_size, search["n_best"])
        return replace(self.config, **search)

    def _segments(self, text: str) -> list[Segment]:
        """The text whole, or in pieces that the model can take."""
        if len(text.encode("utf-8", "replace")) < self.max_len:  # a token is a byte at least
            return [Segment(text, "")]
        return split_text(text, self.max_len, lambda part: len(self._source.encode(part)))

    def _translate_pieces(
        self,
        pieces: Sequence[_Piece],
        config: SearchConfig,
        prefixes: Sequence[str] | None,
        alignment: bool,
        details: bool,
    ) -> list[Translation]:
        """Run what is not empty through the engine."""
        busy = [i for i, piece in enumerate(pieces) if piece.ids]
        sources = [pieces[i].ids for i in busy]
        forced = None if prefixes is None else [self._target.encode(prefixes[i]) for i in busy]
        # Samples are drawn by content, not by place: the same sentence gives the same samples.
        keys = [zlib.crc32(" ".join(map(str, source)).encode()) for source in sources]
        found = self.engine.search(sources, config, prefixes=forced, keys=keys, details=details)
        aligned: list[Alignment] = [()] * len(busy)
        if alignment:
            aligned = self.engine.align(sources, [hypotheses[0].ids for hypotheses in found])
        results = [_empty()] * len(pieces)
        for i, hypotheses, pairs in zip(busy, found, aligned, strict=True):
            best, *others = [self._translation(pieces[i], hypothesis) for hypothesis in hypotheses]
            results[i] = replace(best, alignment=pairs, alternatives=tuple(others))
        return results

    def _translation(self, piece: _Piece, hypothesis: Hypothesis) -> Translation:
        text = self._target.decode(hypothesis.ids)
        tokens = tuple(self._target.pieces(hypothesis.ids))
        signs = {
            "truncated": not hypothesis.finished,
            "repeated": is_repeated(tokens),
            "copied": is_copied(piece.text, text),
        }
        count = max(1, len(hypothesis.ids) + hypothesis.finished)
        return Translation(
            text=text,
            score=hypothesis.score,
            confidence=math.exp(hypothesis.log_prob / count),
            source_tokens=tuple(self._source.pieces(piece.ids)),
            tokens=tokens,
            token_log_probs=hypothesis.token_log_probs,
            flags=tuple(name for name, raised in signs.items() if raised),
        )


def _empty() -> Translation:
    """Nothing in, nothing out."""
    return Translation(text="", score=0.0, confidence=1.0, source_tokens=(), tokens=(), token_log_probs=())


def _spread(prefixes: Sequence[str] | None, segments: Sequence[Sequence[Segment]]) -> list[str] | None:
    """A text's prefix belongs to its first piece."""
    if prefixes is None:
        return None
    return [
        prefix if i == 0 else ""
        for prefix, parts in zip(prefixes, segments, strict=True)
        for i in range(len(parts))
    ]


def _joined(source: str, parts: Sequence[Translation], segments: Sequence[Segment]) -> Translation:
    """One translation out of the pieces of a long text."""
    source_tokens: list[str] = []
    tokens: list[str] = []
    alignment: list[tuple[int, int]] = []
    for part in parts:
        alignment += [(s + len(source_tokens), t + len(tokens)) for s, t in part.alignment]
        source_tokens += part.source_tokens
        tokens += part.tokens
    log_probs = tuple(value for part in parts for value in part.token_log_probs)
    text = join([part.text for part in parts], segments)
    flags = {flag for part in parts for flag in part.flags} - {"copied"} | {"split"}
    if is_copied(source, text):
        flags.add("copied")
    return Translation(
        text=text,
        score=sum(part.score for part in parts) / len(parts),
        confidence=math.exp(_mean_log_prob(parts)),
        source_tokens=tuple(source_tokens),
        tokens=tuple(tokens),
        token_log_probs=log_probs,
        alignment=tuple(alignment),
        flags=tuple(sorted(flags)),
    )


def _mean_log_prob(parts: Sequence[Translation]) -> float:
    """Of all parts' tokens and end symbols, from each part's own mean."""
    busy = [part for part in parts if part.source_tokens and part.confidence > 0]
    counts = [len(part.tokens) + ("truncated" not in part.flags) for part in busy]
    total = sum(count * math.log(part.confidence) for count, part in zip(counts, busy, strict=True))
    return total / max(1, sum(counts))
