#!/bin/bash
# pytest --vramscope holds what a test adds at its peak against its vram_limit, in a process that executes itself again with the library,
# with xdist's workers
# too; and says of no limit that it was kept where nothing was recorded.
. "$(dirname "$0")/../lib/lib.bash"
packages=$SRC/build/deps/pytest
[ -d "$packages/xdist" ] || skip "NO PYTEST: scripts/setup.sh test fetches pytest and pytest-xdist from PyPI into build/deps/pytest; the plugin was not tested"
[ -d "$BUILD/share/vramscope/python/vramscope" ] || skip "there is no Python package in this build"
# as an installed wheel is found: by its entry point
mkdir -p "$dir/site/vramscope-0.dist-info" "$dir/suite"
printf '[pytest11]\nvramscope = vramscope.pytest_plugin\n' >"$dir/site/vramscope-0.dist-info/entry_points.txt"
printf 'Metadata-Version: 2.1\nName: vramscope\nVersion: 0\n' >"$dir/site/vramscope-0.dist-info/METADATA"
export COLUMNS=300 PYTHONPATH=$dir/site:$packages:$BUILD/share/vramscope/python PYTHONDONTWRITEBYTECODE=1 VRAMSCOPE_JOURNAL_DIR=$dir TMPDIR=$dir
cd "$dir/suite" || exit 1
cat >conftest.py <<'PY'
import ctypes, os
import pytest

print("conftest of", os.getpid())


class Gpu:
    def __init__(self):
        self.cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0 and self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0

    def take(self, mib):
        at = ctypes.c_uint64()
        assert self.cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mib << 20)) == 0
        return at

    def free(self, at):
        assert self.cuda.cuMemFree_v2(at) == 0


@pytest.fixture(scope="session")
def gpu():
    return Gpu()


@pytest.fixture
def model(gpu):
    at = gpu.take(100)
    yield at
    gpu.free(at)
PY
cat >test_limits.py <<'PY'
import unittest
import pytest
from conftest import Gpu


@pytest.mark.vram_limit("1 MiB")
def test_no_memory_at_all():
    pass


@pytest.mark.vram_limit("48 MiB")
def test_just_kept(gpu):
    gpu.free(gpu.take(48))


@pytest.mark.vram_limit("47.9 MiB")
def test_beyond(gpu):
    gpu.free(gpu.take(48))


@pytest.mark.vram_limit("10 MiB")
def test_fixtures_apart(gpu, model):
    gpu.free(gpu.take(8))


@pytest.mark.vram_limit("100MiB", total=True)
def test_total(gpu, model):
    gpu.free(gpu.take(8))


@pytest.mark.vram_limit("1 MiB", device=1)
def test_other_device(gpu):
    gpu.free(gpu.take(48))


@pytest.mark.vram_limit("20 MiB")
def test_peak_and_not_sum(gpu):
    for _ in range(5):
        gpu.free(gpu.take(16))


def test_without_limit(gpu):
    gpu.free(gpu.take(64))


@pytest.mark.vram_limit("1 MiB")
def test_fails_by_itself(gpu):
    gpu.free(gpu.take(2))
    assert not "its own failure"


class Old(unittest.TestCase):
    @pytest.mark.vram_limit("4 MiB")
    def test_unittest(self):
        gpu = Gpu()
        gpu.free(gpu.take(5))
PY
pytest() { timeout 300 python3 -m pytest -p no:cacheprovider -p no:randomly --color=no "$@" >"$dir/out" 2>"$dir/err"; }
says() { grep -qF -- "$1" "$dir/out" || fail "pytest does not say '$1': $(cat "$dir/out" "$dir/err")"; }
count() { grep -cF -- "$1" "$dir/out"; }

# without the option the mark does nothing
pytest test_limits.py
[ $? = 1 ] || fail "plain: $(cat "$dir/out")"
says "1 failed, 9 passed"
grep -q "PytestUnknownMarkWarning" "$dir/out" && fail "the mark is unknown"

