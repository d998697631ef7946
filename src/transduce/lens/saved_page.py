"""A trace as one HTML file, from a disk or inside a notebook: the page, with its answers inside it.

In:  a `Trace`; the built page, where it was built. Out: `SavedPage`.
Does not know: the server. The page asks the same questions as it would ask one, and finds the answers in
the file, by the question (see page/src/lib/api.ts). Without the built page a plain one is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import transduce
from transduce.errors import ModelError
from transduce.files import write_atomic
from transduce.lens.answers import (
    describe_model,
    describe_trace,
    head_arrays,
    lens_rows,
    logits_array,
    overview_arrays,
    step_table,
    walk_arrays,
)
from transduce.lens.interventions import AttentionKind, num_layers
from transduce.lens.plain_page import plain_page
from transduce.lens.positions import positions
from transduce.lens.traces import Trace

__all__ = ["BUDGET", "BUILT_PAGE", "SavedPage", "save_page", "saved_answers"]

BUILT_PAGE = Path(transduce.__file__).parent / "serve" / "static"
"""Where the build puts the page."""
BUDGET = 24_000_000
"""Bytes of tensors that go along; past it, what the page shows first."""

_API = "GET api/v1"
_KINDS: tuple[AttentionKind, ...] = ("cross", "enc_self", "dec_self")
_POSITIONS = 128  # as many as the page ever shows
_NAMES_A_REQUEST = 16


@dataclass(frozen=True)
class SavedPage:
    """One HTML file, which needs nothing beside it."""

    html: str
    height: int = 760
    """Of the frame in a notebook, in pixels."""

    def save(self, path: str | Path) -> Path:
        """Write it; return where."""
        file = Path(path)
        write_atomic(file, self.html.encode())
        return file

    def _repr_html_(self) -> str:
        """For notebooks: a frame of its own, so that two figures do not disturb each other."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="transduce" sandbox="allow-scripts allow-downloads" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )


def save_page(
    trace: Trace, *, budget: int = BUDGET, built: Path = BUILT_PAGE, height: int = 760
) -> SavedPage:
    """Put a trace into one HTML file.

    Args:
        trace: what is shown.
        budget: bytes of tensors that go along.
        built: the directory of the built page.
        height: of the frame in a notebook, in pixels.
    """
    try:
        html, script, style = (
            (built / name).read_text(encoding="utf-8")
            for name in ("index.html", "assets/page.js", "assets/page.css")
        )
    except OSError:  # not built: a checkout without Node
        return SavedPage(plain_page(trace), height)
    trace_id = _id_of(trace)
    data = {
        "hash": f"#/attention?trace={trace_id}&kind=cross",
        "responses": saved_answers(trace, trace_id, budget),
    }
    return SavedPage(_inlined(html, script, style, json.dumps(data, ensure_ascii=False)), height)


def saved_answers(trace: Trace, trace_id: str, budget: int = BUDGET) -> dict[str, Any]:
    """What the page asks about a trace, each question with its answer, until the tensors fill the budget."""
    at = f"{_API}/traces/{trace_id}"
    layers = range(-1, trace.lens.config.num_decoder_layers)
    answers: dict[str, Any] = {
        f"{_API}/model": {"json": {**describe_model(trace.lens), "limits": _limits(trace), "models": []}},
        at: {"json": {**describe_trace(trace, trace_id), "links": {"self": f"/api/v1/traces/{trace_id}"}}},
        f"{at}/shapes": {"json": trace.shapes().to_dict()},
        f"{at}/steps?k=10": {"json": step_table(trace, 10)},
        f"{at}/lens?k=5": {"json": lens_rows(trace, layers, 5)},
    }
    left = budget
    for question, arrays in _tensors(trace, at):
        content = arrays.to_safetensors()
        if len(content) > left:
            continue
        left -= len(content)
        answers[question] = {"base64": base64.b64encode(content).decode()}
    return answers


def _tensors(trace: Trace, at: str) -> Any:
    """Questions for tensors with their answers, what the page shows first before what it shows later."""
    config = trace.lens.config
    kinds = [kind for kind in _KINDS if num_layers(config, kind)]
    for kind in kinds:
        yield f"{at}/overview?kind={kind}", overview_arrays(trace, kind)
    for kind in kinds:
        for layer in range(num_layers(config, kind)):
            for head in range(config.num_heads):
                question = f"{at}/head?kind={kind}&layer={layer}&head={head}"
                yield question, head_arrays(trace, kind, layer, head)
    length = _num_positions(trace)
    try:
        with trace.lens.alone() as model:
            yield f"{_API}/positions?length={length}", positions(model, length)[1]
    except ModelError:  # rotary, and no self-attention
        pass
    for layer in range(config.num_encoder_layers):
        names = _story(trace, layer)
        for first in range(0, len(names), _NAMES_A_REQUEST):
            asked = names[first : first + _NAMES_A_REQUEST]
            yield f"{at}/tensors?{'&'.join(f'name={name}' for name in asked)}", walk_arrays(trace, asked)
    for step in range(trace.num_rows):
        yield f"{at}/logits?step={step}", logits_array(trace, step, None)


def _story(trace: Trace, layer: int) -> list[str]:
    """The tensors that tell a word's way through an encoder layer, in the page's order (its story.ts)."""
    entries = [entry for entry in trace.shapes().entries if entry.stack == "encoder"]
    here, attention = {entry.name for entry in entries}, f"encoder.layers.{layer}.self_attention"
    wanted = [
        "source_embedding.scaled",
        "source_position.table",
        "source_position.sum",
        *(f"{attention}.{part}" for part in ("queries", "keys", "values", "weights", "output")),
        f"encoder.layers.{layer}.feed_forward.inner",
    ]
    last = {entry.layer: entry.name for entry in entries if entry.layer is not None}
    return list(dict.fromkeys([*(name for name in wanted if name in here), *last.values()]))


def _limits(trace: Trace) -> dict[str, int]:
    """What the page would be told by a server, as far as a saved page uses it."""
    return {**asdict(trace.lens.limits), "top_k": 50, "positions": _num_positions(trace)}


def _num_positions(trace: Trace) -> int:
    config = trace.lens.config
    return min(_POSITIONS, config.max_len) if config.position == "learned" else _POSITIONS


def _id_of(trace: Trace) -> str:
    """A name that two equal traces share."""
    ids = [*trace.done.source.tolist(), -1, *trace.done.target.tolist()]
    return hashlib.sha256(f"{ids} {trace.interventions}".encode()).hexdigest()[:32]


def _inlined(html: str, script: str, style: str, data: str) -> str:
    """The page's own HTML with script, styles and data inside it; nothing in them can end an element."""
    data, script = data.replace("<", "\\u003c"), script.replace("</script", "<\\/script")
    style = style.replace("</style", "<\\/style")
    sheet = f"<style>{style}</style>"
    html = re.sub(r'<script[^>]*src="[^"]*page\.js"[^>]*></script>', "", html)
    html = re.sub(r"<link[^>]*icon[^>]*>", "", html)
    html = re.sub(r'<link[^>]*page\.css"[^>]*>', lambda _: sheet, html)
    scripts = (
        f'<script type="application/json" id="transduce-data">{data}</script>\n'
        f'<script type="module">{script}</script></body>'
    )
    return html.replace("</body>", scripts)
