#!/usr/bin/env python3
"""Holds what `vramscope fit` says of the two ranks of a training against two real GPUs.

    two.py predict TOOL OUT    OUT/predicted.jsonl, without a GPU; recordings stay in OUT/dry
    two.py measure TOOL OUT    OUT/measured.jsonl, each program recorded on two GPUs, in OUT/real
    two.py compare OUT         the table, of rank 0; exit 1 where an answer is off

TOOL is an installed vramscope. $TEST_PYTHON has PyTorch and transformers, PYTHONPATH DeepSpeed. What a file has is not done again.
tests/data/dry/h200/two.*.jsonl have both of two H200s.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.environ.get("TEST_PYTHON", sys.executable)
STRATEGIES = ("ddp", "fsdp1", "fsdp1-mixed", "fsdp2", "fsdp2-keep", "fsdp2-mixed", "tp", "zero1", "zero2", "zero3", "zero1-host", "zero2-host", "zero3-host")
HELD_OUT = ("qwen", "shared", "bert")  # native: four strategies
CASES = {f"{strategy} {model} {allocator}": (strategy, model, allocator)
         for models in (("llama", "moe", "vit"), HELD_OUT) for strategy in STRATEGIES for model in models for allocator in ("native", "expandable")
         if (model not in HELD_OUT or allocator == "expandable" or strategy in ("ddp", "fsdp2", "zero2", "tp"))
         and (strategy, model) != ("tp", "shared")}  # five key heads are not two parts
CASES.update((f"{strategy} {model} expandable", (strategy, model, "expandable"))
             for strategy in ("ddp", "fsdp1", "fsdp1-mixed", "zero1", "zero3") for model in ("neox", "dino")
             if (strategy, model) != ("ddp", "dino"))  # which has a parameter that gets no gradient


def lines(path):
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def run(command, environment=()):
    """(status, standard output, standard error) of a command that is killed with its children after 240 s."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **dict(environment)}) as process:
        try:
            return process.communicate(timeout=240), process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate(), "longer than 240 s"


def program(strategy, model):
    return ["--", PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(HERE / "two/train.py"), strategy, model]


def libraries(tool, recording):
    """Bytes that NCCL holds at the peak of a recording."""
    (output, _), status = run([tool, "peak", "--by=library", "--json", str(recording)])
    rows = [row for file in json.loads(output)["files"] for device in file["devices"] for row in device["by_library"]] if status == 0 else []
    return sum(row["size_bytes"] for row in rows if "nccl" in (row["library"] or ""))


def recordings(folder, name):
    return [found[0] if (found := sorted(folder.glob(f"{name}*{rank}.db"))) else None for rank in (0, 1)]


def predict(a, key):
    strategy, model, allocator = CASES[key]
    name = key.replace(" ", ".")
    (output, errors), status = run([a.tool, "fit", "--steps=all", "--json", "-f", "-o", str(a.out / "dry" / f"{name}.db"),
                                    "--expandable" if allocator == "expandable" else "--allocator=native", *program(strategy, model)])
    try:
        answer = json.loads(output[output.rindex('{\n  "json_version"'):])["answers"][0]
        if answer["verdict"] not in ("fits", "does not fit"):
            raise ValueError
        ranks = [[rank["allocated_bytes"], rank["reserved_bytes"]] for rank in answer["ranks"]]
    except (ValueError, KeyError, IndexError):
        return {"key": key, "miss": f"status {status}: {errors[-400:]}"}
    return {"key": key, "ranks": ranks, "exact": answer["exact"], "allocated": list(answer["allocated"].values()), "reserved": list(answer["reserved"].values()),
            "nccl": [libraries(a.tool, file) for file in recordings(a.out / "dry", name) if file]}


