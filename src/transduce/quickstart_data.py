"""Real text for the first translator: the catalogues of Home Assistant, read out of its wheel.

In: the PyPI wheel `homeassistant==2026.11.0` (Apache-2.0), fetched by pip through the package
index that the user has set, checked by its SHA-256, and only ever read: never installed, never
run, never unpacked to disk.
Out: clean sentence pairs in three parts that share no sentence: train, valid, test.
Does not know: tokenizers, models, recipes. The sentences are not part of this package.

The catalogues are JSON files of short texts, the same keys in every language. One English text
is one pair; of texts that differ only in case, punctuation, numbers or placeholders one is kept.
Everything left out is counted by reason in `dropped`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transduce.errors import DataError
from transduce.files import file_sha256, write_atomic
from transduce.translate.split import split_sentences

__all__ = [
    "LANGUAGES",
    "Catalogue",
    "Pair",
    "QuickstartCorpus",
    "catalogue_pairs",
    "default_cache",
    "download_wheel",
    "load_quickstart_corpus",
    "write_corpus",
]

Pair = tuple[str, str]

LANGUAGES = ("de", "fr", "es", "zh-Hans", "zh-Hant")
"""The languages whose text we have read and whose cleaning we stand for; the wheel has others."""

_REQUIREMENT = "homeassistant==2026.11.0"
_PYTHON = "3.14.9"  # the wheel asks for a Python newer than ours; it is not going to run
_WHEEL = "homeassistant-2026.11.0-py3-none-any.whl"
_SHA256 = "7ca5fbde9dea879ac7723949fc84347aac5182e6309c357b2e4973fd391b00f7"
_SIZE = "67.6 MB"
_OWN_TEXT = "or give your own text with --source and --target"


# --- The wheel ----------------------------------------------------------------------------------


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/transduce`, or `~/.cache/transduce`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "transduce"


def download_wheel(cache: Path | None = None, *, report: Callable[[str], None]) -> Path:
    """The wheel in `cache`, downloaded with pip unless a good copy is there already.

    Raises:
        DataError: pip is missing or fails, what came is not the wheel we know, or the cache
            cannot be written.
    """
    cache = default_cache() if cache is None else cache
    wheel = cache / _WHEEL
    try:
        if wheel.is_file():
            if file_sha256(wheel) == _SHA256:
                return wheel
            report(f"{wheel} is damaged; downloading it again")
        cache.mkdir(parents=True, exist_ok=True)
        report(f"downloading {_REQUIREMENT} ({_SIZE}, once) to {cache}")
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
            _pip_download(Path(folder))
            _checked(Path(folder) / _WHEEL).replace(wheel)
    except OSError as error:
        raise DataError(
            f"the cache {cache} cannot be used: {error}; set XDG_CACHE_HOME to a folder that can "
            f"be written, {_OWN_TEXT}"
        ) from error
    return wheel


def _pip_download(folder: Path) -> None:
    """Let pip put the wheel into `folder`, from whatever index the user has set."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:"]
    command += [f"--python-version={_PYTHON}", f"--dest={folder}", _REQUIREMENT]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        raise DataError(
            f"{_REQUIREMENT} is fetched with pip, which {sys.executable} does not have; install "
            f"it with: {sys.executable} -m ensurepip, {_OWN_TEXT}"
        )
    errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
    raise DataError(
        f"pip could not download {_REQUIREMENT} ({errors[-1]}); check the network and the index "
        f"that pip uses (pip config list), {_OWN_TEXT}"
    )


def _checked(wheel: Path) -> Path:
    """`wheel` itself, if it is the file we know."""
    if not wheel.is_file():
        raise DataError(f"pip succeeded but left no {_WHEEL}; try again, {_OWN_TEXT}")
    digest = file_sha256(wheel)
    if digest != _SHA256:
        raise DataError(
            f"the {_WHEEL} that pip fetched has SHA-256 {digest}, expected {_SHA256}; it was "
            f"deleted unread; check the index that pip uses (pip config list), {_OWN_TEXT}"
        )
    return wheel


# --- The catalogues in it -----------------------------------------------------------------------

_CATALOGUE = re.compile(r"homeassistant/components/([a-z0-9_]+)/translations/([A-Za-z0-9-]+)\.json")
_MAX_FILE = 4 * 2**20  # the largest catalogue has 0.3 MB
_MAX_TOTAL = 256 * 2**20
_Leaves = dict[tuple[str, ...], str]


@dataclass(frozen=True)
class Catalogue:
    """Clean pairs of English and another language, and what was left out, by reason."""

    pairs: list[Pair]
    dropped: Mapping[str, int]


def catalogue_pairs(wheel: Path, language: str) -> Catalogue:
    """English texts of the wheel's catalogues with their translations, cleaned, without duplicates.

    Raises:
        DataError: the file is missing, not a wheel, implausibly large inside, or has no such
            language; the known ones are listed.
    """
    votes: dict[str, Counter[Pair]] = defaultdict(Counter)
    dropped: Counter[str] = Counter()
    for english, translated in _texts(wheel, language, dropped):
        for source, target in _pieces(english, translated, language):
            reason = _why_not(source, target, language)
            if reason:
                dropped[reason] += 1
            else:
                votes[normalised_key(source)][source, target] += 1
    dropped["said elsewhere"] = sum(sum(counter.values()) - 1 for counter in votes.values())
    # The pair met most often wins; between equals the first in the alphabet.
    pairs = [min(c.items(), key=lambda item: (-item[1], item[0]))[0] for c in votes.values()]
    return Catalogue(sorted(pairs), dict(sorted(dropped.items())))


