#!/bin/bash
# Every interpreter that is here calls modules past the wrapper's code where the library says so, and by the wrapper's code where anybody watches.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
tried=
for python in "${TEST_PYTHON:-python3}" /usr/bin/python3 /usr/bin/python3.1[0-9] "$HOME"/.pyenv/versions/3.*/bin/python3; do
    version=$("$python" -c 'import ctypes, sys, sysconfig
good = sys.implementation.name == "cpython" and sys.version_info >= (3, 10) and sys.version_info.releaselevel == "final"
print(sys.version.split()[0] if good and not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(sys, "gettotalrefcount") else "")' 2>/dev/null)
    case "$version" in "") continue ;; esac
    case "$tried " in *" $version"*) continue ;; esac
    new_run
    VRAMSCOPE_STACKS=python VRAMSCOPE_OUTPUT=$db LD_PRELOAD=$shim timeout 60 \
        "$python" "$here/module_calls.py" "$here/../../../shim/framework/python" >"$run/out" 2>&1 ||
        fail "$version: $(tail -n 3 "$run/out")"
    VRAMSCOPE_STACKS=driver VRAMSCOPE_OUTPUT=$db.driver LD_PRELOAD=$shim timeout 60 \
        "$python" "$here/module_calls.py" "$here/../../../shim/framework/python" driver >"$run/out.driver" 2>&1 ||
        fail "$version, without layers: $(tail -n 3 "$run/out.driver")"
    tried="$tried $version$(grep -qx unknown "$run/out" && echo "(by the wrapper alone)")"
done
[ -n "$tried" ] || skip "there is no CPython 3.10 or later"
echo "modules are called as before by CPython$tried"
