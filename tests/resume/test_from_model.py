"""A run that begins from a model: what it takes over, that it is exact, and what it refuses."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
from functools import partial

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from test_resume import SETTINGS, contents, events

from digits import digit_pairs
from transduce import pipeline
from transduce.errors import CheckpointError, ModelError, RecipeError
from transduce.finetune import STARTED_FROM, inherit
from transduce.pipeline import train
from transduce.recipe import load_recipe, read_recipe
from transduce.train import update
from transduce.translate.model_directory import ModelDirectory

# Few and short translations: nothing here asks how good they are.
QUICK = [*SETTINGS, "data.holdout_pairs=8", "train.validate_sentences=4", "search.max_extra_len=2"]
TRAINING = [s for s in QUICK if not s.startswith(("model.", "tokenizer."))]
SHORT = ["train.max_steps=1", "train.validate_every=0", "train.validate_sentences=0", "search.beam_size=1"]
HARBOUR = [
    ("the ship is in the harbour", "das schiff ist im hafen"),
    ("one ship sails at seven", "ein schiff fährt um sieben"),
    ("the harbour has nine lamps", "der hafen hat neun lampen"),
]


@pytest.fixture(scope="module")
def new_text(tmp_path_factory, write_pairs):
    """Text on something else, with some words of the old."""
    pairs = [*digit_pairs(200, seed=3), *((f"{i} {a}", f"{i} {b}") for i in range(80) for a, b in HARBOUR)]
    return write_pairs(tmp_path_factory.mktemp("new") / "train", pairs)


def recipe(text, model, run_path, *changes, new_vocabulary=False):
    return load_recipe(
        overrides=[*TRAINING, *changes],
        data={"source": str(text[0]), "target": str(text[1])},
        start={"from_model": str(model), "new_vocabulary": new_vocabulary},
        inherit=partial(inherit, run_path),
    )


def run(text, model, path, *changes, new_vocabulary=False, allow_changes=False):
    """Train as the command does; returns the outcome and what was said."""
    said = Console(file=io.StringIO())
    settings = recipe(text, model, path, *changes, new_vocabulary=new_vocabulary)
    outcome = train(settings, path, said, allow_changes=allow_changes)
    return outcome, said.file.getvalue()


def first_weights(text, model, path, monkeypatch, **how):
    """The weights that the run's first update begins with."""
    seen = {}
    original = update.train_step

    def noting(network, *arguments, **named):
        seen.setdefault("tensors", {name: t.clone() for name, t in network.tensors().items()})
        return original(network, *arguments, **named)

    monkeypatch.setattr(update, "train_step", noting)
    _, said = run(text, model, path, *SHORT, **how)
    monkeypatch.setattr(update, "train_step", original)
    return seen["tensors"], said


def test_the_model_is_taken_over_whole(new_text, digit_run, tmp_path, monkeypatch):
    tensors, said = first_weights(new_text, digit_run, tmp_path / "run", monkeypatch)
    old, new = ModelDirectory(digit_run), ModelDirectory(tmp_path / "run")
    before = load_file(old.weights)
    assert tensors.keys() == before.keys()
    assert all(torch.equal(tensors[name], before[name]) for name in before)
    assert new.tokenizers[0].to_bytes() == old.tokenizers[0].to_bytes()
    assert "vocabulary: the one of the model that training begins from" in said
    assert "vocabulary: the one of" in new.card
    # Form, vocabulary settings and languages come from the model, training settings do not.
    assert new.recipe.model == old.recipe.model
    assert new.recipe.tokenizer == old.recipe.tokenizer
    assert (new.recipe.data.source_language, new.recipe.data.target_language) == ("en", "de")
    assert new.recipe.train.max_steps == 1
    # The run says where it came from; the model, which travels, has the fingerprint only.
    begun = read_recipe(tmp_path / "run" / "recipe.toml")
    assert begun.start.from_model == str(digit_run)
    assert new.recipe.start.from_model == ""
    assert len(new.recipe.made_with[STARTED_FROM]) == 64
    assert str(digit_run) not in (new.path / "recipe.toml").read_text()


