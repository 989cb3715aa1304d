"""expandable_oom.py play FACTS.json | check RUN.db FACTS.json TREE. Most of the device goes to one driver allocation, so that torch's
growth is short.
"""
import ctypes
import json
import os
import sqlite3
import subprocess
import sys

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


def check(path, facts_path, tree):
    with open(facts_path) as file:
        facts = json.load(file)
    db = sqlite3.connect(path)
    failed = 0

    def one(sql):
        return db.execute(sql).fetchone()[0]

    def equal(what, ours, theirs):
        nonlocal failed
        failed += ours != theirs
        print("ok  " if ours == theirs else "FAIL", f"{what}: recorded {ours}, torch and the program {theirs}")

    def peak(kind):
        return one(f"SELECT peak_bytes FROM peak WHERE device = 0 AND kind = '{kind}'")

    equal("peak allocated", peak("allocated"), facts["max_allocated"] + facts["ballast"])
    equal("peak direct", peak("direct"), facts["ballast"])
    equal("peak of the framework's blocks", peak("framework"), facts["max_allocated"])
    equal("reserved by the framework at the end", one("SELECT end_bytes FROM peak WHERE device = 0 AND kind = 'managed_reserved'"), facts["reserved"])
    equal("at the out-of-memory: allocated", one("SELECT framework_bytes FROM oom WHERE role & 2"), facts["allocated"])
    equal("at the out-of-memory: direct", one("SELECT direct_bytes FROM oom WHERE role & 2"), facts["ballast"])
    equal("at the out-of-memory: reserved by the framework", one("SELECT managed_reserved_bytes FROM oom WHERE role & 2"), facts["reserved"])
    equal("mismatches with torch's totals", one("SELECT count(*) FROM mismatch"), 0)
    equal("allocations seen as direct first", one("SELECT count(*) FROM event WHERE op = 'reclassify'"), 0)
    text = subprocess.run([os.path.join(tree, "bin", "vramscope"), "report", "--json", path], capture_output=True, text=True)
    oom = json.loads(text.stdout)["files"][0]["out_of_memory"]
    rest = oom["residual_and_other_processes_bytes"]
    if rest is None:
        rest = oom["residual_bytes"] + oom["other_processes_bytes"]
    print("     given for the request and taken back", oom["given_back_bytes"], "residual", oom["residual_bytes"], "others", oom["other_processes_bytes"],
          "both", oom["residual_and_other_processes_bytes"])
    equal("reserved + given back + the rest + free", oom["reserved_bytes"] + oom["given_back_bytes"] + rest + oom["driver_free_bytes"], facts["total"])
    if oom["other_processes_bytes"] is None or oom["other_processes_bytes"] > 64 * MiB:
        failed += 1
        print("FAIL other processes:", oom["other_processes_bytes"], "on a GPU that has none")
    return failed


if __name__ == "__main__":
    sys.exit(play(sys.argv[2]) if sys.argv[1] == "play" else min(check(*sys.argv[2:]), 1))
