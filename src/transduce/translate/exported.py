"""What lies in `MODEL/ct2/`, and whether it still belongs to the model: read without torch or pydantic.

model/
    tokenizer.model     as in every model directory
    ct2/
        model.bin  config.json  *_vocabulary.json   CTranslate2's own
        transduce.json                              what a translator needs to know: this file's part
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import ModelError, SearchError, TransduceError
from transduce.files import file_sha256
from transduce.search.config import SearchConfig

if TYPE_CHECKING:
    from transduce.text.tokenizer import Tokenizer
    from transduce.translate.runtime import Runtime

__all__ = ["EXPORT_DIRECTORY", "WEIGHTS_FILE", "Exported", "ExportedModel", "usable_export"]

_log = logging.getLogger(__name__)

EXPORT_DIRECTORY = "ct2"
_FACTS = "transduce.json"
_SCHEMA = 1
WEIGHTS_FILE = "model.safetensors"
"""Of a model directory."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Facts about one export."""

    weights_sha256: str
    """Of the `model.safetensors` that it was made from."""
    weights_bytes: int
    weights_modified: int
    """That file's size and time of change (ns): while both stand, the hash need not be computed."""
    quantization: str
    pad_id: int
    bos_id: int
    eos_id: int
    suppress: tuple[int, ...]
    """Ids that are never generated: unknown, line breaks."""
    max_len: int
    """Most source tokens of one pass."""
    longest: int
    """Most tokens of a row: what its position table covers; 0 means there is no limit."""
    source_language: str
    target_language: str
    search: dict[str, Any]
    """Fields of `SearchConfig` where a call gives none."""
    shortlist: bool = False
    """Whether a target-vocabulary shortlist (`vmap.txt`) lies with it."""
    made_with: dict[str, str]
    """Versions."""
    schema: int = _SCHEMA

    def write(self, directory: Path) -> None:
        """Write the facts into an export's directory."""
        text = json.dumps(_finite(asdict(self)), indent=2, ensure_ascii=False)
        (directory / _FACTS).write_text(text + "\n", encoding="utf-8")


class ExportedModel:
    """An export on disk."""

    def __init__(self, path: Path) -> None:
        """Read the facts of the export in `path`.

        Raises:
            ModelError: they are missing, damaged or of a newer schema.
        """
        self.path = path
        self.facts = _read_facts(path / _FACTS)

    def search_config(self) -> SearchConfig:
        """The search settings where a call gives none.

        Raises:
            ModelError: the facts hold settings that this version does not know.
        """
        try:
            return SearchConfig(**self.facts.search)
        except (TypeError, SearchError) as error:
            raise ModelError(
                f"{self.path / _FACTS} holds search settings that cannot be read ({error}): export again"
            ) from error

    def vocabularies(self) -> tuple[list[str], list[str]]:
        """The source's and the target's pieces, in the order of their ids.

        Raises:
            ModelError: a file is missing or damaged.
        """
        shared = self.path / "shared_vocabulary.json"
        names = ("shared",) if shared.exists() else ("source", "target")
        files = [self.path / f"{name}_vocabulary.json" for name in names]
        try:
            found: list[list[str]] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        except (OSError, ValueError) as error:
            raise ModelError(f"the export {self.path} cannot be read ({error}): export again") from error
        return found[0], found[-1]

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target tokenizer: of the model directory around it, or its own.

        Raises:
            ModelError: there are none.
        """
        from transduce.text.tokenizer import load_tokenizers

        around = self.path.parent if self.path.name == EXPORT_DIRECTORY else self.path
        try:
            return load_tokenizers(self.path if any(self.path.glob("*.model")) else around)
        except TransduceError as error:
            raise ModelError(f"the export {self.path} cannot be used: {error}") from error

    def refuse_rounded(self, runtime: Runtime | None) -> None:
        """Raise ModelError where float32's answers are asked for and the export computes otherwise."""
        if runtime is None or not runtime.exact:
            return
        held = self.facts.quantization
        form = held if runtime.compute_type == "default" else runtime.compute_type
        if (held, form) != ("float32", "float32"):
            raise ModelError(
                f"--exact asks for float32's answers, but the export {self.path} holds {held} and would "
                f"compute in {form}: take --engine torch, or export again with --quantization float32"
            )

    def is_stale(self) -> bool:
        """Whether the weights beside it have changed since it was made; not if there are none."""
        weights = self.path.parent / WEIGHTS_FILE
        if self.path.name != EXPORT_DIRECTORY or not weights.exists():
            return False
        status = weights.stat()
        if status.st_size != self.facts.weights_bytes:
            return True
        if status.st_mtime_ns == self.facts.weights_modified:
            return False
        return file_sha256(weights) != self.facts.weights_sha256


def usable_export(path: Path, *, needed: bool) -> ExportedModel | None:
    """The export of a model directory, of the run that holds one, or `path` itself.

    Args:
        path: where to look.
        needed: whether to say what is wrong with it; else it is passed over, with a note.

    Raises:
        ModelError: it is needed, and missing or older than the weights; or it cannot be read.
    """
    places = (path / EXPORT_DIRECTORY, path / "model" / EXPORT_DIRECTORY, path)
    found = next((place for place in places if (place / _FACTS).exists()), None)
    if found is None:
        if needed:
            raise ModelError(
                f"{path} has no export for CTranslate2: make one with `transduce export {path} --to ct2`"
            )
        return None
    exported = ExportedModel(found)
    if not exported.is_stale():
        return exported
    what = f"the export {found} was made from other weights than {found.parent / WEIGHTS_FILE}"
    remedy = f"make it again with `transduce export {found.parent} --to ct2`"
    if needed:
        raise ModelError(f"{what}: {remedy}")
    _log.warning("%s and is not used: %s", what, remedy)
    return None


def _read_facts(file: Path) -> Exported:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read ({error}): export the model again") from error
    known = {field.name for field in fields(Exported)}
    if not isinstance(table, Mapping) or table.get("schema") != _SCHEMA:
        raise ModelError(f"{file} is not of schema {_SCHEMA}: export the model again with this version")
    try:
        found = {**table, "suppress": tuple(table["suppress"])}
        return Exported(**{name: value for name, value in found.items() if name in known})
    except (KeyError, TypeError) as error:
        raise ModelError(f"{file} is incomplete ({error}): export the model again") from error


def _finite(table: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity; Python writes and reads `Infinity`, other programs do not."""
    search = {key: value for key, value in table["search"].items() if value != math.inf}
    return {**table, "search": search}
