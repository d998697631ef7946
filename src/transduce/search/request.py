"""One search's request, checked before the first step.

In:  what the caller asks for: special ids, limits, forbidden ids, prefixes, settings.
Out: the same, known to be free of contradictions.
Does not know: tensors, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.errors import SearchError
from transduce.search.config import SearchConfig
from transduce.search.phrases import Phrase

if TYPE_CHECKING:
    import torch

__all__ = ["Request"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to search for.

    Raises:
        SearchError: `min_len` or a prefix is above a limit; a limit or an id is negative; EOS is
            suppressed, inside a prefix or inside a phrase; there is not one prefix, one key, or one
            list of phrases per sentence; phrases are asked of samples.
    """

    bos_id: int
    """The first input of every sentence. It is never generated, unless it is also `eos_id`."""
    eos_id: int
    """Ends a translation."""
    limits: Sequence[int]
    """For each sentence the most tokens before EOS; 0: nothing but EOS."""
    config: SearchConfig
    suppress: Sequence[int] = ()
    """Ids that are never generated: padding, unknown, line breaks, ..."""
    prefixes: Sequence[Sequence[int]] | None = None
    """For each sentence the tokens that its translation must begin with, or None."""
    required: Sequence[Sequence[Phrase]] | None = None
    """For each sentence the phrases that its translation must hold, or None. Suppressed ids stay
    forbidden in them."""
    keys: Sequence[int] | None = None
    """Sampling: for each sentence a number that tells it apart, for instance its line; by default its
    position in the request."""
    device: torch.device | str = "cpu"
    """Where `ids` and `rows` go; the logits come back from there. The bookkeeping is on the CPU."""

    def __post_init__(self) -> None:
        """Check the ids, the limits and the prefixes."""
        for name, ids in self._ids().items():
            if min(ids, default=0) < 0:
                raise SearchError(
                    f"{name} holds {min(ids)}, expected ids from 0 up: a tokenizer says -1 for a "
                    "piece that it does not have"
                )
        if self.eos_id in self.suppress:
            raise SearchError(
                f"suppress holds {self.eos_id}, which is eos_id: nothing could end; leave it out"
            )
        self._check_limits()
        self._check_prefixes()
        self._check_required()
        if self.keys is not None and len(self.keys) != len(self.limits):
            raise SearchError(
                f"{len(self.keys)} keys came for {len(self.limits)} sentences: give one for each"
            )

    @property
    def forbidden(self) -> list[int]:
        """The suppressed ids and BOS, in order."""
        return sorted({*self.suppress, self.bos_id} - {self.eos_id})

    def check_vocab(self, vocab: int) -> None:
        """Raise SearchError if the request names an id that a model of `vocab` ids does not have."""
        for name, ids in self._ids().items():
            if max(ids, default=0) >= vocab:
                raise SearchError(
                    f"{name} holds {max(ids)}, but the model has ids 0 to {vocab - 1}: are the "
                    "tokenizer and the model from the same run?"
                )

    def _ids(self) -> dict[str, list[int]]:
        return {
            "bos_id": [self.bos_id],
            "eos_id": [self.eos_id],
            "suppress": list(self.suppress),
            "prefixes": [id_ for prefix in self.prefixes or () for id_ in prefix],
            "required": [
                id_
                for phrases in self.required or ()
                for phrase in phrases
                for spelling in phrase.spellings
                for id_ in spelling.ids
            ],
        }

    def _check_limits(self) -> None:
        min_len = self.config.min_len
        for sentence, limit in enumerate(self.limits):
            if limit < 0:
                raise SearchError(
                    f"the limit of sentence {sentence} is {limit}, expected 0 or more: "
                    "0 already allows nothing but the end"
                )
            if limit < min_len:
                raise SearchError(
                    f"min_len ({min_len}) is larger than the limit of sentence {sentence} "
                    f"({limit} tokens): lower min_len, or raise max_extra_len"
                )

    def _check_prefixes(self) -> None:
        if self.prefixes is None:
            return
        if len(self.prefixes) != len(self.limits):
            raise SearchError(
                f"{len(self.prefixes)} prefixes came for {len(self.limits)} sentences: give one "
                "for each, an empty one where nothing is forced"
            )
        for sentence, (prefix, limit) in enumerate(zip(self.prefixes, self.limits, strict=True)):
            if len(prefix) > limit:
                raise SearchError(
                    f"the prefix of sentence {sentence} has {len(prefix)} tokens, but its limit "
                    f"is {limit}: shorten the prefix, or raise max_extra_len"
                )
            if self.eos_id in prefix:
                raise SearchError(
                    f"the prefix of sentence {sentence} holds eos_id ({self.eos_id}), but a "
                    "prefix is what translation goes on from: leave EOS out"
                )

    def _check_required(self) -> None:
        if self.required is None:
            return
        if len(self.required) != len(self.limits):
            raise SearchError(
                f"{len(self.required)} lists of required phrases came for {len(self.limits)} sentences: "
                "give one for each, an empty one where nothing is required"
            )
        if self.config.method == "sample" and any(self.required):
            raise SearchError(
                "samples cannot be made to hold required phrases: use method 'beam', or leave the phrases out"
            )
        for sentence, phrases in enumerate(self.required):
            for phrase in phrases:
                if phrase.count < 1 or not phrase.spellings or phrase.size == 0:
                    raise SearchError(
                        f"sentence {sentence} requires a phrase without tokens, or {phrase.count} times: "
                        "leave it out"
                    )
                if any(self.eos_id in spelling.ids for spelling in phrase.spellings):
                    raise SearchError(
                        f"a required phrase of sentence {sentence} holds eos_id ({self.eos_id}): leave it out"
                    )