def _texts(wheel: Path, language: str, dropped: Counter[str]) -> Iterator[Pair]:
    """Every English text with its translation, matched by component and key path."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = _catalogue_files(archive)
            _check_language(wheel, files, language)
            for (component, code), info in sorted(files.items()):
                if code != "en" or (component, language) not in files:
                    continue
                english = _leaves(archive, info)
                translated = _leaves(archive, files[component, language])
                if english is None or translated is None:
                    dropped["damaged file"] += 1
                    continue
                for path, text in english.items():
                    if path in translated:
                        yield text, translated[path]
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{wheel} cannot be read as a wheel: {error}; delete it, and it is downloaded again"
        ) from error


def _catalogue_files(archive: zipfile.ZipFile) -> dict[tuple[str, str], zipfile.ZipInfo]:
    """(component, language) → catalogue file; other entries, whatever their names, are ignored."""
    files = {}
    for info in archive.infolist():
        match = _CATALOGUE.fullmatch(info.filename)
        if match:
            files[match[1], match[2]] = info
    return files


def _check_language(wheel: Path, files: Mapping[tuple[str, str], zipfile.ZipInfo], language: str) -> None:
    """Refuse a language that is not there, English itself, and a bomb."""
    known = sorted({code for _, code in files if not code.startswith("en")})
    if language not in known:
        near = difflib.get_close_matches(language, known, 1, cutoff=0.4)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"{wheel.name} has no catalogues in {language!r}{hint}; known: {', '.join(known)}")
    total = sum(info.file_size for (_, code), info in files.items() if code in ("en", language))
    if total > _MAX_TOTAL:
        raise DataError(
            f"{wheel} unpacks to {total:,} bytes of catalogues, more than {_MAX_TOTAL:,}: it is "
            "not the wheel we know; delete it, and it is downloaded again"
        )


def _leaves(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Leaves | None:
    """Key path → text for every string in a JSON file; `None` if the file is damaged."""
    try:
        if info.file_size > _MAX_FILE:
            return None
        tree = json.loads(archive.read(info))
    except (ValueError, RecursionError, RuntimeError, zlib.error, zipfile.BadZipFile, EOFError):
        return None
    found: _Leaves = {}
    stack: list[tuple[tuple[str, ...], object]] = [((), tree)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            stack.extend(((*path, str(key)), child) for key, child in node.items())
        elif isinstance(node, str):
            found[path] = node
    return found


# --- What makes a good pair ---------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{[A-Za-z0-9_]+\}")
_MARKUP = re.compile(
    r"://|www\.|[\\#|~^=*`{}<>@→\[\]]"  # links, emphasis, ICU forms, references, code
    r"|\w_\w|(?<!\w)_|\w\.(?:ya?ml|json|py)\b"  # names in a program
    r"|^\s*(?:[-•]|\d+[.)])\s|[\ud800-\udfff\ufffd\x00-\x08\x0e-\x1f\x7f]"  # lists, broken text
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_FINAL = {"。": ".", "…": ".", "！": "!", "？": "?", "：": ":", "；": ";", "，": ",", "؟": "?"}
_NUM_WORDS = range(3, 21)


def normalised_key(text: str) -> str:
    """What two texts share that say the same: no case, no punctuation, numbers and names as 0."""
    text = unicodedata.normalize("NFKC", _PLACEHOLDER.sub(" 0 ", text)).casefold()
    return " ".join(re.findall(r"[^\W_]+", re.sub(r"\d+", "0", text)))


def _pieces(english: str, translated: str, language: str) -> Iterator[Pair]:
    """Line by line, and sentence by sentence where both sides have equally many."""
    pair = [english], [translated]
    for split in (_lines, _sentences):
        finer = [p for t in pair[0] for p in split(t)], [p for t in pair[1] for p in split(t)]
        if len(finer[0]) != len(finer[1]):
            break
        pair = finer
    for source, target in zip(*pair, strict=True):
        yield _normalised(source, "en"), _normalised(target, language)


def _lines(text: str) -> list[str]:
    """The lines that hold something."""
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def _sentences(text: str) -> list[str]:
    """The sentences."""
    return [segment.text for segment in split_sentences(text)]


def _normalised(text: str, language: str) -> str:
    """One space between words, NFC, and no space before Chinese or Japanese marks."""
    text = unicodedata.normalize("NFC", " ".join(text.split()))
    return re.sub(r" (?=[，。、！？；：）])", "", text) if _unspaced(language) else text


def _why_not(source: str, target: str, language: str) -> str | None:
    """The reason to leave a pair out, or `None`."""
    bare, bare_target = _PLACEHOLDER.sub(" ", source), _PLACEHOLDER.sub(" ", target)
    if _MARKUP.search(bare) or _MARKUP.search(bare_target):
        return "markup"
    if sorted(_PLACEHOLDER.findall(source)) != sorted(_PLACEHOLDER.findall(target)):
        return "placeholders differ"
    num_words = len(source.split())
    if num_words not in _NUM_WORDS:
        return "too short" if num_words < _NUM_WORDS.start else "too long"
    if len(re.findall(r"[^\W\d_]{2,}", bare)) < 2 or _letter_share(bare) < 0.7:
        return "not words"
    if normalised_key(source) == normalised_key(target):
        return "not translated"
    if not (_balanced(bare) and _balanced(bare_target)):
        return "brackets or quotes not closed"
    if sorted(re.findall(r"\d+", bare)) != sorted(re.findall(r"\d+", bare_target)):
        return "numbers differ"
    if _final(source) != _final(target):
        return "final punctuation differs"
    return None if _lengths_agree(source, target, bare_target, language) else "lengths disagree"


def _letter_share(text: str) -> float:
    """How much of what is visible in `text` is letters."""
    visible = [character for character in text if not character.isspace()]
    return sum(character.isalpha() for character in visible) / max(1, len(visible))


def _balanced(text: str) -> bool:
    """Whether brackets and straight double quotes come in pairs."""
    opened, closed = len(re.findall("[(（]", text)), len(re.findall("[)）]", text))
    return opened == closed and text.count('"') % 2 == 0


def _final(text: str) -> str:
    """The punctuation mark that ends `text`, if one does, as in English."""
    last = text.rstrip("\"'”’“»)）」』")[-1:]
    last = _FINAL.get(last, last)
    return last if last in ".!?:;," else ""


def _lengths_agree(source: str, target: str, bare_target: str, language: str) -> bool:
    """Whether one text can be the other's translation by its length."""
    if _unspaced(language):
        ratio = (len(source) + 3) / (len(target) + 1)
        return len(_CJK.findall(bare_target)) >= 2 and len(target) <= 60 and 0.8 <= ratio <= 7
    ratio = (len(source) + 5) / (len(target) + 5)
    return len(target.split()) <= 25 and 0.4 <= ratio <= 2.5


