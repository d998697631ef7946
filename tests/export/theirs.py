"""`transformers` as its users would use it: load a directory, generate, under our limits."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from transduce.batch.collate import SpecialIds, pad_rows


def load(directory: Path):
    """The model that config.json names, loaded without a missing or unknown weight."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    name = json.loads((directory / "config.json").read_text())["architectures"][0]
    model, found = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
    assert not found["missing_keys"]
    assert not found["unexpected_keys"]
    return model.eval()


def load_tokenizer(directory: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


@torch.no_grad()
def generate(model, sources: list[list[int]], ids: SpecialIds, limit: int, **settings) -> list[list[int]]:
    """`generate` with the directory's own settings, but for those given; ids after the start symbol."""
    rows = pad_rows(sources, ids)
    config = model.generation_config.__class__.from_dict(
        {**model.generation_config.to_dict(), "max_length": limit + 2, **settings}
    )
    if config.num_beams == 1:
        config.early_stopping = config.length_penalty = None
    found = model.generate(
        input_ids=rows, attention_mask=rows.ne(ids.pad_id).long(), generation_config=config
    )
    return [row[1:] for row in found.tolist()]


def before_eos(row: list[int], eos_id: int) -> tuple[list[int], bool]:
    """The ids of a row before its end, and whether it has one."""
    return (row[: row.index(eos_id)], True) if eos_id in row else (row, False)
