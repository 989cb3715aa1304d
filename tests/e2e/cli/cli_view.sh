#!/bin/bash
# The page of `vramscope view`: one file, whole, without anything that a name could do; and what is said where there is none.
. "$(dirname "$0")/../lib/command.bash"

make_db run.db --steps 3 --devices 2
make_db late.db --steps 2 --kind killed
make_db empty.db --kind empty
make_db thin.db --kind thinned

"$V" view run.db >out || no "view: $?"
[ -s run.html ] && grep -q '^run.html: [0-9.]* MB, open it in a browser$' out || no "the name of the page: $(cat out)"
[ "$(grep -c '^<!DOCTYPE html>' run.html)" = 1 ] && [ "$(tail -n 1 run.html)" = "</html>" ] || no "the page is not whole"
# nothing in it is fetched from anywhere
grep -Eqi '(src|href) *= *["'\'']|@import|url\(|https?://' run.html && no "the page refers to something: $(grep -Eoi '.{20}(src|href) *= *["'\''].{20}|@import|url\(|https?://.{20}' run.html | head -3)"
"$V" view run.db -o other.html >/dev/null && [ -s other.html ] || no "-o"
"$V" view run.db --device=1 -o one.html >/dev/null || no "--device"
"$V" view run.db --device=7 -o seven.html 2>err && no "a device that is not there"
grep -q 'has nothing on device 7' err && [ ! -e seven.html ] || no "device 7: $(cat err)"
"$V" view run.db --max-size=0 2>err && no "--max-size=0"
# a page never takes the place of a recording, and what can't be written leaves nothing
cp run.db kept.db
"$V" view run.db -o run.db 2>err && no "the recording was overwritten"
cmp -s run.db kept.db || no "the recording has changed"
"$V" view run.db -o /nowhere/x.html 2>err && no "a directory that is not there"
grep -q 'nowhere' err || no "what can't be written: $(cat err)"
"$V" view run.db -o /dev/full 2>/dev/null && no "a full disk"
"$V" view 2>err && no "no file"
"$V" view empty.db -o e.html 2>err && no "an empty recording"
grep -q 'no device memory was ever allocated' err || no "an empty recording: $(cat err)"
"$V" view late.db -o late.html >/dev/null 2>err
[ $? = 3 ] && [ -s late.html ] || no "a recording without its end"
"$V" view thin.db -o thin.html >/dev/null 2>&1 || [ $? = 3 ] || no "a thinned recording"
# what a link leads to is written, not the link
mkdir there && echo old >there/old && ln -s there/old link.html && "$V" view run.db -o link.html >/dev/null || no "through a link"
[ -L link.html ] && [ "$(tail -n 1 there/old)" = "</html>" ] || no "a link was replaced"
ls ./*.part there/*.part 2>/dev/null && no "leavings"

# without -o: a name after all that is shown; what was made of the same files is replaced, and nothing else
mkdir job && cp run.db late.db job
cp run.html before
"$V" view run.db late.db >/dev/null 2>&1
cmp -s run.html before && [ -s run+late.html ] || no "the page of two recordings: $(ls)"
"$V" view late.db run.db >/dev/null 2>&1
[ -s late+run.html ] || no "the other way around"
"$V" view run.db >/dev/null || no "the same page again: $?"
"$V" view run.db --device=1 >/dev/null && ! cmp -s run.html before || no "the page of the same recording stayed old"
cp run.html before
"$V" view job/run.db >out 2>err && no "the page of another recording was replaced"
[ "$(cat err)" = "vramscope: view: run.html is there, and was made of something else: give the page a name with -o" ] && cmp -s run.html before || no "another recording's page: $(cat err)"
"$V" view job/run.db -o run.html >/dev/null || no "a page that was asked for"
"$V" view job/ >/dev/null 2>&1
(cd job && "$V" view . >/dev/null 2>&1)
[ -s job.html ] && [ -s job/job.html ] || no "the page of a directory: $(ls . job)"
for i in $(seq 30); do cp late.db "much_$i.db"; done
"$V" view much_*.db >/dev/null 2>&1
[ -s much_1+29.html ] || no "the page of many: $(ls)"
rm much_* && ls ./*.part 2>/dev/null && no "leavings"

# whatever a name says, it is no markup
sqlite3 run.db "UPDATE phase SET name = '</script><script>alert(1)</script>' WHERE name = 'logits';
  UPDATE process SET command = '</title><img src=x onerror=alert(2)>';
  UPDATE string SET text = '<!--<script>' WHERE id = 1; UPDATE frame SET file = '</style>\"><svg onload=alert(3)>' || file WHERE kind = 2"
mv run.db '<b>&"x".db'
"$V" view '<b>&"x".db' -o bad.html >/dev/null || no "hostile names: $?"
grep -q 'alert\|onerror\|onload=\|<b>&' bad.html && no "a name acts: $(grep -o '.\{30\}\(alert\|onerror\|<b>&\).\{20\}' bad.html | head -3)"
# one script of ours, the rest is data; the policy allows no other
[ "$(grep -c '<script nonce=' bad.html)" = 1 ] && [ "$(grep -c '<script' bad.html)" = "$(grep -c '^<script \(nonce="[0-9a-f]*"\|type="text/plain" id="[a-z0-9]*"\)>' bad.html)" ] || no "script elements"
grep -q "default-src 'none'" bad.html || no "the page's policy"
# two pages have different numbers, so that none can be known beforehand
[ "$(grep -o 'nonce-[0-9a-f]*' bad.html | sort -u)" != "$(grep -o 'nonce-[0-9a-f]*' other.html | sort -u)" ] || no "the same nonce twice"
[ $failures = 0 ] && echo "the page is one file, and names are names" || exit 1
