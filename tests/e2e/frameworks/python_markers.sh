#!/bin/bash
# The package vramscope tells the library what a program says, and is silent without it; sitecustomize leaves programs without torch alone,
# and survives a
# torch that is not what it expects.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
library=${BUILD:?}/tests/libframework_log.so
modules=$(cd "$here/../../../shim/framework/python" && pwd)
export PHASE_LOG=$work/log

fail() { echo "FAIL: $*"; exit 1; }
# check WHAT <<END: the log; the program printed nothing
check() {
    touch "$PHASE_LOG"
    diff - "$PHASE_LOG" >"$work/d" || { cat "$work/d"; fail "$1 (< wanted, > told)"; }
    [ ! -s "$work/out" ] || { cat "$work/out"; fail "$1: it printed that"; }
    : >"$PHASE_LOG"
    echo "ok $1"
}
with() { LD_PRELOAD=$library PYTHONPATH=$modules "$python" "$@" >"$work/out" 2>&1 || { cat "$work/out"; fail "$*"; }; }
without() { PYTHONPATH=$modules "$python" "$@" >"$work/out" 2>&1 || { cat "$work/out"; fail "$*"; }; }

cat >"$work/program.py" <<'END'
import sys
import vramscope

@vramscope.phase("decorated")
def function(x):
    "doc"
    return x + 1

with vramscope.phase("logits"):
    with vramscope.phase("gr\u00fc\u00df\0cut"):
        assert function(1) == 2
assert function.__name__ == "function" and function.__doc__ == "doc"
try:
    with vramscope.phase("failing"):
        raise KeyError(1)
except KeyError:
    pass
vramscope.mark("here")
vramscope.step()
vramscope.record_stop()
vramscope.record_start()
with vramscope.phase(17), vramscope.phase("\ud800"):
    pass
class Awkward:
    def __str__(self):
        raise ValueError
with vramscope.phase(Awkward()):
    vramscope.mark(None)
assert vramscope.active() is (len(sys.argv) > 1)
assert "torch" not in sys.modules and "vramscope._torch" not in sys.modules
END
with "$work/program.py" loaded
check "every call reaches the library" <<'END'
+marker logits
+marker grüß
+marker decorated
-marker
-marker
-marker
+marker failing
-marker
mark here
step
stop
start
+marker 17
+marker ?
-marker
-marker
+marker ?
mark None
-marker
END
without "$work/program.py"
check "without the library nothing happens" </dev/null

# an older library, which has not all that this package knows
LC_ALL=C sed 's/vramscope_auto_\(roles\|layer\)/vramscope_gone_\1/g' "$library" >"$work/older.so"
LD_PRELOAD=$work/older.so PYTHONPATH=$modules "$python" "$work/program.py" loaded >"$work/out" 2>&1 || { cat "$work/out"; fail "an older library"; }
[ "$(wc -l <"$work/out")" = 1 ] && grep -q 'older than this package: it has no vramscope_auto_layer, vramscope_auto_roles$' "$work/out" ||
    { cat "$work/out"; fail "an older library: not one line"; }
grep -qx '+marker logits' "$PHASE_LOG" && grep -qx step "$PHASE_LOG" || { cat "$PHASE_LOG"; fail "an older library is told nothing"; }
: >"$PHASE_LOG"
: >"$work/out"

mkdir "$work/site" "$work/broken" "$work/torch_like" "$work/failing"
echo 'import os; os.environ["CHAINED"] = __name__' >"$work/site/sitecustomize.py"
PYTHONPATH=$modules:$work/site "$python" -c '
import os, sys
assert os.environ["CHAINED"] == "sitecustomize"
assert sys.modules["sitecustomize"].__file__.startswith(sys.argv[1])' "$work/site" >"$work/out" 2>&1
check "the sitecustomize behind ours runs" </dev/null

mkdir "$work/torch_like/torch"
echo 'value = 42' >"$work/torch_like/torch/__init__.py"
CONTRACT_LOG=$work/contracts LD_PRELOAD=$library PYTHONPATH=$modules:$work/torch_like "$python" -c '
import sys, torch
assert torch.value == 42 and type(torch.__loader__).__name__ == "SourceFileLoader"
assert torch.__spec__.loader is torch.__loader__
assert not any(type(f).__name__ == "_AfterTorch" for f in sys.meta_path)' >"$work/out" 2>&1 || { cat "$work/out"; fail "a torch that is none"; }
[ ! -s "$work/out" ] || { cat "$work/out"; fail "a torch that is none: that is printed"; }
grep -q '^PyTorch: automatic phases and layers are not known: AttributeError: ' "$work/contracts" && [ "$(wc -l <"$work/contracts")" = 1 ] ||
    { cat "$work/contracts"; fail "a torch that is none: that is said"; }
: >"$work/out"
PYTHONPATH=$modules:$work/torch_like "$python" -c 'import torch' >"$work/out" 2>&1
check "torch in a program that has the package and not the library" </dev/null
check "a torch that is none is a broken contract" </dev/null

mkdir "$work/failing/torch"
echo 'raise OSError("broken torch")' >"$work/failing/torch/__init__.py"
LD_PRELOAD=$library PYTHONPATH=$modules:$work/failing "$python" -c '
for _ in range(2):
    try:
        import torch
        raise SystemExit(1)
    except OSError as error:
        assert str(error) == "broken torch"
try:
    import torch.nothing
except OSError:
    pass' >"$work/out" 2>&1 || { cat "$work/out"; fail "a torch that fails"; }
check "a torch that fails to import fails as it would" </dev/null

LD_PRELOAD=$library PYTHONPATH=$modules "$python" -S -c 'import importlib.util as u
if u.find_spec("torch") is None:
    try:
        import torch
    except ModuleNotFoundError as error:
        assert error.name == "torch"' >"$work/out" 2>&1 || { cat "$work/out"; fail "no torch"; }
check "no torch is no torch" </dev/null
