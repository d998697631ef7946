"""What is asked of CTranslate2, and how its answers are read.

In:  sentences as pieces, an export. Out: `Found` hypotheses, log-probabilities.
Does not know: which search gives our answer (`ctranslate2_engine.py`), ids of hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np

from transduce.search.config import SearchConfig
from transduce.translate.ctranslate2_beam import Found
from transduce.translate.ctranslate2_runtime import Workers
from transduce.translate.exported import ExportedModel
from transduce.translate.runtime import ComputeType, Runtime

__all__ = ["Calls", "Sentence"]


@dataclass(frozen=True)
class Sentence:
    """One sentence on its way through."""

    index: int
    source: list[str]
    limit: int
    prefix: list[str]
    forced: float = 0.0
    """The prefix's own log-probability."""
    end: float | None = None
    """That of EOS right after the prefix, if the beam would consider it."""


class Calls:
    """An export with its workers; the base of the engine."""

    def __init__(
        self, exported: ExportedModel, runtime: Runtime | None = None, *, shortlist: bool = True
    ) -> None:
        """Wrap an export; the weights are loaded by the first call.

        Args:
            exported: where it lies, and its facts.
            runtime: threads and number form.
            shortlist: use the target-vocabulary shortlist, if it has one. Which words are allowed then
                depends on the whole batch, as CTranslate2 joins the sentences' lists.

        Raises:
            ModelError: its vocabularies cannot be read.
        """
        self._facts = exported.facts
        self._shortlist = shortlist and exported.facts.shortlist
        stored = cast(ComputeType, exported.facts.quantization)
        self._workers = Workers(exported.path, runtime or Runtime(), stored)
        self._source, self._target = exported.vocabularies()
        self._ids = {token: i for i, token in enumerate(self._target)}
        self._eos = self._target[self._facts.eos_id]

    @property
    def slots(self) -> int:
        """As `ParallelEngine`: one call for each thread."""
        return self._workers.threads

    @property
    def batch_tokens(self) -> int:
        """As `ParallelEngine`."""
        return self._workers.batch_tokens

    @property
    def copies(self) -> int:
        """As `ParallelEngine`."""
        return self._workers.copies

    def together(self, beam_size: int) -> int:
        """As `ParallelEngine`."""
        return self._workers.together(beam_size)

    def crowd(self, crowded: bool) -> None:
        """As `ParallelEngine`."""
        self._workers.crowded = crowded

    def _run(
        self,
        sentences: Sequence[Sentence],
        options: Callable[[Sequence[Sentence]], dict[str, Any]],
        translator: Any = None,
    ) -> Iterable[tuple[list[Sentence], list[Any]]]:
        """Translate in batches, all of them under way at once; `options` says how, for each."""
        translator = translator or self._workers.for_sentences(len(sentences))
        started = self._start(sentences, options, translator)
        return [(batch, [result.result() for result in results]) for batch, results in started]

    def _start(
        self,
        sentences: Sequence[Sentence],
        options: Callable[[Sequence[Sentence]], dict[str, Any]],
        translator: Any,
    ) -> list[tuple[list[Sentence], list[Any]]]:
        """Batches with results that are yet to come."""
        lengths = [len(s.source) + 1 for s in sentences]
        waiting = []
        for indices in self._workers.batches(lengths, translator):
            batch = [sentences[i] for i in indices]
            results = translator.translate_batch(
                [s.source for s in batch],
                max_batch_size=0,
                max_input_length=0,
                use_vmap=self._shortlist and not batch[0].prefix,  # a prefix may hold any token
                asynchronous=True,
                **options(batch),
            )
            waiting.append((batch, results))
        return waiting

    def _options(
        self, batch: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int]
    ) -> dict[str, Any]:
        """What every search asks for."""
        options: dict[str, Any] = {
            "min_decoding_length": config.min_len,
            "no_repeat_ngram_size": config.no_repeat_ngram,
            "suppress_sequences": [[self._target[i]] for i in forbidden],
            "return_scores": True,
            "return_end_token": True,
        }
        if batch[0].prefix:
            options["target_prefix"] = [s.prefix for s in batch]
        return options

    def _found(self, sentence: Sentence, result: Any, power: float = 0.0) -> list[Found]:
        """The possible hypotheses of one result."""
        found = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ended = bool(tokens) and tokens[-1] == self._eos
            total = score * len(tokens) ** power + sentence.forced
            own = tuple(tokens[:-1] if ended else tokens)
            found.append(Found(own, total, ended, sentence.forced))
        return [hypothesis for hypothesis in found if hypothesis.possible]

    def _with_prefix_scores(
        self, sentences: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int]
    ) -> list[Sentence]:
        """The sentences with their prefixes' log-probabilities, and EOS's where it is a candidate then."""
        rows = self._scores([(s.source, s.prefix) for s in sentences])
        places = self._places_of_eos(sentences, config, forbidden)
        return [
            replace(
                sentence,
                forced=reduce(add, row[:-1], 0.0),
                end=row[-1] if places[sentence.index] < config.beam_size else None,
            )
            for sentence, row in zip(sentences, rows, strict=True)
        ]

    def _places_of_eos(
        self, sentences: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int]
    ) -> dict[int, float]:
        """How many tokens are likelier than EOS right after the prefix; inf where it is not allowed."""

        def options(batch: Sequence[Sentence]) -> dict[str, Any]:
            steps = max(len(s.prefix) for s in batch) + 1
            own = {**self._options(batch, config, forbidden), "min_decoding_length": 0}
            return {**own, "beam_size": 1, "max_decoding_length": steps, "return_logits_vocab": True}

        places: dict[int, float] = {}
        for batch, results in self._run(sentences, options):
            for sentence, result in zip(batch, results, strict=True):
                step = len(sentence.prefix)
                scores = np.asarray(result.logits[0][step])
                likelier = float((scores > scores[self._facts.eos_id]).sum())
                places[sentence.index] = likelier if config.min_len <= step else math.inf
        return places

    def _scores(self, pairs: Sequence[tuple[list[str], Sequence[str]]]) -> list[list[float]]:
        """For each pair the log-probabilities of the target's tokens and of EOS, by teacher forcing."""
        if not pairs:
            return []
        translator = self._workers.for_sentences(len(pairs))
        lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
        waiting: list[tuple[int, Any]] = []
        for indices in self._workers.batches(lengths, translator):
            results = translator.score_batch(
                [pairs[i][0] for i in indices],
                [list(pairs[i][1]) for i in indices],
                max_input_length=0,
                asynchronous=True,
            )
            waiting += zip(indices, results, strict=True)
        found = {i: list(result.result().log_probs) for i, result in waiting}
        return [found[i] for i in range(len(pairs))]
