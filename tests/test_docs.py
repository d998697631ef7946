"""Commands and code in README and docs run, in a directory like the reader's."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from digits import ROOT, TINY_SETTINGS, digit_pairs
from live_server import live_server

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_HERE = ("make ", "pip ", "python3 -m venv", "transduce quickstart")  # CI and other tests run these

HERE = "http://127.0.0.1:8000"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands() -> list:
    found = []
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                command = line.split("  #")[0].strip()
                if command and not command.startswith(NOT_HERE):
                    found.append(pytest.param(command, id=f"{page.stem}: {command[:60]}"))
    return found


@pytest.fixture(scope="module")
def desk(tmp_path_factory, digit_run, write_pairs):
    """What the reader has: train, valid and test files, some documents, a finished run, a recipe."""
    directory = tmp_path_factory.mktemp("desk")
    for name, count, seed in (("train", 300, 0), ("valid", 20, 1), ("test", 20, 2)):
        write_pairs(directory / name, digit_pairs(count, seed))
    (directory / "site" / "help").mkdir(parents=True)
    (directory / "site" / "index.html").write_text("<h1>one two</h1><p>three <b>four</b> five</p>\n")
    (directory / "site" / "help" / "start.md").write_text("# One two\n\nThree *four* `five`.\n")
    (directory / "app.po").write_text('msgid "one two"\nmsgstr ""\n')
    (directory / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\n<i>one</i> two\n")
    (directory / "runs").mkdir()
    shutil.copytree(digit_run, directory / "runs" / "en-de")
    shutil.copytree(digit_run, directory / "runs" / "quickstart-de")
    tables: dict[str, list[str]] = {"data": ['source = "train.en"', 'target = "train.de"']}
    for setting in TINY_SETTINGS:
        path, _, value = setting.partition("=")
        room, field = path.split(".")
        text = value if re.fullmatch(r"[\d.e-]+", value) else f'"{value}"'
        tables.setdefault(room, []).append(f"{field} = {text}")
    recipe = "".join(f"[{room}]\n" + "\n".join(lines) + "\n" for room, lines in tables.items())
    (directory / "recipe.toml").write_text(recipe)
    return directory


@pytest.fixture(scope="module")
def server_url(desk):
    """Where the reader's server listens."""
    with live_server(desk / "runs" / "en-de") as server:
        yield server.url


@pytest.mark.parametrize("command", commands())
def test_every_command_runs(command, desk, tmp_path, request, monkeypatch):
    """Training runs get two updates of a tiny model and a directory of their own; servers a free port, and
    are stopped when they are ready; nothing else is changed.
    """
    if command.startswith("transduce serve"):
        monkeypatch.chdir(desk)
        with live_server(*shlex.split(command)[2:]) as server:
            assert server.stop() == 0
        return
    if HERE in command:
        command = command.replace(HERE, request.getfixturevalue("server_url"))
        command = command.replace("curl ", "curl --fail-with-body ")
    if command.startswith("transduce train"):
        command = re.sub(r"--out \S+", f"--out {tmp_path / 'run'}", command)
        command = re.sub(r"--preset \S+", "", command)
        own = [*TINY_SETTINGS, "train.max_steps=2", "train.validate_sentences=5", "search.max_extra_len=5"]
        command += "".join(f" --set {setting}" for setting in own)
    program = f"{Path(sys.executable).parent / 'transduce'} "
    command = re.sub(r"\btransduce (?=\w)", program, command)
    result = subprocess.run(
        ["bash", "-ceu", "-o", "pipefail", command], cwd=desk, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"{page.stem} {n}")
        for page in PAGES
        for n, code in enumerate(blocks(page, "python"))
    ],
)
def test_every_python_block_runs(code, desk, monkeypatch, request):
    if HERE in code:
        code = code.replace(HERE, request.getfixturevalue("server_url"))
    monkeypatch.chdir(desk)
    exec(compile(code, "docs", "exec"), {})


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
