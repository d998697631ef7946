"""8. Seen by everybody: contrast, colour-vision deficiency, greyscale, reduced motion, forced colours."""

from __future__ import annotations

import io
import itertools
import math

import pytest
from PIL import Image

from page.reader import THEMES, VIEWS

STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def lab(rgb):
    """CIE L*a*b* (D65), the space in which ΔE is a distance."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb))
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(one, two):
    lighter, darker = sorted((luminance(one), luminance(two)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def pixels(locator):
    """What is seen of an element, in device pixels."""
    return Image.open(io.BytesIO(locator.screenshot())).convert("RGB")


def cell(image, rows, columns, row, column):
    """The colour near a cell's corner, where no number is written."""
    width, height = image.width / columns, image.height / rows
    return image.getpixel((int((column + 0.15) * width), int((row + 0.15) * height)))


WEIGHTS = [[0.0, 0.25, 0.75], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
PLACES = {0.0: (0, 0), 0.25: (0, 1), 0.5: (1, 0), 0.75: (0, 2), 1.0: (2, 0)}


@pytest.fixture
def scale(sit):
    """A tab whose server answers with a map of known weights; returns their colours as they are seen."""
    import numpy as np
    from safetensors.numpy import load, save

    reader = sit()

    def known_map(route):
        answer = route.fetch()
        tensors = load(answer.body())
        rows, columns = tensors["scores"].shape
        weights = np.zeros((rows, columns), np.float32)
        weights[:, 0] = 1
        weights[:3, :3] = WEIGHTS
        tensors["weights"] = weights
        tensors["scores"] = np.log(np.maximum(weights, 1e-30)).astype(np.float32)
        tensors["mask"] = np.ones((rows, columns), np.uint8)
        route.fulfill(body=save(tensors), headers={"content-type": "application/x-safetensors"})

    reader.page.route("**/head?*", known_map)
    page = reader.go("attention", kind="cross", layer=0, head=0)
    page.locator("h1").hover()
    grid = page.get_by_role("grid").first
    size = [int(grid.get_attribute(f"aria-{axis}count")) for axis in ("row", "col")]

    def colours():
        image = pixels(grid.locator("canvas"))
        return [cell(image, *size, *PLACES[step]) for step in STEPS]

    return reader, colours


@pytest.mark.parametrize("theme", THEMES)
def test_more_weight_is_always_brighter(scale, theme):
    reader, colours = scale
    reader.choose(theme=theme)
    seen = [luminance(colour) for colour in colours()]
    assert seen == sorted(seen)
    assert all(b - a > 0.02 for a, b in itertools.pairwise(seen))


@pytest.mark.parametrize("sight", ["none", "deuteranopia", "protanopia", "tritanopia", "achromatopsia"])
def test_steps_of_a_quarter_are_told_apart_by_every_eye(scale, sight):
    """ΔE ≥ 10 between neighbours, as Chromium shows the page to somebody who sees so."""
    reader, colours = scale
    session = reader.context.new_cdp_session(reader.page)
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
    seen = [lab(colour) for colour in colours()]
    distances = [math.dist(a, b) for a, b in itertools.pairwise(seen)]
    assert min(distances) >= 10, distances


@pytest.mark.parametrize("theme", THEMES)
def test_a_hidden_cell_is_no_dark_cell_even_in_grey(reader, theme):
    """Hatched on the paper's colour: neither the colour of weight 0 nor plain."""
    page = reader.go("attention", kind="dec_self", layer=0, head=0)
    reader.choose(theme=theme)
    page.locator("h1").hover()
    grid = page.get_by_role("grid").first
    size = int(grid.get_attribute("aria-rowcount"))
    grey = pixels(grid.locator("canvas")).convert("L")
    step = grey.width / size
    box = [round(v) for v in ((size - 1) * step + 2, 2, size * step - 2, step - 2)]
    hidden = list(grey.crop(box).tobytes())
    assert max(hidden) - min(hidden) >= 40, "no hatching"
    zero = luminance((0, 34, 78))  # where cividis begins
    assert contrast([sorted(hidden)[len(hidden) // 2]] * 3, (0, 34, 78)) >= (
        3 if theme == "light" else 1.1
    ), zero


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_edges_stand_out(reader, theme):
    """WCAG: 4.5 for text, 3 for what shows a control or the focus."""
    page = reader.go("translate")
    reader.choose(theme=theme)
    tokens = page.evaluate(
        """() => Object.fromEntries(['paper', 'raised', 'ink', 'muted', 'accent', 'edge', 'focus', 'on-accent'].map((name) => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.style.color = `var(--${name})`;
          const colour = getComputedStyle(probe).color;
          probe.remove();
          return [name, colour.match(/[\\d.]+/g).slice(0, 3).map(Number)];
        }))"""
    )
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "raised"):
            assert contrast(tokens[text], tokens[ground]) >= 4.5, (text, ground)
    assert contrast(tokens["on-accent"], tokens["accent"]) >= 4.5
    for edge in ("edge", "focus"):
        assert contrast(tokens[edge], tokens["paper"]) >= 3, edge


def test_who_wants_no_motion_gets_none(sit):
    reader = sit(reduced_motion="reduce")
    page = reader.go("translate")
    for view in VIEWS:
        reader.move(view)
        moving = page.evaluate(
            "() => [...document.querySelectorAll('*')].filter((e) => {"
            " const style = getComputedStyle(e);"
            " return style.animationName !== 'none' || style.transitionDuration.split(', ').some((d) => parseFloat(d) > 0)"
            "}).map((e) => e.outerHTML.slice(0, 100))"
        )
        assert moving == [], view
        assert page.evaluate("document.getAnimations().length") == 0, view


def test_forced_colours_keep_what_is_chosen_and_where_the_focus_is(sit):
    reader = sit(forced_colors="active")
    page = reader.go("attention", kind="cross", layer=0, head=0)
    chosen, other = page.evaluate(
        """() => [':checked', ':not(:checked)'].map((state) => {
          const label = document.querySelector(`main input[type=radio]${state} + span`);
          return getComputedStyle(label).borderBottomColor;
        })"""
    )
    assert chosen != other, "the chosen one looks like the others"
    assert "forced-colors" in page.evaluate(
        "() => [...document.styleSheets].flatMap((s) => [...s.cssRules]).map((r) => r.conditionText ?? '').join()"
    )
    grid = page.get_by_role("grid").first
    grid.focus()
    page.keyboard.press("ArrowRight")
    assert float(grid.evaluate("e => parseFloat(getComputedStyle(e).outlineWidth)")) >= 1.5
    assert len(pixels(grid.locator("canvas")).resize((16, 16)).getcolors(256)) > 3, "the map is not drawn"
