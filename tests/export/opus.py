"""Directories in OPUS-MT's form, from random `transformers` configurations and tiny real vocabularies."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path

import sentencepiece
import torch
from directories import sentences

CODE = ">>deu<<"


@functools.cache
def sentencepiece_model(seed: int) -> bytes:
    """One side's model, with SentencePiece's own normaliser, as OPUS-MT trains it."""
    output = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(300, seed=seed)),
        model_writer=output,
        vocab_size=18 + seed,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    return output.getvalue()


def pieces_of(proto: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [
        processor.id_to_piece(i) for i in range(processor.get_piece_size()) if not processor.is_control(i)
    ]


def vocabulary(*protos: bytes) -> dict[str, int]:
    """`</s>` is 0, `<unk>` 1, then the pieces, a language code, and `<pad>` last."""
    names = ["</s>", "<unk>", *sorted({p for proto in protos for p in pieces_of(proto)} - {"<unk>"})]
    return {name: i for i, name in enumerate([*names, CODE, "<pad>"])}


@torch.no_grad()
def make_opus(path: Path, *, seed: int = 0, separate: bool = False, pickled: bool = False, **settings):
    """Write the directory with transformers itself; return its model."""
    import transformers

    path.mkdir(parents=True)
    source, target = sentencepiece_model(0), sentencepiece_model(1)
    (path / "source.spm").write_bytes(source)
    (path / "target.spm").write_bytes(target)
    tables = [vocabulary(source), vocabulary(target)] if separate else [vocabulary(source, target)]
    size = max(map(len, tables))
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        table["<pad>"] = size - 1  # one padding id for both sides
        (path / name).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    (path / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "MarianTokenizer",
                "source_lang": "eng",
                "target_lang": "deu",
                "separate_vocabs": separate,
            }
        )
    )
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        **{
            "vocab_size": size,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "max_position_embeddings": 64,
            "activation_function": "swish",
            "scale_embedding": True,
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "eos_token_id": 0,
            "forced_eos_token_id": None,
            "share_encoder_decoder_embeddings": not separate,
            "init_std": 0.3,
            **settings,
        }
    )
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.final_logits_bias.normal_(std=0.5)
    model.lm_head.weight[0] *= 2  # sentences end
    for name, parameter in model.model.decoder.named_parameters():
        if name.endswith(("out_proj.weight", "fc2.weight")):
            parameter.mul_(4)  # else a random network says its own last word again and again
    model.generation_config = transformers.GenerationConfig(
        num_beams=4,
        length_penalty=1.0,
        early_stopping="never",
        max_length=64,
        decoder_start_token_id=config.decoder_start_token_id,
        pad_token_id=config.pad_token_id,
        eos_token_id=0,
        no_repeat_ngram_size=1,  # random networks repeat themselves, and end when nothing is left
        bad_words_ids=[[config.pad_token_id], [1]],  # `<unk>` as well, which our translator never writes
    )
    model.save_pretrained(path)
    if pickled:
        (path / "model.safetensors").unlink()
        torch.save(model.state_dict(), path / "pytorch_model.bin")
    return model
