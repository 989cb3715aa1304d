#!/bin/bash
# No folders of shim/ and analyzer/ include each other in a circle, docs/rooms.svg shows what they do, and few know CUDA, SQL and malloc.
set -u
: "${BUILD:?BUILD is the build directory}"
BUILD=$(cd "$BUILD" && pwd)
cd "$(dirname "$0")/../../.." || exit 1
bad=0
scripts/rooms.py --check --calls "$BUILD" || bad=1

# the check itself must be able to fail
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
cp -r --parents shim analyzer scripts docs/rooms.svg "$copy" || exit 1
"$copy/scripts/rooms.py" --check >/dev/null || { echo "a copy of the tree is not as good as the tree" && bad=1; }
spoilt() { # WHAT SED FILE: found as WHAT
    sed -i "$2" "$copy/$3"
    "$copy/scripts/rooms.py" --check | grep "$1" >/dev/null || { echo "goes unnoticed: $1" && bad=1; }
    cp "$3" "$copy/$3"
}
spoilt 'shim/trace/journal includes shim/record and does not say so' '/include "event.h"/a #include "record/record.h"
s|#include "trace/event.h"|&\n#include "record/record.h"|' shim/trace/journal/journal.h
spoilt 'folders that include each other: .*shim/record' 's|#include "trace/event.h"|&\n#include "framework/ranges.h"|' shim/record/record.h
spoilt 'shim/sample says that it uses shim/hooks, and does not' 's|vs_room(sample USES |&hooks |' shim/CMakeLists.txt
spoilt 'docs/rooms.svg is not what the folders are' 's|</svg>||' docs/rooms.svg

# forbid WHAT PATTERN FILE...: no line of the files may match.
forbid() {
    local what=$1 pattern=$2 hits
    shift 2
    [ $# -gt 0 ] || { echo "$what: no files, this test looks at the wrong place" && bad=1 && return; }
    hits=$(grep -nE "$pattern" "$@" /dev/null)
    [ -z "$hits" ] || { printf '%s:\n%s\n' "$what" "$hits" && bad=1; }
}
files() { find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.S' -o -name '*.cu' \); }
mapfile -t plain < <(files shim/core shim/trace shim/arena/core analyzer)
mapfile -t core < <(files shim/arena/core)
mapfile -t kernels < <(files kernels)
mapfile -t shown < <(files analyzer | grep -v '^analyzer/read/')
mapfile -t read < <(files analyzer/read | grep -v -e '^analyzer/read/relabel.c' -e '^analyzer/read/found_roles.c')
forbid "core, trace, the arena's core and the analyzer must know no CUDA header" '# *include *[<"](cuda|nvtx|nvml|cudaTypedefs)[a-zA-Z]*\.h' "${plain[@]}"
forbid "the arena's core must call no malloc" '\b(malloc|calloc|realloc|free|qsort|strdup)\(' "${core[@]}"
forbid "kernels must know neither the shim nor the analyzer" '# *include *".*(shim|analyzer|trace)/' "${kernels[@]}"
forbid "reports and plots must know no SQL (only analyzer/read reads the database)" \
    'sqlite3\.h|sqlite3_|"[^"]*\b(SELECT|INSERT|UPDATE|DELETE|CREATE TABLE|PRAGMA)\b' "${shown[@]}"
mapfile -t others < <(files shim | grep -v '^shim/core/fork\.')
mapfile -t anywhere < <(files shim | grep -v -e '^shim/core/arch/' -e '^shim/vramscope.h')
forbid "only shim/core/arch depends on the processor" '__x86_64__|__aarch64__|ia32_|rdtsc|R_X86_64|R_AARCH64|x86intrin|cpuid\.h' "${anywhere[@]}"
for file in $(grep -oE '"[a-z]+/[a-z/_]+\.[ch]' shim/core/lock.h | tr -d '"'); do
    grep -q "struct vs_lock" "shim/$file" || { echo "shim/core/lock.h: there is no lock in $file" && bad=1; }
done
mapfile -t locks < <(files shim)
forbid "each lock has its place in shim/core/lock.h" "^(static )?struct vs_lock [a-z_]+(\\[.*\\])?;" "${locks[@]}"
forbid "only shim/core/fork.h looks for forks" 'WIPEONFORK' "${others[@]}"
forbid "only shim/trace/store writes a database" '"[^"]*\b(INSERT|UPDATE|DELETE|CREATE TABLE)\b' "${read[@]}"

[ $bad = 0 ] && echo "the folders are as they say"
exit $bad
