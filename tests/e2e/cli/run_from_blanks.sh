#!/bin/bash
# In a directory whose name has blanks and a colon, which LD_PRELOAD can't carry, run and wrap name the library by a link of the user's;
# where none can be
# made, run says so before anything is started.
. "$(dirname "$0")/../lib/command.bash"
[ -r "$BUILD/lib/libvramscope.so" ] && [ -r "$BUILD/sim/libcuda.so.1" ] || { echo "skipped: the library or the simulated driver is not built"; exit 77; }
tree="$D/my tools: new"
mkdir -p "$tree" home && chmod 700 home
cp -rL "$BUILD/bin" "$BUILD/lib" "$BUILD/sim" "$BUILD/share" "$tree" 2>log || no "copy: $(cat log)"
V=$tree/bin/vramscope prog=$BUILD/tests/prog_exit
unset XDG_CACHE_HOME PYTHONPATH LD_PRELOAD
export HOME=$D/home COLUMNS=400

"$V" run --simulated -o a.db -- "$prog" exit 50 >out 2>err
[ $? = 4 ] && [ "$(wc -l <err)" = "$(grep -cE '^(vramscope: a.db: peak|simcuda)' err)" ] || no "run: $(cat err)"
[ "$(sqlite3 a.db "SELECT count(*) FROM event WHERE op = 'alloc' AND status = 0 AND size_bytes NOT IN (7777, 8888)")" = 50 ] || no "a.db: $(ls)"
[ "$(sqlite3 a.db "SELECT count(*) > 0 FROM event WHERE stack > 0")" = 1 ] || no "no call stacks: the unwinder was not found"
link=$(find home/.cache/vramscope -type l)
[ "$(readlink "$link")" = "$tree" ] && [ "$(stat -c %a home/.cache/vramscope)" = 700 ] || no "the link: $(find home -ls)"
before=$(stat -c %i "$link")
"$V" run -q -o b.db -- env >env.txt 2>err
grep -qx "LD_PRELOAD=$D/$link/lib/libvramscope.so" env.txt && grep -qx "PYTHONPATH=$D/$link/share/vramscope/python" env.txt || no "environment: $(cat env.txt)"
[ "$(stat -c %i "$link")" = "$before" ] && [ "$(find home/.cache/vramscope -type l | wc -l)" = 1 ] || no "the link was made again: $(find home -ls)"
"$V" wrap -- env >env.txt 2>err
grep -qx "LD_PRELOAD=$D/$link/lib/libvramscope.so" env.txt || no "wrap: $(cat err)"

# doctor names it likewise
LD_LIBRARY_PATH=$tree/sim "$V" doctor --quick >out 2>err || no "doctor: $(cat out err)"
grep -qE '^ok +preload +a program starts' out || no "doctor: $(grep preload out)"

# a link that points elsewhere is put right, a directory that others could write to is not used
ln -sfn /nowhere "$link"
"$V" run -q -o c.db -- true 2>err || no "a wrong link: $(cat err)"
[ "$(readlink "$link")" = "$tree" ] || no "the link still points to $(readlink "$link")"
chmod 777 home/.cache/vramscope
"$V" run -q -o d.db -- env >env.txt 2>err
if [ -d "/tmp/vramscope-$(id -u)" ]; then
    grep -q "^LD_PRELOAD=/tmp/vramscope-$(id -u)/" env.txt || no "others could have changed it: $(grep LD_PRELOAD env.txt) $(cat err)"
    for link in "/tmp/vramscope-$(id -u)"/*; do [ "$(readlink "$link")" != "$tree" ] || rm "$link"; done
    rmdir "/tmp/vramscope-$(id -u)" 2>/dev/null
fi
grep -q "^LD_PRELOAD=$D/home" env.txt && no "a directory that others can write to was used"

# nowhere a link can be made: run and doctor say so
if [ ! -e "/tmp/vramscope-$(id -u)" ] && : 2>/dev/null >"/tmp/vramscope-$(id -u)"; then
    LD_LIBRARY_PATH=$tree/sim "$V" doctor --quick >out 2>err && no "doctor without a place for the link: $(cat out)"
    grep -qE "^FAIL +preload +LD_PRELOAD can't name .*my tools: new.*blank or a colon" out || no "doctor: $(grep preload out)"
    rm "/tmp/vramscope-$(id -u)"
fi

# XDG_CACHE_HOME goes before HOME
mkdir cache
XDG_CACHE_HOME=$D/cache "$V" run -q -o e.db -- env >env.txt 2>err
grep -q "^LD_PRELOAD=$D/cache/vramscope/" env.txt || no "XDG_CACHE_HOME: $(cat err)"
[ $failures = 0 ] && echo "run finds its library behind blanks" || exit 1
