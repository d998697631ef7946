"""A person at a browser: opens views, chooses a language and a theme, and notices what goes wrong."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, Page, Route

from digits import ROOT

LANGUAGES = ("en", "zh-Hant", "zh-Hans")
THEMES = ("light", "dark")
VIEWS = (
    "translate",
    "story",
    "architecture",
    "attention",
    "positions",
    "shapes",
    "decoding",
    "training",
    "code",
)
WIDTHS = (1280, 390)
ADDRESS_FOLLOWS_MS = 400


def catalogue(language: str) -> dict[str, str]:
    """The page's words in a language, by `file.key`."""
    files = sorted((ROOT / "page" / "src" / "i18n" / language).glob("*.json"))
    rooms = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return {f"{room}.{key}": text for room, texts in rooms.items() for key, text in texts.items()}


LOADING = [catalogue(language).get("common.loading", "") for language in LANGUAGES]

# Violations of the content security policy reach the page as events; a test reads them at its end.
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation',
  (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
QUIET = """
(loading) => document.querySelector('h1') && !document.querySelector('[aria-busy=true]')
  && ![...document.querySelectorAll('[role=status]')].some((e) => loading.includes(e.textContent.trim()))
"""

# What is drawn takes its size from its labels', which a browser measures before it paints the next frame.
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Reader:
    """One tab; nothing but the server on this machine answers it."""

    context: BrowserContext
    page: Page
    address: str
    foreign: list[str] = field(default_factory=list)
    """Requests that wanted to leave the machine; each was stopped."""
    errors: list[str] = field(default_factory=list)
    """What the page threw, or wrote to the console as an error."""

    def go(self, view: str, **params: Any) -> Page:
        """Open a view by its address, as from a bookmark, and wait until it shows what it has."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/{_hash(view, params)}")
        self.settle()
        return self.page

    def move(self, view: str, **params: Any) -> Page:
        """Go to a view as by a link in the page, which loads nothing anew."""
        self.page.evaluate("hash => { location.hash = hash }", _hash(view, params))
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until nothing loads and nothing says that it is busy."""
        self.until(QUIET, LOADING)
        self.page.wait_for_load_state("networkidle")
        self.until(QUIET, LOADING)
        self.page.evaluate(PAINTED)

    def until(self, holds: str, arg: Any = None) -> None:
        """Wait for a JavaScript function to return something true.

        The page's policy forbids evaluating text, so an expression could be asked once only: a function is
        made once and called again and again.
        """
        assert "=>" in holds, f"not a function: {holds}"
        self.page.wait_for_function(holds, arg=arg)

    def write(self, text: str) -> None:
        """Type a sentence where sentences are typed, and look at what the model makes of it."""
        box = self.page.locator("main form textarea, main form input[type=text]").first
        box.fill(text)
        box.press("Enter")
        self.settle()

    def choose(self, *, language: str | None = None, theme: str | None = None) -> None:
        """Switch by the page's own controls, wherever they are hidden."""
        for value in filter(None, (language, theme)):
            choice = f"input[type=radio][value='{value}']"
            self.page.evaluate("choice => document.querySelector(choice).click()", choice)

    def await_address(self, pattern: str) -> None:
        """Wait until the address says so: it follows what is done a moment later."""
        self.page.wait_for_url(re.compile(pattern), timeout=5000)

    @property
    def violations(self) -> list[str]:
        """What the content security policy stopped."""
        return self.page.evaluate("window.violations ?? []")

    @property
    def trace_id(self) -> str:
        """The trace that the page shows, from its address once that has followed."""
        self.page.wait_for_timeout(ADDRESS_FOLLOWS_MS)
        found = re.search(r"[?&]trace=([^&]+)", self.page.url)
        assert found, f"no trace in {self.page.url}"
        return found[1]


def _hash(view: str, params: dict[str, Any]) -> str:
    return f"#/{view}?{urlencode(params)}" if params else f"#/{view}"


def sit_down(context: BrowserContext, address: str) -> Reader:
    """Open a tab in which every request off this machine is stopped and written down."""
    context.add_init_script(WATCH)
    page = context.new_page()
    reader = Reader(context, page, address)

    def guard(route: Route) -> None:
        url = route.request.url
        if url.startswith((f"{address}/", "data:", "blob:", "file:")):
            route.continue_()
        else:
            reader.foreign.append(url)
            route.abort()

    context.route("**/*", guard)
    page.on("pageerror", lambda error: reader.errors.append(f"thrown: {error}"))
    page.on("console", lambda said: reader.errors.append(said.text) if said.type == "error" else None)
    return reader
