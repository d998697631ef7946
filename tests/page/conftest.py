"""A browser, a model trained on real text, a server as a person starts it, and a reader."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hatch_build
import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from digits import ROOT
from page.reader import Reader, sit_down
from page.real_model import train_real_model
from serving import serving

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the browser is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def missing(what: str) -> None:
    """Skip on a developer's machine; fail where everything must be tested."""
    if "CI" in os.environ:
        pytest.fail(what)
    pytest.skip(what)


# While Playwright's synchronous form runs, no other test could run an event loop of its own: it ends with
# this package's tests.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium without a head, with a profile of its own, asking nobody for anything."""
    if CHROMIUM is None:
        missing("there is no Chromium here: apt-get install chromium fonts-noto-cjk")
    quiet = [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM, args=quiet, chromium_sandbox=os.geteuid() != 0
    )
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def built_page() -> None:
    """The page as its sources are now."""
    problem = hatch_build.build_page(ROOT)
    if problem:
        missing(f"the page is not built: {problem}")


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory, write_pairs) -> Path:
    """A finished run; TRANSDUCE_PAGE_RUN names one that was trained before by the same settings."""
    given = os.environ.get("TRANSDUCE_PAGE_RUN")
    return Path(given) if given else train_real_model(tmp_path_factory.mktemp("real"), write_pairs)


@pytest.fixture(scope="session")
def serve(built_page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start a server of a run with more options; returns its address; all stop at the end."""
    with ExitStack() as stack:

        def start(*arguments: str | Path) -> str:
            command = [sys.executable, "-c", "from transduce.cli import main; main()", "serve", *arguments]
            log = tmp_path_factory.mktemp("server") / "log.txt"
            return stack.enter_context(serving(command, log=log))

        yield start


@pytest.fixture(scope="session")
def address(request: pytest.FixtureRequest, real_run: Path) -> str:
    """The server of the real model; TRANSDUCE_PAGE_ADDRESS names one that already runs."""
    given = os.environ.get("TRANSDUCE_PAGE_ADDRESS")
    return given or request.getfixturevalue("serve")(real_run, "--engine", "torch")


@pytest.fixture
def sit(chromium: Browser, address: str) -> Iterator[Callable[..., Reader]]:
    """Open a tab: `sit(width=390, …)`; at the end nothing may have gone wrong in any.

    `allow` names errors that a test brings about.
    """
    readers: list[tuple[Reader, tuple[str, ...]]] = []

    def opened(
        width: int = 1280, height: int = 900, at: str = address, allow: tuple[str, ...] = (), **options: Any
    ) -> Reader:
        settings = {"locale": "en-GB", "accept_downloads": True, **options}
        context = chromium.new_context(viewport={"width": width, "height": height}, **settings)
        reader = sit_down(context, at)
        readers.append((reader, allow))
        return reader

    yield opened
    for reader, allow in readers:
        violations = [] if reader.page.is_closed() else reader.violations
        errors = [error for error in reader.errors if not any(word in error for word in allow)]
        reader.context.close()
        assert (reader.foreign, errors, violations) == ([], [], [])


@pytest.fixture
def reader(sit: Callable[..., Reader]) -> Reader:
    """A tab at a desk."""
    return sit()
