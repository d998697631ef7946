"""The token store holds the text, segmented as the recipe says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from digits import TINY_SETTINGS, digit_pairs
from transduce.prepare import Prepared, Run, prepare, training_corpus
from transduce.recipe import load_recipe

COPIES = 3


@pytest.fixture(scope="module")
def text(tmp_path_factory, write_pairs):
    return write_pairs(tmp_path_factory.mktemp("text") / "train", digit_pairs(200))


def prepared(text, path, *changes) -> Prepared:
    # Few pieces to a word: in a vocabulary that holds whole words there would be little to sample.
    settings = [*TINY_SETTINGS, "tokenizer.vocab_size=300", f"data.sampling_copies={COPIES}", *changes]
    recipe = load_recipe(overrides=settings, data={"source": str(text[0]), "target": str(text[1])})
    path.mkdir()
    with Path(os.devnull).open("w") as stream:
        return prepare(recipe, training_corpus(recipe), Run(path), Console(file=stream))


def rows(store, side, copy=0):
    ids, lengths = store.rows(side, np.arange(len(store)) + copy * len(store))
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def texts(prepared, side, copy):
    tokenizer = prepared.source_tokenizer if side == "source" else prepared.target_tokenizer
    return [tokenizer.decode(ids) for ids in rows(prepared.train, side, copy)]


def share_changed(one, other):
    return np.mean([a != b for a, b in zip(one, other, strict=True)])


@pytest.fixture(scope="module")
def plain(text, tmp_path_factory):
    return prepared(text, tmp_path_factory.mktemp("plain") / "run")


def test_without_sampling_there_is_one_copy(plain):
    assert plain.train.info.num_copies == 1


def test_sampled_copies_are_the_same_text_in_other_pieces_on_both_sides(text, tmp_path, plain):
    sampled = prepared(text, tmp_path / "run", "data.sampling_alpha=0.3")
    assert sampled.train.info.num_copies == COPIES
    for side in ("source", "target"):
        for copy in range(COPIES):
            assert texts(sampled, side, copy) == texts(plain, side, 0)
            assert share_changed(rows(sampled.train, side, copy), rows(plain.train, side)) > 0.5
            assert (
                share_changed(rows(sampled.train, side, copy), rows(sampled.train, side, (copy + 1) % COPIES))
                > 0.5
            )


def test_sampling_the_source_only_leaves_the_target_as_it_is(text, tmp_path, plain):
    sampled = prepared(text, tmp_path / "run", "data.sampling_alpha=0.3", "data.sampling_side=source")
    for copy in range(COPIES):
        assert rows(sampled.train, "target", copy) == rows(plain.train, "target")
        assert share_changed(rows(sampled.train, "source", copy), rows(plain.train, "source")) > 0.5
    both = prepared(text, tmp_path / "both", "data.sampling_alpha=0.3")
    assert sampled.train.info.fingerprint != both.train.info.fingerprint


def test_the_validation_text_is_never_sampled(text, tmp_path, plain):
    sampled = prepared(text, tmp_path / "run", "data.sampling_alpha=0.3")
    assert sampled.valid.info.num_copies == 1
    for side in ("source", "target"):
        assert rows(sampled.valid, side) == rows(plain.valid, side)
