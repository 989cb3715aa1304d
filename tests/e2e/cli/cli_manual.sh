#!/bin/bash
# Every command has a manual page, every page is good mdoc, and every option of --help stands in it.
. "$(dirname "$0")/../lib/command.bash"
for command in $("$V" --help | sed -n '/^commands:/,$s/^  \([a-z]*\)  .*/\1/p'); do
    page=$SRC/docs/man/vramscope-$command.1
    [ -r "$page" ] || { no "$command has no manual page"; continue; }
    "$V" "$command" --help >/dev/null || no "$command --help"
    for option in $("$V" "$command" --help | sed -n 's/^ \{2,6\}\(-., \)\?--\([a-z-]*\).*/\2/p'); do
        [ "$option" = help ] || grep -q "Fl -$option" "$page" || no "vramscope-$command.1 lacks --$option"
    done
done
# whatif takes every policy that its help names
policies=$("$V" whatif --help | sed -n 's/.*--policy=LIST *\([a-z,-]*\):.*/\1/p')
[ -n "$policies" ] && "$V" whatif --policy="$policies" nowhere.db 2>&1 | grep -q 'nowhere.db: No such file' || no "whatif --policy=$policies"
sed -n 's/^OPTION([A-Z]*, [a-z_]*, "\([A-Z_]*\)".*/\1/p' "$SRC/shim/core/options.def" | while read -r name; do
    grep -q "Ev $name" "$SRC/docs/man/vramscope.5" || echo "$name"
done | grep . && no "variables that vramscope(5) lacks"
if command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning "$SRC"/docs/man/*.[135] || no "mandoc complains"
else
    echo "mandoc is not installed: pages not linted"
fi
[ $failures = 0 ] && echo "the manual is whole" || exit 1
