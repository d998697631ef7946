"""A trace is quick: in processor time of one core, so that a busy machine does not decide."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from digits import ROOT

PROGRAM = """
import time
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import torch
from lens.lens_models import make_lens
from translate.random_translators import make_tokenizer
from transduce.lens.answers import describe_trace, head_arrays, overview_arrays
from transduce.recipe import load_recipe

torch.set_num_threads(1)
tokenizer = make_tokenizer(Path(mkdtemp()))
preset = load_recipe(preset="small").model
same = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "norm")
vocabulary = {"source_vocab_size": 8000, "target_vocab_size": 8000}
shape = {name: getattr(preset, name) for name in same} | vocabulary
search = {"beam_size": 4, "min_len": 30, "max_len_ratio": 1.0, "max_extra_len": 50}
lens = make_lens(tokenizer, tie="none", output_bias=True, search=search, **shape)
lens._suppressed = range(tokenizer.vocab_size, 8000)  # pieces that the small vocabulary has not
text = "turn on the light, please, and turn on the light switch, please " * 2
while len(tokenizer.encode(text)) > 30:
    text = text[:-1]
times = []
for _ in range(3):
    begun = time.process_time()
    trace = lens.trace(text)
    describe_trace(trace)
    overview_arrays(trace, "cross")
    head_arrays(trace, "cross", 0, 0)
    times.append(time.process_time() - begun)
assert trace.num_rows > 30
print(min(times))
"""


@pytest.mark.slow
def test_thirty_tokens_by_the_small_preset_take_less_than_a_second():
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.0
