#!/bin/bash
# The example of the linear cross-entropy builds from the installed tree as its first lines say, and trains; the header is good C and C++; the manual
# page knows every function and flag.
set -u
: "${BUILD:?BUILD is the build directory}"
source=$(cd "$(dirname "$0")/../../.." && pwd)
BUILD=$(cd "$BUILD" && pwd)
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
command -v cmake >/dev/null && command -v gcc >/dev/null || { echo "skipped: no cmake or no gcc here"; exit 77; }

cmake --install "$BUILD" --prefix "$work/first" >log 2>&1 || { cat log && exit 1; }
mv first "moved"
tree=$work/moved
example=$tree/share/vramscope/examples/linear_cross_entropy.c
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$tree/lib/pkgconfig
    pkg-config --exists linear_cross_entropy || no "pkg-config does not find it"
    read -ra flags <<<"$(pkg-config --cflags --libs linear_cross_entropy)"
    [ "$(realpath "$(pkg-config --variable=prefix linear_cross_entropy)")" = "$(realpath "$tree")" ] || no "pkg-config names another tree"
else
    flags=(-I"$tree/include" -L"$tree/lib" -llinear_cross_entropy)
fi
gcc -std=c11 -pedantic -Wall -Wextra -Werror -o example "$example" "${flags[@]}" || no "the example does not build"
LD_LIBRARY_PATH=$tree/lib ./example >out 2>err || no "the example failed: $(cat out err)"
# the first loss, of a weight of zeros, is log 10; it then falls
printf 'step  0: loss 2.3026\n' | cmp -s - <(head -n 1 out) || no "the first loss: $(head -n 1 out)"
awk '/^step 49: loss/ && $4 < 1.5 {ok = 1} END {exit !ok}' out || no "the loss did not fall: $(cat out)"

header=$tree/include/linear_cross_entropy.h
for language in "c -std=c99" "c -std=c17" "c++ -std=c++11" "c++ -std=c++20"; do
    read -ra options <<<"$language"
    printf '#include <linear_cross_entropy.h>\n#include <linear_cross_entropy.h>\n' |
        gcc -x "${options[@]}" -pedantic -Wall -Wextra -Werror -I"$tree/include" -fsyntax-only - || no "the header in $language"
done
page=$source/docs/man/linear_cross_entropy.3
for name in $(sed -n 's/^LCE_API.*[ *]\(lce_[a-z_]*\)(.*/\1/p' "$header"); do
    grep -q "Fn $name " "$page" || no "the manual page lacks $name"
    nm -D --defined-only "$tree/lib/liblinear_cross_entropy.so" | grep -q " T $name\$" || no "$name is not exported"
done
for name in $(sed -n '/^enum lce_\(flag\|mode\) /,/^};/s/^ *\(LCE_[A-Z0-9_]*\) = .*/\1/p' "$header"); do
    grep -q "Dv $name" "$page" || no "the manual page lacks $name"
done
nm -D --defined-only "$tree/lib/liblinear_cross_entropy.so" | grep -v ' lce_' && no "it exports what is not its own"
[ $failures = 0 ] && echo "the example trains: $(tail -n 1 out)" || exit 1
