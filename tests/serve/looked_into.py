"""A model directory with weights of its own, in a run's directory with a log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from lens.lens_models import make_network
from transduce.recipe import load_recipe
from transduce.translate.model_directory import write_model_directory
from translate.random_translators import make_tokenizer

EVENTS = [
    {"event": "train", "step": 20, "loss": 5.5, "learning_rate": 1e-3},
    {"event": "validate", "step": 20, "loss": 5.0, "bleu": 1.5},
    {"event": "train", "step": 40, "loss": 4.5, "learning_rate": None, "trace": ["not told"]},
]


def write_run(run: Path, *, seed: int = 0, **changes) -> Path:
    """Write the run; return its model directory."""
    (run / "text").mkdir(parents=True)
    tokenizer = make_tokenizer(run / "text")
    (run / "text" / "bpe.model").rename(run / "text" / "tokenizer.model")
    model = make_network(tokenizer, seed=seed, tie="none", output_bias=True, **changes)
    recipe = load_recipe()
    search = replace(recipe.search, beam_size=3, min_len=3, max_extra_len=5, max_len_ratio=0.5)
    recipe = replace(recipe, model=model.config, search=search)
    write_model_directory(run / "model", recipe, run / "text", model.tensors(), "# card\n")
    write_log(run, EVENTS)
    return run / "model"


def write_log(run: Path, events: list[dict], tail: str = "") -> None:
    """Whole lines, and what of a last one has been written."""
    (run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + tail)