verdicts() {
    says "4 failed, 6 passed"
    says "test_beyond - vram_limit: added by the test at its peak on device 0: 48.00 MiB, limit 47.90 MiB (it added 48.00 MiB to the 0 B allocated before)"
    says "test_total - vram_limit: allocated at the test's peak on device 0: 108.0 MiB, limit 100.0 MiB (it added 8.00 MiB to the 100.0 MiB allocated before)"
    says "test_unittest - vram_limit: added by the test at its peak on device 0: 5.00 MiB, limit 4.00 MiB"
    says "its own failure"
    says "GPU memory added by tests, at their peaks"
    grep -qE "^ *64.00 MiB  device 0  test_limits.py::test_without_limit$" "$dir/out" || fail "summary: $(cat "$dir/out")"
}
pytest --vramscope -s test_limits.py
[ $? = 1 ] || fail "status: $(cat "$dir/out" "$dir/err")"
verdicts
[ "$(count 'conftest of')" = 1 ] || fail "it ran twice: $(cat "$dir/out")"
[ "$(ls -d "$dir"/vramscope-pytest-* 2>/dev/null | wc -l)" -le 1 ] || fail "directories are left"

# without a GPU nothing is measured: no limit is kept there, and that is said
cat >test_idle.py <<'PY'
import pytest


@pytest.mark.vram_limit("1 MiB")
def test_marked():
    pass


def test_unmarked():
    pass
PY
# a limit that can't be read is the test's failure, in a line, and the test does not run
cat >test_wrong.py <<'PY'
import pytest


@pytest.mark.vram_limit("two GiB")
def test_words():
    raise SystemError("it ran")


@pytest.mark.vram_limit("2 GiB", device="0")
def test_device():
    raise SystemError("it ran")


@pytest.mark.vram_limit("2 GiB", totl=True)
def test_option():
    raise SystemError("it ran")


@pytest.mark.vram_limit
def test_none():
    raise SystemError("it ran")
PY
pytest --vramscope test_wrong.py
says "FAILED test_wrong.py::test_words - Failed: vram_limit takes an amount such as \"2 GiB\", not 'two GiB'"
says "FAILED test_wrong.py::test_device - Failed: vram_limit takes the number of a device: device=0, not '0'"
says "FAILED test_wrong.py::test_option - Failed: vram_limit knows total= and device=, not totl"
says "FAILED test_wrong.py::test_none - Failed: vram_limit takes one amount: vram_limit(\"2 GiB\")"
says "4 failed"
! grep -qE 'it ran|Traceback|pytest_plugin.py' "$dir/out" || fail "a wrong limit is a traceback: $(cat "$dir/out")"
LD_LIBRARY_PATH='' pytest --vramscope test_idle.py
if ! LD_LIBRARY_PATH='' python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; then
    says "test_marked - vram_limit: cannot tell: no GPU can be used here, so nothing was measured: pytest --vramscope --vramscope-dry needs none"
    says "1 failed, 1 passed"
    says "vramscope: nothing was measured: no GPU can be used here"
fi
pytest --vramscope test_idle.py
says "2 passed"
says "vramscope: nothing was measured: no test used the GPU"

# in an ini file, with captured output, with workers
printf '[pytest]\naddopts = --vramscope --vramscope-output=%s/kept\n' "$dir" >pytest.ini
pytest test_limits.py
verdicts
says "recordings are in $dir/kept"
[ "$(find "$dir/kept" -name 'pytest-*.db' | wc -l)" = 1 ] || fail "kept: $(ls "$dir/kept")"
"$BUILD/bin/vramscope" report --all "$dir"/kept/pytest-*.db >"$dir/report" || fail "the recording is not complete: $(head -n 3 "$dir/report")"
grep -q "^  pytest.test " "$dir/report" || fail "its phase: $(cat "$dir/report")"
rm -r "$dir/kept"
pytest -n 2 test_limits.py
verdicts
[ "$(find "$dir/kept" -name 'pytest-*.db' | wc -l)" -ge 1 ] || fail "workers record nothing: $(ls "$dir/kept")"
rm pytest.ini

