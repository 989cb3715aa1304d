#!/bin/bash
# A host that brings its own libsqlite3, libunwind, liblzma or libstdc++ gets its own, however it loads them: no call of ours goes there, none of the
# host's to us.
. "$(dirname "$0")/../lib/lib.bash"
command -v cc >/dev/null || skip "there is no C compiler"
mkdir "$dir/own"

# own SONAME FUNCTION...: a library of that name whose functions count their calls and answer 42
own() {
    local soname=$1 function
    shift
    echo '#include <stdio.h>' >"$dir/own.c"
    for function; do
        echo "static int n_$function; int $function(void) { return 42 + 0 * ++n_$function; }"
    done >>"$dir/own.c"
    printf '__attribute__((destructor)) static void tell(void) {' >>"$dir/own.c"
    for function; do
        printf 'if (n_%s) printf("%s %s %%d\\n", n_%s);' "$function" "$soname" "$function" "$function"
    done >>"$dir/own.c"
    echo '}' >>"$dir/own.c"
    cc -shared -fPIC -w -o "$dir/own/$soname" "-Wl,-soname,$soname" "$dir/own.c" || fail "$soname does not compile"
}
own libsqlite3.so.0 sqlite3_open sqlite3_open_v2 sqlite3_exec sqlite3_prepare_v2 sqlite3_step sqlite3_close sqlite3_malloc sqlite3_config \
    sqlite3_initialize sqlite3_libversion_number sqlite3_vfs_find sqlite3_bind_int64 sqlite3_column_int64 sqlite3_finalize sqlite3_reset
own libunwind.so.8 unw_backtrace _ULx86_64_init_local _ULx86_64_step _Ux86_64_getcontext _ULx86_64_get_reg _Ux86_64_flush_cache unw_set_caching_policy
own liblzma.so.5 lzma_stream_buffer_decode lzma_stream_footer_decode lzma_index_buffer_decode lzma_index_end lzma_index_uncompressed_size
own libstdc++.so.6 __cxa_throw __cxa_allocate_exception __cxa_demangle __cxa_begin_catch __gxx_personality_v0

cat >"$dir/host.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long *, unsigned long), cuMemFree_v2(unsigned long);
#ifdef LINKED
int sqlite3_open(void), unw_backtrace(void), lzma_index_end(void), __cxa_demangle(void);
#endif
static const char *const names[] = {"sqlite3_open", "unw_backtrace", "lzma_index_end", "__cxa_demangle"};
static const char *const libraries[] = {"libsqlite3.so.0", "libunwind.so.8", "liblzma.so.5", "libstdc++.so.6"};
static void pairs(int n)
{
    unsigned long p;
    while (n-- > 0)
        if (cuMemAlloc_v2(&p, 4096) == 0)
            cuMemFree_v2(p);
}
int main(int argc, char **argv)
{
    void *context;
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    pairs(500);
#ifdef LINKED
    printf("%d %d %d %d\n", sqlite3_open(), unw_backtrace(), lzma_index_end(), __cxa_demangle());
#endif
    for (int i = 0; i < 4; i++) {
        void *own = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
        int (*f)(void) = own ? (int (*)(void))dlsym(own, names[i]) : NULL;
        int (*anybodys)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, names[i]);
        printf("%s %d %d\n", names[i], f ? f() : -1, anybodys ? anybodys() : -1);
    }
    pairs(500);
    return 0;
}
END
cc -w -o "$dir/opens" "$dir/host.c" "$BUILD/sim/libcuda.so.1" -ldl || fail "the program does not compile"
cc -w -DLINKED -o "$dir/links" "$dir/host.c" "$BUILD/sim/libcuda.so.1" -ldl "$dir"/own/*.so.* || fail "the program does not compile"

all=$(printf '%s:' "$dir"/own/*.so.*)
recorded() {
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 1000
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND stack = 0" 0
    expect_clean
    [ "$(grep -c ' 42' "$run/out")" -ge 4 ] || fail "the host did not get its own: $(cat "$run/out")"
}
shim_env=(VRAMSCOPE_STACKS=all LD_LIBRARY_PATH="$dir/own:$LD_LIBRARY_PATH")
for program in opens links; do
    run_shimmed "$dir/$program"
    recorded
done
# preloaded too: the host's libraries come before us, or after us
original=$shim
for preload in "$all$original" "$original:${all%:}"; do
    for program in opens links; do
        env LD_PRELOAD="$all" "${shim_env[@]}" "$dir/$program" >"$dir/plain.out" 2>"$dir/plain.err"
        plain=$?
        shim=$preload
        shimmed "$dir/$program"
        shim=$original
        [ "$status" = $plain ] || fail "preloaded: status $status, $plain without the shim"
        cmp -s "$dir/plain.out" "$run/out" || fail "preloaded: other output: $(diff "$dir/plain.out" "$run/out")"
        recorded
    done
done

# loaded by dlopen, as the driver and NVTX load what injects itself, we leave a program room for thread-locals of its own libraries
cat >"$dir/locals.c" <<'END'
__thread char own[512] __attribute__((tls_model("initial-exec")));
char *locals(void) { return own; }
END
cat >"$dir/later.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW))
            return puts(dlerror()), 1;
    return 0;
}
END
cc -shared -fPIC -o "$dir/locals.so" "$dir/locals.c" || fail "locals.so does not compile"
cc -o "$dir/later" "$dir/later.c" -ldl || fail "later does not compile"
if "$dir/later" "$dir/locals.so" >/dev/null; then # (the shim of a build with a sanitizer needs its runtime)
    why=$("$dir/later" "$shim" "$dir/locals.so") || case $why in *libasan* | *libtsan* | *libubsan*) ;; *) fail "a library that is loaded after us: $why" ;; esac
fi
echo "everybody got their own"
