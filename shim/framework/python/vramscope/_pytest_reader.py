"""_pytest_reader - what tests allocated, read from a recording that grows; a child of pytest's process (pytest_plugin.py).

A question is a line of JSON on standard input, an answer one on standard output:

    {"database": PATH, "range": "test", "name": TEXT, "wait": SECONDS}      one test, waited for
    {"database": PATH, "range": "test", "names": [TEXT...], "wait": ...}    all of them, the last one waited for

A test's range is the last "test" that its thread opened before the mark of its name.  What it added is the peak while that
range was open less what was allocated right before.
"""

import json
import sqlite3
import sys
import time

X512 = "CASE WHEN {0} < 0 THEN -{0} ELSE {0} * 512 END"
RANGE = """SELECT r.id, r.first_seq, r.t_pop, r.flags FROM moment m JOIN string s ON s.id = m.name
  JOIN rng r ON r.thread = m.thread AND r.first_seq < m.seq AND r.name IN (SELECT id FROM string WHERE text = ?2)
  WHERE s.text = ?1 ORDER BY m.seq DESC, r.first_seq DESC LIMIT 1"""
BASE = "SELECT %s + %s FROM ev WHERE seq < ? AND device = ? AND (op < 30 OR op >= 50) ORDER BY seq DESC LIMIT 1" % (
    X512.format("framework"),
    X512.format("direct"),
)
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


def look(connection, name, range_name):
    """The answer about a test, or None where its end is not in the file yet."""
    found = connection.execute(RANGE, (name, range_name)).fetchone()
    if not found or (found[2] is None and not found[3] & 4):
        return None
    range_id, first_seq, _, flags = found
    why = None
    if flags & 4:
        why = "the end of the test was lost: the ring was full (VRAMSCOPE_RING_EVENTS)"
    elif one(connection, LOST):
        why = "events were lost, or calls went past the recording: vramscope report says which"
    too_high = bool(one(connection, "SELECT count(*) FROM upper_bound"))
    return {"devices": devices(connection, range_id, first_seq), "too_high": too_high, "why": why}


def wait_for(path, question, seconds):
    until = time.monotonic() + seconds
    why = "its events did not come to %s within %d s" % (path, seconds)
    while time.monotonic() < until:
        try:
            with sqlite3.connect("file:%s?mode=ro" % path.replace("%", "%25").replace("?", "%3f").replace("#", "%23"), uri=True, timeout=1) as connection:
                answer = question(connection)
            connection.close()
            if answer is not None:
                return answer
        except sqlite3.Error as error:
            why = "%s can't be read: %s" % (path, error)
        time.sleep(0.01)
    return {"devices": [], "tests": [], "too_high": False, "why": why}


def all_of(connection, names, range_name):
    if names and look(connection, names[-1], range_name) is None:
        return None
    tests = []
    for name in names:
        found = look(connection, name, range_name)
        tests += [(name, row) for row in found["devices"]] if found else []
    return {"tests": tests}


def main():
    for line in sys.stdin:
        question = json.loads(line)
        if "names" in question:
            answer = wait_for(question["database"], lambda c: all_of(c, question["names"], question["range"]), question["wait"])
        else:
            answer = wait_for(question["database"], lambda c: look(c, question["name"], question["range"]), question["wait"])
        print(json.dumps(answer), flush=True)


main()
