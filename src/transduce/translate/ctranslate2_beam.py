"""What CTranslate2's beam found, and whether our beam's answer is surely among it.

CTranslate2 returns the hypotheses that ended and, at the last step that it was allowed, those still
alive; it ranks by sum / len^exponent. Ours (search/beam.py) ranks by any penalty, and goes on until
nothing can change. From what came back follows the same answer, or that it takes another run.

In:  `Found`, the limit, the settings. Out: the best, or what to run next.
Does not know: CTranslate2's objects, ids, batches.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from transduce.search.config import SearchConfig
from transduce.search.penalty import length_penalty

__all__ = [
    "Found", "Run", "best_ended", "endless", "exponent", "filled_up", "first_run", "joined", "needs",
]  # fmt: skip

T = TypeVar("T")

_IMPOSSIBLE = -1e9  # sums below come from tokens that were forbidden
_NEARLY_ZERO = 1e-9  # an exponent of 0 makes CTranslate2 stop at the first ending of the top hypothesis
_GUESS_RATIO, _GUESS_EXTRA = 1.25, 8  # tokens within which most searches are over


@dataclass(frozen=True)
class Found:
    """One hypothesis that came back."""

    tokens: tuple[str, ...]
    """Without EOS."""
    total: float
    """Sum of its log-probabilities."""
    ended: bool
    """With EOS; else it was alive at the last step."""
    forced: float = 0.0
    """What a forced prefix adds to `total`; CTranslate2 does not count it."""

    @property
    def steps(self) -> int:
        """Tokens, EOS counted."""
        return len(self.tokens) + self.ended

    @property
    def possible(self) -> bool:
        """Whether it holds no forbidden token."""
        return self.total > _IMPOSSIBLE


@dataclass(frozen=True)
class Run:
    """What CTranslate2 is asked for: how many steps, and after how many endings to stop."""

    steps: int
    endings: int


def exponent(config: SearchConfig, source_lens: Sequence[int]) -> float:
    """The `length_penalty` that makes CTranslate2 rank as we do, or nearly.

    For `gnmt` it is the power that agrees at one token and at as many as the sources have, so that what
    is left out, being last by that measure, cannot be far ahead by ours.
    """
    if math.isinf(config.num_endings):
        return _NEARLY_ZERO  # everything comes back, in any order
    if config.length_penalty == "power":
        return config.alpha or _NEARLY_ZERO
    usual = statistics.median(source_lens or [0]) + 2
    return config.alpha * math.log((5 + usual) / 6) / math.log(usual) or _NEARLY_ZERO


def first_run(config: SearchConfig, source_lens: Sequence[int], limits: Sequence[int]) -> Run:
    """A run for a batch: long enough for most of it."""
    if not math.isinf(config.num_endings):
        most = endless(config, max(limits) + 1)
        return Run(most.steps, min(most.endings, int(config.num_endings)))
    guess = int(_GUESS_RATIO * max(source_lens, default=0)) + _GUESS_EXTRA
    return endless(config, min(max(guess, config.min_len + 1), min(limits) + 1))


def endless(config: SearchConfig, steps: int) -> Run:
    """A run that no number of endings stops: whatever ended comes back."""
    return Run(steps, config.beam_size * (steps + 1))


def joined(wanted: Sequence[tuple[Run, T]], config: SearchConfig) -> dict[Run, list[T]]:
    """Those who want the same run together; of endless runs the longest serves all who want one."""
    longest = max((run.steps for run, _ in wanted if _is_endless(run, config)), default=0)
    groups: dict[Run, list[T]] = {}
    for run, who in wanted:
        own = endless(config, longest) if _is_endless(run, config) else run
        groups.setdefault(own, []).append(who)
    return groups


def needs(
    found: Sequence[Found], run: Run, limit: int, config: SearchConfig, power: float = _NEARLY_ZERO
) -> Run | None:
    """The run that it takes for the answer to be sure; None: this one suffices.

    Args:
        found: what came back.
        run: what had been asked for.
        limit: the sentence's own.
        config: the settings.
        power: the `exponent` that it was ranked by.
    """
    if run.steps > limit and _is_endless(run, config):
        return None  # nothing stopped it, and all came back
    longest = max((hypothesis.steps for hypothesis in found), default=0)
    if math.isinf(config.num_endings):
        return None if _is_over(found, run, limit, config) else _next(run, limit, config)
    if len(found) < run.endings and longest <= limit + 1:
        return None  # nothing was left out
    steps = min(longest, limit + 1)  # for a neighbour's higher limit it may have run on
    if sum(h.ended and len(h.tokens) <= limit for h in found) < config.n_best:
        return endless(config, limit + 1)
    # A second run goes on where patience would have stopped, and what is hidden may be what had stopped it.
    is_first = run.endings == config.num_endings
    if is_first and _hidden_are_worse(found, steps, limit, config, power):
        return None
    return _room_for_all(steps, run, config)


def best_ended(found: Sequence[Found], limit: int, config: SearchConfig) -> list[Found]:
    """The best `n_best` of those that ended in time, best first."""
    ended = [h for h in found if h.ended and len(h.tokens) <= limit]
    if not math.isinf(config.num_endings):
        ended = _in_patience(ended, int(config.num_endings))
    penalty = length_penalty(config.length_penalty, config.alpha)
    return sorted(ended, key=lambda h: -h.total / penalty(h.steps))[: config.n_best]


def filled_up(best: Sequence[Found], found: Sequence[Found], config: SearchConfig) -> list[Found]:
    """The best, and behind them what was alive at the limit, as many as are wanted."""
    ended = {h.tokens for h in best}
    cut = sorted((h for h in found if not h.ended and h.tokens not in ended), key=lambda h: -h.total)
    return [*best, *cut][: config.n_best]


def _is_endless(run: Run, config: SearchConfig) -> bool:
    return run.endings >= endless(config, run.steps).endings


def _room_for_all(steps: int, run: Run, config: SearchConfig) -> Run:
    """A run that leaves nothing out that ended within so many steps, if the search would have stopped there.

    Up to the last of them fewer ended than `run.endings`, and then no more than twice the beam's.
    """
    if run.endings == config.num_endings:
        return Run(steps, 2 * run.endings + config.beam_size)
    return endless(config, steps)


def _next(run: Run, limit: int, config: SearchConfig) -> Run:
    return endless(config, min(2 * run.steps, limit + 1))


def _is_over(found: Sequence[Found], run: Run, limit: int, config: SearchConfig) -> bool:
    """Whether nothing alive at the last step could still enter the best (as `best_attainable`).

    The best of the beam's candidates at that step came back. If one of them is alive, none that is
    alive has a larger sum; if all have ended, none has a larger sum than the least of them.
    """
    best = best_ended(found, limit, config)
    if len(best) < config.n_best:
        return False
    last = [h.total for h in found if h.steps == run.steps]
    alive = [h.total for h in found if not h.ended]
    if not last:
        return False
    bound = max(alive) if alive else min(last)
    penalty = length_penalty(config.length_penalty, config.alpha)
    reachable = bound / max(penalty(run.steps + 1), penalty(limit + 1))
    return reachable <= best[-1].total / penalty(best[-1].steps)


def _hidden_are_worse(
    found: Sequence[Found], longest: int, limit: int, config: SearchConfig, power: float
) -> bool:
    """Whether none that CTranslate2 may have left out, being last by its measure, is among our best."""
    penalty = length_penalty(config.length_penalty, config.alpha)
    ended = [h for h in found if h.ended and len(h.tokens) <= limit]
    if config.length_penalty == "power" and not any(h.forced for h in found):
        return True  # ranked as we rank
    forced = found[0].forced
    least = min((h.total - forced) / h.steps**power for h in found)
    reachable = max((least * steps**power + forced) / penalty(steps) for steps in range(1, longest + 1))
    scores = sorted((h.total / penalty(h.steps) for h in ended), reverse=True)
    return bool(reachable <= scores[config.n_best - 1])


def _in_patience(ended: Sequence[Found], enough: int) -> list[Found]:
    """Those that ended before the search would have stopped, or in that step."""
    steps = sorted(h.steps for h in ended)
    last = steps[enough - 1] if len(steps) >= enough else math.inf
    return [h for h in ended if h.steps <= last]