@pytest.mark.parametrize("new_vocabulary", [False, True])
def test_a_killed_run_from_a_model_ends_as_if_it_never_was(
    new_text, digit_run, tmp_path, monkeypatch, new_vocabulary
):
    """Killed before the first checkpoint (the model is read again) and after it (it is gone by then)."""
    shutil.copytree(digit_run / "model", tmp_path / "model")
    changes = ["train.max_steps=7", "train.validate_every=3", "train.checkpoint_every=3"]
    how = {"new_vocabulary": new_vocabulary}
    whole, _ = run(new_text, tmp_path / "model", tmp_path / "whole", *changes, **how)
    assert whole.finished
    original = update.train_step
    for killed_at in (2, 5):
        steps = 0

        def dying(*arguments, killed_at=killed_at, **named):
            nonlocal steps
            steps += 1
            if steps == killed_at:
                raise KeyboardInterrupt
            return original(*arguments, **named)

        monkeypatch.setattr(update, "train_step", dying)
        with pytest.raises(KeyboardInterrupt):
            run(new_text, tmp_path / "model", tmp_path / "run", *changes, **how)
    monkeypatch.setattr(update, "train_step", original)
    shutil.rmtree(tmp_path / "model")
    assert run(new_text, tmp_path / "model", tmp_path / "run", *changes, **how)[0].finished
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
    assert events(tmp_path / "run") == events(tmp_path / "whole")
    assert run(new_text, tmp_path / "model", tmp_path / "run", *changes, **how)[0] is None  # finished


def test_the_model_must_be_the_same_until_there_is_a_checkpoint(new_text, digit_run, tmp_path, monkeypatch):
    model, path = tmp_path / "model", tmp_path / "run"
    shutil.copytree(digit_run / "model", model)

    def dying(*arguments, **named):
        raise KeyboardInterrupt

    original = update.train_step
    monkeypatch.setattr(update, "train_step", dying)
    with pytest.raises(KeyboardInterrupt):
        run(new_text, model, path, *SHORT)
    monkeypatch.setattr(update, "train_step", original)
    weights = load_file(model / "model.safetensors")
    weights["source_embedding.weight"][5, 5] += 1
    save_file(weights, model / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"is not the model that .* began with.*new --out"):
        run(new_text, model, path, *SHORT)
    shutil.rmtree(model)
    with pytest.raises(ModelError, match="there is no model directory"):
        run(new_text, model, path, *SHORT)
    shutil.copytree(digit_run / "model", model)
    assert run(new_text, model, path, *SHORT)[0].finished


def small_model(path, text, tie, joint):
    """A model with the given ties, hardly trained."""
    settings = [*QUICK, *SHORT, f"model.tie={tie}", f"tokenizer.joint={str(joint).lower()}"]
    settings += ["model.output_bias=true", "train.learning_rate=0.1"]
    data = {"source": str(text[0]), "target": str(text[1])}
    train(load_recipe(overrides=settings, data=data), path, Console(file=io.StringIO()))


