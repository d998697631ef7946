"""The tokenizer: nothing is lost, nothing typed becomes a control id, the same text gives the same file."""

from __future__ import annotations

import json
import logging
import math
import pickle
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import RecipeError, TokenizerError
from transduce.text import (
    Pair,
    Tokenizer,
    TokenizerConfig,
    load_tokenizers,
    normalise,
    train_tokenizer,
    train_tokenizers,
)

WORDS = [
    "the", "house", "is", "old", "and", "they", "went", "with", "her",
    "das", "Haus", "ist", "alt", "und", "wir", "gingen", "mit", "ihr", "für", "größere",
]  # fmt: skip
SPECIAL = [
    "</s>",
    "<s>",
    "<pad>",
    "<unk>",
    "<0x0A>",
    "<0x00>",
    "▁",
    " ⁇ ",
    "\ufeff",
    "\x00",
    "\u2028",
    "\u2585",
]


def sentences(count: int = 400, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) + "." for _ in range(count)]


def config(**settings) -> TokenizerConfig:
    return TokenizerConfig(**{"vocab_size": 400} | settings)


@pytest.fixture(scope="module", params=["bpe", "unigram", "nfkc"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    settings = {"kind": request.param} if request.param != "nfkc" else {"normalization": "nfkc"}
    texts = [*sentences(), *SPECIAL, "a</s>b" * 9, "line\nend\r", "\ttab"]
    return train_tokenizer(texts, config(**settings), tmp_path_factory.mktemp("tok") / "t.model")


any_text = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(" \u2581\t\n\r\x00\xa0\u0308\u0301é😀‍👩<>/s0xA"),
    ),
    max_size=24,
) | st.lists(st.sampled_from([*SPECIAL, " ", "Haus", "ü", "\ud800"]), max_size=6).map("".join)


@given(text=any_text)
def test_decoding_gives_the_normalised_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    expected = normalise(text, tokenizer.normalization)
    assert tokenizer.decode(ids) == expected
    assert not {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} & set(ids)
    assert normalise(expected, tokenizer.normalization) == expected
    assert tokenizer.encode(expected) == ids


@given(text=any_text, alpha=st.sampled_from([0.1, 0.5, 0.9]), seed=st.integers(0, 2**40))
def test_sampled_ids_have_the_same_text(tokenizer: Tokenizer, text: str, alpha: float, seed: int) -> None:
    ids = tokenizer.encode_sampled(text, alpha=alpha, seed=seed)
    assert tokenizer.decode(ids) == normalise(text, tokenizer.normalization)
    assert tokenizer.encode_sampled(text, alpha=alpha, seed=seed) == ids


@given(text=any_text)
def test_sampling_without_chance_is_encoding(tokenizer: Tokenizer, text: str) -> None:
    """No merge left out; or, for unigram, a power at which only the most probable path has a chance."""
    sharp = 0.0 if tokenizer._segmenter._is_bpe else 1000.0
    assert tokenizer.encode_sampled(text, alpha=sharp, seed=1) == tokenizer.encode(text)


