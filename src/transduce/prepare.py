"""Text to a token store: clean, learn the tokenizer, hold validation out, encode; one function a step.

In: a recipe that names text. Out: `Prepared`, and on disk `text/` and `store/` of the run.
Constant memory: the text is walked, never held; of each pair only its number and a hash are kept.
Does not know: models, training.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from transduce.batch.store import TokenStore, build_store, stored_fingerprint
from transduce.errors import DataError, RecipeError
from transduce.files import write_atomic
from transduce.progress import track
from transduce.recipe import Recipe
from transduce.text.cleaning import CleanCorpus, clean, text_hash
from transduce.text.corpus import open_corpus
from transduce.text.lines import read_lines
from transduce.text.pairs import Corpus, Pair
from transduce.text.piece_map import map_pieces
from transduce.text.tokenizer import Tokenizer, load_tokenizers, save_tokenizers
from transduce.text.vocabulary import train_tokenizers

__all__ = ["Prepared", "Run", "prepare", "training_corpus"]

_ENCODE_PAIRS = 2000  # encoded together
_ENCODE_THREADS = 2
_LARGEST_HOLDOUT = 10  # at most one pair in so many is held out for validation


@dataclass(frozen=True)
class Run:
    """A run's directory and what stands where in it."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def text(self) -> Path:
        """Tokenizer files, validation sentences, `text.json`."""
        return self.path / "text"

    @property
    def store(self) -> Path:
        """Token ids of the training text; `valid` beside it."""
        return self.path / "store"

    @property
    def checkpoints(self) -> Path:
        """Saved states."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The finished model."""
        return self.path / "model"

    @property
    def changed(self) -> Path:
        """A mark that the run goes on under other settings or text than those of `model`."""
        return self.path / ".changed"

    @property
    def has_begun(self) -> bool:
        """Whether anything is trained that other settings could spoil."""
        return self.model.exists() or any(self.checkpoints.glob("step-*"))

    @property
    def is_finished(self) -> bool:
        """Whether `model` is what the recipe asks for."""
        return (self.model / "recipe.toml").exists() and not self.changed.exists()


