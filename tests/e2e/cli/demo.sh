#!/bin/bash
# `vramscope demo` from an installed tree shows a recording, its report and its page; no other file is replaced, and what is lacking is one
# line.
. "$(dirname "$0")/../lib/command.bash"
unset DISPLAY WAYLAND_DISPLAY
mkdir -p tree/bin tree/share/vramscope
cp "$V" tree/bin && cp -L "$BUILD/share/vramscope/demo.db.gz" tree/share/vramscope || exit 1
V=$PWD/tree/bin/vramscope
"$V" demo >out 2>err || no "status $?: $(cat err)"
grep -q '^OUT OF MEMORY on device 0 at 2.34 s, step 3, in logits$' out || no "no report: $(cat out)"
grep -q '^demo.html shows it over time; to ask more: vramscope peak --by=line demo.db$' out || no "no page: $(tail -n 2 out)"
gzip -dc tree/share/vramscope/demo.db.gz | cmp - demo.db || no "another recording"
grep -q '</html>' demo.html || no "no whole page"
[ "$(stat -c %s tree/share/vramscope/demo.db.gz)" -le $((600 << 10)) ] || no "larger than 600 KiB"
before=$(stat -c '%i %Y' demo.db demo.html)
"$V" demo >again 2>err && [ "$(stat -c '%i %Y' demo.db demo.html)" = "$before" ] || no "a second time it writes, or fails: $(cat err)"
"$V" demo -o deep >out && [ -s deep/demo.db ] && [ -s deep/demo.html ] || no "no folder is made"
echo mine >>demo.db
refused "demo.db is there already and another file: give another folder with -o DIR" "$V" demo
[ "$(tail -c 5 demo.db)" = mine ] || no "somebody's file is replaced"
refused "demo takes no file: vramscope report run.db shows one" "$V" demo run.db
refused "can't be made" "$V" demo -o /proc/here
head -c 100000 tree/share/vramscope/demo.db.gz >half && mv half tree/share/vramscope/demo.db.gz
refused "is damaged: install vramscope anew" "$V" demo -o other
[ -z "$(ls other)" ] || no "a damaged recording leaves $(ls other)"
rm tree/share/vramscope/demo.db.gz
refused "is not there: install vramscope with its share/ beside its bin/" "$V" demo -o other
[ "$failures" = 0 ] && echo "there is something to look at"
exit "$failures"