# where the library does not come: said, and not tried again and again
mkdir "$dir/kept2"
PYTEST_VRAMSCOPE_PID=none python3 - "$dir" <<'PY' || fail "the guard"
import os, subprocess, sys
pid = os.fork()
if pid == 0:
    os.environ["PYTEST_VRAMSCOPE_PID"] = str(os.getpid())
    out = os.open(sys.argv[1] + "/out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "--vramscope", "test_limits.py"])
assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 4
PY
says "executed again with LD_PRELOAD="
PYTEST_XDIST_WORKER=gw0 pytest --vramscope test_limits.py # a worker that was started without it
says "test_no_memory_at_all - vram_limit: cannot tell: vramscope is not loaded in this process"
[ "$(count 'cannot tell: vramscope is not loaded')" -ge 8 ] || fail "a limit was called kept: $(cat "$dir/out")"
python3 -c "import pytest, sys; sys.exit(pytest.main(['--vramscope', 'test_limits.py']))" >"$dir/out" 2>&1 # another program's pytest
[ $? = 4 ] || fail "embedded: $(cat "$dir/out")"
says "pytest is called by another program: run that under"
# nothing is recorded: nobody is told that a limit was kept
VRAMSCOPE_ENABLED=off pytest --vramscope test_limits.py
[ "$(count 'cannot tell: recording is switched off')" -ge 8 ] || fail "recording is off, and a limit was kept: $(cat "$dir/out")"
LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$dir/none/pytest-%p.db pytest --vramscope test_limits.py
[ "$(count 'cannot tell: nothing is recorded')" -ge 7 ] || fail "there is no recording, and a limit was kept: $(cat "$dir/out" "$dir/err")"
# ranges of the program's own, a name that the file can't hold
cat >test_ranges.py <<'PY'
import ctypes
import pytest

vramscope = ctypes.CDLL(None)


@pytest.fixture(autouse=True)
def around():
    vramscope.vramscope_range_push(b"test")
    yield
    vramscope.vramscope_range_pop()


@pytest.mark.vram_limit("10 MiB")
@pytest.mark.parametrize("nested", [True, False])
def test_beyond(gpu, nested):
    gpu.free(gpu.take(48))
    vramscope.vramscope_range_push(b"test")
    if nested:
        vramscope.vramscope_range_pop()


@pytest.mark.vram_limit("10 MiB")
def test_pops(gpu):
    for _ in range(9):
        vramscope.vramscope_range_pop()


@pytest.mark.vram_limit("10 MiB")
def test_stops(gpu):
    vramscope.vramscope_record_stop()
    gpu.free(gpu.take(48))
    vramscope.vramscope_record_start()


@pytest.mark.vram_limit("10 MiB")
@pytest.mark.parametrize("name", ["x" * 5000, "\u00fc" * 900], ids=["x" * 5000, "\u00fc" * 900])
def test_name(gpu, name):
    gpu.free(gpu.take(8))
PY
pytest --vramscope -o disable_test_id_escaping_and_forfeit_all_rights_to_community_support=true test_ranges.py
says "4 failed, 2 passed"
says "test_beyond[True] - vram_limit: added by the test at its peak on device 0: 48.00 MiB, limit 10.00 MiB"
says "test_beyond[False] - vram_limit: added by the test at its peak on device 0: 48.00 MiB, limit 10.00 MiB"
grep -qE "(failed|passed).* in 1?[0-9]\.[0-9]*s" "$dir/out" || fail "a verdict was waited for: $(tail -n 1 "$dir/out")"
says "cannot tell: the test's range was closed before its end"
says "cannot tell: the test switched the recording off for a while"
# a directory with a blank
mkdir "$dir/my tools"
cp -RL "$BUILD/lib" "$BUILD/share" "$dir/my tools"
PYTHONPATH=$dir/site:$packages:$dir/my\ tools/share/vramscope/python pytest --vramscope test_limits.py
grep -qF "there is a blank or a colon in it: install vramscope elsewhere" "$dir/err" || fail "a path with a blank: $(cat "$dir/out" "$dir/err")"
# a file that was never made is not waited for as one that grows, and by the next test not at all
SECONDS=0
for _ in 1 2 3; do echo "{\"database\": \"$dir/none.db\", \"key\": \"k\", \"range\": \"r\", \"wait\": 20}"; done |
    timeout 300 python3 -I -S "$BUILD/share/vramscope/python/vramscope/_pytest_reader.py" >"$dir/out"
[ $SECONDS -le 8 ] && [ "$(grep -c 'none.db was not made' "$dir/out")" = 3 ] || fail "a file that is not there: $SECONDS s: $(cat "$dir/out")"
echo "limits of tests are held"
