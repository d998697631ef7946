"""What a test knows of a sentence without the page: its trace by the API, its numbers by plain torch."""

from __future__ import annotations

import csv
import io
import json
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from page.real_model import NUM_HEADS
from page.recompute import Recomputed

SENTENCES = [
    "Turn on the light.",
    "The door of the kitchen is open.",
    "The password is wrong, please try again.",
    "The device could not be reached because it is switched off.",
    "Enter the name of your new device.",
    "Do you want to delete this account?",
    "Battery",
    "The sensor 感測器 is not available 🙂.",
    "The temperature in the living room is 21.5 degrees.",
    "Press the button twice, then wait for the light to blink.",
]


def fetch(address: str, path: str) -> Any:
    """The JSON answer of the API."""
    with urllib.request.urlopen(f"{address}/api/v1/{path}") as answer:
        return json.load(answer)


def fetch_bytes(address: str, path: str) -> bytes:
    """The tensors of an answer, as they are sent."""
    asked = urllib.request.Request(
        f"{address}/api/v1/{path}", headers={"accept": "application/x-safetensors"}
    )
    with urllib.request.urlopen(asked) as answer:
        return answer.read()


@dataclass
class Known:
    """One trace."""

    address: str
    model: Path
    id: str

    @cached_property
    def trace(self) -> dict[str, Any]:
        return fetch(self.address, f"traces/{self.id}")

    @property
    def source(self) -> list[int]:
        return [token["id"] for token in self.trace["src"]]

    @property
    def target(self) -> list[int]:
        """What the decoder read: without the token that it wrote last."""
        return [token["id"] for token in self.trace["tgt"]][: self.trace["rows"]["decoder"]]

    @cached_property
    def numbers(self) -> Recomputed:
        return Recomputed(self.model, NUM_HEADS, self.source, self.target)


def download(page: Page, button: Locator) -> tuple[str, bytes]:
    """Press a button that saves a file; its name and content."""
    with page.expect_download() as waiting:
        button.click()
    path = waiting.value.path()
    return waiting.value.suggested_filename, Path(path).read_bytes()


def read_csv(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def value_of(locator: Locator) -> float:
    """The unrounded number behind what is shown."""
    return float(locator.get_attribute("data-value"))
