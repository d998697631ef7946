"""Walls of the text room: no torch, no `splitlines`, public names that exist, imports that are light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import transduce.text

ROOM = Path(transduce.text.__file__).parent


def test_every_public_name_exists() -> None:
    for name in transduce.text.__all__:
        assert getattr(transduce.text, name).__name__ == name


def test_no_file_uses_splitlines() -> None:
    assert [file.name for file in ROOM.glob("*.py") if "splitlines" in file.read_text(encoding="utf-8")] == []


def test_the_room_loads_no_torch_and_its_door_nothing() -> None:
    script = (
        "import sys, transduce.text; heavy = {'sentencepiece', 'lxml', 'numpy', 'zstandard', 'torch'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "[getattr(transduce.text, name) for name in transduce.text.__all__];"
        "assert 'sentencepiece' in sys.modules; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
