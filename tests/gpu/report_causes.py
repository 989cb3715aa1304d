"""Training runs whose peaks have one known cause each, and whether the first screen of a report says it and nothing else.

    report_causes.py train CASE STEPS FACTS    trains; what the program knows itself goes to FACTS as JSON
    report_causes.py check CASE DB FACTS VRAMSCOPE    the report of the run against it; one line, exit status 1 where it differs

Cases: logits (50257 classes; gradients freed before forward), foreach (AdamW's default), single (foreach=False), fused, kept
(zero_grad(set_to_none=False)), leak (a tensor of 1 MiB a step).
"""
import json
import subprocess
import sys

CLASSES = {"logits": 50257}
SHAPE = {"logits": (768, 6, 1024, 8)}


def train(case, steps, facts):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    from bench_models import Block

    classes = CLASSES.get(case, 2048)
    hidden, layers, context, batch = SHAPE.get(case, (768, 12, 256, 2))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(classes, hidden), nn.Embedding(context, hidden)
            self.blocks = nn.ModuleList(Block(hidden, hidden // 64) for _ in range(layers))
            self.norm, self.lm_head = nn.LayerNorm(hidden), nn.Linear(hidden, classes, bias=False)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.lm_head(self.norm(x))

    model = Decoder().cuda()
    how = {"single": {"foreach": False}, "fused": {"fused": True}}.get(case, {})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    history = []
    for _ in range(steps):
        ids = torch.randint(0, classes, (batch, context), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids)
        loss = F.cross_entropy(logits.float().view(-1, classes), ids.view(-1))
        loss.backward()
        gradients = sum((p.grad.numel() * p.grad.element_size() + 511) // 512 * 512 for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad(set_to_none=case != "kept")
        if case == "leak":
            history.append(torch.zeros(1 << 18, device="cuda"))
    torch.cuda.synchronize()
    with open(facts, "w") as f:
        json.dump({"gradients": gradients, "logits": batch * context * classes * 2}, f)


def check(case, db, facts, vramscope):
    with open(facts) as f:
        known = json.load(f)
    device = json.loads(subprocess.run([vramscope, "report", "--json", db], capture_output=True, check=True).stdout)["files"][0]["devices"][0]
    screen = subprocess.run([vramscope, "report", "--all", db], capture_output=True, check=True, text=True).stdout.splitlines()[:25]
    said = {line.split(":")[0].strip() for line in screen if line.startswith("    ") and line[4] != " "} & {"logits", "optimizer", "kept", "leak"}
    causes, growth = device["causes"], device["growth"]
    wanted = {"logits": {"logits"}, "foreach": {"optimizer"}, "single": set(), "fused": set(), "kept": {"kept"}, "leak": {"optimizer", "leak"}}[case]
    failed = [] if case == "single" or said == wanted else [f"said {sorted(said)}, not {sorted(wanted)}"]
    if any(len(line) > 100 for line in screen):
        failed.append("a line of more than 100 columns")
    if case == "logits" and not (causes["logits_bytes"] >= known["logits"] and "report_causes.py" in causes["logits_line"]):
        failed.append(f"logits: {causes['logits_bytes']}, at least {known['logits']}")
    # a tensor's block may be larger than the tensor by what is not worth to be cut off
    if case in ("foreach", "leak") and not 1 <= (causes["optimizer_foreach_bytes"] or 0) / known["gradients"] <= 1.02:
        failed.append(f"foreach: {causes['optimizer_foreach_bytes']}, not {known['gradients']}")
    if case in ("single", "fused") and causes["optimizer_foreach_bytes"] is not None:
        failed.append("foreach is said of another implementation")
    if case == "kept" and not 0 <= causes["left_by_backward_bytes"] - known["gradients"] <= 64 << 20:  # cuBLAS keeps its workspace
        failed.append(f"kept: {causes['left_by_backward_bytes']}, not {known['gradients']}")
    if case == "leak" and [(g["per_step_bytes"], g["since_step"]) for g in growth["grows"]] != [(1 << 20, 1)]:
        failed.append(f"leak: {growth}")
    print(f"{'FAIL' if failed else 'PASS'} {case}: {'; '.join(failed) or ', '.join(sorted(said)) or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(check(*sys.argv[2:6]))
