"""expandable_oom.py play FACTS.json | check RUN.db FACTS.json TREE. Most of the device goes to one driver allocation, so that torch's
growth is short.
"""
import ctypes
import json
import os
import sqlite3
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import verify  # noqa: E402
from verify import check, equal, one  # noqa: E402

MiB = 1 << 20
GiB = 1 << 30
LEFT = 24 * GiB  # for torch


def play(path):
    import torch

    torch.cuda.init()
    torch.empty(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    ballast = (free - LEFT) // MiB * MiB
    address = ctypes.c_uint64()
    status = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(ballast))
    assert status == 0, status
    kept = [torch.empty(6 * GiB, dtype=torch.uint8, device="cuda")]  # 308 pieces before a block that fits
    facts = {"ballast": ballast, "total": total}
    try:
        while True:
            kept.append(torch.empty(5 * GiB + 4096, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        facts.update(allocated=torch.cuda.memory_allocated(), reserved=torch.cuda.memory_reserved(), requested=5 * GiB + 4096,
                     words=str(error).split(".")[0])
    facts.update(max_allocated=torch.cuda.max_memory_allocated(), max_reserved=torch.cuda.max_memory_reserved(), blocks=len(kept) + 1)
    with open(path, "w") as out:
        json.dump(facts, out)
    print(facts["words"], facts["blocks"])


def compare(path, facts_path, tree):
    with open(facts_path) as file:
        facts = json.load(file)
    db = sqlite3.connect(path)

    def peak(kind):
        return one(db, f"SELECT peak_bytes FROM peak WHERE device = 0 AND kind = '{kind}'")

    equal(peak("allocated"), facts["max_allocated"] + facts["ballast"], "peak allocated")
    equal(peak("direct"), facts["ballast"], "peak direct")
    equal(peak("framework"), facts["max_allocated"], "peak of the framework's blocks")
    equal(one(db, "SELECT end_bytes FROM peak WHERE device = 0 AND kind = 'managed_reserved'"), facts["reserved"], "reserved by the framework at the end")
    equal(one(db, "SELECT framework_bytes FROM oom WHERE role & 2"), facts["allocated"], "at the out-of-memory: allocated")
    equal(one(db, "SELECT direct_bytes FROM oom WHERE role & 2"), facts["ballast"], "at the out-of-memory: direct")
    equal(one(db, "SELECT managed_reserved_bytes FROM oom WHERE role & 2"), facts["reserved"], "at the out-of-memory: reserved by the framework")
    equal(one(db, "SELECT count(*) FROM mismatch"), 0, "mismatches with torch's totals")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'reclassify'"), 0, "allocations seen as direct first")
    text = subprocess.run([os.path.join(tree, "bin", "vramscope"), "report", "--json", path], capture_output=True, text=True)
    oom = json.loads(text.stdout)["files"][0]["out_of_memory"]
    rest = oom["residual_and_other_processes_bytes"]
    if rest is None:
        rest = oom["residual_bytes"] + oom["other_processes_bytes"]
    print("     given for the request and taken back", oom["given_back_bytes"], "residual", oom["residual_bytes"], "others", oom["other_processes_bytes"],
          "both", oom["residual_and_other_processes_bytes"])
    equal(oom["reserved_bytes"] + oom["given_back_bytes"] + rest + oom["driver_free_bytes"], facts["total"], "reserved + given back + the rest + free")
    check(oom["other_processes_bytes"] is not None and oom["other_processes_bytes"] <= 64 * MiB, f"other processes: {oom['other_processes_bytes']}, on a GPU that has none")
    return verify.FAILED


if __name__ == "__main__":
    sys.exit(play(sys.argv[2]) if sys.argv[1] == "play" else compare(*sys.argv[2:]) > 0)
