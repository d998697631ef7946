"""Contract 1, lines: only LF ends a line, N lines in are N lines out, damage is named and placed."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.text import count_lines, iter_lines, open_bytes, read_lines

CONTENT = "a\u2028b\u2029c\x85d\re\x00f\x0bg\x0ch\x1ci\x1dj\x1ek\tl"

line_content = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8)


def lines_of(content: bytes, **options) -> list[str]:
    return list(iter_lines(io.BytesIO(content), "stdin", **options))


@given(st.lists(line_content, max_size=6))
def test_joined_lines_come_back(lines: list[str]) -> None:
    content = b"".join(line.encode() + b"\n" for line in lines)
    expected = [line.removesuffix("\r") for line in lines]
    if expected and content.startswith(b"\xef\xbb\xbf"):
        expected[0] = lines[0].removeprefix("\ufeff").removesuffix("\r")
    assert lines_of(content) == expected


@given(st.lists(line_content, max_size=6), st.booleans(), st.sampled_from(["", ".gz", ".zst"]))
def test_files_of_every_kind_hold_and_count_the_same_lines(tmp_path_factory, lines, end, suffix) -> None:
    content = "\n".join(lines).encode() + b"\n" * end
    path = tmp_path_factory.mktemp("lines") / f"text{suffix}"
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix]
    path.write_bytes(pack(content))
    assert list(read_lines(path)) == lines_of(content)
    assert count_lines(path) == len(lines_of(content))


def test_only_line_feed_ends_a_line() -> None:
    assert lines_of(f"{CONTENT}\nz".encode()) == [CONTENT, "z"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\r\n\r\n", ["a", "b\r", ""]),
        (b"a\r", ["a"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b" \t \n", [" \t "]),
    ],
)
def test_line_ends_and_byte_order_mark(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    assert lines_of(content) == expected
    path = tmp_path / "text"
    path.write_bytes(content)
    assert count_lines(path) == len(expected)


def test_many_members_and_frames_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2") + gzip.compress(b"3\n"))
    (tmp_path / "a.zst").write_bytes(zstandard.compress(b"1\n2") + zstandard.compress(b"3\n"))
    assert list(read_lines(tmp_path / "a.gz")) == list(read_lines(tmp_path / "a.zst")) == ["1", "23"]


def test_zstd_content_longer_than_every_buffer(tmp_path: Path) -> None:
    lines = [f"{number} {'x' * (number % 300)}" for number in range(3000)]
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress("\n".join(lines).encode()))
    assert list(read_lines(path)) == lines


def test_a_line_is_given_as_soon_as_it_ends() -> None:
    reader, writer = os.pipe()
    got: list[str] = []
    seen = threading.Event()

    def consume() -> None:
        with os.fdopen(reader, "rb") as stream:
            for line in iter_lines(stream, "stdin"):
                got.append(line)
                seen.set()

    consumer = threading.Thread(target=consume)
    consumer.start()
    os.write(writer, b"first\nsecon")
    arrived = seen.wait(5)
    so_far = list(got)
    os.write(writer, b"d\n")
    os.close(writer)
    consumer.join(5)
    assert arrived
    assert so_far == ["first"]
    assert got == ["first", "second"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_named_pipe_gives_its_lines_as_they_come(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first_read = threading.Event()
    waited: list[bool] = []

    def produce() -> None:
        with pipe.open("wb", buffering=0) as stream:
            stream.write(b"first\n")
            waited.append(first_read.wait(10))
            stream.write(b"second\n")

    producer = threading.Thread(target=produce)
    producer.start()
    lines = read_lines(pipe)
    assert next(lines) == "first"
    first_read.set()
    assert list(lines) == ["second"]
    producer.join(10)
    assert waited == [True]


def test_bytes_that_are_not_utf8_are_placed() -> None:
    with pytest.raises(DataError, match=r"^in\.txt:3: byte 0xff at column 5 .*--repair") as caught:
        list(
            iter_lines(
                io.BytesIO("ok\nok\nüab\xff".encode("latin-1").replace(b"\xfc", b"\xc3\xbc")), "in.txt"
            )
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_surrogates_overlong_and_cut_characters_are_not_utf8(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"stdin:1: byte 0x.. at column 2"):
        lines_of(b"a" + raw + b"\nb\n")


def test_repair_replaces_and_counts_lines() -> None:
    notes: Counter[str] = Counter()
    assert lines_of(b"a\xffb\nok\n\xfe\xfe\n", repair=True, notes=notes) == ["a\ufffdb", "ok", "\ufffd\ufffd"]
    assert notes == {"repaired": 2}


def test_utf16_is_recognised() -> None:
    with pytest.raises(DataError, match="UTF-16"):
        lines_of("hello\n".encode("utf-16"))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "flip", "trailing", "header"])
def test_damaged_archives_are_named(tmp_path: Path, suffix: str, damage: str) -> None:
    text = "".join(f"line {i} {i * i}\n" for i in range(5000)).encode()
    if suffix == ".gz":
        whole = gzip.compress(text)
    else:
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    content = {
        "cut": whole[:-3],
        "garbage": b"this is no archive at all",
        "flip": whole[:2000] + bytes(byte ^ 0xFF for byte in whole[2000:2010]) + whole[2010:],
        "trailing": whole + b"something else",
        "header": whole[:4],
    }[damage]
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    for read in (lambda: list(read_lines(path)), lambda: count_lines(path)):
        with pytest.raises(DataError) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_cannot_be_opened_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("x")
    with pytest.raises(DataError, match=r"train\.em: no such file; did you mean .*train\.en\?"):
        open_bytes(tmp_path / "train.em")
    with pytest.raises(DataError, match=r"zzz/a: no such file; check the path"):
        count_lines(tmp_path / "zzz" / "a")
    with pytest.raises(DataError, match="is a directory"):
        list(read_lines(tmp_path))


def test_the_file_is_closed_with_its_stream(tmp_path: Path) -> None:
    for suffix, content in (("", b"a"), (".gz", gzip.compress(b"a")), (".zst", zstandard.compress(b"a"))):
        path = tmp_path / f"f{suffix}"
        path.write_bytes(content)
        with open_bytes(path) as stream:  # an unclosed file would warn, and warnings are errors
            assert stream.read() == b"a"
        assert stream.closed