@pytest.mark.parametrize(
    ("tie", "joint"),
    [("none", True), ("none", False), ("target", True), ("target", False), ("all", True)],
)
def test_a_new_vocabulary_keeps_the_embeddings_of_shared_pieces(
    new_text, tmp_path, write_pairs, monkeypatch, tie, joint
):
    old_text = write_pairs(tmp_path / "old", digit_pairs(200))
    small_model(tmp_path / "begin", old_text, tie, joint)
    tensors, said = first_weights(
        new_text, tmp_path / "begin", tmp_path / "run", monkeypatch, new_vocabulary=True
    )
    old, new = ModelDirectory(tmp_path / "begin"), ModelDirectory(tmp_path / "run")
    before = load_file(old.weights)
    assert tensors.keys() == before.keys()
    rows = {"source_embedding.weight": 0, "target_embedding.weight": 1, "output.weight": 1, "output.bias": 1}
    counts = []
    for side in (0, 1):
        tokenizers = old.tokenizers[side], new.tokenizers[side]
        assert tokenizers[0].to_bytes() != tokenizers[1].to_bytes()
        was, now = ([*t.pieces(range(t.vocab_size))] for t in tokenizers)
        shared = set(was) & set(now)
        assert len(shared) < len(now)
        counts.append(f"{len(shared):,} of {len(now):,}")
        for name in (name for name, at in rows.items() if at == side and name in before):
            assert len(tensors[name]) == len(now)
            for piece in shared:
                assert torch.equal(tensors[name][now.index(piece)], before[name][was.index(piece)]), piece
    for name in before.keys() - rows.keys():
        assert torch.equal(tensors[name], before[name])
    kept = f"{counts[0]} pieces" if joint else f"{counts[0]} source and {counts[1]} target pieces"
    assert f"vocabulary: new; kept {kept} of the model that training begins from" in said
    assert (tmp_path / "run" / "text" / "tokenizer.model").exists() is joint


def test_a_new_vocabulary_may_have_another_size_but_the_model_keeps_its_form(new_text, digit_run, tmp_path):
    settings = recipe(new_text, digit_run, tmp_path, "tokenizer.vocab_size=290", new_vocabulary=True)
    assert settings.tokenizer.vocab_size == 290
    assert recipe(new_text, digit_run, tmp_path, "model.dropout=0.3").model.dropout == 0.3
    for change, message in [
        ("model.d_ff=64", r"keeps its form: model\.d_ff is 128 in the model, 64 in the recipe\. Leave"),
        ("model.norm=post", r"model\.norm is \"pre\" in the model, \"post\" in the recipe"),
    ]:
        with pytest.raises(RecipeError, match=message):
            run(new_text, digit_run, tmp_path / "run", change, new_vocabulary=True)
    with pytest.raises(RecipeError, match=r"tokenizer\.vocab_size is 320.*290.*needs --new-vocabulary"):
        run(new_text, digit_run, tmp_path / "run", "tokenizer.vocab_size=290")
    assert not (tmp_path / "run").exists()


def test_a_recipe_file_is_compared_and_a_preset_gives_way(new_text, digit_run, tmp_path):
    file = tmp_path / "r.toml"
    file.write_text(f'[start]\nfrom_model = "{digit_run}"\n[model]\nd_ff = 256\n[train]\nmax_steps = 7\n')
    take = partial(inherit, tmp_path / "run")
    with_file = load_recipe(file=file, inherit=take)
    assert (with_file.model.d_model, with_file.model.d_ff, with_file.train.max_steps) == (64, 256, 7)
    with_preset = load_recipe(preset="tiny", start={"from_model": str(digit_run)}, inherit=take)
    assert with_preset.model.d_model == 64
    assert with_preset.train == load_recipe(preset="tiny").train
    assert load_recipe(file=file).model.d_model == 512  # nothing is read unless asked for


def test_a_new_vocabulary_needs_a_model(new_text, tmp_path):
    with pytest.raises(RecipeError, match="needs a model to start from: give --from MODEL"):
        load_recipe(start={"new_vocabulary": True})


def edited(directory, change):
    """A model directory with a change in its recipe."""
    text = (directory / "recipe.toml").read_text()
    assert change(text) != text
    (directory / "recipe.toml").write_text(change(text))


def with_weights(change):
    def apply(directory):
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors")

    return apply


