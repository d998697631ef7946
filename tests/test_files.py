"""Files that are whole or not there."""

from __future__ import annotations

import os
import stat

from transduce.files import atomic_directory, atomic_file, clear_leftovers


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_leftovers_go_at_any_depth_and_nothing_else(tmp_path):
    kept = ["a", "a/.lock", "a/.keep.tmp", "a/.x.short.tmp", "a/notes.ab12cd_9.tmp", "a/b"]
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in kept[1:-1]:
        (tmp_path / name).write_text("mine")
    (tmp_path / "a" / "b" / ".file.json.ab12cd_9.tmp").write_text("half")
    nested = tmp_path / "a" / ".whole.ab12cd_9.tmp"
    nested.mkdir()
    (nested / ".inner.zz99__00.tmp").write_text("half")
    clear_leftovers(tmp_path)
    assert tree(tmp_path) == sorted(kept)


def test_what_was_moved_aside_comes_back_unless_it_was_replaced(tmp_path):
    for name in ("lost", "replaced"):
        aside = tmp_path / f".{name}.ab12cd_9.old" / name
        aside.mkdir(parents=True)
        (aside / "file").write_text("old")
    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "file").write_text("new")
    (tmp_path / ".empty.ab12cd_9.old").mkdir()  # killed before it was moved
    clear_leftovers(tmp_path)
    assert tree(tmp_path) == ["lost", "lost/file", "replaced", "replaced/file"]
    assert (tmp_path / "lost" / "file").read_text() == "old"
    assert (tmp_path / "replaced" / "file").read_text() == "new"


def test_a_directory_that_is_not_there_has_no_leftovers(tmp_path):
    clear_leftovers(tmp_path / "none")
    assert tree(tmp_path) == []


def test_what_is_written_has_the_permissions_of_the_umask(tmp_path):
    """Also what a library wrote for its owner alone: a service runs as another user."""
    before = os.umask(0o027)
    try:
        with atomic_directory(tmp_path / "model") as place:
            (place / "ct2").mkdir()
            (place / "ct2" / "model.bin").touch(mode=0o600)
        with atomic_file(tmp_path / "card.md") as stream:
            stream.write(b"card")
        with atomic_file(tmp_path / "keys.toml", 0o600) as stream:
            stream.write(b"keys")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in tree(tmp_path)}
    assert modes.pop("keys.toml") == 0o600
    assert {name for name, mode in modes.items() if mode != 0o640} == {"model", "model/ct2"}
    assert modes["model"] == 0o750
