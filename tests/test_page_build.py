"""The build hook: the page comes into what is built, once per change, and never stops an installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import hatch_build
import pytest

from digits import ROOT

WRITE = """
import { mkdirSync, writeFileSync, appendFileSync } from "node:fs";
const out = "../src/transduce/serve/static/";
mkdirSync(out + "assets", { recursive: true });
writeFileSync(out + "index.html", "<!doctype html><title>small</title>");
writeFileSync(out + "assets/app-1.js", "export {}");
appendFileSync("../builds.txt", "x");
"""
PACKAGE = '{"name": "p", "version": "0.0.0", "private": true, "scripts": {"build": "node write.mjs"}}'
LOCK = """{"name": "p", "version": "0.0.0", "lockfileVersion": 3, "requires": true,
  "packages": {"": {"name": "p", "version": "0.0.0"}}}"""

needs_node = pytest.mark.skipif(
    not (hatch_build._system_node() or hatch_build._node_from_pypi()) and "CI" not in os.environ,
    reason="there is no Node here",
)


@pytest.fixture
def tree(tmp_path):
    """A project with a page of its own that needs nothing from npm's registry."""
    root = tmp_path / "tree"
    page = root / "page"
    page.mkdir(parents=True)
    (page / "write.mjs").write_text(WRITE)
    (page / "package.json").write_text(PACKAGE)
    (page / "package-lock.json").write_text(LOCK)
    shutil.copy(ROOT / "hatch_build.py", root)
    (root / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (root / "src" / "transduce" / "serve").mkdir(parents=True)
    (root / "src" / "transduce" / "__init__.py").write_text('__version__ = "0"\n')
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "transduce"\nversion = "0"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/transduce"]\n'
        '[tool.hatch.build.hooks.custom]\npath = "hatch_build.py"\n'
    )
    return root


def build(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`hatchling build`, as pip calls it."""
    command = [sys.executable, "-m", "hatchling", "build", *arguments]
    settings = {k: v for k, v in os.environ.items() if not k.startswith("TRANSDUCE_")} | environment
    return subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)


def names_in(root: Path) -> set[str]:
    """The files of the newest wheel in `dist`."""
    (wheel,) = (root / "dist").glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name}


STATIC = "transduce/serve/static/"


@needs_node
def test_a_wheel_carries_the_page_although_git_ignores_it(tree):
    done = build(tree, "--target", "wheel")
    assert done.returncode == 0, done.stderr
    assert {STATIC + "index.html", STATIC + "assets/app-1.js"} <= names_in(tree)


@needs_node
def test_the_page_is_built_once_per_change_of_its_sources(tree):
    def num_builds() -> int:
        assert hatch_build.build_page(tree) is None
        return len((tree / "builds.txt").read_text())

    assert [num_builds(), num_builds()] == [1, 1]
    (tree / "page" / "write.mjs").write_text(WRITE + "// changed\n")
    assert [num_builds(), num_builds()] == [2, 2]
    (tree / "page" / "node_modules" / "x").mkdir(parents=True)
    (tree / "page" / "node_modules" / "x" / "index.js").write_text("")
    assert num_builds() == 2, "what npm installs is not a source"
    (tree / "page" / "src").mkdir()
    (tree / "page" / "write.mjs").rename(tree / "page" / "src" / "write.mjs")
    assert not hatch_build.is_current(tree), "a file elsewhere is a change"


@needs_node
def test_a_source_distribution_is_built_without_node(tree):
    assert build(tree, "--target", "sdist").returncode == 0
    (archive,) = (tree / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tree / "unpacked", filter="data")
    (unpacked,) = (tree / "unpacked").iterdir()
    assert (unpacked / "page" / "write.mjs").is_file()
    done = build(unpacked, "--target", "wheel", PATH="")
    assert done.returncode == 0, done.stderr
    assert STATIC + "assets/app-1.js" in names_in(unpacked)


def test_the_page_can_be_left_out(tree):
    done = build(tree, "--target", "wheel", TRANSDUCE_NO_PAGE="1")
    assert done.returncode == 0, done.stderr
    assert names_in(tree) == {"transduce/__init__.py"}


def test_a_machine_without_node_gets_the_rest_and_the_reason(tree):
    done = build(tree, "--target", "wheel", PATH="")
    assert done.returncode == 0, done.stderr
    assert "The page was not built" in done.stderr + done.stdout
    assert names_in(tree) == {"transduce/__init__.py", STATIC + "not-built.txt"}
    assert "needs Node 20.19" in (tree / "src" / STATIC / "not-built.txt").read_text()


def test_a_release_fails_without_its_page(tree):
    done = build(tree, "--target", "wheel", PATH="", TRANSDUCE_REQUIRE_PAGE="1")
    assert done.returncode != 0
    assert "the page was not built: it needs Node" in done.stderr
    assert not (tree / "dist").exists() or not list((tree / "dist").glob("*.whl"))


@needs_node
def test_a_failed_build_keeps_the_older_page_and_is_tried_again(tree):
    assert hatch_build.build_page(tree) is None
    (tree / "page" / "write.mjs").write_text('throw new Error("Error: a comma is missing");')
    for _ in range(2):
        problem = hatch_build.build_page(tree)
        assert "`npm run build` failed" in problem
        assert "comma is missing" in problem
    assert (tree / "src" / STATIC / "index.html").is_file()
    assert not (tree / "src" / STATIC / "not-built.txt").exists()
    (tree / "page" / "write.mjs").write_text(WRITE)
    assert hatch_build.build_page(tree) is None


@needs_node
def test_a_registry_out_of_reach_is_told_by_name(tree, monkeypatch):
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tree / "cache"))
    monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
    address = "http://127.0.0.1:9/left-pad/-/left-pad-1.3.0.tgz"
    (tree / "page" / "package.json").write_text(PACKAGE[:-1] + ', "dependencies": {"left-pad": "1.3.0"}}')
    (tree / "page" / "package-lock.json").write_text(
        '{"name": "p", "version": "0.0.0", "lockfileVersion": 3, "requires": true, "packages": {'
        '"": {"name": "p", "version": "0.0.0", "dependencies": {"left-pad": "1.3.0"}},'
        f'"node_modules/left-pad": {{"version": "1.3.0", "resolved": "{address}"}}}}}}'
    )
    problem = hatch_build.build_page(tree)
    assert "`npm ci` failed" in problem
    assert "must reach its registry" in problem
    assert (tree / "src" / STATIC / "not-built.txt").read_text().strip() == problem


@pytest.mark.parametrize(
    ("version", "good"),
    [("v20.18.3", False), ("v20.19.0", True), ("v21.7.1", False), ("v22.11.0", False), ("v24.1.0", True)],
)
def test_an_old_node_is_not_taken(tmp_path, monkeypatch, version, good):
    for name in ("node", "npm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert (hatch_build._system_node() == tmp_path / "node") is good
