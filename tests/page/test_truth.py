"""5. Every number on the page, for ten sentences, is what plain torch computes from the model's file."""

from __future__ import annotations

import pytest
import torch

from page.known import SENTENCES, Known, download, read_csv, value_of
from page.real_model import NUM_HEADS, NUM_LAYERS
from page.recompute import KINDS
from transduce.translate.translator import Translator

TOLERANCE = {"rel": 1e-5, "abs": 1e-5}


@pytest.fixture(scope="module")
def model(real_run):
    return real_run / "model"


@pytest.fixture
def look(sit, address, model):
    """Write a sentence on a view; the reader, and what is known of the sentence."""

    def looked(text, view="attention", **params):
        reader = sit()
        reader.go(view, **params)
        reader.write(text)
        return reader, Known(address, model, reader.trace_id)

    return looked


def matrix(page, shape):
    """The first heat map, as it is saved: values and which cells are visible."""
    _, content = download(page, page.get_by_role("button", name="CSV").first)
    rows = read_csv(content)
    assert [(int(r["row"]), int(r["column"])) for r in rows] == [
        (row, column) for row in range(shape[0]) for column in range(shape[1])
    ]
    values = torch.tensor([float(r["value"]) for r in rows], dtype=torch.float64).view(shape)
    return values, torch.tensor([r["visible"] == "1" for r in rows]).view(shape)


def assert_close(shown, true, bound=1e-5):
    torch.testing.assert_close(shown, true, rtol=bound, atol=bound)


@pytest.mark.parametrize(("index", "text"), list(enumerate(SENTENCES)))
def test_attention_is_the_models(look, index, text):
    """Whole maps by their files, single cells by what stands beside them; 24 heads over ten sentences."""
    reader, known = look(text)
    page = reader.page
    translator = Translator.load(known.model)
    assert known.trace["translation"] == translator.translate([text])[0].text
    for offset, kind in enumerate(KINDS):
        place = {"layer": (index + offset) % NUM_LAYERS, "head": (index // 2 + offset) % NUM_HEADS}
        true = known.numbers.heads[kind, place["layer"], place["head"]]
        reader.move("attention", trace=known.id, kind=kind, show="", **place)
        weights, visible = matrix(page, tuple(true.weights.shape))
        assert_close(weights, true.weights)
        assert_close(weights.sum(-1), torch.ones(len(weights), dtype=torch.float64))
        assert torch.equal(visible, true.mask)
        assert (weights[~true.mask] == 0).all()
        reader.move("attention", trace=known.id, kind=kind, show="scores", **place)
        assert_close(matrix(page, tuple(true.scores.shape))[0], true.scores)
        row, column = len(weights) - 1, index % weights.shape[1]
        reader.move("attention", trace=known.id, kind=kind, pin=f"{row}.{column}", **place)
        cell = page.get_by_role("region", name="The cell in numbers")
        assert value_of(cell.locator("[data-name=score]")) == pytest.approx(
            float(true.scores[row, column]), **TOLERANCE
        )
        assert value_of(cell.locator("[data-name=weight]")) == pytest.approx(
            float(true.weights[row, column]), **TOLERANCE
        )
        checked = float(page.locator("[data-check]").first.get_attribute("data-check"))
        assert 0 < checked < 1e-5, "the page's own check of the head"


def test_labels_are_the_tokens_of_their_axis(look):
    """Cross-attention is not square: rows are the target's pieces, columns the source's."""
    reader, known = look(SENTENCES[3], kind="cross", layer=1, head=0)
    rows = read_csv(download(reader.page, reader.page.get_by_role("button", name="CSV").first)[1])
    trace = known.trace
    queries = [token["text"].strip() for token in trace["tgt"][: trace["rows"]["decoder"]]]
    keys = [token["text"].strip() for token in trace["src"]]
    assert len(queries) != len(keys)
    assert [r["query"].lstrip("'") for r in rows[:: len(keys)]] == queries
    assert [r["key"].lstrip("'") for r in rows[: len(keys)]] == keys


@pytest.mark.parametrize("kind", KINDS)
def test_the_temperature_sharpens_and_one_is_the_model(look, kind):
    reader, known = look(SENTENCES[2], kind=kind, layer=1, head=1)
    true = known.numbers.heads[kind, 1, 1]
    masked = true.scores.masked_fill(~true.mask, float("-inf"))
    reader.move("attention", trace=known.id, kind=kind, layer=1, head=1, show="scores")
    shown = matrix(reader.page, tuple(true.scores.shape))[0].masked_fill(~true.mask, float("-inf"))
    for tau in (0.01, 0.2, 1, 2.5):
        reader.move("attention", trace=known.id, kind=kind, layer=1, head=1, tau=tau, show="")
        weights, _ = matrix(reader.page, tuple(true.scores.shape))
        assert_close(weights, (shown / tau).softmax(-1))
        # The scores are float32's: what they differ by is divided by τ as well.
        assert_close(weights, (masked / tau).softmax(-1), 1e-5 / min(tau, 1))
        if tau == 0.01:
            first, second = masked.topk(2, dim=-1).values.unbind(-1)
            clear = first - second > 0.06
            assert clear.any()
            assert (weights.max(-1).values[clear] >= 0.99).all()


def test_the_mask_can_be_lifted_and_laid_in_the_page_only(look):
    reader, known = look(SENTENCES[0], kind="dec_self", layer=0, head=0)
    true = known.numbers.heads["dec_self", 0, 0]
    shape = tuple(true.scores.shape)
    reader.move("attention", trace=known.id, kind="dec_self", layer=0, head=0, causal="off")
    weights, visible = matrix(reader.page, shape)
    assert visible.all()
    assert_close(weights, true.scores.softmax(-1))
    reader.move("attention", trace=known.id, kind="dec_self", layer=0, head=0, padding=1)
    weights, visible = matrix(reader.page, shape)
    assert not visible[:, -1].any()
    assert (weights[:, -1] == 0).all()


def test_all_heads_are_the_models_and_their_figures(look):
    """The thumbnails' labels: mean entropy of the rows and mean largest weight, to two decimals."""
    reader, known = look(SENTENCES[4], kind="cross")
    for layer in range(NUM_LAYERS):
        for head in range(NUM_HEADS):
            weights = known.numbers.heads["cross", layer, head].weights
            entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1).mean()
            largest = weights.max(-1).values.mean()
            label = reader.page.locator(f"[data-head='{layer}-{head}']").get_attribute("aria-label")
            assert f"entropy {entropy:.2f}" in label
            assert f"largest weight {largest:.2f}" in label
