"""A model without a network: logits are a function of a sentence's key and the row's history.

The state is the list of histories itself, so a wrong `select` shows as a wrong answer. Beside it:
slow, plain references for beam search and for the best of all sequences.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from random import Random

import torch

from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import length_penalty

BOS, EOS = 0, 1


@dataclass
class Script:
    """`logits(key, history)`, and a log of what the search asked for."""

    vocab: int
    seed: int = 0
    spread: float = 2.0
    grid: float | None = None
    """Round logits to multiples of this: makes ties."""
    table: dict[tuple[int, ...], list[float]] = field(default_factory=dict)
    """Logits of given histories, the same for every sentence."""
    eos_may_be_fed: bool = False
    rows_fed: list[int] = field(default_factory=list)
    num_selects: int = 0

    def logits(self, key: int, history: tuple[int, ...]) -> list[float]:
        if history in self.table:
            return self.table[history]
        random = Random(f"{self.seed}:{key}:{history}")
        values = [random.gauss(0, self.spread) for _ in range(self.vocab)]
        return [round(v / self.grid) * self.grid for v in values] if self.grid else values

    def log_probs(self, key: int, history: tuple[int, ...]) -> list[float]:
        row = torch.tensor(self.logits(key, history), dtype=torch.float32)
        return torch.log_softmax(row, dim=0).double().tolist()

    def start(self, keys) -> History:
        return History(self, [(key, ()) for key in keys])

    def __call__(self, ids, state):
        assert not state.stale, "an old state was used again"
        assert len(ids) == len(state.rows)
        self.rows_fed.append(len(ids))
        rows = []
        for id_, (key, history) in zip(ids.tolist(), state.rows, strict=True):
            assert (id_ == BOS) == (not history), "BOS comes first, and only then"
            assert id_ != EOS or self.eos_may_be_fed, "a finished hypothesis was extended"
            rows.append((key, (*history, id_)))
        state.stale = True
        logits = torch.tensor([self.logits(key, history[1:]) for key, history in rows])
        return logits, History(self, rows)


@dataclass
class History:
    script: Script
    rows: list[tuple[int, tuple[int, ...]]]
    stale: bool = False

    def select(self, rows):
        rows = rows.tolist()
        assert rows != list(range(len(self.rows))), "this select changes nothing"
        assert not self.stale
        self.stale = True
        self.script.num_selects += 1
        chosen = [self.rows[row] for row in rows]
        keys = [key for key, _ in chosen]
        groups = [(key, len(list(group))) for key, group in itertools.groupby(keys)]
        before = [key for key, _ in itertools.groupby(key for key, _ in self.rows)]
        assert len({size for _, size in groups}) == 1, "sentences of unequal width"
        assert [key for key in before if key in keys] == [key for key, _ in groups], "order changed"
        return History(self.script, chosen)


@dataclass(frozen=True)
class Sentence:
    """One sentence's part of a request."""

    key: int
    limit: int
    prefix: tuple[int, ...] = ()


def run(function, script: Script, sentences, config: SearchConfig, suppress=(), observer=None, **kwargs):
    """Call a search on scripted sentences."""
    prefixes = [s.prefix for s in sentences]
    fields = {"bos_id": BOS, "eos_id": EOS, "prefixes": prefixes if any(prefixes) else None}
    request = Request(
        **{**fields, **kwargs},
        limits=[s.limit for s in sentences],
        config=config,
        suppress=suppress,
    )
    return function(script, script.start([s.key for s in sentences]), request, observer)


def allowed(history, id_, sentence: Sentence, config: SearchConfig, suppress) -> bool:
    """Whether the constraints let `id_` follow `history`."""
    if len(history) < len(sentence.prefix):
        return id_ == sentence.prefix[len(history)]
    if id_ == BOS or id_ in suppress:
        return False
    if id_ == EOS:
        return len(history) >= config.min_len
    n = config.no_repeat_ngram
    new = (*history, id_)[-n:]
    old = [tuple(history[i : i + n]) for i in range(len(history) - n + 1)]
    return not (n and len(history) >= n and new in old)


def hypothesis(ids, log_probs, finished: bool, config: SearchConfig) -> Hypothesis:
    total = 0.0
    for value in log_probs:
        total += value
    score = total / length_penalty(config.length_penalty, config.alpha)(len(log_probs))
    return Hypothesis(tuple(ids), score, total, tuple(log_probs), finished)


def all_sequences(script, sentence, config, suppress=()) -> list[Hypothesis]:
    """Every complete sequence up to the limit, best first."""
    found = []

    def visit(ids, log_probs):
        after = script.log_probs(sentence.key, ids)
        for id_, value in enumerate(after):
            if not allowed(ids, id_, sentence, config, suppress) or value == -math.inf:
                continue
            if id_ == EOS:
                found.append(hypothesis(ids, (*log_probs, value), True, config))
            elif len(ids) < sentence.limit:
                visit((*ids, id_), (*log_probs, value))

    visit((), ())
    return sorted(found, key=lambda h: -h.score)


def reference_beam(script, sentence, config, suppress=()) -> list[Hypothesis]:
    """Beam search for one sentence, as plainly as possible: no safe exit, no tensors."""
    size = config.beam_size
    live, finished, cut = [((), (), 0.0)], [], []
    for length in range(sentence.limit + 1):
        candidates, ended = [], set()
        for slot, (ids, _, total) in enumerate(live):
            after = script.log_probs(sentence.key, ids)
            order = sorted(range(script.vocab), key=lambda i: (-after[i], i))
            order = [i for i in order if allowed(ids, i, sentence, config, suppress)]
            if length == sentence.limit:
                order = [i for i in order[:size] if i == EOS]
            for id_ in order:
                if after[id_] > -math.inf:
                    candidates.append((total + after[id_], slot, id_, after[id_]))
        candidates.sort(key=lambda c: -c[0])
        following = []
        for rank, (total, slot, id_, value) in enumerate(candidates):
            ids, log_probs, _ = live[slot]
            if id_ == EOS and rank < size:
                finished.append(hypothesis(ids, (*log_probs, value), True, config))
                ended.add(slot)
            elif id_ != EOS and len(following) < size:
                following.append(((*ids, id_), (*log_probs, value), total))
        if len(finished) >= size * config.patience - 0.5:  # rounded, a half upwards
            break
        if not following:
            cut = [h for slot, h in enumerate(live) if slot not in ended]
            break
        live = following
    finished.sort(key=lambda h: -h.score)
    cut = [hypothesis(ids, log_probs, False, config) for ids, log_probs, _ in cut]
    return (finished + cut)[: config.n_best]
