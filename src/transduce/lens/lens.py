"""A lens over one model: made once, looks into as many translations as you like.

In:  a translator over our own network, or a model directory. Out: `Trace`s.
Does not know: HTTP, training.

It works on a second body of the model (the same weights in modules of its own), so that hooks and changed
temperatures disturb neither the translator nor anybody else. One thing is done at a time, by a lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce.batch.collate import SpecialIds
from transduce.errors import DataError, ModelError, SearchError
from transduce.lens.decoding import WatchedSearch, follow, watch_search
from transduce.lens.forward import run_pass, second_body
from transduce.lens.interventions import Interventions
from transduce.lens.tokens import label
from transduce.lens.traces import Timing, Trace, milliseconds
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.translate.alignment_heads import HeadAlignment
from transduce.translate.model_directory import ModelDirectory
from transduce.translate.torch_engine import TorchEngine
from transduce.translate.translator import Translator

__all__ = ["Lens", "LensLimits", "TooLong"]


class TooLong(DataError):  # noqa: N818 -- it says what is the matter
    """More than one look may cost; `limit` is the number that was passed."""

    def __init__(self, what: str, size: int, unit: str, limit: int) -> None:
        super().__init__(f"the {what} has {size} {unit}, and a trace takes {limit}: take fewer")
        self.limit = limit


@dataclass(frozen=True, kw_only=True)
class LensLimits:
    """What one look may cost. Attention is a square of the length."""

    text_characters: int = 2000
    source_tokens: int = 256
    """The end symbol not counted."""
    target_tokens: int = 256
    beam: int = 8


class Lens:
    """Looks into one model."""

    def __init__(
        self,
        translator: Translator,
        *,
        heads: HeadAlignment | None = None,
        limits: LensLimits | None = None,
        name: str = "",
        trained: bool = True,
    ) -> None:
        """Put a lens over a translator.

        Args:
            translator: over our own network (`transduce.load(…, engine="torch")`).
            heads: which heads align; by default all of the layer before the last.
            limits: what one look may cost.
            name: the model's, for whoever shows it.
            trained: False for a network that has learnt nothing, so that whoever shows it can say so.

        Raises:
            ModelError: the translator runs an export, or several models.
        """
        engine = translator.engine
        if not isinstance(engine, TorchEngine):
            raise ModelError(
                f"only the network itself can be looked into, and here runs {type(engine).__name__}: "
                'load one model by transduce.load(…, engine="torch")'
            )
        self.translator = translator
        self.ids: SpecialIds = engine.ids
        self._suppressed = engine.suppressed
        self.body: Transformer = second_body(engine.model)
        self.config = self.body.config
        self.heads = heads or HeadAlignment.usual(self.config)
        self.heads.check(self.config)
        self.limits = limits or LensLimits()
        self.name, self.trained = name, trained
        self._lock = threading.RLock()

    @classmethod
    def load(cls, path: str | Path, *, limits: LensLimits | None = None) -> Lens:
        """Load a model directory, or the run that holds one, with the heads that its alignment.json names.

        Raises:
            ModelError: torch is not installed, or the directory is missing, incomplete or damaged.
        """
        directory = ModelDirectory(Path(path))
        translator = Translator.load(path, engine="torch")
        name = directory.path.parent.name if directory.path.name == "model" else directory.path.name
        return cls(translator, heads=directory.heads, limits=limits, name=name)

    @contextmanager
    def alone(self) -> Iterator[Transformer]:
        """The body as it is, for the length of a `with`; alone with it."""
        with self.changed(Interventions()) as model:
            yield model

    @contextmanager
    def changed(self, interventions: Interventions) -> Iterator[Transformer]:
        """The body, changed, for the length of a `with`; alone with it."""
        with self._lock, torch.inference_mode(), interventions.applied(self.body):
            yield self.body

    def trace(
        self,
        text: str,
        *,
        search: SearchConfig | None = None,
        target: str | None = None,
        interventions: Interventions | None = None,
        force: Sequence[int] = (),
        output: Hypothesis | None = None,
        max_len: int | None = None,
        parent: Trace | None = None,
    ) -> Trace:
        """Translate a text and open the translation.

        Args:
            text: one sentence or a few; it goes through the model as one.
            search: how to search; by default the model's own settings.
            target: an output to look into instead of searching for one.
            interventions: what is changed in the model.
            force: ids that the output begins with.
            output: as `target`, by its ids.
            max_len: most output tokens; the search's own limit by default.
            parent: the trace that this one is compared with.

        Raises:
            DataError: there is no text.
            TooLong: there is too much of it, or the beam is too wide.
            ModelError: there is no such layer or head.
            SearchError: the search's settings contradict each other, or logits are not finite.
        """
        begun = time.perf_counter()
        if force and (target is not None or output is not None):
            raise SearchError(
                "an output that is given cannot be forced to begin otherwise: leave one of both out"
            )
        changes = interventions or Interventions()
        changes.check(self.config)
        applied: list[str] = []
        ids = self._source_ids(text, applied)
        config = search or self.translator.config
        given = self._given(target, output)
        with self.changed(changes) as model:
            if given is None:
                watched = self._search(model, ids, config, force, max_len, applied)
            else:
                watched = self._follow(model, ids, given, config)
            searched, since = milliseconds(begun), time.perf_counter()
            best = watched.hypotheses[0]
            done = run_pass(model, [*ids, self.ids.eos_id], [self.ids.bos_id, *best.ids])
        captured = milliseconds(since)
        return Trace(
            lens=self,
            text=text,
            **self._labels(text, ids, best),
            hypotheses=tuple(watched.hypotheses),
            config=config,
            interventions=changes,
            forced=tuple(force),
            given=given is not None,
            max_len=max_len,
            watched=watched,
            done=done,
            timing=Timing(searched, captured, milliseconds(begun)),
            limits_applied=tuple(applied),
            parent=parent,
        )

    def _labels(self, text: str, ids: Sequence[int], best: Hypothesis) -> dict[str, Any]:
        """The translation, and both sides' tokens and words."""
        source_tokenizer, target_tokenizer = self.translator.tokenizers
        translation = target_tokenizer.decode(best.ids)
        source, source_words = label(text, ids, source_tokenizer, eos=True)
        target, target_words = label(translation, best.ids, target_tokenizer, bos=True, eos=best.finished)
        return {
            "translation": translation,
            "source": source,
            "target": target,
            "source_words": source_words,
            "target_words": target_words,
        }

    def _source_ids(self, text: str, applied: list[str]) -> list[int]:
        """The text's ids, if there are some and not too many."""
        limits = self.limits
        if len(text) > limits.text_characters:
            raise TooLong("text", len(text), "characters", limits.text_characters)
        ids = self.translator.tokenizers[0].encode(text)
        if not ids:
            raise DataError("there is no text to look into: give a sentence")
        most = min(limits.source_tokens, self.body.longest - 1)
        if len(ids) > most:
            raise TooLong("text", len(ids), "tokens", most)
        if len(ids) > self.translator.max_len:
            applied.append(
                f"The text has {len(ids)} tokens, more than the {self.translator.max_len} that this model "
                "was trained on; here it goes through as one, whereas a translation would split it."
            )
        return ids

    def _given(self, target: str | None, output: Hypothesis | None) -> Hypothesis | None:
        """The output that was handed in, as ids; its scores are not known yet."""
        if target is None:
            return output
        ids = self.translator.tokenizers[1].encode(target)
        most = min(self.limits.target_tokens, self.body.longest - 1)
        if len(ids) > most:
            raise TooLong("target", len(ids), "tokens", most)
        return Hypothesis(tuple(ids), 0.0, 0.0, (), finished=True)

    def _follow(
        self, model: Transformer, ids: Sequence[int], given: Hypothesis, config: SearchConfig
    ) -> WatchedSearch:
        return follow(
            model,
            [*ids, self.ids.eos_id],
            given.ids,
            bos_id=self.ids.bos_id,
            eos_id=self.ids.eos_id,
            config=config,
            finished=given.finished,
        )

    def _search(
        self,
        model: Transformer,
        ids: Sequence[int],
        config: SearchConfig,
        force: Sequence[int],
        max_len: int | None,
        applied: list[str],
    ) -> WatchedSearch:
        if config.beam_size > self.limits.beam:
            raise TooLong("beam", config.beam_size, "hypotheses", self.limits.beam)
        if config.n_best > self.limits.beam:
            raise TooLong("list of translations", config.n_best, "entries", self.limits.beam)
        limit = min(config.limit(len(ids)), model.longest - 1)
        most = self.limits.target_tokens if max_len is None else min(max_len, self.limits.target_tokens)
        if most < limit:
            limit = most
            applied.append(f"The output may have {most} tokens here.")
        request = Request(
            bos_id=self.ids.bos_id,
            eos_id=self.ids.eos_id,
            limits=[limit],
            config=config,
            suppress=self._suppressed,
            prefixes=[list(force)] if force else None,
            device=model.source_embedding.weight.device,
        )
        return watch_search(model, [*ids, self.ids.eos_id], request)
