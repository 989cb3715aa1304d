#!/bin/bash
# The wheel works in a virtual environment with a blank in its path and by `pip install --target`, with one package and one version
# everywhere.
. "$(dirname "$0")/../lib/command.bash"
python=$(command -v python3) || { echo "skipped: there is no python3" && exit 77; }
"$python" -m pip --version >pip.log 2>&1 || { echo "skipped: this python3 has no pip" && exit 77; }
[ -r "$BUILD/sim/libcuda.so.1" ] && command -v cmake >/dev/null && command -v readelf >/dev/null || { echo "skipped: no simulated driver, cmake or readelf"; exit 77; }
unset PYTHONPATH LD_PRELOAD XDG_CACHE_HOME VIRTUAL_ENV
export COLUMNS=400 HOME=$D/home PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$BUILD/sim
mkdir -m 700 home

cmake --install "$BUILD" --prefix tree --strip >log 2>&1 || { cat log && exit 1; }
wheel=$("$SRC/scripts/wheel.py" tree dist) || exit 1
version=$(sed -n 's/^project(vramscope VERSION \([0-9.]*\) .*/\1/p' "$SRC/CMakeLists.txt")
[ "${wheel##*/}" = "vramscope-$version-py3-none-manylinux_2_34_$(uname -m).whl" ] || no "the wheel is called ${wheel##*/}"
"$SRC/scripts/wheel.py" tree again >log && cmp "$wheel" again/*.whl || no "the same tree gives two wheels"

# every file is in RECORD with its hash, no other is
"$python" - "$wheel" <<'END' || no "RECORD"
import base64, csv, hashlib, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
record = [name for name in names if name.endswith(".dist-info/RECORD")]
rows = {row[0]: row for row in csv.reader(io.StringIO(wheel.read(record[0]).decode()))}
assert len(names) == len(set(names)) and set(rows) == set(names), set(rows) ^ set(names)
for name in set(names) - set(record):
    content = wheel.read(name)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert rows[name][1:] == ["sha256=" + digest, str(len(content))], name
assert b"vramscope.pytest_plugin" in wheel.read(record[0].replace("RECORD", "entry_points.txt"))
top = {name.split("/")[0] for name in names}
assert all(name.startswith("vramscope") for name in top), top
assert not [name for name in names if "train_lm" in name or "__pycache__" in name]
END

install() { "$python" -m pip --python "$1" install -q --no-index --no-deps "$wheel" >log 2>&1 || { cat log && exit 1; }; }
"$python" -m venv --without-pip "my env" && install "$D/my env/bin/python"
V="$D/my env/bin/vramscope"
[ "$(head -c 4 "$V" | tail -c 3)" = ELF ] || no "the command is no executable but $(head -c 60 "$V")"
[ "$("$V" --version)" = "vramscope $version" ] || no "the command's version: $("$V" --version)"

# the recording, and what is loaded privately for it
for place in "my env/bin" target/bin; do
    V=$D/$place/vramscope
    [ -e "$V" ] || "$python" -m pip install -q --no-index --no-deps --target target "$wheel" >log 2>&1 || { cat log && exit 1; }
    [ -x "$V" ] || no "$V is not executable"
    rm -f run.db
    env -u LD_LIBRARY_PATH "$V" run --simulated --stacks=all -o run.db -- "$BUILD/bin/train_lm" --steps 40 --vocab 300 --hidden 32 --batch 128 "$SRC/LICENSE" >out 2>err || no "$place: run: $(cat out err)"
    "$V" peak --by=stack run.db >peak 2>&1 && grep -q train_lm peak || no "$place: no call stacks: $(cat peak)"
    env -u LD_LIBRARY_PATH "$V" demo -o "${place%/*}/demo" >demo 2>&1 && grep -q '^OUT OF MEMORY on device 0' demo && [ -s "${place%/*}/demo/demo.html" ] || no "$place: demo: $(cat demo)"
    "$V" doctor >doctor 2>&1 || no "$place: doctor: $(cat doctor)"
    for line in 'preload +a program starts and ends under' 'call stacks +private libunwind at .*/vramscope/lib/vramscope/' 'fused loss'; do
        grep -qE "^ok +$line" doctor || no "$place: doctor lacks '$line': $(cat doctor)"
    done
    tail -n 1 doctor | grep -q "^so: programs of CUDA's driver API can be recorded here, on the simulated driver" || no "$place: doctor ends: $(tail -n 1 doctor)"
done

# one package, wherever it is imported
cat >which.py <<'END'
import os
import vramscope
with vramscope.phase("forward"):
    vramscope.step()
print(os.path.realpath(vramscope.__file__), vramscope.__version__, vramscope.active())
END
V="$D/my env/bin/vramscope" own="$D/my env/bin/python"
alone=$("$own" which.py) under=$("$V" run -q -o none.db -- "$own" which.py) other=$("$V" run -q -o none.db -- "$python" which.py)
[ "${alone% *}" = "${under% *}" ] && [ "${alone% *}" = "${other% *}" ] || no "three packages: '$alone', under run '$under', in another Python '$other'"
[ "${alone##* } ${under##* } ${other##* }" = "False True True" ] || no "the library is there: '$alone', under run '$under', in another Python '$other'"
[[ $alone == *"/site-packages/vramscope/share/vramscope/python/vramscope/__init__.py $version "* ]] || no "the package is $alone"
PYTHONPATH=target "$python" which.py | grep -q "^$D/target/vramscope/" || no "--target's package: $(PYTHONPATH=target "$python" which.py 2>&1)"

"$python" -m pip --python "$own" uninstall -q -y vramscope >log 2>&1 && ! find "my env" -path '*vramscope*' | grep . || no "uninstalled: $(cat log)"
[ $failures = 0 ] && echo "the wheel works where it is installed" || exit 1
