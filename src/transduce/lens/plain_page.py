"""A trace on one plain HTML page, without scripts: what there is where the page was not built.

In:  a `Trace`. Out: HTML: the translation, which word looked where, the likeliest words at each step.
Does not know: the real page.
"""

from __future__ import annotations

import math
from html import escape

from transduce.lens.tokens import Token, Vocabulary
from transduce.lens.traces import Head, Trace

__all__ = ["plain_page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; }
th, td { padding: .2rem .4rem; font-weight: 400; text-align: right; }
th { color: #555; }
caption { text-align: left; padding: .5rem 0; }
"""
_LIKELIEST = 5


def plain_page(trace: Trace) -> str:
    """Write it."""
    heads = trace.alignment.heads.heads
    maps = "".join(_matrix(trace.head("cross", layer, head)) for layer, head in heads)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>transduce</title><style>{_STYLE}</style></head>
<body>
<h1>{escape(trace.translation) or "(nothing)"}</h1>
<p>{escape(trace.text)}</p>
<p>Words that belong together, by attention (which is no proof): {escape(trace.alignment.pharaoh)}</p>
{maps}
{_steps(trace)}
<p>Python can show more: <code>trace.head("cross", layer, head)</code>, <code>trace.shapes()</code>,
<code>trace.steps()</code>.</p>
</body>
</html>
"""


def _matrix(head: Head) -> str:
    """Weights in per cent, shaded; row i reads token i."""
    top = "".join(_label(token) for token in head.k_tokens)
    rows = "".join(
        f"<tr>{_label(token)}{''.join(_cell(weight) for weight in weights)}</tr>"
        for token, weights in zip(head.q_tokens, head.weights.tolist(), strict=True)
    )
    caption = f"Cross-attention, layer {head.layer}, head {head.head}: weights in per cent"
    return f'<div class="wide"><table><caption>{caption}</caption><tr><th></th>{top}</tr>{rows}</table></div>'


def _label(token: Token) -> str:
    return f"<th><bdi>{escape(token.text.strip() or '␣')}</bdi></th>"


def _cell(weight: float) -> str:
    colour = "#fff" if weight > 0.5 else "#1a1a1a"
    return f'<td style="background:rgba(20,70,140,{weight:.3f});color:{colour}">{100 * weight:.0f}</td>'


def _steps(trace: Trace) -> str:
    names = Vocabulary(trace.lens.translator.tokenizers[1])
    rows = []
    for row, step in enumerate(trace.steps(_LIKELIEST)):
        expected = ", ".join(
            f"{escape(names.text(id_).strip() or '␣')} {100 * math.exp(logp):.1f} %"
            for id_, _, logp in step.top
        )
        reads = f"<th>{row}</th>{_label(trace.target[row])}"
        rows.append(
            f'<tr>{reads}<td style="text-align:left">{expected}, others {100 * step.rest:.1f} %</td></tr>'
        )
    head = '<tr><th>step</th><th>reads</th><th style="text-align:left">expects</th></tr>'
    return f'<div class="wide"><table><caption>Decoding</caption>{head}{"".join(rows)}</table></div>'
