"""Translation throughput and latency: ours beside other people's engines, the same weights, in turn.

    python benchmarks/translate/throughput.py --model runs/base --data ../shared/data --shape base

The model is one run of `transduce train` (benchmarks/translate/base.toml on Multi30k and pydocs, en-fr);
its exports are made here, once. Two sets: Multi30k test_2016 (1,000 short sentences, as they come) and the
pydocs test (1,500 paragraphs). Systems take turns, each time in a process of its own; figures are medians
of the rounds. `seconds` is the translating alone, `wall_s` with start-up and loading, `command_s` the whole
`transduce translate`. fairseq runs with the same weights in an environment of its own, if --peers holds one
(see benchmarks/README.md); its tokenising is not timed. Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "train"))

from record import append_line, commit, hardware, today  # noqa: E402

HERE = Path(__file__).parent
SETS = {
    "multi30k": ("multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.fr.gz"),
    "pydocs": ("pydocs/test.en.gz", "pydocs/test.fr.gz"),
}
MEDIANS = (
    "seconds", "wall_s", "command_s", "load_s", "first_ms", "p50_ms", "p95_ms", "ms_per_token", "peak_mb",
)  # fmt: skip
_FAIRSEQ = "fairseq"
# name → (system of run_system.py, which directory of the work, threads of a lone sentence)
ROWS = {
    "transduce-torch": ("transduce-torch", "model", 0),
    "transduce-torch-int8": ("transduce-torch-int8", "model", 0),
    "transduce-torch-int8-exact": ("transduce-torch-int8-exact", "model", 0),
    "transduce-ct2-float32": ("transduce-ct2", "ct2-float32", 0),
    "transduce-ct2-int8": ("transduce-ct2", "ct2-int8", 0),
    "transduce-ct2-int8-shortlist": ("transduce-ct2", "ct2-int8-shortlist", 0),
    "ctranslate2-default-float32": ("ctranslate2-default", "ct2-float32", 0),
    "ctranslate2-default-int8": ("ctranslate2-default", "ct2-int8", 0),
    "ctranslate2-best-float32": ("ctranslate2-best", "ct2-float32", 2),
    "ctranslate2-best-int8": ("ctranslate2-best", "ct2-int8", 1),
    "transformers": ("transformers", "hf", 0),
    _FAIRSEQ: (_FAIRSEQ, "model", 0),
}


def exports(model: Path, work: Path, training: tuple[Path, Path] | None) -> None:
    """The model and its exports, made by the real command, once."""
    made = {
        "ct2-float32": ["--to", "ct2", "--quantization", "float32"],
        "ct2-int8": ["--to", "ct2", "--quantization", "int8"],
        "hf": ["--to", "hf"],
    }
    if training is not None:
        source, target = map(str, training)
        shortlist = ["--source", source, "--target", target]
        made["ct2-int8-shortlist"] = [*made["ct2-int8"], *shortlist]
    inside = model / "model" if (model / "model").exists() else model
    if not (work / "model").exists():
        shutil.copytree(inside, work / "model", ignore=shutil.ignore_patterns("ct2"))
    for name, arguments in made.items():
        if not (work / name).exists():
            command = [*_TRANSDUCE, "export", str(work / "model"), *arguments, "--out", str(work / name)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for file in (work / "model").glob("*.model"):
                shutil.copy(file, work / name)


_TRANSDUCE = [sys.executable, "-c", "from transduce.cli import main; main()"]


def measure(name: str, source: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One round of one system on one file."""
    system, directory, lone_threads = ROWS[name]
    output = work / "output" / f"{name}.{source.stem}.{options.beam_size}.txt"
    output.parent.mkdir(exist_ok=True)
    if system == _FAIRSEQ:
        return measure_fairseq(source, work, output, options)
    command = [sys.executable, "-W", "ignore", str(HERE / "run_system.py"), "--system", system]
    command += ["--model", str(work / directory), "--source", str(source), "--output", str(output)]
    command += ["--tokenizer", str(next((work / "model").glob("*.model")))]
    command += ["--beam-size", str(options.beam_size), "--threads", str(options.threads)]
    command += ["--lone-threads", str(lone_threads or options.threads)] + (
        ["--alone"] if options.alone else []
    )
    return run(name, command) | {"output": output}


