"""The engine over ONNX Runtime: encoder.onnx and decoder.onnx, as `transduce export --to onnx` writes them.

Sentences are sorted by length and cut into batches; our own search asks for one step after the other, so
that a model gives the same translations as in torch. Axes: rows, heads, past_len, src_len.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from transduce.batch.collate import SpecialIds, pad_rows
from transduce.errors import ModelError, RecipeError, TokenizerError
from transduce.recipe import read_recipe
from transduce.search.config import SearchConfig
from transduce.search.dispatch import search
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.search.step import Step
from transduce.text.tokenizer import load_tokenizers
from transduce.translate.engine import Alignment
from transduce.translate.translator import Translator

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["OnnxEngine", "load_onnx"]

_BATCH_TOKENS = 4096


def load_onnx(directory: str | Path, *, num_threads: int = 0) -> Translator:
    """A translator over the directory that `transduce export --to onnx` wrote.

    Raises:
        ModelError: a file is missing, damaged or foreign.
    """
    place = Path(directory)
    try:
        recipe, (source, target) = read_recipe(place / "recipe.toml"), load_tokenizers(place)
    except (RecipeError, TokenizerError) as error:
        raise ModelError(f"the export {place} cannot be read: {error}") from error
    engine = OnnxEngine(place, suppress=[target.unk_id, *target.newline_ids], num_threads=num_threads)
    languages = (recipe.data.source_language, recipe.data.target_language)
    max_len = recipe.batch.max_len - 1
    return Translator(engine, source, target, recipe.search, max_len=max_len, languages=languages)


@dataclass
class _State:
    """What the decoder's graph is fed with besides the newest ids; rows as `search.step.State` says."""

    memory: dict[str, Tensor]
    past: dict[str, Tensor]

    def select(self, rows: Tensor) -> _State:
        """Row i becomes what row rows[i] was."""
        return _State(
            {name: tensor[rows] for name, tensor in self.memory.items()},
            {name: tensor[rows] for name, tensor in self.past.items()},
        )


class OnnxEngine:
    """Runs an exported model on the CPU."""

    def __init__(
        self,
        directory: Path,
        *,
        suppress: Sequence[int] = (),
        num_threads: int = 0,
        batch_tokens: int = _BATCH_TOKENS,
    ) -> None:
        """Open both graphs.

        Args:
            directory: holds encoder.onnx and decoder.onnx.
            suppress: ids that are never generated.
            num_threads: of ONNX Runtime; 0 means one a core.
            batch_tokens: most source cells, times the beam, computed at once.

        Raises:
            ModelError: onnxruntime is not installed, or a file is missing, damaged or foreign.
        """
        self._encoder = _session(directory / "encoder.onnx", num_threads)
        self._decoder = _session(directory / "decoder.onnx", num_threads)
        facts = self._decoder.get_modelmeta().custom_metadata_map
        try:
            self._ids = SpecialIds(*(int(facts[name]) for name in ("pad_id", "bos_id", "eos_id")))
            self._longest = int(facts["num_positions"])
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"{directory / 'decoder.onnx'} was not written by `transduce export`: it lacks its {error}"
            ) from error
        self._suppress = [self._ids.pad_id, self._ids.bos_id, *suppress]
        self._batch_tokens = batch_tokens
        shapes = {value.name: value.shape for value in self._decoder.get_inputs()}
        self._pasts = {name: shape for name, shape in shapes.items() if name.startswith("past_")}
        self._memories = [name for name in shapes if name.startswith("memory_")]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        details: bool = True,  # noqa: ARG002 - they come of themselves here
    ) -> list[list[Hypothesis]]:
        """As `Engine.search`.

        Raises:
            SearchError: the request contradicts itself, or the model's logits are not finite.
            ModelError: a source is longer than the exported positions.
        """
        width = config.n_best if config.method == "sample" else config.beam_size
        found: dict[int, list[Hypothesis]] = {}
        for indices in self._batches(sources, width):
            rows = [list(sources[i]) for i in indices]
            request = Request(
                bos_id=self._ids.bos_id,
                eos_id=self._ids.eos_id,
                limits=[min(config.limit(len(row)), self._longest - 1) for row in rows],
                config=config,
                keys=[keys[i] if keys is not None else i for i in indices],
                suppress=self._suppress,
                prefixes=None if prefixes is None else [prefixes[i] for i in indices],
            )
            results = search(cast(Step, self._step), self._start(rows), request)
            found.update(zip(indices, results, strict=True))
        return [found[i] for i in range(len(sources))]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """As `Engine.align`: the given target is fed token by token, and the graph says where it looked."""
        aligned: list[Alignment] = []
        for source, target in zip(sources, targets, strict=True):
            state, pairs = self._start([list(source)]), []
            for index, token in enumerate([self._ids.bos_id, *target][: len(target) if source else 0]):
                attention, state = self._run(torch.tensor([token]), state, "attention")
                pairs.append((int(attention[0, : len(source)].argmax()), index))
            aligned.append(tuple(pairs))
        return aligned

    def _start(self, rows: list[list[int]]) -> _State:
        """Encode sources; nothing is written yet."""
        padded = pad_rows(rows, self._ids).numpy()
        if padded.shape[1] > self._longest:
            raise ModelError(
                f"a source of {padded.shape[1]} tokens came, but this export has {self._longest} positions: "
                f"split the text, or export a model with a larger batch.max_len"
            )
        outputs = self._encoder.run(self._memories, {"source": padded})
        memory = {name: torch.from_numpy(array) for name, array in zip(self._memories, outputs, strict=True)}
        past = {name: torch.zeros(len(rows), shape[1], 0, shape[3]) for name, shape in self._pasts.items()}
        return _State(memory, past)

    def _step(self, ids: Tensor, state: _State) -> tuple[Tensor, _State]:
        """As `search.step.Step`."""
        return self._run(ids, state, "logits")

    def _run(self, ids: Tensor, state: _State, wanted: str) -> tuple[Tensor, _State]:
        """Feed one token a row."""
        feed: dict[str, Any] = {name: tensor.numpy() for name, tensor in (state.memory | state.past).items()}
        names = [name.removeprefix("past_") for name in self._pasts]
        first, *present = self._decoder.run([wanted, *names], feed | {"ids": ids.numpy()})
        past = {name: torch.from_numpy(array) for name, array in zip(self._pasts, present, strict=True)}
        return torch.from_numpy(np.asarray(first)), _State(state.memory, past)

    def _batches(self, sources: Sequence[Sequence[int]], width: int) -> Iterator[list[int]]:
        """Indices in batches of similar lengths, longest first, within the budget (or one row)."""
        batch: list[int] = []
        for index in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
            longest = len(sources[batch[0] if batch else index]) + 1
            if batch and longest * (len(batch) + 1) * width > self._batch_tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch


def _session(file: Path, num_threads: int) -> InferenceSession:
    """Open one graph."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"running {file} needs onnxruntime ({error}): pip install 'transduce[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3  # errors only
    if not file.exists():
        raise ModelError(f"there is no {file}: make it with `transduce export MODEL --to onnx`")
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common class of their own
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{file} cannot be read ({reason}): export it again") from error
