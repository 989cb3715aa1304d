#!/bin/bash
# `vramscope fit` says whether a program fits, by its exit status too.  The figures are the program's own, to the byte; where values were read it
# runs again, and what differs is an interval.
. "$(dirname "$0")/../lib/lib.bash"
unset LD_LIBRARY_PATH # what a dry run stands on is found without it
sizes=$tests/prog_sizes
cd "$dir" || exit 1
fit() { # STATUS ARGUMENT...: the answer is in out
    local wanted=$1 got
    shift
    timeout 120 "$V" fit "$@" >out 2>err </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(head -c 2000 out err)"
}
has() { grep -qE -- "$1" out || fail "no '$1': $(cat out)"; }
lacks() { ! grep -qE -- "$1" out || fail "there is '$1': $(cat out)"; }
json() { # EXPRESSION WANTED: of the answer in out
    local got
    got=$(python3 -c 'import json, sys
d = json.load(open("out")); a = d["answers"][0]
print(eval(sys.argv[1]))' "$1") || fail "$1: $(cat out)"
    [ "$got" = "$2" ] || fail "$1: $got, not $2: $(cat out)"
}

# it fits: the most that was allocated is what the program says itself; it is not told that it is watched, and its output is shown
fit 0 --gpu=A100-40GB -- "$sizes" 4 512
most=$(grep -oE '^[0-9]+' err | tail -n 1)
[ -n "$most" ] || fail "the program's output: $(cat err)"
has '^fits an A100-40GB \(39\.[0-9]+ GiB\), with [0-9.]+ GiB to spare'
has "peak allocated +$most "
has 'peak reserved +1073741824 '
has '^    exact$'
[ "$(wc -l <out)" -le 25 ] || fail "longer than a page: $(cat out)"
[ "$(find . -mindepth 1 | sort | tr '\n' ' ')" = "./err ./out " ] || fail "left behind: $(find .)"

# its output untouched: the answer goes elsewhere
fit 0 --steps=all -- "$sizes" 4 512
[ "$(cat out)" = "$most" ] || fail "--steps=all: $(cat out)"
grep -q '^fits an H200' err || fail "--steps=all: no answer: $(cat err)"

# it does not: as PyTorch says it, or the driver, also where the program went on; the page says how much was asked for
fit 1 -- "$sizes" 4 2048 list oom
has '^does not fit an H200'
has 'asked for'
fit 1 -- "$sizes" 4 2048 list refused
has 'asked for 1\.00 TiB'
fit 1 --capacity=1GiB -- "$sizes" 4 512
has '^does not fit a device of 1\.00 GiB'
fit 1 -o kept.db --capacity=1.7GiB -- "$tests/prog_oom_caching" caught
has 'the program caught that and went on'
"$V" report --all kept.db >report || fail "report of the recording: $?"
grep -q '^OUT OF MEMORY' report && grep -q '^dry run (H200, 1.70 GiB, 3 steps): no GPU' report || fail "the page of it: $(cat report)"

# it failed by itself: its last lines and its status are shown
fit 2 -- "$sizes" 4 2048 list crash
has 'the program failed: it was killed by signal 11'
fit 2 -- sh -c 'echo first >&2; echo the last word >&2; exit 7'
has 'ended with status 7'
has '^    the last word$'
fit 2 -- "$dir/nothing-there"
[ "$(wc -l <err)" = 1 ] && grep -q "can't be started" err || fail "a command that is none: $(cat err)"

# nobody can tell, and what to do
fit 3 -- true
has "^can't tell: the program never used a GPU"
fit 3 -- sh -c 'printf "missing\tlibcusolver.so.12\tcusolverDnSgesvd\n" >>"$VRAMSCOPE_DRY_FACTS"; exit 3'
has "cusolverDnSgesvd of libcusolver.so.12, which is not simulated"
fit 3 -- sh -c 'printf "torch\t2.11.0+cpu\tnone\n" >>"$VRAMSCOPE_DRY_FACTS"'
has 'PyTorch 2.11.0\+cpu here is a build for the CPU'
has 'pip install --no-deps torch'
fit 3 -- sh -c "echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1"
has 'this Python has no PyTorch'

# a recording for which there was no room is no program that never used a GPU
mkdir small
for size in 20k 250k; do
    unshare -rm true 2>/dev/null || break # a small place is not to be had
    unshare -rm sh -c 'mount -t tmpfs -o size="$0" small small && TMPDIR=$PWD/small exec "$@"' $size "$V" fit -- "$sizes" 4 512 >out 2>err </dev/null
    [ $? = 3 ] || fail "no room for a recording: $(cat out err)"
    has "^can't tell: the recording is not whole"
done

# values: the same sizes under both assumptions are exact; others are an interval, and the larger is the answer
reads='printf "value\ttrain.py:41 main\tthe value of a float32 [] tensor\t1.0\t1\n" >>"$VRAMSCOPE_DRY_FACTS"'
fit 0 -- sh -c "$reads; exec '$sizes' 4 512"
has '^    exact$'
has 'train.py:41 main: the value of a float32'
has 'a second run with others gave the same sizes'
fit 0 --json -- sh -c "$reads"'; [ "$VRAMSCOPE_DRY_ASSUME" = second ] && n=512 || n=1024; exec "$0" 4 $n' "$sizes"
json 'a["exact"]' False
json 'a["allocated"]["least_bytes"] == '"$most"' and a["allocated"]["most_bytes"] == a["allocated_bytes"] > '"$most" True
fit 1 -- sh -c "$reads"'; [ "$VRAMSCOPE_DRY_ASSUME" = second ] && exec "$0" 4 2048 list oom; exec "$0" 4 512' "$sizes"
has 'under the second assumptions; under the first it fits'
# a second run that fails by itself says nothing of the sizes; a third that differs is not the second's doing
fit 0 -- sh -c "$reads"'; [ "$VRAMSCOPE_DRY_ASSUME" = second ] && exit 7; exec "$0" 4 512' "$sizes"
has 'a second run with others failed by itself \(it'
has 'status 7\): whether sizes hang on'
lacks '^    exact$'
tried='printf "guess\tcudnn\tforward x=1\t512\t0\t1024\n" >>"$VRAMSCOPE_DRY_FACTS"'
fit 0 -- sh -c "$reads; $tried"'; [ "$VRAMSCOPE_DRY_ASSUME" = third ] && n=256 || n=512; exec "$0" 4 $n' "$sizes"
tr -s ' \n' ' ' <out >words && grep -q 'a second run with others, and with other guesses, gave the same sizes' words || fail "a third run that differs: $(cat out)"
fit 0 -- sh -c "$tried"'; [ "$VRAMSCOPE_DRY_ASSUME" = third ] && exit 7; exec "$0" 4 512' "$sizes"
tr -s ' \n' ' ' <out >words && grep -q 'a run with other guesses failed by itself' words || fail "a third run that fails: $(cat out)"
# a guess is no exact figure
fit 0 --json -- sh -c 'printf "guess\tcudnn\tworkspace of engine 7\t1048576\n" >>"$VRAMSCOPE_DRY_FACTS"; exec "$0" 4 512' "$sizes"
json 'a["exact"], a["allocated"]["most_bytes"] - a["allocated"]["least_bytes"]' '(False, 2097152)'

# a guess with what it lies between is tried: a run with the most, one with the least; one size of all is exact
guess='printf "guess\tcudnn\tforward x=1\t512\t0\t1024\nguess\tcudnn\tdata x=1\t512\t512\t2097152\n" >>"$VRAMSCOPE_DRY_FACTS"'
fit 0 -- sh -c "$guess; exec '$sizes' 4 512"
has '^    exact$'
has "^    cuDNN's room for 2 convolutions was not measured: taken as 0 B to 2.00 MiB$"
fit 0 --json -- sh -c "$guess"'; case $VRAMSCOPE_DRY_ASSUME in second) n=1536 ;; third) n=512 ;; *) n=1024 ;; esac; exec "$0" 4 $n' "$sizes"
json 'a["exact"], a["allocated"]["most_bytes"] == a["allocated_bytes"] > a["allocated"]["least_bytes"] == '"$most" '(False, True)'
json 'a["facts"][0]["fields"][2:]' "['512', '0', '1024']"
# what was read and not even assumed may be anything
fit 0 -- sh -c 'printf "value\ttrain.py:7\ta number\tunknown\t1\n" >>"$VRAMSCOPE_DRY_FACTS"; exec "$0" 4 512' "$sizes"
lacks '^    exact$'
has 'train.py:7: a number, unknown'

# each allocator
for a in --allocator=native --expandable --allocator=arena; do
    [ "$a" = --allocator=arena ] && ! has_arena && continue
    fit 0 "$a" -o "one$a.db" -- "$sizes" 4 512
    [ "$(sqlite3 "one$a.db" "SELECT simulated FROM process")" = 2 ] || fail "one$a.db: $(ls)"
    has "allocator ${a##*[-=]}$"
done

# bad requests are one line
for bad in --gpu=GTX970 --capacity=none --steps=0 --keep=2 --skew=0 --overflow=x --allocator=tree '--allocator=native --expandable'; do
    # shellcheck disable=SC2086 # the last are two
    fit 2 $bad -- true
    [ "$(wc -l <err)" = 1 ] && [ ! -s out ] || fail "$bad: $(cat err out)"
done
fit 2 -o kept.db -- true
fit 0 --ranks=4 --rank=2 -o rank.db -- "$sizes" 4 512
fit 2 --ranks=4 --rank=0,2 -o rank.db -- true
grep -q 'rank-2.db exists' err || fail "a rank's recording is replaced: $(cat err)"
grep -q 'never overwritten' err || fail "an output that is there: $(cat err)"
cp kept.db several.db
fit 0 --force --ranks=4 --rank=2 -o several.db -- "$sizes" 4 512
cmp -s kept.db several.db || fail "a recording by whose name no rank's is called was replaced"
