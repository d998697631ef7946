"""Beam search for translations that must hold given phrases (terms, placeholders).

In:  a step, a state with one row per sentence, a request with `required` phrases.
Out: the `n_best` best hypotheses of each sentence that hold all its phrases, best first.
Does not know: models, strings, caches, how a phrase is matched (`phrases.py`).
Axes: rows = open sentences * slots.

Where a plain beam keeps the best hypotheses, this one keeps the best of each bank: hypotheses that
have come equally far with their phrases, counted in tokens (Post and Vilar, 2018). Beside the likeliest
tokens, those that begin or continue a phrase are candidates, and what may stand behind a whole one.
Slots go round the banks, the fullest first. There are two beams of them and one more for each token of
the phrases, `_MOST_EXTRA` at most: then the emptiest banks get none, and the rest must go on.
EOS is open to a hypothesis only when it holds all phrases. Without phrases there is one bank, and
everything is as in `beam.py`: the candidates, the ties, when it ends.

If a sentence ends without any such hypothesis (its limit is too short, or a phrase is impossible),
what came furthest is returned instead. It shows in the ids; the score tells nothing of it.

Bookkeeping is plain Python: few sentences ask for phrases, and each of these slots is a decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.search.constraints import Constraints
from transduce.search.hypothesis import Hypothesis
from transduce.search.phrases import Phrases, Progress
from transduce.search.request import Request
from transduce.search.scores import length_penalty, log_probabilities, top_tokens
from transduce.search.step import Observer, State, Step, StepRecord, reorder
from transduce.search.tree import ROOT, Leaf, Tree

__all__ = ["most_slots", "required_search"]

_MOST_EXTRA = 16  # slots beyond two beams: a long URL need not make a step ten times as wide


@dataclass(frozen=True)
class _Live:
    """A hypothesis that goes on."""

    node: int
    total: float
    progress: Progress


@dataclass(frozen=True)
class _Candidate:
    """One token more for a live hypothesis."""

    parent: int
    token: int
    log_prob: float
    total: float
    likely: bool  # among the beam_size likeliest of its row
    progress: Progress
    bank: int


@dataclass(frozen=True)
class _Ended:
    leaf: Leaf
    score: float
    bank: int


@dataclass
class _Sentence:
    """One open sentence."""

    number: int
    limit: int
    phrases: Phrases
    slots: int
    last_penalty: float
    live: list[_Live]
    best: list[_Ended] = field(default_factory=list)  # hold everything; at most n_best, best first
    num_finished: int = 0
    short: list[_Ended] = field(default_factory=list)  # ended, but lack something


@torch.inference_mode()
def required_search(
    step: Step, state: State, request: Request, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence, in order, one to `config.n_best` hypotheses, best first.

    Finished hypotheses that hold all phrases come first, then those that hold them and were cut. Only
    if there is none of either: the ones that came furthest.

    Raises:
        SearchError: logits are NaN or +inf.
    """
    penalty = length_penalty(request.config.length_penalty, request.config.alpha)
    constraints, tree = Constraints(request), Tree()
    opened = _start(request, penalty)
    width = max((sentence.slots for sentence in opened), default=1)
    leaves: list[list[Leaf]] = [[] for _ in opened]
    ids, slots, length = torch.full((len(opened),), request.bos_id), 1, 0
    while opened:
        logits, state = step(ids.to(request.device), state)
        log_probs = log_probabilities(logits)
        del logits
        numbers = torch.tensor([sentence.number for sentence in opened])
        constraints.apply(log_probs, numbers.repeat_interleave(slots), length)
        proposals = _proposals(log_probs, opened, slots, request)
        del log_probs
        rows: list[int] = []
        tokens: list[int] = []
        kept: list[_Sentence] = []
        records = []
        for s, sentence in enumerate(opened):
            candidates = _candidates(sentence, proposals[s * slots :], length, request.eos_id)
            ended = _finish(sentence, candidates, tree, penalty(length + 1), request)
            live = _survivors(candidates, sentence.slots, request.eos_id)
            done = _is_done(sentence, live, penalty(length + 2), request)
            records.append((ended, [] if done else live))
            if done:
                leaves[sentence.number] = _leaves(sentence, ended, penalty(length), request.config.n_best)
                continue
            _extend(sentence, live, tree)
            filled = live + live[:1] * (width - len(live))  # an empty slot repeats the first
            rows += [s * slots + candidate.parent for candidate in filled]
            tokens += [candidate.token for candidate in filled]
            kept.append(sentence)
        if observer is not None:
            observer(_record(opened, records, length))
        chosen, ids = torch.tensor(rows, dtype=torch.long), torch.tensor(tokens, dtype=torch.long)
        constraints.advance(chosen, ids)
        if rows:
            state = reorder(state, chosen, len(opened) * slots, request.device)
        opened, slots, length = kept, width, length + 1
    return tree.read(leaves, penalty)


