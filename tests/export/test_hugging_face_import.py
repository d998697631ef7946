"""OPUS-MT's form, in: the same logits, ids and text as `MarianTokenizer` and `generate` give."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import theirs
import torch
from agreement import check_ids, check_logits
from directories import make_directory, sentences
from opus import CODE, make_opus
from safetensors.torch import load_file, save_file

import transduce
from transduce.errors import ModelError, TransduceError
from transduce.export.forms import export_form, import_model
from transduce.translate.model_directory import ModelDirectory

transformers = pytest.importorskip("transformers", minversion="5")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

VARIANTS = {
    "as OPUS-MT": {},
    "a pickle": {"pickled": True},
    "two vocabularies": {"separate": True},
    "two vocabularies, nothing tied": {"separate": True, "tie_word_embeddings": False},
    "embeddings not scaled": {"scale_embedding": False},
    "two vocabularies, not scaled": {"separate": True, "scale_embedding": False},
    "relu": {"activation_function": "relu"},
    "gelu, odd width": {"activation_function": "gelu", "d_model": 15, "encoder_attention_heads": 3,
                        "decoder_attention_heads": 3},
    "silu": {"activation_function": "silu", "encoder_layers": 1},
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_kind_gives_their_logits_and_ids(variant, tmp_path):
    make_opus(tmp_path / "opus", **VARIANTS[variant])
    import_model(tmp_path / "opus", tmp_path / "model")
    directory, model = ModelDirectory(tmp_path / "model"), theirs.load(tmp_path / "opus")
    assert directory.recipe.model.position == "sinusoidal"
    check_logits(directory, model)
    check_ids(directory, model, sentences(6, seed=2), beam_size=1)
    check_ids(directory, model, sentences(6, seed=2), beam_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_two_hundred_sentences_from_text_to_text(beam_size, tmp_path):
    make_opus(tmp_path / "opus", seed=3)
    import_model(tmp_path / "opus", tmp_path / "model")
    compare_texts(tmp_path / "opus", tmp_path / "model", sentences(200, seed=9), beam_size, most=60)


def compare_texts(theirs_at: Path, ours_at: Path, texts: list[str], beam_size: int, most: int) -> None:
    """Our translator's texts are theirs; what is cut at the limit is left out, and is less than a third."""
    model, tokenizer = theirs.load(theirs_at), theirs.load_tokenizer(theirs_at)
    config = model.generation_config
    config.early_stopping = "never" if beam_size > 1 else None  # the one that is no guess
    config.length_penalty = config.length_penalty if beam_size > 1 else None
    config.bad_words_ids = [[config.pad_token_id], [tokenizer.unk_token_id]]
    config.num_beams, config.max_length = beam_size, most
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    generated = model.generate(**batch, generation_config=config)
    expected = tokenizer.batch_decode(generated, skip_special_tokens=True)
    expected = [text.replace(CODE, "") for text in expected]  # no text: ours leaves it out
    ended = (generated[:, 1:] == config.eos_token_id).any(1).tolist()
    settings = {"beam_size": beam_size, "max_len_ratio": 0.0, "max_extra_len": most - 2}
    settings["no_repeat_ngram"] = config.no_repeat_ngram_size or 0
    found = transduce.load(ours_at).translate(texts, **settings)
    wrong = [
        (text, ours.text, theirs_)
        for text, ours, theirs_, whole in zip(texts, found, expected, ended, strict=True)
        if whole and ours.text != theirs_
    ]
    assert not wrong
    assert sum(ended) > 2 * len(texts) / 3
    assert len(set(expected)) > 30  # they do vary


@pytest.mark.parametrize("separate", [True, False])
def test_the_tokenizer_is_theirs(separate, tmp_path):
    make_opus(tmp_path / "opus", separate=separate)
    import_model(tmp_path / "opus", tmp_path / "model")
    tokenizer = theirs.load_tokenizer(tmp_path / "opus")
    source, target = ModelDirectory(tmp_path / "model").tokenizers
    odd = ["  two   spaces ", "ﬁne Ω\u200b€", "", f"{CODE} bad dada cab", f"{CODE}bad", "a\tb\nc"]
    for text in [*sentences(50, seed=6), *odd]:
        ids = tokenizer(text).input_ids[:-1]
        assert source.encode(text) == ids, text
        assert source.encode_batch([text, "bad"])[0] == ids
    for text in sentences(50, seed=7):
        ids = tokenizer(text_target=text).input_ids
        assert target.encode(text) == ids[:-1]
        assert target.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)
        assert target.decode([target.bos_id, *ids, target.pad_id]) == target.decode(ids)
    assert source.unk_id != source.encode(">> so <<")[0]  # no code: text like any other
    assert source.encode("\ud800") == source.encode("\ufffd")
    if not separate:
        assert source.pieces(source.encode(f"{CODE} bad"))[0] == CODE
        assert target.decode(source.encode(f"{CODE} bad")) == "bad"


