"""The scores are sacreBLEU's, with its signatures; bad input is refused with both numbers."""

import json
import subprocess
import sys

import pytest
import sacrebleu

from transduce import evaluate
from transduce.errors import DataError
from transduce.evaluate import fast_bleu, fast_chrf, score

HYPOTHESES = [
    "The cat sat on the mat, quietly.",
    "A dog was barking at 3.5 trees!",
    "It is Tuesday today.",
    "",
    "Please turn off the light in the kitchen.",
]
REFERENCES = [
    "The cat was sitting on the mat, quietly.",
    "A dog barked at 3.5 trees.",
    "Today is Tuesday.",
    "Nothing was said.",
    "Please switch off the light in the kitchen.",
]


def test_scores_equal_sacrebleu_called_directly():
    ours = score(HYPOTHESES, REFERENCES)
    bleu, chrf, ter = sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()
    for got, metric in [(ours.bleu, bleu), (ours.chrf, chrf), (ours.ter, ter)]:
        expected = metric.corpus_score(HYPOTHESES, [REFERENCES])
        assert got.value == expected.score
        assert got.signature == str(metric.get_signature())
        assert got.name == expected.name
    assert ours.bleu.detail == bleu.corpus_score(HYPOTHESES, [REFERENCES])._verbose
    assert ours.notes == ()


