#!/bin/bash
# What `vramscope export` writes keeps its format's rules, read back by export_read.py, and has the bytes that `vramscope peak` says: of
# programs, several
# devices and processes, hostile names, lost and folded events.
. "$(dirname "$0")/../lib/lib.bash"
source=$(cd "$here/../../.." && pwd)
formats='perfetto pytorch folded pprof csv'
make_db() { python3 "$source/tests/data/make_db.py" "$source/shim/trace/schema.sql" "$@" || fail "make_db $*"; }

# export_to FORMAT DB STATUS [OPTION...]: into $dir/out, with that exit status and, where it is 0, without a word
export_to() {
    "$V" export --format="$1" "$2" -o "$dir/out" "${@:4}" 2>"$dir/err"
    local got=$?
    [ $got = "$3" ] || fail "$1 of $2 ${*:4}: status $got: $(cat "$dir/err")"
    [ "$got" != 0 ] || [ ! -s "$dir/err" ] || [ -n "${may_speak:-}" ] || fail "$1 of $2 ${*:4} says $(cat "$dir/err")"
    [ ! -e "$dir/out.part" ] || fail "$1 of $2: out.part was left"
}
# add FORMAT DB STATUS [OPTION...]: likewise, to be read back
exports=()
add() {
    export_to "$@"
    mv "$dir/out" "$dir/export-${#exports[@]}"
    exports+=("$1" "$dir/export-${#exports[@]}")
}
# read_back DB [part]: what was added agrees with $dir/peak.json
read_back() {
    python3 "$here/export_read.py" ${2:+"$2"} "$1" "$dir/peak.json" "${exports[@]}" >"$dir/told" 2>&1 || fail "$1: $(tail -n 4 "$dir/told")"
    [ "$(grep -c . "$dir/told")" = $((${#exports[@]} / 2)) ] || fail "$1: not all was read: $(cat "$dir/told")"
    exports=()
}
# all_of DB [OPTION...]: every format
all_of() {
    "$V" peak --json "$1" "${@:2}" >"$dir/peak.json" 2>/dev/null
    for format in $formats; do
        add "$format" "$1" 0 "${@:2}"
    done
    add csv "$1" 0 --rows=events "${@:2}"
    add folded "$1" 0 --frames=python "${@:2}"
    add pprof "$1" 0 --frames=native "${@:2}"
    read_back "$1"
}

# ---- recordings of programs ----

for mode in native expandable; do
    shimmed "$tests/prog_caching" $mode 3000
    [ "$status" = 0 ] || fail "prog_caching $mode: status $status"
    all_of "$db"
    export_to pytorch "$db" 0
    grep -q segment_map "$dir/out"
    [ $? = "$([ $mode = native ] && echo 1 || echo 0)" ] || fail "$mode: segments that expand"
    # a stretch of the run begins with what lived, and fits its end too
    end=$(ask "SELECT max(t) FROM ev")
    read -r from to <<<"$((end * 2 / 3))ns $((end * 4 / 5))ns"
    export_to pytorch "$db" 0 --from="$from" --to="$to"
    exports=(pytorch "$dir/out")
    read_back "$db" part
    # any moment: what lived then adds up to the curve
    first=$(ask "SELECT min(t) FROM ev WHERE op IN (1, 4, 20)")
    for moment in 20 $(! in_full || echo 1 33 77); do
        at=$((first + (end - first) * moment / 100))
        expect=$(ask "SELECT framework_bytes + direct_bytes FROM event WHERE device = 0 AND seq < (SELECT min(seq) FROM ev WHERE t > $at)
            AND op NOT IN ('sample') ORDER BY seq DESC LIMIT 1")
        "$V" export --format=folded "$db" --at=${at}ns >"$dir/folded" 2>"$dir/err" || fail "--at=${at}ns: $(cat "$dir/err")"
        sum=$(awk '{ n += $NF } END { printf "%.0f", n }' "$dir/folded")
        [ "$sum" = "$expect" ] || fail "$mode at $moment %: $sum bytes, the curve has $expect"
    done
done

# roles are the categories of PyTorch's page, spelt as it has them
shim_env=(VRAMSCOPE_ACCESS=on)
shimmed "$tests/prog_roles"
[ "$status" = 0 ] || fail "prog_roles: status $status"
all_of "$db"
export_to pytorch "$db" 0
for category in parameter gradient optimizer_state activation unknown; do
    grep -q "$category" "$dir/out" || fail "no category $category"
done
export_to csv "$db" 0
grep -q ',gradient,,,,.$' "$dir/out" || fail "no role in the csv: $(head -n 2 "$dir/out")"

# whatever a program does to the driver
if [ -x "$tests/prog_random" ]; then
    may_speak=1 # of libraries' pools whose use is unknown
    for seed in 2 155 $(! in_full || echo 3 5 11 14); do
        shim_env=(VRAMSCOPE_STACKS=all SIMCUDA_BANNER=0)
        shimmed "$tests/prog_random" $seed "$run/log"
        [ "$status" = 0 ] || fail "prog_random $seed: status $status"
        "$V" peak --json "$db" >"$dir/peak.json" 2>/dev/null
        grep -q '"known_bytes": [1-9]' "$dir/peak.json" || continue
        expected=$("$V" report --all "$db" >/dev/null 2>&1; echo $?)
        for format in perfetto pytorch pprof csv; do
            add $format "$db" "$expected"
        done
        read_back "$db"
    done
    may_speak=
fi

# ---- made-up recordings ----

cd "$dir" || exit 1
make_db train.db --devices 2 --steps 4
all_of train.db
all_of train.db -d 1
# what each block was asked for as, as the view has it: a tensor, bytes without one, and an imported block, whose size is the request
cp train.db tensors.db
sqlite3 tensors.db "INSERT OR IGNORE INTO element_type VALUES(15, 'bfloat16', 2);
    INSERT INTO tensor VALUES(7, 1, 15, 1600, '[4, 200]'), (8, 3, NULL, NULL, NULL), (9, 4, NULL, NULL, NULL);
    UPDATE kind SET tensor = 7 + id % 3 WHERE id IN (SELECT kind FROM ev WHERE op = 20);
    UPDATE live SET tensor = 7 + alloc_seq % 3 WHERE op = 20"
sqlite3 -csv tensors.db "SELECT alloc_seq, made_for, request_bytes, element_type, shape FROM allocation ORDER BY 1" | tr -d '\r' >want
export_to csv tensors.db 0
python3 -c 'import csv, sys
for r in sorted(csv.DictReader(open(sys.argv[1], newline="")), key=lambda r: int(r["alloc_seq"])):
    shape = "\"" + r["shape"] + "\"" if r["shape"] else ""
    print(r["alloc_seq"], r["made_for"], r["request_bytes"], r["element_type"], shape, sep=",")' out >got
diff want got >err && grep -q 'tensor,1600,bfloat16,"\[4, 200\]"' got || fail "tensors in the csv: $(head -n 4 err)"
make_db oom.db --kind oom
all_of oom.db
"$V" peak --json --at=oom oom.db >peak.json
for format in folded pprof; do
    add $format oom.db 0 --at=oom
done
read_back oom.db
make_db killed.db --kind killed
"$V" peak --json killed.db >peak.json
for format in $formats; do
    add "$format" killed.db 3 # events are missing, and it says so
    [ "$(wc -l <err)" = 1 ] || fail "$format of a recording that lost events: $(cat err)"
done
"$V" export --format=folded killed.db --at=oom >out 2>err # an error is all that is said
[ $? = 2 ] && grep -q 'memory never ran out' err && [ "$(wc -l <err)" = 1 ] || fail "--at=oom where memory never ran out: $(cat err)"
read_back killed.db
make_db thinned.db --kind thinned
"$V" peak --json thinned.db >peak.json
for format in folded pprof; do # the moment of the peak is kept
    add $format thinned.db 0
done
add perfetto thinned.db 3
read_back thinned.db
grep -q 'folded (VRAMSCOPE_MAX_BYTES)' err || fail "perfetto of a folded recording: $(cat err)"
for format in pytorch csv; do
    "$V" export --format=$format thinned.db -o out 2>err
    [ $? = 3 ] && grep -q 'folded (VRAMSCOPE_MAX_BYTES)' err && [ "$(wc -l <err)" = 1 ] || fail "$format of a folded recording: $(cat err)"
done
"$V" export --format=folded thinned.db --at=1ms >out 2>err
[ $? = 2 ] && grep -q 'are folded' err && [ ! -s out ] || fail "--at within what was folded: $(cat err)"

# two processes: each as if it were alone
make_db one.db --rank 0 --world 2
make_db two.db --rank 1 --world 2 --steps 5 --extra 96
"$V" merge -o both.db one.db two.db >told || fail "merge: $(cat told)"
for process in 1 2; do
    own=$([ $process = 1 ] && echo one || echo two)
    "$V" peak --json $own.db >peak.json
    for format in folded pprof csv; do
        "$V" export --format=$format both.db --process $process -o joined || fail "$format of process $process"
        "$V" export --format=$format $own.db -o alone || fail "$format of $own.db"
        [ $format = csv ] || cmp -s joined alone || fail "$format of process $process is another one"
        cut -d, -f2,5-10 joined | cmp -s - <(cut -d, -f2,5-10 alone) || [ $format != csv ] || fail "csv of process $process"
    done
    for format in perfetto pytorch; do
        add $format both.db 0 --process $process
    done
    read_back $own.db
done

# names that mean something to a format, or to a terminal
make_db names.db
sqlite3 names.db "UPDATE frame SET function = 'a;b' || char(10) || 'c \"d\", e' || char(27) || '[31m' WHERE id % 3 = 0;
    UPDATE frame SET function = CAST(x'ff80fe' AS TEXT), file = CAST(x'2f612fc328' AS TEXT) WHERE id % 3 = 1;
    UPDATE frame SET function = '', file = char(0x202e) || 'gpj.py' WHERE id % 3 = 2 AND kind = 2;
    UPDATE phase SET name = '=1+1,\"x\"' || char(13) || char(10) WHERE name = 'forward';
    UPDATE string SET text = 'a;b' || char(10) || char(9) WHERE id % 2 = 0;
    UPDATE thread SET name = CAST(x'e228a1' AS TEXT); UPDATE device SET name = 'H' || char(10) || '200'" || fail names
all_of names.db
sqlite3 names.db "UPDATE process SET command = 'x' || char(10) || CAST(x'80' AS TEXT)" || fail names
all_of names.db

# nothing was ever allocated: one line, and no file
make_db empty.db --kind empty
for format in $formats; do
    rm -f out
    [ $format = csv ] && continue
    "$V" export --format=$format empty.db -o out 2>err
    [ $? = 2 ] && [ "$(wc -l <err)" = 1 ] && [ ! -e out ] && [ ! -e out.part ] || fail "$format of nothing: $(cat err)"
done
# a name that begins like a formula is no formula in a spreadsheet
cp "$db" formula.db
for name in '=1+1' '+a' '-a' '@SUM(A1)' '=HYPERLINK("http://x","y")'; do
    sqlite3 formula.db "UPDATE phase SET name = '$name' WHERE id = (SELECT max(id) FROM phase)"
    "$V" export --format=csv formula.db >formula.csv
    grep -qF ",'$name," formula.csv || grep -qF ",\"'${name//\"/\"\"}\"," formula.csv || fail "a formula in the csv: $name"
    ! grep -qF ",$name," formula.csv || fail "a bare formula in the csv: $name"
done
"$V" export --format=csv empty.db | grep -q '^process,op,' || fail "csv of nothing has its header"
echo "five formats are read back, and have the bytes of the peak"
