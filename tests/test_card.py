"""The card says what was reached, when and at what cost, and nothing that was not measured."""

from __future__ import annotations

import json

from transduce.card import training_facts
from transduce.train.checkpoint import RunState

STATE = RunState(
    step=1200,
    seconds=3900.0,
    update_seconds=3600.0,
    num_source_tokens=1_000_000,
    num_target_tokens=2_000_000,
    flops=36 * 10**13,
    peak_flops=2e11,
    energy_joules=360_000.0,
    energy_source="processor",
    peak_memory_mb=1234,
    machines=["AMD EPYC, 2 threads"],
)


def validations(*scores):
    return [
        {"event": "validate", "step": 100 * n, "loss": 5.0 - n, "bleu": score, "seconds": 60.0 * n}
        for n, score in enumerate(scores, 1)
    ]


def test_all_that_was_measured():
    assert training_facts(STATE, validations(31.0, 36.5, 41.2, 39.0)) == [
        "1,200 updates, 3,000,000 source and target tokens, 1 h 05 min (validations: 5 min 00 s)",
        "on AMD EPYC, 2 threads; at most 1,234 MB of memory",
        "3.60e+14 model FLOPs (padding not counted), 100.0 GFLOP/s in updates, "
        "50% of the measured peak of 200.0",
        "100.0 Wh of energy, as the machine's processor told (whatever else ran on it included)",
        "best validation: BLEU (greedy) 41.2 at step 300, after 3 min 00 s",
        "first validation with a BLEU (greedy) of 34 after 2 min 00 s, 36 after 2 min 00 s, "
        "38 after 3 min 00 s, 40 after 3 min 00 s",
    ]


def test_nothing_that_was_not():
    facts = training_facts(RunState(step=3, seconds=2.0, update_seconds=2.0, flops=10**9), [])
    assert facts == [
        "3 updates, 0 source and target tokens, 2 s (validations: 0 s)",
        "1.00e+09 model FLOPs (padding not counted), 0.5 GFLOP/s in updates",
        "energy: the machine does not tell",
    ]


def test_without_translations_the_loss_is_told():
    events = [{k: v for k, v in event.items() if k != "bleu"} for event in validations(1.0, 2.0)]
    assert training_facts(STATE, events)[-1] == "best validation: loss 3 at step 200, after 2 min 00 s"


def test_a_real_card_has_the_facts(digit_run):
    card = (digit_run / "model" / "card.md").read_text(encoding="utf-8")
    assert "model FLOPs (padding not counted)" in card
    assert "best validation: BLEU (greedy) " in card
    stored = [json.loads(line) for line in (digit_run / "log.jsonl").read_text().splitlines()]
    assert f"at step {max((e for e in stored if 'bleu' in e), key=lambda e: e['bleu'])['step']:,}" in card
