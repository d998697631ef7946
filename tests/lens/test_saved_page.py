"""One HTML file: the page's own files and its answers inside it, nothing that could end an element early."""

from __future__ import annotations

import base64
import html
import json
import re

import numpy as np
import pytest
import safetensors.numpy

from lens.lens_models import FAMILIES, SENTENCE, make_lens, name_of
from transduce.lens.answers import describe_trace
from transduce.lens.saved_page import save_page, saved_answers

INDEX = """<!doctype html><html><head><link rel="icon" href="./icon.svg" type="image/svg+xml" />
<script type="module" crossorigin src="./assets/page.js"></script>
<link rel="stylesheet" crossorigin href="./assets/page.css"></head><body><div id="page"></div></body></html>
"""
SCRIPT = r"""const end = '</script>'; const group = '\1 $& \g<0>'"""
STYLE = "body { color: red } /* </style> \\1 */"


@pytest.fixture
def built(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "assets" / "page.js").write_text(SCRIPT)
    (tmp_path / "assets" / "page.css").write_text(STYLE)
    return tmp_path


def data_of(page: str) -> dict:
    [data] = re.findall(
        r'<script type="application/json" id="transduce-data">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(data)


def test_the_file_needs_nothing_beside_it(lens, built):
    trace = lens.trace("turn </script><b>&amp; on")
    page = save_page(trace, built=built).html
    assert not re.search(r"(src|href)=", page)
    assert len(re.findall("</script>", page)) == 2
    assert len(re.findall("</style>", page)) == 1
    assert r"const group = '\1 $& \g<0>'" in page
    assert "\\1 */</style>" in page
    data = data_of(page)
    [trace_id] = re.findall(r"trace=(\w+)&", data["hash"])
    told = data["responses"][f"GET api/v1/traces/{trace_id}"]["json"]
    assert told["text"] == "turn </script><b>&amp; on"
    expected = json.loads(json.dumps(describe_trace(trace, trace_id)))
    assert {name: told[name] for name in expected} == expected


def test_every_head_is_in_it_as_the_model_has_it(trace):
    answers = saved_answers(trace, "x")
    for kind in ("enc_self", "dec_self", "cross"):
        assert f"GET api/v1/traces/x/overview?kind={kind}" in answers
        for layer in (0, 1):
            for head in (0, 1):
                question = f"GET api/v1/traces/x/head?kind={kind}&layer={layer}&head={head}"
                found = safetensors.numpy.load(base64.b64decode(answers[question]["base64"]))
                seen = trace.head(kind, layer, head)
                np.testing.assert_array_equal(found["weights"], seen.weights.numpy())
                np.testing.assert_array_equal(found["scores"], seen.scores.numpy())
    for step in range(trace.num_rows):
        assert f"GET api/v1/traces/x/logits?step={step}" in answers
    assert {"GET api/v1/model", "GET api/v1/positions?length=128"} <= answers.keys()
    for part in ("shapes", "steps?k=10", "lens?k=5"):
        assert f"GET api/v1/traces/x/{part}" in answers


def test_a_budget_keeps_the_file_small(trace):
    size = {
        budget: sum(len(answer.get("base64", "")) for answer in saved_answers(trace, "x", budget).values())
        for budget in (0, 20_000, 10**9)
    }
    assert size[0] == 0
    assert 0 < size[20_000] <= 20_000 * 4 / 3 + 400 < size[10**9]


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_every_configuration_can_be_saved(tokenizer, built, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE)
    data = data_of(save_page(trace, built=built).html)
    limits = data["responses"]["GET api/v1/model"]["json"]["limits"]
    assert f"GET api/v1/positions?length={min(128, limits['positions'])}" in data["responses"]
    stories = [key for key in data["responses"] if "/tensors?" in key]
    assert len(stories) == trace.lens.config.num_encoder_layers


def test_a_notebook_gets_a_frame_of_its_own(trace, built):
    page = save_page(trace, built=built, height=500)
    frame = page._repr_html_()
    assert "height:500px" in frame
    [inner] = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(inner) == page.html


def test_without_the_built_page_a_plain_one_is_written(trace, tmp_path):
    page = save_page(trace, built=tmp_path / "nothing")
    assert html.escape(trace.translation) in page.html
    assert "<script" not in page.html
    head = trace.head("cross", 0, 0)
    assert page.html.count('<td style="background') == 2 * head.weights.numel()
    assert page.save(tmp_path / "a.html").read_text(encoding="utf-8") == page.html


def test_a_trace_shows_itself(trace):
    assert trace.show(height=300).height == 300
    assert trace.to_html().startswith("<!doctype html>")
