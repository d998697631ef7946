"""The ten questions of docs/page.md, answered with the page alone, by the clicks that stand there."""

from __future__ import annotations

import math
import re
import sys

import pytest
from safetensors.numpy import load

from digits import ROOT
from page.known import Known, fetch, fetch_bytes, value_of

SENTENCE = "The device could not be reached because it is switched off."


@pytest.fixture
def learner(sit, address, real_run):
    """Somebody who has written a sentence; and what is known of it."""
    reader = sit()
    reader.go("translate")
    reader.write(SENTENCE)
    return reader, Known(address, real_run / "model", reader.trace_id)


def visit(reader, view):
    """By the page's own navigation."""
    reader.page.get_by_role("navigation").get_by_role("link", name=view, exact=True).click()
    reader.settle()
    return reader.page


def choose(page, group, name):
    page.get_by_role("group", name=group, exact=True).get_by_role("radio", name=name, exact=True).check()


def slide(page, name, value):
    page.get_by_role("slider", name=name, exact=True).fill(str(value))


def go_to(page, row, col):
    """From the first cell of the first matrix, by arrow keys; what a screen reader is told there."""
    grid = page.get_by_role("grid").first
    grid.focus()
    page.keyboard.press("Control+Home")
    for key in ["ArrowDown"] * row + ["ArrowRight"] * col:
        page.keyboard.press(key)
    page.wait_for_timeout(400)
    return page.locator("figure [aria-live=polite]").first.inner_text()


def head_of(known, kind, layer, head):
    return known.numbers.heads[kind, layer, head]


def test_1_which_source_word_a_word_looks_at(learner):
    reader, known = learner
    page = visit(reader, "Attention")
    choose(page, "Layer", "2")
    choose(page, "Head", "3")
    reader.settle()
    weights = head_of(known, "cross", 1, 2).weights
    row = 2
    col = int(weights[row].argmax())
    key = known.trace["src"][col]["text"].strip()
    told = go_to(page, row, col)
    assert f"key {key}," in told
    assert f"weight {float(weights[row, col]):.2f}" in told


def test_2_what_a_lower_temperature_does(learner):
    reader, known = learner
    page = visit(reader, "Attention")
    choose(page, "Layer", "1")
    choose(page, "Head", "1")
    reader.settle()
    head = head_of(known, "cross", 0, 0)
    row = 3
    col = int(head.weights[row].argmax())
    before = go_to(page, row, col)
    slide(page, "Temperature τ", 0.2)
    weight = (head.scores[row] / 0.2).softmax(-1)[col]
    after = go_to(page, row, col)
    assert f"weight {float(head.weights[row, col]):.2f}" in before
    assert f"weight {float(weight):.2f}" in after
    assert weight > head.weights[row, col]


def test_3_why_the_first_row_sees_one_cell(learner):
    reader, _ = learner
    page = visit(reader, "Attention")
    choose(page, "Attention", "Decoder self-attention")
    reader.settle()
    assert go_to(page, 0, 0).endswith("weight 1.00")
    assert go_to(page, 0, 1).endswith("hidden: weight 0.00")


def test_4_what_it_would_see_without_the_mask(learner):
    reader, known = learner
    page = visit(reader, "Attention")
    choose(page, "Attention", "Decoder self-attention")
    choose(page, "Layer", "1")
    choose(page, "Head", "1")
    reader.settle()
    page.get_by_role("checkbox", name="Causal mask: no later positions").uncheck()
    scores = head_of(known, "dec_self", 0, 0).scores
    assert go_to(page, 0, 1).endswith(f"weight {float(scores[0].softmax(-1)[1]):.2f}")


def test_5_how_sure_it_was_and_what_else_it_considered(learner):
    reader, known = learner
    page = reader.page
    confidence = page.locator("dd[data-value]").first
    assert value_of(confidence) == pytest.approx(known.trace["confidence"], abs=1e-6)
    others = page.locator(".hypotheses li")
    assert [" ".join(t.split()) for t in others.locator("button").all_inner_texts()] == [
        " ".join(h["text"].split()) for h in known.trace["hypotheses"]
    ]


def test_6_what_it_nearly_wrote(learner, address):
    reader, known = learner
    page = visit(reader, "Decoding")
    steps = fetch(address, f"traces/{known.id}/steps?k=10")["steps"]
    slide(page, "Step", 2)
    reader.settle()
    second = steps[1]["top"][1]
    probabilities = [float(e.get_attribute("data-value")) for e in page.locator("td[data-value]").all()]
    assert any(p == pytest.approx(math.exp(second["logp"]), abs=1e-5) for p in probabilities)
    assert second["text"].strip() in page.get_by_role("table").first.inner_text()


def test_7_what_a_position_adds(learner):
    reader, _ = learner
    page = visit(reader, "Positions")
    slide(page, "Dimension", 4)
    slide(page, "Position", 5)
    shown = page.locator("[role=status][data-value]").first
    width = fetch(reader.address, "model")["config"]["d_model"]
    assert value_of(shown) == pytest.approx(math.sin(5 / 10000 ** (4 / width)), abs=1e-5)


def test_8_by_what_angle_three_positions_turn(learner):
    reader, _ = learner
    page = visit(reader, "Positions")
    slide(page, "Dimension", 4)
    slide(page, "Shift", 3)
    width = fetch(reader.address, "model")["config"]["d_model"]
    turned = page.get_by_text("Angle of a shift by 3").locator("xpath=following-sibling::dd[1]")
    assert value_of(turned) == pytest.approx(3 / 10000 ** (4 / width), abs=1e-5)


def test_9_how_many_units_a_word_wakes(learner, address):
    reader, known = learner
    page = visit(reader, "Story")
    word = known.trace["src"][1]
    page.get_by_role("button", name=word["text"].strip(), exact=False).first.click()
    reader.settle()
    shown = page.get_by_text(re.compile(r"units are awake"))
    name = "encoder.layers.0.feed_forward.inner"
    inner = load(fetch_bytes(address, f"traces/{known.id}/tensors?name={name}"))[name]
    assert value_of(shown) == int((inner[0, 1] > 0).sum())


def test_10_what_it_writes_without_a_head(learner, address):
    reader, _ = learner
    page = visit(reader, "Attention")
    choose(page, "Layer", "1")
    choose(page, "Head", "2")
    reader.settle()
    with page.expect_response(re.compile("what-if")) as answered:
        page.get_by_role("button", name="Switch off layer 1, head 2").click()
    reader.settle()
    after = answered.value.json()["translation"]
    shown = page.get_by_text("After", exact=True).first.locator("xpath=following-sibling::dd[1]")
    assert " ".join(shown.inner_text().split()) == " ".join(after.split())


def test_every_question_of_the_page_has_its_test():
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    questions = re.findall(r"^(\d+)\. [^?]+\?", text, flags=re.MULTILINE)
    tests = [re.match(r"test_(\d+)_", name) for name in vars(sys.modules[__name__])]
    assert sorted(int(n) for n in questions) == sorted(int(m[1]) for m in tests if m) == list(range(1, 11))
