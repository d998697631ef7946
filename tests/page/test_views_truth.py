"""5. Decoding, Shapes, Architecture, Code and Training show what torch, the files and the log say."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
import torch
from safetensors.torch import load_file

from digits import ROOT
from page.known import SENTENCES, Known, download, fetch, read_csv, value_of
from page.real_model import D_MODEL, NUM_HEADS, NUM_LAYERS
from page.recompute import positions

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


@pytest.mark.parametrize("text", SENTENCES)
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


def test_the_tree_leads_to_the_output_with_its_scores(look):
    """Each piece of the output: its log-probability, the sum so far, and the sum over the length penalty."""
    reader, known = look(SENTENCES[3], "decoding")
    _, content = download(reader.page, reader.page.get_by_role("button", name="CSV").last)
    nodes = {int(row["n"]): row for row in read_csv(content)}
    steps = fetch(known.address, f"traces/{known.id}/steps")
    true = known.numbers.logits.log_softmax(-1)
    written = [token["id"] for token in known.trace["tgt"]][1:]
    path = [nodes[n] for n in steps["chosen_nodes"]]
    assert [int(node["token"]) for node in path] == written
    total, parent = 0.0, -1
    for row, node in enumerate(path):
        total += float(true[row, written[row]])
        length, alpha = row + 1, steps["penalty"]["alpha"]
        penalty = length**alpha if steps["penalty"]["kind"] == "power" else ((5 + length) / 6) ** alpha
        assert int(node["parent"]) == parent
        assert float(node["logp"]) == pytest.approx(float(true[row, written[row]]), abs=1e-4)
        assert float(node["total"]) == pytest.approx(total, abs=1e-4)
        assert float(node["score"]) == pytest.approx(total / penalty, abs=1e-4)
        parent = int(node["n"])


def test_the_cache_weighs_what_its_tensors_weigh(look):
    reader, known = look(SENTENCES[2], "decoding")
    steps = fetch(known.address, f"traces/{known.id}/steps")["search"]
    for step in (0, 2):
        reader.move("decoding", trace=known.id, step=step)
        grown, constant = known.numbers.cache_bytes(step + 1)
        rows = steps[step]["cache"]["rows"]
        own, cross = (reader.page.locator(f"[data-cache={side}]") for side in ("self", "cross"))
        assert value_of(own.locator("[data-value]")) == rows * grown
        assert value_of(cross.locator("[data-value]")) == constant
        shape = [NUM_LAYERS, rows, NUM_HEADS, step + 1, D_MODEL // NUM_HEADS]
        assert own.locator("tr[data-shape]").first.get_attribute("data-shape") == ",".join(map(str, shape))


def test_another_word_is_forced_and_the_rest_follows(look):
    """The output begins with what was written, then the other piece; old and new stand side by side."""
    reader, known = look(SENTENCES[1], "decoding", step=1)
    page = reader.page
    other = page.locator("tr[data-token-id]").nth(1)
    token = int(other.get_attribute("data-token-id"))
    other.get_by_role("button").click()
    page.get_by_role("button", name="Look inside this one").click()
    page.wait_for_url(lambda url: "trace=" in url and known.id not in url)
    reader.settle()
    now = fetch(known.address, f"traces/{reader.trace_id}")
    assert [piece["id"] for piece in now["tgt"]][:3] == [*known.target[:2], token]
    assert now["parent"] == known.id


def _true_tensors(known):
    """What plain torch has for the entries of the walk that it keeps, by name; `[batch, …]`."""
    numbers = known.numbers
    tensors = {
        "source_position.sum": numbers.embed(known.source)[None],
        "target_position.sum": numbers.embed(known.target)[None],
        "source_position.table": positions(len(known.source), D_MODEL),
        "encoder.norm.norm": numbers.memory[None],
        "output.logits": numbers.logits[None],
        "probabilities": numbers.logits.softmax(-1)[None],
    }
    names = {"enc_self": "encoder.layers.{}.self_attention", "dec_self": "decoder.layers.{}.self_attention"}
    names["cross"] = "decoder.layers.{}.cross_attention"
    for kind, name in names.items():
        for layer in range(NUM_LAYERS):
            heads = [numbers.heads[kind, layer, head] for head in range(NUM_HEADS)]
            for part, letter in (("queries", "q"), ("keys", "k"), ("values", "v")):
                tensors[f"{name.format(layer)}.{part}"] = torch.stack([getattr(h, letter) for h in heads])[
                    None
                ]
            for part in ("scores", "weights"):
                tensors[f"{name.format(layer)}.{part}"] = torch.stack([getattr(h, part) for h in heads])[None]
    return tensors


@pytest.mark.parametrize("text", SENTENCES)
def test_shapes_and_values_of_the_walk_are_torchs(look, text):
    reader, known = look(text, "shapes")
    page, true = reader.page, _true_tensors(known)
    rows = {
        row["name"]: row for row in read_csv(download(page, page.get_by_role("button", name="CSV").first)[1])
    }
    assert len(rows) > 100
    for name, tensor in true.items():
        row = rows[name if name in rows else name.removesuffix(".norm")]
        assert row["shape"] == f"[{', '.join(map(str, tensor.shape))}]", name
        for figure in ("min", "mean", "max"):
            assert float(row[figure]) == pytest.approx(
                float(getattr(tensor, figure)()), rel=1e-4, abs=2e-5
            ), name
    reader.move("shapes", trace=known.id, layer=NUM_LAYERS - 1)
    name = f"decoder.layers.{NUM_LAYERS - 1}.cross_attention.scores"
    entry = page.locator(f"li[data-name='{name}']")
    entry.locator("summary").click()
    assert entry.get_attribute("data-shape") == ",".join(map(str, true[name].shape))
    first = true[name].flatten()[:8].tolist()
    assert [value_of(v) for v in entry.locator(".sample [data-value]").all()] == pytest.approx(
        first, rel=1e-4, abs=2e-5
    )


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


def test_the_code_shown_is_the_code_that_runs(sit, address):
    """All components: the text on the page is the lines of the file, and so is its fingerprint."""
    reader = sit()
    page = reader.go("code")
    for part in fetch(address, "code")["components"]:
        page.evaluate("name => { location.hash = `#/code?component=${name}` }", part["name"])
        page.wait_for_selector(f"[data-component='{part['name']}']")
        lines = (ROOT / "src" / part["file"]).read_text(encoding="utf-8").split("\n")
        source = "\n".join(lines[part["first"] - 1 : part["last"]]) + "\n"
        shown = page.locator("pre.code").evaluate("e => e.textContent")
        assert shown.rstrip("\n") == source.rstrip("\n"), part["name"]
        digest = page.locator("[data-sha256]").get_attribute("data-sha256")
        assert digest in {hashlib.sha256(text.encode()).hexdigest() for text in (source, source.rstrip("\n"))}


def test_training_shows_the_runs_log(sit, real_run):
    log = [json.loads(line) for line in (real_run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    page = sit().go("training")
    for step in (event for event in log if event["event"] == "validate"):
        row = page.locator("table").first.locator("tr", has=page.locator(f"th:text-is('{step['step']:,}')"))
        for figure in ("loss", "nll", "perplexity", "bleu"):
            assert value_of(row.locator(f"[data-figure={figure}]")) == step[figure]
    last = [event for event in log if event["event"] == "train"][-1]
    chart = page.locator("[data-chart=nll] [data-kind=train]")
    assert (value_of(chart), int(chart.get_attribute("data-step"))) == (last["nll"], last["step"])
    page.locator("input[type=range]").press("Home")
    first = next(event for event in log if event["event"] == "train")
    assert value_of(page.locator("[data-chart=loss] [data-kind=train]")) == first["loss"]
    _, content = download(page, page.get_by_role("button", name="JSONL"))
    saved = [json.loads(line) for line in content.decode().splitlines()]
    assert [event for event in saved if event["event"] == "validate"] == [
        event for event in log if event["event"] == "validate"
    ]
    assert math.isfinite(saved[-1]["step"])
