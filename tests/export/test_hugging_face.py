"""Hugging Face, out: `transformers` loads the directory and finds the same logits, ids and text."""

from __future__ import annotations

import json

import pytest
import theirs
from agreement import check_ids, check_logits
from directories import make_directory, sentences

import transduce
from digits import digit_pairs
from transduce.errors import ModelError
from transduce.export.forms import export_form

transformers = pytest.importorskip("transformers", minversion="5")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

VARIANTS = {
    "the paper's": {},
    "odd width": {"d_model": 15, "num_heads": 3},
    "their sinusoids": {"sinusoid": "halves"},
    "shifted sinusoids": {"sinusoid": "tensor2tensor", "position_offset": 1},
    "learned positions": {"position": "learned", "position_offset": 2},
    "two vocabularies": {"joint": False},
    "nothing tied": {"joint": False, "tie": "none", "output_bias": True},
    "no bias, swish": {"bias": False, "activation": "swish"},
    "pre-norm": {"norm": "pre"},
    "pre-norm, two vocabularies": {"norm": "pre", "joint": False},
    "pre-norm, nothing tied": {"norm": "pre", "tie": "none", "activation": "gelu"},
    "pre-norm, learned": {"norm": "pre", "position": "learned", "output_bias": True},
    "pre-norm, no layers": {"norm": "pre", "num_encoder_layers": 0, "sinusoid": "tensor2tensor"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_of_model_is_carried_exactly(variant, tmp_path):
    directory = make_directory(
        tmp_path / "model", search={"length_penalty": "power", "alpha": 0.8}, **VARIANTS[variant]
    )
    out, _ = export_form(tmp_path / "model", "hf", tmp_path / "hf")
    model = theirs.load(out)
    check_logits(directory, model)
    texts = sentences(8, seed=5)
    check_ids(directory, model, texts, beam_size=1)
    check_ids(directory, model, texts, beam_size=4)


@pytest.mark.parametrize("joint", [True, False])
def test_their_tokenizer_gives_our_ids_and_our_text(joint, tmp_path):
    directory = make_directory(tmp_path / "model", joint=joint)
    out, _ = export_form(tmp_path / "model", "hf")
    assert out == tmp_path / "model" / "hf"
    tokenizer = theirs.load_tokenizer(out)
    source, target = directory.tokenizers
    for text in [*sentences(50, seed=6), "  two   spaces ", "unseen: Ω€", "ß", ""]:
        assert tokenizer(text).input_ids == [*source.encode(text), source.eos_id]
        ids = [i for i in target.encode(text) if i != target.unk_id]  # no model writes it
        assert tokenizer.decode(ids, skip_special_tokens=True) == target.decode(ids).strip()


def test_what_was_trained_translates_the_same_by_their_defaults(tmp_path, digit_run):
    out, notes = export_form(digit_run, "hf", tmp_path / "hf")
    assert [note for note in notes if "length_penalty is set to 0.48" in note]
    model, tokenizer = theirs.load(out), theirs.load_tokenizer(out)
    texts = [source for source, _ in digit_pairs(60, seed=8)]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    theirs_ = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    ours = transduce.load(digit_run).translate(texts, length_penalty="power", alpha=0.48)
    assert theirs_ == [translation.text for translation in ours]
    assert "AutoTokenizer" in (out / "README.md").read_text()


def test_a_model_in_the_papers_form_may_be_saved_again_by_them(tmp_path):
    directory = make_directory(tmp_path / "model")
    out, notes = export_form(tmp_path / "model", "hf", tmp_path / "hf")
    assert not [note for note in notes if "save_pretrained" in note]
    theirs.load(out).save_pretrained(tmp_path / "again")
    check_logits(directory, theirs.load(tmp_path / "again"))


def test_another_table_of_positions_is_told(tmp_path):
    make_directory(tmp_path / "model", sinusoid="tensor2tensor")
    _, notes = export_form(tmp_path / "model", "hf", tmp_path / "hf")
    assert [note for note in notes if "save_pretrained" in note]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"position": "rotary"}, "rotary positions"),
        ({"activation": "swiglu"}, "activation 'swiglu'"),
        ({"d_k": 4}, "d_k = 4"),
        ({"d_v": 3}, "d_v = 3"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps = 1e-06"),
    ],
)
def test_what_no_class_carries_is_said(model, words, tmp_path):
    make_directory(tmp_path / "model", **model)
    with pytest.raises(ModelError, match=words):
        export_form(tmp_path / "model", "hf", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_nothing_of_others_is_replaced(tmp_path):
    make_directory(tmp_path / "model")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="holds other things"):
        export_form(tmp_path / "model", "hf", tmp_path / "mine")
    with pytest.raises(ModelError, match="is a file"):
        export_form(tmp_path / "model", "hf", tmp_path / "mine" / "thesis.txt")
    with pytest.raises(ModelError, match=r"no form 'tf' to export to; there are .*hf"):
        export_form(tmp_path / "model", "tf", tmp_path / "tf")
    for _ in range(2):  # an earlier export is replaced
        export_form(tmp_path / "model", "hf", tmp_path / "hf")
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["model_type"] == "marian"
