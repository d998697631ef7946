"""The recipe: the one file that knows every room's configuration.

A recipe is TOML; its tables are the rooms' frozen dataclasses. Layers, later ones winning:

    defaults  <  preset (recipes/NAME.toml)  <  start.from_model  <  recipe file  <  --set room.field=value

Unknown keys are refused, with the nearest known one. The resolved recipe is saved with every run
and every model, so that both explain themselves. No torch here: reading a recipe costs nothing.
"""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_type_hints

import tomli_w
from pydantic import TypeAdapter, ValidationError

from transduce.batch.config import BatchConfig
from transduce.errors import RecipeError, TransduceError
from transduce.files import write_atomic
from transduce.model.config import TransformerConfig
from transduce.search.config import SearchConfig
from transduce.text.cleaning import CleaningConfig
from transduce.text.tokenizer import TokenizerConfig
from transduce.train.config import TrainConfig

__all__ = [
    "DEFAULT_PRESET",
    "DataConfig",
    "Recipe",
    "StartConfig",
    "differences",
    "load_recipe",
    "preset_names",
    "read_recipe",
    "search_overrides",
    "write_recipe",
]

DEFAULT_PRESET = "small"
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which text a run learns from."""

    source: str = ""
    """File of source sentences; or TSV, JSONL, TMX with both sides. `.gz` and `.zst` are unpacked."""
    target: str = ""
    """File of target sentences, line by line; empty when `source` holds both sides."""
    valid_source: str = ""
    """Source sentences that measure progress; empty: pairs are held out from the training text."""
    valid_target: str = ""
    """Their translations."""
    holdout_pairs: int = 500
    """Pairs held out when no validation files are given (at most a tenth of the text)."""
    source_language: str = ""
    """Such as `en`: names the model, and picks the column of JSONL and TMX."""
    target_language: str = ""
    """Such as `de`: names the model, picks the column, and chooses BLEU's tokenizer."""
    repair: bool = False
    """Replace bytes that are not UTF-8 by U+FFFD instead of stopping."""
    sampling_alpha: float = 0.0
    """Subword sampling: BPE-dropout's share of merges left out, or unigram's smoothing; 0 is off."""
    sampling_copies: int = 8
    """With sampling: differently sampled copies of the text in the store; epochs take turns."""
    sampling_side: Literal["both", "source"] = "both"
    """With sampling: which side has other segmentations; `source` leaves the targets as they are at
    translation time."""
    tokenized: bool = False
    """The text is tokenised already (`it 's .`): BLEU then takes its words as they stand."""