def test_special_pieces_may_be_tables(tmp_path):
    """As newer versions of transformers write them."""
    make_opus(tmp_path / "opus")
    tables = {name: {"content": piece, "special": True} for name, piece in
              (("unk_token", "<unk>"), ("eos_token", "</s>"), ("pad_token", "<pad>"))}  # fmt: skip
    change_json("tokenizer_config.json", **tables)(tmp_path / "opus")
    change_json("config.json", length_penalty=2, num_beams=None)(tmp_path / "opus")
    import_model(tmp_path / "opus", tmp_path / "model")
    assert ModelDirectory(tmp_path / "model").tokenizers[0].unk_id == 1


def test_ids_are_never_control_ids(tmp_path):
    """`</s>` typed in a text is text here; MarianTokenizer ends the sentence at it."""
    make_opus(tmp_path / "opus")
    import_model(tmp_path / "opus", tmp_path / "model")
    source, _ = ModelDirectory(tmp_path / "model").tokenizers
    for text in ("bad </s> cab", "<pad>", "<unk> <s>"):
        assert not {source.eos_id, source.pad_id} & set(source.encode(text))


@pytest.mark.parametrize("model", [{}, {"norm": "pre"}, {"joint": False, "output_bias": True},
                                   {"sinusoid": "tensor2tensor", "position_offset": 1},
                                   {"position": "learned"}])  # fmt: skip
def test_our_own_export_comes_back(model, tmp_path):
    """Out and in again: the same configuration but for the order of columns, and the same answers."""
    before = make_directory(tmp_path / "model", search={"length_penalty": "power"}, **model)
    out, _ = export_form(tmp_path / "model", "hf", tmp_path / "hf")
    import_model(out, tmp_path / "back")
    after = ModelDirectory(tmp_path / "back")
    for field in ("norm", "position", "position_offset", "tie", "output_bias"):
        if (field, model.get("norm")) != ("output_bias", "pre"):
            assert getattr(after.recipe.model, field) == getattr(before.recipe.model, field)
    assert after.recipe.search.alpha == before.recipe.search.alpha
    settings = {"max_len_ratio": 0.0, "max_extra_len": 20, "beam_size": 3}
    texts = sentences(10, seed=4)
    found = transduce.load(tmp_path / "back").translate(texts, **settings)
    expected = transduce.load(tmp_path / "model").translate(texts, **settings)
    for ours, again in zip(expected, found, strict=True):
        assert ours.tokens == again.tokens
        assert ours.score == pytest.approx(again.score, abs=1e-4)


def test_an_imported_model_goes_out_again(tmp_path):
    make_opus(tmp_path / "opus")
    import_model(tmp_path / "opus", tmp_path / "model")
    export_form(tmp_path / "model", "hf", tmp_path / "hf")
    check_logits(ModelDirectory(tmp_path / "model"), theirs.load(tmp_path / "hf"))
    assert (tmp_path / "hf" / "source.spm").read_bytes() == (tmp_path / "opus" / "source.spm").read_bytes()
    old, new = (json.loads((tmp_path / name / "vocab.json").read_text()) for name in ("opus", "hf"))
    assert old == new


def test_a_real_directory(tmp_path):
    """`TRANSDUCE_OPUS=DIR pytest …` tries one: 50 sentences, greedy and beam."""
    real = os.environ.get("TRANSDUCE_OPUS")
    if not real:
        pytest.skip("TRANSDUCE_OPUS names no OPUS-MT directory")
    import_model(Path(real), tmp_path / "model")
    for beam_size in (1, 4):
        compare_texts(Path(real), tmp_path / "model", sentences(50, seed=1), beam_size, most=100)


def change_json(name, **changes):
    def change(path):
        table = json.loads((path / name).read_text())
        for key, value in changes.items():
            table.pop(key, None)
            if value is not None:
                table[key] = value
        (path / name).write_text(json.dumps(table))

    return change


def change_weights(function):
    def change(path):
        tensors = load_file(path / "model.safetensors")
        function(tensors)
        save_file(tensors, path / "model.safetensors")

    return change


def write(name, content):
    return lambda path: (path / name).write_bytes(content)


def remove(name):
    return lambda path: (path / name).unlink()


