"""The benchmark of a million lines, on so few that it ends in seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "translate"))

import million_lines
from million_lines import growth_mb


def test_growth_is_late_memory_over_early_memory():
    samples = [(0, 900.0), (15, 100.0), (16, 120.0), (30, 500.0), (60, 125.0), (100, 110.0)]
    assert growth_mb(samples, 100) == 5.0
    assert growth_mb(samples[:2], 100) is None


@pytest.mark.slow
def test_it_kills_resumes_and_tells(tmp_path):
    results = tmp_path / "results.jsonl"
    command = [sys.executable, million_lines.__file__, "--lines", "3000", "--kills", "1"]
    command += ["--work", str(tmp_path), "--results", str(results)]
    command += ["--set", "train.max_steps=60", "--set", "search.max_extra_len=2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = map(json.loads, results.read_text().splitlines())
    assert line["bench"] == "translate/million_lines"
    assert (line["lines"], line["lines_out"]) == (3000, 3000)
    assert line["equal_after_kills"] is True
    assert line["peak_mb"] > 50
    assert line["hardware"]
