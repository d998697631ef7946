"""The translator: text in, `Translation` out, one for each text and in its order.

Empty in, empty out. A text longer than the model was trained for is split at sentence ends,
translated piece by piece and joined again; nothing is cut in silence, and what was cut is flagged.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from transduce.errors import DataError, ModelError, SearchError
from transduce.search.config import SearchConfig
from transduce.text.tokenizer import Tokenizer
from transduce.translate.engine import Alignment, Engine, RequiringEngine
from transduce.translate.glossary import Glossary
from transduce.translate.n_best import search_distinct
from transduce.translate.protect import Protection
from transduce.translate.quality import is_copied, is_repeated, is_unlikely_length
from transduce.translate.requirements import Needs, Requirements, requirements_of
from transduce.translate.spelling import Speller, has_piece
from transduce.translate.split import Segment, split_lines, split_text, spread
from transduce.translate.translation import Translation, checked, empty, joined

if TYPE_CHECKING:
    from transduce.model.transformer import Transformer
    from transduce.recipe import Recipe
    from transduce.search.ensemble import Mean
    from transduce.search.hypothesis import Hypothesis
    from transduce.search.phrases import Phrase
    from transduce.translate.alignment_heads import HeadAlignment
    from transduce.translate.exported import ExportedModel
    from transduce.translate.runtime import Runtime

__all__ = ["EngineName", "Translation", "Translator"]

EngineName: TypeAlias = Literal["auto", "torch", "ctranslate2", "onnx"]


@dataclass(frozen=True)
class _Piece:
    """What goes through the engine as one: a text, or a part of a long one."""

    text: str
    ids: list[int]
    needs: Needs


@dataclass(frozen=True)
class _Call:
    """What one call of `translate` asks for."""

    config: SearchConfig
    requirements: Requirements
    alignment: bool
    details: bool


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
        self._source, self._target = self.tokenizers = source_tokenizer, target_tokenizer
        self.config = config
        self.max_len = max_len
        self.languages = languages
        self._known: dict[str, bool] = {}

    @classmethod
    def load(
        cls,
        model: str | Path | Sequence[str | Path],
        *,
        mean: Mean = "probability",
        engine: EngineName = "auto",
        runtime: Runtime | None = None,
    ) -> Translator:
        """Load a model directory, or the run that holds one; or several, which translate as one.

        Args:
            model: where it lies; an export (`MODEL/ct2`) will do as well. Several must have the same
                vocabularies.
            mean: what several are averaged by (see search/ensemble.py).
            engine: `ctranslate2` and `onnx` run these exports, `torch` the weights themselves; `auto` takes
                CTranslate2's if there is one and it was made from these weights.
            runtime: threads, number form, size of batches.

        Raises:
            ModelError: there is none, it cannot be read, or vocabularies differ; or the export that was
                asked for is missing or older than the weights, or there are several models for it.
        """
        if engine not in get_args(EngineName):
            raise ModelError(f"engine is {engine!r}, but must be one of {', '.join(get_args(EngineName))}")
        if not isinstance(model, (str, Path)):
            if engine not in ("auto", "torch"):
                raise ModelError("several models translate together with --engine torch only")
            from transduce.translate.ensemble import load_ensemble

            return load_ensemble(model, mean, runtime)
        if engine == "onnx":
            from transduce.translate.onnx_engine import load_onnx

            return load_onnx(model, runtime=runtime)
        if engine != "torch":
            from transduce.translate.exported import usable_export

            exported = usable_export(Path(model), needed=engine == "ctranslate2")
            if exported is not None:
                return cls.over_export(exported, runtime)
        from transduce.translate.model_directory import ModelDirectory

        directory = ModelDirectory(Path(model))
        network, heads = directory.load_transformer(), directory.heads
        return cls.over_torch(network, directory.recipe, *directory.tokenizers, runtime=runtime, heads=heads)

    @classmethod
    def over_export(cls, exported: ExportedModel, runtime: Runtime | None = None) -> Translator:
        """A translator over a CTranslate2 export.

        Args:
            exported: where it lies.
            runtime: threads and number form.

        Raises:
            ModelError: a file of it cannot be read; or exact answers are asked of rounded numbers.
        """
        from transduce.translate.ctranslate2_engine import CTranslate2Engine

        facts = exported.facts
        exported.refuse_rounded(runtime)
        return cls(
            CTranslate2Engine(exported, runtime),
            *exported.tokenizers(),
            exported.search_config(),
            max_len=facts.max_len,
            languages=(facts.source_language, facts.target_language),
        )

    @classmethod
    def over_torch(
        cls,
        model: Transformer,
        recipe: Recipe,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        runtime: Runtime | None = None,
        heads: HeadAlignment | None = None,
    ) -> Translator:
        """A translator over a network in memory (during training, for instance).

        Args:
            model: in evaluation mode.
            recipe: the model's.
            source_tokenizer: the model's.
            target_tokenizer: the model's.
            runtime: number form and batches; threads are the whole process's in torch.
            heads: which attention heads align; by default all of the layer before the last.

        Raises:
            ModelError: torch has no such number form here.
        """
        from transduce.batch.collate import SpecialIds
        from transduce.translate.torch_engine import TorchEngine

        ids = SpecialIds(target_tokenizer.pad_id, target_tokenizer.bos_id, target_tokenizer.eos_id)
        # A line break inside a translation would shift every line after it (TRAPS 28).
        suppress = [target_tokenizer.unk_id, *target_tokenizer.newline_ids]
        engine = TorchEngine(model, ids, suppress=suppress, runtime=runtime, heads=heads)
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
        glossary: Glossary | Mapping[str, str] | None = None,
        protect: Protection | bool = False,
        details: bool = True,
        **search: Any,
    ) -> list[Translation]:
        """Translate texts, each on its own; the order and the batch do not matter to the result.

        Args:
            texts: one text, or several.
            alignment: find the source token that each target token looked at most.
            prefixes: for each text the words that its translation must begin with.
            glossary: how phrases of the source must be translated; see glossary.py for when one applies.
            protect: keep placeholders, URLs, addresses and code as they are; see protect.py.
            details: find each token's log-probability, for which an export needs a second pass.
            search: any field of `SearchConfig` for this call, such as beam_size=1 or n_best=3.

        Raises:
            SearchError: an unknown search setting, settings that contradict each other, or an engine
                or a method that cannot write what the glossary or `protect` asks for.
            DataError: prefixes and texts differ in number; an entry of the glossary is blank.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise DataError(f"{len(texts)} texts came with {len(prefixes)} prefixes: give one for each")
        call = _Call(self.configured(**search), requirements_of(glossary, protect), alignment, details)
        self._check(call)
        segments = [self.segments(text) for text in texts]
        pieces = [
            _Piece(part.text, self._source.encode(part.text), call.requirements.of(part.text))
            for parts in segments
            for part in parts
        ]
        results = iter(self._translate_pieces(pieces, call, spread(prefixes, segments)))
        translated = []
        for text, parts in zip(texts, segments, strict=True):
            own = [next(results) for _ in parts]
            whole = len(own) == 1 and not parts[0].separator
            translated.append(own[0] if whole else joined(text, own, parts, call.requirements))
        return translated

    def knows(self, character: str) -> bool:
        """Whether the model has a piece for a character: else it reads (and writes) it in bytes.

        Letters need only be read, because the other language may have a script of its own.
        """
        known = self._known.get(character)
        if known is None:
            sides = (self._source,) if character.isalpha() else (self._source, self._target)
            known = self._known[character] = all(has_piece(tokenizer, character) for tokenizer in sides)
        return known

    def check(
        self,
        *,
        glossary: Glossary | Mapping[str, str] | None = None,
        protect: Protection | bool = False,
        **search: Any,
    ) -> SearchConfig:
        """Say whether `translate` could do what these ask for; return the settings that it would search by.

        Raises:
            SearchError, DataError: as `translate`.
        """
        call = _Call(self.configured(**search), requirements_of(glossary, protect), False, False)
        self._check(call)
        return call.config

    def segments(self, text: str) -> list[Segment]:
        """The text whole, or in pieces that the model can take; `join` puts their translations together.

        Lines are pieces of their own, so that their ends stay; models write none. `translate` does both;
        one who translates the pieces of many texts together needs them apart.
        """
        return [piece for line in split_lines(text) for piece in self._pieces(line)]

    def _pieces(self, line: Segment) -> list[Segment]:
        if len(line.text.encode("utf-8", "replace")) < self.max_len:  # a token is a byte at least
            return [line]
        *first, last = split_text(line.text, self.max_len, self.num_tokens)
        return [*first, Segment(last.text, last.separator + line.separator)]

    def num_tokens(self, text: str) -> int:
        """How many source tokens a text has."""
        return len(self._source.encode(text))

    def join(
        self,
        text: str,
        parts: Sequence[Translation],
        segments: Sequence[Segment],
        *,
        glossary: Glossary | Mapping[str, str] | None = None,
        protect: Protection | bool = False,
    ) -> Translation:
        """What `translate` gives for `text`, from the translations of its segments.

        Args:
            text: the whole.
            parts: what `translate` gave for each segment's text, asked the same.
            segments: as `segments` cut it.
            glossary: as given to `translate`.
            protect: as given to `translate`.
        """
        if len(parts) == 1 and not segments[0].separator:
            return parts[0]
        return joined(text, parts, segments, requirements_of(glossary, protect))

    def configured(self, **search: Any) -> SearchConfig:
        """The translator's search settings with these over them.

        Raises:
            SearchError: an unknown setting, or settings that contradict each other.
        """
        known = SearchConfig.__dataclass_fields__
        unknown = search.keys() - known.keys()
        if unknown:
            raise SearchError(f"unknown search setting {sorted(unknown)[0]!r}; there are {', '.join(known)}")
        if "n_best" in search and "beam_size" not in search:
            search["beam_size"] = max(self.config.beam_size, search["n_best"])
        return replace(self.config, **search)

    def _check(self, call: _Call) -> None:
        """Refuse what the engine or the method cannot do, before any text is looked at."""
        if not call.requirements.forces:
            return
        if call.config.method == "sample":
            raise SearchError(
                "samples cannot be made to hold a glossary's terms or protected text: leave these out, "
                "or search by beam"
            )
        if not isinstance(self.engine, RequiringEngine):
            raise SearchError(
                f"{type(self.engine).__name__} cannot be made to write a glossary's terms or protected text: "
                "use the torch engine, or leave them out (Protection(force=False) still says what was lost)"
            )

    def _translate_pieces(
        self, pieces: Sequence[_Piece], call: _Call, prefixes: Sequence[str] | None
    ) -> list[Translation]:
        """Run what is not empty through the engine."""
        busy = [i for i, piece in enumerate(pieces) if piece.ids]
        sources = [pieces[i].ids for i in busy]
        forced = None if prefixes is None else [self._target.encode(prefixes[i]) for i in busy]
        found = self._search([pieces[i] for i in busy], call, forced)
        aligned: list[Alignment] = [()] * len(busy)
        if call.alignment:
            aligned = self.engine.align(sources, [hypotheses[0].ids for hypotheses in found])
        results = [empty()] * len(pieces)
        for i, hypotheses, pairs in zip(busy, found, aligned, strict=True):
            best, *others = [self._translation(pieces[i], h, call.requirements) for h in hypotheses]
            results[i] = replace(best, alignment=pairs, alternatives=tuple(others))
        return results

    def _search(
        self, pieces: Sequence[_Piece], call: _Call, prefixes: Sequence[Sequence[int]] | None
    ) -> list[list[Hypothesis]]:
        """Per piece, at most `n_best` hypotheses of different text, holding what they must."""
        sources = [piece.ids for piece in pieces]
        # Samples are drawn by content, not by place: the same sentence gives the same samples.
        keys = [zlib.crc32(" ".join(map(str, source)).encode()) for source in sources]
        required = self._required(pieces, call.requirements)

        def search(chosen: Sequence[int], config: SearchConfig) -> list[list[Hypothesis]]:
            own = [sources[i] for i in chosen]
            forced = None if prefixes is None else [prefixes[i] for i in chosen]
            if required is None:
                return self.engine.search(
                    own, config, prefixes=forced, keys=[keys[i] for i in chosen], details=call.details
                )
            assert isinstance(self.engine, RequiringEngine), "_check has seen to it"
            return self.engine.search_required(
                own, config, required=[required[i] for i in chosen], prefixes=forced
            )

        return search_distinct(search, len(pieces), call.config, self._target.decode)

    def _required(self, pieces: Sequence[_Piece], requirements: Requirements) -> list[list[Phrase]] | None:
        """Per piece, the phrases that its translation must hold; None if none has any."""
        if not requirements.forces:
            return None
        required = [requirements.phrases(piece.needs, self._speller) for piece in pieces]
        return required if any(required) else None

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self._target)

    def _translation(self, piece: _Piece, hypothesis: Hypothesis, requirements: Requirements) -> Translation:
        text = self._target.decode(hypothesis.ids)
        tokens = tuple(self._target.pieces(hypothesis.ids))
        signs = {
            "truncated": not hypothesis.finished,
            "repeated": is_repeated(tokens),
            "copied": is_copied(piece.text, text),
            "length": is_unlikely_length(len(piece.ids), len(tokens)),
            "empty": not text.strip(),
        }
        count = max(1, len(hypothesis.ids) + hypothesis.finished)
        translation = Translation(
            text=text,
            score=hypothesis.score,
            confidence=math.exp(hypothesis.log_prob / count),
            source_tokens=tuple(self._source.pieces(piece.ids)),
            tokens=tokens,
            token_log_probs=hypothesis.token_log_probs,
            token_confidence=tuple(math.exp(value) for value in hypothesis.token_log_probs[: len(tokens)]),
            flags=tuple(name for name, raised in signs.items() if raised),
        )
        return checked(translation, piece.needs, requirements)
