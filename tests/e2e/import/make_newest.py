"""make_newest.py DIRECTORY - snapshots as PyTorch 2.15 writes them, for import_newest.sh."""
import os
import pickle
import random
import sys

from torch_allocator import MIB, POOL, Allocator, program

out = sys.argv[1]
TORCH = "/opt/site/torch"  # in no site-packages


def entry(action, address, size, time, frames=(), pool=(0, 0), said=""):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "compile_context": "N/A", "user_metadata": said,
            "pool_id": pool, "frames": [{"name": n, "filename": f, "line": line} for n, f, line in frames]}


def newest(allocators, **more):
    traces = [[{**e, "compile_context": "N/A", "user_metadata": "", "pool_id": p} for e, p in zip(a.trace, a.pools)] for a in allocators]
    settings = {**(allocators[0] if allocators else Allocator()).settings(), "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
                "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False, "max_round_threshold": -1, "max_cached_size": -1}
    snapshot = {"segments": [s for d, a in enumerate(allocators) for s in a.segments_of(d)], "device_traces": traces, "allocator_settings": settings,
                "external_annotations": [], "host_segments": [], "host_traces": []}
    return {**snapshot, **more}


def write(name, snapshot):
    with open(os.path.join(out, name + ".pickle"), "wb") as f:
        pickle.dump(snapshot, f)


# pools that are gone when the snapshot is taken, with all that was in them
a = Allocator(seed=41)
program(a, 5, 41, streams=(0, POOL, 2 * POOL))
for s in [s for s in a.segments if s.stream >= POOL]:
    for b in [b for b in s.blocks if b.state == "active_allocated"]:
        a.free(b)
a.ended |= {1, 2}
a.release_all()
program(a, 2, 42)
write("pools", newest([a]))
late = newest([a])
late["device_traces"][0] = late["device_traces"][0][400:]
write("pools_midway", late)

# the same, told to skip the requests of frees; and half of it, in which blocks from before are freed
skipped = newest([a])
skipped["device_traces"][0] = [e for e in skipped["device_traces"][0] if e["action"] != "free_requested"]
write("skipped", skipped)
late["device_traces"][0] = [e for e in late["device_traces"][0] if e["action"] != "free_requested"]
write("skipped_midway", late)

# one block after another, each known: where its line is, and what was said of it
PYTHON = [("??", "/usr/bin/python3.12", 5775726), ("_PyEval_EvalFrameDefault", "/usr/bin/python3.12", 6123790), ("_start", "/usr/bin/python3.12", 4192)]
ASKED = [("torch::unwind::unwind()", TORCH + "/lib/libtorch_cpu.so", 108146796), ("??", TORCH + "/lib/libc10_cuda.so", 319562),
         ("at::_ops::empty_strided::call(long)", TORCH + "/lib/libtorch_cpu.so", 43368271), ("??", TORCH + "/lib/libtorch_python.so", 4981850)]
CALL = ("_call_impl", TORCH + "/nn/modules/module.py", 1798)
THREAD = [("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", TORCH + "/lib/libtorch_cpu.so", 83912254),
          ("??", "/lib/x86_64-linux-gnu/libstdc++.so.6", 970163), ("??", "/lib/x86_64-linux-gnu/libc.so.6", 641923)]
NODE = ("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", TORCH + "/lib/libtorch_cpu.so", 83934254)
STACKS = [ASKED + PYTHON[:1] + [("forward", TORCH + "/nn/modules/linear.py", 134), CALL, ("forward", "/app/model.py", 10)] + PYTHON[1:] + [CALL, ("<module>", "/app/train.py", 3)],
          ASKED + PYTHON[:1] + [("to", TORCH + "/nn/modules/module.py", 1098)] + PYTHON[1:] + [("<module>", "/app/train", 7)],
          ASKED[:3] + [NODE] + THREAD,
          ASKED + THREAD,
          ASKED + [NODE] + [("step", "/app/torch/trainer.py", 3)] + PYTHON]
a = Allocator()
blocks = [a.malloc((i + 1) * MIB, 0, stack) for i, stack in enumerate(STACKS)]
again = [a.malloc((i + 21) * MIB, 0, STACKS[1]) for i in range(4)]
a.free(again[2])
known = newest([a])
trace = known["device_traces"][0]
said = {21: "warm", 23: '{"at":"step.3"}', 24: ""}
for e in trace:
    if e["action"] == "alloc":
        e["user_metadata"] = said.get(e["size"] // MIB, "")
at = [i for i, e in enumerate(trace) if e["action"] == "alloc"][-1] + 1
trace[at:at] = [entry("annotate", b.address, b.size, trace[-1]["time_us"], STACKS[1], said=text)
                for b, text in ((again[0], "packed"), (again[1], "packed"), (again[1], "twice"), (again[2], "packed"))]
trace[at:at] = [{**entry("annotate", 0, 0, trace[-1]["time_us"]), "addr": "here"}, entry("annotate", 77, 0, 0, said="nobody's")]
write("known", known)
write("newer", {**known, "device_traces": [trace + [entry("segment_shrink", 512, 512, trace[-1]["time_us"])]]})

# an optimizer's steps by PyTorch's marks alone: no stacks; the second allocates nothing, the third has not ended
a = Allocator()
a.malloc(MIB)
trace = a.trace


def mark(stage, name="Optimizer.step#SGD.step"):
    a.time += 7
    return {"name": name, "stage": stage, "device": 0, "time_us": a.time}


marks = [mark("START")]
state = a.malloc(3 * MIB)
marks += [mark("START", "Optimizer.zero_grad#SGD.zero_grad"), mark("END", "Optimizer.zero_grad#SGD.zero_grad"), mark("END")]
a.malloc(2 * MIB)
marks += [mark("START"), mark("START", "mine"), mark("END", "mine"), mark("END")]
a.malloc(5 * MIB)
marks += [mark("START")]
a.malloc(7 * MIB)
write("marks", newest([a], external_annotations=marks))
write("marks_late", newest([a], external_annotations=marks[3:]))
broken = [{"name": m["name"], "stage": "END", "device": 0, "time_us": m["time_us"]} for m in marks] + [{"stage": "START"}, {"name": 5}, 7]
write("marks_broken", newest([a], external_annotations=broken))


# page-locked memory: whole segments, each in use or not; recording began after the first two
def host_segment(address, size, state="active_allocated"):
    block = {"address": address, "size": size, "requested_size": size, "state": state, "frames": []}
    return {"device": -1, "address": address, "total_size": size, "allocated_size": size if state == "active_allocated" else 0,
            "active_size": 0 if state == "inactive" else size, "requested_size": size, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [], "blocks": [block]}


def pinned(a, steps, seed):
    r, live, idle, trace, at = random.Random(seed), {}, {}, [], 0x700000000000
    for i in range(2):
        live[at] = MIB << i
        at += 64 * MIB
    start, most, now = sum(live.values()), 0, sum(live.values())
    note = lambda action, address, size, frames=(): trace.append(entry(action, address, size, a.trace[0]["time_us"] + 3 * len(trace), frames))
    for _ in range(steps):
        what = r.random()
        if what < 0.5 or not live:
            size = 1 << r.randrange(12, 24)
            fits = [x for x, n in idle.items() if n == size]
            address = fits[0] if fits else at
            if not fits:
                at += 64 * MIB
                note("segment_alloc", address, size, STACKS[0])
                now += size
            note("alloc", address, size, STACKS[0])
            idle.pop(address, None)
            live[address] = size
        elif what < 0.85:
            address = r.choice(sorted(live))
            note("free_requested", address, live[address])
            note("free_completed", address, live[address])
            idle[address] = live.pop(address)
        else:
            for address in list(idle):
                note("segment_free", address, idle[address])
                now -= idle.pop(address)
        most = max(most, now)
    # the program's own: its segment has no stack, and its block has
    note("segment_alloc", at, 12345)
    note("alloc", at, 12345, STACKS[1])
    now += 12345
    segments = [host_segment(x, n) for x, n in live.items()] + [host_segment(x, n, "inactive") for x, n in idle.items()] + [host_segment(at, 12345)]
    return trace, segments, start, max(most, now), now


a = Allocator(seed=51)
program(a, 3, 51)
trace, segments, start, most, end = pinned(a, 400, 51)
both = newest([a], host_traces=trace, host_segments=segments)
write("pinned", both)
settings = {**both["allocator_settings"], "pinned_use_cuda_host_register": True}
write("registered", {**both, "allocator_settings": settings})
write("host_alone", newest([], host_traces=trace, host_segments=segments))
write("host_less", {**both, "host_segments": segments[3:]})
write("bad_host", {**both, "host_traces": [{"action": "segment_alloc", "addr": 4096}]})
print(most, end)
