"""How to search: every choice a user has, checked when it is made.

Paper, section 6.1: beam size 4, length penalty alpha 0.6, output at most input length + 50.
Does not know: models, vocabularies, devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from transduce.errors import SearchError

__all__ = ["LengthPenalty", "Method", "SearchConfig"]

LengthPenalty: TypeAlias = Literal["gnmt", "power"]
Method: TypeAlias = Literal["beam", "sample"]


_MOST_PATIENCE = 1000


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of one search.

    Raises:
        SearchError: a value is out of its range, or two values contradict each other.
    """

    method: Method = "beam"
    """`beam` looks for the best translation (with `beam_size` 1: greedily); `sample` draws some."""
    beam_size: int = 4
    """How many hypotheses of a sentence stay alive at each step."""
    n_best: int = 1
    """How many hypotheses to return: the best of the beam, or that many independent samples."""
    length_penalty: LengthPenalty = "gnmt"
    """What a sum of log-probabilities is divided by: `gnmt` ((5 + len) / 6)^alpha, as in the paper,
    T2T and JoeyNMT; `power` len^alpha, as in fairseq, CTranslate2, Marian and Hugging Face. `len`
    counts EOS, as in fairseq. An alpha that suits one does not suit the other."""
    alpha: float = 0.6
    """The penalty's exponent: 0 compares plain sums, larger favours longer translations."""
    required_alpha: float = 0.0
    """The exponent instead of `alpha` where phrases are required. A term that the model did not expect
    makes every sum so low that dividing it by a length favours whatever rambles on."""
    min_len: int = 0
    """At least this many tokens before EOS. It forces text out of an empty source too, so do not
    search where there is nothing to translate."""
    max_extra_len: int = 50
    """A translation has at most `int(max_len_ratio * source_len) + max_extra_len` tokens."""
    max_len_ratio: float = 1.0
    """See `max_extra_len`; `source_len` is the sentence's own length, without padding."""
    no_repeat_ngram: int = 0
    """No n-gram of this length occurs twice in a translation; 0 allows it."""
    patience: float = math.inf
    """A sentence's beam also stops when `beam_size * patience` of its hypotheses have ended (Kasai et
    al., 2022; 1 is fairseq's, CTranslate2's and most toolkits' rule). `inf`: only when nothing that
    follows can change the result, which may take more steps."""
    temperature: float = 1.0
    """Sampling: divides the logits; below 1 is bolder, above 1 wilder."""
    top_k: int = 0
    """Sampling: only the `top_k` likeliest tokens; 0 means all."""
    top_p: float = 1.0
    """Sampling: only the likeliest tokens that together reach this probability; 1 means all."""
    seed: int = 0
    """Sampling: the same seed draws the same samples."""

    def __post_init__(self) -> None:
        """Check every field, then the fields against each other."""
        _known("method", self.method, get_args(Method))
        _known("length_penalty", self.length_penalty, get_args(LengthPenalty))
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise SearchError(f"{name} is {getattr(self, name)}, but must be at least {least}: raise it")
        for name in ("alpha", "required_alpha"):
            if not abs(getattr(self, name)) <= 10:
                raise SearchError(
                    f"{name} is {getattr(self, name)}, but must lie in [-10, 10]: the paper has 0.6"
                )
        if not 0 <= self.max_len_ratio < math.inf:
            raise SearchError(
                f"max_len_ratio is {self.max_len_ratio}, but must be a number from 0 up: try 1.0"
            )
        if not 0 < self.temperature < math.inf:
            raise SearchError(
                f"temperature is {self.temperature}, but must be above 0: for the likeliest token "
                "at each step, use method 'beam' with beam_size 1"
            )
        if not 0 < self.top_p <= 1:
            raise SearchError(f"top_p is {self.top_p}, but must lie in (0, 1]: 1 keeps all tokens")
        if not self.patience > 0:
            raise SearchError(f"patience is {self.patience}, but must be above 0: 1 is usual, inf is safe")
        if _MOST_PATIENCE < self.patience < math.inf:
            raise SearchError(
                f"patience is {self.patience}, but must be at most {_MOST_PATIENCE}, or inf: 1 is usual"
            )
        if self.method == "beam" and self.num_endings < self.n_best:
            raise SearchError(
                f"patience ({self.patience}) ends the search at {self.num_endings:.0f} hypotheses, fewer "
                f"than n_best ({self.n_best}): raise patience, or lower n_best"
            )
        if self.method == "beam" and self.n_best > self.beam_size:
            raise SearchError(
                f"n_best ({self.n_best}) is larger than beam_size ({self.beam_size}): "
                "a beam returns at most beam_size hypotheses; raise beam_size"
            )

    @property
    def num_endings(self) -> float:
        """How many hypotheses of a sentence end before its search stops for lack of `patience`."""
        endings = self.beam_size * self.patience + 0.5
        return endings if math.isinf(endings) else float(math.floor(endings))

    def limit(self, source_len: int) -> int:
        """Return the most tokens (EOS not counted) of a translation of `source_len` tokens."""
        return int(self.max_len_ratio * source_len) + self.max_extra_len


_LEAST = {
    "beam_size": 1,
    "n_best": 1,
    "min_len": 0,
    "max_extra_len": 0,
    "no_repeat_ngram": 0,
    "top_k": 0,
}


def _known(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SearchError(f"{name} is {value!r}, but must be one of {', '.join(choices)}")
