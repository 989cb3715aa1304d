"""vramscope.patch_loss on Hugging Face models of middle size, for loss_patch.sh.

    losses NAME OUT         the same 50 steps twice without the patch and once with it
    memory NAME LOSS OUT    4 steps, to be recorded by vramscope; LOSS: eager or patched
    table WORK PARTS...     of what these left in WORK; 1 where anything is wrong

A model whose loss jumps (GPT-2 without warm-up) makes of any rounding a different run. So where losses part by more than LIMIT, it
runs again with the loss times 3, 5 and 7 and the gradients divided by that: the same arithmetic, rounded elsewhere. The patched run
may part three steps before the first of these (differences grow tenfold in about three steps), and must learn nine tenths of what
the first one does. With ten steps of warm-up its losses must be within LIMIT.
"""
import gc
import json
import os
import sqlite3
import sys

MODELS = {  # name: vocabulary, hidden size, layers, tokens a step
    "Llama": (128256, 2048, 4, 4096),
    "Mistral": (32000, 2048, 4, 4096),
    "Qwen2": (151646, 1536, 4, 4096),
    "Qwen3": (151936, 2048, 4, 4096),
    "Gemma": (256000, 1024, 4, 2048),
    "Gemma2": (256000, 1024, 4, 2048),
    "Gemma3": (262144, 1152, 4, 2048),
    "GPT2": (50257, 1024, 8, 4096),
}
TRY = bool(os.environ.get("LOSS_PATCH_TRY"))
DEVICE = "cpu" if TRY else "cuda"
SHOWN = [name for name in MODELS if name in os.environ.get("LOSS_PATCH_MODELS", name).split()]
TIED = {"Qwen2", "Gemma", "Gemma2", "Gemma3", "GPT2"}
STEPS, LIMIT, LENGTH, WARM_UP = 50, 1e-2, 1024, 10
EARLIER, LEARNED = 3, 0.9  # steps; share of what the unpatched run learns
if TRY:
    STEPS, LENGTH, MODELS = 12, 64, {name: (1200, 128, 2, 128) for name in MODELS}
    LIMIT = float(os.environ.get("LOSS_PATCH_LIMIT", LIMIT))
MIB, GIB = 1 << 20, 1 << 30


def build(name):
    import torch
    from loss_patch_kit import make

    vocab, hidden, depth, _ = MODELS[name]
    heads = hidden // 128
    sizes = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=depth, head_dim=128,
                 num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=LENGTH)  # fmt: skip
    if name in ("Gemma2", "Gemma3"):
        sizes.update(final_logit_softcapping=30.0)
    return make(name, torch.bfloat16, DEVICE, tie_word_embeddings=name in TIED, **sizes)


