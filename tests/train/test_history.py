"""When a value was first reached, from the log of a run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from digits import ROOT
from transduce.errors import DataError
from transduce.train.history import read_events, when_reached

EVENTS = [
    {"event": "train", "step": 1, "bleu": 99.0, "loss": 0.1},  # no validation
    {"event": "validate", "step": 2, "bleu": 30.0, "loss": 3.0, "seconds": 60.0},
    {"event": "validate", "step": 4, "bleu": 36.0, "loss": None, "seconds": 120.0},
    {"event": "validate", "step": 6, "bleu": 35.0, "loss": 2.0, "seconds": 180.0},
    {"event": "validate", "step": 8, "bleu": 39.0, "loss": 2.5, "seconds": 3900.0},
    {"event": "stop", "step": 8, "reason": "x"},
]


def test_the_first_time_counts():
    assert when_reached(EVENTS, "bleu", [36, 35.5, 38, 40]) == {36: 120.0, 35.5: 120.0, 38: 3900.0, 40: None}


def test_a_loss_is_reached_from_above():
    assert when_reached(EVENTS, "loss", [3.0, 2.6, 1.0]) == {3.0: 60.0, 2.6: 180.0, 1.0: None}


def test_a_metric_that_no_validation_shows():
    with pytest.raises(DataError, match=r"no validation of the run shows 'blue': there are bleu, loss$"):
        when_reached(EVENTS, "blue", [1])
    with pytest.raises(DataError, match="there was none yet"):
        when_reached(EVENTS[:1], "bleu", [1])


@pytest.fixture
def run(tmp_path):
    lines = [json.dumps(event) for event in EVENTS]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + '\n{"event": "valid')  # a kill cut it short
    return tmp_path


def test_a_log_is_read_back(run):
    assert read_events(run) == EVENTS
    with pytest.raises(DataError, match="give the directory of a run"):
        read_events(run / "absent")


def script(*arguments):
    command = [sys.executable, ROOT / "benchmarks" / "train" / "when_reached.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_script_tells(run):
    assert script(run, "36", "38", "40").stdout == "bleu 36\t2 min 00 s\nbleu 38\t1 h 05 min\nbleu 40\t-\n"
    told = json.loads(script(run, "--json", "--metric", "loss", "2.5").stdout)
    assert told["seconds"] == {"2.5": 180.0}
    failed = script(run / "absent", "36")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr
