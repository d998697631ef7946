"""6. What-ifs change what they say, as in Python; the address brings a view back."""

from __future__ import annotations

import hashlib
import json
import urllib.request

import pytest
import torch

from page.known import SENTENCES, Known, fetch, fetch_bytes
from page.real_model import NUM_HEADS
from page.recompute import Recomputed


def ask(known: Known, change: dict) -> dict:
    """A what-if by the API."""
    request = urllib.request.Request(
        f"{known.address}/api/v1/traces/{known.id}/what-if",
        data=json.dumps(change).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.fixture
def looked(sit, address, real_run):
    reader = sit()
    page = reader.go("attention", kind="cross", layer=1, head=0)
    reader.write(SENTENCES[3])
    return reader, page, Known(address, real_run / "model", reader.trace_id)


class Ablated(Recomputed):
    """The same pass with every head of a layer's cross-attention cut out of the sum."""

    def attend(self, kind, layer, name, x, memory):
        out = super().attend(kind, layer, name, x, memory)
        return x + self.w[f"{name}.w_o.bias"] if (kind, layer) == ("cross", 1) else out


def test_a_layer_switched_off_says_what_python_says(looked):
    """All heads of cross-attention in layer 2: the old translation's probability, token by token."""
    _, page, known = looked
    page.get_by_role("checkbox", name="Keep the translation").check()
    page.get_by_role("button", name="Switch off all heads of layer 2").click()
    page.get_by_role("heading", name="Weights after minus before").wait_for()
    target = [token["id"] for token in known.trace["tgt"]]
    rows = range(len(known.target))
    before = known.numbers.logits.log_softmax(-1)
    after = Ablated(known.model, NUM_HEADS, known.source, known.target).logits.log_softmax(-1)
    shown = page.locator("main table:has(td[data-value])").first.locator("tr:has(td[data-value])")
    for index, true in enumerate((before, after)):
        cells = shown.nth(index).locator("td[data-value]")
        values = [float(v) for v in cells.evaluate_all("cells => cells.map((c) => c.dataset.value)")]
        expected = torch.stack([true[row, target[row + 1]] for row in rows if row + 1 < len(target)])
        torch.testing.assert_close(torch.tensor(values, dtype=torch.float64), expected, rtol=1e-5, atol=1e-5)
    assert (before - after).abs().max() > 0.1, "the layer matters"


def test_changing_nothing_is_bit_equal(looked):
    _, _, known = looked
    same = ask(known, {"ablate": [], "tau": [], "mask": []})
    assert same["translation"] == known.trace["translation"]
    assert same["score"] == known.trace["score"]
    for kind in ("enc_self", "dec_self", "cross"):
        path = f"head?kind={kind}&layer=1&head=2"
        assert fetch_bytes(known.address, f"traces/{same['id']}/{path}") == fetch_bytes(
            known.address, f"traces/{known.id}/{path}"
        )


def test_the_changed_model_can_be_looked_into_and_left_again(looked):
    reader, page, known = looked
    page.get_by_role("button", name="Switch off layer 2, head 1").click()
    page.get_by_role("button", name="Look inside the changed model").click()
    reader.settle()
    changed = fetch(known.address, f"traces/{reader.trace_id}")
    assert changed["parent"] == known.id
    assert changed["interventions"]["ablate"] == [{"kind": "cross", "layer": 1, "head": 0}]
    assert page.get_by_text("The model was changed for this pass.").is_visible()
    page.get_by_role("button", name="Back to the model as it is").click()
    reader.settle()
    assert reader.trace_id == known.id


def picture(page) -> str:
    """A hash of every canvas of the view."""
    drawn = page.evaluate("() => [...document.querySelectorAll('main canvas')].map((c) => c.toDataURL())")
    assert drawn
    return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()


@pytest.mark.parametrize(
    ("view", "params"),
    [
        (
            "attention",
            {"kind": "dec_self", "layer": 1, "head": 3, "tau": 0.35, "causal": "off", "pin": "2.1"},
        ),
        ("attention", {"kind": "cross", "layer": 0, "head": 1, "other": 2, "show": "scores"}),
        ("positions", {}),
        ("story", {}),
    ],
)
def test_an_address_brings_the_same_view_back(sit, view, params):
    """In another browser, the same server: the same pictures."""
    one, two = sit(), sit()
    one.go(view, **params)
    one.page.locator("h1").hover()
    address = f"trace={one.trace_id}"
    here = one.page.url
    assert address in here
    two.page.goto(here)
    two.settle()
    two.page.locator("h1").hover()
    assert picture(two.page) == picture(one.page)


def test_the_text_is_in_the_address_only_when_the_reader_says_so(sit):
    reader = sit()
    page = reader.go("attention")
    reader.write("Turn on the light.")
    assert reader.trace_id
    assert "light" not in page.url
    page.locator("footer input[type=checkbox]").check()
    reader.await_address("text=Turn.on.the.light")
    other = sit(allow=("404",))
    other.page.goto(page.url.replace(f"trace={reader.trace_id}", "trace=gone"))
    other.settle()
    assert other.page.get_by_role("textbox", name="Your sentence").input_value() == "Turn on the light."
