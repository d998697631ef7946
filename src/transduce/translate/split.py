"""Long text → pieces that a model can read, and their translations back into one text.

In: one text, the greatest length a piece may have, and a function that measures a piece (tokens).
Out: segments whose texts and separators, put together, are the text exactly; nothing is dropped.
Does not know: tokenizers, models, languages by name, files.

Where to cut, the best place first; a finer cut is used only inside a piece that is still too long:

    1. sentence ends     . ! ? … 。！？ ؟ ۔ । and their closing quotes, and blank lines
    2. clause marks      , ; : — 、，；：، and single line breaks
    3. white space
    4. anywhere but inside a character as a reader sees it (marks, joiners, flags, jamo)
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Segment", "join", "split_lines", "split_sentences", "split_text", "spread"]


class Segment(NamedTuple):
    """A piece of a text, and the white space between it and the next piece."""

    text: str
    separator: str


def split_text(text: str, max_len: int, length: Callable[[str], int]) -> list[Segment]:
    """Split `text` only where it must be, into segments with `length(segment.text) <= max_len`.

    Whole sentences are packed greedily; a sentence that is too long alone is cut at clause marks,
    then at spaces, then between characters. `length` need not grow with its argument, only
    roughly: every segment returned was measured. One exception: a single visible character that
    is longer than `max_len` stays whole (a visible character has at most 32 code points here).

    `"".join(s.text + s.separator for s in segments) == text`. White space that leads a text which
    had to be split is the separator of a first, empty segment.

    Raises:
        ValueError: `max_len` is below 1.
    """
    if max_len < 1:
        raise ValueError(f"max_len is {max_len}: a piece must be allowed at least 1 token")
    if length(text) <= max_len:
        return [Segment(text, "")]

    def fits(start: int, end: int) -> bool:
        return length(text[start:end]) <= max_len

    first = len(text) - len(text.lstrip())
    last = max(first, len(text.rstrip()))
    spans = [(0, 0)] if first else []
    if last > first:
        spans.extend(_divide(text, first, last, 0, fits))
    return _segments(text, spans)


def split_lines(text: str) -> list[Segment]:
    """Split `text` at line ends (a lone CR and Unicode's own among them), however they are written.

    Blank lines and the spaces around line ends are separators; a text that begins with some has a first,
    empty segment. A text of one line is one segment, its outer spaces included.
    """
    spans, start = [], 0
    for match in _LINE_ENDS.finditer(text):
        spans.append((start, match.start()))
        start = match.end()
    if start < len(text) or not spans:
        spans.append((start, len(text)))
    return _segments(text, spans)


def split_sentences(text: str) -> list[Segment]:
    """Split `text` at every sentence end, however short the sentences are."""
    cuts = [*_sentence_cuts(text, 0, len(text)), (len(text), len(text))]
    spans: list[_Span] = []
    start = 0
    for end, following in cuts:
        if end > start or not spans:
            spans.append((start, end))
            start = following
    return _segments(text, spans)


def join(translations: Sequence[str], segments: Sequence[Segment]) -> str:
    """Put the translations of `segments` back together, with the source's separators.

    Two seams need judgement, because languages differ in whether they write spaces:

    - nothing stood between the pieces (Chinese sentences, or a cut inside a long word): one space
      is added, unless one of the characters that meet belongs to a script written without spaces;
    - plain spaces stood there, and the characters that meet are both Chinese or Japanese: dropped.

    Where both neighbours were copied unchanged, the source's separator is kept whatever it was:
    `join([s.text for s in segments], segments)` is the text.

    Raises:
        ValueError: the counts differ.
    """
    if len(translations) != len(segments):
        raise ValueError(f"{len(translations)} translations for {len(segments)} segments")
    parts = []
    for index, (translation, segment) in enumerate(zip(translations, segments, strict=True)):
        parts.append(translation)
        if index + 1 == len(segments):
            parts.append(segment.separator)
            break
        following, source = translations[index + 1], segments[index + 1]
        copied = translation == segment.text and following == source.text
        parts.append(segment.separator if copied else _seam(translation, segment.separator, following))
    return "".join(parts)


# --- Cutting: one level after another -----------------------------------------------------------

_Span = tuple[int, int]  # start and end of a piece
_Cut = tuple[int, int]  # end of the piece before, start of the piece after


def _segments(text: str, spans: Sequence[_Span]) -> list[Segment]:
    """Spans in order → segments; what lies between two spans is the separator."""
    following = [start for start, _ in spans[1:]] + [len(text)]
    if not spans:
        return [Segment("", text)]
    return [Segment(text[a:b], text[b:c]) for (a, b), c in zip(spans, following, strict=True)]


def _divide(text: str, start: int, end: int, level: int, fits: Callable[[int, int], bool]) -> Iterator[_Span]:
    """Spans of text[start:end] that fit, cut at this level where possible, else at finer ones."""
    if level == len(_LEVELS):
        yield from _divide_hard(text, start, end, fits)
        return
    cuts = [c for c in _LEVELS[level](text, start, end) if _visible_boundaries(text, *c)]
    cuts.append((end, end))
    index, at = 0, start
    while index < len(cuts):
        last = _furthest(lambda k, at=at: fits(at, cuts[k][0]), index, len(cuts))
        if last < index:
            last = index
            yield from _divide(text, at, cuts[index][0], level + 1, fits)
        else:
            yield at, cuts[last][0]
        at, index = cuts[last][1], last + 1


def _divide_hard(text: str, start: int, end: int, fits: Callable[[int, int], bool]) -> Iterator[_Span]:
    """Spans of text[start:end] that fit, cut between visible characters."""
    while start < end:
        first = start + 1  # the end of the first visible character, which stays whole
        while first < min(end, start + _MAX_CLUSTER) and not _is_boundary(text, first):
            first += 1
        snap = functools.partial(_boundary_before, text, first, end)
        last = _furthest(lambda k, at=start, snap=snap: fits(at, snap(k)), first, end + 1)
        cut = snap(last) if last >= first else first
        yield start, cut
        start = cut


def _furthest(accepts: Callable[[int], bool], low: int, high: int) -> int:
    """The greatest k in [low, high) found by doubling, then halving, that is accepted; or low - 1.

    Doubling first keeps the work in proportion to the answer, not to the rest of the text.
    """
    good, step = low - 1, 1
    while good + step < high and accepts(good + step):
        good, step = good + step, step * 2
    bad = min(good + step, high)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if accepts(middle) else (good, middle)
    return good


# --- Where a sentence, a clause or a word ends --------------------------------------------------

_CLOSERS = r"[\"'”’»›)\]}』」）】〉》〕｣]*"
_BREAKING = r"[^\S\u00a0\u202f\u2007]"  # a no-break space says: the sentence goes on
# The look-behinds keep a long run of marks or spaces from being read again from each of its places.
_SENTENCE_END = re.compile(
    rf"(?<![.!?…؟۔።։])(?P<mark>[.!?…؟۔።։]++){_CLOSERS}(?P<space>{_BREAKING}\s*)"
    rf"|[。！？｡।॥။។།]++{_CLOSERS}(?P<none>\s*)"  # scripts that need no space after these
    r"|(?<!\s)(?P<blank>\s*\n\s*\n\s*)"
)
_CLAUSE_END = re.compile(
    rf"(?<![.!?…؟۔።։,;:،؛])(?P<mark>[.!?…؟۔።։,;:،؛]++){_CLOSERS}(?P<space>{_BREAKING}\s*)"
    rf"|(?<=\s)[–-](?P<dash>{_BREAKING}\s*)"
    rf"|[、，；：。！？।—]++{_CLOSERS}(?P<none>\s*)"
    r"|(?<!\s)(?P<blank>\s*\n\s*)"
)
_WHITE_SPACE = re.compile(r"\s+")
# The look-behind and the possessive end keep a long run of spaces from being read again from each place.
_LINE_ENDS = re.compile(r"(?<!\s)[^\S\n\r\v\f\x85\u2028\u2029]*+[\n\r\v\f\x85\u2028\u2029]\s*+")
_LAST_WORD = re.compile(r"[^\s\"'“„«(\[{/]*\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]|[IVX]{2,4}|\d{1,2}")  # J, z.B, U.S, XIV, 3
_BEFORE_NAMES = frozenset(
    """
    dr mr mrs ms prof st mme mlle mgr rev hon gen col sgt capt lt messrs sra srta dña ud uds
    hr fr frl ing dipl bzw bspw evtl ggf inkl exkl sog zzgl vgl allg vs viz cf incl resp approx
    ca circa т.е им ул др проф
    """.split()  # noqa: SIM905 -- a paragraph of words reads better than a list of strings
)
_BEFORE_NUMBERS = frozenset(
    """
    no nos nr nrn vol vols fig figs eq sec ch p pp pg pág págs núm art abs abb kap bd tab anm min
    max jan feb mar apr jun jul aug sep sept oct okt nov dec dez déc févr janv juil avr г стр рис
    """.split()  # noqa: SIM905
)


def _sentence_cuts(text: str, start: int, end: int) -> Iterator[_Cut]:
    """Sentence ends; a lower-case letter after a full stop says that it was none."""
    for match in _SENTENCE_END.finditer(text, start, end):
        cut = _cut(match)
        if match["mark"] and (text[cut[1] : cut[1] + 1].islower() or _is_abbreviation(text, start, match)):
            continue
        yield cut


def _clause_cuts(text: str, start: int, end: int) -> Iterator[_Cut]:
    """Clause marks, the weaker sentence ends among them."""
    for match in _CLAUSE_END.finditer(text, start, end):
        if not (match["mark"] and _is_abbreviation(text, start, match)):
            yield _cut(match)


def _word_cuts(text: str, start: int, end: int) -> Iterator[_Cut]:
    """Runs of white space."""
    for match in _WHITE_SPACE.finditer(text, start, end):
        yield match.span()


_LEVELS = (_sentence_cuts, _clause_cuts, _word_cuts)


def _cut(match: re.Match[str]) -> _Cut:
    """The white space that a match of either pattern ends with."""
    assert match.lastgroup is not None, "every alternative of the pattern names its white space"
    return match.span(match.lastgroup)


def _is_abbreviation(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the full stop matched belongs to the word before it: Dr. z.B. J. 3. Nr. 5."""
    if match["mark"] != ".":
        return False
    stop, following = match.start(), match.end()
    before = _LAST_WORD.search(text[max(start, stop - 12) : stop])
    word = before.group() if before else ""
    if word.casefold() in _BEFORE_NUMBERS:
        return text[following : following + 1].isdigit()
    return word.casefold() in _BEFORE_NAMES or bool(_INITIALS.fullmatch(word))


# --- Visible characters (grapheme clusters, the parts that matter here) ---------------------------

_MAX_CLUSTER = 32
_ZWJ = "\u200d"


def _boundary_before(text: str, low: int, high: int, at: int) -> int:
    """The last boundary at or before `at`, which lies in [low, high]; both of these count as one."""
    back = at
    while low < back < high and at - back < _MAX_CLUSTER and not _is_boundary(text, back):
        back -= 1
    return back if at - back < _MAX_CLUSTER else at


def _visible_boundaries(text: str, end: int, following: int) -> bool:
    """Whether neither side of a cut lies inside a visible character."""
    return _is_boundary(text, end) and _is_boundary(text, following)


def _is_boundary(text: str, at: int) -> bool:
    """Whether a reader sees two characters on the two sides of position `at`."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after < "\u0300":  # the common case: nothing below extends what precedes it
        return before != _ZWJ and not (before == "\r" and after == "\n")
    if before == _ZWJ or _extends(after):
        return False
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return False  # a surrogate pair that was never joined
    if unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo":
        return False  # an Indic conjunct: consonant, virama, consonant
    if _is_regional(before) and _is_regional(after):
        run = 0
        while run < _MAX_CLUSTER and at - 1 - run >= 0 and _is_regional(text[at - 1 - run]):
            run += 1
        return run % 2 == 0  # a flag is two regional indicators
    return True


def _extends(character: str) -> bool:
    """Whether a character only modifies the one before it."""
    return (
        unicodedata.category(character) in ("Mn", "Mc", "Me")  # marks, variation selectors
        or character == _ZWJ
        or character in "\u0e33\u0eb3"  # Thai and Lao vowel signs that are letters to Unicode
        or "\u1160" <= character <= "\u11ff"  # Hangul vowels and finals
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags (flags of regions)
    )


def _is_regional(character: str) -> bool:
    """Whether a character is half of a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


# --- Seams ----------------------------------------------------------------------------------------

_CJK = re.compile(r"[\u3000-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u9fff\uf900-\ufaff"
                  r"\uff01-\uff9f\U00020000-\U0003ffff]")  # fmt: skip
_UNSPACED = re.compile(rf"{_CJK.pattern}|[\u0e00-\u109f\u1780-\u17ff]")  # + Thai … Burmese, Khmer


def _seam(left: str, separator: str, right: str) -> str:
    """The separator between two translations (see `join`)."""
    if not left or not right:
        return separator
    if not separator:
        unspaced = _UNSPACED.match(left[-1]) or _UNSPACED.match(right[0])
        touching = left[-1].isspace() or right[0].isspace()
        return "" if unspaced or touching else " "
    if separator.strip(" "):
        return separator
    return "" if _CJK.match(left[-1]) and _CJK.match(right[0]) else separator


def spread(prefixes: Sequence[str] | None, segments: Sequence[Sequence[Segment]]) -> list[str] | None:
    """A text's prefix belongs to its first piece."""
    if prefixes is None:
        return None
    return [
        prefix if i == 0 else ""
        for prefix, parts in zip(prefixes, segments, strict=True)
        for i in range(len(parts))
    ]
