"""llama_estimate.py - the estimate of examples/torch_llama.py's memory against published figures and PyTorch's own allocations.

Small sizes train on the CPU, where PyTorch's profiler tells every allocation: each phase's highest level must be the estimate's.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../../examples"), os.path.join(HERE, "../../../shim/framework/python"), os.path.join(HERE, "../../gpu")]
import llama_estimate as E  # noqa: E402
import llama_long as long  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
SMALL = dict(batch=2, hidden=128, heads=4, kv_heads=2, ffn=448)
bad = []


def expect(what, got, want, slack=0.0):
    good = abs(got - want) <= slack
    print("ok  " if good else "FAIL", f"{what}: {got} estimated, {want}" + (f" +- {slack}" if slack else ""))
    if not good:
        bad.append(what)


def published():
    """Figures of public reports, to the digits that they give."""
    expect("Qwen2.5-14B, ZeRO-3 on 8: static, GB", E.adam(14e9, shards=8) / 1e9, 28)
    expect("its checkpoints, GiB", E.checkpoints(4096, 48, 5120) / GIB, 1.875)
    expect("its logits, GiB", round(E.eager_backward(4096, 152064) / GIB, 2), 6.96)
    expect("and for a batch of 2, GiB", round(E.eager_backward(2 * 4096, 152064) / GIB, 2), 13.92)
    expect("Qwen-72B, ZeRO-3 on 32, 18 bytes each: static, MiB", int(E.adam(72e9, 18, 32) / MIB), 38623)
    expect("its embedding in fp32, MiB", int(E.logits(8192, 151646, 4) / MIB), 4738)
    for each, gib in ((2, 15.61), (4, 31.23)):
        expect(f"Llama 3, 2 x 32678 tokens, {each} bytes, GiB", round(E.logits(2 * 32678, 128256, each) / GIB, 2), gib)


def llama_3_8b():
    expect("Llama 3 8B has parameters", E.parameters(E.Shape(8192, layers=32)), 8030261248)


def allocations(profile):
    """(time, bytes) of each allocation and free, in order; without what a CPU's product takes for itself and gives back."""
    found, left = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while left:
        event = left.pop()
        left += event.children
        own = [e for e in event.children if hasattr(e.extra_fields, "alloc_size")]
        if event.name == "aten::mm":
            returned = {e.extra_fields.ptr for e in own if e.extra_fields.alloc_size < 0}
            own = [e for e in own if e.extra_fields.ptr not in returned]
        elif not event.parent and hasattr(event.extra_fields, "alloc_size"):
            own = [event]
        found += [(e.start_time_ns, e.extra_fields.alloc_size) for e in own]
    return sorted(found, key=lambda entry: entry[0])


def highest(step):
    """How much memory STEP has at most, over what was there before; and what it leaves."""
    from torch.profiler import profile

    with profile(profile_memory=True) as recorded:
        step()
    level = peak = 0
    for _, size in allocations(recorded):
        level += size
        peak = max(peak, level)
    return peak, level


def measured(shape, loss, *more):
    """Phase to its peak over what a step begins with, as PyTorch's allocator was asked for it."""
    import torch_llama as T

    sizes = [f"--{name.replace('_', '-')}={getattr(shape, name)}"
             for name in "tokens batch layers hidden heads kv_heads ffn vocab state_dtype".split()]  # fmt: skip
    sys.argv = ["torch_llama.py", "--device=cpu", "--loss=" + loss, *sizes, *more, *(["--tied"] if shape.tied else [])]
    a = T.parse()
    model, optimizer = T.build(a)
    ids, labels = T.Text(a).batch("cpu")
    T.train_step(model, optimizer, ids, labels)  # the optimizer's states
    kept, peaks, held = [], {}, 0

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for phase, action in (("logits", lambda: kept.append(model(ids, labels))),
                          ("backward", lambda: kept.pop().backward()), ("optimizer", update)):  # fmt: skip
        peak, level = highest(action)
        peaks[phase] = held + peak
        held += level
    return peaks


def against_pytorch():
    import vramscope.cross_entropy as L

    for name, sizes in (
        ("three layers", dict(tokens=512, layers=3, vocab=4000)),
        ("few tokens", dict(tokens=16, layers=3, vocab=4000)),
        ("a small vocabulary", dict(tokens=2048, layers=2, vocab=300)),
        ("one layer, fp32 states", dict(tokens=128, layers=1, vocab=4000, state_dtype="fp32")),
        ("a wide MLP", dict(tokens=1024, layers=2, vocab=300, ffn=1024)),
        ("tied", dict(tokens=64, layers=2, vocab=4000, tied=True)),
    ):
        shape = E.Shape(**{**SMALL, **sizes})
        for loss in ("eager", "fused"):
            workspace = L.workspace_bytes(shape.tokens, shape.hidden, shape.vocab, device="cpu") if loss == "fused" else 0
            got, base = measured(shape, loss), E.static(shape) + E.CUBLAS
            for phase, want in E.phases(shape, loss, workspace).items():
                # the loss, and what attention and embedding work with
                expect(f"{name}, {loss}, {phase}", want - base, got[phase], 512)


def long_context():
    """The backward's peak where layers are computed again; their inputs, in device memory here, are said apart."""
    for tokens, layers in ((64, 3), (128, 2)):
        shape = E.Shape(**{**SMALL, "batch": 1, "tokens": tokens, "layers": layers, "vocab": 300})
        got = measured(shape, "fused", "--checkpointing")["backward"]
        always = {"weights", "rotary tables, token ids, labels", "cuBLAS"}  # there before the step
        want = sum(size for name, _, size in long.parts(shape) if name not in always)
        one = 2 * tokens * shape.hidden  # a layer's input; whether one more is there depends on when its owner goes
        expect(f"long context, {tokens} tokens, {layers} layers, backward", want + 3 * one // 2, got, one // 2 + 5632)  # 5056: the generator's state
    at_size = dict((name, size) for name, _, size in long.host_parts(long.shape(131072, 32)))
    expect("its checkpoints at the real size, GiB", list(at_size.values())[0] / GIB, 32)


def main():
    published()
    llama_3_8b()
    try:
        import torch
    except ImportError:
        print("not held against PyTorch: there is none here (TEST_PYTHON names a Python that has it)")
    else:
        torch.set_num_threads(1)
        against_pytorch()
        long_context()
    print(f"{len(bad)} wrong")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
