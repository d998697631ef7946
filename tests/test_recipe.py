"""Recipes: layers, refusals that help, and a round trip."""

from __future__ import annotations

import dataclasses

import pytest

from transduce.errors import ModelError, RecipeError, SearchError, TransduceError
from transduce.recipe import (
    Recipe,
    differences,
    load_recipe,
    preset_names,
    read_recipe,
    search_overrides,
    write_recipe,
)


def test_layers_win_in_order(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text("[train]\nmax_steps = 7\nwarmup_steps = 3\n")
    plain = load_recipe(preset="tiny")
    assert plain.train.max_steps == 8000
    assert plain.model.d_model == 128
    both = load_recipe(preset="tiny", file=file, overrides=["train.warmup_steps=5", "model.norm=pre"])
    assert (both.train.max_steps, both.train.warmup_steps, both.model.norm) == (7, 5, "pre")
    assert both.model.d_model == 128
    # A file by itself stands on the defaults, not on a preset.
    assert load_recipe(file=file).model.d_model == 512
    assert load_recipe().description == load_recipe(preset="small").description


def test_data_is_laid_over_and_empty_values_are_left_out():
    recipe = load_recipe(data={"source": "a.en", "target": "", "repair": True})
    assert (recipe.data.source, recipe.data.target, recipe.data.repair) == ("a.en", "", True)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.d_modl=3", r"unknown key model\.d_modl \(did you mean d_model\?\).*fields of model are"),
        ("modle.d_model=3", r"unknown key modle \(did you mean model\?\); the tables are"),
        ("model.norm=sideways", r"model\.norm: Input should be 'post' or 'pre'"),
        ("train.max_steps=many", r"train\.max_steps: Input should be a valid integer"),
        ("model.num_heads=3", r"d_model \(256\) must be a multiple of num_heads \(3\)"),
        ("search.n_best=9", r"n_best \(9\) is larger than beam_size \(4\)"),
        ("batch.batch_tokens=10", r"batch\.batch_tokens \(10\) is smaller than batch\.max_len"),
        ("max_steps=3", "room.field=value"),
        ("train.max_steps", "room.field=value"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(override, message):
    with pytest.raises(TransduceError, match=message) as caught:
        load_recipe(overrides=[override])
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, RecipeError | ModelError | SearchError)


def test_unknown_preset_names_the_nearest():
    with pytest.raises(
        RecipeError, match=r"no preset 'tyni' \(did you mean tiny\?\); the presets are base, big"
    ):
        load_recipe(preset="tyni")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(RecipeError, match="cannot be read: No such file"):
        read_recipe(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("[train\n")
    with pytest.raises(RecipeError, match="is not TOML"):
        read_recipe(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(RecipeError, match="is not TOML"):
        read_recipe(bad)
    bad.write_text("schema = 9\n")
    with pytest.raises(RecipeError, match="schema 9 is newer"):
        read_recipe(bad)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_comes_back_from_disk(tmp_path, name):
    recipe = load_recipe(preset=name)
    assert recipe.description
    write_recipe(recipe, tmp_path / "recipe.toml")
    assert read_recipe(tmp_path / "recipe.toml") == recipe


def test_toml_keeps_what_yaml_loses():
    """`no` is Norwegian and 1e-4 is a number (STYLE, Config)."""
    recipe = load_recipe(overrides=["data.target_language=no", "train.learning_rate=1e-4"])
    assert recipe.data.target_language == "no"
    assert recipe.train.learning_rate == 1e-4


def test_differences_name_both_values_and_ignore_versions():
    old = load_recipe(preset="tiny")
    new = dataclasses.replace(
        old, train=dataclasses.replace(old.train, max_steps=9), made_with={"torch": "2"}
    )
    assert differences(old, new) == ["train.max_steps: 8000 → 9"]


def test_every_field_says_what_it_is():
    """`train.x` without a docstring under it cannot be explained to anyone (STYLE, Config)."""
    import ast
    import inspect
    import sys

    for hint in [f.type for f in dataclasses.fields(Recipe)]:
        name = str(hint)
        if not name.endswith("Config"):
            continue
        kind = getattr(sys.modules["transduce.recipe"], name)
        body = ast.parse(inspect.getsource(kind)).body[0].body
        for at, node in enumerate(body):
            if isinstance(node, ast.AnnAssign):
                following = body[at + 1] if at + 1 < len(body) else None
                documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                assert documented, f"{name}.{ast.unparse(node.target)} has no docstring"


def test_search_overrides():
    assert search_overrides(["search.beam_size=1", "search.alpha=0.5"]) == {"beam_size": 1, "alpha": 0.5}
    assert search_overrides([]) == {}
    with pytest.raises(RecipeError, match="only search settings"):
        search_overrides(["train.max_steps=1"])
