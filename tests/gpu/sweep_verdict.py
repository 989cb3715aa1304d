"""sweep_verdict.py SERIES predicted.json measured.json - each point, and the longest of each batch, which may be off by 256 (images:
one step of 32).
"""
import json
import sys

series, predicted, measured = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))
policy = "torch-expandable" if series.endswith("expandable") else "torch-native"
at = {(p["batch"], p["seq"]): p for p in predicted["points"]}
worst = {"allocated": 0.0, "reserved": 0.0}
bad = False
print(f"{series}: {predicted['blocks']} blocks, {predicted['blocks_exact']} exact, {predicted['blocks_near']} near, {predicted['blocks_without_law']} without a law, "
      f"{predicted['blocks_not_in_all']} not in all runs, {predicted['blocks_missing']} missing")
for batch, seq, got in measured["grid"]:
    p = at[batch, seq]
    if not got:
        print(f"  {batch:3} x {seq:5}: ran out; predicted {'to fit' if p[policy]['fits'] else 'to run out'}")
        continue
    off = [100 * (p[policy]["allocated_bytes"] / got[0] - 1), 100 * (p[policy]["bytes"] / got[1] - 1)]
    for key, x in zip(worst, off):
        worst[key] = max(worst[key], abs(x))
    print(f"  {batch:3} x {seq:5}: allocated {got[0] / 2**20:9.2f} MiB {off[0]:+6.2f} %   reserved {got[1] / 2**20:8.0f} MiB {off[1]:+6.2f} %"
          + ("" if p[policy]["fits"] else "   WRONG: predicted to run out") + (f"   {got[2]} reserved before" if got[2] else ""))
for batch, best, _ in measured["longest"]:
    said = next(x for x in predicted["largest"] if x["policy"] == policy and x["batch"] == batch)
    off = (said["seq"] or 0) - best
    good = abs(off) <= (32 if series.startswith(("cnn", "convnext")) else 256)
    bad = bad or not good
    print(f"  longest at batch {batch}: {said['seq']} ({said['found']}), by bisection {best}: {off:+d}{'' if good else '   MISSED'}")
print(f"  worst: allocated {worst['allocated']:.2f} %, reserved {worst['reserved']:.2f} %")
sys.exit(bad)
