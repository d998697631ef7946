"""Occlusion: each column is the output scored again without one source token."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from lens.lens_models import FAMILIES, SENTENCE, make_lens, name_of
from transduce.lens import Interventions, MaskChange
from transduce.search.config import SearchConfig


@pytest.mark.parametrize("changes", FAMILIES, ids=name_of)
def test_each_column_is_a_what_if(tokenizer, changes):
    trace = make_lens(tokenizer, **changes).trace(SENTENCE, target="das Licht")
    found = trace.occlusion()
    assert found.shape == (trace.num_rows, len(trace.source))
    before = torch.tensor([step.chosen.logp for step in trace.steps(1)])
    for place in (0, 2, len(trace.source) - 1):
        hide = tuple(MaskChange(kind, None, hide=(place,)) for kind in ("enc_self", "cross"))
        now = torch.tensor(trace.scored(Interventions(mask=hide)))
        assert_close(found[:, place], before - now, rtol=1e-4, atol=1e-4)


def test_an_output_that_was_cut_has_a_row_without_answer(tokenizer):
    trace = make_lens(tokenizer, seed=1).trace(SENTENCE, max_len=2, search=SearchConfig(beam_size=1))
    assert trace.predicted[-1] is None
    assert bool((trace.occlusion()[-1] == 0).all())


def test_much_is_done_in_parts(trace, monkeypatch):
    whole = trace.occlusion()
    monkeypatch.setattr("transduce.lens.occlusion._CELLS", 1)
    assert_close(trace.occlusion(), whole, rtol=1e-4, atol=1e-5)
