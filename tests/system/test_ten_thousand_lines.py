"""Contract 1 at full size: 10,000 lines with every oddity in, 10,000 lines out, in order."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from digits import digit_pairs

ODDITIES = [
    b"",
    b" ",
    b"\t",
    b"\r",
    b"one\rtwo",
    b"one two\r",
    b"\x00",
    b"one\x00two",
    "one\u2028two".encode(),
    "one\u2029two".encode(),
    "one\x85two".encode(),
    b"\x0b",
    b"one\x0ctwo",
    b"\x1c\x1d\x1e",
    "\ufeff".encode(),
    "one\ufeff two".encode(),
    "爿".encode(),
    "שלום עולם".encode(),
    "🙂🏽‍🦰 ok".encode(),
    b"</s>",
    b"<s> <pad> <unk>",
    b"<0x0A>",
    "▁▁".encode(),
    b"&amp; &lt;",
    b"@@ one@@ two",
    "\u200b\u200b".encode(),
    "\xa0".encode(),
    ("one two three. " * 60).encode(),
    b"x" * 3000,
    ("好" * 700).encode(),
    "e\u0301 é".encode(),
]


@pytest.mark.slow
def test_ten_thousand_lines_with_every_oddity(digit_run, tmp_path):
    rng = random.Random(0)
    lines, normal = [], {}
    for i, (source, _) in enumerate(digit_pairs(10_000, seed=42)):
        if rng.random() < 0.1:
            lines.append(ODDITIES[i % len(ODDITIES)] if rng.random() < 0.97 else ODDITIES[-6 + i % 6])
        else:
            lines.append(source.encode())
            normal[i] = source
    data = b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n"
    command = [sys.executable, "-c", "from transduce.cli import main; main()", "translate", str(digit_run)]
    command += ["--beam-size", "1", "--set", "search.max_extra_len=4"]
    result = subprocess.run(command, input=data, capture_output=True, timeout=900)
    assert result.returncode == 0, result.stderr[-2000:]
    assert b"Traceback" not in result.stderr
    out = result.stdout.decode().split("\n")
    assert out.pop() == ""
    assert len(out) == 10_000
    # In order: where a line is a sentence of digits, its translation has as many words (nearly always).
    same = sum(len(out[i].split()) == len(source.split()) for i, source in normal.items())
    assert same > 0.9 * len(normal)  # in another order, it would be about a sixth
    for i, line in enumerate(lines):
        if not line.strip(b" "):
            assert out[i].strip() == "", f"line {i + 1} is blank and became {out[i]!r}"
