"""What the figures of benchmarks/train rest on: the peers' logs, the plain path."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "train"))

import command_line
import in_process
import profile_step
from command_line import (
    CommandLine,
    Interval,
    MeasurementError,
    parse_fairseq,
    parse_opennmt,
    transduce_parser,
)
from corpus import Corpus
from plain import PlainTransformer, plain_loss
from shapes import Shape

from transduce.train.loss import batch_loss

OPENNMT = (
    "[2026-11-29 18:33:49,980 INFO] Step  5/1000000; acc: 3.6; ppl: 6166.6; xent: 8.7; lr: 0.00030; "
    "sents:    1158; bsz: 3156/3412/232; 337/364 tok/s;     47 sec;\n"
)
FAIRSEQ = (
    '2026-11-29 18:56:28 | INFO | train_inner | {"epoch": 1, "update": 0.038, "loss": "11.932", '
    '"nll_loss": "11.723", "ppl": "3381.51", "wps": "79.5", "ups": "0.02", "wpb": "3840.2", "bsz": "334.2", '
    '"num_updates": "5", "lr": "0.0003", "gnorm": "2.89", "clip": "100", "train_wall": "250"}\n'
)


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path, 29_000, num_source_tokens=300, num_target_tokens=100, flops_per_token={})


def test_an_opennmt_line_tells_all_tokens_and_the_end_symbols_it_leaves_out(corpus):
    seconds = 5 * (3156 + 3412) / (337 + 364)
    assert parse_opennmt(OPENNMT, corpus) == Interval(5 * (3156 + 3412) + 1158, seconds, 8.7)
    assert (
        parse_opennmt("[2026-11-29 18:31:41,548 INFO] Start training loop without validation...", corpus)
        is None
    )


def test_a_fairseq_line_counts_targets_and_bits(corpus):
    interval = parse_fairseq(FAIRSEQ, corpus)
    assert interval.tokens == pytest.approx(5 * 3840.2 * 400 / 100)
    assert interval.seconds == pytest.approx(5 * 3840.2 / 79.5)
    assert interval.loss == pytest.approx(11.932 * 0.693147, rel=1e-5)
    assert (
        parse_fairseq("2026-11-29 18:52:18 | INFO | fairseq.trainer | begin training epoch 1", corpus) is None
    )


def test_our_log_is_read_from_line_to_line(corpus):
    parse = transduce_parser()
    line = '{"event": "%s", "step": 5, "loss": 8.5, "tokens_per_second": 1000.0, "seconds": %s}'
    assert parse(line % ("train", 2.0), corpus) == Interval(2000.0, 2.0, 8.5)
    assert parse(line % ("validate", 2.5), corpus) is None
    assert parse(line % ("train", 3.0), corpus) == Interval(1000.0, 1.0, 8.5)


def _system() -> CommandLine:
    return CommandLine("none", lambda *_: [], lambda: parse_opennmt, lambda *_: None)


def test_a_command_is_ended_when_its_log_has_told_of_enough_seconds(corpus, tmp_path):
    code = f"import time; print({OPENNMT!r} * 3, flush=True); time.sleep(600)"
    started = time.monotonic()
    command = [sys.executable, "-c", code]
    intervals, peak_mb = command_line._watch(_system(), command, tmp_path, corpus, seconds=50, skipped=1)
    assert len(intervals) == 2  # of 46.8 seconds each, after one of warm-up
    assert 1 < peak_mb < 1000
    assert time.monotonic() - started < 60


def test_a_command_that_ends_too_early_is_told_with_its_last_words(corpus, tmp_path):
    command = [sys.executable, "-c", "print('no such option')"]
    with pytest.raises(MeasurementError, match="no such option"):
        command_line._watch(_system(), command, tmp_path, corpus, seconds=1, skipped=0)


def test_a_missing_peer_is_told(corpus, tmp_path):
    with pytest.raises(MeasurementError, match="fairseq is not installed in"):
        command_line.measure("fairseq", "small", corpus, tmp_path, seconds=1, warm_up=0, seed=1)


def test_the_plain_path_is_the_same_function_with_the_same_parameters():
    shape = Shape(d_model=8, d_ff=12, num_heads=2, num_layers=2)
    fast = in_process.transduce_model(shape, dropout=0.0).double()
    plain = PlainTransformer(shape, in_process.VOCAB_SIZE, pad_id=0, dropout=0.0).double()
    plain.load_state_dict({name: tensor.double() for name, tensor in fast.tensors().items()})
    source = torch.tensor([[5, 6, 7, 3], [9, 3, 0, 0]])
    target, labels = torch.tensor([[2, 8, 9], [2, 4, 0]]), torch.tensor([[8, 9, 3], [4, 3, 0]])
    sums = batch_loss(fast, source, target, labels, label_smoothing=0.1)
    loss = plain_loss(plain(source, target), labels, pad_id=0, label_smoothing=0.1)
    assert (sums.loss / 5).item() == pytest.approx(loss.item(), rel=1e-5)


def test_a_profile_counts_operations_as_what_they_are():
    kinds = {
        "aten::mm": "products",
        "aten::addmm_": "products",
        "aten::bmm": "attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "attention",
        "aten::exp_": "loss",
        "aten::random_": "dropout",
        "aten::native_layer_norm": "norm",
        "aten::_fused_adamw_": "optimizer",
        "aten::copy_": "copies and zeros",
        "aten::threshold_backward": "sums and activations",
        "aten::empty": "other",
    }
    assert {name: profile_step.kind_of(name) for name in kinds} == kinds


@pytest.mark.parametrize(
    ("key", "shapes"),
    [
        ("aten::mm", [[5, 6], [6, 7]]),
        ("aten::mm", [[5, 6], [6, 7], [5, 7]]),  # written into a tensor that is there
        ("aten::addmm", [[7], [5, 6], [6, 7], [], []]),
        ("aten::addmm_", [[5, 7], [5, 6], [6, 7], [], []]),
        ("mkldnn::_linear_pointwise", [[1, 5, 6], [7, 6], [7], [], [], []]),
    ],
)
def test_the_profile_counts_a_products_flops(key, shapes):
    event = SimpleNamespace(key=key, input_shapes=shapes, count=3)
    assert profile_step.product_flops(event) == 3 * 2 * 5 * 6 * 7
