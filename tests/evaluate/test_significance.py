"""Resampling tells a real difference from chance, repeatably."""

import json
import os
import random

import pytest
import sacrebleu

from transduce.errors import DataError
from transduce.evaluate import compare, confidence

WORDS = "a at cat dog green house in new old on red runs sees the tree with".split()  # noqa: SIM905


def _system(references, error_rate, seed):
    """The references with some words replaced."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(WORDS) if rng.random() < error_rate else w for w in line.split())
        for line in references
    ]


@pytest.fixture(scope="module")
def corpus():
    rng = random.Random(1)
    references = [" ".join(rng.choices(WORDS, k=12)) for _ in range(150)]
    systems = {
        "baseline": _system(references, 0.3, 2),
        "as good": _system(references, 0.3, 3),
        "better": _system(references, 0.1, 4),
        "worse": _system(references, 0.5, 5),
    }
    return systems, references


@pytest.fixture(scope="module")
def comparisons(corpus):
    return compare(*corpus, num_samples=300)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_real_difference_is_significant_and_chance_is_not(comparisons, metric):
    comparison = comparisons[metric]
    as_good, better, worse = comparison.others
    assert better.p_value < 0.01
    assert worse.p_value < 0.01
    assert as_good.p_value > 0.05
    assert comparison.baseline.p_value is None


def test_a_system_does_not_differ_from_itself(corpus):
    systems, references = corpus
    twice = {"one": systems["better"], "two": systems["better"]}
    result = compare(twice, references, num_samples=100, metrics=["bleu"])["bleu"]
    assert result.others[0].p_value == 1


def test_intervals_hold_the_score_and_part_the_systems(comparisons):
    bleu = comparisons["bleu"]
    for system in (bleu.baseline, *bleu.others):
        low, high = system.interval
        assert low < system.value < high
        assert system.ci > 0
    assert bleu.others[1].interval[0] > bleu.baseline.interval[1]


def test_scores_are_those_of_sacrebleu(corpus, comparisons):
    systems, references = corpus
    expected = sacrebleu.BLEU().corpus_score(systems["better"], [references]).score
    assert comparisons["bleu"].others[1].value == expected
    assert comparisons["bleu"].others[1].system == "better"


def test_the_same_seed_gives_the_same_answer_and_another_one_another(corpus):
    systems, references = corpus
    two = {name: systems[name] for name in ("baseline", "as good")}
    first, again = (compare(two, references, num_samples=60, metrics=["bleu"]) for _ in range(2))
    other = compare(two, references, num_samples=60, metrics=["bleu"], seed=7)
    assert first == again
    assert first["bleu"].baseline.mean != other["bleu"].baseline.mean
    assert "seed:7" in other["bleu"].baseline.signature


def test_confidence_is_sacrebleus_and_the_environment_is_left_alone(corpus, monkeypatch):
    systems, references = corpus
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    ours = confidence(systems["better"], references, n=100, seed=12345)["bleu"]
    assert os.environ["SACREBLEU_SEED"] == "99"
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    theirs = sacrebleu.BLEU().corpus_score(systems["better"], [references], n_bootstrap=100)
    assert (ours.value, ours.mean, ours.ci) == (theirs.score, theirs._mean, theirs._ci)
    assert "bs:100|seed:12345" in ours.signature


def test_more_lines_give_a_narrower_interval(corpus):
    systems, references = corpus
    few = confidence(systems["baseline"][:30], references[:30], n=200, metrics=["bleu"])["bleu"]
    many = confidence(systems["baseline"], references, n=200, metrics=["bleu"])["bleu"]
    assert many.ci < few.ci


def test_render_and_to_dict(comparisons):
    text = comparisons["bleu"].render()
    assert text.startswith("BLEU|nrefs:1|bs:300|seed:12345")
    assert "better: " in text
    assert "p = 0.0" in text
    assert json.loads(json.dumps(comparisons["ter"].to_dict()))["others"][2]["system"] == "worse"


def test_errors_name_the_system():
    with pytest.raises(DataError, match="at least two systems, got 1"):
        compare({"a": ["x"]}, ["x"])
    with pytest.raises(DataError, match="system 'b': 2 hypotheses but 1 references"):
        compare({"a": ["x"], "b": ["x", "y"]}, ["x"])
    with pytest.raises(DataError, match="no lines to score"):
        confidence([], [])


@pytest.mark.parametrize("options", [{"n": 1}, {"seed": 0}, {"metrics": ["BLEU"]}])
def test_our_own_mistakes_are_value_errors(options):
    with pytest.raises(ValueError, match=r"samples|known are bleu, chrf, ter"):
        confidence(["a"], ["a"], **options)
