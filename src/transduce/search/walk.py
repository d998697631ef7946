"""Follow single paths: each row takes one token at a time and never looks back.

In:  a step, a rule that chooses one token per row, and how many paths each sentence has.
Out: per sentence, its hypotheses in path order.
Does not know: how a token is chosen. `greedy.py` takes the likeliest, `sample.py` draws.
Axes: rows = sentences * paths; sentences are those still open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.constraints import Constraints
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import length_penalty, log_probabilities
from transduce.search.step import Observer, State, Step, StepRecord, reorder
from transduce.search.tree import ROOT, Leaf, Tree

__all__ = ["Choose", "walk"]

Choose: TypeAlias = Callable[
    [Float[Tensor, "rows vocab"], Int[Tensor, " rows"]],
    Int[Tensor, " rows"],
]
"""From log-probabilities, and the sentence of each row, to one id per row, on any device."""


@dataclass
class _Paths:
    """The open sentences' paths, on the CPU; one that is over stays until its sentence leaves."""

    sentences: Int[Tensor, " sentences"]
    limits: Int[Tensor, "sentences 1"]
    nodes: Int[Tensor, "sentences paths"]
    totals: Float[Tensor, "sentences paths"]
    walking: Bool[Tensor, "sentences paths"]

    @classmethod
    def start(cls, limits: list[int], num_paths: int) -> _Paths:
        nodes = torch.full((len(limits), num_paths), ROOT)
        return cls(
            sentences=torch.arange(len(limits)),
            limits=torch.tensor(limits, dtype=torch.long).unsqueeze(1),
            nodes=nodes,
            totals=torch.zeros(nodes.shape, dtype=torch.float64),
            walking=torch.ones(nodes.shape, dtype=torch.bool),
        )

    def only(self, keep: Int[Tensor, " kept"]) -> _Paths:
        return _Paths(
            sentences=self.sentences[keep],
            limits=self.limits[keep],
            nodes=self.nodes[keep],
            totals=self.totals[keep],
            walking=self.walking[keep],
        )


@torch.inference_mode()
def walk(
    step: Step,
    state: State,
    request: Request,
    *,
    choose: Choose,
    num_paths: int,
    observer: Observer | None,
) -> list[list[Hypothesis]]:
    """Follow `num_paths` paths per sentence until each has chosen EOS or reached its limit.

    A path that holds `limit` tokens may still choose EOS; if it chooses anything else it is cut:
    that token is dropped and `finished` is False. So is a path for which nothing is allowed.
    A sentence leaves the batch when all its paths are over.
    """
    constraints, tree = Constraints(request), Tree()
    paths = _Paths.start(list(request.limits), num_paths)
    leaves = [[Leaf(ROOT, finished=False)] * num_paths for _ in request.limits]
    ids, length = torch.full_like(paths.sentences, request.bos_id), 0
    while num_open := len(paths.sentences):
        logits, state = step(ids.to(request.device), state)
        width = len(ids) // num_open  # 1 at the first step, which serves all paths of a sentence
        log_probs = log_probabilities(logits)
        constraints.apply(log_probs, _repeated(paths.sentences, width), length)
        if width < num_paths:
            log_probs = log_probs.repeat_interleave(num_paths, dim=0)
        chosen = choose(log_probs, _repeated(paths.sentences, num_paths))
        values = log_probs.gather(1, chosen.to(log_probs.device).unsqueeze(1))
        del logits, log_probs  # the largest tensors here: the next step finds their memory free
        tokens = chosen.cpu().view(num_open, num_paths)
        log_prob = values.cpu().double().view(num_open, num_paths)
        before = paths.walking
        ended = _advance(paths, tree, leaves, tokens, log_prob, request.eos_id, length)
        if observer is not None:
            observer(_record(paths, before, ended, tokens, log_prob, length))
        length += 1
        if width == num_paths and bool(paths.walking.all()):  # as at most steps: all rows stay where they are
            ids = tokens.flatten()
            constraints.advance(None, ids)
            continue
        keep = paths.walking.any(dim=1).nonzero().flatten()
        rows = torch.arange(len(ids)).view(num_open, width)[keep].expand(-1, num_paths).flatten()
        paths = paths.only(keep)
        ids = tokens[keep].masked_fill(~paths.walking, request.eos_id).flatten()
        constraints.advance(rows, ids)
        if len(rows):
            state = reorder(state, rows, num_open * width, request.device)
    return tree.read(leaves, length_penalty(request.config.length_penalty, request.config.alpha))


def _repeated(sentences: Int[Tensor, " sentences"], times: int) -> Int[Tensor, " rows"]:
    """Each sentence as often as it has rows."""
    return sentences if times == 1 else sentences.repeat_interleave(times)


def _advance(
    paths: _Paths,
    tree: Tree,
    leaves: list[list[Leaf]],
    tokens: Int[Tensor, "sentences paths"],
    log_probs: Float[Tensor, "sentences paths"],
    eos_id: int,
    length: int,
) -> Bool[Tensor, "sentences paths"]:
    """Add the chosen tokens to the paths in place, and note which are over; return which chose EOS."""
    possible = paths.walking & (log_probs > -math.inf)
    ended = possible & (tokens == eos_id)
    walking = possible & ~ended & (paths.limits > length)
    nodes = tree.grow(paths.nodes, tokens, log_probs)
    for s, path in (paths.walking & ~walking).nonzero().tolist():
        finished = bool(ended[s, path])
        leaf = Leaf(int((nodes if finished else paths.nodes)[s, path]), finished)
        leaves[int(paths.sentences[s])][path] = leaf
    paths.totals = paths.totals + log_probs
    paths.nodes, paths.walking = nodes, walking
    return ended


def _record(
    paths: _Paths,
    before: Bool[Tensor, "sentences paths"],
    ended: Bool[Tensor, "sentences paths"],
    tokens: Int[Tensor, "sentences paths"],
    log_probs: Float[Tensor, "sentences paths"],
    length: int,
) -> StepRecord:
    """Report the step; `before` are the paths that walked when it began."""
    slots = torch.arange(tokens.shape[1]).expand_as(tokens)
    return StepRecord(
        length=length,
        sentences=paths.sentences,
        parents=slots,
        tokens=tokens,
        log_probs=log_probs,
        totals=paths.totals.masked_fill(~before, -math.inf),
        finished=ended,
        slots=slots.masked_fill(~paths.walking, -1),
    )
