"""A search, watched: the tree that it grew, and how its cache grew with it.

In:  a model, source ids, search settings. Out: hypotheses, `Node`s of the tree, `CacheSize`s.
Does not know: text.

The searches are the translator's own; the step is the model's plain one, so that what is changed in the
model changes the search. Equal to the layout that translators run, but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from transduce.model.cache import DecoderCache
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.scores import length_penalty, log_probabilities
from transduce.search.step import State, StepRecord

__all__ = ["ROOT", "CacheSize", "Node", "NodeState", "WatchedSearch", "follow", "path_to", "watch_search"]

ROOT = -1
"""The parent of a first token."""
NodeState: TypeAlias = Literal["live", "pruned", "finished"]


@dataclass(frozen=True)
class Node:
    """A token that a search considered."""

    n: int
    step: int
    parent: int
    """The node before it, or `ROOT`."""
    token: int
    logp: float
    """Of the token."""
    total: float
    """Of all tokens from the root."""
    score: float
    """`total` over the length penalty: what hypotheses are compared by."""
    state: NodeState
    """`live`: the search went on from here. `pruned`: there were better. `finished`: it is the end symbol."""


@dataclass(frozen=True)
class CacheSize:
    """What the decoder remembers after a step, as measured; shapes are (layers, rows, heads, tokens, d)."""

    rows: int
    length: int
    self_keys: tuple[int, ...]
    self_values: tuple[int, ...]
    self_bytes: int
    cross_keys: tuple[int, ...]
    cross_values: tuple[int, ...]
    cross_bytes: int

    @classmethod
    def of(cls, cache: DecoderCache, model: Transformer) -> CacheSize:
        """Measure."""
        config, layers = model.config, len(cache.layers)
        held = cache.num_bytes
        rows = (layers, cache.num_rows, config.num_heads, cache.length)
        keys = [m.keys for m in cache.memory]
        values = [m.values for m in cache.memory]
        return cls(
            rows=cache.num_rows,
            length=cache.length,
            self_keys=(*rows, config.key_width),
            self_values=(*rows, config.value_width),
            self_bytes=held["self"],
            cross_keys=(layers, *keys[0].shape) if keys else (),
            cross_values=(layers, *values[0].shape) if values else (),
            cross_bytes=held["cross"],
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        flat = asdict(self)
        sides = {
            side: {part: flat[f"{side}_{part}"] for part in ("keys", "values", "bytes")}
            for side in ("self", "cross")
        }
        return {"rows": self.rows, "length": self.length, **sides}


@dataclass
class WatchedSearch:
    """What a search found, and how."""

    hypotheses: list[Hypothesis]
    nodes: list[Node] = field(default_factory=list)
    caches: list[CacheSize] = field(default_factory=list)
    """One a step."""

    def endings(self) -> list[Hypothesis]:
        """What the search had finished when it ended, best first: those that it returned among them."""
        found = [self._hypothesis(node) for node in self.nodes if node.state == "finished"]
        return sorted(found, key=lambda hypothesis: -hypothesis.score)

    def _hypothesis(self, end: Node) -> Hypothesis:
        path, at = [], end.n
        while at != ROOT:
            path.append(self.nodes[at])
            at = path[-1].parent
        path.reverse()
        return Hypothesis(
            ids=tuple(node.token for node in path[:-1]),
            score=end.score,
            log_prob=end.total,
            token_log_probs=tuple(node.logp for node in path),
            finished=True,
        )

    def path_of(self, ids: Sequence[int], *, finished: bool, eos_id: int) -> list[int]:
        """The nodes of a hypothesis, in order; fewer where the tree does not hold it."""
        ends, wanted = {ROOT}, [*ids, eos_id] if finished else list(ids)
        for token in wanted:
            following = {node.n for node in self.nodes if node.parent in ends and node.token == token}
            if not following:
                break
            ends = following  # several where two samples begin alike
        path, at = [], min(ends)
        while at != ROOT:
            path.append(at)
            at = self.nodes[at].parent
        return path[::-1]


class _Watch:
    """Builds the tree out of what each step reports about one sentence."""

    def __init__(self, config: SearchConfig) -> None:
        self._penalty = length_penalty(config.length_penalty, config.alpha)
        self._at: dict[int, int] = {}  # slot → node
        self.nodes: list[Node] = []

    def __call__(self, record: StepRecord) -> None:
        """Take one step's candidates."""
        if not len(record.sentences):
            return
        penalty, following = self._penalty(record.length + 1), {}
        columns = (record.parents, record.tokens, record.log_probs, record.totals)
        for slot, token, logp, total, finished, goes_to in zip(
            *(column[0].tolist() for column in (*columns, record.finished, record.slots)), strict=True
        ):
            if total == -math.inf:
                continue
            state: NodeState = "finished" if finished else "live" if goes_to >= 0 else "pruned"
            node = Node(
                n=len(self.nodes),
                step=record.length,
                parent=self._at.get(slot, ROOT),
                token=token,
                logp=logp,
                total=total,
                score=total / penalty,
                state=state,
            )
            self.nodes.append(node)
            if goes_to >= 0:
                following[goes_to] = node.n
        self._at = following