def test_sampling_repeats_in_another_process(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """SentencePiece's own generator does not: a run killed while it tokenizes would go on with other ids."""
    texts = sentences(20)
    (tmp_path / "t.model").write_bytes(tokenizer.to_bytes())
    code = (
        "import json, pathlib, sys\nfrom transduce.text import Tokenizer\n"
        "t = Tokenizer.load(pathlib.Path(sys.argv[1]))\n"
        "print(json.dumps([t.encode_sampled(x, alpha=0.3, seed=7) for x in json.loads(sys.argv[2])]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "t.model"), json.dumps(texts)]
    there = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert there == [tokenizer.encode_sampled(text, alpha=0.3, seed=7) for text in texts]


def test_bpe_dropout_leaves_out_a_merge_with_the_chance_asked_for(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(sentences(), config(), tmp_path / "t.model")
    (whole,) = tokenizer.encode("t")  # one merge, of the space and the letter
    alone = sum(tokenizer.encode_sampled("t", alpha=0.3, seed=seed) == [whole] for seed in range(2000))
    assert alone / 2000 == pytest.approx(0.7, abs=0.03)
    pieces = tokenizer.pieces(tokenizer.encode_sampled("the house", alpha=1.0, seed=1))
    assert pieces == list("▁the▁house")


def test_unigram_draws_each_segmentation_by_its_probability(tmp_path: Path) -> None:
    """Against all segmentations of a word, weighed by their pieces' probabilities to the power alpha."""
    rng = random.Random(0)
    texts = [" ".join("".join(rng.choices("abn", k=rng.randint(1, 5))) for _ in range(9)) for _ in range(300)]
    tokenizer = train_tokenizer(texts, config(kind="unigram", vocab_size=290), tmp_path / "t.model")
    processor, word, alpha = tokenizer._processor, "▁banana", 0.3
    weights = {}
    for cuts in product([False, True], repeat=len(word) - 1):
        pieces = "".join(letter + " " * cut for letter, cut in zip(word, [*cuts, False], strict=True)).split()
        ids = tuple(processor.piece_to_id(piece) for piece in pieces)
        if tokenizer.unk_id not in ids:
            weights[ids] = math.exp(alpha * sum(processor.get_score(i) for i in ids))
    assert len(weights) > 9
    drawn = Counter(tuple(tokenizer.encode_sampled("banana", alpha=alpha, seed=seed)) for seed in range(4000))
    for ids, weight in weights.items():
        assert drawn[ids] / 4000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_sampling_without_byte_pieces_gives_one_unk_for_what_is_unknown(tmp_path: Path) -> None:
    for kind in ("bpe", "unigram"):
        settings = {"kind": kind, "byte_fallback": False, "vocab_size": 80}
        tokenizer = train_tokenizer(sentences(), config(**settings), tmp_path / f"{kind}.model")
        for text in ("房子", "the 房子 is 旧", "房"):
            ids = tokenizer.encode_sampled(text, alpha=0.2, seed=3)
            assert ids.count(tokenizer.unk_id) == tokenizer.encode(text).count(tokenizer.unk_id) > 0


def test_sampling_varies_with_the_seed(tokenizer: Tokenizer) -> None:
    text = "the house is old and they went with her"
    assert len({tuple(tokenizer.encode_sampled(text, alpha=0.1, seed=seed)) for seed in range(30)}) > 3


@pytest.mark.parametrize("text", SPECIAL)
def test_text_that_looks_special_is_text(tokenizer: Tokenizer, text: str) -> None:
    for typed in (text, f"a {text} b", f"a{text}b", text * 3):
        ids = tokenizer.encode(typed)
        assert not set(ids) & {0, 1, 2, 3}
        assert tokenizer.decode(ids) == normalise(typed, tokenizer.normalization)
    assert tokenizer.encode("<0x0A>") != tokenizer.encode("\n")


def test_every_character_survives(tokenizer: Tokenizer) -> None:
    step = 1 if tokenizer.normalization == "nfc" else 7
    characters = (chr(code) for code in range(0, 0x30000, step) if not 0xD800 <= code < 0xE000)
    texts = [f"a{character}b" for character in characters]
    for text, ids in zip(texts, tokenizer.encode_batch(texts, num_threads=2), strict=True):
        assert tokenizer.decode(ids) == normalise(text, tokenizer.normalization)


@pytest.mark.parametrize(
    ("text", "nfc"),
    [
        ("  two   spaces ", "two spaces"),
        ("\ta\t\t b\xa0 \xa0c\u3000", "\ta\t\t b\xa0 \xa0c\u3000"),
        ("▁a▁▁b▁", "a b"),
        ("u\u0308ber", "über"),
        ("ﬁ² Ａ", "ﬁ² Ａ"),
        ("\ud83d\ude00 \udfff", "\ufffd\ufffd \ufffd"),
        ("a\n\r\x00", "a\n\r\x00"),
        ("", ""),
    ],
)
def test_normalisation_is_as_stated(text: str, nfc: str) -> None:
    assert normalise(text) == nfc


def test_nfkc_folds(tmp_path: Path) -> None:
    assert normalise("ﬁ² Ａ\xa0\u3000b", "nfkc") == "fi2 A b"
    path = tmp_path / "t.model"
    trained = train_tokenizer(sentences(), config(normalization="nfkc"), path)
    assert Tokenizer.load(path).normalization == trained.normalization == "nfkc"
    assert Tokenizer.load(path).decode(trained.encode("ﬁ²")) == "fi2"
    assert train_tokenizer(sentences(), config(), path).normalization == "nfc"


def test_special_ids_are_the_first_and_silent(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.pieces([0, 1, 2, 3, 4, 259]) == ["<pad>", "<unk>", "<s>", "</s>", "<0x00>", "<0xFF>"]
    ids = tokenizer.encode("das Haus")
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == "das Haus"
    assert tokenizer.decode([ids[0], 0, 2, *ids[1:], 3]) == "das Haus"
    assert tokenizer.decode([4 + 0xC3, 0, 2, 3, 4 + 0xBC]) == "ü"
    assert "".join(tokenizer.pieces(ids)) == "▁das▁Haus"


@given(data=st.data())
def test_any_ids_decode(tokenizer: Tokenizer, data: st.DataObject) -> None:
    low = st.integers(0, 300)
    ids = data.draw(st.lists(low | st.integers(0, tokenizer.vocab_size - 1), max_size=20))
    assert isinstance(tokenizer.decode(ids), str)
    tokenizer.decode(ids).encode()  # no lone surrogates


def test_bytes_that_are_not_utf8_become_replacement_characters(tokenizer: Tokenizer) -> None:
    byte_ids = [4 + byte for byte in b"a\xff\xc3"]
    assert tokenizer.decode(byte_ids) == "a\ufffd\ufffd"
    assert tokenizer.decode([4 + byte for byte in "ü€".encode()]) == "ü€"


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_out_of_range_are_refused(tokenizer: Tokenizer, wrong: int) -> None:
    with pytest.raises(IndexError):
        tokenizer.decode([wrong])


def test_newline_ids_are_all_that_can_write_a_line_end(tokenizer: Tokenizer) -> None:
    expected = [
        i for i in range(tokenizer.vocab_size) if {"\n", "\r"} & set(tokenizer.decode([i, 4 + ord("x")]))
    ]
    assert list(tokenizer.newline_ids) == expected == [4 + ord("\n"), 4 + ord("\r")]
    assert set(tokenizer.encode("a\nb\r")) & set(tokenizer.newline_ids) == set(tokenizer.newline_ids)


def test_newline_ids_include_pieces_of_other_models(tmp_path: Path) -> None:
    import io

    import sentencepiece

    output = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a\nb c"] * 20), model_writer=output, model_type="bpe", vocab_size=20,
        hard_vocab_limit=False, normalization_rule_name="identity", character_coverage=1.0, minloglevel=2,
        pad_id=0, unk_id=1, bos_id=2, eos_id=3,
    )  # fmt: skip
    foreign = Tokenizer.from_bytes(output.getvalue())
    assert foreign.newline_ids
    assert all("\n" in piece for piece in foreign.pieces(foreign.newline_ids))


def test_batches_and_threads_change_nothing(tokenizer: Tokenizer) -> None:
    texts = [*sentences(50, seed=5), "", " ", *SPECIAL]
    single = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts) == single
    assert tokenizer.encode_batch(texts, num_threads=3) == single
    assert tokenizer.encode_batch([]) == []
    assert single[50:52] == [[], []]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (
        train_tokenizer(iter(sentences()), config(kind=kind, sample_size=150), tmp_path / name)
        for name in ("a.model", "b.model")
    )
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes() == first.to_bytes()
    assert first.fingerprint() == second.fingerprint() == Tokenizer.load(tmp_path / "a.model").fingerprint()
    other = train_tokenizer(sentences(), config(kind=kind, sample_size=150, seed=2), tmp_path / "c.model")
    assert other.fingerprint() != first.fingerprint()


def test_a_tokenizer_travels(tokenizer: Tokenizer) -> None:
    copies = (pickle.loads(pickle.dumps(tokenizer)), Tokenizer.from_bytes(tokenizer.to_bytes()))
    for copy in copies:
        assert copy.encode("das Haus ²") == tokenizer.encode("das Haus ²")
        assert copy.normalization == tokenizer.normalization


def pairs(count: int = 200) -> Iterator[Pair]:
    for number, text in enumerate(sentences(count), 1):
        yield Pair(text, text.upper(), number)


def test_joint_vocabulary_is_one_object(tmp_path: Path) -> None:
    source, target = train_tokenizers(pairs(), config(vocab_size=350), tmp_path)
    assert source is target
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.model"]
    loaded = load_tokenizers(tmp_path)
    assert loaded[0] is loaded[1]
    assert loaded[0].fingerprint() == source.fingerprint()
    assert "T" in {piece[-1] for piece in source.pieces(range(260, 350))}
    assert "t" in {piece[-1] for piece in source.pieces(range(260, 350))}


def test_separate_vocabularies_are_two_files_and_replace_a_joint_one(tmp_path: Path) -> None:
    train_tokenizers(pairs(), config(), tmp_path)
    source, target = train_tokenizers(pairs(), config(vocab_size=320, joint=False), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["source.model", "target.model"]
    assert not any("T" in piece for piece in source.pieces(range(260, source.vocab_size)))
    assert not any("t" in piece for piece in target.pieces(range(260, target.vocab_size)))
    assert [t.fingerprint() for t in load_tokenizers(tmp_path)] == [
        source.fingerprint(),
        target.fingerprint(),
    ]
    train_tokenizers(pairs(), config(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.model"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [["a"], ["a b", "ab"], sentences(20)])
def test_a_tiny_corpus_gives_a_smaller_vocabulary_and_says_so(tmp_path: Path, caplog, kind, texts) -> None:
    with caplog.at_level(logging.WARNING, "transduce"):
        small = train_tokenizer(texts, config(kind=kind, vocab_size=8000), tmp_path / "t.model")
    assert 260 < small.vocab_size < 8000
    assert f"the text gives {small.vocab_size} pieces, not the 8000 asked for" in caplog.text
    assert small.decode(small.encode("Ünïcode 😀")) == "Ünïcode 😀"


def test_too_small_a_vocabulary_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"vocab_size \(262\) is too small: .* need (\d+)") as caught:
        train_tokenizer(sentences(), config(vocab_size=262), tmp_path / "t.model")
    needed = int(str(caught.value).partition("need ")[2].partition(";")[0])
    assert train_tokenizer(sentences(), config(vocab_size=needed), tmp_path / "t.model").vocab_size == needed
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("texts", [[], ["", "  ", "▁"]])
def test_no_text_is_an_error_and_leaves_no_file(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(TokenizerError, match="no text to learn a vocabulary from"):
        train_tokenizer(texts, config(), tmp_path / "t.model")
    with pytest.raises(TokenizerError, match="no text"):
        train_tokenizers([Pair(text, text, 1) for text in texts], config(joint=False), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_long_lines_are_learnt_from_in_part_and_counted(tmp_path: Path, caplog) -> None:
    with caplog.at_level(logging.WARNING, "transduce"):
        long = train_tokenizer(["é" * 9000 + "Z", *sentences()], config(), tmp_path / "t.model")
    assert "of 1 lines only the first 2000 characters were learnt from" in caplog.text
    characters = set("".join(long.pieces(range(260, long.vocab_size))))
    assert "é" in characters
    assert "Z" not in characters


def test_coverage_follows_the_writing_system(tmp_path: Path) -> None:
    rng = random.Random(1)
    alphabetic = ["abc " * 480] * 5 + ["QQ"]  # Q is 0.0002 of either text
    assert "Q" in "".join(all_pieces(train_tokenizer(alphabetic, config(), tmp_path / "a")))
    han = ["".join(chr(0x4E00 + rng.randrange(900)) for _ in range(1900)) for _ in range(10)] + ["QQQQ"]
    rare = train_tokenizer(han, config(vocab_size=2000), tmp_path / "b")
    assert "Q" not in "".join(all_pieces(rare))
    full = train_tokenizer(han, config(vocab_size=2000, character_coverage=1.0), tmp_path / "c")
    assert "Q" in "".join(all_pieces(full))


def all_pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(260, tokenizer.vocab_size))


def test_without_byte_fallback_unknown_characters_are_unk(tmp_path: Path) -> None:
    plain = train_tokenizer(sentences(), config(vocab_size=100, byte_fallback=False), tmp_path / "t.model")
    assert plain.encode("😀")[-1] == plain.unk_id
    assert plain.newline_ids == ()
    assert plain.vocab_size == 100


@pytest.mark.parametrize("content", [b"", b"not a model", None])
def test_files_that_are_no_model_are_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "t.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenizerError, match=r"t\.model") as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)


def test_a_cut_model_and_one_without_pad_are_refused(tmp_path: Path) -> None:
    import io

    import sentencepiece

    whole = train_tokenizer(sentences(), config(), tmp_path / "t.model").to_bytes()
    with pytest.raises(TokenizerError):
        Tokenizer.from_bytes(whole[: len(whole) // 2])
    output = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()), model_writer=output, vocab_size=40, minloglevel=2
    )
    with pytest.raises(TokenizerError, match="no pad_id"):
        Tokenizer.from_bytes(output.getvalue())


def test_a_directory_without_tokenizers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"holds no tokenizer; expected tokenizer\.model"):
        load_tokenizers(tmp_path)
    train_tokenizer(sentences(), config(), tmp_path / "source.model")
    with pytest.raises(TokenizerError, match=r"target\.model cannot be read"):
        load_tokenizers(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "word"},
        {"normalization": "nfd"},
        {"vocab_size": 0},
        {"sample_size": 0},
        {"character_coverage": 0.5},
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match=next(iter(settings))):
        TokenizerConfig(**settings)


def test_training_is_silent(tmp_path: Path, capfd) -> None:
    train_tokenizer(sentences(), config(), tmp_path / "t.model")
    with pytest.raises(TokenizerError):
        train_tokenizer(sentences(), config(vocab_size=262), tmp_path / "u.model")
    assert capfd.readouterr() == ("", "")


def test_normal_form_is_unicode_c() -> None:
    text = "Å\u212b A\u030a \ufb2c"
    assert normalise(text) == unicodedata.normalize("NFC", text)