@dataclass(frozen=True, kw_only=True)
class StartConfig:
    """What the weights begin as: drawn anew, or those of a finished model.

    Raises:
        RecipeError: a new vocabulary for no model.
    """

    from_model: str = ""
    """Model directory (or finished run) whose weights, form and vocabulary training begins with;
    empty: weights are drawn anew. Needed until the first checkpoint is written."""
    new_vocabulary: bool = False
    """Learn a vocabulary from the new text; pieces that the model has keep their embeddings, the
    others begin as the mean of the model's pieces that spell them."""

    def __post_init__(self) -> None:
        if self.new_vocabulary and not self.from_model:
            raise RecipeError("start.new_vocabulary needs a model to start from: give --from MODEL")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of one run."""

    schema: int = _SCHEMA
    """Form of this file."""
    description: str = ""
    """What the recipe is for, in a line."""
    data: DataConfig = field(default_factory=DataConfig)
    start: StartConfig = field(default_factory=StartConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    made_with: dict[str, str] = field(default_factory=dict)
    """Versions and fingerprints, written by a run; not settings."""

    def __post_init__(self) -> None:
        if self.model.position == "learned" and self.batch.max_len > self.model.max_len:
            raise RecipeError(
                f"batch.max_len ({self.batch.max_len}) is larger than model.max_len ({self.model.max_len}), "
                f"beyond which there are no learned positions: lower batch.max_len or raise model.max_len"
            )
        model = self.model
        if self.train.r_drop and not (model.dropout or model.attention_dropout or model.activation_dropout):
            raise RecipeError(
                f"train.r_drop ({self.train.r_drop}) compares two passes with different dropout, and there "
                f"is no dropout: set model.dropout, or train.r_drop = 0"
            )
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise RecipeError(
                "model.tie = 'all' shares one embedding between both languages, which needs "
                "tokenizer.joint = true; set model.tie = 'target' for separate vocabularies"
            )


def preset_names() -> list[str]:
    """Names for `--preset`."""
    files = resources.files("transduce").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def load_recipe(
    *,
    preset: str | None = None,
    file: Path | None = None,
    overrides: Sequence[str] = (),
    data: Mapping[str, str | bool] | None = None,
    start: Mapping[str, str | bool] | None = None,
    inherit: Callable[[str], Mapping[str, Any]] | None = None,
) -> Recipe:
    """Put the layers together and check the whole.

    Args:
        preset: a name of `preset_names`; without one and without a file, `small`.
        file: a recipe.
        overrides: `room.field=value`, the value as TOML (a bare word is text).
        data: values for the `data` table; empty ones are left out.
        start: the same for the `start` table.
        inherit: from `start.from_model` to the tables that a model hands on (`finetune.inherit`).

    Raises:
        RecipeError: a name is unknown, a value is wrong, or a file cannot be read.
    """
    layers: list[Mapping[str, Any]] = []
    if preset is not None or file is None:
        layers.append(_read_preset(preset or DEFAULT_PRESET))
    if file is not None:
        layers.append(_read_toml(file))
    for name, table in (("data", data), ("start", start)):
        layers.append({name: {key: value for key, value in (table or {}).items() if value}})
    layers.extend(_override(text) for text in overrides)
    merged = _merged(layers)
    begun = merged["start"]
    model = begun.get("from_model") if isinstance(begun, Mapping) else None
    if inherit is not None and model and isinstance(model, str):
        num_presets = 0 if preset is None and file is not None else 1
        merged = _merged([*layers[:num_presets], inherit(model), *layers[num_presets:]])
    return _checked(merged, str(file or "the recipe"))


def read_recipe(file: Path) -> Recipe:
    """Read a whole recipe, as a run or a model directory holds it.

    Raises:
        RecipeError: the file is missing, no TOML, of a newer schema, or holds unknown keys.
    """
    return _checked(_read_toml(file), str(file))


def write_recipe(recipe: Recipe, file: Path) -> None:
    """Write every setting, defaults too, atomically."""
    write_atomic(file, tomli_w.dumps(_without_unset(asdict(recipe))))


def search_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """`search.beam_size=1` as keyword arguments for one translation.

    Raises:
        RecipeError: not in the form room.field=value, or of another room than `search`.
    """
    merged: dict[str, Any] = {}
    for text in overrides:
        _merge(merged, _override(text))
    if merged.keys() - {"search"}:
        raise RecipeError(
            f"only search settings can be changed here, such as search.beam_size=1; got {text!r}"
        )
    return dict(merged.get("search", {}))


def differences(old: Recipe, new: Recipe) -> list[str]:
    """`train.max_steps: 100 → 200` for each setting that differs; `made_with` is none."""
    before, after = dict(_leaves(asdict(old))), dict(_leaves(asdict(new)))
    return [
        f"{name}: {before.get(name)!r} → {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not name.startswith("made_with.")
    ]


def _without_unset(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without its None values, which TOML does not have."""
    return {
        key: _without_unset(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _read_preset(name: str) -> dict[str, Any]:
    known = preset_names()
    if name not in known:
        raise RecipeError(
            f"there is no preset {name!r}{_nearest(name, known)}; the presets are {', '.join(known)}"
        )
    text = resources.files("transduce").joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise RecipeError(f"the recipe {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file} is not TOML: {error}") from error


def _override(text: str) -> dict[str, Any]:
    """`train.max_steps=100` as a nested table."""
    path, equals, raw = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or len(keys) != 2 or not all(keys):
        raise RecipeError(f"--set takes room.field=value, such as train.max_steps=500; got {text!r}")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw  # a bare word: --set model.norm=pre
    return {keys[0]: {keys[1]: value}}


def _merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All layers as one table, later ones winning."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer)
    return merged


def _merge(base: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Lay `layer` over `base`, table by table."""
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = dict(value) if isinstance(value, Mapping) else value


@functools.cache
def _adapter() -> TypeAdapter[Recipe]:
    """Pydantic's reader of recipes, made once: that takes longer than reading one."""
    return TypeAdapter(Recipe)


def _checked(table: Mapping[str, Any], name: str) -> Recipe:
    """Tables → dataclasses; every problem is told in one line."""
    schema = table.get("schema", _SCHEMA)
    if isinstance(schema, int) and schema > _SCHEMA:
        raise RecipeError(
            f"{name}: schema {schema} is newer than this version reads ({_SCHEMA}): upgrade transduce"
        )
    _refuse_unknown(table, Recipe, name)
    try:
        return _adapter().validate_python(table)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise RecipeError(f"{name}: {problems}") from error
    except TransduceError as error:
        raise RecipeError(f"{name}: {error}") from error


def _refuse_unknown(table: Mapping[str, Any], kind: type, name: str, prefix: str = "") -> None:
    """Name the first key that no dataclass has, and the nearest one that it could have been."""
    known = get_type_hints(kind)
    for key, value in table.items():
        if key not in known:
            names = [f.name for f in fields(kind)]
            raise RecipeError(
                f"{name}: unknown key {prefix}{key}{_nearest(key, names)}; "
                f"{'the tables' if not prefix else f'the fields of {prefix[:-1]}'} are {', '.join(names)}"
            )
        if is_dataclass(known[key]) and isinstance(value, Mapping):
            assert isinstance(known[key], type), "a room's configuration is a class"
            _refuse_unknown(value, known[key], name, f"{prefix}{key}.")


def _nearest(word: str, known: Sequence[str]) -> str:
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""
