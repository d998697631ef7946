"""What runs a model: ids in, hypotheses out. The translator does not care which one it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from transduce.search.config import SearchConfig
    from transduce.search.hypothesis import Hypothesis
    from transduce.search.phrases import Phrase

__all__ = ["Alignment", "Engine", "ParallelEngine", "RequiringEngine"]

Alignment: TypeAlias = tuple[tuple[int, int], ...]
"""(source token, target token) pairs, one for each target token, counted from 0."""


class Engine(Protocol):
    """Searches and aligns batches of any size, in the caller's order."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        details: bool = True,
    ) -> list[list[Hypothesis]]:
        """Per source, the `n_best` hypotheses, best first; `keys` make samples independent of the batch.

        Without `details` an engine may leave `token_log_probs` empty, where they cost it time.
        """

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Alignment]:
        """Per pair, the source token that each target token looked at most."""


@runtime_checkable
class RequiringEngine(Protocol):
    """An `Engine` that can also make translations hold phrases: glossaries, placeholders."""

    def search_required(
        self,
        sources: Sequence[Sequence[int]],
        config: SearchConfig,
        *,
        required: Sequence[Sequence[Phrase]],
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """As `Engine.search`; `required` are, per source, the phrases that its hypotheses must hold.

        A source without phrases gets what `Engine.search` gives it; where there are some, hypotheses are
        compared with `config.required_alpha` in place of `alpha`.
        """


@runtime_checkable
class ParallelEngine(Protocol):
    """An `Engine` that several threads may call at once."""

    @property
    def slots(self) -> int:
        """How many calls at once keep all its threads busy."""

    @property
    def batch_tokens(self) -> int:
        """Most source tokens, padding and end symbols counted, that one call should bring."""

    @property
    def copies(self) -> int:
        """How often its weights are in memory by now."""

    def together(self, beam_size: int) -> int:
        """How many sentences at once its threads had better work on together; 0: none, not even one."""

    def crowd(self, crowded: bool) -> None:
        """Say whether several calls are under way: each then takes one thread, else all."""
