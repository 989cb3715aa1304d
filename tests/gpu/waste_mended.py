"""Trainings whose memory is freed late, as they are often written, and mended by hand; for waste_mended.sh.

    waste_mended.py play CASE as-is|mended     trains; prints PyTorch's own peak of allocated bytes
    waste_mended.py judge CASE AS-IS.db MENDED.db AS-IS.json MENDED.json TORCH TORCH_MENDED     77 where late frees are not the first advice

    outputs    a GPT-2: `outputs` of the last step are held until the next forward has returned
    gradients  a Llama: zero_grad() stands between forward and backward
    losses     a ResNet-50: validation without no_grad(), whose losses go into a list, each with its graph
    states     an LSTM over a long text: the outputs of all segments are kept in a list
    extractor  a ViT makes features that a head is then trained on, and stays
"""
import json
import sqlite3
import sys

STEPS = 5


def outputs(torch, mended):
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_positions=512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        ids = torch.randint(0, 50257, (8, 512), device="cuda")
        if mended:
            loss = model(input_ids=ids, labels=ids).loss
        else:
            result = model(input_ids=ids, labels=ids)
            loss = result.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def gradients(torch, mended):
    import transformers

    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                                      num_key_value_heads=16, use_cache=False)
    model = transformers.LlamaForCausalLM(config).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=False)
    for _ in range(STEPS):
        ids = torch.randint(0, 32000, (4, 256), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        if not mended:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if mended:
            optimizer.zero_grad()


def losses(torch, mended):
    import torchvision

    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of, history = torch.nn.functional.cross_entropy, []

    def batch(n):
        return torch.randn(n, 3, 128, 128, device="cuda"), torch.randint(0, 1000, (n,), device="cuda")

    def validate():
        x, y = batch(48)
        loss = loss_of(model(x), y)
        history.append(loss.detach() if mended else loss)

    for step in range(STEPS):
        x, y = batch(64)
        loss_of(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step < STEPS - 1:
            validate()


def states(torch, mended):
    model, head = torch.nn.LSTM(512, 1024, 2, batch_first=True).cuda(), torch.nn.Linear(1024, 512).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-4)
    kept, state = [], None
    for _ in range(4 * STEPS):
        x = torch.randn(64, 128, 512, device="cuda")
        y, state = model(x, state)
        loss = torch.nn.functional.mse_loss(head(y), x)
        loss.backward()
        state = tuple(s.detach() for s in state)
        if not mended:
            kept.append(y)
        del y
        optimizer.step()
        optimizer.zero_grad()


def extractor(torch, mended):
    import torchvision

    vit = torchvision.models.vit_b_16().cuda().eval()
    vit.heads = torch.nn.Identity()
    with torch.no_grad():
        features = torch.cat([vit(torch.randn(8, 3, 224, 224, device="cuda")) for _ in range(64)])
    if mended:
        del vit
    labels = torch.randint(0, 1000, (len(features),), device="cuda")
    head = torch.nn.Sequential(torch.nn.Linear(768, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1000)).cuda()
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
    for _ in range(4 * STEPS):
        loss = torch.nn.functional.cross_entropy(head(features), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def play(case, mended):
    import torch

    torch.manual_seed(0)
    {"outputs": outputs, "gradients": gradients, "losses": losses, "states": states, "extractor": extractor}[case](torch, mended)
    torch.cuda.synchronize()
    print("PEAK", torch.cuda.max_memory_allocated())


def peak(path):
    return sqlite3.connect(path).execute("SELECT ifnull(peak_bytes, known_bytes) FROM peak WHERE kind = 'allocated' AND device = 0").fetchone()[0]


def waste(path):
    with open(path) as f:
        device = json.load(f)["files"][0]["devices"][0]
    late = next(k for k in device["kinds"] if k["kind"] == "late free")
    return device["waste"][0], late["seen_lower_bytes"], late["at_most_lower_bytes"], device["together"]["at_most_lower_bytes"]


def judge(case, before, after, waste_before, waste_after, torch_before, torch_after):
    """What falls is what was freed late, less what is freed late still: within 1 % of an interval, as of both there is a figure by the
    uses that were seen and one by the sure ones; and never more than the latter."""
    first, bound, most, together = waste(waste_before)
    _, left, most_left, _ = waste(waste_after)
    at = [peak(before), peak(after)]
    fall, torch_fall, mib = at[0] - at[1], int(torch_before) - int(torch_after), 1 / (1 << 20)
    least, greatest = bound - most_left, most - left
    good = first["kind"] == "late free" and fall <= min(most, together) and least - 0.01 * bound <= fall <= greatest + 0.01 * bound
    counts = first["kind"] == "late free"
    print(f"{'PASS' if good else 'FAIL' if counts else 'NOTE'} {case}: first advice: {first['kind']}, {first['line']}, {first['layer']}: "
          f"{first['seen_lower_bytes'] * mib:.2f} MiB lower as uses were seen, at most {first['at_most_lower_bytes'] * mib:.2f}; all freed late: {bound * mib:.2f} MiB, "
          f"at most {most * mib:.2f}, mended {left * mib:.2f}, at most {most_left * mib:.2f}; "
          f"the peak: {at[0] * mib:.2f} -> {at[1] * mib:.2f} MiB, {fall * mib:.2f} MiB lower, {fall / (bound - left) if bound > left else 0:.2%} of the difference "
          f"(by PyTorch's own count {torch_fall * mib:.2f}); everything counted: at most {together * mib:.2f} MiB")
    return 0 if good else 1 if counts else 77


if __name__ == "__main__":
    if sys.argv[1] == "play":
        play(sys.argv[2], sys.argv[3] == "mended")
    else:
        sys.exit(judge(*sys.argv[2:9]))
