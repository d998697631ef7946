"""The forms that need no report, and the way back: by name to the file that does it.

In:  a finished model directory; or a directory that somebody else's software wrote.
Out: a directory in the other form, and notes for its user.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from transduce.errors import ModelError

__all__ = ["FORMS", "export_form", "import_model", "refuse_foreign"]

FORMS = {
    "hf": ("transduce.export.hugging_face", "export_hugging_face"),
    "onnx": ("transduce.export.onnx", "export_onnx"),
}
"""What `--to` takes, and the function that does it: (model, out) → notes for the user."""


_WRITTEN = {
    *("config.json", "generation_config.json", "model.safetensors", "README.md"),
    *("source.spm", "target.spm", "vocab.json", "target_vocab.json", "tokenizer_config.json"),
    *("encoder.onnx", "encoder.onnx.data", "decoder.onnx", "decoder.onnx.data"),
    *("recipe.toml", "card.md", "tokenizer.model", "source.model", "target.model"),
    *("model.bin", "source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"),
    *("vmap.txt", "transduce.json", "tuning.json"),
}


def export_form(model: Path, to: str, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a model in another form; return where it is, and what its user should know.

    Args:
        model: a model directory, or the finished run that holds one.
        to: a name of `FORMS`.
        out: the directory to write, replaced when it is there; by default one named after the
            form, inside the model directory.

    Raises:
        ModelError: the form is unknown or cannot carry this model, or nothing can be written there.
    """
    from transduce.translate.model_directory import ModelDirectory

    if to not in FORMS:
        raise ModelError(f"there is no form {to!r} to export to; there are {', '.join(FORMS)}")
    directory = ModelDirectory(model)
    destination = out or directory.path / to
    if out is not None:
        refuse_foreign(out)
    module, name = FORMS[to]
    function: Callable[[ModelDirectory, Path], list[str]] = getattr(import_module(module), name)
    return destination, function(directory, destination)


def import_model(path: Path, out: Path) -> list[str]:
    """Make the model directory `out` of what somebody else's software wrote; return notes for the user.

    Args:
        path: a Marian directory of Hugging Face, such as OPUS-MT's.
        out: replaced when it is a model directory.

    Raises:
        TransduceError: `path` is no such directory, is damaged, or holds a network that we do not have.
    """
    from transduce.export.hugging_face_import import import_hugging_face

    if not path.is_dir():
        raise ModelError(f"there is no directory {path} to import; give one that holds a config.json")
    refuse_foreign(out)
    return import_hugging_face(path, out)


def refuse_foreign(destination: Path) -> None:
    """Refuse to replace a directory that holds anything that neither export nor import wrote.

    Raises:
        ModelError: it does, or it is a file.
    """
    if destination.exists() and not destination.is_dir():
        raise ModelError(f"{destination} is a file; give --out a directory that is made or replaced")
    if destination.is_dir() and any(file.name not in _WRITTEN for file in destination.iterdir()):
        raise ModelError(f"{destination} is there and holds other things; give --out a new directory")
