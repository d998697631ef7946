"""Catalogues that others wrote, where the environment has some: read, written, and nothing lost."""

from __future__ import annotations

import site
import sys
from pathlib import Path

import polib
import pytest

from transduce.translate.documents import DocumentOptions, open_document

MOST = 12
SIZES = range(2_000, 200_000)


def catalogues():
    """Some `.po` files of installed packages (Django has hundreds), spread over all that there are."""
    places = {Path(p) for p in [*site.getsitepackages(), site.getusersitepackages(), *sys.path] if p}
    found = sorted(
        file
        for place in places
        if place.is_dir() and place.name in ("site-packages", "dist-packages")
        for file in place.glob("**/*.po")
        if file.stat().st_size in SIZES
    )
    return found[:: max(1, len(found) // MOST)][:MOST]


def facts(entry):
    """All of an entry but its translation and what says that it was translated."""
    return (
        entry.msgctxt,
        entry.msgid,
        entry.msgid_plural,
        entry.comment.split(),  # polib breaks long lines of comments anew
        entry.tcomment.split(),
        entry.occurrences,
        entry.obsolete,
        [flag for flag in entry.flags if flag != "fuzzy"],
    )


def test_real_catalogues_keep_everything_but_what_is_translated():
    files = catalogues()
    if not files:
        pytest.skip("no package with .po files is installed here (Django has some)")
    for file in files:
        before = polib.pofile(str(file))
        document = open_document(file, options=DocumentOptions(retranslate=True))
        after = polib.pofile(document.translated([f"X{s}" for s in document.segments]).decode() + "\n")
        assert [facts(e) for e in after] == [facts(e) for e in before], file
        assert after.metadata == before.metadata
        for entry in after.translated_entries():
            assert not entry.msgstr.startswith("X"), file  # ours are all fuzzy
        kept = open_document(file)
        again = polib.pofile(kept.translated(kept.segments).decode() + "\n")
        for old, new in zip(before, again, strict=True):
            if old.translated():
                assert (new.msgstr, new.msgstr_plural) == (old.msgstr, old.msgstr_plural)
