"""IBM Model 1 by numpy: against a plain loop, and on a language whose dictionary is known."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from both_engines import both_engines, random_sources, vocabulary
from transduce.errors import DataError
from transduce.export.shortlist import collect_links, translation_table, vocabulary_map
from transduce.search.config import SearchConfig
from transduce.translate.ctranslate2_engine import CTranslate2Engine
from transduce.translate.exported import ExportedModel


def plain_model_1(pairs, iterations):
    table = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for t in target:
                whole = sum(table[s, t] for s in source)
                for s in source:
                    counts[s, t] += table[s, t] / whole
                    totals[s] += table[s, t] / whole
        table = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return table


def test_it_is_the_plain_loop():
    rng = random.Random(0)
    pairs = [
        tuple([rng.randrange(size) for _ in range(rng.randint(1, 5))] for size in (9, 7)) for _ in range(30)
    ]
    expected = plain_model_1(pairs, 3)
    sources, targets, table = translation_table(collect_links(pairs), 7, iterations=3)
    found = dict(zip(zip(sources.tolist(), targets.tolist(), strict=True), table.tolist(), strict=True))
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key]) for key in expected)
    assert np.bincount(sources, table)[np.unique(sources)] == pytest.approx(1.0)


def test_a_dictionary_is_found_again():
    rng = random.Random(1)
    words = [[rng.randrange(20) for _ in range(6)] for _ in range(200)]
    pairs = [(row, [40 + word for word in rng.sample(row, len(row))]) for row in words]
    sources, targets, table = translation_table(collect_links(pairs), 60)
    for word in range(20):
        own = sources == word
        assert targets[own][table[own].argmax()] == 40 + word


def test_the_file_has_a_line_a_piece_and_one_for_all():
    pieces = ["a", "b", "c d", "e\tf"]
    text = vocabulary_map([([0, 2], [1]), ([1], [3, 0])], pieces, pieces, always=[1], per_piece=1, frequent=1)
    lines = text.rstrip("\n").split("\n")
    assert lines[0] == "\ta b"
    assert lines[1] == "a\tb"
    assert lines[2].startswith("b\t")
    assert len(lines) == 3  # a piece with a space or tab cannot be written


def test_text_without_pairs_is_refused():
    with pytest.raises(DataError, match="no pair has tokens on both sides"):
        collect_links([([], [1]), ([1], [])])


def test_only_listed_pieces_are_generated(tmp_path):
    _, engine = both_engines(tmp_path)
    pieces = vocabulary(40).pieces
    config = SearchConfig(beam_size=2, max_extra_len=5, min_len=2)
    sources = random_sources(8)
    free = engine.search(sources, config)
    wanted = {i for hypotheses in free for i in hypotheses[0].ids}
    listed = [i for i in range(4, 40) if i not in wanted]
    assert wanted
    assert listed
    allowed = vocabulary_map([([5], listed)], pieces, pieces, always=[*listed, 3], frequent=0)
    (tmp_path / "ct2" / "vmap.txt").write_text(allowed)
    exported = ExportedModel(tmp_path / "ct2")
    exported.facts.__dict__["shortlist"] = True
    for hypotheses in CTranslate2Engine(exported).search(sources, config):
        assert set(hypotheses[0].ids) <= set(listed)
    without = CTranslate2Engine(exported, shortlist=False).search(sources, config)
    assert [h[0].ids for h in without] == [h[0].ids for h in free]
