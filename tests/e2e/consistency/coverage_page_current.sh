#!/bin/bash
# docs/coverage.md lists exactly the functions that driver.def hooks, its table of PyTorch's versions is the one that was measured, and
# the programs that it names exist.
set -u
cd "$(dirname "$0")/../../.." || exit 1
scripts/hooked_list.py --check || exit 1
tests/full/versions.py --page || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# the check itself must be able to fail: with one function more the page is old
mkdir -p "$dir/scripts" "$dir/shim/trace" "$dir/docs"
cp scripts/hooked_list.py "$dir/scripts" && cp docs/coverage.md "$dir/docs"
{
    cat shim/trace/driver.def
    echo 'VS_API(999, cuNewFunction, cuNewFunction, 14000, ANY, FREE, (NONE, p), 1, (void *, p))'
} >"$dir/shim/trace/driver.def"
if "$dir/scripts/hooked_list.py" --check >/dev/null; then
    echo "a new function would go unnoticed"
    exit 1
fi
listed=$(sed -n '/hooked functions: made/,/end of hooked/p' docs/coverage.md | grep -oE '`cu[A-Za-z0-9_]*(\[_[a-z]*\])?`' |
    sed -E 's/^`(\w+)\[(\w+)\]`$/`\1`\n`\1\2`/' | sort -u | wc -l)
rows=$(sed -nEf tests/e2e/lib/rows.sed shim/trace/driver.def | wc -l)
[ "$listed" = "$rows" ] || {
    echo "driver.def has $rows functions, the page lists $listed"
    exit 1
}
# tests that the tables of sentences name: unit/ by ctest's names, the others by their files
known=$(
    grep -rhoE "unit_[a-z0-9_]+" tests/unit --include=tests.cmake
    find tests/unit -name 'test_*.c' | sed 's|.*/test_|unit_|; s|\.c$||'
)
for name in $(sed -n '/^## What each sentence rests on/,/^## Pools/p' docs/coverage.md | grep '^|' | grep -oE '`(unit|e2e|gpu|full)/[a-z0-9_/]+`' | tr -d '`' | sort -u); do
    case $name in
    unit/*) grep -qx "unit_${name#unit/}" <<<"$known" ;;
    e2e/*) compgen -G "tests/e2e/*/${name#e2e/}.*" >/dev/null ;;
    *) compgen -G "tests/$name.*" >/dev/null ;;
    esac || {
        echo "docs/coverage.md names $name, and there is no such test"
        exit 1
    }
done
echo "docs/coverage.md lists the $rows functions of driver.def"