STRANGE = {
    "numbers that are none": (
        with_weights(lambda w: w["source_embedding.weight"].fill_(float("nan"))),
        "source_embedding.weight holds values that are no finite numbers",
    ),
    "whole numbers": (
        with_weights(lambda w: w.update({"source_embedding.weight": w["source_embedding.weight"].long()})),
        "no finite numbers",
    ),
    "a weight too few": (with_weights(lambda w: w.pop("source_embedding.weight")), "inconsistent: .*missing"),
    "more pieces than the tokenizer": (
        lambda d: edited(d, lambda t: t.replace("_vocab_size = 320", "_vocab_size = 321")),
        "its recipe has 321 source and 321 target pieces, its tokenizer 320 and 320",
    ),
    "a width beyond all memory": (
        lambda d: edited(d, lambda t: t.replace("d_ff = 128", "d_ff = 128000000000000")),
        "inconsistent: weight .* has shape",
    ),
    "layers without end": (
        lambda d: edited(d, lambda t: t.replace("encoder_layers = 1", "encoder_layers = 1000000000")),
        "more layers than its weights",
    ),
    "no safetensors": (
        lambda d: (d / "model.safetensors").write_bytes(b"\x80\x04cposix\nsystem\n"),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_model_is_refused_before_anything_is_written(new_text, digit_run, tmp_path, name):
    change, message = STRANGE[name]
    shutil.copytree(digit_run / "model", tmp_path / "model")
    change(tmp_path / "model")
    with pytest.raises(ModelError, match=message) as refused:
        run(new_text, tmp_path / "model", tmp_path / "run", *SHORT)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_half_precision_weights_are_taken(new_text, digit_run, tmp_path, monkeypatch):
    shutil.copytree(digit_run / "model", tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    half = {name: t.half() for name, t in load_file(file).items()}
    save_file(half, file)
    tensors, _ = first_weights(
        new_text, tmp_path / "model", tmp_path / "run", monkeypatch, new_vocabulary=True
    )
    assert all(t.dtype == torch.float32 for t in tensors.values())
    name = "encoder.layers.0.feed_forward.w_1.weight"
    name = name if name in half else next(n for n in half if "encoder" in n)
    assert torch.equal(tensors[name], half[name].float())


def test_damaged_checkpoints_and_no_model_do_not_begin_anew_in_silence(new_text, digit_run, tmp_path):
    shutil.copytree(digit_run / "model", tmp_path / "model")
    run(new_text, tmp_path / "model", tmp_path / "run", *SHORT)
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.rmtree(tmp_path / "model")
    for file in (tmp_path / "run" / "checkpoints").glob("*/state.json"):
        file.write_text("{}")
    with pytest.raises(ModelError, match="there is no model directory"):
        run(new_text, tmp_path / "model", tmp_path / "run", *SHORT)


def num_pairs(path):
    return json.loads((path / "store" / "train" / "store.json").read_text())["num_pairs"]


def test_changed_text_goes_on_with_the_run_s_vocabulary(tmp_path, write_pairs, new_text, monkeypatch):
    """The text changes after step 5; a kill after that, in tokenising or in training, changes nothing."""
    old_text = write_pairs(tmp_path / "old", digit_pairs(300))
    settings = [*QUICK, "data.holdout_pairs=20"]

    def go(text, path, *changes, **how):
        data = {"source": str(text[0]), "target": str(text[1])}
        said = Console(file=io.StringIO())
        outcome = train(load_recipe(overrides=[*settings, *changes], data=data), path, said, **how)
        return outcome, said.file.getvalue()

    base = tmp_path / "base"
    go(old_text, base, "train.max_steps=5", "train.validate_every=3")
    vocabulary = (base / "text" / "tokenizer.model").read_bytes()
    rest = ("train.max_steps=10", "train.validate_every=3")
    with pytest.raises(RecipeError, match=r"data\.source: '.*old\.en' → .*train\.max_steps.*--allow-changes"):
        go(new_text, base, *rest)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    shutil.copytree(base, whole)
    shutil.copytree(base, killed)

    outcome, said = go(new_text, whole, *rest, allow_changes=True)
    assert outcome.state.step == 10
    assert outcome.state.scores.keys() == {"6", "9", "10"}  # none on the old text
    said = " ".join(said.split())
    assert f"data.source: '{old_text[0]}' → '{new_text[0]}'" in said
    assert f"pairs trained on: {num_pairs(base)} → {num_pairs(whole)}; the vocabulary stays" in said
    assert num_pairs(base) != num_pairs(whole)
    assert (whole / "text" / "tokenizer.model").read_bytes() == vocabulary
    facts = json.loads((whole / "text" / "text.json").read_text())
    assert facts[-1] == "earlier " + json.loads((base / "text" / "text.json").read_text())[0]
    assert facts[-1].startswith("earlier text: kept ")
    assert len([fact for fact in facts if fact.startswith("earlier")]) == 1
    assert "earlier text" in (whole / "model" / "card.md").read_text()

    original_step, original_store = update.train_step, pipeline.prepare.__globals__["_store_validation"]

    def dying(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setitem(pipeline.prepare.__globals__, "_store_validation", dying)
    with pytest.raises(KeyboardInterrupt):
        go(new_text, killed, *rest, allow_changes=True)
    monkeypatch.setitem(pipeline.prepare.__globals__, "_store_validation", original_store)
    steps = 0

    def dying_later(*arguments, **named):
        nonlocal steps
        steps += 1
        return dying() if steps == 3 else original_step(*arguments, **named)

    monkeypatch.setattr(update, "train_step", dying_later)
    with pytest.raises(KeyboardInterrupt):
        go(new_text, killed, *rest, allow_changes=True)
    monkeypatch.setattr(update, "train_step", original_step)
    assert go(new_text, killed, *rest)[0].finished  # the change is written down: the flag is not needed again
    assert go(new_text, killed, *rest)[0] is None  # finished
    assert contents(killed) == contents(whole)
    assert events(killed)[-6:] == events(whole)[-6:]


def test_changed_text_begins_a_new_pass_and_forgets_old_scores():
    from transduce.batch.order import Position
    from transduce.train.checkpoint import RunState

    def state(**values):
        return RunState(step=9, best_score=3.0, best_step=8, num_stale=2, scores={"8": 3.0}, **values)

    half = state(position=Position(4, 7), text="a")
    half.go_on_with("b")
    assert half == RunState(step=9, position=Position(5, 0), text="b")
    between = state(position=Position(4, 0), text="a")
    between.go_on_with("b")
    assert between.position == Position(4, 0)
    assert between.scores == {}
    same = state(position=Position(4, 7), text="a")
    before = dataclasses.replace(same)
    same.go_on_with("a")
    assert same == before
    unknown = state(position=Position(4, 7))  # of a version that did not write it down
    unknown.go_on_with("a")
    assert unknown == dataclasses.replace(before, text="a")


def test_a_vocabulary_cannot_change_under_a_run(new_text, digit_run, tmp_path):
    path = tmp_path / "run"
    run(new_text, digit_run, path, *SHORT)
    before = contents(path)
    with pytest.raises(
        RecipeError, match=r"another model or vocabulary \(tokenizer\.vocab_size: 320 → 300\).*--from .*new-v"
    ):
        run(new_text, digit_run, path, *SHORT, "tokenizer.vocab_size=300", allow_changes=True)
    with pytest.raises(RecipeError, match=r"start\.new_vocabulary: False → True"):
        run(new_text, digit_run, path, *SHORT, new_vocabulary=True, allow_changes=True)
    assert contents(path) == before
    outcome, said = run(
        new_text, digit_run, path, *SHORT[1:], "train.max_steps=2", "model.dropout=0.3",
        "batch.batch_tokens=600", allow_changes=True,
    )  # fmt: skip
    assert outcome.state.step == 2
    said = " ".join(said.split())
    for change in ("model.dropout: 0.0 → 0.3", "batch.batch_tokens: 512 → 600", "train.max_steps: 1 → 2"):
        assert change in said
