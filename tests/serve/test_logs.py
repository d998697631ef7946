"""The log: one object a line, whatever is in it; each line of a request with its id."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re

import pytest

from transduce.serve.logs import LOGGER_NAMES, request_id, set_up_logs


@pytest.fixture
def written():
    """Set the log up on a stream, and put everything back afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGER_NAMES]
    before = [(logger.handlers[:], logger.propagate, logger.level) for logger in loggers]

    def set_up(plain=False):
        stream = io.StringIO()
        set_up_logs(stream, plain=plain)
        return stream

    yield set_up
    logging.captureWarnings(False)
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate, logger.level = handlers, propagate, level


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_a_record_is_one_line_of_json(written):
    stream = written()
    log = logging.getLogger("transduce.test")
    log.info("two\nlines %s", '"quoted"', extra={"fields": {"path": "/a\nb", "status": 200}})
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("failed")
    first, second = lines(stream)
    assert first["message"] == 'two\nlines "quoted"'
    assert (first["level"], first["path"], first["status"]) == ("info", "/a\nb", 200)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert "request_id" not in first
    assert "ValueError: wrong" in second["traceback"]


def test_lines_have_the_id_of_their_own_request(written):
    stream = written()

    async def serve(own):
        request_id.set(own)
        for _ in range(3):
            logging.getLogger("transduce.test").info(own)
            await asyncio.sleep(0)

    async def scenario():
        await asyncio.gather(*(asyncio.create_task(serve(f"request-{n}")) for n in range(5)))

    asyncio.run(scenario())
    found = lines(stream)
    assert len(found) == 15
    assert all(line["request_id"] == line["message"] for line in found)


def test_plain_lines_for_a_person(written):
    stream = written(plain=True)
    logging.getLogger("transduce.test").warning("look", extra={"fields": {"status": 404}})
    assert re.fullmatch(r"\S+Z warning look status=404\n", stream.getvalue())
