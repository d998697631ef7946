"""Kill a short training at random moments, let it go on, and compare every file with the undisturbed run's.

    python benchmarks/resume/kill_fifty.py --kills 50 --seed 1
    python benchmarks/resume/kill_fifty.py --kills 10 --set train.accumulate=4    # with other settings

A trial is a fresh run directory in which `transduce train` is killed (SIGKILL, its whole process
group) one to three times and then run to its end. In half of the trials the moments are drawn
evenly over the time that a whole run takes, imports left out; in the other half the first kill
waits for a phase to show on disk: a temporary directory, a log line. Which phase a kill hit is read
from what it left behind. What counts as equal: `tests/same_run.py`.

Prints each trial, a table of the phases and one JSON line; the exit code is 1 unless all are equal.
Unequal run directories are kept beside the undisturbed one, under --work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from digits import TINY_SETTINGS, digit_pairs  # noqa: E402
from same_run import differences  # noqa: E402

MAX_STEPS, VALIDATE_EVERY, CHECKPOINT_EVERY, KEEP = 33, 10, 3, 3
SETTINGS = [
    *TINY_SETTINGS,
    "model.dropout=0.2",
    "data.holdout_pairs=30",
    "data.sampling_alpha=0.1",
    "data.sampling_copies=2",
    f"train.max_steps={MAX_STEPS}",  # no multiple of validate_every: there is a last validation besides
    f"train.validate_every={VALIDATE_EVERY}",
    "train.validate_sentences=10",
    f"train.checkpoint_every={CHECKPOINT_EVERY}",
    f"train.keep_checkpoints={KEEP}",
    "train.average_checkpoints=3",
    "train.accumulate=2",
    "train.log_every=1",
    "search.max_extra_len=0",  # what is not learnt yet would be translated without end
    "search.max_len_ratio=1.0",
]
CHECKPOINT_FILES = {"model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"}
DEADLINE = 300.0  # seconds after which a run is called stuck


class Training:
    """`transduce train` in a process group of its own."""

    def __init__(self, text: Path, run: Path, settings: list[str]) -> None:
        command = [sys.executable, "-c", "from transduce.cli import main; main()", "train"]
        command += ["--source", f"{text}.en", "--target", f"{text}.de", "--out", str(run)]
        for setting in settings:
            command += ["--set", setting]
        # The number of threads decides the order of sums; one is the kindest to a shared machine.
        environment = {"OMP_NUM_THREADS": "1"} | os.environ
        self.begun = time.time()
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> bool:
        """Kill the group; False when it had ended by itself before."""
        ended = self._process.poll() is not None
        if not ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        return not ended and self._process.returncode == -signal.SIGKILL

    def finish(self) -> None:
        """Wait for the end; a failure ends the whole script, with what was said."""
        _, err = self._process.communicate(timeout=DEADLINE)
        if self._process.returncode:
            raise RuntimeError(f"`transduce train` failed ({self._process.returncode}):\n{err[-3000:]}")


# --- What a run directory shows -----------------------------------------------------------------


def last_event(run: Path) -> dict[str, object]:
    """The last whole line of the log, read from the end; empty when there is none."""
    try:
        with (run / "log.jsonl").open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4096))
            lines = [line for line in stream.read().split(b"\n") if line.endswith(b"}")]
        event: dict[str, object] = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return event


def checkpoints(run: Path) -> list[str]:
    """Names under `checkpoints/`, temporary ones too."""
    try:
        return os.listdir(run / "checkpoints")  # noqa: PTH208 (polled: the cheapest there is)
    except OSError:
        return []


def temporary(directory: Path, prefix: str) -> bool:
    """Is something being written there?"""
    try:
        return any(name.startswith(f".{prefix}") for name in os.listdir(directory))  # noqa: PTH208
    except OSError:
        return False


def deleting(run: Path) -> bool:
    """More checkpoints than are kept, or half of one."""
    names = [name for name in checkpoints(run) if name.startswith("step-")]
    try:
        return len(names) > KEEP + 1 or any(
            set(os.listdir(run / "checkpoints" / name)) != CHECKPOINT_FILES  # noqa: PTH208
            for name in names
        )
    except OSError:
        return True


def validating(run: Path) -> bool:
    """The train line of a step with a validation is there, its validation is not."""
    event = last_event(run)
    step = event.get("step", 1)
    due = isinstance(step, int) and (step % VALIDATE_EVERY == 0 or step == MAX_STEPS)
    return event.get("event") == "train" and due


def newest(run: Path) -> float:
    """When anything was last written there; 0 before there is anything."""
    times = [0.0]
    for directory, _, files in os.walk(run):
        for name in (".", *files):
            with contextlib.suppress(OSError):  # gone meanwhile
                times.append(os.stat(os.path.join(directory, name)).st_mtime)  # noqa: PTH116, PTH118
    return max(times)


def phase(run: Path, begun: float) -> str:
    """What a killed process was doing, from what it left behind.

    Args:
        run: its directory.
        begun: when it was started (`time.time`).
    """
    if not (run / "recipe.toml").exists():
        return "starting"
    if newest(run) < begun:
        return "starting again"
    if (run / "model").exists():
        return "finished"
    shown = [
        ("writing the model", temporary(run, "model.")),
        ("finishing", last_event(run).get("event") == "stop"),
        ("saving", temporary(run / "checkpoints", "step-")),
        ("deleting old checkpoints", deleting(run)),
        ("validating", validating(run)),
        ("training", (run / "log.jsonl").exists() or bool(checkpoints(run))),
        ("about to train", (run / "store" / "valid").exists()),
        ("storing", (run / "text" / "text.json").exists()),
    ]
    return next((name for name, found in shown if found), "reading text")


# --- Killing ------------------------------------------------------------------------------------

PHASES: dict[str, Callable[[Path], bool]] = {
    "reading text": lambda run: (run / "text").exists(),
    "storing": lambda run: (run / "text" / "text.json").exists(),
    "writing the store": lambda run: temporary(run / "store", ""),
    "saving": lambda run: temporary(run / "checkpoints", "step-"),
    "saving, a later one": lambda run: (
        len(checkpoints(run)) > KEEP and temporary(run / "checkpoints", "step-")
    ),
    "deleting old checkpoints": deleting,
    "validating": validating,
    "finishing": lambda run: last_event(run).get("event") == "stop",
    "writing the model": lambda run: temporary(run, "model."),
}
"""Phases that a kill can wait for. Leftovers of an earlier kill would be mistaken: first kills only."""


def kill_in(training: Training, run: Path, wanted: str, rng: random.Random) -> bool:
    """Kill as soon as the phase shows, or up to 20 ms later."""
    shows = PHASES[wanted]
    skip = rng.randrange(3) if wanted in ("validating", "saving") else 0  # not always the first one
    deadline = time.monotonic() + DEADLINE
    shown = False
    while training.running() and time.monotonic() < deadline:
        before, shown = shown, shows(run)
        if shown and not before:
            if not skip:
                time.sleep(rng.choice([0.0, rng.uniform(0, 0.02)]))
                break
            skip -= 1
        time.sleep(0.0005)  # leave the processor to the training
    return training.kill()


def kill_after(training: Training, run: Path, seconds: float) -> bool:
    """Kill so many seconds after the process began to write: what it imports before needs no test."""
    while training.running() and newest(run) < training.begun:
        time.sleep(0.005)
    until = time.monotonic() + seconds
    while training.running() and time.monotonic() < until:
        time.sleep(0.001)
    return training.kill()


def trial(
    number: int, text: Path, run: Path, settings: list[str], span: float, rng: random.Random
) -> list[str]:
    """Kill one run and let it end; the phases that were hit.

    Args:
        number: of the trial; every second one waits for a phase.
        text: the corpus, without endings.
        run: a directory that is not there yet.
        settings: of the recipe.
        span: seconds from an undisturbed run's first file to its end.
        rng: chooses the moments.
    """
    hit: list[str] = []
    wanted = list(PHASES)[number // 2 % len(PHASES)] if number % 2 else None
    kills = rng.choice([1, 1, 2, 3])
    while len(hit) < kills:
        training = Training(text, run, settings)
        if wanted:
            killed = kill_in(training, run, wanted, rng)
        else:
            killed = kill_after(training, run, rng.uniform(0, span))
        wanted = None
        if not killed:  # it was faster
            if hit:
                break
            shutil.rmtree(run)
            continue
        hit.append(phase(run, training.begun))
    Training(text, run, settings).finish()
    return hit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="trials, each with at least one kill")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments")
    parser.add_argument("--set", action="append", default=[], metavar="ROOM.FIELD=VALUE", dest="settings")
    parser.add_argument("--work", type=Path, help="directory for the runs; default a temporary one")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="kill-fifty-"))
    settings = [*SETTINGS, *options.settings]
    work.mkdir(parents=True, exist_ok=True)
    text = work / "digits"
    pairs = digit_pairs(2000)
    for side, name in enumerate(("en", "de")):
        text.with_suffix(f".{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))

    begun = time.monotonic()
    undisturbed = work / "undisturbed"
    training = Training(text, undisturbed, settings)
    while training.running() and not (undisturbed / "recipe.toml").exists():
        time.sleep(0.01)
    first = time.monotonic() - begun
    training.finish()
    whole = time.monotonic() - begun
    print(f"undisturbed: {whole:.1f} s, of which {first:.1f} s before anything is written", flush=True)

    rng = random.Random(options.seed)
    phases: Counter[str] = Counter()
    equal = 0
    for number in range(options.kills):
        run = work / f"trial-{number:03d}"
        hit = trial(number, text, run, settings, whole - first, rng)
        phases.update(hit)
        problems = differences(run, undisturbed)
        equal += not problems
        print(f"{number + 1:3} killed while {', '.join(hit)}: {'; '.join(problems) or 'equal'}", flush=True)
        if not problems:
            shutil.rmtree(run)

    print()
    for name, count in phases.most_common():
        print(f"{count:4}  {name}")
    print(f"{equal} of {options.kills} equal")
    line = {
        "bench": "resume/kill_fifty",
        "trials": options.kills,
        "equal": equal,
        "processes_killed": phases.total(),
        "phases": dict(phases.most_common()),
        "seed": options.seed,
        "settings": options.settings,
        "undisturbed_seconds": round(whole, 1),
        "seconds": round(time.monotonic() - begun, 1),
        "version": version("transduce"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "hardware": platform.processor() or platform.machine(),
        "date": date.today().isoformat(),
    }
    print(json.dumps(line))
    if equal == options.kills and not options.work:
        shutil.rmtree(work)
    sys.exit(equal != options.kills)


if __name__ == "__main__":
    main()
