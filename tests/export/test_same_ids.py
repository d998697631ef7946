"""Two hundred random models: torch, ONNX Runtime and, where a class carries them, transformers agree."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
import theirs
from agreement import check_engines, check_ids, check_logits
from directories import make_directory, sentences
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transduce.errors import ModelError
from transduce.export.forms import export_form

pytest.importorskip("transformers", minversion="5")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

random_model = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["post", "pre"]),
        "position": st.sampled_from(["sinusoidal"] * 4 + ["learned", "learned", "rotary"]),
        "sinusoid": st.sampled_from(["interleaved", "halves", "tensor2tensor"]),
        "position_offset": st.sampled_from([0, 0, 1, 2]),
        "activation": st.sampled_from(["relu", "gelu", "swish"] * 2 + ["swiglu"]),
        "tie_and_joint": st.sampled_from(
            [("all", True), ("target", True), ("target", False), ("none", False)]
        ),
        "width_and_heads": st.sampled_from([(8, 1), (12, 3), (16, 4)]),
        "d_ff": st.integers(1, 20),
        "num_encoder_layers": st.integers(1, 2),
        "num_decoder_layers": st.integers(1, 2),
        "bias": st.booleans(),
        "output_bias": st.booleans(),
        "seed": st.integers(0, 10_000),
    }
)


def unpacked(model: dict) -> dict:
    """The pairs of settings that belong together, apart."""
    apart = dict(model)
    apart["tie"], apart["joint"] = apart.pop("tie_and_joint")
    apart["d_model"], apart["num_heads"] = apart.pop("width_and_heads")
    return apart


@pytest.mark.slow
def test_two_hundred_random_models_give_the_same_ids(tmp_path_factory):
    carried = Counter()

    @settings(max_examples=200, suppress_health_check=list(HealthCheck))
    @given(model=random_model, beam_size=st.integers(1, 4), alpha=st.sampled_from([0.0, 0.6, 1.0]))
    def check(model, beam_size, alpha):
        place = tmp_path_factory.mktemp("random")
        search = {"length_penalty": "power", "alpha": alpha}
        directory = make_directory(place / "model", search=search, **unpacked(model))
        texts = sentences(2, seed=model["seed"])
        out, _ = export_form(place / "model", "onnx", place / "onnx")
        check_engines(directory, out, texts, beam_size)
        carried["onnx"] += 1
        if model["position"] == "rotary" or model["activation"] == "swiglu":
            with pytest.raises(ModelError, match="no encoder-decoder class with"):
                export_form(place / "model", "hf", place / "hf")
        else:
            out, _ = export_form(place / "model", "hf", place / "hf")
            exported = theirs.load(out)
            check_logits(directory, exported)
            check_ids(directory, exported, texts, beam_size)
            carried["hf"] += 1
        shutil.rmtree(place)

    check()
    assert carried["onnx"] >= 200
    assert carried["hf"] >= 120
