#!/bin/bash
# An export's file appears when it is whole, and what was there stays until then; a full disk and a closed pipe are one line; no recording
# is written over.
. "$(dirname "$0")/../lib/command.bash"
make_db run.db --steps 20

# refused WHAT ARGUMENT...: status 2 and one line with WHAT, nothing on stdout
refused() {
    local what=$1
    shift
    "$V" export "$@" >out 2>err
    local status=$?
    [ $status = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "$what" err || no "export $*: status $status: $(cat err)"
}
for format in csv perfetto pytorch; do
    refused '--from is later than --to: 0.02 s, and 0.01 s' --format=$format --from=20ms --to=10ms run.db
    refused '--from is beyond the end: run.db lasted [0-9.]* s$' --format=$format --from=1h run.db
    refused '--from is beyond the end' --format=$format --from=1h --to=2h run.db
done
for format in folded pprof; do
    refused '--at is beyond the end: run.db lasted [0-9.]* s$' --format=$format --at=1h run.db
done
refused 'the recording itself' --format=csv run.db -o run.db
ln run.db same.db
refused 'the recording itself' --format=csv run.db -o same.db
cp run.db other.db
for name in other.db /dev/fd/9; do
    refused 'is a recording, never replaced without --force' --format=csv run.db -o $name 9>>other.db
done
cmp -s run.db other.db || no "another recording was replaced"
"$V" export --force --format=csv run.db -o other.db 2>err && head -n 1 other.db | grep -q '^process,' || no "export --force: $(cat err)"
refused 'the recording itself' --format=csv --force run.db -o run.db
[ ! -e run.db.part ] || no "a part of the recording's name was left"
"$V" peak run.db >/dev/null || no "the recording was touched"

# a full disk: one line, status 2, and what was there before
for format in perfetto pytorch folded pprof csv; do
    refused "can't be written: No space left" --format=$format run.db -o /dev/full
    "$V" export --format=$format run.db >/dev/full 2>err
    [ $? = 2 ] && [ "$(wc -l <err)" = 1 ] || no "$format to a full stdout: $(cat err)"
    "$V" export --format=$format run.db -o kept 2>err || no "$format: $(cat err)"
    cp kept before
    (ulimit -f 1 && trap '' XFSZ && "$V" export --format=$format run.db -o kept 2>err)
    status=$?
    [ "$(stat -c %s before)" -le 1024 ] || { [ $status = 2 ] && grep -q 'File too large' err; } || no "$format, a file that may not grow: $status $(cat err)"
    cmp -s kept before && [ ! -e kept.part ] || no "$format: what was there before is gone"
    # through a link it is what the link leads to
    ln -sf kept link && "$V" export --format=$format run.db -o link 2>err && [ -L link ] || no "$format replaced a link: $(cat err)"
    # to standard output it is the same bytes
    "$V" export --format=$format run.db -o - | cmp -s - before || no "$format to standard output"
    "$V" export --format=$format run.db | cmp -s - before || no "$format without -o"
done
# a reader that has had enough, with and without the signal
"$V" export --format=csv run.db --rows=events | head -n 1 >first
grep -q '^process,seq' first || no "the first line: $(cat first)"
python3 - "$V" <<'PY' || no "a closed pipe"
import os, signal, subprocess, sys
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
read, write = os.pipe()
os.close(read)
done = subprocess.run([sys.argv[1], "export", "--format=pytorch", "run.db"], stdout=write, stderr=subprocess.PIPE, text=True, restore_signals=False)
sys.exit(not (done.returncode == 2 and done.stderr.count("\n") == 1 and "nobody reads" in done.stderr))
PY
# no binary on a terminal
if command -v script >/dev/null; then
    script -qec "'$V' export --format=pprof run.db" /dev/null >out </dev/null
    grep -q 'give -o FILE' out || no "a profile on a terminal: $(head -c 300 out)"
fi
# what is no regular file is written as it is
mkfifo fifo
cat fifo >through &
"$V" export --format=folded run.db -o fifo || no "into a pipe with a name"
wait
"$V" export --format=folded run.db | cmp -s - through || no "what came through the pipe"
[ $failures = 0 ] && echo "exports go where they should, whole or not at all" || exit 1
