"""The walls between the rooms: imports (import-linter) and words that a room must not know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "transduce"

FORBIDDEN_WORDS = {
    "text": r"\btorch\b|\blogits\b",
    "evaluate": r"\btorch\b",
    "batch": r"\bnn\.|\bloss_fn\b|import .*\bmodel\b",
    "model": r"\bopen\(|\brank\b|\.cuda\b|\bbeam|\boptim\b|\bPath\b",
    "search": r"\bnn\.Module\b|\bpiece\b.*\bstr\b|\bopen\(",
    "train": r"\bbeam|\bsacrebleu\b|\bhttp",
    "lens": r"\bhttp|\bfastapi\b|\boptim\b|\brequest\.url\b|\bbackward\b",
}


@pytest.mark.parametrize("room", FORBIDDEN_WORDS)
def test_a_room_does_not_use_words_it_must_not_know(room):
    pattern = re.compile(FORBIDDEN_WORDS[room])
    for file in (SOURCE / room).glob("*.py"):
        code = re.sub(r'""".*?"""|#[^\n]*|"[^"\n]*"', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        found = pattern.search(code)
        assert found is None, f"{room}/{file.name} says {found and found[0]!r}"


def test_the_model_does_not_know_that_it_is_looked_into():
    """What looks in uses hooks and the observer that attention has for anybody."""
    for file in (SOURCE / "model").glob("*.py"):
        code = file.read_text(encoding="utf-8")
        found = re.search(r"\blens\b|\btrace\b|ablat|what.if", code, flags=re.IGNORECASE)
        assert found is None, f"model/{file.name} says {found and found[0]!r}"


def test_imports_run_downhill():
    command = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([command], cwd=SOURCE.parents[1], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "module",
    [
        "transduce",
        "transduce.recipe",
        "transduce.translate.translator",
        "transduce.translate.folders",
        "transduce.cli",
    ],
)
def test_what_serves_without_torch_does_not_import_it(module):
    code = f"import sys, {module}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_no_pickle_anywhere():
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        # Other people's pickles are read by torch's loader that runs no code from them, or not at all.
        text = re.sub(r"torch\.load\([^()]*weights_only=True\)|pickle\.UnpicklingError", "", text)
        assert not re.search(r"from pickle|pickle\.\w|torch\.(load|save)\(|allow_pickle=True", text), file


def test_lines_are_split_in_one_place_only():
    """`splitlines` also splits at U+2028 (TRAPS, users 27)."""
    for room in ("text", "translate", "batch"):
        for file in (SOURCE / room).rglob("*.py"):
            code = re.sub(r'r?""".*?"""', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
            assert ".splitlines(" not in code, file


def test_files_stay_rooms_and_functions_stay_on_a_screen():
    import ast

    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 420, f"{file} is {text.count(chr(10))} lines long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = node.end_lineno - node.lineno + 1
                assert length <= 70, f"{file.name}:{node.name} is {length} lines long"
