#!/bin/bash
# A program of another C library (musl) that inherits LD_PRELOAD runs as without us.  It is not recorded, and where it is the command itself that is
# said.
. "$(dirname "$0")/../lib/lib.bash"
command -v musl-gcc >/dev/null || skip "there is no musl-gcc (Debian's package musl-tools): PROGRAMS OF MUSL STAY UNTESTED"
cat >"$dir/other.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *p) { return p; }
int main(int argc, char **argv)
{
    pthread_t t;
    void *joined = 0;
    size_t (*length)(const char *) = (size_t (*)(const char *))dlsym(RTLD_DEFAULT, "strlen");
    if (!length || length("four") != 4 || dlsym(RTLD_DEFAULT, "cuNothing"))
        return 1;
    if (pthread_create(&t, 0, thread, argv) || pthread_join(t, &joined) || joined != argv)
        return 2;
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit(3);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
        return 4;
    puts("hello from musl");
    return argc > 1 ? 0 : 5;
}
END
musl-gcc -O1 "$dir/other.c" -o "$dir/other" 2>"$dir/cc" || fail "it does not build: $(cat "$dir/cc")"
"$dir/other" >/dev/null
[ $? = 5 ] || skip "a program of musl does not run here"

run_shimmed "$dir/other"
[ ! -e "$db" ] || fail "something was recorded"

# a child of a recorded program
cat >"$dir/parent.sh" <<END
"$tests/prog_linked" && "$dir/other" child
END
run_shimmed bash "$dir/parent.sh"
[ "$status" = 0 ] || fail "the parent's status is $status"
expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'alloc'" 1

"$V" run -o "$dir/none.db" -- "$dir/other" >/dev/null 2>"$dir/err"
[ $? = 5 ] || fail "run: another status: $(cat "$dir/err")"
grep -q "nothing was recorded: .*other is no program of glibc (its loader is .*ld-musl" "$dir/err" || fail "run says: $(cat "$dir/err")"
