"""estimate.py train CASE STEPS DIR [--cpu]: writes DIR/config.json as transformers does | check CASE DIR DB VRAMSCOPE OUT: rows of
Markdown, added to OUT. 1 where a figure that is exact by formula is off by more than 5 %: a block may be 1 MiB larger than its
tensor.
"""
import json
import subprocess
import sys

CASES = {  # model_type, its sizes, batch, tokens, options of the estimate, recompute, optimizer
    "llama": ("llama", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                            vocab_size=128256, tie_word_embeddings=True), 4, 2048, []),
    "llama-recompute": ("llama", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                                      head_dim=64, vocab_size=128256, tie_word_embeddings=True), 4, 2048, ["--recompute=full"]),
    "llama-short": ("llama", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                                  head_dim=64, vocab_size=32000, tie_word_embeddings=False), 1, 128, []),
    "gpt2": ("gpt2", {}, 8, 1024, []),
    "qwen2": ("qwen2", dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                            vocab_size=151936, tie_word_embeddings=True), 4, 1024, []),
    "tiny": ("llama", dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                           vocab_size=500, tie_word_embeddings=False), 2, 32, []),
}
EXACT = ("parameters", "gradients", "optimizer states")


def train(case, steps, folder, cpu):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, sizes, batch, tokens, options = CASES[case]
    device = "cpu" if cpu else "cuda"
    config = AutoConfig.for_model(kind, **sizes)
    config.use_cache = False
    config.save_pretrained(folder)
    torch.manual_seed(1)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.train()
    if "--recompute=full" in options:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, config.vocab_size, (batch, tokens), device=device)
    for _ in range(steps):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if not cpu:
        torch.cuda.synchronize()


def gib(n):
    return "-" if n is None else f"{n / (1 << 30):.3f}"


def change(estimate, measured):
    return "-" if not estimate or measured is None else f"{100 * (measured / estimate - 1):+.1f} %"


def check(case, folder, db, vramscope, out):
    kind, _, batch, tokens, options = CASES[case]
    command = [vramscope, "estimate", "--json", "--recipe=bf16", f"--batch={batch}", f"--seq={tokens}", *options, folder + "/config.json", db]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode not in (0, 3) or not ran.stdout:
        print(f"FAIL {case}: estimate ended with {ran.returncode}: {ran.stderr}")
        return 1
    page = json.loads(ran.stdout)
    bad, lines = [], []
    for d in page["devices"]:
        for p in d["phases"]:
            lines.append((f"peak allocated, {p['phase']}", p["estimate_bytes"], p["measured_bytes"]))
        for r in d["rows"]:
            if not r["estimate_bytes"] and (r["measured_bytes"] or 0) < 1 << 20:
                continue
            lines.append((f"at the peak ({d['measured_phase']}): {r['row']}", r["estimate_bytes"], r["measured_bytes"]))
            if r["row"] in EXACT and r["estimate_bytes"] and abs(r["measured_bytes"] / r["estimate_bytes"] - 1) > 0.05:
                bad.append(r["row"])
        lines.append(("reserved and not allocated", None, d["reserved_not_allocated_bytes"]))
        lines.append(("context and code", None, d["residual_bytes"]))
        lines.append((f"gap {gib(d['gap_bytes'])}, most of all {d['explained_by']}", None, d["explained_bytes"]))
        lines.append((f"foreach copies {gib(d['foreach_bytes'])}; logits beyond one copy", None, d["logits_beyond_one_copy_bytes"]))
        if not d["rows"]:
            bad.append("no roles")
    if not page["devices"]:
        bad.append("no device")
    with open(out, "a") as f:
        for what, estimate, measured in lines:
            row = f"| {case} | {what} | {gib(estimate)} | {gib(measured)} | {change(estimate, measured)} |"
            print(row)
            f.write(row + "\n")
    print(f"{'FAIL' if bad else 'PASS'} {case}: {', '.join(bad) if bad else 'parameters, gradients and states to 5 %'}")
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), sys.argv[4], "--cpu" in sys.argv)
    else:
        sys.exit(check(*sys.argv[2:7]))
