"""3. The beam tree by keys alone: to the piece before, to what follows, within the step; spoken as it goes."""

from __future__ import annotations

import pytest

from page.known import SENTENCES, Known, fetch


@pytest.fixture
def tree(sit, address, real_run):
    """A page with the tree in focus, and the nodes by number, each with its step."""
    reader = sit()
    reader.go("decoding", step=3)
    reader.write(SENTENCES[4])
    steps = _steps(Known(address, real_run / "model", reader.trace_id))
    reader.page.get_by_role("tree").focus()
    return reader.page, steps


def _steps(known):
    return fetch(known.address, f"traces/{known.id}/steps")


def active(page):
    """The number of the node that the tree says is active, which must be there for a screen reader."""
    item = page.get_by_role("tree").get_attribute("aria-activedescendant")
    assert page.locator(f"[id='{item}']").get_attribute("aria-selected") == "true"
    return int(item.rsplit("-", 1)[1])


def test_arrow_keys_walk_the_tree(tree):
    page, steps = tree
    parents = {node["n"]: node["parent"] for step in steps["search"] for node in step["nodes"]}
    step_of = {node["n"]: step["step"] for step in steps["search"] for node in step["nodes"]}
    assert active(page) == steps["chosen_nodes"][3]
    page.keyboard.press("ArrowLeft")
    assert active(page) == parents[steps["chosen_nodes"][3]]
    page.keyboard.press("ArrowDown")
    below = active(page)
    assert (step_of[below], below != steps["chosen_nodes"][2]) == (2, True)
    page.keyboard.press("ArrowUp")
    assert active(page) == steps["chosen_nodes"][2]
    page.keyboard.press("Home")
    assert step_of[active(page)] == 0
    page.keyboard.press("End")
    assert active(page) == steps["chosen_nodes"][-1]


def test_what_is_reached_is_spoken_with_its_numbers(tree):
    page, steps = tree
    page.keyboard.press("ArrowRight")
    n = active(page)
    node = next(node for step in steps["search"] for node in step["nodes"] if node["n"] == n)
    spoken = page.locator("section:has([role=tree]) > [aria-live=polite]")
    said = spoken.inner_text().replace("\N{MINUS SIGN}", "-")
    assert f"ln p {node['logp']:.2f}" in said
    assert f"score {node['score']:.3f}" in said
    detail = page.locator(f"[data-node='{n}']").first
    values = [float(e.get_attribute("data-value")) for e in detail.locator("[data-value]").all()]
    assert values == [node["logp"], node["total"], node["score"]]


def test_a_step_played_or_slid_moves_the_page(sit):
    reader = sit()
    page = reader.go("decoding", step=0)
    page.get_by_role("slider", name="Step").press("ArrowRight")
    assert page.get_by_text("Row 2 reads").is_visible()
    page.get_by_role("button", name="Next step").click()
    assert page.get_by_text("Row 3 reads").is_visible()
    page.get_by_role("button", name="Previous step").click()
    assert page.get_by_text("Row 2 reads").is_visible()
    page.get_by_role("button", name="Play").click()
    page.get_by_text("Row 4 reads").wait_for(timeout=5000)
    page.get_by_role("button", name="Pause").click()
