"""Roles of an imported snapshot, against what PyTorch itself said while the same process was recorded.

    import_roles.py train CASE OUT [STACKS]   OUT.pickle is the snapshot of the whole run, OUT.json what saved_tensors_hooks saw
    import_roles.py cut SNAPSHOT OUT HOW  as if the recording had begun late: late=SHARE (no frames of what was there before),
                                          ring=SHARE (old entries were dropped), python (frames of Python alone); python-late=SHARE
    import_roles.py check CASE RUN.db OUT.json IMPORT.db [LEAST]   1 where a role is right for less than LEAST (0.99) of its bytes at the peak
"""
import collections
import json
import pickle
import sqlite3
import sys
import time

import roles

STEPS = 4


def plain(name):  # the programs of roles.py with AdamW
    def make(torch):
        model, loss_of, shape = roles.make(torch, name, "cuda", False)

        def batch():
            return torch.randn(shape, device="cuda") if name == "cnn" else torch.randint(0, 8192, shape, device="cuda")

        return model, loss_of, batch, torch.optim.AdamW(model.parameters(), lr=1e-4), {"batches": 4 if name == "accumulate" else 1}

    return make


def perceptron(torch):  # SGD with momentum; gradients stay
    from torch import nn

    model = nn.Sequential(*[m for i in range(5) for m in (nn.Linear(2048, 2048), nn.ReLU(), nn.Dropout(0.1))], nn.Linear(2048, 10)).cuda()
    loss = nn.CrossEntropyLoss()
    return (model, lambda x: loss(model(x), torch.zeros(len(x), dtype=torch.long, device="cuda")), lambda: torch.randn(1024, 2048).cuda(),
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), {"set_to_none": False})


def amp(torch):  # autocast with a scaler, and clipped gradients
    import torchvision

    model = torchvision.models.mobilenet_v3_large(num_classes=200).cuda()

    def loss_of(x):
        with torch.autocast("cuda", torch.float16):
            return torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long, device="cuda"))

    return (model, loss_of, lambda: torch.randn(32, 3, 160, 160, device="cuda"), torch.optim.AdamW(model.parameters()),
            {"scaler": torch.amp.GradScaler("cuda"), "clip": 1.0})


def frozen(torch):  # a frozen trunk in bf16, which a moving average of the head stands beside
    import copy

    from torch import nn

    trunk = nn.Sequential(*[m for i in range(6) for m in (nn.Linear(1024, 1024), nn.GELU())]).to("cuda", torch.bfloat16).requires_grad_(False)
    head = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1000)).cuda()
    average = copy.deepcopy(head).requires_grad_(False)

    def loss_of(x):
        with torch.no_grad():
            features = trunk(x.bfloat16()).float()
        return head(features).square().mean()

    def after():
        with torch.no_grad():
            for a, p in zip(average.parameters(), head.parameters()):
                a.lerp_(p, 0.01)

    return head, loss_of, lambda: torch.randn(2048, 1024, device="cuda"), torch.optim.Adam(head.parameters()), {"after": after}


def resnet(torch):  # SGD with momentum; gradients stay
    import torchvision

    model = torchvision.models.resnet34(num_classes=300).cuda()
    return (model, lambda x: torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long, device="cuda")),
            lambda: torch.randn(24, 3, 176, 176, device="cuda"), torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4),
            {"set_to_none": False})


def lstm(torch):  # cuDNN's recurrent layers, whose weights lie in one block
    from torch import nn

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.recurrent, self.out = nn.Embedding(9000, 640), nn.LSTM(640, 768, 3, batch_first=True, dropout=0.2), nn.Linear(768, 9000)

        def forward(self, ids):
            return self.out(self.recurrent(self.embedding(ids))[0])

    model = Words().cuda()
    return (model, lambda ids: nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()), lambda: torch.randint(0, 9000, (24, 130)).cuda(),
            torch.optim.Adam(model.parameters(), lr=1e-3), {"early": True})


def vit(torch):  # a loop over parameters in the optimizer; gradients stay
    import torchvision

    model = torchvision.models.vision_transformer.VisionTransformer(image_size=128, patch_size=16, num_layers=7, num_heads=6, hidden_dim=384, mlp_dim=1500, num_classes=100).cuda()
    return (model, lambda x: torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.long, device="cuda")),
            lambda: torch.randn(40, 3, 128, 128).cuda(), torch.optim.AdamW(model.parameters(), foreach=False), {"set_to_none": False})


