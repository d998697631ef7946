"""One vocabulary, one lens and one trace for the tests of this room."""

from __future__ import annotations

import pytest

from lens.lens_models import SENTENCE, make_lens
from translate.random_translators import make_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("lens"))


@pytest.fixture(scope="session")
def lens(tokenizer):
    return make_lens(tokenizer, tie="none", output_bias=True, search={"min_len": 4})


@pytest.fixture(scope="session")
def trace(lens):
    return lens.trace(SENTENCE)
