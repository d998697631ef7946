"""Put Moses-tokenised German back together: enough for captions (stdin to stdout).

    python3 detokenise.py < out.tok.de > out.de
    python3 detokenise.py --cases train.de.gz < out.tok.de > out.de

`ein mann , der 3 @-@ d @-@ brillen trägt .` → `ein mann, der 3-d-brillen trägt.`, and with --cases, cased
text in the same language: `Ein Mann, der 3-D-Brillen trägt.` A word is written as it stands there most often,
first words of a line not counted, and a line begins with a capital.
"""

import argparse
import gzip
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable

ENTITIES = {
    "&apos;": "'",
    "&quot;": '"',
    "&amp;": "&",
    "&lt;": "<",
    "&gt;": ">",
    "&#124;": "|",
    "&#91;": "[",
    "&#93;": "]",
}
WORD = re.compile(r"[^\W_]+")


def detokenise(line: str) -> str:
    for entity, character in ENTITIES.items():
        line = line.replace(entity, character)
    line = re.sub(r" ?@-@ ?", "-", line)
    line = re.sub(r'" ([^"]*) "', r'"\1"', line)  # quotes come in pairs
    line = re.sub(r" ([.,!?;:)\]%])", r"\1", line)
    line = re.sub(r"([(\[]) ", r"\1", line)
    return re.sub(r" ' ?(?=[a-z]\b)", "'", line)


def learn_cases(lines: Iterable[str]) -> dict[str, str]:
    """Lower-cased word → its most frequent form."""
    inside: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for place, word in enumerate(WORD.findall(line)):
            (inside if place else first)[word.lower()][word] += 1
    return {word: forms.most_common(1)[0][0] for word, forms in (first | inside).items()}


def with_case(line: str, cases: dict[str, str]) -> str:
    """`line` with its words as in `cases`; one that is not there is most often a compound noun."""
    line = WORD.sub(lambda match: cases.get(match[0].lower(), match[0].capitalize()), line)
    letter = re.search(r"[^\W\d_]", line)
    return line if letter is None else line[: letter.start()] + letter[0].upper() + line[letter.end() :]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", help="cased text to learn from, plain or .gz")
    file = parser.parse_args().cases
    cases = None
    if file:
        try:
            with (gzip.open if file.endswith(".gz") else open)(file, "rt", encoding="utf-8") as stream:
                cases = learn_cases(stream.read().split("\n"))
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            parser.error(f"--cases {file} cannot be read as UTF-8 text: {error}")
    for line in sys.stdin:
        plain = detokenise(line.rstrip("\n"))
        sys.stdout.write((plain if cases is None else with_case(plain, cases)) + "\n")


if __name__ == "__main__":
    main()