def fused(torch):  # an optimizer that allocates nothing after its first step; no model of torch.nn's own classes alone
    import transformers as T

    config = T.GPT2Config(vocab_size=15000, n_embd=576, n_layer=5, n_head=9, n_positions=512)
    with torch.device("cuda"):
        model = T.GPT2LMHeadModel(config)
    return (model, lambda ids: model(input_ids=ids, labels=ids).loss, lambda: torch.randint(0, 15000, (6, 380), device="cuda"),
            torch.optim.AdamW(model.parameters(), fused=True), {"early": True})


def refused(torch):  # runs out of memory in the third step
    model, loss_of, _, optimizer, how = plain("llama")(torch)
    sizes = [2, 2, 60, 60]
    torch.cuda.set_per_process_memory_fraction(10e9 / torch.cuda.get_device_properties(0).total_memory)
    return model, loss_of, lambda: torch.randint(0, 8192, (sizes.pop(0), 512), device="cuda"), optimizer, how


def generate(torch):  # nobody trains
    import transformers as T

    config = T.LlamaConfig(vocab_size=12000, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12, num_key_value_heads=4)
    model = T.LlamaForCausalLM(config).to("cuda", torch.float16).eval()

    def loss_of(ids):
        with torch.no_grad():
            return model.generate(ids, max_new_tokens=40, do_sample=False, pad_token_id=0)

    return model, loss_of, lambda: torch.randint(0, 12000, (5, 200), device="cuda"), None, {}


def adversaries(torch):  # two models and two optimizers
    from torch import nn

    def net(*widths):
        return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.LeakyReLU(0.2), nn.LayerNorm(b))]).cuda()

    maker, judge = net(128, 1024, 2048, 3072), net(3072, 1536, 768, 1)
    second, mean = torch.optim.RMSprop(judge.parameters(), momentum=0.5), nn.functional.softplus

    def loss_of(x):
        fake = maker(torch.randn(len(x), 128, device="cuda"))
        second.zero_grad()
        (mean(judge(fake.detach())).mean() + mean(-judge(x)).mean()).backward()
        second.step()
        return mean(-judge(fake)).mean()

    return nn.ModuleList([maker, judge]), loss_of, lambda: torch.randn(700, 3072, device="cuda"), torch.optim.NAdam(maker.parameters()), {"early": True}


TUNED = {**{name: plain(name) for name in ("llama", "cnn", "checkpoint", "accumulate")}, "perceptron": perceptron, "amp": amp, "frozen": frozen}
UNSEEN = {"resnet": resnet, "lstm": lstm, "vit": vit, "fused": fused, "refused": refused, "generate": generate, "adversaries": adversaries}
CASES = {**TUNED, **UNSEEN}  # on the first the rules were made, on the others not


def step(torch, model, optimizer, scaler, how):
    if scaler:
        scaler.unscale_(optimizer)
    if "clip" in how:
        torch.nn.utils.clip_grad_norm_(model.parameters(), how["clip"])
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    if "early" not in how:
        optimizer.zero_grad(set_to_none=how.get("set_to_none", True))
    if "after" in how:
        how["after"]()


def train(case, out, stacks="all"):
    import torch

    torch.cuda.memory._record_memory_history(stacks=stacks, max_entries=2_000_000)
    model, loss_of, batch, optimizer, how = CASES[case](torch)
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved, scaler, made = [], how.get("scaler"), 0

    def pack(tensor):
        address = tensor.untyped_storage().data_ptr() if type(tensor) is torch.Tensor and tensor.is_cuda else 0
        if address and address not in parameters:
            saved.append((address, time.monotonic_ns(), "input" if address == made else "activation"))
        return tensor

    try:
        for _ in range(STEPS):
            if "early" in how:
                optimizer.zero_grad()
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                for _ in range(how.get("batches", 1)):
                    x = batch()
                    made = x.untyped_storage().data_ptr()
                    loss = loss_of(x)
                    if optimizer:
                        (scaler.scale(loss) if scaler else loss).backward()
                    del loss
            if optimizer:
                step(torch, model, optimizer, scaler, how)
    except torch.OutOfMemoryError:
        print("out of memory")
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(out + ".pickle")
    with open(out + ".json", "w") as f:
        json.dump(saved, f)


def is_native(frame):
    name, file = frame["name"], frame["filename"]
    return not file or file == "??" or file.endswith((".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hpp", ".so", ".o")) or "::" in name