def batch_of(step, tokens):
    """Of the vocabulary the text has 1024 tokens, so that there is something to learn."""
    from loss_patch_kit import text

    return text(step, vocab=1024, batch=tokens // LENGTH, length=LENGTH, device=DEVICE)


def steps(model, count, tokens, factor=1, warm_up=0):
    """The losses of COUNT steps.

    FACTOR is multiplied to the loss and divided out of the gradients; unless a power of 2 it changes what rounding does."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 if TRY else 1e-4, fused=True)
    rate, losses = optimizer.param_groups[0]["lr"], []
    for step in range(count):
        batch = batch_of(step, tokens)
        if step <= warm_up:
            optimizer.param_groups[0]["lr"] = rate * (step + 1) / (warm_up + 1)
        loss = model(**batch).loss
        (loss * factor).backward()
        for parameter in model.parameters() if factor != 1 else ():
            parameter.grad /= factor
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        del loss
    return torch.stack(losses).tolist()


def patched(model):
    import vramscope

    vramscope.patch_loss(model)
    return model


def write(path, facts):
    import torch
    import transformers

    facts.update(torch=torch.__version__, transformers=transformers.__version__, device="CPU" if TRY else torch.cuda.get_device_name(0))
    with open(path, "w") as file:
        json.dump(facts, file)


def losses(name, path):
    import torch

    facts = {"name": name, "rounded": [], "warm": []}

    def run(patch=False, **how):
        model = build(name)
        values = steps(patched(model) if patch else model, STEPS, 2 * LENGTH, **how)
        del model
        gc.collect()
        torch.cuda.empty_cache()
        return values

    facts.update(eager=run(), again=run(), patched=run(patch=True))
    if furthest(facts["eager"], facts["patched"]) > LIMIT:
        facts["rounded"] = [run(factor=factor) for factor in (3, 5, 7)]
        facts["warm"] = [run(warm_up=WARM_UP), run(patch=True, warm_up=WARM_UP)]
    write(path, facts)


def memory(name, loss, path):
    import torch
    from vramscope.cross_entropy import workspace_bytes

    vocab, hidden, _, tokens = MODELS[name]
    model = build(name)
    facts = {"name": name, "losses": steps(patched(model) if loss == "patched" else model, 4, tokens)}
    facts.update(peak=torch.cuda.max_memory_allocated(), workspace=workspace_bytes(tokens, hidden, vocab),
                 gradients=2 * hidden * (tokens + vocab))  # fmt: skip
    write(path, facts)


# ---- what it says together ----


def load(work, *name):
    path = os.path.join(work, "-".join(name) + ".json")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)


def furthest(a, b):
    return max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))


def recorded(work, name, loss):
    """The peak that vramscope recorded, and what speaks against the recording."""
    db = sqlite3.connect(f"file:{work}/{name}-{loss}.db?mode=ro", uri=True)
    peaks = dict(db.execute("SELECT kind, peak_bytes FROM peak WHERE device = 0"))
    against = [f"{n} events lost: {why}" for n, why in db.execute("SELECT events, why FROM loss")]
    logits = dict(db.execute("SELECT phase, ranges FROM phase_peak WHERE device = 0")).get("logits", 0)
    return peaks, against + ([] if logits == 4 else [f"{logits} ranges of logits in 4 steps"])


def savings(work, name):
    report = load(work, name, "eager", "report")
    return ((report or {}).get("files") or [{"devices": [{}]}])[0]["devices"][0].get("savings") or {}


def parts(first, other):
    """The step at which the losses of OTHER are further than LIMIT from those of FIRST; STEPS: at none."""
    return next((i for i, (x, y) in enumerate(zip(first, other, strict=True)) if abs(x - y) > LIMIT * abs(x)), STEPS)


def losses_line(work, name):
    facts = load(work, name, "losses")
    if facts is None:
        return False, f"{name:8} losses: nothing came"
    first, patch = facts["eager"], facts["patched"]
    off, drift = furthest(first, patch), furthest(first, facts["again"])
    good = first[-1] < first[0] and patch != first and abs(patch[0] / first[0] - 1) <= LIMIT
    line = f"{name:8} {MODELS[name][0]:6} {first[0]:9.4f} {first[-1]:9.4f} {off:10.1e} {drift:13.1e} {abs(patch[0] / first[0] - 1):11.1e}"
    if off <= LIMIT:
        return good, line
    theirs, learned = [parts(first, rounded) for rounded in facts["rounded"]], (patch[0] - patch[-1]) / (first[0] - first[-1])
    good = good and parts(first, patch) >= min(theirs) - EARLIER and learned >= LEARNED
    apart = " ".join(f"{furthest(first, rounded):.1e}" for rounded in facts["rounded"])
    line += f"  parts at step {parts(first, patch)}; rounded elsewhere {apart}, at {' '.join(map(str, theirs))}; learned {learned:.3f}"
    warm, warm_patched = facts["warm"]
    good = good and furthest(warm, warm_patched) <= LIMIT
    return good, f"{line}; with warm-up {furthest(warm, warm_patched):.1e}, to {warm[-1]:.4f}"


def memory_line(work, name):
    eager, fused = load(work, name, "eager"), load(work, name, "patched")
    if not eager or not fused:
        return False, f"{name:8} memory: nothing came"
    problems, peaks = [], []
    for loss, facts in (("eager", eager), ("patched", fused)):
        found, against = recorded(work, name, loss)
        problems += against
        if found["framework"] != facts["peak"]:
            problems.append(f"PyTorch's peak is {facts['peak']}, recorded {found['framework']}")
        peaks.append(found["allocated"])
    said = savings(work, name)
    floor, own = said.get("peak_without_bytes"), fused["workspace"] + fused["gradients"]
    line = f"{name:8} {MODELS[name][3]:6} {peaks[0] / GIB:9.3f} {peaks[1] / GIB:9.3f} {peaks[1] / peaks[0] - 1:+8.1%}"
    if floor is None:
        return False, f"{line} the eager run's report knows no bound; {'; '.join(problems)}"
    above = peaks[1] - floor
    if above < 0:
        problems.append("below the report's bound")
    if above > own + 64 * MIB:
        problems.append("above the bound by more than its workspace and gradients")
    line += f" {floor / GIB:9.3f} {above / MIB:+10.1f} {fused['workspace'] / MIB:9.1f} {fused['gradients'] / MIB:9.1f}"
    return not problems, " ".join([line, *problems])


def table(work, *parts):
    bad = 0

    def show(good, line):
        nonlocal bad
        bad += not good
        print("ok  " if good else "FAIL", line)

    if "losses" in parts:
        facts = next(filter(None, (load(work, name, "losses") for name in SHOWN)), {})
        print(f"{facts.get('device')}, torch {facts.get('torch')}, transformers {facts.get('transformers')}; {STEPS} steps of {2 * LENGTH} tokens, bf16")
        print("     model     vocab first loss      last    patched  another eager  first step   (largest relative difference)")
        for name in SHOWN:
            show(*losses_line(work, name))
    if "memory" in parts:
        print("     model    tokens eager GiB   patched     fall   at least  above MiB workspace gradients   (peaks recorded by vramscope)")
        for name in SHOWN:
            show(*memory_line(work, name))
    return bad


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.join(here, "../e2e/cross_entropy"))
    sys.exit(bool({"losses": losses, "memory": memory, "table": table}[sys.argv[1]](*sys.argv[2:])))
