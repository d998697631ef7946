"""A disk that is full, a place that cannot be written: one line that helps, and nothing is lost.

`/dev/full` stands for the full disk: it takes what is written into a buffer, and fails when the buffer
is flushed, as a disk does. After room is made the same command goes on and ends bit-equal.
"""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import transduce.files
from digits import TINY_SETTINGS, digit_pairs
from same_run import differences, events
from transduce import cli

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")

SETTINGS = [
    *TINY_SETTINGS,
    "model.d_model=16",
    "model.d_ff=16",
    "train.max_steps=8",
    "train.validate_every=4",
    "train.validate_sentences=0",
    "train.checkpoint_every=3",
    "train.keep_checkpoints=3",
    "train.average_checkpoints=2",
    "train.log_every=1",
    "data.holdout_pairs=4",
    "search.max_extra_len=2",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory, write_pairs):
    return write_pairs(tmp_path_factory.mktemp("text") / "train", digit_pairs(300))


@pytest.fixture
def train(text, monkeypatch, capfd):
    """Run the real command; return its exit code and what it said."""

    def command(path):
        words = ["transduce", "train", "--source", str(text[0]), "--target", str(text[1]), "--out", str(path)]
        for setting in SETTINGS:
            words += ["--set", setting]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        assert out == ""
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        return left.value.code, err

    return command


@pytest.fixture
def undisturbed(train, tmp_path_factory):
    """Made once, by the first test that asks."""
    if "path" not in _UNDISTURBED:
        path = tmp_path_factory.mktemp("whole") / "run"
        assert train(path)[0] == 0
        _UNDISTURBED["path"] = path
    return _UNDISTURBED["path"]


_UNDISTURBED: dict[str, Path] = {}


def fill_disk(patch, name, *, times=1000):
    """Files whose path ends with `name` no longer take anything."""
    path_open, fdopen = Path.open, os.fdopen
    left = [times]

    def full(path):
        # Temporary names: .NAME.RANDOM.tmp/…, or .NAME.RANDOM.tmp for a single file.
        if left[0] and name in str(path):
            left[0] -= 1
            return True
        return False

    def open_path(self, mode="r", *arguments, **keywords):
        if mode[0] in "wa" and full(self):
            return io.open("/dev/full", mode, *arguments, **keywords)  # noqa: UP020
        return path_open(self, mode, *arguments, **keywords)

    def open_descriptor(descriptor, mode="r", *arguments, **keywords):
        if full(Path(f"/proc/self/fd/{descriptor}").readlink()):
            os.close(descriptor)
            return io.open("/dev/full", mode, *arguments, **keywords)  # noqa: UP020
        return fdopen(descriptor, mode, *arguments, **keywords)

    patch.setattr(Path, "open", open_path)
    patch.setattr(transduce.files.os, "fdopen", open_descriptor)


