"""One system translates one file in this process; throughput.py starts it, again and again.

    python benchmarks/translate/run_system.py --system ctranslate2-best --model DIR --source FILE --output OUT

Prints one JSON line: seconds to import and load, seconds of translating (tokenising and joining included),
latency of single sentences with --alone, target tokens, peak memory. The translations go to --output.

    transduce-torch[-int8[-exact]]          our engine over the model directory
    transduce-ct2                           our engine over the export (DIR is the export)
    ctranslate2-default, ctranslate2-best   the same export, called from Python as its documentation
                                            shows, and with the settings that were fastest here
    transformers                            `generate` over the Hugging Face export, in sorted batches
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["SYSTEMS"]

Translate = Callable[[Sequence[str]], tuple[list[str], int]]
"""Sentences in; translations and the number of target tokens out."""

_HF_BATCH = 32
_WARM_UP = 5  # single sentences


def _transduce(options: argparse.Namespace) -> Translate:
    from transduce.translate.runtime import Runtime
    from transduce.translate.translator import Translator

    _, kind, *rest = options.system.split("-")
    runtime = Runtime(
        threads=options.threads, compute_type=rest[0] if rest else "default", exact="exact" in rest
    )
    engine = "torch" if kind == "torch" else "ctranslate2"
    translator = Translator.load(options.model, engine=engine, runtime=runtime)

    def translate(texts: Sequence[str]) -> tuple[list[str], int]:
        results = translator.translate(texts, **_search(options))
        return [r.text for r in results], sum(len(r.tokens) for r in results)

    return translate


def _search(options: argparse.Namespace) -> dict[str, object]:
    """What all systems do: len^1, stop after as many endings as the beam is wide, give text and no more."""
    shared = {"beam_size": options.beam_size, "length_penalty": "power", "alpha": 1.0, "patience": 1.0}
    return {**shared, "details": False}


def _ctranslate2(options: argparse.Namespace) -> Translate:
    import ctranslate2
    import sentencepiece

    best = options.system.endswith("best")
    workers = {"inter_threads": options.threads, "intra_threads": 1} if best else {}
    if best and options.alone:
        workers = {"inter_threads": 1, "intra_threads": options.lone_threads}
    translator = ctranslate2.Translator(str(options.model), **workers)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(options.tokenizer))
    batches = {"max_batch_size": 1024, "batch_type": "tokens"} if best and not options.alone else {}

    def translate(texts: Sequence[str]) -> tuple[list[str], int]:
        tokens = pieces.encode(list(texts), out_type=str)
        results = translator.translate_batch(
            tokens, beam_size=options.beam_size, max_decoding_length=256, **batches
        )
        found = [result.hypotheses[0] for result in results]
        return [pieces.decode(hypothesis) for hypothesis in found], sum(map(len, found))

    return translate


def _transformers(options: argparse.Namespace) -> Translate:
    import sentencepiece
    import torch
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(options.threads)
    model = AutoModelForSeq2SeqLM.from_pretrained(options.model).eval()
    config = model.generation_config
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(options.tokenizer))
    special = {config.pad_token_id, config.eos_token_id, config.decoder_start_token_id}

    @torch.inference_mode()
    def translate(texts: Sequence[str]) -> tuple[list[str], int]:
        rows = [[*ids, config.eos_token_id] for ids in pieces.encode(list(texts))]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found = [""] * len(rows)
        count = 0
        for start in range(0, len(order), _HF_BATCH):
            chosen = order[start : start + _HF_BATCH]
            width = max(len(rows[i]) for i in chosen)
            ids = torch.tensor([rows[i] + [config.pad_token_id] * (width - len(rows[i])) for i in chosen])
            mask = (ids != config.pad_token_id).long()
            out = model.generate(
                input_ids=ids,
                attention_mask=mask,
                num_beams=options.beam_size,
                length_penalty=1.0,
                early_stopping=True,
                max_new_tokens=width + 50,
                do_sample=False,
            )
            for i, row in zip(chosen, out.tolist(), strict=True):
                own = [id_ for id_ in row if id_ not in special]
                count += len(own)
                found[i] = pieces.decode(own)
        return found, count

    return translate


SYSTEMS = {
    "transduce-torch": (_transduce, "transduce"),
    "transduce-torch-int8": (_transduce, "transduce"),
    "transduce-torch-int8-exact": (_transduce, "transduce"),
    "transduce-ct2": (_transduce, "transduce"),
    "ctranslate2-default": (_ctranslate2, "ctranslate2"),
    "ctranslate2-best": (_ctranslate2, "ctranslate2"),
    "transformers": (_transformers, "transformers"),
}
"""By system: how to load it, and the distribution whose version counts."""


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, help="SentencePiece file, for systems that need it told")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lone-threads", type=int, default=1, help="of ctranslate2-best, one by one")
    parser.add_argument("--alone", action="store_true", help="one sentence a call, each timed")
    options = parser.parse_args()
    texts = options.source.read_text(encoding="utf-8").split("\n")
    texts = texts[:-1] if texts[-1] == "" else texts
    started = time.perf_counter()
    make, distribution = SYSTEMS[options.system]
    translate = make(options)
    loaded = time.perf_counter()
    figures: dict[str, object] = {"load_s": round(loaded - started, 3)}
    if options.alone:
        found, count = _one_by_one(translate, texts, figures)
    else:
        found, count = translate(texts)
    figures |= {
        "seconds": round(time.perf_counter() - loaded, 3),
        "sentences": len(texts),
        "target_tokens": count,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "distribution": distribution,
    }
    options.output.write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
    print(json.dumps(figures))


def _one_by_one(
    translate: Translate, texts: Sequence[str], figures: dict[str, object]
) -> tuple[list[str], int]:
    """Each sentence in a call of its own; the first calls warm up and are timed apart."""
    found, counts, times = [], [], []
    for text in texts:
        begun = time.perf_counter()
        (own,), tokens = translate([text])
        times.append(time.perf_counter() - begun)
        found.append(own)
        counts.append(tokens)
    skip = _WARM_UP if len(times) > _WARM_UP else 0
    steady = sorted(times[skip:])
    figures["first_ms"] = round(1000 * times[0], 1)
    figures["p50_ms"] = round(1000 * statistics.median(steady), 2)
    figures["p95_ms"] = round(1000 * steady[int(0.95 * (len(steady) - 1))], 2)
    figures["ms_per_token"] = round(1000 * sum(steady) / max(1, sum(counts[skip:])), 3)
    return found, sum(counts)


if __name__ == "__main__":
    main()
