"""The whole road from two text files to a scored model directory, one function a step.

    settle     the recipe is written down, or compared with the one that the run began with
    prepare    text → cleaned pairs → tokenizer → token store         (skipped when it stands)
    train      token store → checkpoints                             (goes on where it was)
    finish     checkpoints → averaged weights → model directory, scored on the validation text

Running the same command again continues at the first step that is not done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from transduce.card import made_with, model_card, training_facts
from transduce.errors import CheckpointError, RecipeError
from transduce.evaluate.scores import Scores, fast_bleu, fast_chrf, score
from transduce.files import clear_leftovers, written_or
from transduce.finetune import STARTED_FROM, Origin, begin_from, open_origin
from transduce.model.config import TransformerConfig
from transduce.prepare import Prepared, Run, prepare, training_corpus
from transduce.recipe import Recipe, differences, read_recipe, write_recipe
from transduce.scoring import translate_all
from transduce.translate.model_directory import write_model_directory
from transduce.translate.translator import Translator

if TYPE_CHECKING:
    from transduce.batch.store import TokenStore
    from transduce.model.transformer import Transformer
    from transduce.train.loop import Outcome
    from transduce.train.validate import Validator

__all__ = ["finish", "train"]

# What may change under a run: everything but what its weights' shapes and meaning depend on.
_CHANGEABLE = (
    *("train.", "search.", "batch.", "data.", "cleaning.", "description"),
    *("model.dropout:", "model.attention_dropout:", "model.activation_dropout:"),
)


def train(recipe: Recipe, path: Path, console: Console, *, allow_changes: bool = False) -> Outcome | None:
    """Make the run at `path` whole, from wherever it stands; None when it was finished already.

    Args:
        recipe: all settings.
        path: the run's directory; made when missing.
        console: where progress is shown.
        allow_changes: go on although settings or text differ from those the run began with.

    Raises:
        TransduceError: of every kind, with one line that says what to do.
    """
    run = Run(path)
    # Before anything is written: the text or the model to begin from may not be there.
    cleaned = training_corpus(recipe)
    origin = open_origin(recipe, run)
    with _alone(run):
        clear_leftovers(run.path)
        if _settle(recipe, run, origin, console, allow_changes=allow_changes):
            console.print(f"{run.model} is finished; nothing to do", soft_wrap=True)
            return None
        old = None if origin is None else origin.tokenizers
        prepared = prepare(recipe, cleaned, run, console, origin=old, allow_changes=allow_changes)
        prepared = _told_of_long_pairs(recipe, prepared, console)

        def make() -> Transformer:
            return _new_model(recipe, prepared, origin)

        model = make()
        outcome = _train(recipe, run, prepared, model, make, console)
        if outcome.finished:
            finish(recipe, run, prepared, model, outcome, console)
        return outcome


@contextmanager
def _alone(run: Run) -> Iterator[None]:
    """Keep other processes off the run; the system lets go of the lock however this one ends.

    Raises:
        CheckpointError: another process is working on it, or it cannot be written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(run.path / ".lock", timeout=0)
    with written_or(CheckpointError, f"the run directory {run.path} cannot be used"):
        run.path.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise CheckpointError(
                f"another process is working on {run.path}: wait for it, stop it, or choose another --out"
            ) from None
    try:
        yield
    finally:
        lock.release()


def _settle(
    recipe: Recipe, run: Run, origin: Origin | None, console: Console, *, allow_changes: bool
) -> bool:
    """Write the recipe down or compare it; True when the model is finished under the same recipe."""
    begun = made_with() | ({} if origin is None else {STARTED_FROM: origin.fingerprint})
    if not run.recipe.exists():
        write_recipe(replace(recipe, made_with=begun), run.recipe)
        return False
    before = read_recipe(run.recipe)
    changes = differences(before, recipe)
    if not changes:
        return run.is_finished
    fixed = [change for change in changes if not change.startswith(_CHANGEABLE)]
    if not run.has_begun:  # a mistake in the first command, say: nothing is lost
        _forget(run, everything=bool(fixed))
        write_recipe(replace(recipe, made_with=begun), run.recipe)
        console.print(f"begun anew, with other settings: {'; '.join(changes)}", markup=False, soft_wrap=True)
        return False
    if fixed:
        raise RecipeError(
            f"{run.path} was begun with another model or vocabulary ({'; '.join(fixed)}): choose a new --out "
            f"(--from {run.path} begins from its finished model, also with --new-vocabulary), or give the "
            f"settings of {run.recipe}"
        )
    if not allow_changes:
        raise RecipeError(
            f"{run.path} was begun with other settings ({'; '.join(changes)}): "
            f"add --allow-changes to go on with the new ones (the vocabulary stays), or choose a new --out"
        )
    console.print(f"going on with changed settings: {'; '.join(changes)}", markup=False, soft_wrap=True)
    run.changed.touch()  # first: a kill from here on must not leave the old model looking finished
    write_recipe(replace(recipe, made_with=before.made_with), run.recipe)
    return False


def _forget(run: Run, *, everything: bool) -> None:
    """Take away what was made before any checkpoint; text that settings of its own do not tell, if asked."""
    (run.path / "parts.json").unlink(missing_ok=True)
    if everything:
        for made in (run.store, run.text):
            shutil.rmtree(made, ignore_errors=True)


# --- train --------------------------------------------------------------------------------------


def _new_model(recipe: Recipe, prepared: Prepared, origin: Origin | None) -> Transformer:
    """The network on the device that is there, with weights drawn from the seed, or the origin's."""
    import torch

    from transduce.model.transformer import Transformer

    torch.manual_seed(recipe.train.seed)
    model = Transformer(_model_config(recipe, prepared))
    if origin is not None:
        begin_from(origin, recipe, prepared, model)
    return model.cuda() if torch.cuda.is_available() else model


