#!/bin/bash
# The tests that docs/coverage.md names exist: end-to-end tests anywhere on the page; and for each road scripts, unit tests,
# and what tests/gpu/roads.sh runs.
set -u
cd "$(dirname "$0")/../../.." || exit 1
page=${1:-docs/coverage.md}
rows=$(awk -F' [|] ' '/^## Roads/ { on = 1 } /^### What is reported/ { on = 0 } on && /^[|] / && !/---/ { print $2 "|" $3 }' "$page" | tail -n +2)
[ "$(wc -l <<<"$rows")" -ge 15 ] || { echo "$page has no table of roads: $rows"; exit 1; }
missing=0
no() { echo "$page names $1, which is not there" && missing=1; }

for test in $(cut -d'|' -f1 <<<"$rows" | grep -o '`[^`]*`' | tr -d '`' | sort -u); do
    name=${test#*/}
    case $test in
    e2e/*) ;; # below, with the rest of the page's
    unit/*) grep -qE "(hooks_test|vs_unit_test|unit_)[(]?${name%\*}" tests/unit/*/tests.cmake tests/CMakeLists.txt || no "$test" ;;
    *) no "$test" ;;
    esac
done
for name in $(grep -o '`e2e/[a-z0-9][a-z_0-9]*`' "$page" | tr -d '`' | sort -u); do
    compgen -G "tests/e2e/*/${name#e2e/}.sh" >/dev/null || no "$name"
done
# A road of roads.sh is the word behind road, children, recorded or framework, or one of the words of a loop.
for road in $(cut -d'|' -f2 <<<"$rows" | grep -o '`[^`]*`' | tr -d '`' | sort -u); do
    grep -qE "(road|children|recorded|framework [a-z]+) \"?${road%\*}|(^|[ ;])for [a-z]+ in ([a-z0-9-]+ )*${road%-\*}( |;)" tests/gpu/roads.sh || no "$road"
done
[ $missing = 0 ] || exit 1
[ $# = 0 ] || exit 0

# it must be able to fail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for wrong in 's/e2e\/roads_fork/e2e\/roads_forks/' 's/e2e\/host_refused/e2e\/host_refuse/' 's/hooks_dlvsym/hooks_dlxsym/' 's/`forkserver`/`forkservers`/' '/^| linked/,/^| [.].*reported/d'; do
    sed "$wrong" docs/coverage.md >"$dir/page.md"
    if tests/e2e/consistency/roads_page_current.sh "$dir/page.md" >/dev/null; then
        echo "a page with $wrong would go unnoticed"
        exit 1
    fi
done
echo "the tests of $(wc -l <<<"$rows") roads exist"
