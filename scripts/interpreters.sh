#!/bin/bash
# interpreters.sh - CPythons that a distribution has not yet, or does not build, for the tests.
#
#   scripts/interpreters.sh [VERSION...]    3.14 3.15 3.13t unless named
#
# 3.14 and 3.15 are Debian sid's packages, started by their own loader without being installed.  3.13t, free-threaded, is built of trixie's
# source package: ten minutes of a processor.  Each is BUILD/deps/python/VERSION/python3 (tests/e2e/lib/lib.bash).  Exits 77 where
# something cannot be had, and says what.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$PWD/build/deps/python
[ $# -gt 0 ] || set -- 3.14 3.15 3.13t

lacks() {
    echo "interpreters.sh: $*" >&2
    exit 77
}

# lists of sid and trixie beside the machine's own, from where it has its own
use_lists() {
    local site keys=/usr/share/keyrings/debian-archive-keyring.gpg
    command -v apt-get >/dev/null || lacks "there is no apt-get"
    site=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | sed -n 1p)
    [ -n "$site" ] && [ -e $keys ] || lacks "this is no Debian whose lists are here (apt-get update)"
    mkdir -p "$into"/apt/{lists,archives}/partial
    printf 'Types: deb deb-src\nURIs: %s\nSuites: sid trixie\nComponents: main\nSigned-By: %s\n' "$site" $keys \
        >"$into/apt/debian.sources"
    printf 'Dir::State::lists "%s/apt/lists"; Dir::State::status "/dev/null"; Dir::Cache "%s/apt"; Dir::Etc::sourcelist "%s/apt/debian.sources"; Dir::Etc::sourceparts "-"; APT::Sandbox::User "root";\n' \
        "$into" "$into" "$into" >"$into/apt/conf"
    export APT_CONFIG=$into/apt/conf
    apt-get update -qq >&2 || lacks "the lists cannot be fetched"
}

# packaged VERSION: sid's packages, unpacked
packaged() {
    local part=$into/$1.part at=$into/$1 libraries
    mkdir -p "$part/packages" "$part/usr"
    libraries="libc6 libgcc-s1 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5 libzstd1 libssl3t64 libsqlite3-0 libuuid1"
    # shellcheck disable=SC2086 # a list
    (cd "$part/packages" && apt-get download -qq "python$1-minimal" "libpython$1-minimal" "libpython$1-stdlib" $libraries >&2) ||
        lacks "the packages of CPython $1 cannot be fetched"
    for package in "$part"/packages/*.deb; do
        dpkg -x "$package" "$part" && rm "$package"
    done
    cat >"$part/python3" <<END
#!/bin/bash
# its libraries are for it alone
export PYTHONHOME=$at/usr
exec $at/usr/lib64/ld-linux-x86-64.so.2 --library-path $at/usr/lib/x86_64-linux-gnu:$at/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} $at/usr/bin/python$1 "\$@"
END
}

# built VERSION: the newest source that can be had, free-threaded
built() {
    local part=$into/$1.part minor=${1%t} version
    mkdir -p "$part/source" "$part/build"
    cd "$part/source"
    for version in $(apt-cache showsrc "python$minor" | sed -n 's/^Version: //p' | sort -Vr); do
        ! apt-get source -qq --download-only "python$minor=$version" >&2 || break
    done
    tar xf python*.orig.tar.xz --strip-components=1 || lacks "the source of CPython $minor cannot be fetched"
    cd "$part/build"
    { "$part/source/configure" --disable-gil --without-ensurepip --disable-test-modules --prefix="$into/$1" CFLAGS="-O1 -g0" &&
        make -j"$(nproc)" && make install DESTDIR="$part/root"; } >"$part/log" 2>&1 || lacks "CPython $1 could not be built: $part/log"
    cp -r "$part/root$into/$1/." "$part"
    rm -r "$part"/{source,build,root}
    ln -s "bin/python$1" "$part/python3"
}

[ "$(uname -m)" = x86_64 ] || lacks "only for x86_64"
for version; do
    [ ! -x "$into/$version/python3" ] || continue
    [ -n "${APT_CONFIG:-}" ] || use_lists
    rm -rf "$into/$version.part"
    case $version in
    *t) (built "$version") ;;
    *) packaged "$version" ;;
    esac
    chmod +x "$into/$version.part/python3"
    mv "$into/$version.part" "$into/$version"
    "$into/$version/python3" -c 'import ctypes, sys; print("CPython", sys.version)' || lacks "CPython $version does not run"
done
