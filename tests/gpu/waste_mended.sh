#!/bin/bash
# waste_mended.sh TREE OUT [CASE...] - the first advice of `vramscope waste` is taken by hand: five trainings (waste_mended.py) are
# recorded, mended, and recorded again. Where it is a late free, the peak has to fall by what was said, less what the mended run still
# frees late, within 1 % of the interval of the two figures, and never by more than "at most".
. "$(dirname "$0")/gpu.bash"
shift 2
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(outputs gradients losses states extractor)
need

play() { # CASE as-is|mended
    timeout 120 "$V" run --access -q -o "$work/$1.$2.db" -- "$python" "$here/waste_mended.py" play "$1" "$2" >"$work/$1.$2.log" 2>&1 ||
        { echo "FAIL $1 $2 ended with $?"; tail -n 5 "$work/$1.$2.log"; }
}
torch_peak() { sed -n 's/^PEAK //p' "$work/$1.$2.log"; }

for c in "${cases[@]}"; do
    play "$c" as-is &
    play "$c" mended &
done
wait
for c in "${cases[@]}"; do
    case $c in outputs | gradients) module=transformers ;; losses | extractor) module=torchvision ;; *) module=torch ;; esac
    "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" || { echo "SKIP $c: no $module"; continue; }
    "$V" waste "$work/$c.as-is.db" >"$out/waste_$c.txt" 2>&1
    for which in as-is mended; do "$V" waste --json "$work/$c.$which.db" >"$work/$c.$which.json" 2>"$work/$c.error" || cat "$work/$c.error"; done
    "$python" "$here/waste_mended.py" judge "$c" "$work/$c.as-is.db" "$work/$c.mended.db" "$work/$c.as-is.json" "$work/$c.mended.json" \
        "$(torch_peak "$c" as-is)" "$(torch_peak "$c" mended)"
    case $? in 0) passed=$((passed + 1)) ;; 77) ;; *) failed=$((failed + 1)) ;; esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -ge 3 ]
