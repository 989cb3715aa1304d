#!/bin/bash
# Phases under Lightning, the Hugging Face Trainer and FSDP2 are those of the written rule of tests/gpu/real/phases_rule.py, on the CPU.
here=$(cd "$(dirname "$0")" && pwd)
real=$here/../../gpu/real
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/share/vramscope"
ln -s "$(cd "$here/../../../shim/framework/python" && pwd)" "$work/tree/share/vramscope/python"
export DRY=1 LIBRARY=$BUILD/tests/libframework_log.so PYTHON=$python JOBS=2 OMP_NUM_THREADS=1
wanted=$("$python" "$real/phases_programs.py" --list | grep -xE 'lightning|hf_checkpoint|fsdp2|dpo' | tr '\n' ' ')
# shellcheck disable=SC2086 # names
"$real/phases.sh" "$work/tree" "$work/out" $wanted
