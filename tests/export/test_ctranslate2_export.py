"""The same network in CTranslate2: every configuration, its positions, what cannot be carried, its facts."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import ctranslate2
import numpy as np
import pytest
import torch

from both_engines import IDS, export_to, random_model, random_sources, vocabulary
from transduce.batch.collate import pad_rows
from transduce.errors import ModelError
from transduce.export.ctranslate2 import Vocabulary, export_ctranslate2, save_ctranslate2
from transduce.export.ctranslate2_weights import position_table
from transduce.export.verb import export_model, with_section
from transduce.model import TransformerConfig
from transduce.model.position import sinusoid_table
from transduce.translate.exported import ExportedModel
from transduce.translate.model_directory import ModelDirectory

ODD = [
    {"d_k": 4, "d_v": 7, "bias": False, "position_offset": 2},
    {"d_k": 7, "d_v": 4, "output_bias": False},
    {"d_k": 2, "d_v": 6, "position": "rotary"},
    {"d_k": 8, "d_v": 4, "position": "rotary", "position_offset": 5},
    {"d_model": 13, "num_heads": 1},
    {"position": "learned", "position_offset": 3},
    {"num_encoder_layers": 3, "num_decoder_layers": 1, "layer_norm_eps": 1e-2},
]
SHAPES = [
    {"norm": norm, "position": position, "tie": tie, "activation": activation}
    for norm in ("post", "pre")
    for position in ("sinusoidal", "learned", "rotary")
    for tie, activation in (("all", "relu"), ("target", "gelu"), ("none", "swiglu"), ("none", "relu"))
]
SINUSOIDS = [
    {"sinusoid": variant, "position_offset": offset}
    for variant in ("interleaved", "halves", "tensor2tensor")
    for offset in (0, 1, 3)
]


@pytest.mark.parametrize("changes", [*SHAPES, *SINUSOIDS, *ODD], ids=str)
def test_log_probabilities_are_the_models(tmp_path, changes):
    model = random_model(0, **changes)
    path = export_to(tmp_path / "ct2", model).path
    translator = ctranslate2.Translator(str(path), intra_threads=1)
    pieces = vocabulary(40).pieces
    sources, targets = random_sources(6), random_sources(6, seed=1)
    rows = translator.score_batch(
        [[pieces[i] for i in row] for row in sources], [[pieces[i] for i in row] for row in targets]
    )
    for source, target, row in zip(sources, targets, rows, strict=True):
        with torch.no_grad():
            logits = model(pad_rows([source], IDS), torch.tensor([[IDS.bos_id, *target]]))
        own = logits.log_softmax(-1)[0][range(len(target) + 1), [*target, IDS.eos_id]]
        assert row.log_probs == pytest.approx(own.tolist(), abs=5e-5)


@pytest.mark.parametrize("d_model", [2, 3, 7, 16])
@pytest.mark.parametrize("changes", SINUSOIDS, ids=str)
def test_the_position_table_is_the_models(d_model, changes):
    config = TransformerConfig(d_model=d_model, num_heads=1, **changes)
    ours = sinusoid_table(50, d_model, config.sinusoid, config.position_offset).numpy()
    assert np.abs(position_table(config, 50) - ours).max() < 1e-6


@pytest.mark.parametrize("quantization", ["int8", "int16"])
def test_smaller_numbers_stay_close(tmp_path, quantization):
    if quantization not in ctranslate2.get_supported_compute_types("cpu"):
        quantization = "int8"
    model = random_model(0)
    sizes = []
    for kind in ("float32", quantization):
        path = export_to(tmp_path / kind, model, quantization=kind).path
        sizes.append((path / "model.bin").stat().st_size)
    assert sizes[1] < 0.7 * sizes[0]


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_what_cannot_be_carried_is_named(tmp_path, side):
    model = random_model(0, **{f"num_{side}_layers": 0})
    with pytest.raises(ModelError, match=f"cannot carry model.num_{side}_layers = 0"):
        export_to(tmp_path / "ct2", model)


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    model = random_model(0)
    tensors = {name: tensor.numpy() for name, tensor in model.tensors().items()}
    good = vocabulary(40)
    with pytest.raises(ModelError, match="the target vocabulary has 39 pieces, the model 40"):
        save_ctranslate2(tmp_path, model.config, tensors, good, vocabulary(39))
    twice = Vocabulary([*good.pieces[:-1], "t4"], 1, 2, 3)
    with pytest.raises(ModelError, match="the source vocabulary holds a piece twice"):
        save_ctranslate2(tmp_path, model.config, tensors, twice, good)
    del tensors["encoder.layers.1.feed_forward.w_1.bias"]
    with pytest.raises(ModelError, match=r"encoder\.layers\.1\.feed_forward\.w_1\.bias is missing"):
        save_ctranslate2(tmp_path, model.config, tensors, good, good)


@pytest.fixture(scope="module")
def model_directory(digit_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "model"
    shutil.copytree(digit_run / "model", path)
    return path


def test_the_facts_beside_an_export(model_directory, tmp_path):
    directory = ModelDirectory(model_directory)
    path = export_ctranslate2(directory, quantization="float32")
    assert path == model_directory / "ct2"
    exported = ExportedModel(path)
    assert exported.search_config() == directory.recipe.search
    assert exported.facts.max_len == directory.recipe.batch.max_len - 1
    assert exported.vocabularies()[1] == directory.tokenizers[1].pieces(range(320))
    assert not exported.is_stale()
    weights = model_directory / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content)  # touched, not changed
    assert not exported.is_stale()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert exported.is_stale()
    weights.write_bytes(content)
    elsewhere = export_ctranslate2(directory, out=tmp_path / "other")
    assert ExportedModel(elsewhere).facts.quantization == "int8"


@pytest.mark.parametrize(
    ("broken", "message"),
    [("{", "cannot be read"), ('{"schema": 9}', "not of schema 1"), ('{"schema": 1}', "is incomplete")],
)
def test_damaged_facts_are_one_line(tmp_path, broken, message):
    export_to(tmp_path / "ct2", random_model(0))
    (tmp_path / "ct2" / "transduce.json").write_text(broken)
    with pytest.raises(ModelError, match=message):
        ExportedModel(tmp_path / "ct2")


def test_search_settings_survive_as_plain_json(tmp_path):
    exported = export_to(tmp_path / "ct2", random_model(0))
    facts = dataclasses.replace(exported.facts, search={"patience": float("inf"), "beam_size": 7})
    facts.write(tmp_path / "ct2")
    text = (tmp_path / "ct2" / "transduce.json").read_text()
    assert "Infinity" not in text
    again = ExportedModel(tmp_path / "ct2").search_config()
    assert (again.beam_size, again.patience) == (7, float("inf"))


def agreement(report):
    """On random tokens a model is hardly sure of anything: two answers may be equally good."""
    assert "on 100 sentences of random tokens" in report
    assert int(re.search(r"same ids: (\d+) of 100", report)[1]) >= 95
    assert float(re.search(r"on average, (\S+) at most", report)[1]) < 5e-5


def test_the_verb_reports_and_keeps_it_in_the_card(model_directory, write_pairs, tmp_path, capsys):
    from rich.console import Console

    from digits import digit_pairs

    console = Console(stderr=True)
    before = (model_directory / "card.md").read_text()
    first = export_model(model_directory, "ct2", "float32", None, None, console)
    agreement(first)
    source, _ = write_pairs(tmp_path / "sample", digit_pairs(30, seed=5))
    second = export_model(model_directory, "ct2", "float32", None, source, console)
    assert "on 30 sentences of text" in second
    assert "same ids: 30 of 30" in second
    assert "BLEU against torch's translations: 100.0" in second
    card = (model_directory / "card.md").read_text()
    assert card.startswith(before.rstrip())
    assert card.count("## CTranslate2 export") == 1
    assert "on 30 sentences of text" in card
    with pytest.raises(ModelError, match="no form 'gguf'"):
        export_model(model_directory, "gguf", "int8", None, None, console)
    with pytest.raises(ModelError, match="quantization is 'int3', but must be one of int8"):
        export_model(model_directory, "ct2", "int3", None, None, console)


def test_what_is_not_an_export_is_never_replaced(model_directory, tmp_path):
    from rich.console import Console

    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    console = Console(stderr=True)
    with pytest.raises(ModelError, match="holds other things; give --out a new directory"):
        export_model(model_directory, "ct2", "int8", mine, None, console)
    with pytest.raises(ModelError, match="is a file"):
        export_model(model_directory, "ct2", "int8", mine / "thesis.txt", None, console)
    assert (mine / "thesis.txt").read_text() == "years of work"
    export_model(model_directory, "ct2", "int8", tmp_path / "ours", None, console)
    export_model(model_directory, "ct2", "int8", tmp_path / "ours", None, console)  # its own it may replace


def test_a_section_takes_the_place_of_the_older_one():
    card = with_section("# A\n\n## T\n\n- x\n", "T", ["y"])
    assert card == "# A\n\n## T\n\n- y\n"
    assert with_section("## T\n\n- x\n\n## U\n\n- z\n", "T", ["y"]) == "## T\n\n- y\n\n## U\n\n- z\n"
    assert with_section("", "T", ["y"]) == "## T\n\n- y\n"


def test_exporting_and_translating_need_no_torch(model_directory, tmp_path):
    """With torch out of reach: the export is made, and says that it was not compared."""
    code = (
        "import sys, json\n"
        "sys.modules['torch'] = None\n"
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else found(name, *a)\n"
        "from pathlib import Path\n"
        "from rich.console import Console\n"
        "from transduce.export.verb import export_model\n"
        "import transduce\n"
        f"path = {str(model_directory)!r}\n"
        "print(export_model(Path(path), 'ct2', 'int8', None, None, Console(stderr=True)))\n"
        f"print(transduce.load(path).translate('one two')[0].text)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "torch is not installed" in lines[-2]
    assert lines[-1] == "eins zwei"
    assert json.loads((model_directory / "ct2" / "config.json").read_text())["add_source_eos"] is True
