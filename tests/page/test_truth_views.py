"""5. The truth of the other views: translation, decoding, shapes, story, positions, training, code, figure."""

from __future__ import annotations

import importlib
import inspect
import json
import math

import pytest
import torch

from page.known import SENTENCES, Known, download, fetch, read_csv, value_of
from page.real_model import D_MODEL, NUM_HEADS, NUM_LAYERS
from page.recompute import Recomputed, positions
from transduce.translate.translator import Translator

CLOSE = {"rel": 1e-5, "abs": 1e-5}
VALUES = "cells => cells.map((cell) => Number(cell.dataset.value))"


@pytest.fixture(scope="module")
def model(real_run):
    return real_run / "model"


def log_probs(known: Known, source: list[int], target: list[int]) -> torch.Tensor:
    """Of each token of `target` after its first, given those before it."""
    numbers = Recomputed(known.model, NUM_HEADS, source, target[:-1])
    return numbers.logits.log_softmax(-1).gather(1, torch.tensor(target[1:])[:, None])[:, 0]


def penalised(total: float, length: int, kind: str, alpha: float) -> float:
    """GNMT divides by ((5 + n) / 6)^α, the power form by n^α, `none` by 1."""
    divisors = {"none": 1.0, "power": length**alpha, "gnmt": ((5 + length) / 6) ** alpha}
    return total / divisors[kind]


def check_translation(page, known, penalty):
    """The confidence is the geometric mean of what plain torch gives each token; the scores are theirs."""
    target = [token["id"] for token in known.trace["tgt"]]
    own = log_probs(known, known.source, target)
    shown = page.locator("section.result [data-value]").first
    assert value_of(shown) == pytest.approx(float(own.mean().exp()), **CLOSE)
    scores = page.locator(".hypotheses [data-value]").evaluate_all(VALUES)
    assert len(scores) == len(known.trace["hypotheses"])
    for score, hypothesis in zip(scores, known.trace["hypotheses"], strict=True):
        ids = [target[0], *hypothesis["ids"], *([target[-1]] if hypothesis["finished"] else [])]
        total = float(log_probs(known, known.source, ids).sum())
        assert score == pytest.approx(penalised(total, len(ids) - 1, **penalty), **CLOSE)


def check_step(page, known, step):
    """Next tokens from the whole vocabulary: probability, its logarithm, entropy and all the others."""
    true = known.numbers.logits[step].log_softmax(-1)
    rows = page.locator("tr[data-token-id]")
    assert rows.count() >= 5
    shown = 0.0
    for row in rows.all():
        probability, logp = row.locator("td[data-value]").evaluate_all(VALUES)
        token = int(row.get_attribute("data-token-id"))
        assert probability == pytest.approx(float(true[token].exp()), **CLOSE)
        assert logp == pytest.approx(float(true[token]), **CLOSE)
        shown += probability
    best = true.topk(rows.count()).indices.tolist()
    assert int(rows.first.get_attribute("data-token-id")) == best[0]
    assert value_of(page.locator("[data-name=rest]")) == pytest.approx(1 - shown, abs=1e-5)
    entropy = -float((true.exp() * true).sum())
    assert value_of(page.locator("[data-name=entropy]")) == pytest.approx(entropy, **CLOSE)


def check_tree(page, known, steps, step):
    """Every node of the search that a step shows: its log-probability, the sum on its way, its score."""
    nodes = {node["n"]: node for part in steps["search"] for node in part["nodes"]}
    start = known.trace["tgt"][0]["id"]
    rows = page.locator("tr[data-node]")
    assert rows.count() == len(steps["search"][step]["nodes"])
    for row in rows.all():
        way, at = [], int(row.get_attribute("data-node"))
        while at >= 0:
            way.append(nodes[at]["token"])
            at = nodes[at]["parent"]
        own = log_probs(known, known.source, [start, *reversed(way)])
        logp, total, score = row.locator("td[data-value]").evaluate_all(VALUES)
        assert logp == pytest.approx(float(own[-1]), **CLOSE)
        assert total == pytest.approx(float(own.sum()), **CLOSE)
        assert score == pytest.approx(penalised(float(own.sum()), len(way), **steps["penalty"]), **CLOSE)


def check_cache(page, known, cache):
    """Shapes and bytes of keys and values: float32, one row a hypothesis for the target, one for the source."""
    own, cross = known.numbers.cache_bytes(cache["length"])
    for name, bytes_of_one, rows in (("self", own, cache["rows"]), ("cross", cross, 1)):
        side = page.locator(f"[data-cache={name}]")
        assert value_of(side.locator(".bytes")) == bytes_of_one * rows
        shapes = side.locator("tr[data-shape]").evaluate_all("rows => rows.map((row) => row.dataset.shape)")
        sizes = [math.prod(map(int, shape.split(","))) for shape in shapes]
        assert 4 * sum(sizes) == bytes_of_one * rows