def _start(request: Request, penalty: Callable[[int], float]) -> list[_Sentence]:
    """One empty hypothesis per sentence, and as many slots as its own phrases need."""
    required = request.required or [()] * len(request.limits)
    sentences = []
    for number, (limit, wanted) in enumerate(zip(request.limits, required, strict=True)):
        phrases = Phrases(wanted)
        sentences.append(
            _Sentence(
                number=number,
                limit=limit,
                phrases=phrases,
                slots=_num_slots(phrases.size, request.config.beam_size),
                last_penalty=penalty(limit + 1),
                live=[_Live(ROOT, 0.0, phrases.start())],
            )
        )
    return sentences


def most_slots(beam_size: int) -> int:
    """Return the most rows that a sentence may take, for whoever cuts batches."""
    return _num_slots(_MOST_EXTRA, beam_size)


def _num_slots(size: int, beam_size: int) -> int:
    """How many hypotheses of a sentence stay alive.

    Two beams: one beam and a slot for each token found sums that were 0.7 nats lower on average (40
    captions with one to three terms), four beams none that were higher.
    """
    return 2 * beam_size + min(size, _MOST_EXTRA) if size else beam_size


def _proposals(
    log_probs: Float[Tensor, "rows vocab"], opened: Sequence[_Sentence], slots: int, request: Request
) -> list[dict[int, tuple[float, bool]]]:
    """Return for each row its tokens to try: (log-probability, whether among the beam_size likeliest).

    In the order of the beam: the likelier first, then the lower id.
    """
    beam_size = request.config.beam_size
    values, tokens = top_tokens(log_probs, min(beam_size + 1, log_probs.shape[1]))
    asked = _asked(log_probs, opened, slots, beam_size)
    rows = torch.tensor([row for row, _ in asked], dtype=torch.long, device=log_probs.device)
    ids = torch.tensor([id_ for _, id_ in asked], dtype=torch.long, device=log_probs.device)
    extra = log_probs[rows, ids].cpu().double().tolist()
    proposals: list[dict[int, tuple[float, bool]]] = []
    for row_values, row_tokens in zip(values.cpu().double().tolist(), tokens.tolist(), strict=True):
        pairs = enumerate(zip(row_tokens, row_values, strict=True))
        proposals.append({id_: (value, rank < beam_size) for rank, (id_, value) in pairs})
    for (row, id_), value in zip(asked, extra, strict=True):
        proposals[row].setdefault(id_, (value, False))
    return [dict(sorted(row.items(), key=lambda item: (-item[1][0], item[0]))) for row in proposals]


def _asked(
    log_probs: Float[Tensor, "rows vocab"], opened: Sequence[_Sentence], slots: int, beam_size: int
) -> list[tuple[int, int]]:
    """Return (row, id) pairs that the phrases ask for, however unlikely."""
    asked = []
    for s, sentence in enumerate(opened):
        for slot, hypothesis in enumerate(sentence.live):
            row = s * slots + slot
            asked += [(row, id_) for id_ in sorted(sentence.phrases.wanted(hypothesis.progress))]
            for allowed in sentence.phrases.followers(hypothesis.progress):
                some = torch.tensor(sorted(allowed), dtype=torch.long, device=log_probs.device)
                best = top_tokens(log_probs[row, some].unsqueeze(0), min(beam_size, len(some)))[1]
                asked += [(row, id_) for id_ in some[best[0]].tolist()]
    return asked


def _candidates(
    sentence: _Sentence, proposals: Sequence[dict[int, tuple[float, bool]]], length: int, eos_id: int
) -> list[_Candidate]:
    """Return what may follow the live hypotheses, best first; at the limit, only ends that are likely."""
    candidates = []
    at_limit = length == sentence.limit
    for parent, hypothesis in enumerate(sentence.live):
        for token, (log_prob, likely) in proposals[parent].items():
            ends = token == eos_id
            if log_prob == -math.inf or (at_limit and not (ends and likely)):
                continue
            if ends:
                met = sentence.phrases.met(hypothesis.progress)
                progress = hypothesis.progress
                bank = sentence.phrases.size if met else min(
                    sentence.phrases.reached(progress), sentence.phrases.size - 1
                )  # fmt: skip
            else:
                progress = sentence.phrases.advance(hypothesis.progress, token)
                bank = sentence.phrases.reached(progress)
            candidates.append(
                _Candidate(parent, token, log_prob, hypothesis.total + log_prob, likely, progress, bank)
            )
    return sorted(candidates, key=lambda candidate: -candidate.total)  # stable: the slot, then the rank


