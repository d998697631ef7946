#!/usr/bin/env bash
# The rows of the paper's Table 3 at a quarter of the width and half the depth, on Multi30k, as a table.
#
#   examples/ablate.sh DATA [OUT] [--rows base,A1,C3] [--updates N] [--set room.field=value …]
#
# DATA holds tok/{train,val}.lc.norm.tok.{en,de}, plain or .gz. All rows: about 20 trainings of 1,000
# updates. Stopped at any moment, the same command goes on: rows that are finished are not run again.
# ablate.py says what is scaled and how to read the table.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
transduce=$(command -v "${TRANSDUCE:-transduce}") || { echo "transduce is not installed here" >&2; exit 2; }
python=$(dirname "$transduce")/python3 # the one that it is installed for
[ -x "$python" ] || python=python3
exec env TRANSDUCE="$transduce" "$python" "$here/ablate.py" "$@"
