#!/bin/bash
# Each system call of ours refused with EPERM and ENOSYS, as sandboxes do, where the program can do without it: nothing that the program does changes,
# and what was recorded is whole, or a line says that nothing is.
. "$(dirname "$0")/../lib/lib.bash"
command -v cc >/dev/null || skip "there is no C compiler"

number() { # of system call NAME
    printf '#include <sys/syscall.h>\nSYS_%s\n' "$1" | cc -E -P - 2>/dev/null | tail -n 1
}
"$tests/prog_deny" 1 "$(number acct)" true
[ $? != 77 ] || skip "there may be no seccomp filter here"

# denied ERRNO NAMES COMMAND...: the same with and without the shim
denied() {
    local errno=$1 names=$2 plain numbers="" name
    shift 2
    for name in ${names//,/ }; do
        numbers+=${numbers:+,}$(number "$name")
    done
    "$tests/prog_deny" "$errno" "$numbers" "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    shimmed "$tests/prog_deny" "$errno" "$numbers" "$@"
    [ "$status" = "$plain" ] || fail "$names refused with $errno: status $status, $plain without the shim"
    cmp -s "$dir/plain.out" "$run/out" || fail "$names refused with $errno: other output"
    grep -v '^vramscope: ' "$run/err" | cmp -s "$dir/plain.err" - || fail "$names refused with $errno: other stderr"
    said=$(grep -c '^vramscope: ' "$run/err")
    [ "$said" -le 2 ] || fail "$names refused with $errno: $said lines"
}
recorded() {
    if [ -e "$db" ]; then
        [ -z "$(find "$run" -name '*.vsj')" ] || recover_run
        expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 8000
        expect_sql "SELECT count(*) FROM loss" 0
    else
        [ "$said" -gt 0 ] || fail "$1: nothing is recorded, and not a word"
    fi
}

# every call that a trace of a recording shows, one at a time (those without which the loader finds no library left out)
single=(madvise membarrier memfd_create close_range fallocate ftruncate statfs fcntl pwrite64 flock unlink getdents64
    lseek access poll readlink rt_sigtimedwait gettid prctl mremap sched_yield getrandom geteuid getcwd uname
    tgkill sysinfo clock_nanosleep fchmod fchown ioctl rseq getrusage)
later=(madvise membarrier memfd_create close_range statfs getrandom rseq) # those that a kernel may lack
for errno in 1 38; do
    names=("${single[@]}")
    [ $errno = 1 ] || in_full || names=("${later[@]}")
    for name in "${names[@]}"; do
        denied "$errno" "$name" "$tests/prog_threads"
        [ "$status" != 0 ] || recorded "$name"
    done
    # everything at once that a strict filter for a mere computation would refuse
    denied "$errno" madvise,membarrier,memfd_create,close_range,fallocate,statfs,flock,readlink,poll,prctl,rt_sigtimedwait,getcwd,uname "$tests/prog_threads"
    [ "$status" != 0 ] || recorded everything
done

# who asks for a limit is killed: a recording can do without
run_shimmed "$tests/prog_sandbox"
[ "$status" = 77 ] || {
    expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'free')" 200
    expect_clean ""
}

# no thread may be made: what there is stays in the journal until the end
denied 1 clone,clone3 "$tests/prog_linked"
[ "$status" = 0 ] || fail "no threads: status $status"
[ -e "$db" ] && expect_sql "SELECT count(*) > 5 FROM event" 1
echo "each refusal was ours alone"
