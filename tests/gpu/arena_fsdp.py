"""Two GPUs train one model with FSDP under each allocator: memory goes between the collectives' stream and the computation's.

    arena_fsdp.py TREE OUT [--rounds N] [--seconds N] [--only CONFIGURATIONS]

Configurations take turns; the first round is not counted. In "arena-nowaits" no stream is ever made to wait for memory. A line for
each: the step's median, least and greatest of the rounds' medians, peaks of rank 0. --cpu: a tiny model.
"""
import argparse
import json
import os
import random
import shutil
import socket
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
CONFIGS = ["native", "expandable", "arena", "arena-nowaits", "native+recorded"]
GPUS, MIB = 2, 1 << 20


# ---- a rank ----


def build(torch, s):
    from arena_train import Decoder
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    torch.manual_seed(1)
    with torch.device(s.device):
        model = Decoder(s)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=s.device == "cuda")


def one_round(torch, s, rank, model, optimizer):
    from arena_train import length, synchronize, tokens

    lengths, ids, step_ms, losses = random.Random(7), random.Random(rank), [], []
    for _ in range(s.steps):
        synchronize(s)
        begin = time.perf_counter()
        for _ in range(2):  # gradients are accumulated
            loss = model(tokens(ids, s, length(lengths, s)).to(s.device))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        synchronize(s)
        step_ms.append((time.perf_counter() - begin) * 1e3)
    peaks = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if s.device == "cuda" else (0, 0)
    return {"step_ms": step_ms, "losses": losses, "allocated": peaks[0], "reserved": peaks[1]}


def work(a):
    import torch
    import torch.distributed as dist
    from arena_train import SIZES

    rank = int(os.environ["RANK"])
    s = argparse.Namespace(device="cpu" if a.cpu else "cuda", **SIZES["small" if a.cpu else "single"])
    print(json.dumps({"ready": torch.__version__}), flush=True)
    made = None
    for line in sys.stdin:
        if line.strip() != "go":
            break
        if made is None:
            if a.cpu:
                dist.init_process_group("gloo")
            else:
                torch.cuda.set_device(rank)
                dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
            made = build(torch, s)
        print(json.dumps(one_round(torch, s, rank, *made)), flush=True)
    if made:
        dist.destroy_process_group()


# ---- the comparison ----


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def start(a, name, scratch):
    from arena_worker import start as started

    port, ranks = free_port(), []
    for rank in range(GPUS):
        env = dict(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(GPUS), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                   NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", OMP_NUM_THREADS="4", VRAMSCOPE_STACKS="off")
        if name.endswith("-nowaits"):
            env["VRAMSCOPE_ARENA_WAITS"] = "off"
        program = [os.path.abspath(__file__), "--work"] + ["--cpu"] * a.cpu
        ranks.append(started(a.tree, name.replace("-nowaits", ""), program, os.path.join(scratch, f"{name}.{rank}"), **env))
    return ranks


def one_turn(ranks, limit):
    """The answers of all ranks, or None."""
    for worker in ranks:
        worker.process.stdin.write("go\n")
        worker.process.stdin.flush()
    found = [worker.answer("step_ms", limit) for worker in ranks]
    return found if all(found) else None


def take_turns(a, jobs, rounds):
    begin = time.monotonic()
    for number in range(a.rounds + 1):
        for name, ranks in jobs.items():
            if any(worker.failed for worker in ranks) or time.monotonic() - begin > a.seconds:
                continue
            found = one_turn(ranks, 90)
            if found:
                rounds[name].append(found)
            else:
                print(f"FAIL  {name}: " + "; ".join(str(w.failed) for w in ranks) + "\n" + "".join(w.last_words() for w in ranks), flush=True)


def end_together(name, ranks):
    """One alone would wait for the others."""
    for worker in ranks:
        worker.process.stdin.close()
    for worker in ranks:
        worker.end()
        if worker.failed:
            print(f"FAIL  {name}: {worker.failed}\n{worker.last_words()}", flush=True)


def table(rounds):
    lines = [f"{'allocator':18} {'rounds':>6} {'live MiB':>9} {'reserved':>9}  step ms"]
    for name, found in rounds.items():
        counted = [r[0] for r in found[1:]]
        if not counted:
            lines.append(f"{name:18} nothing measured")
            continue
        medians = [statistics.median(r["step_ms"]) for r in counted]
        every = statistics.median(ms for r in counted for ms in r["step_ms"])
        last = counted[-1]
        lines.append(f"{name:18} {len(counted):6} {last['allocated'] / MIB:9.1f} {last['reserved'] / MIB:9.1f}  "
                     f"{every:.2f} ({min(medians):.2f} .. {max(medians):.2f})  last loss {last['losses'][-1]:.4f}")
    return "\n".join(lines)


def compare(a):
    from arena_worker import folder

    scratch = folder(a.out, "fsdp.work")
    jobs = {name: start(a, name, scratch) for name in a.only.split(",")}
    for ranks in jobs.values():
        for worker in ranks:
            worker.answer("ready", 120)
    rounds = {name: [] for name in jobs}
    take_turns(a, jobs, rounds)
    with open(os.path.join(a.out, "fsdp.json"), "w") as file:
        json.dump(rounds, file)
    print(table(rounds), flush=True)
    for name, ranks in jobs.items():
        end_together(name, ranks)
    shutil.rmtree(scratch, ignore_errors=True)
    return not all(len(found) > 1 for found in rounds.values()) or any(w.failed for ranks in jobs.values() for w in ranks)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tree", nargs="?")
    p.add_argument("out", nargs="?")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=120, help="start nothing new after this time")
    p.add_argument("--only", default=",".join(CONFIGS))
    p.add_argument("--work", action="store_true")
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    if a.work:
        return work(a)
    return compare(a)


if __name__ == "__main__":
    sys.exit(main())