def _model_config(recipe: Recipe, prepared: Prepared) -> TransformerConfig:
    """The recipe's configuration with the tokenizer's sizes."""
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    return replace(
        recipe.model,
        source_vocab_size=source.vocab_size,
        target_vocab_size=target.vocab_size,
        pad_id=target.pad_id,
    )


def _train(
    recipe: Recipe,
    run: Run,
    prepared: Prepared,
    model: Transformer,
    make: Callable[[], Transformer],
    console: Console,
) -> Outcome:
    """Run the training loop until it ends; `make` makes the model once more as it was."""
    from transduce.batch.collate import SpecialIds, collate
    from transduce.batch.order import BatchOrder
    from transduce.train.log import make_display
    from transduce.train.loop import Trainer
    from transduce.train.memory import keep_freed_memory
    from transduce.train.parts import PartsRecord, first_parts

    keep_freed_memory()
    tokenizer = prepared.target_tokenizer
    ids = SpecialIds(tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)
    store, valid = _stores(recipe, prepared)
    order = BatchOrder(store, recipe.batch, recipe.train.seed)
    device = model.source_embedding.weight.device
    validation = [
        collate(valid, rows, ids).to(device) for rows in BatchOrder(valid, recipe.batch, seed=0).epoch(0)
    ]
    console.print(f"{model.num_parameters:,} parameters; run directory {run.path}", soft_wrap=True)
    return Trainer(
        model,
        store,
        order,
        ids,
        recipe.train,
        run.path,
        validation=validation,
        validator=_decoding_validator(recipe, prepared),
        parts=PartsRecord(
            run.path / "parts.json", first_parts(recipe.train, recipe.batch.batch_tokens, device)
        ),
        remake=make,
        display=make_display(console),
    ).run()


def _stores(recipe: Recipe, prepared: Prepared) -> tuple[TokenStore, TokenStore]:
    """Both stores as training reads them: whole, or cut at `batch.max_len`."""
    if recipe.batch.too_long == "drop":
        return prepared.train, prepared.valid
    most = recipe.batch.max_len - 1  # and the end symbol
    return prepared.train.cut_at(most), prepared.valid.cut_at(most)


def _told_of_long_pairs(recipe: Recipe, prepared: Prepared, console: Console) -> Prepared:
    """Say how many pairs are longer than `batch.max_len` and what becomes of them, here and on the card."""
    max_len, facts = recipe.batch.max_len, []
    dropped = recipe.batch.too_long == "drop"
    for store, pairs, fate in (
        (prepared.train, "pairs", "are left out"),
        (prepared.valid, "validation pairs", "count in BLEU and chrF, not in the loss"),
    ):
        if count := store.num_longer(max_len - 1):
            fate = fate if dropped else "are cut there"
            facts.append(f"{count:,} {pairs} are longer than batch.max_len = {max_len} tokens and {fate}")
    for fact in facts:
        console.print(fact, markup=False, soft_wrap=True)
    return replace(prepared, facts=[*prepared.facts, *facts])


def _decoding_validator(recipe: Recipe, prepared: Prepared) -> Validator | None:
    """BLEU and chrF of greedy translations of the first validation sentences."""
    count = recipe.train.validate_sentences
    if not count:
        return None
    source, target = prepared.valid_source[:count], prepared.valid_target[:count]
    how = _scoring(recipe)

    def validator(model: Transformer) -> dict[str, float]:
        translator = Translator.over_torch(
            model, recipe, prepared.source_tokenizer, prepared.target_tokenizer
        )
        texts = [t.text for t in translator.translate(source, beam_size=1, n_best=1, method="beam")]
        return {"bleu": fast_bleu(texts, target, **how), "chrf": fast_chrf(texts, target)}

    return validator


def _scoring(recipe: Recipe) -> dict[str, Any]:
    """How the recipe's text is scored: BLEU's tokenizer, or the language that chooses it."""
    return {
        "tokenize": "none" if recipe.data.tokenized else None,
        "target_language": recipe.data.target_language or None,
    }


# --- finish -------------------------------------------------------------------------------------


def finish(
    recipe: Recipe, run: Run, prepared: Prepared, model: Transformer, outcome: Outcome, console: Console
) -> Scores:
    """Average, score the result with the recipe's search, write the model directory."""
    from transduce.train.checkpoint import choose_checkpoints, finished_weights, step_of
    from transduce.train.history import read_events

    chosen = choose_checkpoints(run.checkpoints, recipe.train, outcome.state)
    model.load_tensors(finished_weights(chosen, recipe.train))
    model.eval()
    translator = Translator.over_torch(model, recipe, prepared.source_tokenizer, prepared.target_tokenizer)
    texts = translate_all(translator, prepared.valid_source, console)
    scores = score(texts, prepared.valid_target, **_scoring(recipe))
    resolved = replace(
        recipe, model=_model_config(recipe, prepared), made_with=read_recipe(run.recipe).made_with
    )
    steps = [str(step_of(path)) for path in chosen]
    events = read_events(run.path)
    card = model_card(resolved, model.num_parameters, prepared.facts, outcome, steps, scores, events)
    tensors = {name: tensor.cpu() for name, tensor in model.tensors().items()}
    write_model_directory(run.model, resolved, run.text, tensors, card)
    run.changed.unlink(missing_ok=True)
    for line in (f"finished: {outcome.reason}", *training_facts(outcome.state, events)):
        console.print(line, markup=False, soft_wrap=True)
    console.print(scores.render(), markup=False, soft_wrap=True)
    console.print(f"the model is in {run.model}", markup=False, soft_wrap=True)
    return scores