def cut(source, target, how):
    with open(source, "rb") as f:
        snapshot = pickle.load(f)
    python, _, how = how.rpartition("-") if "=" in how else (how, "", "")
    kind, _, share = how.partition("=")
    kept = set()
    for i, trace in enumerate(snapshot["device_traces"]):
        trace = trace[int(len(trace) * float(share or 0)):]
        snapshot["device_traces"][i] = trace
        for e in trace:  # the last allocation at an address is what lives there in the end
            if e["action"] == "alloc":
                kept.add(e["addr"])
    blocks = [b for g in snapshot["segments"] for b in g["blocks"]]
    if kind == "late":
        for b in blocks:
            if b["address"] not in kept:
                b["frames"] = []
    if python == "python":
        seen = {}
        for e in [e for trace in snapshot["device_traces"] for e in trace] + blocks + snapshot["segments"]:
            if "frames" in e:  # a list that many share stays one
                e["frames"] = seen.setdefault(id(e["frames"]), (e["frames"], [f for f in e["frames"] if not is_native(f)]))[1]
    with open(target, "wb") as f:
        pickle.dump(snapshot, f)


def by_address(db, rows):
    """The blocks at each address, the last first: so the blocks of a run and those of a snapshot of its end are paired."""
    at = collections.defaultdict(list)
    for seq, address in db.execute(rows):
        at[address].append(seq)
    return {seq: (address, len(seqs) - i) for address, seqs in at.items() for i, seq in enumerate(seqs)}


BLOCKS = "SELECT seq, CASE WHEN address < 0 THEN -address ELSE address * 512 END FROM ev WHERE op = 20 ORDER BY seq"


def truth(path, facts):
    """By address and number from the end: what PyTorch said of the block, else what autograd saved it as, else None; and what its accesses say."""
    db = sqlite3.connect(path)
    with open(facts) as f:
        saved = roles.activations(db, json.load(f))
    said = dict(db.execute("SELECT alloc_seq, role FROM framework_says"))
    used = dict(db.execute("SELECT alloc_seq, role FROM access_role"))
    return {key: (said.get(seq) or saved.get(seq), used.get(seq)) for seq, key in by_address(db, BLOCKS).items()}


def agree(found, told):
    return found == told or (found == "activation" and told == "input")  # what a program saves is its input too


def check(case, run, facts, imported, least):
    known, db = truth(run, facts), sqlite3.connect(imported)
    keys = by_address(db, BLOCKS)
    found = dict(db.execute("SELECT alloc_seq, role FROM life_role"))
    sizes = dict(db.execute("SELECT seq, CASE WHEN size < 0 THEN -size ELSE size * 512 END FROM ev WHERE op = 20"))
    peak = {row[0] for row in db.execute("SELECT alloc_seq FROM live_at_peak")}
    lines = dict(db.execute("SELECT alloc_seq, line FROM live_at_peak"))
    bad = 0
    for name, blocks in (("peak", peak & set(keys)), ("all blocks", set(keys))):
        right, wrong, alone, silent, what = (collections.Counter() for _ in range(5))
        for seq in blocks:
            role, size, (told, used) = found.get(seq), sizes[seq], known.get(keys[seq], (None, None))
            if role in (None, "not told"):
                silent[told or f"no witness ({used})"] += size
            elif told is None:
                alone[role, used] += size
            elif agree(role, told):
                right[role] += size
            else:
                wrong[role] += size
                what[role, told, lines.get(seq)] += size
        print(f"-- {case}, {name}: {sum(sizes[s] for s in blocks)} bytes")
        for role in sorted(set(right) | set(wrong)):
            all_ = right[role] + wrong[role]
            good = right[role] >= least * all_
            bad += name == "peak" and not good
            print(f"{'PASS' if good else 'FAIL'} {case} {role}: {right[role] / all_:.2%} of {all_} bytes that have a witness")
        for (role, told, line), size in what.most_common(5):
            print(f"     {size} bytes called {role} are {told}: {line}")
        for (role, used), size in alone.most_common(4):
            print(f"     {size} bytes called {role} have no witness; their accesses: {used}")
        print(f"     unknown: {sum(silent.values())} bytes ({sum(silent.values()) / max(1, sum(sizes[s] for s in blocks)):.2%})", dict(silent.most_common(6)))
    return bad > 0


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(*sys.argv[2:5])
    elif sys.argv[1] == "cut":
        cut(*sys.argv[2:5])
    else:
        sys.exit(check(*sys.argv[2:6], float(sys.argv[6]) if len(sys.argv) > 6 else 0.99))
