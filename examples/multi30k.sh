#!/usr/bin/env bash
# Multi30k English → German on two CPU cores, at most an hour, scored both ways.
#
#   examples/multi30k.sh DATA [OUT] [--set room.field=value …]
#
# DATA holds the dataset's own files, plain or .gz: {train,val,test_2016_flickr}.{en,de} and, in tok/,
# the same as .lc.norm.tok. (lower-cased, normalised, tokenised; what published scores refer to).
# Multi30k is for research and education only: do not ship the text, nor a model trained on it.
set -euo pipefail

data=${1:?"usage: $0 DATA [OUT] [--set …]"}
out=${2:-runs/multi30k}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
transduce=${TRANSDUCE:-transduce}

file() { # the plain file, or the packed one
  if [ -e "$data/$1" ]; then echo "$data/$1"; else echo "$data/$1.gz"; fi
}

time $transduce train "$here/multi30k.toml" --out "$out" \
  --source "$(file tok/train.lc.norm.tok.en)" --target "$(file tok/train.lc.norm.tok.de)" \
  --valid-source "$(file tok/val.lc.norm.tok.en)" --valid-target "$(file tok/val.lc.norm.tok.de)" "$@"

echo
echo "test_2016, lower-cased and tokenised (the published tiny model: 41.02)"
$transduce evaluate "$out" --source "$(file tok/test_2016_flickr.lc.norm.tok.en)" \
  --reference "$(file tok/test_2016_flickr.lc.norm.tok.de)" --tokenize none --output "$out/test_2016.tok.de"

# The model writes lower case only: words get the case that they most often have in the training text.
python3 "$here/detokenise.py" --cases "$(file train.de)" < "$out/test_2016.tok.de" > "$out/test_2016.de"
for case in "" --lowercase; do
  echo
  echo "test_2016, detokenised, against the raw reference${case:+, case ignored}"
  $transduce evaluate --hypothesis "$out/test_2016.de" --reference "$(file test_2016_flickr.de)" $case
done
