"""5. Decoding at other temperatures and with another word forced; every parameter of the figure."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from page.known import SENTENCES, Known, fetch, value_of

CLOSE = {"rel": 1e-5, "abs": 1e-5}


@pytest.fixture
def look(sit, address, real_run):
    """Write a sentence and open a view on it; the page, and what is known of the sentence."""

    def looked(text, view, **params):
        reader = sit()
        reader.go(view, **params)
        reader.write(text)
        return reader, Known(address, real_run / "model", reader.trace_id)

    return looked


@pytest.mark.parametrize("text", SENTENCES[::4])
def test_next_tokens_are_the_whole_vocabularys(look, text):
    """Probability, log-probability, entropy and the rest, at the model's temperature and at others."""
    reader, known = look(text, "decoding")
    page, logits = reader.page, known.numbers.logits
    for step, tau in ((len(logits) // 2, 1), (len(logits) - 1, 0.5), (0, 2.5)):
        reader.move("decoding", trace=known.id, step=step, tau=tau)
        page.wait_for_selector("[data-check]" if tau == 1 else "p:has-text('softmax(logits /')")
        true = (logits[step] / tau).log_softmax(-1)
        rows = page.locator("tr[data-token-id]").all()
        ids = [int(row.get_attribute("data-token-id")) for row in rows]
        assert ids == logits[step].topk(len(ids)).indices.tolist()
        shown = [[value_of(cell) for cell in row.locator("td[data-value]").all()] for row in rows]
        for token, (probability, log_prob) in zip(ids, shown, strict=True):
            assert probability == pytest.approx(float(true[token].exp()), **CLOSE)
            assert log_prob == pytest.approx(float(true[token]), **CLOSE)
        rest = value_of(page.locator("[data-name=rest]"))
        assert rest == pytest.approx(float(1 - true[ids].exp().sum()), **CLOSE)
        assert sum(probability for probability, _ in shown) + rest == pytest.approx(1)
        entropy = -(true.exp() * true).sum()
        assert value_of(page.locator("[data-name=entropy]")) == pytest.approx(float(entropy), **CLOSE)


def test_each_layers_guess_is_its_vectors_through_the_last_norm(look):
    reader, known = look(SENTENCES[4], "decoding", step=1)
    written = [token["id"] for token in known.trace["tgt"]][2]
    for layer, y in enumerate(known.numbers.stack_output, start=-1):
        true = known.numbers.out(y)[1].log_softmax(-1)
        row = reader.page.locator(f"tr[data-layer='{layer}']")
        cells = row.locator("td[data-token-id]")
        ids = [int(cell.get_attribute("data-token-id")) for cell in cells.all()]
        assert ids == true.topk(len(ids)).indices.tolist()
        shown = [value_of(cell) for cell in cells.locator("[data-value]").all()]
        assert shown == pytest.approx(true[ids].tolist(), **CLOSE)
        assert value_of(row.locator("td.num")) == pytest.approx(float(true[written]), **CLOSE)


def test_another_word_is_forced_and_the_rest_follows(look):
    """The output begins with what was written, then the other piece; old and new stand side by side."""
    reader, known = look(SENTENCES[1], "decoding", step=1)
    page = reader.page
    chosen = f"[data-token-id='{known.target[2]}']"
    other = page.locator(f"tr[data-token-id]:not({chosen})").filter(has=page.get_by_role("button")).first
    token = int(other.get_attribute("data-token-id"))
    other.get_by_role("button").click()
    page.get_by_role("button", name="Look inside this one").click()
    page.wait_for_url(lambda url: "trace=" in url and known.id not in url)
    reader.settle()
    now = fetch(known.address, f"traces/{reader.trace_id}")
    assert [piece["id"] for piece in now["tgt"]][:3] == [*known.target[:2], token]
    assert now["parent"] == known.id


def test_parameters_are_those_of_the_file(sit, real_run):
    """Every box's parameters have the shapes that stand in model.safetensors, and all boxes' are all of them."""
    weights = load_file(real_run / "model" / "model.safetensors")
    page = sit().go("architecture")
    total = page.locator("dl dd[data-value]").last
    assert value_of(total) == sum(tensor.numel() for tensor in weights.values())
    seen = set()
    for box in page.locator("[data-box]").all():
        box.click()
        page.wait_for_selector(".detail h2")
        name = box.get_attribute("data-box")
        stack, _, part = name.partition(".")
        prefix = name if not part or part == "norm" else f"{stack}.layers.0.{part}"
        for row in page.locator(".detail tr:has(th.mono)").all():
            parameter = f"{prefix}.{row.locator('th').inner_text()}"
            if parameter in weights:
                seen.add(parameter)
                assert row.get_attribute("data-shape") == ",".join(map(str, weights[parameter].shape))
    assert seen == {name for name in weights if ".layers." not in name or ".layers.0." in name}