@dataclass(frozen=True)
class Prepared:
    """Text made ready for training."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: TokenStore
    valid: TokenStore
    valid_source: list[str]
    valid_target: list[str]
    facts: list[str]
    """What was kept and dropped, in sentences."""


def prepare(
    recipe: Recipe,
    cleaned: CleanCorpus,
    run: Run,
    console: Console,
    *,
    origin: tuple[Tokenizer, Tokenizer] | None = None,
    allow_changes: bool = False,
) -> Prepared:
    """Clean the text, learn the tokenizer, store the ids; only when they do not stand already.

    Args:
        recipe: all settings.
        cleaned: from `training_corpus`.
        run: where to write.
        console: where progress is shown.
        origin: the vocabularies of the model that training begins from.
        allow_changes: take other text than training began with; its vocabulary stays.

    Raises:
        DataError: the text cannot be read, or has changed since training began.
    """
    fingerprint = _fingerprint(recipe, cleaned)
    facts_file = run.text / "text.json"
    # The validation store is written last, so that its fingerprint stands for everything.
    if stored_fingerprint(run.store / "valid") != fingerprint:
        begun = run.has_begun
        if begun and not allow_changes:
            raise DataError(
                f"the text of {run.path} is not what its training began with: put the files back as they "
                f"were, add --allow-changes to go on with the new text, or choose a new --out"
            )
        learn = not begun and (origin is None or recipe.start.new_vocabulary)
        if origin is not None and not begun and not learn:
            save_tokenizers(origin, run.text)
        numbers, held_out = _read_text(recipe, run, cleaned, console, learn=learn)
        facts = _facts(cleaned, len(numbers), len(held_out))
        if begun:
            facts += _earlier_facts(run, facts, len(numbers), console)
        elif origin is not None:
            facts.append(_vocabulary_fact(origin, load_tokenizers(run.text)))
        write_atomic(facts_file, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        _store_text(recipe, run, numbers, fingerprint, console)
        _store_validation(run, fingerprint)
    facts = json.loads(facts_file.read_text(encoding="utf-8"))
    for fact in facts:
        console.print(fact, markup=False, soft_wrap=True)
    return Prepared(
        *load_tokenizers(run.text),
        TokenStore(run.store / "train"),
        TokenStore(run.store / "valid"),
        list(read_lines(run.text / "valid.source")),
        list(read_lines(run.text / "valid.target")),
        facts,
    )


def _facts(cleaned: CleanCorpus, num_train: int, num_held_out: int) -> list[str]:
    """What became of the text, in sentences."""
    facts = [f"text: {cleaned.counts.summary()}"]
    if num_held_out:
        facts.append(f"held out for validation: {num_held_out:,} pairs; trained on: {num_train:,}")
    mended = {
        "repaired": "lines were not UTF-8 and were repaired",
        "joined": "texts with line ends were joined",
    }
    facts += [f"{count:,} {mended.get(kind, kind)}" for kind, count in cleaned.notes.items() if count]
    return facts


def _vocabulary_fact(old: tuple[Tokenizer, Tokenizer], new: tuple[Tokenizer, Tokenizer]) -> str:
    """How the vocabulary stands to that of the model that training begins from."""
    if [t.fingerprint() for t in old] == [t.fingerprint() for t in new]:
        return "vocabulary: the one of the model that training begins from"
    sides = [f"{map_pieces(o, n).num_shared:,} of {n.vocab_size:,}" for o, n in zip(old, new, strict=True)]
    kept = f"{sides[0]} pieces" if new[0] is new[1] else f"{sides[0]} source and {sides[1]} target pieces"
    return f"vocabulary: new; kept {kept} of the model that training begins from"


def _earlier_facts(run: Run, facts: list[str], num_train: int, console: Console) -> list[str]:
    """What stays true of a run whose text is changed; tells how many pairs there were and are."""
    try:
        before: list[str] = json.loads((run.text / "text.json").read_text(encoding="utf-8"))
        num_before = f"{len(TokenStore(run.store / 'train')):,}"
    except (OSError, ValueError, DataError):  # lost, and made again
        return []
    console.print(f"pairs trained on: {num_before} → {num_train:,}; the vocabulary stays", soft_wrap=True)
    earlier = [fact for fact in before if fact.startswith(("vocabulary: ", "earlier "))]
    if before[0] == facts[0]:  # the same text in other files, or a change that was killed half-way
        return earlier
    return [*earlier, f"earlier {before[0]}"]


def training_corpus(recipe: Recipe) -> CleanCorpus:
    """The training text as it will be seen.

    Raises:
        RecipeError: the recipe names no text.
        DataError: a file is missing or of an unknown form.
    """
    data = recipe.data
    if not data.source:
        raise RecipeError(
            "no training text: give --source and --target, or data.source and data.target in the recipe"
        )
    return clean(_open(data.source, data.target, recipe), recipe.cleaning)


def _open(source: str, target: str, recipe: Recipe) -> Corpus:
    return open_corpus(
        Path(source),
        Path(target) if target else None,
        source_language=recipe.data.source_language or None,
        target_language=recipe.data.target_language or None,
        repair=recipe.data.repair,
    )


def _fingerprint(recipe: Recipe, cleaned: CleanCorpus) -> str:
    """Of everything that the token store depends on."""
    data = recipe.data
    parts = [
        cleaned.fingerprint(),
        repr(asdict(recipe.tokenizer)),
        repr((data.sampling_alpha, data.sampling_copies)),
    ]
    if data.sampling_side != "both":
        parts.append(f"sampled side {data.sampling_side}")
    if data.valid_source:
        parts.append(_open(data.valid_source, data.valid_target, recipe).fingerprint())
    else:
        parts.append(f"holdout {data.holdout_pairs}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _read_text(
    recipe: Recipe, run: Run, cleaned: CleanCorpus, console: Console, *, learn: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Walk the text once: learn the tokenizer if wanted, choose what is held out, write the validation text.

    Returns the sorted numbers of the pairs that are trained on, and of those held out.
    """
    run.text.mkdir(parents=True, exist_ok=True)
    lines, hashes = array("q"), array("Q")
    doing = "reading and learning the vocabulary" if learn else "reading"
    with track(console, doing, "pairs") as tell:

        def noting() -> Iterator[Pair]:
            for pair in cleaned:
                lines.append(pair.line)
                hashes.append(text_hash(pair.source))
                if len(lines) % 1000 == 0:
                    tell(len(lines))
                yield pair

        if learn:
            train_tokenizers(noting(), recipe.tokenizer, run.text)
        else:
            deque(noting(), maxlen=0)
    numbers = np.frombuffer(lines, np.int64)
    if recipe.data.valid_source:
        held_out = np.empty(0, np.int64)
        valid: Iterable[Pair] = _open(recipe.data.valid_source, recipe.data.valid_target, recipe)
    else:
        held_out = _choose_holdout(numbers, np.frombuffer(hashes, np.uint64), recipe.data.holdout_pairs)
        valid = _only(_open(recipe.data.source, recipe.data.target, recipe), held_out)
    _write_validation_text(run, valid)
    return np.setdiff1d(numbers, held_out, assume_unique=True), held_out


