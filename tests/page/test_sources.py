"""The page's own tests and its types, and what it weighs."""

from __future__ import annotations

import gzip
import os
import subprocess

import hatch_build
import pytest

from digits import ROOT
from transduce.serve.static_page import STATIC, read_static

PAGE = ROOT / "page"
MOST_BYTES = 150_000


@pytest.mark.parametrize("script", ["test", "check"])
def test_the_pages_own_checks_pass(built_page, script):
    """vitest and svelte-check, which run without a browser."""
    node = hatch_build._system_node() or hatch_build._node_from_pypi()
    if node is None or not (PAGE / "node_modules").is_dir():
        pytest.skip("the page was built elsewhere; its tools are not here")
    path = os.pathsep.join([str(node.parent), os.environ["PATH"]])
    done = subprocess.run(
        [*hatch_build._npm_of(node), "run", script],
        cwd=PAGE, env=os.environ | {"PATH": path}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_all_of_the_page_is_under_150_kb(built_page):
    files = read_static(STATIC)
    sizes = {name: len(gzip.compress(file.content)) for name, file in files.items()}
    assert sum(sizes.values()) <= MOST_BYTES, sizes
