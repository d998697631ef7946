"""Systems that are run as a person runs them: their own command, timed by their own log.

Each is a `CommandLine`: how to ask for its version, what to prepare once, its command, and how a line of its
log tells how many tokens went through in how many seconds. Lines are read while the training runs; when
enough seconds are told of, it is ended. The log is all that is believed; this clock times nothing.

Tokens are those of the corpus: real source and target tokens, both with an end symbol, as `corpus.py`
counts them, also where a system leaves the source's end symbol out or logs target tokens only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus import VOCAB_SIZE, Corpus
from shapes import SHAPES

__all__ = ["COMMAND_LINES", "Interval", "MeasurementError", "measure"]

_CONFIGS = Path(__file__).parent / "peers"
_LOG_EVERY = 5  # updates between two log lines, in every configuration
_PATIENCE = 600.0  # seconds without a log line after which a system is given up
_LN_2 = 0.6931471805599453


class MeasurementError(Exception):
    """A system is missing, or ended before it was measured; says what to do."""


@dataclass(frozen=True)
class Interval:
    """What one line of a log tells."""

    tokens: float
    """Of the corpus, source and target, that went through since the line before."""
    seconds: float
    loss: float
    """As the system prints it, in nats a label."""


Parser = Callable[[str, Corpus], Interval | None]
"""Reads a log line; None where it tells no speed. Called with each line, in order."""


@dataclass(frozen=True)
class CommandLine:
    """One system: everything that is its own."""

    distribution: str
    """Its name for pip."""
    command: Callable[[Path, Path, dict[str, object]], list[str]]
    """From its `bin` directory, its run directory and the values of the placeholders."""
    parser: Callable[[], Parser]
    """Makes a reader of the log of one run."""
    prepare: Callable[[Path, Corpus], None]
    """Makes its own form of the corpus, from its `bin` directory, if it is not there."""
    log: str = ""
    """File in the run directory that tells the speed; empty: what the command prints."""


# --- OpenNMT-py ---------------------------------------------------------------------------------

_OPENNMT_LINE = re.compile(
    r"Step +\d+/ *\d+;.* xent: +(?P<loss>[\d.]+);.* sents: +(?P<sentences>\d+); "
    r"bsz: +(?P<source>\d+)/ *(?P<target>\d+)/ *\d+; +(?P<source_rate>\d+)/ *(?P<target_rate>\d+) tok/s;"
)


def _opennmt_command(binaries: Path, run: Path, values: dict[str, object]) -> list[str]:
    config = (_CONFIGS / "opennmt-py.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(_filled(config, values), encoding="utf-8")
    return [str(binaries / "onmt_train"), "-config", str(run / "config.yaml")]


def _opennmt_prepare(binaries: Path, corpus: Corpus) -> None:
    """Pieces one a line; it adds its four special symbols itself."""
    del binaries
    pieces = [piece for piece, _ in _vocabulary(corpus)]
    (corpus.directory / "pieces.vocab").write_text("\n".join(pieces) + "\n", encoding="utf-8")


def parse_opennmt(line: str, corpus: Corpus) -> Interval | None:
    """Its source has no end symbol; the line tells the sentences, each of which lacks one."""
    del corpus
    if (found := _OPENNMT_LINE.search(line)) is None:
        return None
    source, target = (float(found[side]) * _LOG_EVERY for side in ("source", "target"))
    seconds = (source + target) / (float(found["source_rate"]) + float(found["target_rate"]))
    return Interval(source + target + float(found["sentences"]), seconds, float(found["loss"]))


# --- fairseq ------------------------------------------------------------------------------------


def _fairseq_command(binaries: Path, run: Path, values: dict[str, object]) -> list[str]:
    del run
    text = (_CONFIGS / "fairseq.args").read_text(encoding="utf-8")
    return [str(binaries / "fairseq-train"), *shlex.split(_filled(text, values), comments=True)]


def _fairseq_prepare(binaries: Path, corpus: Corpus) -> None:
    """Its binary form of the pieces, over a dictionary that holds all of them."""
    work = corpus.directory
    if (work / "fairseq" / "dict.de.txt").exists():
        return
    lines = [f"{piece} {max(1, 10_000 - rank)}" for piece, rank in _vocabulary(corpus)]
    (work / "fairseq.dict").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [str(binaries / "fairseq-preprocess"), "--source-lang", "en", "--target-lang", "de"]
    command += ["--trainpref", str(work / "pieces"), "--srcdict", str(work / "fairseq.dict")]
    command += ["--joined-dictionary", "--destdir", str(work / "fairseq")]
    result = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if result.returncode:
        raise MeasurementError(f"fairseq-preprocess failed: {result.stderr[-2000:]}")


def parse_fairseq(line: str, corpus: Corpus) -> Interval | None:
    """It counts target tokens only, and takes losses in bits."""
    if "train_inner | {" not in line:
        return None
    fields = json.loads(line[line.index("{") :])
    targets = float(fields["wpb"]) * _LOG_EVERY
    tokens = targets * corpus.num_tokens / corpus.num_target_tokens
    return Interval(tokens, targets / float(fields["wps"]), float(fields["loss"]) * _LN_2)


# --- our own command line -----------------------------------------------------------------------


def _transduce_command(binaries: Path, run: Path, values: dict[str, object]) -> list[str]:
    del binaries
    settings = {
        **{f"model.{name}": values[name] for name in ("d_model", "d_ff", "num_heads")},
        **{f"model.num_{stack}_layers": values["num_layers"] for stack in ("encoder", "decoder")},
        "model.norm": "post",
        "tokenizer.vocab_size": values["vocab_size"],
        "train.seed": values["seed"],
        "train.log_every": _LOG_EVERY,
        "train.max_steps": 1_000_000,
        "train.validate_every": 0,
        "train.checkpoint_every": 1_000_000,
    }
    files = ["--source", f"{values['corpus']}/train.en", "--target", f"{values['corpus']}/train.de"]
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "train", *files]
    command += ["--preset", "small", "--out", str(run)]
    return command + [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def transduce_parser() -> Parser:
    """`log.jsonl` tells the seconds since the start: an interval is from one line to the next."""
    before = 0.0

    def parse(line: str, corpus: Corpus) -> Interval | None:
        nonlocal before
        del corpus
        fields = json.loads(line)
        if fields["event"] != "train":
            return None
        seconds, before = fields["seconds"] - before, fields["seconds"]
        return Interval(fields["tokens_per_second"] * seconds, seconds, fields["loss"])

    return parse


COMMAND_LINES = {
    "transduce-cli": CommandLine(
        "transduce", _transduce_command, transduce_parser, lambda _, __: None, log="log.jsonl"
    ),
    "opennmt-py": CommandLine("OpenNMT-py", _opennmt_command, lambda: parse_opennmt, _opennmt_prepare),
    "fairseq": CommandLine("fairseq-fixed", _fairseq_command, lambda: parse_fairseq, _fairseq_prepare),
}


# --- running ------------------------------------------------------------------------------------


def measure(
    name: str, shape: str, corpus: Corpus, peers: Path, *, seconds: float, warm_up: int, seed: int
) -> dict[str, object]:
    """Run system `name` until its log tells of `seconds` seconds after `warm_up` updates.

    Args:
        name: of `COMMAND_LINES`.
        shape: of `SHAPES`.
        corpus: prepared text.
        peers: directory of virtual environments, one a peer, called as the system.
        seconds: of training, by the system's own log.
        warm_up: updates before them.
        seed: of weights and of the order of batches.

    Raises:
        MeasurementError: it is not installed, or ended before that.
    """
    system = COMMAND_LINES[name]
    python = Path(sys.executable) if name == "transduce-cli" else peers / name / "bin" / "python"
    if not python.exists():
        raise MeasurementError(f"{name} is not installed in {peers / name}: benchmarks/README.md says how")
    versions = _versions(python, system.distribution)
    system.prepare(python.parent, corpus)
    run = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=corpus.directory))
    values = {**asdict(SHAPES[shape]), "vocab_size": VOCAB_SIZE, "num_pairs": corpus.num_pairs}
    values |= {"corpus": corpus.directory, "run": run, "seed": seed}
    try:
        intervals, peak_mb = _watch(
            system,
            system.command(python.parent, run, values),
            run,
            corpus,
            seconds,
            -(-warm_up // _LOG_EVERY),
        )
    finally:
        shutil.rmtree(run, ignore_errors=True)
    tok_s = sum(i.tokens for i in intervals) / sum(i.seconds for i in intervals)
    updates = _LOG_EVERY * len(intervals)
    return {"tok_s": tok_s, "updates": updates, "loss": intervals[-1].loss, "peak_mb": peak_mb, **versions}


def _watch(
    system: CommandLine, command: list[str], run: Path, corpus: Corpus, seconds: float, skipped: int
) -> tuple[list[Interval], float]:
    """Follow the log of a running command, and end it; what it told after the first `skipped` lines."""
    printed = run / "printed.log"
    parse, intervals = system.parser(), list[Interval]()
    with printed.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=run, start_new_session=True
        )
    try:
        for line in _lines(run / system.log if system.log else printed, process):
            if (interval := parse(line, corpus)) is not None:
                intervals.append(interval)
            if sum(i.seconds for i in intervals[skipped:]) >= seconds:
                return intervals[skipped:], _peak_mb(process.pid)
        tail = printed.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise MeasurementError(f"{shlex.join(command[:2])} … ended or said nothing; its last words:\n{tail}")
    finally:
        _end(process)


def _lines(file: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Whole lines of a growing file, until the process ends or is silent for too long."""
    while not file.exists():
        if process.poll() is not None:
            return
        time.sleep(0.1)
    last = time.monotonic()
    with file.open(encoding="utf-8", errors="replace") as stream:
        part = ""
        while time.monotonic() - last < _PATIENCE:
            ended = process.poll() is not None
            part += stream.readline()
            if part.endswith("\n"):
                last = time.monotonic()
                yield part
                part = ""
            elif ended:
                return
            else:
                time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the command and the processes that it started."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def _peak_mb(pid: int) -> float:
    """Most resident memory that the process ever had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def _versions(python: Path, distribution: str) -> dict[str, str]:
    """Of the system and of its torch, from its own environment."""
    code = (
        "import json, sys; from importlib.metadata import version; "
        "print(json.dumps({'version': version(sys.argv[1]), 'torch': version('torch')}))"
    )
    result = subprocess.run(
        [str(python), "-c", code, distribution], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise MeasurementError(
            f"{python} has no {distribution}: {result.stderr.strip().rpartition(chr(10))[2]}"
        )
    return json.loads(result.stdout)


def _filled(text: str, values: dict[str, object]) -> str:
    """Put the values in their {places}."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def _vocabulary(corpus: Corpus) -> list[tuple[str, int]]:
    """Pieces with their ranks, without the four special symbols."""
    lines = (corpus.directory / "spm.vocab").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [(line.rpartition("\t")[0], rank) for rank, line in enumerate(lines[4:])]