def _choose_holdout(numbers: NDArray[np.int64], hashes: NDArray[np.uint64], wanted: int) -> NDArray[np.int64]:
    """About `wanted` pairs, chosen by what their source says: equal sources stay on one side."""
    wanted = min(wanted, len(numbers) // _LARGEST_HOLDOUT)
    if wanted == 0:
        raise DataError(
            f"too few clean pairs ({len(numbers)}) to hold any out for validation: give --valid-source and "
            f"--valid-target, or more text"
        )
    threshold = np.partition(hashes, wanted - 1)[wanted - 1]
    chosen: NDArray[np.int64] = numbers[hashes <= threshold]
    if len(chosen) > len(numbers) // 2:
        raise DataError(
            "most clean pairs have the same source, so none can be held out for validation without being "
            "trained on as well: give --valid-source and --valid-target, or more varied text"
        )
    return chosen


def _only(pairs: Iterable[Pair], numbers: NDArray[np.int64]) -> Iterator[Pair]:
    """The pairs of the given sorted numbers, from pairs in order."""
    wanted = iter(numbers.tolist())
    number = next(wanted, None)
    for pair in pairs:
        if pair.line == number:
            yield pair
            number = next(wanted, None)
            if number is None:
                return


def _write_validation_text(run: Run, valid: Iterable[Pair]) -> None:
    """`text/valid.source` and `text/valid.target`, blank pairs left out."""
    pairs = [pair for pair in valid if pair.source.strip() and pair.target.strip()]
    if not pairs:
        raise DataError("the validation text has no pair with both sides: give other validation files")
    for name, lines in (("source", [p.source for p in pairs]), ("target", [p.target for p in pairs])):
        write_atomic(run.text / f"valid.{name}", "".join(f"{line}\n" for line in lines))


def _store_text(
    recipe: Recipe, run: Run, numbers: NDArray[np.int64], fingerprint: str, console: Console
) -> None:
    """Encode the training pairs into the token store, every sampled copy of them."""
    source, target = load_tokenizers(run.text)
    alpha = recipe.data.sampling_alpha
    target_alpha = alpha if recipe.data.sampling_side == "both" else 0.0
    copies = recipe.data.sampling_copies if alpha else 1

    def pairs() -> Iterator[Pair]:
        return _only(_open(recipe.data.source, recipe.data.target, recipe), numbers)

    def encoded(tell: Callable[[int], None]) -> Iterator[tuple[list[int], list[int]]]:
        done = 0
        for copy in range(copies):
            for group in _groups(pairs(), _ENCODE_PAIRS):
                seeds = [pair.line * 1_000_003 + copy for pair in group]
                yield from zip(
                    _encode(source, [pair.source for pair in group], alpha, seeds),
                    _encode(target, [pair.target for pair in group], target_alpha, [s + 1 for s in seeds]),
                    strict=True,
                )
                done += len(group)
                tell(done)

    with track(console, "tokenizing", "pairs", copies * len(numbers)) as tell:
        build_store(
            run.store / "train",
            encoded(tell),
            vocab_size=max(source.vocab_size, target.vocab_size),
            fingerprint=fingerprint,
            num_copies=copies,
            lines=numbers,
        )


def _encode(tokenizer: Tokenizer, texts: list[str], alpha: float, seeds: list[int]) -> list[list[int]]:
    """Ids of each text; with `alpha`, of the other segmentation that its seed draws."""
    if not alpha:
        return tokenizer.encode_batch(texts, num_threads=_ENCODE_THREADS)
    return [
        tokenizer.encode_sampled(text, alpha=alpha, seed=seed)
        for text, seed in zip(texts, seeds, strict=True)
    ]


def _store_validation(run: Run, fingerprint: str) -> None:
    """Encode the validation pairs into a small store of their own."""
    source, target = load_tokenizers(run.text)
    sides = [list(read_lines(run.text / f"valid.{name}")) for name in ("source", "target")]
    build_store(
        run.store / "valid",
        zip(source.encode_batch(sides[0]), target.encode_batch(sides[1]), strict=True),
        vocab_size=max(source.vocab_size, target.vocab_size),
        fingerprint=fingerprint,
    )


def _groups(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    """Consecutive pairs, `size` at a time."""
    iterator = iter(pairs)
    while group := list(islice(iterator, size)):
        yield group
