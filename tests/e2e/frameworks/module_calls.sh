#!/bin/bash
# Every interpreter that is here calls modules past the wrapper's code where the library says so, and by the wrapper's code where anybody watches.
. "$(dirname "$0")/../lib/lib.bash"
tried=
find_pythons
for python in "${pythons[@]}"; do
    version=$("$python" -c 'import sys, sysconfig; print(sys.version.split()[0] + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED")))')
    new_run
    VRAMSCOPE_STACKS=python VRAMSCOPE_OUTPUT=$db LD_PRELOAD=$shim timeout 300 \
        "$python" "$here/module_calls.py" "$here/../../../shim/framework/python" >"$run/out" 2>&1 ||
        fail "$version: $(tail -n 3 "$run/out")"
    VRAMSCOPE_STACKS=driver VRAMSCOPE_OUTPUT=$db.driver LD_PRELOAD=$shim timeout 300 \
        "$python" "$here/module_calls.py" "$here/../../../shim/framework/python" driver >"$run/out.driver" 2>&1 ||
        fail "$version, without layers: $(tail -n 3 "$run/out.driver")"
    tried="$tried $version$(grep -qx unknown "$run/out" && echo "(by the wrapper alone)")"
done
echo "modules are called as before by CPython$tried"