def measure(a, key):
    strategy, model, allocator = CASES[key]
    name = key.replace(" ", ".")
    settings = {"PYTORCH_ALLOC_CONF": "expandable_segments:" + str(allocator == "expandable")}
    (output, errors), status = run([a.tool, "run", "-q", "-o", str(a.out / "real" / f"{name}.%r.db"), *program(strategy, model)], settings)
    said = {row["rank"]: row["steps"] for row in map(json.loads, re.findall(r'\{"two".*?\]\]\}', output))}  # two ranks may share a line
    if sorted(said) != [0, 1]:
        return {"key": key, "miss": f"status {status}: {errors[-1500:]}"}
    found = {"key": key, "ranks": [said[rank][-1] for rank in (0, 1)], "steps": [said[0], said[1]],
             "nccl": [libraries(a.tool, file) for file in recordings(a.out / "real", f"{name}.") if file]}
    if found["ranks"] != a.predicted.get(key, {}).get("ranks"):
        differs(a, name, [i for i in (0, 1) if found["ranks"][i] != (a.predicted.get(key, {}).get("ranks") or found["ranks"])[i]])
    return found


def differs(a, name, ranks):
    for rank in ranks[:1]:
        both = recordings(a.out / "dry", name)[rank], recordings(a.out / "real", f"{name}.")[rank]
        if all(both):
            (output, errors), _ = run([a.tool, "diff", *map(str, both)])
            (a.out / f"{name}.diff").write_text(output + errors)
            subprocess.run(["tar", "-C", a.out, "-cJf", a.out / f"{name}.txz", *(str(file.relative_to(a.out)) for file in both)], env={**os.environ, "XZ_OPT": "-2"}, check=False)


def all_of(a, work, path):
    have = lines(path)
    keys = [key for key in CASES if key not in have and (not a.only or any(word in key for word in a.only))]
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool, path.open("a") as out:
        for done in concurrent.futures.as_completed([pool.submit(work, a, key) for key in keys]):
            row = done.result()
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(row["key"], row.get("miss") or row["ranks"], flush=True)


def judge(said, seen):
    """How an answer fared: equal (each figure of each rank), within (what the fullest rank holds lies in what was said), off."""
    if said["ranks"] == seen["ranks"]:
        return "equal"
    fullest = max(seen["ranks"], key=lambda rank: rank[1])
    return "within" if all(min(span) <= value <= max(span) for span, value in zip((said["allocated"], said["reserved"]), fullest)) else "off"


def compare(out):
    said, seen = lines(out / "predicted.jsonl"), lines(out / "measured.jsonl")
    wrong = 0
    print(f"{'':30}{'allocated':>11} {'off':>8}{'reserved':>12} {'off':>8}   NCCL, MiB")
    for key in CASES:
        p, m = said.get(key), seen.get(key)
        if not p or not m or "miss" in p or "miss" in m:
            print(f"{key:30} {'not asked' if not p else p.get('miss') or ('not measured' if not m else m.get('miss'))!s:.150}")
            continue
        how = judge(p, m)
        wrong += how == "off"
        off = [max((p["ranks"][r][i] - m["ranks"][r][i] for r in (0, 1)), key=abs) for i in (0, 1)]
        cells = (f"{m['ranks'][0][i]:>11} {100 * off[i] / m['ranks'][0][i]:+7.3f}%" if off[i] else f"{m['ranks'][0][i]:>11} {'0':>8}" for i in (0, 1))
        print(f"{key:30}{' '.join(cells)}   {' '.join(str(n >> 20) for n in m['nccl'])}, said {' '.join(str(n >> 20) for n in p['nccl'])}   said {'exact' if p['exact'] else 'interval'}: {how}")
    return 1 if wrong else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("predict", "measure", "compare"))
    p.add_argument("paths", nargs="+")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--only", nargs="*", default=[])
    a = p.parse_args()
    a.out = pathlib.Path(a.paths[-1]).resolve()
    if a.what == "compare":
        return compare(a.out)
    a.tool = a.paths[0]
    a.predicted = lines(a.out / "predicted.jsonl")
    (a.out / ("dry" if a.what == "predict" else "real")).mkdir(parents=True, exist_ok=True)
    all_of(a, predict if a.what == "predict" else measure, a.out / ("predicted.jsonl" if a.what == "predict" else "measured.jsonl"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
