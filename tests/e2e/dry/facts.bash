# shellcheck shell=bash
# facts.bash - sourced behind lib.bash: what a dry run does within PyTorch, beside the stand-ins.
#
#   follow PROGRAM ARGUMENT...   with PyTorch, values followed and counted steps: see `dry`
#   expect_facts KIND <<END      what was told, each place once: file:line|what|assumed|how often
. "${BASH_SOURCE[0]%/*}/../lib/dry.bash"
find_torch
package=$(cd "${BASH_SOURCE[0]%/*}/../../../shim/framework/python" && pwd)

follow() { PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} dry "$python" "$@"; }

expect_facts() {
    awk -F '\t' -v kind="$1" '$1 == kind { n = split($2, part, "/"); key = part[n] "|" $3 "|" $4; if (!(key in times)) order[++count] = key; times[key] += $5 }
        END { for (i = 1; i <= count; i++) print order[i] "|" times[order[i]] }' "$run/facts" >"$run/told"
    cat >"$run/wanted"
    diff "$run/wanted" "$run/told" >"$run/difference" || fail "places (< wanted, > told):
$(cat "$run/difference")"
}
