#!/bin/bash
# No two folders define the same function: which of them a call means would be decided by the order of libraries, without a word.
set -u
: "${BUILD:?BUILD is the build directory}"
twice=$(for library in "$BUILD"/analyzer/*.a "$BUILD"/shim/*.a; do nm -A --defined-only -g "$library" 2>/dev/null; done |
    awk '{ n = split($1, part, /[:\/]/); name = $NF; where = part[n - 2]; if (name in seen && seen[name] != where) print name ": " seen[name] " and " where; seen[name] = where }' | sort -u)
[ -z "$twice" ] || { echo "defined twice: $twice" && exit 1; }
echo "each name is one folder's"
