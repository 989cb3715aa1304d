#!/bin/bash
# Every role, and every word that names a row of a golden page, is known to `explain`, which prints docs/report.md's own sentence.
. "$(dirname "$0")/../lib/command.bash"
explained() {
    COLUMNS=1000 "$V" explain "$1" >said 2>&1 || no "explain $1: $(cat said)"
}
sqlite3 :memory: ".read $SRC/shim/trace/schema.sql" "SELECT role FROM role_word" >roles
[ "$(wc -l <roles)" -gt 12 ] || no "view role_word has no words"
while read -r role; do
    explained "$role"
    grep -qF -- "$(sed 's/^[^:]*: //' said)" <(sed 's/[`*]//g' "$SRC/docs/report.md") || no "explain $role is not what docs/report.md says: $(cat said)"
done <roles
# rows with bytes and a share, on either side of the name; not names of lines, libraries, layers and phases
python3 - "$SRC"/tests/data/golden/*.txt >terms <<'PY'
import re, sys

OTHER = {"forward", "logits", "backward", "optimizer", "none",  # phases
         "others", "the device", "free", "other processes"}  # plain English
seen = set()
for path in sys.argv[1:]:
    if "arena" in path:  # its own rows: docs/arena.md
        continue
    for line in open(path):
        for name in re.findall(r"^ *[=+]? {2,}([a-z][^.0-9()/]*?) {2,}[0-9.]+ [KMGT]?i?B +[0-9.]+ %", line) + re.findall(r"^ +[0-9.]+ [KMGT]iB +[0-9.]+ %  ([a-z][^.0-9()/]*?)(?:  .*)?$", line):
            if "::" in name:  # a function
                continue
            name = re.sub(r",.*|:.*| then$| (of|and) .*|^peak ", "", name.strip())
            name = re.sub(r"^(made) .*", r"\1", re.sub(r"^(framework block)s made .*", r"\1", name))
            if name not in OTHER:
                seen.add(name)
print("\n".join(sorted(seen)))
PY
[ "$(wc -l <terms)" -gt 10 ] || no "the golden pages have no words: $(cat terms)"
cat - >>terms <<'END'
static memory
growth
leak
made outside any phase
made in backward
held before recording
END
while read -r term; do explained "$term"; done <terms
# one or many, in any case, with quotes or without; what is no word is said in a line with the nearest
for asked in activations "Optimizer State" ; do explained "$asked"; done
[ "$("$V" explain optimizer state)" = "$("$V" explain "optimizer states")" ] || no "two words without quotes"
"$V" explain activaton 2>err && no "a word that is none"
[ "$(cat err)" = "vramscope: explain: no word 'activaton': did you mean 'activation'?" ] || no "the nearest word: $(cat err)"
"$V" explain zzzzzzzzzz 2>err && no "a word that is near to none"
grep -q "'vramscope explain' lists them" err || no "no way on: $(cat err)"
"$V" explain >all
for word in output cached residual unexplained; do grep -qx "$word" all || no "the list lacks $word"; done
while read -r word; do explained "$word"; done <all
[ $failures = 0 ] && echo "every word is explained" || exit 1
