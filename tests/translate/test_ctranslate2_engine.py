"""The engine over an export gives the torch engine's answers (contracts 3 and 6)."""

from __future__ import annotations

import random

import pytest

from both_engines import IDS, UNK, both_engines, random_sources, same_answer
from transduce.errors import ModelError, SearchError
from transduce.search.config import SearchConfig
from transduce.translate.ctranslate2_engine import CTranslate2Engine
from transduce.translate.exported import ExportedModel
from transduce.translate.runtime import Runtime

SETTINGS = [
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 4, "patience": 1.0},
    {"beam_size": 5, "n_best": 5},
    {"beam_size": 5, "n_best": 5, "patience": 1.0},
    {"beam_size": 3, "n_best": 2, "patience": 2.0, "alpha": 2.0},
    {"beam_size": 3, "n_best": 2, "length_penalty": "power", "alpha": 1.0},
    {"beam_size": 3, "n_best": 3, "length_penalty": "power", "alpha": 1.0, "patience": 1.0},
    {"beam_size": 4, "alpha": 0.0},
    {"beam_size": 4, "alpha": 0.0, "patience": 1.0},
    {"beam_size": 4, "length_penalty": "power", "alpha": -0.5, "patience": 1.0},
    {"beam_size": 2, "max_extra_len": 1, "max_len_ratio": 0.3},
]


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    return [both_engines(tmp_path_factory.mktemp("engines"), seed) for seed in range(2)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_ids_are_torchs(engines, settings):
    config = SearchConfig(**{"max_extra_len": 12, **settings})
    verdicts = []
    for seed, (ours, theirs) in enumerate(engines):
        sources = random_sources(16, seed)
        pairs = zip(sources, ours.search(sources, config), theirs.search(sources, config), strict=True)
        verdicts += [same_answer(a, b, config.limit(len(source))) for source, a, b in pairs]
    assert False not in verdicts
    if "max_len_ratio" not in settings:
        assert verdicts.count(True) >= 20


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1}, {"beam_size": 3, "n_best": 3, "patience": 1.0}], ids=str
)
def test_scores_are_the_models_own(engines, settings):
    config = SearchConfig(max_extra_len=12, **settings)
    ours, theirs = engines[0]
    sources = random_sources(20)
    for a, b in zip(ours.search(sources, config), theirs.search(sources, config), strict=True):
        for own, other in zip(a, b, strict=True):
            if (own.ids, own.finished) == (other.ids, other.finished):
                assert other.score == pytest.approx(own.score, abs=1e-4)
                assert other.token_log_probs == pytest.approx(own.token_log_probs, abs=1e-4)
                assert len(other.token_log_probs) == len(other.ids) + other.finished
    for a, b in zip(
        theirs.search(sources, config), theirs.search(sources, config, details=False), strict=True
    ):
        assert b[0].ids == a[0].ids
        assert b[0].score == pytest.approx(a[0].score, abs=1e-4)


def test_a_cut_path_is_greedys(engines):
    """At the limit greedy search cuts as ours does; a neighbour's higher limit lets nothing run on."""
    config = SearchConfig(beam_size=1, max_extra_len=0, max_len_ratio=0.5)
    ours, theirs = engines[0]
    sources = random_sources(24)
    for details in (True, False):
        found = theirs.search(sources, config, details=details)
        for source, (own,), (other,) in zip(sources, ours.search(sources, config), found, strict=True):
            assert other.ids == own.ids
            assert other.finished == own.finished
            assert len(other.ids) <= config.limit(len(source))
            assert other.score == pytest.approx(own.score, abs=1e-4)


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1}, {"beam_size": 4}, {"beam_size": 4, "patience": 1.0}], ids=str
)
def test_company_order_and_threads_do_not_matter(engines, settings):
    config = SearchConfig(max_extra_len=12, **settings)
    theirs = engines[1][1]
    exported = ExportedModel(theirs._workers._path)
    sources = random_sources(24, seed=5)
    first = [h[0].ids for h in theirs.search(sources, config)]
    runtimes = [Runtime(threads=1, batch_tokens=1), Runtime(threads=2), Runtime(threads=1, batch_tokens=40)]
    for turn, runtime in enumerate(runtimes):
        order = list(range(len(sources)))
        random.Random(turn).shuffle(order)
        engine = CTranslate2Engine(exported, runtime)
        found = engine.search([sources[i] for i in order], config)
        assert [found[order.index(i)][0].ids for i in range(len(sources))] == first
    assert [theirs.search([s], config)[0][0].ids for s in sources[:5]] == first[:5]


def test_a_forced_prefix_begins_every_hypothesis(engines):
    ours, theirs = engines[0]
    sources = random_sources(20)
    prefixes = [[5, 6, 7] if i % 2 else [] for i in range(20)]
    for settings in ({"beam_size": 1}, {"beam_size": 3, "n_best": 2, "patience": 1.0}, {"beam_size": 3}):
        config = SearchConfig(max_extra_len=12, **settings)
        found = theirs.search(sources, config, prefixes=prefixes)
        for prefix, hypotheses in zip(prefixes, found, strict=True):
            assert all(list(h.ids[: len(prefix)]) == prefix for h in hypotheses)
        agreed = [
            same_answer(a, b, config.limit(len(source)))
            for source, a, b in zip(
                sources, ours.search(sources, config, prefixes=prefixes), found, strict=True
            )
        ]
        assert agreed.count(False) <= 1  # a place less where one could end right after its prefix
        assert agreed.count(True) >= 10


