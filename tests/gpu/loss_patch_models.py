"""loss_patch_models.py - vramscope.patch_loss on Hugging Face models of middle size, for loss_patch.sh.

    losses NAME OUT         the same 50 steps twice without the patch and once with it, in one process; where these part,
                            more without it, with every gradient rounded elsewhere; gradients on the same weights
    memory NAME LOSS OUT    4 steps, to be recorded by vramscope; LOSS: eager or patched
    compiled OUT            10 steps under torch.compile in one graph, without and with the patch
    table WORK PARTS...     of what these left in WORK; 1 where anything is wrong

Weights are random, vocabularies those of real tokenizers, text.  Everything in bf16 with PyTorch's fused AdamW.

Loss and gradients are also held against the exact ones on the same weights and text, at steps of the unpatched run: the
output layer and its loss in fp32, behind the same hidden states.  Of the output layer's weight and of all others the
patched gradient may be no further off than the unpatched one is, nor longer or shorter, to 3e-3.  Gradients that are
made 1 % longer must fail that, which is tried each time.

A model whose loss jumps while it learns (GPT-2 at this rate, without warm-up) makes of any rounding a different run: bits
that differ once are percents ten steps later.  A second run without the patch says nothing of that where it repeats the
first bit by bit.  So of a model whose losses part by more than LIMIT, the same run is made with the loss multiplied by 3,
5 and 7, and the gradients divided by that: the same arithmetic, in which other bits are rounded.  How far such runs are
apart at the end is no measure (it is as large as what there is to learn, and differs by run), but when they part is:
differences grow tenfold in about three steps, whoever made them.  The patched run may part from the first one three steps
before the first of these does, and has to learn nine tenths of what the first one does.  With ten steps of warm-up no
loss jumps: so trained, the same model's losses have to be within LIMIT.

LOSS_PATCH_TRY=1 tries `losses` and their table on the CPU, at sizes of no meaning.
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
STEPS, LIMIT, LENGTH, WARM_UP, EVERY = 50, 1e-2, 1024, 10, 7
LONGER, EARLIER, LEARNED = 3e-3, 3, 0.9  # of a gradient's length; steps; share of what the unpatched run learns
if TRY:
    STEPS, LENGTH, MODELS = 12, 64, {name: (1200, 128, 2, 128) for name in MODELS}
    LIMIT = float(os.environ.get("LOSS_PATCH_LIMIT", LIMIT))
MIB, GIB = 1 << 20, 1 << 30


def build(name, layers=None, size=None):
    import torch
    from loss_patch_kit import make

    vocab, hidden, depth, _ = MODELS[name]
    hidden, depth = size or hidden, layers or depth
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


def steps(model, count, tokens, factor=1, warm_up=0, look=None):
    """The losses of COUNT steps; LOOK is called with the model and each step's batch before it.

    FACTOR is multiplied to the loss and divided out of the gradients; unless a power of 2 it changes what rounding does."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 if TRY else 1e-4, fused=True)
    rate, losses = optimizer.param_groups[0]["lr"], []
    for step in range(count):
        batch = batch_of(step, tokens)
        if look:
            look(step, model, batch)
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


def exact_loss(model, batch):
    """The loss behind the model's own hidden states, with an output layer in fp32."""
    import torch
    import torch.nn.functional as F

    hidden = model.base_model(input_ids=batch["input_ids"]).last_hidden_state[:, :-1].flatten(0, 1)
    logits = F.linear(hidden.float(), model.get_output_embeddings().weight.float())
    cap = getattr(model.config, "final_logit_softcapping", None)
    return F.cross_entropy(torch.tanh(logits / cap) * cap if cap else logits, batch["labels"][:, 1:].flatten())


def gradients(model, loss):
    loss.backward()
    taken = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return taken


def distances(found, exact, head):
    """[how far off, how much longer] FOUND is, of the output layer's weight and of all others; relative to EXACT."""
    import torch

    sums = {True: torch.zeros(3, dtype=torch.float64, device=DEVICE), False: torch.zeros(3, dtype=torch.float64, device=DEVICE)}
    for name, x in exact.items():
        x, g = x.float(), found[name].float()
        sums[name == head] += torch.stack([(g - x).square().sum(), (g * x).sum(), x.square().sum()])
    return {kind: [(off / size).sqrt().item(), (along / size).item() - 1] for kind, (off, along, size) in (("head", sums[True]), ("rest", sums[False]))}