def watch_search(model: Transformer, source: Sequence[int], request: Request) -> WatchedSearch:
    """Search, and note what happens.

    Args:
        model: in evaluation mode; with whatever hooks are wanted.
        source: ids with the end symbol.
        request: for one sentence.

    Raises:
        SearchError: the request cannot be met, or logits are not finite.
    """
    watch, caches = _Watch(request.config), list[CacheSize]()

    def step(ids: Tensor, state: State) -> tuple[Tensor, State]:
        logits, cache = model.step(ids, cast(DecoderCache, state))
        caches.append(CacheSize.of(cache, model))
        return logits, cache

    with torch.inference_mode():
        cache = model.start(model.encode(torch.tensor([list(source)], device=request.device)))
        found = search(step, cache, request, watch)
    return WatchedSearch(found[0], watch.nodes, caches)


def follow(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    *,
    bos_id: int,
    eos_id: int,
    config: SearchConfig,
    finished: bool = True,
) -> WatchedSearch:
    """Feed a given output to the model token by token, as if a search had chosen it.

    Args:
        model: in evaluation mode; with whatever hooks are wanted.
        source: ids with the end symbol.
        target: ids without start and end symbol.
        bos_id: start symbol.
        eos_id: end symbol.
        config: whose length penalty scores the whole.
        finished: whether the end symbol follows.
    """
    penalty = length_penalty(config.length_penalty, config.alpha)
    nodes, caches = list[Node](), list[CacheSize]()
    wanted = [*target, eos_id] if finished else list(target)
    total = 0.0
    device = model.source_embedding.weight.device
    with torch.inference_mode():
        cache = model.start(model.encode(torch.tensor([list(source)], device=device)))
        for place, (read, token) in enumerate(zip([bos_id, *wanted], wanted, strict=False)):
            logits, cache = model.step(torch.tensor([read], device=device), cache)
            logp = float(log_probabilities(logits)[0, token])
            caches.append(CacheSize.of(cache, model))
            total += logp
            state: NodeState = "finished" if finished and place == len(wanted) - 1 else "live"
            nodes.append(Node(place, place, place - 1, token, logp, total, total / penalty(place + 1), state))
    hypothesis = Hypothesis(
        ids=tuple(target),
        score=total / penalty(len(wanted)),
        log_prob=total,
        token_log_probs=tuple(node.logp for node in nodes),
        finished=finished,
    )
    return WatchedSearch([hypothesis], nodes, caches)


def path_to(nodes: Sequence[Node], node: int) -> list[int]:
    """The tokens from the root to a node."""
    tokens: list[int] = []
    while node != ROOT:
        tokens.append(nodes[node].token)
        node = nodes[node].parent
    return tokens[::-1]
