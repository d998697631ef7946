"""12. When something fails: a clear word in the reader's language, a retry that works, nothing half drawn."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest
from playwright.sync_api import Error

from page.known import SENTENCES
from page.reader import LANGUAGES, catalogue
from serving import free_port, serving

NETWORK = ("Failed to load resource", "net::ERR")


def problem(status, kind, detail, **headers):
    """An answer as the server gives it (RFC 9457)."""
    body = {"type": f"/problems/{kind}", "title": kind, "status": status, "detail": detail}
    return {
        "status": status,
        "body": json.dumps(body),
        "headers": {"content-type": "application/problem+json", **headers},
    }


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("answer", "key"),
    [
        (problem(413, "too-long", "the text has 2300 characters, 2000 are allowed"), "problem.tooLong"),
        (problem(422, "invalid", "the text holds a NUL"), "problem.invalid"),
        (problem(429, "busy", "8 wait already", **{"retry-after": "7"}), "problem.busy"),
        (problem(500, "server", "an unforeseen error"), "problem.server"),
        (problem(503, "not-ready", "the model is being loaded"), "problem.notReady"),
        ({"status": 502, "body": "<html>Bad gateway</html>"}, "problem.unreachable"),
    ],
)
def test_a_refusal_is_said_in_the_readers_words_and_a_retry_works(sit, answer, key, language):
    reader = sit(allow=NETWORK)
    page = reader.go("translate")
    reader.choose(language=language)
    before = page.locator("section.result").inner_text()
    page.route("**/api/v1/traces", lambda route: route.fulfill(**answer))
    reader.write(SENTENCES[1])
    alert = page.get_by_role("alert")
    expected = (
        catalogue(language)[key]
        .replace("{seconds}", "7")
        .replace("{status}", str(answer["status"]))
        .replace("`", "")
    )
    assert expected in alert.inner_text()
    assert "Traceback" not in alert.inner_text()
    assert "<html>" not in alert.inner_text()
    assert page.locator("#sentence").input_value() == SENTENCES[1], "what was typed stays"
    page.unroute("**/api/v1/traces")
    alert.get_by_role("button").click()
    reader.settle()
    assert page.get_by_role("alert").count() == 0
    assert page.locator("section.result").inner_text() != before


@pytest.mark.parametrize("view", ["attention", "decoding", "shapes"])
def test_a_part_that_fails_says_so_in_its_place(sit, view):
    """The rest of the view stays, and the retry asks again."""
    reader = sit(allow=NETWORK)
    page = reader.go("translate")
    parts = "**/api/v1/traces/*/*"
    page.route(parts, lambda route: route.fulfill(**problem(503, "busy", "eight others are looking")))
    reader.move(view)
    alerts = page.get_by_role("alert")
    assert alerts.count() >= 1
    assert page.locator("h1").is_visible()
    page.unroute(parts)
    while alerts.count():
        alerts.first.get_by_role("button").click()
        reader.settle()
    assert page.locator("main").inner_text().strip()


def test_a_server_that_stops_and_comes_back(sit, real_run, tmp_path):
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from transduce.cli import main; main()",
        "serve",
        real_run,
        "--engine",
        "torch",
    ]
    with serving(command, log=tmp_path / "one", port=port) as address:
        reader = sit(at=address, allow=NETWORK)
        page = reader.go("translate")
        reader.write(SENTENCES[0])
        shown = page.locator("section.result").inner_text()
        assert shown
    reader.write(SENTENCES[1])
    assert catalogue("en")["problem.unreachable"].replace("`", "") in page.get_by_role("alert").inner_text()
    with serving(command, log=tmp_path / "two", port=port):
        page.get_by_role("alert").get_by_role("button").click()
        reader.settle()
        assert page.get_by_role("alert").count() == 0
        assert page.locator("section.result").inner_text() != shown


def test_a_slow_answer_can_be_stopped_and_the_old_one_stays(reader):
    page = reader.go("translate")
    before = page.locator("section.result").inner_text()
    held = []
    page.route("**/api/v1/traces", lambda route: held.append(route))
    page.locator("#sentence").fill(SENTENCES[2])
    page.locator("#sentence").press("Enter")
    page.get_by_role("button", name="Stop").wait_for()
    assert page.locator("main").get_attribute("aria-busy") == "true"
    page.get_by_role("button", name="Stop").click()
    reader.settle()
    assert page.locator("section.result").inner_text() == before
    assert page.get_by_role("alert").count() == 0
    page.unroute("**/api/v1/traces")


def test_the_newest_question_wins(reader):
    """Two in a row, the first answered last: the page shows the second."""
    page = reader.go("translate")
    held = []
    page.route("**/api/v1/traces", lambda route: held.append(route) if not held else route.continue_())
    for text in SENTENCES[1:3]:
        page.locator("#sentence").fill(text)
        page.locator("#sentence").press("Enter")
        page.wait_for_timeout(50)
    reader.settle()
    shown = page.locator("section.result").inner_text()
    with suppress(Error):  # the page has given the first request up
        held[0].continue_()
    page.wait_for_timeout(300)
    reader.settle()
    assert page.locator("section.result").inner_text() == shown
    assert page.locator("#sentence").input_value() == SENTENCES[2]


def test_two_tabs_do_not_mix(sit):
    one, two = sit(), sit()
    for reader, text in ((one, SENTENCES[0]), (two, SENTENCES[1]), (one, SENTENCES[4])):
        if reader.page.url == "about:blank":
            reader.go("translate")
        reader.write(text)
    assert one.page.locator("#sentence").input_value() == SENTENCES[4]
    assert two.page.locator("#sentence").input_value() == SENTENCES[1]
    assert one.trace_id != two.trace_id


def test_a_refresh_while_it_decodes_shows_the_sentence_again(sit):
    reader = sit(allow=NETWORK)
    page = reader.go("attention")
    reader.write(SENTENCES[3])
    page.locator("main form input[type=text]").press("Enter")
    page.reload()
    reader.settle()
    assert page.get_by_role("alert").count() == 0
    assert page.locator("main form input[type=text]").input_value() == SENTENCES[3]
    assert page.get_by_role("grid").first.is_visible()
