"""Put Moses-tokenised German back together: enough for captions (stdin to stdout).

`ein mann , der 3 @-@ d @-@ brillen trägt .` → `ein mann, der 3-d-brillen trägt.`
"""

import re
import sys

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


def detokenise(line: str) -> str:
    for entity, character in ENTITIES.items():
        line = line.replace(entity, character)
    line = re.sub(r" ?@-@ ?", "-", line)
    line = re.sub(r'" ([^"]*) "', r'"\1"', line)  # quotes come in pairs
    line = re.sub(r" ([.,!?;:)\]%])", r"\1", line)
    line = re.sub(r"([(\[]) ", r"\1", line)
    return re.sub(r" ' ?(?=[a-z]\b)", "'", line)


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(detokenise(line.rstrip("\n")) + "\n")