def measure_fairseq(source: Path, work: Path, output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One round of fairseq, ids in and ids out; texts are made of them here."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(next((work / "model").glob("*.model"))))
    ids, found = output.with_suffix(".in.json"), output.with_suffix(".out.json")
    ids.write_text(json.dumps(pieces.encode(source.read_text(encoding="utf-8").split("\n")[:-1])))
    command = [
        str(options.peers / "fairseq" / "bin" / "python"),
        "-W",
        "ignore",
        str(HERE / "run_fairseq.py"),
    ]
    command += ["--model", str(work / "model"), "--ids", str(ids), "--output", str(found)]
    command += ["--beam-size", str(options.beam_size), "--threads", str(options.threads)]
    figures = run(_FAIRSEQ, command + (["--alone"] if options.alone else []))
    rows = json.loads(found.read_text(encoding="utf-8"))
    output.write_text("".join(f"{pieces.decode(row)}\n" for row in rows), encoding="utf-8")
    return figures | {"output": output}


def run(name: str, command: list[str]) -> dict[str, Any]:
    """The figures that a process prints last, and its whole time."""
    started = time.perf_counter()
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    if result.returncode:
        raise RuntimeError(f"{name}: {result.stderr.strip()[-1500:]}")
    figures: dict[str, Any] = json.loads(result.stdout.strip().rpartition("\n")[2])
    return figures | {"wall_s": round(wall, 2)}


def command_line(name: str, source: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The whole `transduce translate` on one file: what a user waits for."""
    _, directory, _ = ROWS[name]
    output = work / "output" / f"{name}.{source.stem}.command.txt"
    command = [*_TRANSDUCE, "translate", str(work / directory), "--input", str(source)]
    command += ["--output", str(output), "--beam-size", str(options.beam_size)]
    command += [
        "--set",
        "search.length_penalty=power",
        "--set",
        "search.alpha=1",
        "--set",
        "search.patience=1",
    ]
    output.unlink(missing_ok=True)
    started = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return {"command_s": round(time.perf_counter() - started, 2)}


def prepare(data: Path, work: Path, sentences: int) -> dict[str, tuple[Path, Path]]:
    """Both sets as plain files of at most `sentences` lines (0: all)."""
    found = {}
    for name, files in SETS.items():
        own = []
        for file in files:
            lines = gzip.decompress((data / file).read_bytes()).decode().split("\n")[:-1]
            plain = work / f"{name}.{file.split('.')[-2]}"
            plain.write_text("".join(f"{line}\n" for line in (lines[:sentences] if sentences else lines)))
            own.append(plain)
        found[name] = (own[0], own[1])
    return found


def summary(
    name: str, rounds: list[dict[str, Any]], reference: Path, labels: dict[str, Any]
) -> dict[str, Any]:
    """One line for the results: medians, and BLEU of the last output."""
    import sacrebleu

    def median(key: str) -> float | None:
        values = [r[key] for r in rounds if key in r]
        return round(statistics.median(values), 3) if values else None

    output = rounds[-1]["output"].read_text(encoding="utf-8").split("\n")[:-1]
    right = reference.read_text(encoding="utf-8").split("\n")[:-1]
    tokens, seconds = rounds[-1]["target_tokens"], median("seconds") or 1.0
    last = rounds[-1]
    line = {"bench": "translate/throughput", "system": name}
    line["version"] = last.get("version") or version(last["distribution"])
    line |= labels | {
        "tok_s": round(tokens / seconds, 1),
        "sentences_s": round(len(output) / seconds, 2),
        "bleu": round(sacrebleu.corpus_bleu(output, [right]).score, 2),
        "target_tokens": tokens,
        "rounds": len(rounds),
        "wall_s_all": [r["wall_s"] for r in rounds],
    }
    line |= {key: value for key in MEDIANS if (value := median(key)) is not None}
    return line | {"date": today(), "hardware": hardware(), "commit": commit()}


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="run or model directory")
    parser.add_argument("--shape", required=True, help="what the lines call it")
    parser.add_argument("--data", type=Path, required=True, help="directory with multi30k/ and pydocs/")
    parser.add_argument("--training", type=Path, nargs=2, metavar="FILE", help="its text, for the shortlist")
    parser.add_argument("--work", type=Path, default=Path("runs/benchmark-translate"))
    parser.add_argument("--peers", type=Path, help="directory with other toolkits' environments")
    parser.add_argument("--systems", default=",".join(ROWS), help="comma-separated (all)")
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated (all)")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--alone", action="store_true", help="one sentence a call")
    parser.add_argument("--sentences", type=int, default=0, help="of each set; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / f"{today()}.jsonl")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    work = options.work / options.shape
    work.mkdir(parents=True, exist_ok=True)
    exports(options.model, work, tuple(options.training) if options.training else None)
    files = prepare(options.data, work, options.sentences)
    for set_name in options.sets.split(","):
        source, reference = files[set_name]
        names = [n for n in options.systems.split(",") if (work / ROWS[n][1]).exists()]
        if options.peers is None:
            names = [name for name in names if name != _FAIRSEQ]
        results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for number in range(options.rounds):
            for name in names:
                found = measure(name, source, work, options)
                if name.startswith("transduce") and not options.alone and "torch-" not in name:
                    found |= command_line(name, source, work, options)
                results[name].append(found)
                print(
                    f"{set_name} round {number + 1}: {name} {found['wall_s']} s", file=sys.stderr, flush=True
                )
        mode = "alone" if options.alone else "batch"
        labels = {"shape": options.shape, "set": set_name, "mode": mode, "beam_size": options.beam_size}
        for name, rounds in results.items():
            append_line(
                options.results, summary(name, rounds, reference, labels | {"threads": options.threads})
            )


if __name__ == "__main__":
    main()