def looker(rows):
    """Adds to ROWS what every EVERY-th step's gradients are: unpatched, patched, and patched with a fault planted."""
    import vramscope

    def look(step, model, batch):
        if step % EVERY:
            return
        weight = model.get_output_embeddings().weight
        head = next(name for name, parameter in model.named_parameters() if parameter is weight)
        row = {"step": step, "loss": {}}
        loss = exact_loss(model, batch)
        row["loss"]["exact"], exact = loss.item(), gradients(model, loss)
        for kind in ("eager", "patched"):
            if kind == "patched":
                vramscope.patch_loss(model)
            loss = model(**batch).loss
            row["loss"][kind], found = loss.item(), gradients(model, loss)
            row[kind] = distances(found, exact, head)
        vramscope.unpatch_loss(model)
        for gradient in found.values():
            gradient *= 1.01
        row["planted"] = distances(found, exact, head)
        rows.append(row)

    return look


def losses(name, path):
    import torch

    facts = {"name": name, "rounded": [], "warm": [], "gradients": []}

    def run(patch=False, **how):
        model = build(name)
        values = steps(patched(model) if patch else model, STEPS, 2 * LENGTH, **how)
        del model
        gc.collect()
        torch.cuda.empty_cache()
        return values

    facts.update(eager=run(look=looker(facts["gradients"])), again=run(), patched=run(patch=True))
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


def compiled(path):
    import torch

    facts = {}
    for kind in ("eager", "patched", "compiled", "patched and compiled"):
        model = build("Llama", layers=2, size=1024)
        model = patched(model) if "patched" in kind else model
        run = torch.compile(model, fullgraph=True) if "compiled" in kind else model
        values = steps(run, 3, 4096)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        facts[kind] = {"losses": values + steps(run, 7, 4096), "peak": torch.cuda.max_memory_allocated()}
        del model, run
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
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


def right(row, kind):
    """Whether the gradients of KIND are as good as the unpatched ones, or a little worse by chance.

    Where the softmax is flat, all of a gradient is rounded to the same side: unpatched ones are up to 4e-3 too long or short."""
    for part in ("head", "rest"):
        (off, longer), (their_off, their_longer) = row[kind][part], row["eager"][part]
        if off > 1.25 * their_off + 1e-3 or abs(longer) > max(LONGER, 1.25 * abs(their_longer) + 1e-3):
            return False
    return True


def gradients_line(work, name):
    rows = (load(work, name, "losses") or {}).get("gradients")
    if not rows:
        return False, f"{name:8} gradients: nothing came"
    good = all(right(row, "patched") and abs(row["loss"]["patched"] / row["loss"]["exact"] - 1) <= 1e-3 for row in rows)
    noticed = not any(right(row, "planted") for row in rows)
    cells = []
    for part in ("head", "rest"):
        for place, form in ((0, "8.1e"), (1, "+9.1e")):
            cells += [format(max((row[kind][part][place] for row in rows), key=abs), form) for kind in ("eager", "patched")]
    loss = max(abs(row["loss"]["patched"] / row["loss"]["exact"] - 1) for row in rows)
    line = f"{name:8} {len(rows):5} {loss:9.1e} {' '.join(cells)}   {'noticed' if noticed else 'NOT NOTICED'}"
    return good and noticed, line


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


def compiled_lines(work):
    facts = load(work, "compiled")
    if facts is None:
        yield False, "compiled: nothing came"
        return
    for kind in ("patched", "compiled", "patched and compiled"):
        off = furthest(facts["eager"]["losses"], facts[kind]["losses"])
        peak, before = facts[kind]["peak"], facts["compiled" if kind == "patched and compiled" else "eager"]["peak"]
        good = off <= LIMIT and (kind == "compiled" or peak < before)
        yield good, f"{kind:22} losses of 10 steps off eager's by {off:.1e}; peak {peak / GIB:.3f} GiB, eager {facts['eager']['peak'] / GIB:.3f}"


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
        print("     model    steps loss off  head: off, eager's and patched  longer        rest: off           longer         1 % longer   (the furthest of the steps)")
        for name in SHOWN:
            show(*gradients_line(work, name))
    if "memory" in parts:
        print("     model    tokens eager GiB   patched     fall   at least  above MiB workspace gradients   (peaks recorded by vramscope)")
        for name in SHOWN:
            show(*memory_line(work, name))
    if "compiled" in parts:
        for result in compiled_lines(work):
            show(*result)
    return bad


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.join(here, "../e2e/cross_entropy"))
    sys.exit(bool({"losses": losses, "memory": memory, "compiled": compiled, "table": table}[sys.argv[1]](*sys.argv[2:])))
