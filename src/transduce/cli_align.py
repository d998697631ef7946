"""`transduce align`: the verb's options; `cli.py` has all others."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from transduce import cli_options as options

__all__ = ["align"]

_MOST_LEARNT = 100_000  # pairs; more teach these counts little


def align(
    model: options.Model,
    source: options.Source,
    target: options.Target = None,
    links: Annotated[
        Path | None,
        typer.Option("--links", metavar="FILE", help="Links of words that people drew, as `0-0 1-2` a line."),
    ] = None,
    sentences: Annotated[int, typer.Option("--sentences", min=2, help="Pairs to compare on.")] = 400,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Also write the links of every pair's words, `0-0 1-2`."),
    ] = None,
) -> None:
    """Find the attention heads that align a model's output with its source, and keep them in MODEL.

    Heads differ, and the best are not always in the same layer. They are compared with links that are
    learnt from the text (or given by --links), on text that the model should not have been trained on.

    For example:

    - `transduce align runs/en-de --source test.en --target test.de`
    - `transduce align runs/en-de --source test.en --target test.de --out test.links`
    """
    from transduce.files import write_atomic
    from transduce.lens.evidence import agreement_of, choose_heads, given_links, learnt_links, link_words
    from transduce.lens.lens import Lens
    from transduce.text.corpus import open_corpus
    from transduce.text.lines import read_lines
    from transduce.translate.alignment_heads import HeadAlignment, write_heads
    from transduce.translate.model_directory import ModelDirectory
    from transduce.translate.translator import Translator

    directory = ModelDirectory(model)
    # Not `Translator.load`: a damaged choice must not stand in the way of a new one.
    network = directory.load_transformer()
    lens = Lens(Translator.over_torch(network, directory.recipe, *directory.tokenizers))
    corpus = open_corpus(source, target)
    if links is None:
        evidence = learnt_links(lens, itertools.islice(corpus, _MOST_LEARNT), sentences)
        what = f"links learnt from {corpus.name} in both directions"
    else:
        evidence = given_links(lens, corpus, read_lines(links), sentences)
        what = f"the links of {links.name}"
    heads = choose_heads(lens, evidence, what)
    usual = agreement_of(lens, evidence, HeadAlignment.usual(lens.config))
    file = write_heads(heads, directory.path)
    named = ", ".join(f"layer {layer} head {head}" for layer, head in heads.heads)
    typer.echo(f"{named} ({heads.row} row), counted from 0: agreement {heads.agreement:.3f} with {what}")
    typer.echo(f"all heads of the layer before the last: {usual:.3f}; kept in {file}")
    if out is not None:
        lines = [link_words(lens, pair, heads) for pair in corpus]
        write_atomic(out, "".join(f"{line or ''}\n" for line in lines).encode())
        if too_long := lines.count(None):
            typer.echo(f"{too_long} pairs are too long to be aligned; their lines in {out} are empty")
