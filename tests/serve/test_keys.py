"""API keys: shown once, hashed at rest, compared in constant time, revoked while the service runs."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import threading

import pytest

from transduce.errors import ServeError
from transduce.serve import keys as room
from transduce.serve.keys import KeyFile, Keys


@pytest.fixture
def file(tmp_path):
    return KeyFile(tmp_path / "keys.toml")


def test_a_key_is_found_and_its_file_does_not_hold_it(file):
    key = file.create("web site", requests_per_minute=7)
    assert re.fullmatch(r"td-[a-z2-7]{8}-[\w-]{43}", key)
    assert key.rpartition("-")[2] not in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    found = Keys(file.path).find(key)
    assert (found.name, found.requests_per_minute) == ("web site", 7)


def test_what_is_no_key_of_the_file_is_not_found(file, tmp_path):
    key = file.create("a")
    known = Keys(file.path)
    other = KeyFile(tmp_path / "other.toml").create("a")
    swapped = key[:12] + other[12:]
    for wrong in ("", "x", key[:-1], key + "a", key.upper(), other, swapped, f" {key}", "\ud800", "ß" * 55):
        assert known.find(wrong) is None


def test_unknown_keys_are_compared_too(file, monkeypatch):
    """A key that is not there takes the same road as one that is, so time tells nothing."""
    key = file.create("a")
    known, asked = Keys(file.path), []
    compare = room.hmac.compare_digest
    monkeypatch.setattr(room.hmac, "compare_digest", lambda a, b: asked.append((a, b)) or compare(a, b))
    known.find(key)
    known.find("no key at all")
    assert [(len(a), len(b)) for a, b in asked] == [(64, 64)] * 2


def test_a_revoked_key_stops_working_without_a_restart(file, monkeypatch):
    monkeypatch.setattr(room, "_LOOK_EVERY", 0.0)
    first, second = file.create("first"), file.create("second")
    known = Keys(file.path)
    assert known.find(first) is not None
    file.revoke(first)
    assert known.find(first) is None
    assert known.find(second) is not None
    assert known.find(file.create("third")) is not None
    assert [key.revoked is None for key in file.read()] == [False, True, True]


def test_a_file_that_breaks_leaves_the_keys_as_they_were(file, monkeypatch, caplog):
    monkeypatch.setattr(room, "_LOOK_EVERY", 0.0)
    key = file.create("a")
    known = Keys(file.path)
    file.path.write_text("keys = [")
    assert known.find(key) is not None
    assert "the keys stay as they were" in caplog.text
    file.path.unlink()
    assert known.find(key) is not None


def test_keys_made_at_once_are_all_kept(file):
    threads = [threading.Thread(target=file.create, args=(f"n{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.name for key in file.read()) == [f"n{i}" for i in range(8)]


def test_a_file_that_others_can_read_is_told(file, caplog):
    file.create("a")
    file.path.chmod(0o644)
    Keys(file.path)
    assert "can be read by others: chmod 600" in caplog.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("keys = [", "is no file of keys"),
        ("\xff", "is no file of keys"),
        ("a = 1", "of keys of schema 1"),
        ('schema = 1\n[[keys]]\nid = "a"', "damaged key"),
        ('schema = 1\n[[keys]]\nid=1\nname="a"\nsha256="a"\ncreated=2026-01-01T00:00:00Z', "damaged key"),
        ('schema = 1\n[[keys]]\nid="a"\nname="a"\nsha256="a"\ncreated=2026-01-01T00:00:00Z', "damaged key"),
        ("schema = 1\nkeys = 3", "damaged key"),
    ],
)
def test_a_damaged_file_is_told_in_one_line(file, content, words):
    file.path.write_text(content, encoding="latin-1")
    with pytest.raises(ServeError, match=words) as caught:
        Keys(file.path)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_done_is_told(file, tmp_path):
    with pytest.raises(ServeError, match="makes a file of keys"):
        file.read()
    for name in ("", "  ", "a\nb", "x" * 101):
        with pytest.raises(ServeError, match="a key's name is"):
            file.create(name)
    with pytest.raises(ServeError, match="0 \\(the service's\\) or more"):
        file.create("a", requests_per_minute=-1)
    file.create("a")
    with pytest.raises(ServeError, match="has no key 'b'"):
        file.revoke("b")
    (tmp_path / "here").write_text("a file")
    with pytest.raises(ServeError, match="could not be written"):
        KeyFile(tmp_path / "here" / "keys.toml").create("a")


def test_the_command_line(tmp_path):
    def run(*words):
        command = [sys.executable, "-c", "from transduce.cli import main; main()", "keys", *words]
        result = subprocess.run([*command, "--keys", "k.toml"], cwd=tmp_path, capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr

    code, key, told = run("create", "web site", "--requests-per-minute", "60")
    assert code == 0
    assert "cannot be shown again" in told
    assert Keys(tmp_path / "k.toml").find(key.strip()) is not None
    code, table, _ = run("list")
    key_id = key.split("-")[1]
    assert table.startswith(f"{key_id}  ")
    assert "60/min  valid" in table
    assert "web site" in table
    assert key.strip() not in table
    assert run("revoke", key_id)[0] == 0
    assert "revoked 20" in run("list")[1]
    code, _, told = run("revoke", "nobody")
    assert code == 2
    assert told.startswith("error: k.toml has no key 'nobody'")
