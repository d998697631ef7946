"""Vocabularies as the files of `MarianTokenizer`: source.spm, target.spm, vocab.json; written and read.

MarianTokenizer cuts text with SentencePiece and looks the pieces up in vocab.json; our ids are
SentencePiece's own, so vocab.json is their list. It does not bring text to Unicode form C first, and it
reads `</s>` in a text as the end symbol: for text without either, the ids are the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import TokenizerError
from transduce.text.mapped_tokenizer import MappedTokenizer
from transduce.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transduce.translate.model_directory import ModelDirectory

__all__ = ["read_tokenizer_config", "read_tokenizers", "write_tokenizer_files"]


def write_tokenizer_files(directory: ModelDirectory, place: Path) -> list[str]:
    """Write what `AutoTokenizer` needs; return what its user should know."""
    source, target = directory.tokenizers
    separate = _vocabulary(source) != _vocabulary(target)
    (place / "source.spm").write_bytes(source.sentencepiece_model())
    (place / "target.spm").write_bytes(target.sentencepiece_model())
    _write(place / "vocab.json", _vocabulary(source))
    if separate:
        _write(place / "target_vocab.json", _vocabulary(target))
    data, pieces = directory.recipe.data, source.pieces(range(source.vocab_size))
    config: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "source_lang": data.source_language or None,
        "target_lang": data.target_language or None,
        "pad_token": pieces[source.pad_id],
        "unk_token": pieces[source.unk_id],
        "eos_token": pieces[source.eos_id],
        "model_max_length": directory.recipe.batch.max_len,
    }
    _write(place / "tokenizer_config.json", config)
    if source.normalization == "nfc" or source.to_bytes() != source.sentencepiece_model():
        return []
    return ["MarianTokenizer does not bring text to Unicode form KC, as this model does: do so before"]


def read_tokenizers(
    path: Path, *, sizes: tuple[int, int], pad: int, eos: int, bos: int
) -> tuple[MappedTokenizer, MappedTokenizer]:
    """Read the vocabularies of both sides.

    Args:
        path: the directory.
        sizes: how many ids the network has on each side.
        pad: the network's padding id.
        eos: its end symbol.
        bos: what its decoder starts from.

    Raises:
        TokenizerError: a file is missing or damaged, or does not belong to the network.
    """
    config = read_tokenizer_config(path)
    names = ["vocab.json", "target_vocab.json" if config.get("separate_vocabs") else "vocab.json"]
    unknown, end = _special(config, "unk_token", "<unk>"), _special(config, "eos_token", "</s>")
    found = []
    for side, name, size in zip(("source.spm", "target.spm"), names, sizes, strict=True):
        ids, file = _read_json(path / name), path / name
        if unknown not in ids:
            raise TokenizerError(f"{file} has no {unknown!r}, which stands for what it does not know")
        if ids.get(end) != eos:
            raise TokenizerError(
                f"{file} gives {end!r} the id {ids.get(end)}, but config.json's eos_token_id is {eos}: "
                f"are the files of one model?"
            )
        specials = {"pad": pad, "unk": ids[unknown], "bos": bos, "eos": eos}
        proto = _read_bytes(path / side)
        found.append(MappedTokenizer.build(proto, ids, size=size, name=str(file), **specials))
    return found[0], found[1]


def _special(config: dict[str, Any], name: str, usual: str) -> str:
    """A special piece's name: a word, or a table whose `content` it is."""
    value = config.get(name) or usual
    return str(value.get("content", usual) if isinstance(value, dict) else value)


def read_tokenizer_config(path: Path) -> dict[str, Any]:
    """tokenizer_config.json, empty when it is missing.

    Raises:
        TokenizerError: it cannot be read.
    """
    file = path / "tokenizer_config.json"
    return _read_json(file) if file.exists() else {}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read_bytes(file))
    except ValueError as error:
        raise TokenizerError(f"{file} is not JSON ({error}): copy it again") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{file} holds no table of names, but {type(content).__name__}: copy it again")
    return content


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TokenizerError(
            f"{file} cannot be read ({error.strerror}); expected a directory as OPUS-MT's, with source.spm, "
            f"target.spm and vocab.json"
        ) from error


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    """vocab.json: piece → id."""
    return {piece: i for i, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))) if piece}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
