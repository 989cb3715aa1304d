#!/bin/bash
# The layers know only what they may: greps the includes and the SQL (docs/design.md, "Layout").
set -u
cd "$(dirname "$0")/../../.." || exit 1
bad=0

# forbid WHAT PATTERN FILE...: no line of the files may match.
forbid() {
    local what=$1 pattern=$2 hits
    shift 2
    [ $# -gt 0 ] || return 0
    hits=$(grep -nE "$pattern" "$@" /dev/null)
    [ -z "$hits" ] || { printf '%s:\n%s\n' "$what" "$hits"; bad=1; }
}

# includes FILE...: "file:line: header" of every include that lies in the repository, resolved against shim/ too.
includes() {
    [ $# -gt 0 ] || return 0
    grep -nHoE '^ *# *include +"[^"]+"' "$@" | sed -E 's/# *include +"([^"]+)"/\1/'
}

files() { find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.S' -o -name '*.cu' \) 2>/dev/null; }
mapfile -t trace < <(files shim/core shim/trace)
mapfile -t analyzer < <(files analyzer)
mapfile -t hooks < <(files shim/hooks)
mapfile -t kernels < <(files kernels)
mapfile -t arena < <(files shim/arena/core)
mapfile -t provider < <(files shim/arena/cuda shim/arena/share shim/arena/torch)
mapfile -t outside < <(files shim | grep -v '^shim/arena/')
mapfile -t readers < <(files analyzer | grep -v '^analyzer/read/')
if [ ${#trace[@]} -eq 0 ]; then
    echo "shim/trace is empty: this test looks at the wrong place"
    exit 1
fi

forbid "shim/core and shim/trace must know no CUDA header" '# *include *[<"](cuda|nvtx|nvml|cudaTypedefs)' "${trace[@]}"
forbid "the arena's core must know no CUDA header, and of the shim only its own folder" \
    '# *include *[<"](cuda|nvtx|nvml)|# *include *".*(record|hooks/|framework/|trace/|stacks/|options|log)[^"]*\.(h|def)"' "${arena[@]}"
forbid "the arena's core must call no malloc" '\b(malloc|calloc|realloc|free|qsort|strdup)\(' "${arena[@]}"
forbid "what stands in the driver's place records nothing: it knows the shim by provider/provider.h, the driver and what has no state" \
    '# *include *".*(record|recording|sampler|hook|provided|store|journal|ledger)\.h"' "${provider[@]}"
forbid "the rest of the shim knows the arena by provider/provider.h alone" '# *include *"(.*/)?arena/' "${outside[@]}"
forbid "hooks must know neither SQLite nor the store" '# *include *[<"].*(sqlite3|store|writer|ledger)\.h' "${hooks[@]}"
forbid "kernels must know neither the shim nor the analyzer" '# *include *".*(shim|analyzer|trace)/' "${kernels[@]}"
forbid "reports and plots must know no SQL (only analyzer/read reads the database)" \
    'sqlite3\.h|sqlite3_|"[^"]*\b(SELECT|INSERT|UPDATE|DELETE|CREATE TABLE|PRAGMA)\b' "${readers[@]}"

# resolves FROM HEADER: where the include lies, relative to the top; nothing where it is not in the repository.
resolves() {
    local dir
    for dir in "$1" analyzer shim; do
        if [ -e "$dir/$2" ]; then
            realpath --relative-to=. "$dir/$2"
            return
        fi
    done
}

while IFS=: read -r file line header; do
    header=${header# }
    case $(resolves "$(dirname "$file")" "$header") in
    shim/core/* | shim/trace/* | shim/arena/* | analyzer/* | '') ;;
    *)
        echo "$file:$line: the analyzer must not include $header: only shim/core, shim/trace and shim/arena"
        bad=1
        ;;
    esac
done < <(includes "${analyzer[@]}")

[ $bad = 0 ] && echo "the layers know only what they may"
exit $bad
