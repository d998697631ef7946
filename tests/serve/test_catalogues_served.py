"""Django's own catalogues through the service: every placeholder comes back, every file is valid.

The wheel comes from the package index at test time, is cached, read and never installed; without an
index the tests are skipped.
"""

from __future__ import annotations

import gettext
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import polib
import pytest

from transduce.translate.protect import compare, find_spans

REQUIREMENT = "django==5.2.19"
CATALOGUES = [
    "django/conf/locale/en/LC_MESSAGES/django.po",
    "django/contrib/admin/locale/en/LC_MESSAGES/django.po",
    "django/contrib/humanize/locale/en/LC_MESSAGES/django.po",
]
_PYTHON_FORMAT = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa%]")


@pytest.fixture(scope="module")
def wheel(pytestconfig) -> zipfile.ZipFile:
    cache = Path(pytestconfig.cache.mkdir("wheels"))
    if not list(cache.glob("django-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        try:
            subprocess.run(
                [*command, "--dest", cache, REQUIREMENT], check=True, capture_output=True, timeout=120
            )
        except (subprocess.SubprocessError, OSError):
            pytest.skip("Django's wheel is not to be had: no package index here")
    return zipfile.ZipFile(next(cache.glob("django-*.whl")))


def sources(entry):
    """Each text of an entry with all its translations."""
    if entry.msgid_plural:
        forms = list(entry.msgstr_plural.values())
        return [(entry.msgid, forms[:1]), (entry.msgid_plural, forms[1:])]
    return [(entry.msgid, [entry.msgstr])]


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUES, ids=lambda name: name.split("/")[-5])
def test_every_placeholder_of_a_real_catalogue_is_kept(client, wheel, name):
    content = wheel.read(name)
    answer = client.post("/api/v1/documents", files={"file": ("django.po", content)}, data={"target": "de"})
    assert answer.status_code == 200, answer.text
    before, after = (
        polib.pofile(text.decode(), check_for_duplicates=True) for text in (content, answer.content)
    )
    assert [(e.msgctxt, e.msgid, e.msgid_plural) for e in after] == [
        (e.msgctxt, e.msgid, e.msgid_plural) for e in before
    ]
    checked = 0
    for entry in after:
        for source, translations in sources(entry):
            for translation in translations:
                spans = find_spans(source)
                difference = compare(spans, translation)
                assert not difference.lost, entry
                assert not difference.added or "fuzzy" in entry.flags
                assert source.startswith("\n") == translation.startswith("\n")  # as msgfmt wants it
                assert source.endswith("\n") == translation.endswith("\n")
                checked += len(spans)
                if "python-format" in entry.flags and not difference.added:
                    assert sorted(_PYTHON_FORMAT.findall(translation)) == sorted(
                        _PYTHON_FORMAT.findall(source)
                    )
    assert checked > 0 or "humanize" in name
    gettext.GNUTranslations(io.BytesIO(after.to_binary()))  # compiles, and gettext reads it


@pytest.mark.slow
def test_a_translated_catalogue_is_left_as_it_is(client, wheel):
    content = wheel.read("django/contrib/admin/locale/de/LC_MESSAGES/django.po")
    answer = client.post("/api/v1/documents", files={"file": ("django.po", content)}, data={"target": "de"})
    before, after = (polib.pofile(text.decode()) for text in (content, answer.content))
    for old, new in zip(before, after, strict=True):
        if old.translated():
            assert (old.msgstr, old.msgstr_plural) == (new.msgstr, new.msgstr_plural)
