"""_pytest_reader - what tests allocated, read from a recording that grows; a child of pytest's process (pytest_plugin.py).

A question is a line of JSON on standard input, an answer one on standard output:

    {"database": PATH, "range": NAME, "key": TEXT, "wait": SECONDS}       one test, waited for
    {"database": PATH, "range": NAME, "keys": [TEXT...], "wait": ...}     all of them, the last one waited for

A test has a mark, KEY and a space and what it is called.  Its range is the last one of that name which its thread opened before the mark
and which is open at it.  What it added is the peak while that range was open less what was allocated right before.
"""

import json
import os
import sqlite3
import sys
import time

X512 = "CASE WHEN {0} < 0 THEN -{0} ELSE {0} * 512 END"
MARK = """SELECT m.seq, m.t_ns, m.thread FROM moment m JOIN string s ON s.id = m.name
  WHERE substr(s.text, 1, length(?)) = ? ORDER BY m.seq DESC LIMIT 1"""
MARKS = "SELECT m.seq, m.t_ns, m.thread, s.text FROM moment m JOIN string s ON s.id = m.name WHERE s.text GLOB ? ORDER BY m.seq"
RANGES = "FROM rng WHERE source = 1 AND name IN (SELECT id FROM string WHERE text = ?)"
RANGE = "SELECT id, first_seq, t_pop, flags %s AND thread = ? AND first_seq < ? AND (t_pop IS NULL OR t_pop >= ?) ORDER BY id DESC LIMIT 1" % RANGES
BASE = "SELECT %s + %s FROM ev WHERE seq < ? AND device = ? AND (op < 30 OR op >= 50) ORDER BY seq DESC LIMIT 1" % (
    X512.format("framework"),
    X512.format("direct"),
)
STOPPED = "SELECT count(*) FROM ev WHERE seq > ? AND seq < ? AND op = (SELECT id FROM op WHERE name = 'record_stop')"
LOST = "SELECT count(*) FROM loss WHERE events > 0 AND code <> 'thinned' OR code IN ('not_covered', 'journal_cut')"


def one(connection, sql, *values):
    row = connection.execute(sql, values).fetchone()
    return row[0] if row else None


def devices(connection, range_id, first_seq):
    rows = []
    for device, peak in connection.execute("SELECT device, allocated_bytes FROM range_peak WHERE range = ? AND device >= 0", (range_id,)).fetchall():
        base = one(connection, BASE, first_seq, device) or 0
        rows.append({"device": device, "peak": peak, "base": base, "added": None if peak is None else max(peak - base, 0)})
    return rows


def is_closed(test):
    return test[2] is not None or test[3] & 4


def answer(connection, test, mark_seq):
    range_id, first_seq, _, flags = test
    why = None
    if flags & 4:
        why = "the end of the test was lost: the ring was full (VRAMSCOPE_RING_EVENTS)"
    elif one(connection, LOST):
        why = "events were lost, or calls went past the recording: vramscope report says which"
    elif one(connection, STOPPED, first_seq, mark_seq):
        why = "the test switched the recording off for a while"
    too_high = bool(one(connection, "SELECT count(*) FROM upper_bound"))
    return {"devices": devices(connection, range_id, first_seq), "too_high": too_high, "why": why}


def look(connection, key, range_name):
    """The answer about a test, or None where its end is not in the file yet."""
    mark = connection.execute(MARK, (key + " ",) * 2).fetchone()
    if not mark:
        return None
    seq, t, thread = mark
    test = connection.execute(RANGE, (range_name, thread, seq, t)).fetchone()
    if not test:
        return {"devices": [], "too_high": False, "why": "the test's range was closed before its end, by a pop of the program's without a push"}
    return answer(connection, test, seq) if is_closed(test) else None


def all_of(connection, keys, range_name, until):
    """The devices of each test that is in the file; None where the last one is not yet.  Marks and ranges are read once each; of
    what is not read at UNTIL, `left` has the number."""
    wanted, found, stacks = set(keys), {}, {}
    ranges = connection.execute("SELECT id, first_seq, t_pop, flags, thread %s ORDER BY first_seq" % RANGES, (range_name,))
    ahead = ranges.fetchone()
    for seq, t, thread, text in connection.execute(MARKS, (keys[-1].rpartition(" ")[0] + " *",)):
        while ahead and ahead[1] < seq:
            stacks.setdefault(ahead[4], []).append(ahead[:4])
            ahead = ranges.fetchone()
        key, stack = " ".join(text.split(" ", 2)[:2]), stacks.get(thread, [])
        while stack and stack[-1][2] is not None and stack[-1][2] < t:
            stack.pop()
        if key in wanted:
            found[key] = stack[-1] if stack else None
    if keys[-1] not in found or (found[keys[-1]] and not is_closed(found[keys[-1]])):
        return None
    tests = []
    for number, key in enumerate(keys):
        if time.monotonic() > until:
            return {"tests": tests, "left": len(keys) - number}
        if found.get(key):
            tests += [(key, row) for row in devices(connection, *found[key][:2])]
    return {"tests": tests, "left": 0}


def connect(path, until):
    """A connection whose questions end at UNTIL, with an error."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect("file:%s?mode=ro" % name, uri=True, timeout=1)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: time.monotonic() > until, 100000)
    return connection


MISSING = 3  # seconds for the file itself, which comes with the first events: a hundredth as a rule
patience = MISSING


def wait_for(path, question, seconds):
    global patience
    began = time.monotonic()
    until = began + seconds
    why = "its events did not come to %s within %d s" % (path, seconds)
    while time.monotonic() < until:
        connection = None
        if not os.path.exists(path):
            if time.monotonic() > began + patience:
                patience = 0.1  # the next test does not wait for it again
                why = "%s was not made: its folder may be gone, full or not writable (vramscope says which on stderr)" % path
                break
            time.sleep(0.01)
            continue
        try:
            connection = connect(path, until)
            found = question(connection, until - 1)
            if found is not None:
                return found
        except sqlite3.Error as error:
            why = "%s can't be read: %s" % (path, error)
        finally:
            if connection:
                connection.close()
        time.sleep(0.01)
    return {"devices": [], "tests": [], "too_high": False, "why": why}


def main():
    for line in sys.stdin:
        question = json.loads(line)
        if "keys" in question:
            found = wait_for(question["database"], lambda c, until: all_of(c, question["keys"], question["range"], until), question["wait"])
        else:
            found = wait_for(question["database"], lambda c, _: look(c, question["key"], question["range"]), question["wait"])
        print(json.dumps(found), flush=True)


main()
