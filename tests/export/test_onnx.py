"""ONNX, out: ONNX Runtime finds the same ids as torch, for every configuration there is."""

from __future__ import annotations

import math
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from agreement import check_engines, onnx_engine
from directories import make_directory, sentences, torch_engine

import transduce
from digits import digit_pairs
from transduce.errors import ModelError
from transduce.export.forms import export_form
from transduce.translate.exported import WEIGHTS_FILE
from transduce.translate.onnx_engine import load_onnx
from transduce.translate.runtime import Runtime
from transduce.translate.translator import Translator

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

VARIANTS = {
    "the paper's": {},
    "one layer": {"num_encoder_layers": 0, "num_decoder_layers": 1, "sinusoid": "halves"},
    "shifted sinusoids": {"sinusoid": "tensor2tensor", "position_offset": 1, "d_model": 15, "num_heads": 3},
    "learned positions": {"position": "learned", "position_offset": 2, "activation": "gelu"},
    "rotary positions": {"position": "rotary", "norm": "pre", "activation": "swiglu", "position_offset": 1},
    "two vocabularies": {"joint": False, "activation": "swish", "bias": False},
    "nothing tied": {"joint": False, "tie": "none", "output_bias": True, "norm": "pre"},
    "heads of their own width": {"d_k": 4, "d_v": 6, "layer_norm_eps": 1e-3},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_of_model_is_carried_exactly(variant, tmp_path):
    directory = make_directory(tmp_path / "model", **VARIANTS[variant])
    out, notes = export_form(tmp_path / "model", "onnx")
    assert out == tmp_path / "model" / "onnx"
    assert notes == []
    for beam_size in (1, 4):
        check_engines(directory, out, sentences(6, seed=5), beam_size)


def test_company_does_not_matter_and_samples_and_prefixes_work(tmp_path):
    directory = make_directory(tmp_path / "model")
    out, _ = export_form(tmp_path / "model", "onnx")
    rows = [directory.tokenizers[0].encode(text) for text in sentences(12, seed=8)]
    ours, whole = torch_engine(directory), onnx_engine(directory, out)
    small = onnx_engine(directory, out, batch_tokens=1)
    keys, prefixes = list(range(12)), [[5, 6]] * 12
    for change in ({"beam_size": 3, "n_best": 2}, {"method": "sample", "n_best": 2, "seed": 4, "top_k": 5}):
        config = replace(directory.recipe.search, **change)
        found = [
            [[h.ids for h in hypotheses] for hypotheses in engine.search(rows, config, keys=keys)]
            for engine in (ours, whole, small)
        ]
        assert found[0] == found[1] == found[2]
    forced = whole.search(rows, directory.recipe.search, prefixes=prefixes)
    assert all(hypotheses[0].ids[:2] == (5, 6) for hypotheses in forced)


def test_alignments_are_torchs(tmp_path):
    directory = make_directory(tmp_path / "model", num_decoder_layers=3)
    out, _ = export_form(tmp_path / "model", "onnx")
    source, target = directory.tokenizers
    rows = [[], *(source.encode(text) for text in sentences(6, seed=1))]
    written = [[5], *(target.encode(text) for text in sentences(5, seed=2)), []]
    assert onnx_engine(directory, out).align(rows, written) == torch_engine(directory).align(rows, written)


def test_what_was_trained_translates_the_same(tmp_path, digit_run):
    out, _ = export_form(digit_run, "onnx", tmp_path / "onnx")
    texts = [source for source, _ in digit_pairs(60, seed=8)] + ["", "one " * 40]
    ours, found = transduce.load(digit_run), load_onnx(out, runtime=Runtime(threads=1))
    assert found.languages == ("en", "de")
    for mine, theirs in zip(
        ours.translate(texts, alignment=True), found.translate(texts, alignment=True), strict=True
    ):
        assert mine.text == theirs.text
        assert mine.alignment == theirs.alignment
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)


def test_the_files_say_what_they_take_and_give(tmp_path):
    make_directory(tmp_path / "model", d_k=4, d_v=6)
    out, _ = export_form(tmp_path / "model", "onnx")
    decoder = onnxruntime.InferenceSession(out / "decoder.onnx", providers=["CPUExecutionProvider"])
    shapes = {value.name: value.shape for value in [*decoder.get_inputs(), *decoder.get_outputs()]}
    assert shapes["ids"] == ["rows"]
    assert shapes["past_keys.1"] == ["rows", 2, "past_len", 4]
    assert shapes["values.0"] == ["rows", 2, "new_len", 6]
    assert shapes["memory_visible"] == ["rows", "src_len"]
    assert shapes["attention"] == ["rows", "src_len"]
    encoder = onnxruntime.InferenceSession(out / "encoder.onnx", providers=["CPUExecutionProvider"])
    names = [value.name for value in encoder.get_outputs()]
    visible, *_ = encoder.run(names, {"source": np.array([[5, 6, 3, 0, 0]])})
    assert names[0] == "memory_visible"
    assert visible.tolist() == [[True, True, True, False, False]]


