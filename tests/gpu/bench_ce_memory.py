"""What each method takes beyond its inputs and gradients: recorded by vramscope, PyTorch's counters beside it.

record() runs under `vramscope run`: a range around a method's first call, and around a later one from an emptied cache. read()
takes from the database the peak inside, minus what was live when it began and the gradients that the call leaves. The framework's
part must equal PyTorch's counters to the byte; cuBLAS's and Triton's is in the recording alone.
"""
import gc
import json
import sqlite3
import sys

FIRST, LATER = "first call", "measured call"


class TorchCounters:
    """PyTorch's caching allocator."""

    def __init__(self):
        import torch

        self.cuda = torch.cuda

    def begin(self):
        """From an emptied cache: what is live, what is reserved."""
        self.cuda.synchronize()
        gc.collect()
        self.cuda.empty_cache()
        self.cuda.reset_peak_memory_stats()
        return self.cuda.memory_allocated(), self.cuda.memory_reserved()

    def end(self):
        self.cuda.synchronize()
        return self.cuda.max_memory_allocated(), self.cuda.max_memory_reserved()


def settled(make, device, clean):
    """The inputs that MAKE makes, each in memory of its own: no segment has room left from what was there before."""
    held = [tensor.cpu() for tensor in make()]
    clean()
    return [tensor.to(device) for tensor in held]


def inside(name, counters, call):
    import vramscope  # there under `vramscope run`

    start = counters.begin()
    with vramscope.phase(name):
        call()
        peak = counters.end()
    return start, peak


def record_method(build, case, counters, note):
    """One method's ranges; NOTE is what is kept of it, filled in as it comes."""
    made = []

    def first():
        made.append(build(case))
        made[0]()

    try:
        inside(f"{FIRST} {note['id']}", counters, first)
        made[0].release()
        note["gradient_bytes"] = made[0].gradient_bytes
        (note["start"], note["start_reserved"]), (note["peak"], note["peak_reserved"]) = inside(
            f"{LATER} {note['id']}", counters, made[0])
    finally:
        for method in made:
            method.close()
        made.clear()


def record(methods, case, counters, out, shape, kind, reason, number=0):
    """A JSON line a method into OUT; a method that fails is a line with its reason.  Returns the next number."""
    for name, build in methods.items():
        note = {"id": number, "shape": shape, "kind": kind, "method": name}
        number += 1
        try:
            record_method(build, case, counters, note)
        except Exception as error:
            note["failure"] = reason(error)
        out.write(json.dumps(note) + "\n")
        out.flush()
    return number


# ---- the database ----

STATE = """SELECT framework_bytes, direct_bytes, reserved_bytes FROM event
    WHERE device = ?1 AND t_ns <= ?2 AND framework_bytes IS NOT NULL ORDER BY seq DESC LIMIT 1"""
TOPS = """SELECT max(framework_bytes), max(direct_bytes), max(allocated_bytes), max(reserved_bytes) FROM event
    WHERE device = ?1 AND t_ns BETWEEN ?2 AND ?3 AND framework_bytes IS NOT NULL"""


OWNERS = """SELECT owner, sum(size_bytes) FROM allocation WHERE op <> 'block_alloc' AND NOT managed AND device = ?1
    AND space IN ('device', 'pool', 'array', 'graph') AND t_alloc_ns BETWEEN ?2 AND ?3 GROUP BY owner"""


