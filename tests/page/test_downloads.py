"""11. What is saved: SVG, PNG, CSV and safetensors of the very numbers, and code that is exact."""

from __future__ import annotations

import inspect
import io
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load

import transduce.model.attention
from page.known import Known, download, fetch_bytes, read_csv

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def saved(sit, address, real_run):
    """A head on the page; saves it in a form, and what is known of its sentence."""
    reader = sit()
    page = reader.go("attention", kind="cross", layer=1, head=2)
    known = Known(address, real_run / "model", reader.trace_id)

    def save(form):
        return download(page, page.get_by_role("button", name=form, exact=True).first)

    return save, known


def test_svg_is_a_drawing_with_a_title(saved):
    save, known = saved
    name, content = save("SVG")
    assert name.endswith(".svg")
    root = ET.fromstring(content)
    title = root.find(f"{SVG}title")
    assert "Cross-attention, layer 2, head 3" in title.text
    weights = known.numbers.heads["cross", 1, 2].weights
    assert len(root.findall(f".//{SVG}rect")) >= weights.numel()
    written = {text.text for text in root.findall(f".//{SVG}text")}
    assert {token["text"].strip() for token in known.trace["src"]} <= {text.strip("␣ ") for text in written}


def test_png_is_a_picture_of_it(saved):
    save, _known = saved
    name, content = save("PNG")
    assert name.endswith(".png")
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert min(image.size) > 100
    assert len(image.getcolors(1 << 20)) > 10, "blank"


def test_csv_has_a_line_a_cell(saved):
    save, known = saved
    name, content = save("CSV")
    assert name.endswith(".csv")
    weights = known.numbers.heads["cross", 1, 2].weights
    assert len(read_csv(content)) == weights.numel()


def test_safetensors_are_the_bytes_of_the_api(saved):
    save, known = saved
    name, content = save("safetensors")
    assert name.endswith(".safetensors")
    assert content == fetch_bytes(known.address, f"traces/{known.id}/head?kind=cross&layer=1&head=2")
    tensors = load(content)
    true = known.numbers.heads["cross", 1, 2]
    for part in ("q", "k", "v", "scores", "weights"):
        np.testing.assert_allclose(tensors[part], getattr(true, part).numpy(), rtol=1e-5, atol=1e-5)


def test_the_table_holds_what_the_map_shows(reader, address, real_run):
    page = reader.go("attention", kind="cross", layer=1, head=2)
    reader.write("Turn on the light.")
    known = Known(address, real_run / "model", reader.trace_id)
    page.get_by_role("button", name="Show as a table").first.click()
    weights = known.numbers.heads["cross", 1, 2].weights
    cells = page.locator("main table").first.locator("tbody td").all_inner_texts()
    assert cells == [f"{value:.4f}" for value in weights.flatten().tolist()]


def test_the_copy_button_puts_the_exact_code_on_the_clipboard(sit):
    reader = sit(permissions=["clipboard-read", "clipboard-write"])
    page = reader.go("code", component="MultiHeadAttention")
    page.get_by_role("button", name="Copy").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == inspect.getsource(transduce.model.attention.MultiHeadAttention)
    assert json.dumps(copied)  # every character is text