def _unspaced(language: str) -> bool:
    """Whether the language writes no spaces between words."""
    return language.split("-")[0] in ("zh", "ja")


# --- Three parts --------------------------------------------------------------------------------

_HELD_OUT = 500


@dataclass(frozen=True)
class QuickstartCorpus:
    """Sentence pairs of English and `language`; no sentence of one part is in another.

    Neither side of a pair in one part equals, by its normalised key, either side in another.
    """

    language: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    dropped: Mapping[str, int] = field(default_factory=dict)
    """What cleaning left out of the catalogues, by reason."""

    @property
    def parts(self) -> dict[str, list[Pair]]:
        """The three parts by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}


def load_quickstart_corpus(wheel: Path, language: str) -> QuickstartCorpus:
    """Read the wheel's pairs of English and `language`, and part them; the same every time.

    Raises:
        DataError: as `catalogue_pairs`, or too little text to part.
    """
    catalogue = catalogue_pairs(wheel, language)
    held_out = min(_HELD_OUT, len(catalogue.pairs) // 20)
    if not held_out:
        raise DataError(
            f"{wheel.name} has only {len(catalogue.pairs)} clean pairs in {language!r}, too few "
            f"to learn from; take one of {', '.join(LANGUAGES)}, {_OWN_TEXT}"
        )
    parts: dict[str, list[Pair]] = {"test": [], "valid": [], "train": []}
    for group in _groups(catalogue.pairs):
        part = next((p for p in ("test", "valid") if len(parts[p]) < held_out), "train")
        parts[part].extend(group)
    return QuickstartCorpus(language, **parts, dropped=catalogue.dropped)


def _groups(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Pairs that share a key, on either side, together; in the order of a hash of the English key.

    The hash makes the order arbitrary but fixed, and nearly the same for every language, so that
    a sentence tested in one language is not a training sentence of another.
    """
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for source, target in pairs:
        parent[root(normalised_key(source))] = root(normalised_key(target))
    groups: dict[str, list[tuple[str, Pair]]] = defaultdict(list)
    for pair in pairs:
        key = normalised_key(pair[0])
        digest = hashlib.sha256(key.encode()).hexdigest()
        groups[root(key)].append((digest, pair))
    return [[pair for _, pair in group] for group in sorted(map(sorted, groups.values()))]


def write_corpus(corpus: QuickstartCorpus, directory: Path) -> dict[str, tuple[Path, Path]]:
    r"""Write `train.en`, `train.de`, `valid.en`, … with `\n` line ends; return the paths by part.

    Raises:
        OSError: the directory cannot be written, or the disk is full.
    """
    written = {}
    for part, pairs in corpus.parts.items():
        paths = directory / f"{part}.en", directory / f"{part}.{corpus.language}"
        for side, path in enumerate(paths):
            write_atomic(path, "".join(f"{pair[side]}\n" for pair in pairs))
        written[part] = paths
    return written
