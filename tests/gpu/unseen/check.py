"""check.py NAME DB FACTS VRAMSCOPE - what a report says of a program against what the program knew. Roles: of the bytes at the peak
that the program has a word for, as shown, and by accesses alone. The first screen: a line of the program's own first; a growth
where one was planted and only there.
"""
import bisect
import collections
import json
import os
import re
import sqlite3
import subprocess
import sys

LEAST = 0.99
ORDER = ("parameter", "gradient", "optimizer state", "buffer", "cache", "kept", "input", "activation")
SAVED = ("activation", "recomputed activation", "output", "input", "made in forward")
UNTOLD = ("buffer", "cache", "kept", "input")  # no rule tells them from a frozen weight, unless PyTorch says it
UNKNOWN = (None, "not told")
# What is "unknown", and why: an optimizer that is none of PyTorch's has no phase; a loss that is computed outside of all modules, behind a
# model whose output layer cannot be told (no embedding), is in no phase either, as inputs and targets are; autograd's thread serves both of two
# threads that train at once, and what it makes for the one may be taken for the other's phase.
MISSED = {("own_optimizer", "gradient"), ("own_optimizer", "optimizer state"), ("huge_head", "activation"), ("threads", "gradient")}

# what grows: part of its line; who may be said to make the peak; a part of a line that has to be on the first screen
GROWS = {"leak_closure": "mask", "leak_exception": "programs.py", "leak_loss": "programs.py", "leak_outputs": "programs.py"}
NAMED = {"own_optimizer": "Lion.step", "mamba": "Scan.forward", "t5": "modeling_t5.py", "whisper": "modeling_whisper.py", "kvcache": "", "gnn": ""}
OWN = re.compile(r"programs\.py|transformers|modeling_|torch_geometric|gcn_conv|functional|cache_utils|activations\.py|pytorch_utils|sdpa|lightning|message_passing")


def told(db, words):
    """Blocks that the program has a word for: {alloc_seq: role}"""
    start = int(db.execute("SELECT value FROM meta WHERE key = 'start_monotonic_ns' AND process = 1").fetchone()[0])
    at = collections.defaultdict(list)
    for seq, address, born, freed in db.execute("SELECT alloc_seq, address, t_alloc_ns, t_free_ns FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq"):
        at[address].append((born, freed, seq))
    found = {}
    for address, t, role in words:
        blocks = at[address]
        i = bisect.bisect_right(blocks, (t - start, float("inf"), 0)) - 1
        if i >= 0 and (blocks[i][1] is None or blocks[i][1] >= t - start):
            seq = blocks[i][2]
            if seq not in found or ORDER.index(role) < ORDER.index(found[seq]):
                found[seq] = role
    return found


def same(truth, found):
    if truth == "kept":  # what the last two steps kept the program's end gives back, as backward does with activations
        return found in UNKNOWN or found == "activation"
    return found == truth or (truth == "activation" and found in SAVED) or (truth == "cache" and found in UNKNOWN)


def roles(name, db, facts):
    truth = told(db, facts["words"])
    shown, alone, wrong, unseen = collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter()
    by_access = dict(db.execute("SELECT alloc_seq, role FROM access_role").fetchall())
    for seq, size, role, rule, line in db.execute("SELECT alloc_seq, size_bytes, role, role_rule, line FROM live_at_peak WHERE category = 'framework block'"):
        is_ = truth.get(seq)
        if is_ is None:
            unseen[role, line] += size
            continue
        shown[is_, same(is_, role)] += size
        alone[is_, same(is_, by_access.get(seq))] += size
        if not same(is_, role):
            wrong[is_, role, rule, line] += size
    bad = []
    for role in ORDER:
        all_ = shown[role, True] + shown[role, False]
        if all_:
            share, of_access = shown[role, True] / all_, alone[role, True] / all_
            false = sum(size for (is_, found, _, _), size in wrong.items() if is_ == role and found not in UNKNOWN)
            if share < LEAST and role not in UNTOLD and (name, role) not in MISSED and by_access:
                bad.append(f"{role}: {share:.2%}")
            if false > (1 - LEAST) * all_ and by_access:
                bad.append(f"{role}: {false} B are called something else")
            print(f"  {name} {role}: shown {share:.2%}, by accesses {of_access:.2%} of {all_} B")
    bad += [f"{size} B without a tensor are called {role}: {line}" for size, role, line in db.execute(
        "SELECT size_bytes, role, line FROM live_at_peak WHERE made_for = 'raw' AND role IN ('parameter', 'gradient', 'optimizer state')")]
    for (role, found, rule, line), size in wrong.most_common(5):
        print(f"    {size} B of {role} are called {found} (rule {rule}): {line}")
    for (found, line), size in unseen.most_common(4):
        print(f"    no witness: {size} B called {found}: {line}")
    return bad


def screen(name, path, facts, vramscope):
    text = subprocess.run([vramscope, "report", "--all", path], capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}).stdout
    device = json.loads(subprocess.run([vramscope, "report", "--json", path], capture_output=True).stdout)["files"][0]["devices"][0]
    first = text.splitlines()[:25]
    bad = []
    if not any(line.startswith("    held by line") for line in first):
        bad.append("no lines on the first screen")
    if name in GROWS and not any(line.startswith("    leak: ") for line in first):
        bad.append("the leak is not on the first screen")
    lines = [line["line"] for line in device["peak"]["lines"] if line["line"]]
    if not lines or not OWN.search(lines[0]):
        bad.append(f"first line: {lines[:1]}")
    if any("witness.py" in line for line in lines[:3]):
        bad.append("a line of the witness")
    if NAMED.get(name) and not any(NAMED[name] in line for line in lines[:4]):
        bad.append(f"{NAMED[name]} not among {lines[:4]}")
    grows = device["growth"]["grows"]
    if name not in GROWS:
        bad += [f"growth: {g['per_step_bytes']} B a step, {g['line']}" for g in grows]
    elif not grows:
        bad.append("no growth said")
    else:
        bad += [f"grows at {g['line']}" for g in grows if GROWS[name] not in (g["line"] or "")]
        grown = sum(g["per_step_bytes"] for g in grows)
        if "leaked" in facts and abs(grown - facts["leaked"]) > 0.02 * facts["leaked"]:
            bad.append(f"grows by {grown}, not {facts['leaked']}")
    return bad


def main(name, path, facts_path, vramscope):
    with open(facts_path) as f:
        facts = json.load(f)
    db = sqlite3.connect(path)
    bad = roles(name, db, facts)
    bad += screen(name, path, facts, vramscope)
    print(f"{'FAIL' if bad else 'PASS'} {name}: {'; '.join(bad) or 'as the program knew it'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
