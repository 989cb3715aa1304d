#!/bin/bash
# Every command that `vramscope --help` names says of a dry run's recording that it is one, in every form that it writes.  A command that is neither
# tried here nor known to show no recording is a failure.
. "$(dirname "$0")/../lib/lib.bash"
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
mark='dry.run|"dry": (true|"gpu)' # "dry run, no GPU", "dry_run"; no file here is called so
sizes=("4 512" "2 512" "4 1024")
for i in 0 1 2; do
    read -r batch seq <<<"${sizes[i]}"
    timeout 120 "$V" fit -o "rec$i.db" -- "$tests/prog_sizes" "$batch" "$seq" >out 2>err || fail "fit: $? $(cat out err)"
done
timeout 120 "$V" run -q --simulated -o other.db -- "$tests/prog_sizes" 4 512 >out 2>err || fail "run: $(cat err)"
sqlite3 other.db "UPDATE process SET simulated = 0" # as of a GPU

shows() { # WHAT COMMAND...: says so
    local what=$1
    shift
    COLUMNS=1000 timeout 120 "$@" >out 2>err
    [ -s out ] || fail "$what: $* printed nothing: $(cat err)"
    grep -aqiE "$mark" out || fail "$what: no mark: $(head -c 3000 out)"
}
writes() { # FILE COMMAND...: which writes FILE
    local file=$1
    shift
    timeout 120 "$@" >out 2>err || [ $? = 3 ] || fail "$*: $(cat err)"
    case $file in
    *.pprof) gzip -dc "$file" >plain ;;
    *.pdf | *.png) cp out plain ;; # pictures that gnuplot made: of the script that .gp has
    *) cp "$file" plain ;;
    esac
    grep -aqiE "$mark" plain || fail "$file: no mark: $(head -c 1500 plain)"
}

none=" run wrap suspend resume fit import sweep recover doctor demo explain completions mcp " # these show no recording that is there; fit's own page is tried, too
tried=" "
try() { tried+="$1 "; }

timeout 120 "$V" fit -- "$tests/prog_sizes" 4 512 >out 2>err || fail "fit"
grep -qE "$mark" out || fail "fit's page: $(cat out)"

try report
shows report "$V" report --all rec0.db
shows 'report --json' "$V" report --json rec0.db
grep -q '"dry": "gpu=H200,bytes=[0-9]*,steps=3,values=first"' out || fail "JSON has not what it stands for: $(grep dry out)"
shows 'report of several' "$V" report --all rec0.db rec1.db
try peak
shows peak "$V" peak rec0.db
shows 'peak --json' "$V" peak --json rec0.db
try waste
shows waste "$V" waste rec0.db
try diff
shows diff "$V" diff rec0.db rec1.db
grep -q '^NOTE: dry run (H200, ' out || fail "diff: $(cat out)"
timeout 120 "$V" fit --gpu=A100-40GB -o a100.db -- "$tests/prog_sizes" 4 512 >out 2>err || fail "fit: $? $(cat out err)"
shows 'diff of two GPUs' "$V" diff rec0.db a100.db
grep -q 'A: dry run (H200, ' out && grep -q 'B: dry run (A100-40GB, ' out || fail "diff of two GPUs: $(cat out)"
shows 'diff of a dry run and another' "$V" diff rec0.db other.db
grep -q 'A: dry run, no GPU; B: on a GPU: times and residual do not compare, what is allocated and reserved does' out || fail "diff: $(cat out)"
shows 'diff --json' "$V" diff --json rec0.db other.db
try check
shows check "$V" check --max-peak=1GiB rec0.db
timeout 300 "$V" check --max-peak=1GiB --json --junit=check.xml rec0.db >out || fail "check --json: $?"
grep -q '"dry": true' out && grep -qE "$mark" check.xml || fail "check: $(cat out check.xml)"
"$V" check --max-peak=1KiB --github rec0.db >out
grep -qE "$mark" out || fail "check --github: $(cat out)"
try plot
shows plot "$V" plot rec0.db
for form in txt gp svg; do
    if [ $form != svg ] || command -v gnuplot >/dev/null; then writes "p.$form" "$V" plot rec0.db -o "p.$form"; fi
done
writes o.gp "$V" plot other.db rec0.db -o o.gp
shows 'plot of several' "$V" plot other.db rec0.db
try view
writes v.html "$V" view rec0.db -o v.html
try export
for format in perfetto pytorch folded pprof csv; do
    writes "e.$format" "$V" export --format=$format rec0.db -o "e.$format"
done
try whatif
shows whatif "$V" whatif rec0.db
"$V" whatif --json rec0.db >out || fail "whatif --json"
grep -q '"dry": "gpu=H200' out || fail "whatif --json: $(head -n 5 out)"
shows 'whatif of several' "$V" whatif --batch=1..8 --seq=512 rec0.db:batch=4,seq=512 rec1.db:batch=2,seq=512 rec2.db:batch=4,seq=1024
try estimate
shows estimate "$V" estimate --params=1M --layers=2 --hidden=64 --heads=2 --vocab=100 rec0.db
try merge
"$V" merge -o all.db rec0.db rec1.db >out 2>err || fail "merge: $(cat err)"
shows 'report of a merged file' "$V" report --all all.db
[ "$(sqlite3 all.db "SELECT count(*) FROM process WHERE simulated = 2")$(sqlite3 all.db "SELECT count(DISTINCT value) FROM meta WHERE key = 'dry'")" = 21 ] || fail "the merged file"
try top

# every command
for command in $("$V" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    case $none$tried in *" $command "*) ;; *) fail "$command: it is not tried whether it marks a dry run" ;; esac
done
