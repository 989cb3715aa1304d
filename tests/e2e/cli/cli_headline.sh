#!/bin/bash
# A report's first line is about events, other notes follow, and each kind of mismatch has a sentence that is true of it.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=200 # every column of the tables
made() { # NAME SQL
    make_db "$1" --rank 0 --world 1
    sqlite3 "$1" "$2" || no "$1: $2"
}
says() { # LINE of the report's head, as a regular expression
    grep -Eq -- "$1" page || no "no line '$1': $(head -n 8 page)"
}
first() { [[ $(head -n 1 page) == "$1"* ]] || no "the first line is: $(head -n 1 page)"; }
state() { # of the file among the ranks of a job
    mkdir -p job && cp "$1" job/a.db && cp "$1" job/b.db && sqlite3 job/b.db "UPDATE process SET rank = 1"
    "$V" report --all job | grep -q " $2 *a.db$" || no "the job does not say '$2' of $1: $("$V" report --all job)"
}
reports="INSERT OR REPLACE INTO counter VALUES(1,0,'framework_reports',13821)"

# roads past the recording: then nobody knows whether all events are there
made gap.db "$reports; INSERT INTO loss VALUES(1,7000,0,'not_covered','not covered: a second CUDA driver in the process, x.so')"
"$V" report --all gap.db >page
first 'GAP: from 7 us on: not covered: a second CUDA driver'
grep -q complete page && no "complete with a road past the recording"
state gap.db 'see its report'

# a process whose number nobody knows
made nopid.db "UPDATE process SET pid = NULL"
"$V" report --all nopid.db >page
says '^  host  .*, unknown pid'

# what a row is, its code says, whatever its text is
made worded.db "$reports; INSERT INTO loss VALUES(1,7000,0,'journal_cut','something took the journal'), (1,7000,0,'thinned','left out'), (1,8000,0,'later','not covered, says a later version')"
"$V" report --all worded.db >page
first 'GAP: from 7 us on: something took the journal'
says '^NOTE: from 8 us on: not covered, says a later version'
grep -q 'left out' page && no "what was left out on purpose is called a loss"

made note.db "DELETE FROM counter; INSERT INTO loss VALUES(1,0,0,'phase_names','too many phase names: later ones are counted as phase ''other phases''')"
"$V" report --all note.db >page
first 'complete: no events lost'
says '^NOTE: from 0 us on: too many phase names'

made lost.db "INSERT INTO loss VALUES(1,5000,3,'ring_full','the ring was full (VRAMSCOPE_RING_EVENTS)')"
"$V" report --all lost.db >page
first 'LOST: 3 events from 5 us on: the ring was full'
grep -q complete page && no "complete with lost events"

# a program without a framework, one that was recorded from its middle on, and one that disagrees
made missed.db "DELETE FROM counter; INSERT INTO mismatch VALUES(1,9,9000,0,'free_missed',4096,0)"
"$V" report --all missed.db >page
says '^MISMATCH: the free of 1 allocation of device 0 was never seen: its address was handed out again;$'
grep -q "the framework's own" page && no "a framework where there is none: $(head -n 3 page)"
made late.db "$reports; INSERT INTO mismatch VALUES(1,9,9000,0,'late_allocated',0,5242880), (1,9,9000,0,'late_reserved',0,6291456)"
"$V" report --all late.db >page
first "complete: no events lost; our totals equal the framework's in all 13821 reports"
says '^NOTE: the recording began late: by 9 us the framework had given out already 5242880 bytes of device 0;$'
says '^NOTE: the recording began late: by 9 us the framework had reserved already 6291456 bytes of device 0;$'
grep -q MISMATCH page && no "a mismatch where there is none"
state late.db 'began late'
made wrong.db "$reports; INSERT OR REPLACE INTO counter VALUES(1,0,'framework_reports_in_mismatch',2); INSERT INTO mismatch VALUES(1,9,9000,0,'reserved',512,1024)"
"$V" report --all wrong.db >page
says "^MISMATCH: reserved of device 0 disagrees with the framework's own total 1 time;$"
grep -q 'totals equal' page && no "equal and not equal"
state wrong.db mismatch
"$V" report --json wrong.db | grep -q '"framework_reports_mismatched": 2' || no "--json: $("$V" report --json wrong.db | grep mismatched)"
[ $failures = 0 ] && echo "the first line is about events" || exit 1
