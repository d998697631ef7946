"""The engine over a CTranslate2 export: ids in, hypotheses out, no torch.

It gives the answers of `torch_engine.py`, in fp32, but for rounding and these cases:

    forbidden tokens   CTranslate2 shares their probability out among the others before it sums up;
                       ours leaves it unused. Felt where much of it lies on what is forbidden:
                       `min_len`, `no_repeat_ngram`, a model that likes `<unk>`.
    the limit          Ours lets any hypothesis that reaches it end, if EOS is among its own likeliest
                       tokens; CTranslate2 only if that is among the best of the whole beam.
    forced prefix      CTranslate2 does not let a sentence end right after its prefix, unless nothing
                       else is likelier. That hypothesis is added here, but it cost the beam a place.
    a shortlist        is joined over the batch, so that neighbours can allow a sentence other words.
    samples            come from CTranslate2's own random numbers: the same seed and the same call give
                       the same samples, but other neighbours give others.

`patience` inf (nothing can change any more) has no counterpart there; see `ctranslate2_beam.py`.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from transduce.errors import ModelError
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.penalty import length_penalty
from transduce.search.request import Request
from transduce.translate.ctranslate2_beam import (
    Found,
    Run,
    best_ended,
    endless,
    exponent,
    filled_up,
    first_run,
    joined,
    needs,
)
from transduce.translate.ctranslate2_calls import Calls, Sentence
from transduce.translate.engine import Alignment

__all__ = ["CTranslate2Engine"]

_SAMPLING = threading.Lock()  # the seed is the whole process's


class CTranslate2Engine(Calls):
    """Runs an exported model on the CPU."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        details: bool = True,
    ) -> list[list[Hypothesis]]:
        """As `Engine.search`; without `details` a hypothesis lacks its tokens' log-probabilities."""
        longest = self._facts.longest or sys.maxsize
        request = Request(
            bos_id=self._facts.bos_id,
            eos_id=self._facts.eos_id,
            limits=[min(config.limit(len(source)), longest - 1) for source in sources],
            config=config,
            suppress=[self._facts.pad_id, self._facts.bos_id, *self._facts.suppress],
            prefixes=prefixes,
            keys=keys,
        )
        request.check_vocab(len(self._target))
        self._check_sources(sources, longest)
        sentences = [
            Sentence(
                index,
                [self._source[i] for i in source],
                request.limits[index],
                [self._target[i] for i in prefixes[index]] if prefixes is not None else [],
            )
            for index, source in enumerate(sources)
        ]
        method = self._sample if config.method == "sample" else self._greedy
        if config.method == "beam" and config.beam_size > 1:
            method = self._beam
        found: dict[int, list[Found]] = {}
        for forced in (False, True):  # a neighbour with a prefix changes how a sentence may end
            some = [s for s in sentences if bool(s.prefix) == forced]
            if some:
                if forced:
                    some = self._with_prefix_scores(some, config, request.forbidden)
                found |= method(some, config, request.forbidden)
        return self._hypotheses(sentences, [found[s.index] for s in sentences], config, details)

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`: the export names all heads of the layer before the last, as ours does."""
        busy = [i for i in range(len(sources)) if len(sources[i]) and len(targets[i])]
        rows = [
            Sentence(
                i,
                [self._source[t] for t in sources[i]],
                len(targets[i]),
                [self._target[t] for t in targets[i]],
            )
            for i in busy
        ]
        found: list[Alignment] = [()] * len(sources)
        for batch, results in self._run(
            rows,
            lambda batch: {
                "target_prefix": [s.prefix for s in batch],
                "max_decoding_length": max(s.limit for s in batch),
                "min_decoding_length": 0,
                "beam_size": 1,
                "return_attention": True,
            },
        ):
            for sentence, result in zip(batch, results, strict=True):
                attention = result.attention[0][: sentence.limit]
                width = len(sentence.source)
                best = [max(range(width), key=row.__getitem__) for row in attention]
                found[sentence.index] = tuple((s, t) for t, s in enumerate(best))
        return found

    def log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """For each pair the log-probabilities of the target's tokens, and of EOS after them."""
        return self._scores(
            [
                ([self._source[i] for i in source], [self._target[i] for i in target])
                for source, target in zip(sources, targets, strict=True)
            ]
        )

    def _check_sources(self, sources: Sequence[Sequence[int]], longest: int) -> None:
        for index, source in enumerate(sources):
            if len(source) >= longest:
                raise ModelError(
                    f"sentence {index} has {len(source)} tokens, but the export has positions for "
                    f"{longest}, the end symbol's counted: split it, or translate with --engine torch"
                )
            if source and not 0 <= min(source) <= max(source) < len(self._source):
                raise ModelError(
                    f"sentence {index} holds the id {max(source)}, but the source vocabulary has ids 0 to "
                    f"{len(self._source) - 1}: are the tokenizer and the export from the same run?"
                )

    def _greedy(
        self, sentences: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int], **how: Any
    ) -> dict[int, list[Found]]:
        """One path each, cut at the sentence's own limit; also what samples are drawn by."""
        translator = how.pop("translator", None)

        def options(batch: Sequence[Sentence]) -> dict[str, Any]:
            return {
                **self._options(batch, config, forbidden),
                "beam_size": 1,
                "length_penalty": 0.0,
                "max_decoding_length": max(s.limit for s in batch) + 1,
                **how,
            }

        return {
            sentence.index: [_cut_to(h, sentence.limit) for h in self._found(sentence, result)]
            for batch, results in self._run(sentences, options, translator)
            for sentence, result in zip(batch, results, strict=True)
        }

    def _sample(
        self, sentences: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int]
    ) -> dict[int, list[Found]]:
        with _SAMPLING:
            return self._greedy(
                sentences,
                config,
                forbidden,
                translator=self._workers.fresh(config.seed),
                num_hypotheses=config.n_best,
                sampling_topk=config.top_k,
                sampling_topp=config.top_p,
                sampling_temperature=config.temperature,
            )

    def _beam(
        self, sentences: Sequence[Sentence], config: SearchConfig, forbidden: Sequence[int]
    ) -> dict[int, list[Found]]:
        """Run after run, each for the sentences whose answer is not sure yet, all that are due under way."""
        translator = self._workers.for_sentences(len(sentences), config.beam_size)

        def start(some: Sequence[Sentence], run: Run | None, how: SearchConfig) -> list[_BeamBatch]:
            return self._start_beam(some, run, how, forbidden, translator)

        best: dict[int, list[Found]] = {}
        at_limit: list[_BeamBatch] = []  # of sentences of whose hypotheses too few ended
        waiting = deque(start(sentences, None, config))
        while waiting:
            batch = waiting.popleft()
            more: list[tuple[Run, Sentence]] = []
            short: dict[int, list[Sentence]] = {}
            for sentence, found in self._finish_beam(batch):
                wanted = needs(found, batch.run, sentence.limit, config, batch.power)
                if wanted is not None:
                    more.append((wanted, sentence))
                    continue
                own = best[sentence.index] = best_ended(found, sentence.limit, config)
                if len(own) < config.n_best:
                    short.setdefault(sentence.limit, []).append(sentence)
            for run, some in joined(more, config).items():
                waiting += start(some, run, config)
            for limit, some in short.items():  # CTranslate2 shows what is alive at its last step
                if limit == 0:
                    empty = [Found((), 0.0, ended=False)]
                    best |= {s.index: filled_up(best[s.index], empty, config) for s in some}
                else:
                    at_limit += start(some, endless(config, limit), replace(config, patience=math.inf))
        for batch in at_limit:
            for sentence, found in self._finish_beam(batch):
                best[sentence.index] = filled_up(best[sentence.index], found, config)
        return best

    def _start_beam(
        self,
        sentences: Sequence[Sentence],
        run: Run | None,
        config: SearchConfig,
        forbidden: Sequence[int],
        translator: Any,
    ) -> list[_BeamBatch]:
        """One run, under way in batches; without `run`, each of them gets what suits it."""

        def power_of(batch: Sequence[Sentence]) -> float:
            return exponent(config, [len(s.source) for s in batch])

        def run_of(batch: Sequence[Sentence]) -> Run:
            return run or first_run(config, [len(s.source) for s in batch], [s.limit for s in batch])

        def options(batch: Sequence[Sentence]) -> dict[str, Any]:
            own = run_of(batch)
            return {
                **self._options(batch, config, forbidden),
                "beam_size": config.beam_size,
                "length_penalty": power_of(batch),
                "patience": own.endings / config.beam_size,
                "num_hypotheses": own.endings,
                "max_decoding_length": own.steps,
            }

        started = self._start(sentences, options, translator)
        return [_BeamBatch(batch, results, run_of(batch), power_of(batch)) for batch, results in started]

    def _finish_beam(self, batch: _BeamBatch) -> Iterable[tuple[Sentence, list[Found]]]:
        for sentence, result in zip(batch.sentences, batch.results, strict=True):
            yield sentence, _with_early_end(self._found(sentence, result.result(), batch.power), sentence)

    def _hypotheses(
        self,
        sentences: Sequence[Sentence],
        found: Sequence[Sequence[Found]],
        config: SearchConfig,
        details: bool,
    ) -> list[list[Hypothesis]]:
        """Ids and scores; with `details` the model's own, so that nothing forbidden is in them."""
        penalty = length_penalty(config.length_penalty, config.alpha)
        # The sum that came with a path that was cut counts what was cut off; a sample's, its temperature.
        scored = [[details or not h.ended or config.method == "sample" for h in some] for some in found]
        pairs = [
            (s.source, h.tokens)
            for s, some, asked in zip(sentences, found, scored, strict=True)
            for h, ask in zip(some, asked, strict=True)
            if ask
        ]
        rows = iter(self._scores(pairs))
        answers = []
        for some, asked in zip(found, scored, strict=True):
            answer = []
            for h, ask in zip(some, asked, strict=True):
                log_probs = tuple(next(rows)[: h.steps]) if ask else ()
                total = reduce(add, log_probs, 0.0) if ask else h.total
                ids = tuple(self._ids[token] for token in h.tokens)
                answer.append(Hypothesis(ids, total / penalty(h.steps), total, log_probs, h.ended))
            if details and config.method == "beam":
                answer.sort(key=lambda h: (not h.finished, -h.score))
            answers.append(answer)
        return answers


@dataclass(frozen=True)
class _BeamBatch:
    """Sentences under way, and how."""

    sentences: Sequence[Sentence]
    results: Sequence[Any]
    run: Run
    power: float


def _with_early_end(found: list[Found], sentence: Sentence) -> list[Found]:
    """Also the prefix alone: CTranslate2 lets it end a sentence only if nothing is likelier."""
    if sentence.end is None:
        return found
    own = Found(tuple(sentence.prefix), sentence.forced + sentence.end, ended=True, forced=sentence.forced)
    return found if any(h.ended and h.tokens == own.tokens for h in found) else [*found, own]


def _cut_to(found: Found, limit: int) -> Found:
    """A path that went beyond the limit, because a neighbour's is higher, stops there."""
    if found.ended and len(found.tokens) <= limit:
        return found
    return replace(found, tokens=found.tokens[:limit], ended=False)
