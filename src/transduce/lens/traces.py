"""Look inside one translation: `trace(translator, "…")`.

In:  a translator over our own network, a text. Out: `Trace`: tokens, the search's tree, any head's
     scores, mask and weights, every shape on the way, what each layer would have said.
Does not know: HTTP, training.

The translation is found by the translator's own search; then it is run again, all at once, and looked at
there, so that all three kinds of attention are complete and belong to the output that was chosen
(tensor2tensor and CTranslate2 mixed beams up where they looked inside the search). Ids and each
layer's input are kept; what is asked for is computed again from these.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transduce.lens.alignment import TokenAlignment, align
from transduce.lens.decoding import ROOT, WatchedSearch, path_to
from transduce.lens.forward import LayerAttention, Pass, layer_attention
from transduce.lens.interventions import AttentionKind, Interventions, check_head, num_layers
from transduce.lens.logit_lens import LensRow, logit_lens
from transduce.lens.occlusion import occlusion
from transduce.lens.overview import Overview, overview_of
from transduce.lens.shapes import Walk, walk_shapes
from transduce.lens.steps import StepFigures, step_figures
from transduce.lens.tokens import Token
from transduce.lens.walk_tensors import walk_tensors
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.translate.alignment import Word

if TYPE_CHECKING:
    from transduce.lens.lens import Lens
    from transduce.lens.saved_page import SavedPage

__all__ = ["Head", "Timing", "Trace", "milliseconds"]


@dataclass(frozen=True)
class Head:
    """One head on one sentence; rows are queries, columns keys."""

    kind: AttentionKind
    layer: int
    head: int
    scores: Tensor
    """q·k / (√d_k · τ), before the mask, (tgt_len, src_len)."""
    mask: Tensor
    """True = may be attended to, (tgt_len, src_len)."""
    weights: Tensor
    """The softmax of the visible scores, (tgt_len, src_len)."""
    q: Tensor
    """(tgt_len, d_k); with rotary positions after turning, as they are multiplied. So are the keys."""
    k: Tensor
    """(src_len, d_k)."""
    v: Tensor
    """(src_len, d_v)."""
    q_tokens: tuple[Token, ...]
    """A label for each row. In the decoder, row i reads token i and predicts token i + 1."""
    k_tokens: tuple[Token, ...]
    """A label for each column."""
    temperature: float = 1.0
    ablated: bool = False


@dataclass(frozen=True)
class Timing:
    """Milliseconds."""

    search: float
    capture: float
    total: float


@dataclass(frozen=True, eq=False)
class Trace:
    """One translation, opened; made by `Lens.trace`."""

    lens: Lens = field(repr=False)
    text: str
    translation: str
    source: tuple[Token, ...]
    """What the encoder read: the text's tokens and the end symbol."""
    target: tuple[Token, ...]
    """Start symbol, the output's tokens, and the end symbol unless the output was cut."""
    source_words: tuple[Word, ...]
    target_words: tuple[Word, ...]
    hypotheses: tuple[Hypothesis, ...]
    """Best first; the first is the one looked into."""
    config: SearchConfig
    interventions: Interventions
    forced: tuple[int, ...]
    """Ids that the output had to begin with."""
    given: bool
    """Whether the output was handed in and not searched for."""
    max_len: int | None
    """Most output tokens that were asked for."""
    watched: WatchedSearch = field(repr=False)
    done: Pass = field(repr=False)
    timing: Timing
    limits_applied: tuple[str, ...] = ()
    parent: Trace | None = field(default=None, repr=False)

    @property
    def hypothesis(self) -> Hypothesis:
        """The one looked into."""
        return self.hypotheses[0]

    @property
    def num_rows(self) -> int:
        """Decoder rows: row i reads `target[i]` and predicts `target[i + 1]`."""
        return len(self.done.target)

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly."""
        return self.done.num_bytes + 400 * len(self.watched.nodes) + 1000 * len(self.watched.caches)

    def tokens_of(self, kind: AttentionKind) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Labels of the queries and of the keys of a kind of attention."""
        reading = self.target[: self.num_rows]
        queries = self.source if kind == "enc_self" else reading
        return queries, self.source if kind != "dec_self" else reading

    def attention(self, kind: AttentionKind, layer: int) -> LayerAttention:
        """All heads of one layer; computed now.

        Raises:
            NoSuchPart: there is no such kind or layer.
        """
        check_head(self.lens.config, kind, layer, 0)
        with self.lens.changed(self.interventions) as model:
            return layer_attention(model, self.done, kind, layer)

    def head(self, kind: AttentionKind, layer: int, head: int) -> Head:
        """One head: scores, mask, weights, queries, keys, values, with their labels.

        Raises:
            NoSuchPart: there is no such kind, layer or head.
        """
        check_head(self.lens.config, kind, layer, head)
        seen = self.attention(kind, layer)
        record = seen.record
        queries, keys = self.tokens_of(kind)
        weights = record.weights[0, head].cpu()
        assert weights.shape == (len(queries), len(keys)), "a label for each row and column"
        return Head(
            kind=kind,
            layer=layer,
            head=head,
            scores=record.scores[0, head].cpu(),
            mask=seen.visible.cpu(),
            weights=weights,
            q=record.queries[0, head].cpu(),
            k=record.keys[0, head].cpu(),
            v=record.values[0, head].cpu(),
            q_tokens=queries,
            k_tokens=keys,
            temperature=seen.temperature,
            ablated=any((a.kind, a.layer, a.head) == (kind, layer, head) for a in self.interventions.ablate),
        )

    def overview(self, kind: AttentionKind) -> Overview:
        """Thumbnails and figures of all heads of a kind.

        Raises:
            NoSuchPart: the model has no such attention.
        """
        check_head(self.lens.config, kind, 0, 0)
        layers = range(num_layers(self.lens.config, kind))
        weights = [self.attention(kind, layer).record.weights[0].cpu() for layer in layers]
        return overview_of(weights, sink=0 if kind == "dec_self" else len(self.source) - 1)

    def logits(self, step: int | None = None, node: int | None = None) -> Tensor:
        """Logits of the whole vocabulary, float32 (vocab).

        Args:
            step: the distribution that this decoder row gave; by default the last.
            node: or what may follow this node of the tree (-1: its root).

        Raises:
            IndexError: there is no such row or node.
        """
        with self.lens.changed(self.interventions) as model:
            if node is None:
                row = range(self.num_rows)[-1 if step is None else step]
                return model.output(self.done.states[row]).float().cpu()
            if not ROOT <= node < len(self.watched.nodes):
                raise IndexError(
                    f"there is no node {node}: the tree has nodes 0 to {len(self.watched.nodes) - 1}"
                )
            read = [self.lens.ids.bos_id, *path_to(self.watched.nodes, node)]
            ids = torch.tensor([read], device=self.done.target.device)
            return model.output(model.decode(ids, self.done.memory)[0, -1]).float().cpu()

    @property
    def predicted(self) -> list[int | None]:
        """The id that follows each decoder row; None after the last where the output was cut."""
        following = [token.id for token in self.target[1:]]
        return [*following, *[None] * (self.num_rows - len(following))]

    def steps(self, k: int = 10) -> list[StepFigures]:
        """What the model expected at each decoder row, from the full vocabulary.

        Args:
            k: how many of the likeliest tokens to tell.
        """
        with self.lens.changed(self.interventions) as model:
            return step_figures(model.output(self.done.states).cpu(), self.predicted, k)

    @property
    def chosen_nodes(self) -> list[int]:
        """The tree's nodes along the output looked into."""
        best = self.hypothesis
        return self.watched.path_of(best.ids, finished=best.finished, eos_id=self.lens.ids.eos_id)

    def shapes(self) -> Walk:
        """Every tensor of one real pass, in order, with shape, meaning and formula."""
        with self.lens.changed(self.interventions) as model:
            return walk_shapes(model, self.done.source.tolist(), self.done.target.tolist())

    def tensors(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Tensors of one real pass, whole, by the names that `shapes` gives them.

        Raises:
            NoSuchPart: the pass makes no tensor of that name.
        """
        with self.lens.changed(self.interventions) as model:
            return walk_tensors(model, self.done.source.tolist(), self.done.target.tolist(), names)

    def logit_lens(self, layer: int, k: int = 5) -> list[LensRow]:
        """What the decoder would have said had it stopped after a layer; see logit_lens.py.

        Args:
            layer: counted from 0; -1 is the embedding below the first, the last is the model's answer.
            k: how many of the likeliest tokens to tell.

        Raises:
            NoSuchPart: there is no such layer.
        """
        with self.lens.changed(self.interventions) as model:
            return logit_lens(model, self.done, layer, self.predicted, k)

    def occlusion(self) -> Tensor:
        """How much each source token did for each output token, (decoder rows, source), in nats.

        A positive cell says that the source token made the token which that row predicts likelier.
        """
        with self.lens.changed(self.interventions) as model:
            return occlusion(model, self.done, self.predicted)

    @cached_property
    def alignment(self) -> TokenAlignment:
        """Which source token each output token looked at, by the heads that the model's directory names."""
        return align(self, self.lens.heads)

    def what_if(
        self,
        interventions: Interventions | None = None,
        *,
        force: Sequence[int] | None = None,
        fixed: bool = False,
    ) -> Trace:
        """The same text by a changed model, or with a forced beginning.

        Args:
            interventions: what is changed; nothing by default.
            force: ids that the output begins with; then the search goes on. By default as in this trace.
            fixed: keep this trace's output and see what the changed model thinks of it; so it is by itself
                where this trace's output was given.

        Raises:
            NoSuchPart: the model has no such layer or head.
            SearchError: the forced beginning cannot be written.
        """
        keeps = fixed or (self.given and not force)
        return self.lens.trace(
            self.text,
            search=self.config,
            interventions=interventions or Interventions(),
            force=force or (() if keeps else self.forced),
            output=self.hypothesis if keeps else None,
            max_len=self.max_len,
            parent=self,
        )

    def to_html(self) -> str:
        """The page with this trace inside it, as one HTML file that works from a disk."""
        from transduce.lens.saved_page import save_page

        return save_page(self).html

    def show(self, height: int = 760) -> SavedPage:
        """The page with this trace inside it: shown by a notebook; elsewhere `.save("trace.html")` it.

        Args:
            height: of the frame in a notebook, in pixels.
        """
        from transduce.lens.saved_page import save_page

        return save_page(self, height=height)

    def scored(self, interventions: Interventions) -> list[float]:
        """Log-probabilities of this trace's output by a changed model: one a token, end symbol included."""
        from transduce.lens.forward import run_pass

        with self.lens.changed(interventions) as model:
            done = run_pass(model, self.done.source.tolist(), self.done.target.tolist())
            figures = step_figures(model.output(done.states).cpu(), self.predicted, 1)
        return [step.chosen.logp for step in figures if step.chosen is not None]


def milliseconds(since: float) -> float:
    """Milliseconds since a `time.perf_counter()`."""
    return 1000 * (time.perf_counter() - since)
