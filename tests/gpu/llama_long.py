"""llama_long.py estimate TOKENS LAYERS: before anything runs | table TOKENS LAYERS DB FACTS: each part of a step beside its formula,
off by no more than 3 %.

The model is examples/torch_llama.py --offload: of a layer its input alone is kept, in the host's memory. P parameters, N tokens, H
hidden, F ffn, L layers, V vocabulary; bytes.
"""
import json
import os
import sqlite3
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import llama_estimate as E  # noqa: E402

GIB, OFF = 1 << 30, 0.03


def shape(tokens, layers):
    return E.Shape(int(tokens), batch=1, layers=int(layers))


def powers(count):
    """What PyTorch's cache of pinned memory takes for COUNT bytes."""
    return 1 << max(0, count - 1).bit_length()


def pinned_states(s, piece=1 << 24):
    """Two states in bf16, by pieces, each rounded up to a power of two."""
    widths = [s.hidden * s.hidden] * 2 + [s.hidden * s.kv] * 2 + [s.hidden * s.ffn] * 3 + [s.hidden] * 2
    matrices = widths * s.layers + [s.vocab * s.hidden] * 2 + [s.hidden]
    return sum(2 * (m // piece * powers(2 * piece) + (powers(2 * (m % piece)) if m % piece else 0)) for m in matrices)


def parts(s):
    """(name, formula, bytes) of what makes the backward's peak, at the layer that is computed again last."""
    p, n = E.parameters(s), s.tokens
    table = 2 * E.head_parameters(s)
    yield "weights", "2 P", 2 * p
    yield "rotary tables, token ids, labels", "2 * 2 N H / heads + 2 * 8 N", 2 * 2 * n * (s.hidden // s.heads) + 2 * 8 * n
    yield "cuBLAS", "4 * 32 MiB", E.CUBLAS
    yield "gradients of all but the embedding and that layer", "2 (P - V H - a layer)", 2 * p - table - 2 * E.layer_parameters(s)
    yield "what the layer keeps for its backward", f"{E.kept_by_layer(s)} N", n * E.kept_by_layer(s)
    yield "gradients inside of its MLP", "(2 H + 2 * 2 F) N + 2 H F", n * E.mlp_backward(s) + 2 * s.hidden * s.ffn


def host_parts(s):
    yield "checkpoints: each layer's input", "2 N H L", s.layers * powers(2 * s.tokens * s.hidden)
    yield "AdamW's two states in bf16", "2 * 2 P, pieces rounded up", pinned_states(s)


def logits(s):
    return E.eager_forward(s.tokens, s.vocab), E.eager_backward(s.tokens, s.vocab)


def show(rows):
    for name, formula, size in rows:
        print(f"  {name:50} {formula:32} {size / GIB:8.3f} GiB")
    print(f"  {'together':83} {sum(size for _, _, size in rows) / GIB:8.3f} GiB")


def estimate(tokens, layers):
    s = shape(tokens, layers)
    print(f"{s.tokens} tokens, {s.layers} layers, {E.parameters(s)} parameters.  On the device, at the backward's peak:")
    show(list(parts(s)))
    print("In the host's pinned memory:")
    show(list(host_parts(s)))
    forward, backward = logits(s)
    print(f"Not there: an eager loss, {forward / GIB:.1f} GiB in the forward and {backward / GIB:.1f} in the backward; "
          f"what all layers keep without checkpoints, {s.tokens * s.layers * E.kept_by_layer(s) / GIB:.1f} GiB", flush=True)
    return 0


def pinned(db):
    """The most host memory that lived at once among the driver's pinned allocations."""
    level = most = 0
    ends = []
    for size, begin, end in db.execute("SELECT size_bytes, t_alloc_ns, t_free_ns FROM allocation WHERE space = 'pinned'"):
        ends += [(begin, size)] + ([(end, -size)] if end is not None else [])
    for _, change in sorted(ends):
        level += change
        most = max(most, level)
    return most


def table(tokens, layers, database, facts_file):
    s, facts = shape(tokens, layers), {"max_memory_allocated": None, "step_ms": [], "losses": "unknown: it did not end"}
    if os.path.exists(facts_file):
        facts = json.load(open(facts_file))
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    phases = dict(db.execute("SELECT phase, allocated_bytes FROM phase_peak WHERE device = 0"))
    kinds = dict(db.execute("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
    expected, host = sum(size for *_, size in parts(s)), sum(size for *_, size in host_parts(s))
    against = [f"{events} events lost: {why}" for events, why in db.execute("SELECT events, why FROM loss")]
    if kinds["framework"] != (facts["max_memory_allocated"] or kinds["framework"]):
        against.append(f"PyTorch's own peak is {facts['max_memory_allocated']}, recorded are {kinds['framework']}")
    print("Recorded peaks, GiB allocated: " + ", ".join(f"{phase} {phases[phase] / GIB:.3f}" for phase in ("forward", "logits", "backward", "optimizer") if phase in phases)
          + f"; reserved {kinds['reserved'] / GIB:.3f}; steps of {', '.join(f'{ms / 1e3:.1f}' for ms in facts['step_ms'])} s; losses {facts['losses']}")
    for what, got, want in (("the backward's peak", phases.get("backward", 0), expected), ("pinned host memory", pinned(db), host)):
        off = got / want - 1
        print(f"{'ok  ' if abs(off) <= OFF else 'FAIL'} {what}: {got / GIB:.3f} GiB recorded, {want / GIB:.3f} by the formulas ({off:+.1%})")
        if abs(off) > OFF:
            against.append(f"{what} is off by {off:+.1%}")
    for line in against:
        print("FAIL", line)
    return bool(against)


if __name__ == "__main__":
    sys.exit({"estimate": estimate, "table": table}[sys.argv[1]](*sys.argv[2:]))