NORM = "model.encoder.layers.0.final_layer_norm.weight"
DAMAGES = {
    "no config": (remove("config.json"), ["config.json", "No such file"]),
    "config that is no JSON": (write("config.json", b"{"), ["config.json is not JSON"]),
    "config that is a list": (write("config.json", b"[]"), ["config.json holds no table"]),
    "config of another model": (change_json("config.json", model_type="bert"), ["'bert'", "marian"]),
    "config without a size": (change_json("config.json", d_model=None), ["config.json", "d_model"]),
    "a word for a size": (change_json("config.json", encoder_layers="many"), ["encoder_layers", "integer"]),
    "heads that do not divide": (
        change_json("config.json", encoder_attention_heads=3, decoder_attention_heads=3),
        ["num_heads (3)"],
    ),
    "unequal heads": (change_json("config.json", decoder_attention_heads=2), ["numbers of heads"]),
    "another activation": (change_json("config.json", activation_function="tanh"), ["'tanh'"]),
    "pre-norm": (change_json("config.json", normalize_before=True), ["normalize_before"]),
    "a padding id outside": (change_json("config.json", pad_token_id=4000), ["pad is 4000"]),
    "another end symbol": (change_json("config.json", eos_token_id=5), ["'</s>'", "eos_token_id is 5"]),
    "a start symbol outside": (change_json("config.json", decoder_start_token_id=4000), ["bos is 4000"]),
    "a huge width": (change_json("config.json", d_model=2**40), ["source_embedding.weight", "shape"]),
    "a huge inner width": (
        change_json("config.json", encoder_ffn_dim=2**62, decoder_ffn_dim=2**62),
        ["cannot be"],
    ),
    "a table of positions of another width": (
        change_weights(lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(64, 3)})),
        ["embed_positions", "(64, 3)"],
    ),
    "a million layers": (change_json("config.json", encoder_layers=10**6), ["lacks model.encoder"]),
    "more layers than weights": (
        change_json("config.json", encoder_layers=9),
        ["lacks model.encoder"],
    ),
    "fewer layers than weights": (
        change_json("config.json", encoder_layers=1),
        ["weights that"],
    ),
    "no weights": (remove("model.safetensors"), ["model.safetensors or pytorch_model.bin"]),
    "damaged weights": (write("model.safetensors", b"\0" * 99), ["model.safetensors cannot be read"]),
    "a missing weight": (change_weights(lambda t: t.pop(NORM)), [f"lacks {NORM}"]),
    "a weight of another shape": (change_weights(lambda t: t.update({NORM: t[NORM][:3].clone()})), ["(3,)"]),
    "a bias of another shape": (
        change_weights(lambda t: t.update(final_logits_bias=torch.ones(1, 3))),
        ["output.bias", "(3,)"],
    ),
    "a norm that we lack": (
        change_weights(lambda t: t.update({"model.encoder.layernorm_embedding.weight": torch.ones(16)})),
        ["layernorm_embedding"],
    ),
    "two matrices for one": (
        change_weights(lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        ["lm_head.weight differ"],
    ),
    "no source.spm": (remove("source.spm"), ["source.spm"]),
    "damaged target.spm": (write("target.spm", b"no"), ["SentencePiece"]),
    "no vocab.json": (remove("vocab.json"), ["vocab.json"]),
    "a vocabulary that is no JSON": (write("vocab.json", b"</s> 0"), ["vocab.json is not JSON"]),
    "a vocabulary without unk": (change_json("vocab.json", **{"<unk>": None}), ["'<unk>'"]),
    "two pieces of one id": (change_json("vocab.json", again=1), ["have id 1"]),
    "an id that is none": (change_json("vocab.json", again="x"), ["id 'x'"]),
    "an id outside": (change_json("vocab.json", again=9999), ["9999"]),
    "damaged tokenizer config": (write("tokenizer_config.json", b"x"), ["tokenizer_config.json is not JSON"]),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "opus"
    make_opus(path)
    return path


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_one_line_that_helps(name, sound, tmp_path):
    damage, words = DAMAGES[name]
    shutil.copytree(sound, tmp_path / "opus")
    damage(tmp_path / "opus")
    with pytest.raises(TransduceError) as caught:
        import_model(tmp_path / "opus", tmp_path / "model")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "model").exists()


def test_a_pickle_runs_no_code(sound, tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    shutil.copytree(sound, tmp_path / "opus")
    (tmp_path / "opus" / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Evil()}, tmp_path / "opus" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin cannot be read"):
        import_model(tmp_path / "opus", tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_nothing_of_others_is_replaced(sound, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match="holds other things"):
        import_model(sound, tmp_path / "mine")
    with pytest.raises(ModelError, match="there is no directory"):
        import_model(tmp_path / "none", tmp_path / "model")
    for _ in range(2):
        import_model(sound, tmp_path / "model")
