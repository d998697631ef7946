"""Is the difference between two systems real? Bootstrap resampling over the test set.

In: the translations of one or several systems, and the references they share.
Out: for each metric the mean over resampled test sets, its 95 % interval, and for each system the
probability of a difference from the baseline as large as this by chance (Koehn, 2004).
Does not know: models, files, torch. All resampling is sacreBLEU's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transduce.errors import DataError
from transduce.evaluate.scores import METRICS, References, make_metrics, reference_streams

__all__ = ["Comparison", "SystemScore", "compare", "confidence"]


@dataclass(frozen=True)
class SystemScore:
    """One system by one metric: its score, and what resampling says of it."""

    system: str
    value: float
    mean: float
    ci: float
    """Half the width of the 95 % interval: the interval is mean ± ci."""
    signature: str
    """SacreBLEU's, with the number of resamples and the seed."""
    p_value: float | None = None
    """How likely chance alone makes such a difference from the baseline; `None`: no baseline."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return self.mean - self.ci, self.mean + self.ci

    def render(self) -> str:
        """One line for people."""
        chance = "" if self.p_value is None else f"  p = {self.p_value:.4f}"
        return f"{self.system}: {self.value:.1f} ({self.mean:.1f} ± {self.ci:.1f}){chance}"


@dataclass(frozen=True)
class Comparison:
    """Systems against a baseline by one metric."""

    metric: str
    baseline: SystemScore
    others: tuple[SystemScore, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def render(self) -> str:
        """The metric with its signature, then one line a system, the baseline first."""
        rows = [system.render() for system in (self.baseline, *self.others)]
        return "\n  ".join([f"{self.metric}|{self.baseline.signature}", *rows])


def compare(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    num_samples: int = 1000,
    seed: int = 12345,
    tokenize: str | None = None,
    lowercase: bool = False,
    target_language: str | None = None,
    metrics: Sequence[str] = METRICS,
) -> dict[str, Comparison]:
    """Paired bootstrap of every system against the first one: `{"bleu": Comparison, …}`.

    Raises:
        DataError: fewer than two systems, or as `score`; the message names the system.
        ValueError: a seed below 1, fewer than 40 samples, or a metric that is not in `METRICS`.
    """
    if len(systems) < 2:
        raise DataError(f"a comparison needs at least two systems, got {len(systems)}")
    streams = []
    for name, hypotheses in systems.items():
        try:
            streams = reference_streams(hypotheses, references)
        except DataError as error:
            raise DataError(f"system {name!r}: {error}") from error
    made, _ = make_metrics(tokenize, lowercase, target_language, metrics)
    from sacrebleu.significance import PairedTest

    with _resampling(num_samples, seed):
        test = PairedTest(list(systems.items()), made, streams, "bs", num_samples)
        signatures, results = test()
    # sacreBLEU answers under its own names, in the order of the metrics it was given.
    return {
        key: _comparison(name, str(signatures[name]), list(systems), results[name])
        for key, name in zip(made, signatures, strict=True)
    }


def confidence(
    hypotheses: Sequence[str],
    references: References,
    n: int = 1000,
    seed: int = 12345,
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    target_language: str | None = None,
    metrics: Sequence[str] = METRICS,
) -> dict[str, SystemScore]:
    """The 95 % interval of one system's scores: `{"bleu": SystemScore, …}`.

    Raises:
        DataError: as `score`.
        ValueError: as `compare`.
    """
    streams = reference_streams(hypotheses, references)
    made, _ = make_metrics(tokenize, lowercase, target_language, metrics)
    scores = {}
    with _resampling(n, seed):
        for key, metric in made.items():
            result = metric.corpus_score(hypotheses, streams, n_bootstrap=n)
            signature = str(metric.get_signature())
            scores[key] = SystemScore(
                "system", float(result.score), float(result._mean), float(result._ci), signature
            )
    return scores


def _comparison(metric: str, signature: str, names: Sequence[str], results: Sequence[Any]) -> Comparison:
    """SacreBLEU's results for one metric, the baseline first.

    Equal scores get p = 1: sacreBLEU 2.6 counts only differences *greater* than the one observed,
    finds none between identical systems, and would call them significantly different.
    """
    base, *others = results
    chances = [None, *(1.0 if r.score == base.score else float(r.p_value) for r in others)]
    scores = [
        SystemScore(name, float(r.score), float(r.mean), float(r.ci), signature, chance)
        for name, r, chance in zip(names, results, chances, strict=True)
    ]
    return Comparison(metric, scores[0], tuple(scores[1:]))


@contextlib.contextmanager
def _resampling(num_samples: int, seed: int) -> Iterator[None]:
    """Set the seed where sacreBLEU looks for it, in the environment, and put the old one back."""
    if num_samples < 40 or seed < 1:
        raise ValueError(
            f"{num_samples} samples, seed {seed}: a 95 % interval needs at least 40 samples, and "
            "sacreBLEU takes a seed below 1 for none"
        )
    old = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if old is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = old