class Recording:
    def __init__(self, path, device=0):
        self.db, self.device = sqlite3.connect(f"file:{path}?mode=ro", uri=True), device
        if self.db.execute("SELECT 1 FROM meta WHERE key = 'thinned_from_seq'").fetchone():
            raise ValueError(f"{path}: events were thinned; record with a larger VRAMSCOPE_MAX_BYTES")
        self.lost = self.db.execute("SELECT ifnull(sum(events), 0) FROM loss").fetchone()[0]

    def state(self, t):
        """Framework, direct and reserved bytes at the time T."""
        return self.db.execute(STATE, (self.device, t)).fetchone() or (0, 0, 0)

    def span(self, name):
        """(id, push, pop) of the only range of that NAME."""
        found = self.db.execute("SELECT id, t_push_ns, t_pop_ns FROM range WHERE name = ?", (name,)).fetchall()
        if len(found) != 1 or found[0][2] is None:
            raise ValueError(f"range {name!r}: {len(found)} recorded, one that was closed is needed")
        return found[0]

    def inside(self, name):
        """What was live at the push, the peaks inside; the peak that the ledger kept must be the one of the events."""
        number, push, pop = self.span(name)
        start = self.state(push)
        tops = [top or 0 for top in self.db.execute(TOPS, (self.device, push, pop)).fetchone()]
        framework, direct = max(start[0], tops[0]), max(start[1], tops[1])
        peak, reserved = max(start[0] + start[1], tops[2]), max(start[2], tops[3])
        kept = self.db.execute("SELECT allocated_bytes, reserved_bytes FROM range_peak WHERE range = ? AND device = ?",
                               (number, self.device)).fetchone()
        if kept is not None and kept != (peak, reserved):
            raise ValueError(f"range {name!r}: range_peak says {kept}, its events {(peak, reserved)}")
        return {"start": start, "framework": framework, "direct": direct, "peak": peak, "reserved": reserved}

    def owners(self, *names):
        """The libraries that allocated outside the framework in the ranges, with their bytes."""
        found = {}
        for name in names:
            _, push, pop = self.span(name)
            for owner, size in self.db.execute(OWNERS, (self.device, push, pop)):
                found[owner] = found.get(owner, 0) + size
        return ", ".join(f"{owner or 'unknown'} {size}" for owner, size in sorted(found.items(), key=lambda pair: -pair[1]))

    def grown(self, name):
        """By how much the direct bytes are more at the range's end than at its beginning."""
        _, push, pop = self.span(name)
        return self.state(pop)[1] - self.state(push)[1]


def grown(top, begin, gradients):
    """By how much the segments grew beyond the gradients' bytes; None where they took room that was there before."""
    return None if top - begin < gradients else top - begin - gradients


def columns(recording, note):
    """The columns of bench_ce_table of one noted method."""
    seen, gradients = recording.inside(f"{LATER} {note['id']}"), note["gradient_bytes"]
    begin = seen["start"][0] + seen["start"][1]
    theirs = note["start"], note["peak"]
    ours = seen["start"][0], seen["framework"]
    return {
        "allocated_bytes": seen["peak"] - begin - gradients,
        "reserved_bytes": grown(seen["reserved"], seen["start"][2], gradients),
        "torch_allocated_bytes": note["peak"] - note["start"] - gradients,
        "torch_reserved_bytes": grown(note["peak_reserved"], note["start_reserved"], gradients),
        "outside_bytes": seen["peak"] - begin - (note["peak"] - note["start"]),
        "kept_bytes": recording.grown(f"{FIRST} {note['id']}"),
        "outside_owners": recording.owners(f"{FIRST} {note['id']}", f"{LATER} {note['id']}"),
        "counters": "equal" if ours == theirs else f"DIFFER: recorded {ours[0]} to {ours[1]}, torch {theirs[0]} to {theirs[1]}",
    }


def read(database, notes):
    """{(shape, kind, method): columns, or a failure} and the number of events lost."""
    recording, found = Recording(database), {}
    with open(notes) as file:
        for line in file:
            if not line.endswith("\n"):
                break  # cut off
            note = json.loads(line)
            key = note["shape"], note["kind"], note["method"]
            try:
                found[key] = {"failure": note["failure"]} if "failure" in note else columns(recording, note)
            except (ValueError, sqlite3.Error) as error:
                print(f"memory of {key}: {error}", file=sys.stderr)
                found[key] = {"failure": str(error)}
    return found, recording.lost
