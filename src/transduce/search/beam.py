"""Beam search: the `beam_size` best hypotheses of each sentence, one token longer at each step.

In:  a step, a state with one row per sentence, a request.
Out: the `n_best` best hypotheses of each sentence, best first.
Does not know: models, strings, caches.
Axes: sentences (those still open), slots (live hypotheses of a sentence: 1, later beam_size),
      candidates (2 * beam_size), places (n_best); rows = sentences * slots.

What is explored. Of all one-token continuations of a sentence's live hypotheses the best
2 * beam_size are candidates. Those of the first beam_size that are EOS finish; the first beam_size
that are not EOS live on, so that EOS takes no place from them. A hypothesis that holds `limit`
tokens can only finish, if EOS is among its own beam_size likeliest tokens; else it is cut.

When it ends. Sums of log-probabilities only fall. A sentence is done when no live hypothesis can
still enter the best n_best, whatever its continuation (`best_attainable`): stopping changes nothing.
With a finite `patience` it is also done when that many times beam_size have finished.

Bookkeeping is in float64 on the CPU; only the logits, their normalisation and each row's top-k
are on the device. Equal scores: the lower slot first, then the likelier token, then the lower id;
an earlier finished hypothesis before a later one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.constraints import Constraints
from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import best_attainable, length_penalty, log_probabilities, top_tokens
from transduce.search.step import Observer, State, Step, StepRecord, reorder
from transduce.search.tree import ROOT, Leaf, Tree

__all__ = ["beam_search"]


def beam_search(
    step: Step, state: State, request: Request, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence, in order, one to `config.n_best` hypotheses, best first.

    Finished hypotheses come first; hypotheses that were cut fill what places are left. A beam of
    size 1 is greedy search: it does not look beyond its first EOS.

    Raises:
        SearchError: logits are NaN or +inf.
    """
    if request.config.beam_size == 1:
        return greedy_search(step, state, request, observer)
    return _search(step, state, request, observer)


@dataclass(frozen=True)
class _Beam:
    """The open sentences: their live hypotheses, best first, and the best of the finished ones."""

    sentences: Int[Tensor, " sentences"]
    limits: Int[Tensor, " sentences"]
    last_penalties: Float[Tensor, " sentences"]
    nodes: Int[Tensor, "sentences slots"]
    totals: Float[Tensor, "sentences slots"]  # -inf: an empty slot
    best_nodes: Int[Tensor, "sentences places"]
    best_scores: Float[Tensor, "sentences places"]  # -inf: an empty place
    num_finished: Int[Tensor, " sentences"]


class _Candidates(NamedTuple):
    """One-token continuations of live hypotheses, best first."""

    parents: Int[Tensor, "sentences candidates"]
    tokens: Int[Tensor, "sentences candidates"]
    log_probs: Float[Tensor, "sentences candidates"]
    totals: Float[Tensor, "sentences candidates"]  # -inf: not a candidate


