"""fairseq translates ids with our weights; throughput.py starts it in fairseq's own environment.

    PEERS/fairseq/bin/python benchmarks/translate/run_fairseq.py --model DIR --ids in.json --output out.json

DIR is a model directory of ours (the paper's wiring, post- or pre-norm, one vocabulary, all tied), whose
tensors are given fairseq's names. Positions are looked up in the model's own table, since fairseq's has other
frequencies. Tokenising is done outside and not timed. Prints the JSON line that run_system.py prints.
Needs only what fairseq's environment has: torch and numpy.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator

WARM_UP = 5  # single sentences
BATCH_TOKENS = 4096  # source tokens of a batch, of similar lengths
NAMES = (  # ours, fairseq's
    ("cross_attention_add_norm.norm", "encoder_attn_layer_norm"),
    ("self_attention_add_norm.norm", "self_attn_layer_norm"),
    ("feed_forward_add_norm.norm", "final_layer_norm"),
    ("cross_attention", "encoder_attn"),
    ("self_attention", "self_attn"),
    ("feed_forward.w_1", "fc1"),
    ("feed_forward.w_2", "fc2"),
    (".w_q", ".q_proj"),
    (".w_k", ".k_proj"),
    (".w_v", ".v_proj"),
    (".w_o", ".out_proj"),
    ("coder.norm", "coder.layer_norm"),
)


class Positions(torch.nn.Module):
    """The model's own sinusoids, counted from 0; rows are padded on the right."""

    def __init__(self, d_model: int, offset: int, length: int = 1024) -> None:
        super().__init__()
        angles = torch.arange(offset, offset + length, dtype=torch.float64)[:, None] * torch.exp(
            torch.arange(0, d_model, 2, dtype=torch.float64) * (-np.log(10000.0) / d_model)
        )
        table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)  # sine and cosine in turn
        self.register_buffer("table", table.float())
        self.max_positions = length  # fairseq asks

    def forward(self, tokens, incremental_state=None, **_others):
        """One row, or the newest token's."""
        length = tokens.shape[1]
        chosen = self.table[length - 1 : length] if incremental_state is not None else self.table[:length]
        return chosen.expand(len(tokens), -1, -1)


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    """safetensors, float32 only: a length, a JSON header, the numbers."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", name
        numbers = np.frombuffer(content[8 + size + begin : 8 + size + end], np.float32)
        found[name] = torch.from_numpy(numbers.copy()).view(entry["shape"])
    return found


def build(directory: Path) -> tuple[TransformerModel, Dictionary]:
    """The network with its weights, and a dictionary that has our special ids."""
    config = tomllib.loads((directory / "recipe.toml").read_text(encoding="utf-8"))["model"]
    assert config["tie"] == "all"
    assert config["position"] == "sinusoidal"
    assert config["sinusoid"] == "interleaved"
    words = Dictionary.__new__(Dictionary)
    words.pad_index, words.unk_index, words.bos_index, words.eos_index = 0, 1, 2, 3
    words.pad_word, words.unk_word, words.bos_word, words.eos_word = "<pad>", "<unk>", "<s>", "</s>"
    rest = [f"t{i}" for i in range(4, config["target_vocab_size"])]
    words.symbols = ["<pad>", "<unk>", "<s>", "</s>", *rest]
    words.count, words.nspecial = [1] * len(words.symbols), 4
    words.indices = {symbol: i for i, symbol in enumerate(words.symbols)}
    settings = argparse.Namespace(
        share_all_embeddings=True, dropout=0.0, max_source_positions=1000, max_target_positions=1000
    )
    for side in ("encoder", "decoder"):
        setattr(settings, f"{side}_layers", config[f"num_{side}_layers"])
        setattr(settings, f"{side}_embed_dim", config["d_model"])
        setattr(settings, f"{side}_ffn_embed_dim", config["d_ff"])
        setattr(settings, f"{side}_attention_heads", config["num_heads"])
        setattr(settings, f"{side}_normalize_before", config["norm"] == "pre")
    base_architecture(settings)

    class Task:
        source_dictionary = target_dictionary = words

    model = TransformerModel.build_model(settings, Task())
    # Without a version fairseq takes weights for ones of an age before norms on top of the stacks.
    state = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    for name, tensor in read_tensors(directory / "model.safetensors").items():
        if name.endswith("_embedding.weight") or name == "output.weight":
            for place in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
                state[f"{place}.weight"] = tensor
            continue
        for ours, theirs in NAMES:
            name = name.replace(ours, theirs)
        state[name] = tensor
    missing, unexpected = model.load_state_dict(state, strict=False)
    forgivable = ("version", "_float_tensor")
    assert not unexpected, unexpected
    assert not [name for name in missing if not name.endswith(forgivable)], missing
    for side in (model.encoder, model.decoder):
        side.embed_positions = Positions(config["d_model"], config["position_offset"])
    return model.eval(), words


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ids", type=Path, required=True, help="JSON: source ids, without the end symbol")
    parser.add_argument("--output", type=Path, required=True, help="JSON: the ids found")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [[*row, 3] for row in json.loads(options.ids.read_text(encoding="utf-8"))]
    started = time.perf_counter()
    model, words = build(options.model)
    generator = SequenceGenerator([model], words, beam_size=options.beam_size, max_len_a=1, max_len_b=50)
    loaded = time.perf_counter()

    @torch.inference_mode()
    def translate(chosen: list[list[int]]) -> list[list[int]]:
        lengths = torch.tensor([len(row) for row in chosen])
        source = torch.zeros(len(chosen), int(lengths.max()), dtype=torch.long)
        for i, row in enumerate(chosen):
            source[i, : len(row)] = torch.tensor(row)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        found = generator.generate([model], sample, bos_token=2)
        return [[i for i in hypotheses[0]["tokens"].tolist() if i > 3] for hypotheses in found]

    figures: dict[str, object] = {"load_s": round(loaded - started, 3)}
    found: list[list[int]] = [[] for _ in rows]
    if options.alone:
        times = []
        for i, row in enumerate(rows):
            begun = time.perf_counter()
            (found[i],) = translate([row])
            times.append(time.perf_counter() - begun)
        skip = WARM_UP if len(times) > WARM_UP else 0
        steady = sorted(times[skip:])
        figures["first_ms"] = round(1000 * times[0], 1)
        figures["p50_ms"] = round(1000 * statistics.median(steady), 2)
        figures["p95_ms"] = round(1000 * steady[int(0.95 * (len(steady) - 1))], 2)
        figures["ms_per_token"] = round(1000 * sum(steady) / max(1, sum(map(len, found[skip:]))), 3)
    else:
        order, batch = sorted(range(len(rows)), key=lambda i: -len(rows[i])), []
        for i in [*order, None]:
            if batch and (i is None or len(rows[batch[0]]) * (len(batch) + 1) > BATCH_TOKENS):
                for place, ids in zip(batch, translate([rows[j] for j in batch]), strict=True):
                    found[place] = ids
                batch = []
            if i is not None:
                batch.append(i)
    figures |= {
        "seconds": round(time.perf_counter() - loaded, 3),
        "sentences": len(rows),
        "target_tokens": sum(map(len, found)),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "version": metadata.version("fairseq-fixed"),
    }
    options.output.write_text(json.dumps(found), encoding="utf-8")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