def _finish(
    sentence: _Sentence, candidates: Sequence[_Candidate], tree: Tree, penalty: float, request: Request
) -> list[_Candidate]:
    """End hypotheses: EOS among the first beam_size candidates of the bank that holds everything.

    What ends while it lacks something is remembered for the case that nothing better comes.
    """
    config, full = request.config, sentence.phrases.size
    complete = [candidate for candidate in candidates if candidate.bank == full][: config.beam_size]
    ended = [candidate for candidate in complete if candidate.token == request.eos_id]
    short = [c for c in candidates if c.token == request.eos_id and c.bank < full and c.likely]
    new = ended + short
    if not new:
        return []
    nodes = _grow(tree, sentence, new)
    found = [
        _Ended(Leaf(node, finished=True), candidate.total / penalty, candidate.bank)
        for node, candidate in zip(nodes, new, strict=True)
    ]
    sentence.num_finished += len(ended)
    best = sorted(sentence.best + found[: len(ended)], key=lambda e: -e.score)
    sentence.best = best[: config.n_best]
    rest = sorted(sentence.short + found[len(ended) :], key=lambda e: (-e.bank, -e.score))
    sentence.short = rest[: config.n_best]
    return ended


def _survivors(candidates: Sequence[_Candidate], slots: int, eos_id: int) -> list[_Candidate]:
    """Return at most `slots` candidates that go on: the best of each bank in turn, the fullest first."""
    banks: dict[int, list[_Candidate]] = {}
    for candidate in candidates:
        if candidate.token != eos_id:
            banks.setdefault(candidate.bank, []).append(candidate)
    order = sorted(banks, reverse=True)
    chosen: list[_Candidate] = []
    for turn in range(max(map(len, banks.values()), default=0)):
        chosen += [banks[bank][turn] for bank in order if turn < len(banks[bank])]
        if len(chosen) >= slots:
            break
    return sorted(chosen[:slots], key=lambda candidate: -candidate.total)


def _is_done(
    sentence: _Sentence,
    live: Sequence[_Candidate],
    next_penalty: float,
    request: Request,
) -> bool:
    """Whether to stop: nothing lives on, or nothing that does can still matter (see `beam.py`)."""
    if not live:
        return True
    config = request.config
    if len(sentence.best) < config.n_best:
        return False
    if sentence.num_finished >= config.num_endings:
        return True
    bound = live[0].total / max(sentence.last_penalty, next_penalty)
    return bound <= sentence.best[-1].score


def _extend(sentence: _Sentence, live: Sequence[_Candidate], tree: Tree) -> None:
    """Let the survivors be the sentence's live hypotheses, one token longer."""
    nodes = _grow(tree, sentence, live)
    sentence.live = [
        _Live(node, candidate.total, candidate.progress) for node, candidate in zip(nodes, live, strict=True)
    ]


def _grow(tree: Tree, sentence: _Sentence, candidates: Sequence[_Candidate]) -> list[int]:
    parents = torch.tensor([sentence.live[candidate.parent].node for candidate in candidates])
    tokens = torch.tensor([candidate.token for candidate in candidates])
    log_probs = torch.tensor([candidate.log_prob for candidate in candidates], dtype=torch.float64)
    nodes: list[int] = tree.grow(parents, tokens, log_probs).tolist()
    return nodes


def _leaves(sentence: _Sentence, ended: Sequence[_Candidate], penalty: float, n_best: int) -> list[Leaf]:
    """Return the results of a sentence that is done (see `required_search`)."""
    phrases = sentence.phrases
    gone = {candidate.parent for candidate in ended}
    cut = [
        _Ended(
            Leaf(hypothesis.node, finished=False),
            hypothesis.total / penalty,
            phrases.size if phrases.met(hypothesis.progress) else phrases.reached(hypothesis.progress) - 1,
        )
        for slot, hypothesis in enumerate(sentence.live)
        if slot not in gone
    ]
    whole = sentence.best + [end for end in cut if end.bank == phrases.size]
    furthest = sorted(sentence.short + cut, key=lambda e: (-e.bank, not e.leaf.finished, -e.score))
    return [end.leaf for end in (whole or furthest)[:n_best]]


def _record(
    opened: Sequence[_Sentence],
    records: Sequence[tuple[Sequence[_Candidate], Sequence[_Candidate]]],
    length: int,
) -> StepRecord:
    """Report the step: of each sentence the candidates that ended, then those that live on."""
    rows = [[*ended, *live] for ended, live in records]
    most = max(map(len, rows), default=0)

    def table(
        values: Callable[[_Candidate], float], empty: int | float, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        filled = [[*map(values, row), *[empty] * (most - len(row))] for row in rows]
        return torch.tensor(filled, dtype=dtype).view(-1, most)

    slots = [[*[-1] * len(ended), *range(len(live))] for ended, live in records]
    return StepRecord(
        length=length,
        sentences=torch.tensor([sentence.number for sentence in opened]),
        parents=table(lambda c: c.parent, 0, torch.long),
        tokens=table(lambda c: c.token, 0, torch.long),
        log_probs=table(lambda c: c.log_prob, -math.inf),
        totals=table(lambda c: c.total, -math.inf),
        finished=torch.tensor([[i < len(ended) for i in range(most)] for ended, _ in records]),
        slots=torch.tensor([row + [-1] * (most - len(row)) for row in slots]),
    )
