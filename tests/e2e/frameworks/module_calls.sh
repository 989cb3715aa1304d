#!/bin/bash
# What the library puts in front of nn.Module.__call__ is called by every interpreter that is here as a function would be.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
tried=
for python in "${TEST_PYTHON:-python3}" /usr/bin/python3 "$HOME"/.pyenv/versions/3.*/bin/python3; do
    version=$("$python" -c 'import ctypes, sys, sysconfig
good = sys.implementation.name == "cpython" and (3, 10) <= sys.version_info < (3, 15)
print(sys.version.split()[0] if good and not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(sys, "gettotalrefcount") else "")' 2>/dev/null)
    case " $tried " in *" $version "*) continue ;; esac
    new_run
    VRAMSCOPE_STACKS=python VRAMSCOPE_OUTPUT=$db LD_PRELOAD=$shim timeout 60 \
        "$python" "$here/module_calls.py" "$here/../../../shim/framework/python" >"$run/out" 2>&1 ||
        fail "$version: $(tail -n 3 "$run/out")"
    tried="$tried $version"
done
[ -n "$tried" ] || skip "there is no CPython 3.10 to 3.14"
echo "modules are called as before by CPython$tried"