def test_what_is_forbidden_never_appears(engines):
    _, theirs = engines[0]
    found = theirs.search(random_sources(10), SearchConfig(beam_size=4, max_extra_len=10))
    banned = next(h.ids[0] for hypotheses in found for h in hypotheses if h.ids)
    theirs._facts.__dict__["suppress"] = (UNK, banned)
    try:
        for settings in ({"beam_size": 4}, {"beam_size": 1}, {"method": "sample", "n_best": 3}):
            for hypotheses in theirs.search(random_sources(10), SearchConfig(max_extra_len=10, **settings)):
                for h in hypotheses:
                    assert not {banned, UNK, IDS.pad_id, IDS.bos_id} & set(h.ids)
    finally:
        theirs._facts.__dict__["suppress"] = (UNK,)


def test_min_len_and_repeats_are_honoured(engines):
    ours, theirs = engines[0]
    sources = random_sources(12)
    for beam_size in (1, 4):
        config = SearchConfig(beam_size=beam_size, min_len=6, no_repeat_ngram=2, max_extra_len=12)
        for (own, *_), (h, *_) in zip(
            ours.search(sources, config), theirs.search(sources, config), strict=True
        ):
            assert len(h.ids) >= 6
            ngrams = list(zip(h.ids, h.ids[1:], strict=False))
            assert len(ngrams) == len(set(ngrams))
            if beam_size == 1:  # a likeliest token stays the likeliest, whatever the others share
                assert h.ids == own.ids


def test_samples_repeat_with_their_seed(engines):
    _, theirs = engines[0]
    settings = {"method": "sample", "n_best": 3, "temperature": 1.5, "max_extra_len": 10}

    def draw(seed):
        found = theirs.search(random_sources(6), SearchConfig(seed=seed, **settings))
        assert all(len(hypotheses) == 3 for hypotheses in found)
        return [h.ids for hypotheses in found for h in hypotheses]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    top = SearchConfig(method="sample", top_k=1, max_extra_len=10)
    greedy = theirs.search(random_sources(6), SearchConfig(beam_size=1, max_extra_len=10))
    assert [h[0].ids for h in theirs.search(random_sources(6), top)] == [h[0].ids for h in greedy]


def test_alignment_is_torchs(engines):
    for ours, theirs in engines:
        sources, targets = random_sources(20), random_sources(20, seed=9)
        assert theirs.align(sources, targets) == ours.align(sources, targets)
        assert theirs.align([[5], []], [[], [6]]) == [(), ()]


def test_an_empty_source_and_no_source(engines):
    ours, theirs = engines[0]
    config = SearchConfig(beam_size=2, max_extra_len=12)
    assert theirs.search([], config) == []
    assert theirs.search([[]], config)[0][0].ids == ours.search([[]], config)[0][0].ids


def test_wrong_requests_say_what_is_right(engines, tmp_path):
    _, theirs = engines[0]
    config = SearchConfig(beam_size=2, max_extra_len=2)
    with pytest.raises(SearchError, match="1 prefixes came for 2 sentences"):
        theirs.search([[5], [6]], config, prefixes=[[7]])
    with pytest.raises(SearchError, match="holds eos_id"):
        theirs.search([[5]], config, prefixes=[[IDS.eos_id]])
    with pytest.raises(ModelError, match="holds the id 40, but the source vocabulary has ids 0 to 39"):
        theirs.search([[5], [40]], config)
    with pytest.raises(ModelError, match="has 128 tokens, but the export has positions for 128"):
        theirs.search([[5] * 128], config)
    with pytest.raises(ModelError, match="threads is -1"):
        Runtime(threads=-1)
    with pytest.raises(ModelError, match="compute_type is 'int4', but must be one of default, float32"):
        Runtime(compute_type="int4")


def test_a_damaged_export_is_one_line(tmp_path):
    both_engines(tmp_path)
    exported = ExportedModel(tmp_path / "ct2")
    (tmp_path / "ct2" / "model.bin").write_bytes(b"\xff" * 40)
    with pytest.raises(ModelError, match="CTranslate2 cannot load") as caught:
        CTranslate2Engine(exported, Runtime(threads=1)).search([[5]], SearchConfig())
    assert "\n" not in str(caught.value)
    (tmp_path / "ct2" / "shared_vocabulary.json").write_text("[")
    with pytest.raises(ModelError, match="cannot be read"):
        CTranslate2Engine(exported)


def test_learned_positions_bound_the_length(tmp_path):
    ours, theirs = both_engines(tmp_path, position="learned", max_len=14, eos=-5.0)
    config = SearchConfig(beam_size=1, max_extra_len=50)
    sources = random_sources(6)
    for (own,), (h,) in zip(ours.search(sources, config), theirs.search(sources, config), strict=True):
        assert h.ids == own.ids
        assert len(h.ids) <= 13


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_keeps_its_threads(engines, threads):
    """Loading a model sets the number of OpenMP threads of the caller: training would change with it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        exported = ExportedModel(engines[0][1]._workers._path)
        CTranslate2Engine(exported, Runtime(threads=threads)).search(
            random_sources(2), SearchConfig(beam_size=1)
        )
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
