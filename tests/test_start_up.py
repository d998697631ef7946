"""From the command to the first translation: nothing is loaded that an exported model does not need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from transduce.export.ctranslate2 import export_ctranslate2
from transduce.translate.model_directory import ModelDirectory

# Not pydantic: Typer itself reads arguments with it, in its newer releases.
HEAVY = [
    "torch",
    "sacrebleu",
    "safetensors",
    "jaxtyping",
    "lxml",
    "transduce.recipe",
    "transduce.model.config",
]
PROGRAM = (
    "import sys, json\n"
    "from transduce.cli import main\n"
    "try:\n    main()\nexcept SystemExit as left:\n    code = left.code\n"
    f"print(json.dumps([code, [m for m in {HEAVY} if m in sys.modules]]), file=sys.stderr)\n"
)


@pytest.fixture(scope="module")
def exported(digit_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "model"
    shutil.copytree(digit_run / "model", path)
    export_ctranslate2(ModelDirectory(path), quantization="int8")
    return path


def test_an_exported_model_translates_without_anything_heavy(exported):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "translate", str(exported)],
        input="one two three\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "eins zwei drei\n"
    assert json.loads(result.stderr.splitlines()[-1]) == [0, []]


def test_loading_an_export_needs_no_pydantic(exported):
    code = (
        f"import sys, transduce\nt = transduce.load({str(exported)!r})\n"
        f"heavy = {[*HEAVY, 'pydantic', 'rich', 'typer']}\n"
        "print(t.translate('one')[0].text, [m for m in heavy if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "eins []\n"


def test_an_export_alone_is_enough(exported, tmp_path):
    """Without weights and recipe: what a person would copy to another machine."""
    small = tmp_path / "small"
    small.mkdir()
    shutil.copytree(exported / "ct2", small / "ct2")
    shutil.copyfile(exported / "tokenizer.model", small / "tokenizer.model")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "translate", str(small)],
        input="one two three\n\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "eins zwei drei\n\n"