def test_known_values():
    perfect = score(REFERENCES, REFERENCES)
    assert perfect.bleu.value == pytest.approx(100)
    assert perfect.chrf.value == pytest.approx(100)
    assert perfect.ter.value == 0
    # 1 of 4 words wrong: precisions 3/4, 1/3, and none of 2 and 1 (halved each time: exp)
    one = score(["a b x d"], ["a b c d"])
    assert one.bleu.value == pytest.approx(100 * (3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** 0.25)
    assert one.ter.value == pytest.approx(25)


def test_lowercase_changes_scores_and_signature():
    assert score(["A B C D"], ["a b c d"]).bleu.value == 0
    lower = score(["A B C D"], ["a b c d"], lowercase=True)
    assert lower.bleu.value == pytest.approx(100)
    assert lower.chrf.value == pytest.approx(100)
    assert "case:lc" in lower.bleu.signature


def test_several_references_of_differing_number():
    hypotheses = ["the cat sat", "a dog ran off"]
    references = [["a cat sat", "the cat sat"], ["a dog ran away"]]
    ours = score(hypotheses, references)
    streams = [["a cat sat", "a dog ran away"], ["the cat sat", None]]
    assert ours.bleu.value == sacrebleu.BLEU().corpus_score(hypotheses, streams).score
    assert ours.chrf.value == sacrebleu.CHRF().corpus_score(hypotheses, streams).score
    assert ours.ter.value == sacrebleu.TER().corpus_score(hypotheses, streams).score
    assert "nrefs:var" in ours.bleu.signature
    assert ours.bleu.value > score(hypotheses, [r[0] for r in references]).bleu.value
    two = score(hypotheses, [["the cat sat"] * 2, ["a dog ran away"] * 2])
    assert "nrefs:2" in two.bleu.signature


def test_the_order_of_references_does_not_matter():
    a = score(["the cat sat"], [["the cat sat", "x"]])
    b = score(["the cat sat"], [["x", "the cat sat"]])
    assert a.bleu.value == b.bleu.value
    assert a.chrf.value == pytest.approx(b.chrf.value)


@pytest.mark.parametrize("language", ["zh", "zh-Hans", "zh_TW", "ZHO", "cmn-Hant"])
def test_chinese_is_split_into_characters(language):
    hypotheses, references = ["今天天气很好。"], ["今天的天气很好。"]
    ours = score(hypotheses, references, target_language=language)
    bleu = sacrebleu.BLEU(tokenize="zh")
    assert ours.bleu.value == bleu.corpus_score(hypotheses, [references]).score > 0
    assert "tok:zh" in ours.bleu.signature
    assert "asian:yes" in ours.ter.signature
    assert ours.ter.value == pytest.approx(100 / 8), "one character of eight is missing"
    assert score(hypotheses, references).bleu.value == 0, "13a sees one word"


def test_japanese_without_mecab_counts_characters_and_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ours = score(["今日は良い天気です。"], ["今日はいい天気です。"], target_language="ja")
    assert "tok:char" in ours.bleu.signature
    assert "sacrebleu[ja]" in ours.notes[0]
    assert "sacrebleu[ja]" in ours.render()


def test_a_given_tokenizer_wins_over_the_language():
    assert "tok:char" in score(["a"], ["a"], tokenize="char", target_language="zh").bleu.signature


def test_none_is_for_tokenised_text_and_the_signature_says_so():
    tokenised = ["the cat sat ."] * 200
    loud = score(tokenised, tokenised)
    assert "200 of 200 lines end in ' .'" in loud.notes[0]
    quiet = score(tokenised, tokenised, tokenize="none")
    assert quiet.notes == ()
    assert "tok:none" in quiet.bleu.signature


def test_the_warning_is_a_note_and_nothing_is_printed(capfd, caplog):
    score(["the cat sat ."] * 200, ["the cat sat."] * 200)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_to_dict_is_json_and_render_names_every_signature():
    ours = score(HYPOTHESES, REFERENCES)
    plain = json.loads(json.dumps(ours.to_dict()))
    assert plain["bleu"]["value"] == ours.bleu.value
    assert plain["num_lines"] == 5
    lines = ours.render().splitlines()
    assert [line.split("|")[0] for line in lines] == ["BLEU", "chrF2", "TER"]
    assert all("version:" in line for line in lines)


def test_empty_lines_are_scored():
    assert score(["a b", ""], ["", "a b"]).bleu.value == 0
    assert score(["", ""], ["", ""]).ter.value == 0


def test_fast_scores_are_the_same_numbers():
    ours = score(HYPOTHESES, REFERENCES)
    assert fast_bleu(HYPOTHESES, REFERENCES) == ours.bleu.value
    assert fast_chrf(HYPOTHESES, REFERENCES) == ours.chrf.value
    chinese = ["今天天气很好。"], ["今天的天气很好。"]
    expected = score(*chinese, target_language="zh").bleu.value
    assert fast_bleu(*chinese, target_language="zh") == expected > 0


@pytest.mark.parametrize("function", [score, fast_bleu, fast_chrf])
@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"] * 3, ["a"] * 2, "3 hypotheses but 2 references"),
        ([], [], "no lines to score"),
        ("a b", ["a b"], "hypotheses: expected a list of lines"),
        (["a"], "a", "references: expected a list of lines"),
        (["a", None], ["a", "b"], "hypotheses, line 2: expected text, got NoneType"),
        (["a", "b"], [["a"], []], "references, line 2: expected at least one reference"),
        (["a", "b"], [["a"], "b"], "references, line 2: one string where other lines have lists"),
        (["a"], [[None]], "references, line 1"),
        (["a"], [None], "references, line 1"),
    ],
)
def test_bad_input_says_what_came(function, hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        function(hypotheses, references)


def test_an_unknown_tokenizer_lists_the_known():
    with pytest.raises(DataError, match="'13b' is unknown; known: none, zh, 13a"):
        score(["a"], ["a"], tokenize="13b")


def test_a_tokenizer_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(DataError, match=r"pip install sacrebleu\[ja\]"):
        score(["a"], ["a"], tokenize="ja-mecab")


def test_importing_the_room_imports_neither_sacrebleu_nor_numpy_nor_torch():
    code = (
        "import sys, transduce.evaluate; print(*sorted({'sacrebleu', 'numpy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_public_names():
    assert all(hasattr(evaluate, name) for name in evaluate.__all__)
