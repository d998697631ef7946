"""Does anything but the sentence decide its translation? One file in many orders, batches and thread counts.

For each engine: how many sentences got more than one translation, and between the two engines (the export
must be float32): how many differ, and in how many of those the scores differ by more than rounding.

    python benchmarks/translate/same_answer.py MODEL --source test.en --turns 20
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from transduce.text.lines import read_lines
from transduce.translate.ctranslate2_engine import CTranslate2Engine
from transduce.translate.exported import usable_export
from transduce.translate.model_directory import ModelDirectory
from transduce.translate.runtime import Runtime
from transduce.translate.torch_engine import TorchEngine
from transduce.translate.translator import Translator

BATCH_TOKENS = (64, 256, 1024, 4096)
THREADS = (1, 2)
ROUNDING = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--patience", type=float, default=float("inf"))
    parser.add_argument("--engines", default="torch,ctranslate2")
    arguments = parser.parse_args()
    directory = ModelDirectory(arguments.model)
    sources = [directory.tokenizers[0].encode(line) for line in read_lines(arguments.source)]
    longest = directory.recipe.batch.max_len - 1
    sources = [row[:longest] for row in sources if row][: arguments.sentences]
    first = {}
    for name in arguments.engines.split(","):
        first[name] = measure(name, directory, sources, arguments)
    if len(first) == 2:
        ours, theirs = first.values()
        differ = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.ids != b.ids]
        real = [1 for a, b in differ if abs(a.score - b.score) > ROUNDING]
        print(json.dumps({"between_engines": len(differ), "by_more_than_rounding": len(real)}))


def measure(name: str, directory: ModelDirectory, sources: list[list[int]], arguments) -> list:
    from dataclasses import replace

    config = replace(directory.recipe.search, patience=arguments.patience)
    found: list[set] = [set() for _ in sources]
    first = None
    for turn in range(arguments.turns):
        engine = make(name, directory, BATCH_TOKENS[turn % 4], THREADS[turn // 4 % 2])
        order = list(range(len(sources)))
        if turn:
            random.Random(turn).shuffle(order)
        answers = engine.search([sources[i] for i in order], config)
        for i, answer in zip(order, answers, strict=True):
            found[i].add(answer[0].ids)
        first = first or [answer[0] for answer in answers]
    more = sum(len(ids) > 1 for ids in found)
    print(json.dumps({"engine": name, "sentences": len(sources), "turns": arguments.turns, "with_two": more}))
    return first


def make(name: str, directory: ModelDirectory, batch_tokens: int, threads: int):
    if name == "torch":
        import torch

        torch.set_num_threads(threads)
        translator = Translator.over_torch(
            directory.load_transformer(), directory.recipe, *directory.tokenizers
        )
        engine = translator.engine
        assert isinstance(engine, TorchEngine)
        engine._batch_tokens = batch_tokens
        return engine
    exported = usable_export(directory.path, needed=True)
    return CTranslate2Engine(exported, Runtime(threads=threads, batch_tokens=batch_tokens))


if __name__ == "__main__":
    main()
