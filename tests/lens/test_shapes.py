"""The walk: what hooks saw, in the order of the pass, each with its letters, formula, weights and lines."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import transduce.model.attention
from lens.by_hand import ByHand
from lens.lens_models import FAMILIES, SENTENCE, make_lens, name_of
from transduce.lens.formulas import FORMULAS
from transduce.lens.module_tree import configuration, module_tree
from transduce.lens.shapes import AXES


def seen_by_hooks(model, trace) -> dict[str, torch.Tensor]:
    """Every module's output in one plain pass, by the module's name."""
    seen: dict[str, torch.Tensor] = {}
    handles = [
        module.register_forward_hook(lambda m, a, out, name=name: seen.setdefault(name, out))
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, nn.LayerNorm))
    ]
    with torch.inference_mode():
        model(trace.done.source[None], trace.done.target[None])
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_every_entry_has_the_shape_and_figures_of_the_real_tensor(tokenizer, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE)
    model = trace.lens.translator.engine.model
    walk, seen = trace.shapes(), seen_by_hooks(model, trace)
    entries = {entry.name: entry for entry in walk.entries}
    assert len(entries) == len(walk.entries)
    names = {
        name.replace(".w_2", ".output").replace("attention.w_o", "attention.output"): out
        for name, out in seen.items()
    }
    assert names.keys() <= entries.keys()
    for name, out in names.items():
        entry = entries[name]
        assert entry.shape == tuple(out.shape)
        assert entry.mean == pytest.approx(float(out.mean()), abs=1e-5)
        assert (entry.min, entry.max) == pytest.approx((float(out.min()), float(out.max())), abs=1e-5)
        assert list(entry.sample) == pytest.approx(out.flatten()[:8].tolist(), abs=1e-5)


def test_letters_stand_for_the_sizes(trace):
    walk = trace.shapes()
    for entry in walk.entries:
        assert len(entry.symbolic) == len(entry.shape)
        for letter, size in zip(entry.symbolic, entry.shape, strict=True):
            assert letter in AXES
            assert size == (1 if letter == "1" else walk.sizes[letter])
        assert entry.formula in FORMULAS
    assert [entry.n for entry in walk.entries] == list(range(len(walk.entries)))


def test_heads_scores_and_weights_are_the_models(trace):
    hand = ByHand(trace.lens.translator.engine.model)
    logits = hand.run(trace.done.source.tolist(), trace.done.target.tolist())
    entries = {entry.name: entry for entry in trace.shapes().entries}
    for part, expected in (("queries", "q"), ("scores", "scores"), ("weights", "weights")):
        entry = entries[f"decoder.layers.1.cross_attention.{part}"]
        tensor = hand.found[f"decoder.1.cross.{expected}"]
        assert entry.shape == (1, *tensor.shape)
        assert list(entry.sample) == pytest.approx(tensor.flatten()[:8].tolist(), abs=1e-5)
    mask = entries["decoder.layers.0.self_attention.mask"]
    assert mask.dtype == "bool"
    assert mask.mean == pytest.approx((trace.num_rows + 1) / 2 / trace.num_rows)
    scaled, rows = entries["source_embedding.scaled"], entries["source_embedding.rows"]
    assert scaled.max == pytest.approx(rows.max * trace.lens.config.d_model**0.5, rel=1e-5)
    assert entries["output.logits"].max == pytest.approx(float(logits.max()), abs=1e-5)
    assert entries["probabilities"].mean == pytest.approx(1 / logits.shape[1], rel=1e-5)


def test_the_order_is_that_of_the_pass(trace):
    names = [entry.name for entry in trace.shapes().entries]
    order = [
        "source_embedding.ids", "source_embedding.scaled", "source_position.sum",
        "encoder.layers.0.self_attention.queries", "encoder.layers.0.self_attention.scores",
        "encoder.layers.0.self_attention.mask", "encoder.layers.0.self_attention.weights",
        "encoder.layers.0.self_attention.heads", "encoder.layers.0.self_attention.concat",
        "encoder.layers.0.self_attention.output", "encoder.layers.0.self_attention_add_norm.residual",
        "encoder.layers.0.feed_forward.inner", "encoder.layers.0.feed_forward.output",
        "encoder.layers.1.self_attention.queries", "encoder.norm", "target_embedding.ids",
        "decoder.layers.1.cross_attention.w_k", "decoder.layers.0.self_attention.scores",
        "decoder.layers.0.cross_attention.scores", "decoder.norm", "output.logits", "probabilities",
    ]  # fmt: skip
    assert [name for name in names if name in order] == order


def test_lines_are_those_of_the_class_that_ran(trace):
    entries = {entry.name: entry for entry in trace.shapes().entries}
    entry = entries["encoder.layers.0.self_attention.weights"]
    function = transduce.model.attention.explicit_attention
    assert entry.component == "explicit_attention"
    assert entry.source.text == inspect.getsource(function)
    assert entry.source.file == "transduce/model/attention.py"
    assert entry.source.first == inspect.getsourcelines(function)[1]
    linear = entries["encoder.layers.0.self_attention.w_q"]
    config = trace.lens.config
    assert linear.parameters == (
        ("encoder.layers.0.self_attention.w_q.weight", (config.d_model, config.d_model)),
        ("encoder.layers.0.self_attention.w_q.bias", (config.d_model,)),
    )


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_the_tree_counts_every_parameter_once(tokenizer, changes):
    lens = make_lens(tokenizer, **changes)
    model, tree = lens.body, module_tree(lens.body)
    found: list[int] = []

    def visit(part):
        for parameter in part["parameters"]:
            if parameter["tied_to"] is None:
                found.append(torch.Size(parameter["shape"]).numel())
        for child in part["children"]:
            visit(child)

    visit(tree)
    assert sum(found) == tree["num_parameters"] == model.num_parameters
    assert configuration(model)["d_k"] == model.config.key_width


def test_attention_that_nobody_may_look_through_has_no_mask_entry_problem(tokenizer):
    """One source token: the mask is 1 × 1, and still has its letters."""
    trace = make_lens(tokenizer).trace("x", target="x")
    entry = next(e for e in trace.shapes().entries if e.name == "encoder.layers.0.self_attention.mask")
    assert_close(float(entry.mean), 1.0)
