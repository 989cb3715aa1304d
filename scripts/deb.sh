#!/bin/bash
# deb.sh - makes dist/vramscope_VERSION_ARCHITECTURE.deb, for the distribution that it is made on, and prints its path.
#
#   scripts/deb.sh
#
# Builds in build/deb.  The tree is /usr/lib/vramscope; /usr/bin/vramscope is a link into it; pages, headers, examples and completions lie
# where the system's do.  The command uses the system's elfutils, where a wheel's has its own.
set -euo pipefail
cd "$(dirname "$0")/.."

include=$(scripts/setup.sh package | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
BUILD_DIR=build/deb scripts/build.sh release "$include" -DVRAMSCOPE_TESTS=OFF -DVRAMSCOPE_EXAMPLES=OFF -DVRAMSCOPE_SYSTEM_ELFUTILS=ON
root=$PWD/build/deb/root
rm -rf "$root"
tree=$root/usr/lib/vramscope doc=$root/usr/share/doc/vramscope
cmake --install build/deb --prefix "$tree" --strip >build/deb/install.log
version=$(cat "$tree/share/vramscope/version")
architecture=$(dpkg --print-architecture)

mkdir -p "$root/usr/bin" "$root/usr/include" "$doc" "$root/usr/lib/$(gcc -print-multiarch)"
ln -s ../lib/vramscope/bin/vramscope "$root/usr/bin/vramscope"
mv "$tree"/include/*.h "$root/usr/include/"
rmdir "$tree/include"
for share in "$tree"/share/*; do # pages and completions
    [ "$share" = "$tree/share/vramscope" ] || mv "$share" "$root/usr/share/"
done
find "$root/usr/share/man" -type f -exec gzip -9n {} +
mv "$tree/share/vramscope/examples" "$doc/"
rm "$tree/share/vramscope/LICENSE"
find "$tree" -name __pycache__ -prune -exec rm -rf {} +
mv "$tree/lib/pkgconfig" "$root/usr/lib/$(gcc -print-multiarch)/"
sed -i "s|^prefix=.*|prefix=/usr|; s|^Libs:.*|Libs: -L/usr/lib/vramscope/lib -Wl,-rpath,/usr/lib/vramscope/lib -llinear_cross_entropy|" \
    "$root/usr/lib/$(gcc -print-multiarch)/pkgconfig/linear_cross_entropy.pc"

# ---- what Debian asks for beside it ----

maintainer="vramscope maintainers <maintainers@vramscope.invalid>"
date=$(date -uR -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
gzip -9n >"$doc/changelog.gz" <<END
vramscope ($version) unstable; urgency=medium

  * Version $version: CHANGELOG.md of the sources says what changed.

 -- $maintainer  $date
END
cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: vramscope

Files: *
Copyright: 2026 the vramscope authors
License: Apache-2.0
 On Debian systems the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.

Files: usr/lib/vramscope/lib/vramscope/libvramscope-unwind.so
Copyright: the libunwind authors; see the package libunwind8
License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 in the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in
 all copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE.

Files: usr/lib/vramscope/lib/vramscope/libvramscope-lzma.so
Copyright: the XZ Utils authors; see the package liblzma5
License: public-domain
 liblzma is in the public domain.
END
chmod -R u=rwX,go=rX "$root"
find "$tree/lib" -name '*.so*' -type f -exec chmod 644 {} +

# ---- the package ----

cat >build/deb/CPackDeb.cmake <<END
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vramscope)
set(CPACK_PACKAGE_VERSION $version)
set(CPACK_PACKAGE_FILE_NAME vramscope_${version}_$architecture)
set(CPACK_PACKAGE_DIRECTORY "$PWD/build/deb/cpack")
set(CPACK_OUTPUT_FILE_PREFIX "$PWD/dist")
set(CPACK_INSTALL_CMAKE_PROJECTS "")
set(CPACK_INSTALLED_DIRECTORIES "$root;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_PACKAGE_CONTACT "$maintainer")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "says what made the GPU memory peak, and what would lower it")
set(CPACK_PACKAGE_DESCRIPTION "vramscope records the GPU memory allocations of an unmodified training process,
each tagged with the training phase, the line of code and the layer that it
belongs to, and shows who held the memory at the peak.")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox | gnuplot, sqlite3")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
END
rm -rf build/deb/cpack
mkdir -p dist
fakeroot=()
if [ "$(id -u)" != 0 ] && command -v fakeroot >/dev/null; then
    fakeroot=(fakeroot)
fi
"${fakeroot[@]}" cpack --config build/deb/CPackDeb.cmake >build/deb/cpack.log 2>&1 || {
    tail -n 20 build/deb/cpack.log >&2
    exit 1
}
echo "dist/vramscope_${version}_$architecture.deb"
