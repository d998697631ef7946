"""The wheel of a clean tree holds the page, and serves it where there is no Node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from digits import ROOT
from served_models import write_model
from serving import serving

pytestmark = pytest.mark.slow
STATIC = "transduce/serve/static/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from nothing but what git knows: no built page, no `node_modules`."""
    tree = tmp_path_factory.mktemp("clean") / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    settings = os.environ | {"TRANSDUCE_REQUIRE_PAGE": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    done = subprocess.run(command, cwd=tree, env=settings, capture_output=True, text=True)
    if "npm must reach its registry" in done.stderr and "CI" not in os.environ:
        pytest.skip("npm's registry cannot be reached")
    assert done.returncode == 0, done.stderr
    (built,) = (tree / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_page(wheel):
    """Every file that the page's own HTML asks for, and the licence of what is in it."""
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    page = [name for name in names if name.startswith(STATIC)]
    html = archive.read(STATIC + "index.html").decode()
    asked = re.findall(r'(?:src|href)="\./([^"]+)"', html)
    assert len(asked) >= 2
    assert {STATIC + name for name in asked} <= names
    assert {Path(name).suffix for name in page} >= {".html", ".js", ".css"}
    licences = archive.read(STATIC + "licences.txt").decode()
    assert "svelte\n\n" in licences
    assert "MIT" in licences
    assert STATIC + "not-built.txt" not in names
    assert not [name for name in names if "node_modules" in name or name.startswith("page/")]


def test_a_fresh_environment_without_node_serves_it(wheel, tmp_path):
    """Installed from the wheel alone; what it depends on is lent by the environment of the tests."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    ]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    folder = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (folder / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    model = write_model(tmp_path / "model")
    settings = {"PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    where = subprocess.run(
        [python, "-c", "import transduce; print(transduce.__file__)"],
        cwd=tmp_path, env=settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(tmp_path)), "the wheel's package, not the checkout's"
    program = tmp_path / "venv" / "bin" / "transduce"
    with serving([program, "serve", model], log=tmp_path / "log", cwd=tmp_path, env=settings) as address:
        html = urllib.request.urlopen(f"{address}/").read().decode()
        asked = re.findall(r'(?:src|href)="\./([^"]+)"', html)
        assert any(name.endswith(".js") for name in asked)
        for name in asked:
            with urllib.request.urlopen(f"{address}/{name}") as answer:
                assert answer.status == 200
                assert answer.read() == zipfile.ZipFile(wheel).read(STATIC + name)
