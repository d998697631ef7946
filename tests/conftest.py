"""Shared by all tests: where real text lies, a tiny corpus that can be learnt, a trained tiny model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from digits import SHARED_DATA, TINY_SETTINGS, digit_pairs

# Properties are tried on the same examples everywhere, and are not timed: CI machines are slow.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def _two_threads() -> None:
    """Two threads here and in every process that a test starts: sums depend on their number."""
    threads = int(os.environ.setdefault("OMP_NUM_THREADS", "2"))
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _threads_stay() -> Iterator[None]:
    """CTranslate2, called directly by a test, sets the number of OpenMP threads, hence of torch."""
    yield
    threads = int(os.environ["OMP_NUM_THREADS"])
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real parallel text beside the checkout; a clone without it skips."""
    if not SHARED_DATA.is_dir():
        pytest.skip("real text (../shared/data) is not here")
    return SHARED_DATA


@pytest.fixture(scope="session")
def write_pairs() -> Callable[[Path, list[tuple[str, str]]], tuple[Path, Path]]:
    """Write pairs as `DIR/NAME.en` and `.de`; return both paths."""

    def write(stem: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
        stem.parent.mkdir(parents=True, exist_ok=True)
        files = (stem.with_suffix(".en"), stem.with_suffix(".de"))
        for side, file in enumerate(files):
            file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        return files

    return write


@pytest.fixture(scope="session")
def digit_run(tmp_path_factory: pytest.TempPathFactory, write_pairs) -> Path:
    """A finished run that translates `digit_pairs`, made once by the real pipeline."""
    from rich.console import Console

    from transduce.pipeline import train
    from transduce.recipe import load_recipe

    directory = tmp_path_factory.mktemp("digits")
    source, target = write_pairs(directory / "train", digit_pairs(3000))
    valid_source, valid_target = write_pairs(directory / "valid", digit_pairs(60, seed=1))
    recipe = load_recipe(
        overrides=TINY_SETTINGS,
        data={
            "source": str(source),
            "target": str(target),
            "valid_source": str(valid_source),
            "valid_target": str(valid_target),
            "source_language": "en",
            "target_language": "de",
        },
    )
    run = directory / "run"
    with (directory / "progress.txt").open("w") as stream:
        outcome = train(recipe, run, Console(file=stream))
    assert outcome is not None
    assert outcome.finished
    return run
