"""One random network behind both engines: torch's, and CTranslate2's over an export of it."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from transduce.batch.collate import SpecialIds
from transduce.export.ctranslate2 import Vocabulary, save_ctranslate2
from transduce.model import Transformer, TransformerConfig
from transduce.translate.ctranslate2_engine import CTranslate2Engine
from transduce.translate.exported import Exported, ExportedModel
from transduce.translate.runtime import Runtime
from transduce.translate.torch_engine import TorchEngine

IDS = SpecialIds(0, 2, 3)
UNK = 1
POSITIONS = 128


def vocabulary(size: int) -> Vocabulary:
    return Vocabulary(["<pad>", "<unk>", "<s>", "</s>", *(f"t{i}" for i in range(4, size))], UNK, 2, 3)


def random_model(seed: int, *, vocab: int = 40, eos: float = 2.0, **changes) -> Transformer:
    """A network that is sure of itself, ends its sentences and never wants what is forbidden."""
    torch.manual_seed(seed)
    config = {
        "source_vocab_size": vocab, "target_vocab_size": vocab, "d_model": 32, "d_ff": 64, "num_heads": 4,
        "num_encoder_layers": 2, "num_decoder_layers": 2, "norm": "pre", "tie": "none", "output_bias": True,
        "max_len": POSITIONS,
    }  # fmt: skip
    model = Transformer(TransformerConfig(**{**config, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        model.output.weight.mul_(2.0)
        if model.output.bias is not None:
            model.output.bias.zero_()
            model.output.bias[[IDS.pad_id, UNK, IDS.bos_id]] = -30.0
            model.output.bias[IDS.eos_id] = eos
    return model


def export_to(directory: Path, model: Transformer, **changes) -> ExportedModel:
    directory.mkdir(parents=True)
    config = model.config
    save_ctranslate2(
        directory,
        config,
        {name: tensor.numpy() for name, tensor in model.tensors().items()},
        vocabulary(config.source_vocab_size),
        vocabulary(config.target_vocab_size),
        num_positions=POSITIONS,
        **changes,
    )
    facts = {
        "weights_sha256": "", "weights_bytes": 0, "weights_modified": 0,
        "quantization": changes.get("quantization", "float32"),
        "pad_id": IDS.pad_id, "bos_id": IDS.bos_id, "eos_id": IDS.eos_id, "suppress": (UNK,), "max_len": 60,
        "longest": model.longest if config.position == "learned" else POSITIONS,
        "source_language": "", "target_language": "", "search": {}, "made_with": {},
    }  # fmt: skip
    Exported(**facts).write(directory)
    return ExportedModel(directory)


def both_engines(directory: Path, seed: int = 0, **changes) -> tuple[TorchEngine, CTranslate2Engine]:
    model = random_model(seed, **changes)
    exported = export_to(directory / "ct2", model)
    return TorchEngine(model, IDS, suppress=[UNK]), CTranslate2Engine(exported, Runtime(threads=1))


def random_sources(count: int, seed: int = 0, vocab: int = 40, longest: int = 12) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(4, vocab) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def same_answer(ours, theirs, limit: int) -> bool | None:
    """Whether two engines agree on one sentence: True, False, or None where they may differ at the limit.

    Equal means equal ids, or other ids of equal scores: a tie, which rounding decides.
    """
    if [h.ids for h in ours] == [h.ids for h in theirs] and [h.finished for h in ours] == [
        h.finished for h in theirs
    ]:
        return True
    if any(not h.finished or len(h.ids) >= limit for h in ours):
        return None
    return len(ours) == len(theirs) and all(
        abs(a.score - b.score) < 1e-4 for a, b in zip(ours, theirs, strict=True)
    )
