#!/usr/bin/env python3
"""bench_arena_rules.py [--rules A,B] [--times N] BENCH_ARENA_REPLAY [TRACE...] - what each of the arena's rules
(shim/arena/core/rules.h) is worth: made-up traces and each TRACE are replayed with all rules, and with each one left out. A line
for each trace in which something changes.

    calls     of the driver for memory, per 1000 requests and frees
    held      the most physical memory, over the most that lived
    waits     of a stream for another, and of the host, per 1000; events recorded and looked at, as order calls, per 1000
    ns        processor time of a request or free, the least of N runs (3)
"""
import argparse
import re
import subprocess
import sys

SETS = [  # name, arguments
    ("training, 1 stream", ["passes=3", "training:1"]),
    ("training, 10 streams", ["passes=3", "lag=200", "training:10"]),
    ("training, no stream", ["passes=3", "lag=200", "defer=1", "training:1"]),
    ("training, no stream, quick device", ["passes=3", "defer=1", "training:1"]),
    ("training, 10 streams, no waits", ["passes=3", "lag=200", "waits=0", "training:10"]),
    ("lengths, 1 stream", ["lengths:1"]),
    ("lengths, 1 stream, wide", ["lengths:1:8:4096:11008:128256"]),
    ("lengths, 10 streams", ["lag=200", "lengths:10"]),
    ("lengths, no stream", ["lag=200", "defer=1", "lengths:1:10:1536:4096:32000"]),
    ("small, 1 stream", ["small:1"]),
    ("small, 4 streams", ["lag=100", "small:4"]),
    ("small, no stream", ["lag=100", "defer=1", "small:1"]),
    ("random, 1 stream", ["random:1"]),
    ("random, 10 streams", ["lag=200", "random:10"]),
    ("random, no stream", ["lag=200", "defer=1", "random:1"]),
    ("growing, 1 stream", ["growing:1"]),
    ("growing, 10 streams", ["lag=200", "growing:10"]),
    ("device too small, 1 stream", ["device=4000", "random:1"]),
    ("device too small, no stream", ["lag=200", "device=4000", "defer=1", "random:1"]),
    ("ended by another stream", ["passes=2", "lag=3000", "cross:4"]),
    ("an eighth without a stream", ["passes=2", "lag=3000", "mixed:4"]),
    ("with and without, in turns", ["lag=3000", "turns"]),
    ("device half full", ["device=4096", "halves"]),
    ("few mappings", ["mappings=6000", "random:1"]),
    ("phases", ["trim=500000000", "window=16384", "phases:1500"]),
]


def replay(bench, arguments, rule, times):
    best = None
    for _ in range(times):
        out = subprocess.run([bench, f"without={rule}"] + arguments, capture_output=True, text=True, check=True).stdout
        f = {k: float(v) for k, v in re.findall(r"([A-Za-z/]+) +([\d.]+)", out)}
        events = f["events"]
        found = {"calls": 1000 * f["all"] / events, "held": f["R"], "waits": 1000 * (f["follows"] + f["settles"]) / events,
                 "order": 1000 * (f["marks"] + f["looks"]) / events, "refused": f["refused"], "ns": f["ns/event"]}
        if best:
            found["ns"] = min(found["ns"], best["ns"])
        best = found
    return best


def differs(a, b):
    some = [abs(a[k] - b[k]) > max(0.01 * a[k], 0.05) for k in ("calls", "waits", "order")]
    return any(some) or abs(a["held"] - b["held"]) > 0.0005 or a["refused"] != b["refused"] or abs(a["ns"] / b["ns"] - 1) > 0.1


def line(name, f):
    return f"  {name:32} {f['calls']:9.1f} {f['held']:8.4f} {f['waits']:8.1f} {f['order']:8.1f} {f['refused']:7.0f} {f['ns']:6.0f}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("traces", nargs="*")
    p.add_argument("--rules")
    p.add_argument("--times", type=int, default=3)
    a = p.parse_args()
    rules = dict(l.split("\t") for l in subprocess.run([a.bench, "without=list"], capture_output=True, text=True).stdout.splitlines())
    sets = SETS + [(t.rsplit("/", 1)[-1], [t]) for t in a.traces]
    head = f"  {'':32} {'calls':>9} {'held':>8} {'waits':>8} {'order':>8} {'refused':>7} {'ns':>6}"
    print("all rules\n" + head)
    whole = {}
    for name, arguments in sets:
        whole[name] = replay(a.bench, arguments, "", a.times)
        print(line(name, whole[name]), flush=True)
    for rule in a.rules.split(",") if a.rules else rules:
        print(f"without {rule}: {rules[rule]}")
        for name, arguments in sets:
            found = replay(a.bench, arguments, rule, a.times)
            if differs(whole[name], found):
                print(line(name, found), flush=True)


if __name__ == "__main__":
    sys.exit(main())