def test_large_weights_lie_beside_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("transduce.export.onnx.PROTOBUF_LIMIT", 0)
    directory = make_directory(tmp_path / "model", d_model=64, num_heads=2)
    out, _ = export_form(tmp_path / "model", "onnx", tmp_path / "onnx")
    assert (out / "decoder.onnx").stat().st_size < (out / "decoder.onnx.data").stat().st_size
    check_engines(directory, out, sentences(2, seed=5), beam_size=2)
    assert export_form(tmp_path / "model", "onnx", out)[0] == out  # an earlier export is replaced


def test_padding_changes_nothing(tmp_path):
    make_directory(tmp_path / "model")
    out, _ = export_form(tmp_path / "model", "onnx")
    encoder = onnxruntime.InferenceSession(out / "encoder.onnx", providers=["CPUExecutionProvider"])
    (alone,) = encoder.run(["memory_keys.0"], {"source": np.array([[5, 6, 3]])})
    (padded,) = encoder.run(["memory_keys.0"], {"source": np.array([[5, 6, 3, 0, 0], [5, 6, 7, 8, 3]])})
    np.testing.assert_allclose(padded[:1, :, :3], alone, atol=1e-5)


def test_a_source_beyond_the_positions_is_said(tmp_path):
    directory = make_directory(tmp_path / "model", position="learned", max_len=48)
    out, _ = export_form(tmp_path / "model", "onnx")
    engine = onnx_engine(directory, out)
    with pytest.raises(ModelError, match="a source of 60 tokens came, but this export has 48 positions"):
        engine.search([[5] * 59], directory.recipe.search)
    found = engine.search([[5] * 9], replace(directory.recipe.search, max_extra_len=300))
    assert len(found[0][0].ids) < 48
    assert math.isfinite(found[0][0].score)


def test_a_step_without_layers_has_no_past(tmp_path):
    make_directory(tmp_path / "model", num_decoder_layers=0, norm="pre")
    with pytest.raises(ModelError, match="needs one layer"):
        export_form(tmp_path / "model", "onnx", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    make_directory(place / "model")
    return export_form(place / "model", "onnx", place / "onnx")[0]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("decoder.onnx", None, "has no ONNX export: make one with"),
        ("encoder.onnx", b"no", "encoder.onnx cannot be read"),
        ("decoder.onnx", b"", "decoder.onnx cannot be read"),
        ("recipe.toml", None, "recipe.toml cannot be read"),
        ("tokenizer.model", b"no", "is not a SentencePiece model"),
    ],
)
def test_each_damage_is_one_line(file, content, words, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "onnx")
    (tmp_path / "onnx" / file).unlink()
    if content is not None:
        (tmp_path / "onnx" / file).write_bytes(content)
    with pytest.raises(ModelError, match=words) as caught:
        load_onnx(tmp_path / "onnx")
    assert "\n" not in str(caught.value)


def test_the_export_inside_a_model_is_found_and_stale_ones_are_refused(tmp_path):
    make_directory(tmp_path / "model")
    with pytest.raises(ModelError, match="has no ONNX export"):
        Translator.load(tmp_path / "model", engine="onnx")
    export_form(tmp_path / "model", "onnx")
    texts = sentences(4, seed=3)
    inside = Translator.load(tmp_path / "model", engine="onnx").translate(texts)
    assert [one.text for one in inside] == [
        one.text for one in transduce.load(tmp_path / "model").translate(texts)
    ]
    with pytest.raises(ModelError, match="computes in float32, not in int8"):
        Translator.load(tmp_path / "model", engine="onnx", runtime=Runtime(compute_type="int8"))
    make_directory(tmp_path / "other", seed=9)
    shutil.copyfile(tmp_path / "other" / WEIGHTS_FILE, tmp_path / "model" / WEIGHTS_FILE)
    with pytest.raises(ModelError, match="was made from other weights"):
        Translator.load(tmp_path / "model", engine="onnx")


def test_a_foreign_graph_is_told_from_ours(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "onnx")
    model = onnx.load(tmp_path / "onnx" / "decoder.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "onnx" / "decoder.onnx")
    with pytest.raises(ModelError, match="was not written by `transduce export`"):
        load_onnx(tmp_path / "onnx")


def test_without_the_packages_it_says_what_to_install(exported, tmp_path, monkeypatch):
    make_directory(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelError, match=r"pip install 'transduce\[onnx\]'"):
        export_form(tmp_path / "model", "onnx")
    with pytest.raises(ModelError, match=r"pip install 'transduce\[onnx\]'"):
        load_onnx(exported)