CASES = {
    "the recipe": ("recipe.toml", "run/recipe.toml", []),
    "the tokenizer": ("text/.tokenizer.model", "text/tokenizer.model", []),
    "the validation text": ("text/.valid.source", "text/valid.source", []),
    "the facts": ("text/.text.json", "text/text.json", []),
    "the token store": ("source.tokens", "token store", []),
    "its offsets": ("target.offsets", "token store", []),
    "the validation store": ("store/.valid", "token store", []),
    "the log": ("log.jsonl", "log.jsonl", []),
    "a first checkpoint": (".step-00000003", "checkpoint of step 3", []),
    "a checkpoint's weights": (".step-00000006", "checkpoint of step 6", [3]),
    "a checkpoint's optimizer": ("optimizer.safetensors", "checkpoint of step 3", []),
    "a checkpoint's sums": ("SHA256SUMS", "checkpoint of step 3", []),
    "the model": ("run/.model.", "the model", [3, 6, 8]),
    "the model's card": ("card.md", "the model", [3, 6, 8]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_full_disk_is_told_and_nothing_is_lost(case, train, undisturbed, tmp_path, monkeypatch):
    name, what, whole = CASES[case]
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        fill_disk(patch, name)
        code, err = train(path)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2, err
    assert len(lines) == 1, err
    assert what in lines[0]
    assert "the disk is full; make room and run the same command again" in lines[0]
    assert ".tmp" not in lines[0]
    found = path / "checkpoints"
    assert sorted(int(p.name[5:]) for p in found.glob("*")) == whole if whole else not list(found.glob("*"))
    assert not list(path.rglob("*.tmp"))
    assert train(path)[0] == 0
    assert differences(path, undisturbed) == []
    if case != "the model" and case != "the model's card":
        assert events(path) == events(undisturbed)


def test_a_full_disk_in_the_midst_of_the_log(train, undisturbed, tmp_path, monkeypatch):
    """It may take half a line."""
    from transduce.train.log import RunLog

    path = tmp_path / "run"
    original = RunLog.event

    def event(self, kind, fields):
        if fields["step"] == 5:
            self._stream.write('{"event": "tr')
            self._stream.close()
            self._stream = Path("/dev/full").open("w")  # noqa: SIM115
        original(self, kind, fields)

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "event", event)
        code, err = train(path)
    assert code == 2
    assert "log.jsonl could not be written (checkpoints are whole): the disk is full" in err
    assert train(path)[0] == 0
    assert differences(path, undisturbed) == []
    assert events(path) == events(undisturbed)


def test_curves_are_no_reason_to_stop(train, undisturbed, tmp_path, monkeypatch):
    """TensorBoard writes in a thread of its own, which would print its traceback."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full(self, *data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RecordWriter, "flush", full)
    code, err = train(tmp_path / "run")
    assert code == 0
    assert err.count("no more curves for TensorBoard (the disk is full") == 1
    assert differences(tmp_path / "run", undisturbed) == ["tensorboard differs"]
    assert events(tmp_path / "run") == events(undisturbed)


def a_file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("something else\n")


PLACES = {
    "the run is a file": (lambda run: a_file(run), "a file stands where a directory is needed"),
    "its parent is a file": (lambda run: a_file(run.parent), "a file stands where a directory is needed"),
    "text is a file": (lambda run: a_file(run / "text"), "text"),
    "the store is a file": (lambda run: a_file(run / "store"), "a file stands where a directory is needed"),
    "checkpoints is a file": (
        lambda run: a_file(run / "checkpoints"),
        "a file stands where a directory is needed",
    ),
    "the log is a directory": (
        lambda run: (run / "log.jsonl").mkdir(parents=True),
        "a directory stands where a file is needed",
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_something_else_stands_there(place, train, tmp_path):
    make, words = PLACES[place]
    run = tmp_path / "runs" / "run"
    make(run)
    code, err = train(run)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2
    assert len(lines) == 1, err
    assert words in lines[0]
    assert str(run.parent) in lines[0]


def test_a_file_in_place_of_the_curves_is_no_reason_to_stop(train, tmp_path, undisturbed):
    run = tmp_path / "run"
    a_file(run / "tensorboard")
    code, err = train(run)
    assert code == 0
    assert err.count("no more curves for TensorBoard") == 1
    assert differences(run, undisturbed) == ["tensorboard differs"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("beginning", [".lock", "checkpoints/.", ".model"])
def test_a_place_that_cannot_be_written(beginning, number, train, undisturbed, tmp_path, monkeypatch):
    """By its errors: the tests may run as root, whom permissions do not stop."""
    run = tmp_path / "run"

    def refuse(original, path_of):
        def refusing(*arguments, **keywords):
            path = path_of(*arguments, **keywords)
            if str(path).startswith(f"{run}/{beginning}"):
                raise OSError(number, os.strerror(number), str(path))
            return original(*arguments, **keywords)

        return refusing

    with monkeypatch.context() as patch:
        for name in ("mkdtemp", "mkstemp"):
            original = getattr(transduce.files.tempfile, name)
            refusing = refuse(original, lambda **named: f"{named['dir']}/{named['prefix']}")
            patch.setattr(transduce.files.tempfile, name, refusing)
        patch.setattr(os, "open", refuse(os.open, lambda path, *rest, **more: path))
        code, err = train(run)
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2, err
    assert len(lines) == 1, err
    remedy = {errno.EACCES: "no permission to write there", errno.EROFS: "that disk can only be read"}[number]
    assert remedy in lines[0]
    assert "choose another directory" in lines[0]
    assert train(run)[0] == 0
    assert differences(run, undisturbed) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_only_others_may_write(train, tmp_path):
    (tmp_path / "runs").mkdir(mode=0o555)
    code, err = train(tmp_path / "runs" / "run")
    assert code == 2
    assert "no permission to write there" in err
    (tmp_path / "runs").chmod(0o755)
    assert train(tmp_path / "runs" / "run")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("ear", ["a full disk", "a closed pipe"])
def test_a_run_that_nobody_hears_goes_on(ear, text, undisturbed, tmp_path):
    """`2> log` on a disk that fills up, `2>&1 | tee` whose reader is gone."""
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "train"]
    command += ["--source", str(text[0]), "--target", str(text[1]), "--out", str(tmp_path / "run")]
    for setting in SETTINGS:
        command += ["--set", setting]
    if ear == "a full disk":
        stderr = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, stderr = os.pipe()
        os.close(reader)
    try:
        assert subprocess.run(command, stderr=stderr, timeout=120).returncode == 0
    finally:
        os.close(stderr)
    assert differences(tmp_path / "run", undisturbed) == []


def test_a_second_process_is_told_in_one_line(train, tmp_path):
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"):
        code, err = train(tmp_path / "run")
    assert code == 2
    assert err.startswith("error: another process is working on")
    assert err.count("\n") == 1


def test_what_stood_there_stays(tmp_path, monkeypatch):
    """A store that cannot be replaced is left as it was, without leftovers."""
    from transduce.batch.store import build_store
    from transduce.errors import DataError

    build_store(tmp_path / "s", [([1], [2])], vocab_size=9, fingerprint="old")
    before = {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()}
    with monkeypatch.context() as patch:
        fill_disk(patch, "target.tokens")
        with pytest.raises(DataError, match="the disk is full"):
            build_store(tmp_path / "s", [([1] * 9000, [2] * 9000)], vocab_size=9, fingerprint="new")
    assert {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
