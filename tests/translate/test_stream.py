"""N lines in, N lines out, in order, as soon as they are ready, in constant memory."""

from __future__ import annotations

import itertools
import queue
import threading
import time

import pytest

from transduce.errors import DataError
from transduce.translate.stream import translate_lines, windows


class Echo:
    """Stands for a translator: gives each text back, and notes how many came together."""

    def __init__(self):
        self.sizes = []

    def translate(self, texts, **options):
        self.sizes.append(len(texts))
        return [f"<{text}>" for text in texts]


def test_order_and_number_are_kept():
    lines = [f"{i}" for i in range(5000)]
    echo = Echo()
    out = list(translate_lines(echo, lines, window_lines=100))
    assert out == [(line, f"<{line}>") for line in lines]
    assert max(echo.sizes) == 100
    assert sum(echo.sizes) == 5000


def test_a_single_line_comes_back_before_the_next_is_there():
    """A person at a pipe: the answer to line 1 must not wait for line 2."""
    typed: queue.Queue[str | None] = queue.Queue()
    stream = translate_lines(Echo(), iter(typed.get, None))
    for line in ("a", "b"):
        typed.put(line)
        assert next(stream) == (line, f"<{line}>")
    typed.put(None)
    assert list(stream) == []


def test_endless_input_is_read_a_window_ahead_and_no_more():
    taken = 0

    def endless():
        nonlocal taken
        for i in itertools.count():
            taken += 1
            yield str(i)

    stream = windows(endless(), 10)
    for _ in range(20):
        next(stream)
    time.sleep(0.1)
    assert taken <= 20 * 10 + 10 + 2
    stream.close()


def test_long_lines_close_a_window_early():
    sizes = [len(window) for window in windows(["x" * 600_000] * 6, 100)]
    assert sum(sizes) == 6
    assert max(sizes) == 2


def test_an_error_in_the_input_comes_after_what_was_before_it():
    def lines():
        yield "a"
        yield "b"
        raise DataError("in.txt:3: byte 0xff")

    stream = translate_lines(Echo(), lines())
    assert [line for line, _ in itertools.islice(stream, 2)] == ["a", "b"]
    with pytest.raises(DataError, match=r"in\.txt:3"):
        next(stream)


def test_the_reader_ends_when_nobody_listens():
    before = threading.active_count()
    stream = windows(map(str, itertools.count()), 5)
    next(stream)
    stream.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_no_lines():
    assert list(translate_lines(Echo(), [])) == []


def test_patient_windows_depend_on_the_lines_alone():
    def slow():
        for i in range(25):
            if i % 4 == 0:
                time.sleep(0.05)  # longer than an impatient window stays open
            yield str(i)

    assert [len(window) for window in windows(slow(), 10, patient=True)] == [10, 10, 5]


@pytest.mark.parametrize("skip", [0, 1, 9, 10, 11, 24, 25, 26])
def test_lines_that_are_done_are_passed_over_and_windows_stay_as_they_were(skip):
    lines = [str(i) for i in range(25)]
    echo, told = Echo(), []
    out = list(translate_lines(echo, lines, window_lines=10, patient=True, skip=skip, progress=told.append))
    assert out == [(line, f"<{line}>") for line in lines[skip:]]
    assert echo.sizes == [10, 10, 5][skip // 10 if skip < 25 else 3 :]
    assert told == [10, 20, 25]