def check_walk(page, known):
    """Every tensor on the way, by name: its shape, and its least, mean and largest value and first samples."""
    page.evaluate("() => document.querySelectorAll('main details').forEach((d) => { d.open = true })")
    page.wait_for_timeout(200)
    walk = page.locator("li[data-name]").evaluate_all(
        """items => items.map((item) => ({
          name: item.dataset.name, shape: item.dataset.shape.split(',').map(Number),
          figures: [...item.querySelectorAll('[data-figure]')].map((e) => Number(e.dataset.value)),
          sample: [...item.querySelectorAll('.sample [data-value]')].map((e) => Number(e.dataset.value)),
        }))"""
    )
    assert len(walk) > 60, "one layer of each stack, and what lies below and above"
    compared = 0
    for entry in walk:
        true = known.numbers.values.get(entry["name"])
        if true is None:
            assert entry["name"].endswith((".mask", "encoder.output", "memory")), entry["name"]
            continue
        compared += 1
        shape = list(true.shape) if entry["name"].endswith("_position.table") else [1, *true.shape]
        assert entry["shape"] == shape, entry["name"]
        figures = [float(true.min()), float(true.mean()), float(true.max())]
        assert entry["figures"] == pytest.approx(figures, **CLOSE), entry["name"]
        first = true.flatten()[: len(entry["sample"])].tolist()
        assert entry["sample"] == pytest.approx(first, **CLOSE), entry["name"]
    assert compared > 50


def check_story(page, known):
    """The word's row of weights, its id, and how many of the inner neurons fire."""
    shown = page.locator("main [data-value]").evaluate_all(VALUES)
    numbers = known.numbers
    heads = [numbers.heads["enc_self", 0, head].weights for head in range(NUM_HEADS)]
    word = next(i for i in range(len(known.source)) if known.source[i] in shown)
    strongest = [float(weights[word].max()) for weights in heads]
    for value in strongest:
        assert min(abs(value - other) for other in shown) < 1e-5
    awake = int((numbers.values["encoder.layers.0.feed_forward.inner"][word] > 0).sum())
    assert awake in shown


@pytest.mark.parametrize(("index", "text"), list(enumerate(SENTENCES)))
def test_every_view_of_a_sentence_is_the_models(sit, address, model, index, text):
    reader = sit()
    page = reader.go("translate")
    reader.write(text)
    known = Known(address, model, reader.trace_id)
    steps = fetch(address, f"traces/{known.id}/steps?k=10")
    check_translation(page, known, steps["penalty"])
    step = index % len(steps["steps"])
    reader.move("decoding", trace=known.id, step=step)
    page.evaluate("() => document.querySelectorAll('main details').forEach((d) => { d.open = true })")
    reader.settle()
    check_step(page, known, step)
    check_tree(page, known, steps, step)
    check_cache(page, known, steps["search"][step]["cache"])
    reader.move("shapes", trace=known.id, layer=index % NUM_LAYERS)
    check_walk(page, known)
    reader.move("story", trace=known.id, storylayer=0)
    check_story(page, known)


def test_positions_are_the_papers(reader):
    page = reader.go("positions")
    grids = page.get_by_role("button", name="CSV")
    rows = read_csv(download(page, grids.first)[1])
    length = 1 + max(int(row["row"]) for row in rows)
    table = positions(length, D_MODEL)
    values = torch.tensor([float(row["value"]) for row in rows], dtype=torch.float64).view(length, -1)
    torch.testing.assert_close(values, table, rtol=1e-5, atol=1e-5)
    assert float(page.locator("[data-check]").first.get_attribute("data-check")) < 1e-5


def test_training_is_the_runs_log(reader, real_run):
    page = reader.go("training")
    page.locator("main button[aria-expanded=false]").click()
    lines = [json.loads(line) for line in (real_run / "log.jsonl").read_text().split("\n") if line]
    for name in ("loss", "learning_rate", "bleu"):
        true = [
            line[name]
            for line in lines
            if line.get(name) is not None and line.get("event") in ("train", "validate")
        ]
        shown = page.locator(f"td[data-figure={name}]").evaluate_all(VALUES)
        assert shown, name
        assert all(min(abs(value - other) for other in true) < 1e-9 for value in shown), name


def test_code_is_what_runs(reader, address):
    """Each component's text, from the very module that was imported."""
    page = reader.go("code")
    for component in fetch(address, "code")["components"]:
        module = importlib.import_module(component["file"].removesuffix(".py").replace("/", "."))
        source = inspect.getsource(getattr(module, component["name"]))
        reader.move("code", component=component["name"])
        shown = page.locator(f"[data-component='{component['name']}'] pre.code").text_content()
        assert shown.rstrip("\n") == source.rstrip("\n")


def test_the_figure_counts_the_models_parameters(reader, model):
    page = reader.go("architecture")
    network = Translator.load(model).engine.model
    assert value_of(page.locator("[data-value]").first) == sum(p.numel() for p in network.parameters())
    shapes = {name: list(p.shape) for name, p in network.named_parameters()}
    seen = set()
    for box in page.locator("[data-box]").all():
        box.click()
        reader.settle()
        for shape in page.locator(
            "main li[data-shape], main tr[data-shape], main span[data-shape]"
        ).evaluate_all("items => items.map((e) => e.dataset.shape)"):
            seen.add(tuple(map(int, shape.split(","))))
    assert {tuple(shape) for shape in shapes.values()} <= seen
