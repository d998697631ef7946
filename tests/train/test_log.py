"""What a run tells: valid JSON whatever happens, lines that fit a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from transduce.train.log import LiveDisplay, PlainDisplay, RunLog

TRAIN = {
    "step": 123456, "epoch": 123, "loss": 12.3456, "nll": 2.0, "perplexity": 12345.67,
    "learning_rate": 1.234e-3, "grad_norm": 123.456, "tokens_per_second": 123456.0, "padding": 0.052,
    "seconds": 1234.5, "skipped": 12, "flops": 10**15, "memory_mb": 11234, "mfu": 0.7134,
    "done": 0.4812, "eta_seconds": 47123.0,
}  # fmt: skip
VALIDATE = {"step": 123400, "loss": 2.3456, "nll": 2.1, "perplexity": 8.17, "bleu": 34.23, "seconds": 1234.5}


def screen(width, *events, display=LiveDisplay):
    console = Console(width=width, file=io.StringIO(), force_terminal=display is LiveDisplay, record=True)
    shown = display(console)
    for kind, fields in events:
        shown.event(kind, fields)
    shown.close()
    return console.export_text()


def last_frame(text):
    """The three lines as they were drawn last."""
    return [line.rstrip() for line in text[text.rindex("step 123,456") :].rstrip().split("\n")]


class Silent:
    def __init__(self):
        self.messages = []

    def event(self, kind, fields): ...

    def message(self, text):
        self.messages.append(text)

    def close(self): ...


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_lines_say_everything_in_80_columns(width):
    text = screen(width, ("validate", VALIDATE), ("train", TRAIN))
    lines = last_frame(text)
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert lines[0] == ("step 123,456  epoch 123  loss 12.346  ppl 12345.7  gradient 123.46  12 skipped")
    assert lines[1] == "123,456 tokens/s  71% of peak  5% padding  11,234 MB  rate 1.2e-03"
    assert lines[2].endswith("48%  13 h 05 min left  BLEU 34.2")


def test_a_narrow_terminal_cuts_lines_instead_of_wrapping_them():
    lines = last_frame(screen(40, ("validate", VALIDATE), ("train", TRAIN)))
    assert [line[:4] for line in lines] == ["step", "123,", "━━━━"]
    assert all(len(line) <= 40 for line in lines)


def test_what_is_not_known_is_not_shown():
    bare = {name: TRAIN[name] for name in TRAIN if name not in {"mfu", "done", "eta_seconds"}}
    text = screen(80, ("train", bare | {"skipped": 0}))
    assert "peak" not in text
    assert "left" not in text
    assert "skipped" not in text


def test_plain_lines_say_the_same_words():
    stop = {"step": 5, "reason": "x"}
    text = screen(80, ("train", TRAIN), ("validate", VALIDATE), ("stop", stop), display=PlainDisplay)
    assert text == (
        "step 123,456  epoch 123  loss 12.346  ppl 12345.7  gradient 123.46  12 skipped  123,456 tokens/s  "
        "71% of peak  5% padding  11,234 MB  rate 1.2e-03  13 h 05 min left\n"
        "step 123,400  validate: loss 2.346  nll 2.1  perplexity 8.17  bleu 34.23  after 20 min 34 s\n"
        "step 5  stop: reason x\n"
    )


def test_a_validation_without_bleu_shows_its_loss():
    without = {name: value for name, value in VALIDATE.items() if name != "bleu"}
    assert "validation loss 2.346" in screen(80, ("validate", without), ("train", TRAIN))


def test_figures_that_are_not_finite_are_null(tmp_path):
    """`NaN` and `Infinity` are not JSON: other programs stop at them."""
    with RunLog(tmp_path, Silent(), tensorboard=False) as log:
        log.event("train", {"step": 1, "loss": float("nan"), "grad_norm": float("inf"), "reason": "x"})
    line = (tmp_path / "log.jsonl").read_text()
    event = json.loads(line, parse_constant=pytest.fail)
    assert event["loss"] is None
    assert event["grad_norm"] is None
    assert (event["step"], event["reason"]) == (1, "x")


def test_without_tensorboard_the_log_is_whole_and_the_person_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard.writer", raising=False)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    display = Silent()
    with RunLog(tmp_path, display) as log:
        log.event("train", {"step": 1, "loss": 2.0})
    assert json.loads((tmp_path / "log.jsonl").read_text())["loss"] == 2.0
    assert not (tmp_path / "tensorboard").exists()
    assert len(display.messages) == 1
    assert display.messages[0].startswith("TensorBoard is not installed")


def test_tensorboard_shows_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with RunLog(tmp_path, Silent()) as log:
        log.event("train", TRAIN)
        log.event("stop", {"step": 5, "reason": "x"})
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(shown.Tags()["scalars"]) == {f"train/{name}" for name in TRAIN if name != "step"}
    assert shown.Scalars("train/mfu")[0].value == pytest.approx(0.7134)
    assert shown.Scalars("train/mfu")[0].step == 123456