@torch.inference_mode()
def _search(step: Step, state: State, request: Request, observer: Observer | None) -> list[list[Hypothesis]]:
    """Search step by step; see the module's docstring. Sentences leave as soon as they are done."""
    config, eos_id = request.config, request.eos_id
    penalty = length_penalty(config.length_penalty, config.alpha)
    constraints, tree = Constraints(request), Tree()
    beam = _start(request, penalty)
    leaves: list[list[Leaf]] = [[] for _ in request.limits]
    ids, length = torch.full_like(beam.sentences, request.bos_id), 0
    while num_open := len(beam.sentences):
        slots = len(ids) // num_open
        logits, state = step(ids.to(request.device), state)
        candidates = _propose(beam, logits, constraints, length, request)
        del logits  # the largest tensor here: the next step finds its memory free
        finished = _finishing(candidates, eos_id, config.beam_size)
        beam = _rank(beam, tree, candidates, finished, penalty(length + 1))
        live = _surviving(candidates, eos_id, config.beam_size)
        bound = best_attainable(live.totals[:, 0], penalty(length + 2), beam.last_penalties)
        done = bound <= beam.best_scores[:, -1]  # nothing lives on: the bound is -inf, hence done
        done |= beam.num_finished >= config.num_endings
        if observer is not None:
            observer(_record(beam, candidates, finished, done, length, request))
        for s in done.nonzero().flatten().tolist():
            ended = set(candidates.parents[s][finished[s]].tolist())
            leaves[int(beam.sentences[s])] = _leaves(beam, s, ended)
        keep = (~done).nonzero().flatten()
        if slots == 1 and constraints.all_forced(beam.sentences[keep], length):
            live = _Candidates(*(field[:, :1] for field in live))  # nothing to branch into yet
        live = _Candidates(*(field[keep] for field in live))
        beam = _extend(beam, tree, keep, live)
        rows = (keep.unsqueeze(1) * slots + live.parents).flatten()
        ids = live.tokens.flatten()
        constraints.advance(rows, ids)
        if len(rows):
            state = reorder(state, rows, num_open * slots, request.device)
        length += 1
    return tree.read(leaves, penalty)


def _start(request: Request, penalty: Callable[[int], float]) -> _Beam:
    """One empty hypothesis per sentence: a second one would only repeat the first."""
    num_sentences, places = len(request.limits), request.config.n_best
    return _Beam(
        sentences=torch.arange(num_sentences),
        limits=torch.tensor(request.limits, dtype=torch.long),
        last_penalties=torch.tensor([penalty(limit + 1) for limit in request.limits], dtype=torch.float64),
        nodes=torch.full((num_sentences, 1), ROOT),
        totals=torch.zeros(num_sentences, 1, dtype=torch.float64),
        best_nodes=torch.full((num_sentences, places), ROOT),
        best_scores=torch.full((num_sentences, places), -math.inf, dtype=torch.float64),
        num_finished=torch.zeros(num_sentences, dtype=torch.long),
    )


def _propose(
    beam: _Beam,
    logits: Float[Tensor, "rows vocab"],
    constraints: Constraints,
    length: int,
    request: Request,
) -> _Candidates:
    """Return each sentence's 2 * beam_size best continuations; at its limit, only those with EOS.

    Each row is ranked alone first. Its best beam_size + 1 suffice: beam_size can live on, and EOS.
    """
    num_open, slots = beam.nodes.shape
    beam_size = request.config.beam_size
    log_probs = log_probabilities(logits)
    constraints.apply(log_probs, beam.sentences.repeat_interleave(slots), length)
    values, tokens = top_tokens(log_probs, min(beam_size + 1, log_probs.shape[1]))
    k = values.shape[1]
    values = values.cpu().double().view(num_open, slots, k)
    tokens = tokens.cpu().view(num_open, slots, k)
    totals = beam.totals.unsqueeze(2) + values
    at_limit = beam.limits == length
    if at_limit.any():
        ends = (tokens == request.eos_id) & (torch.arange(k) < beam_size)
        totals = totals.masked_fill(at_limit[:, None, None] & ~ends, -math.inf)
    totals, order = totals.flatten(1).sort(dim=1, descending=True, stable=True)
    columns = torch.arange(2 * beam_size)
    missing = columns >= slots * k  # at the first step
    columns = columns.clamp(max=slots * k - 1)
    totals, order = totals[:, columns].masked_fill(missing, -math.inf), order[:, columns]
    return _Candidates(
        parents=order // k,
        tokens=tokens.flatten(1).gather(1, order),
        log_probs=values.flatten(1).gather(1, order),
        totals=totals,
    )


def _finishing(candidates: _Candidates, eos_id: int, beam_size: int) -> Bool[Tensor, "sentences candidates"]:
    """Which candidates finish: EOS, possible, and among the first beam_size."""
    finished = (candidates.tokens == eos_id) & (candidates.totals > -math.inf)
    finished[:, beam_size:] = False
    return finished


def _rank(
    beam: _Beam,
    tree: Tree,
    candidates: _Candidates,
    finished: Bool[Tensor, "sentences candidates"],
    penalty: float,
) -> _Beam:
    """Give the newly finished their places among the best; what was there first wins ties."""
    if not finished.any():
        return beam
    parents = beam.nodes.gather(1, candidates.parents)
    grown = tree.grow(parents[finished], candidates.tokens[finished], candidates.log_probs[finished])
    nodes = torch.full_like(parents, ROOT).masked_scatter(finished, grown)
    scores = (candidates.totals / penalty).masked_fill(~finished, -math.inf)
    scores = torch.cat([beam.best_scores, scores], dim=1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    nodes = torch.cat([beam.best_nodes, nodes], dim=1).gather(1, order)
    places = beam.best_scores.shape[1]
    return replace(
        beam,
        best_nodes=nodes[:, :places],
        best_scores=scores[:, :places],
        num_finished=beam.num_finished + finished.sum(dim=1),
    )


def _surviving(candidates: _Candidates, eos_id: int, beam_size: int) -> _Candidates:
    """Return the first beam_size candidates that are not EOS.

    Where there are fewer, a slot stays empty: -inf, its row repeating the first slot's, so that the
    model is fed nothing strange.
    """
    totals = candidates.totals.masked_fill(candidates.tokens == eos_id, -math.inf)
    totals, order = totals.sort(dim=1, descending=True, stable=True)
    order = torch.where(totals > -math.inf, order, order[:, :1])[:, :beam_size]
    return _Candidates(
        parents=candidates.parents.gather(1, order),
        tokens=candidates.tokens.gather(1, order),
        log_probs=candidates.log_probs.gather(1, order),
        totals=totals[:, :beam_size],
    )


def _extend(beam: _Beam, tree: Tree, keep: Int[Tensor, " kept"], live: _Candidates) -> _Beam:
    """Return the kept sentences' beam, one token longer."""
    return _Beam(
        sentences=beam.sentences[keep],
        limits=beam.limits[keep],
        last_penalties=beam.last_penalties[keep],
        nodes=tree.grow(beam.nodes[keep].gather(1, live.parents), live.tokens, live.log_probs),
        totals=live.totals,
        best_nodes=beam.best_nodes[keep],
        best_scores=beam.best_scores[keep],
        num_finished=beam.num_finished[keep],
    )


def _leaves(beam: _Beam, s: int, ended: set[int]) -> list[Leaf]:
    """Return the results of a sentence that is done: the best finished, then what was cut.

    Cut are the live hypotheses that found no continuation, so those that ended just now are not.
    They are equally long, hence their slots are in the order of their scores.
    """
    places = beam.best_scores.shape[1]
    finished = [
        Leaf(node, finished=True)
        for node, score in zip(beam.best_nodes[s].tolist(), beam.best_scores[s].tolist(), strict=True)
        if score > -math.inf
    ]
    cut = [
        Leaf(node, finished=False)
        for slot, (node, total) in enumerate(
            zip(beam.nodes[s].tolist(), beam.totals[s].tolist(), strict=True)
        )
        if total > -math.inf and slot not in ended
    ]
    return (finished + cut)[:places]


def _record(
    beam: _Beam,
    candidates: _Candidates,
    finished: Bool[Tensor, "sentences candidates"],
    done: Bool[Tensor, " sentences"],
    length: int,
    request: Request,
) -> StepRecord:
    """Report the step: the j-th surviving candidate of an open sentence takes slot j."""
    goes_on = (candidates.totals > -math.inf) & (candidates.tokens != request.eos_id) & ~done.unsqueeze(1)
    slots = goes_on.long().cumsum(dim=1) - 1
    return StepRecord(
        length=length,
        sentences=beam.sentences,
        finished=finished,
        slots=slots.masked_fill(~goes_on | (slots >= request.config.beam_size), -1),
        **candidates._asdict(),
    )
