"""The examples run, and detokenising does what it says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from digits import ROOT

EXAMPLES = ROOT / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tokenised", "plain"),
    [
        ("ein mann , der 3 @-@ d @-@ brillen trägt .", "ein mann, der 3-d-brillen trägt."),
        ("&quot; na klar &quot; , sagt er &amp; geht", '"na klar", sagt er & geht'),
        ("( links ) und rechts !", "(links) und rechts!"),
        ("", ""),
    ],
)
def test_detokenise(tokenised, plain):
    assert load("detokenise").detokenise(tokenised) == plain


@pytest.mark.slow
def test_multi30k_script_runs_to_its_end(tmp_path, shared_data):
    """Thirty updates instead of an hour; the scores are poor and the road is whole."""
    small = [
        "train.max_minutes=0",
        "train.max_steps=30",
        "train.validate_every=0",
        "train.validate_sentences=0",
    ]
    small += ["search.beam_size=1", "search.max_extra_len=0", "search.max_len_ratio=0.5"]
    command = ["bash", str(EXAMPLES / "multi30k.sh"), str(shared_data / "multi30k"), str(tmp_path / "run")]
    for setting in small:
        command += ["--set", setting]
    environment = os.environ | {"TRANSDUCE": str(Path(sys.executable).parent / "transduce")}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "tok:none" in result.stdout
    assert "case:lc" in result.stdout
