#!/bin/bash
# `vramscope estimate` of models that it has no formula for: parameters are those that the model's own code makes, of experts those that a token
# passes, of adapters, frozen and quantized weights what arithmetic says; no dense figure, and no file of the model's folder is run.
. "$(dirname "$0")/../lib/lib.bash"
. "$(dirname "$0")/../lib/dry.bash"
find_torch
unset LD_LIBRARY_PATH
"$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("transformers"))' || skip "$python has no transformers"
cd "$dir" || exit 1
mkdir bin && printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" >bin/python3 && chmod +x bin/python3
export PATH=$dir/bin:$PATH
touch torch.py evil.py # a file of the current folder is not imported
"$python" - "$BUILD/bin/vramscope" <<'PY' || fail "see above"
import sys

sys.path = [p for p in sys.path if p]  # here the trap is not meant for us
import importlib.util, json, os, subprocess

bad = []
# a few layers of each, so that all can be made twice
SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=500)
MODELS = {
    "qwen3_moe": dict(hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8, num_hidden_layers=48,
                      num_attention_heads=32, num_key_value_heads=4, head_dim=128, vocab_size=151936, tie_word_embeddings=False, decoder_sparse_step=1, mlp_only_layers=[]),
    "mixtral": dict(SMALL, num_local_experts=4, num_experts_per_tok=2), 
    "t5": dict(d_model=64, d_ff=96, num_layers=2, num_heads=4, d_kv=16, vocab_size=500)
}  # fmt: skip


def estimate(config, *options):
    with open("config.json", "w") as f:
        json.dump(config, f)
    p = subprocess.run([sys.argv[1], "estimate", "--json", "config.json", *options], capture_output=True, text=True)
    if p.returncode:
        bad.append(f"{config['model_type']} {options}: {p.stderr}")
        return None
    return json.loads(p.stdout)


def counted(config):
    import torch, transformers

    words = dict(config)
    c = transformers.AutoConfig.for_model(words.pop("model_type"), **words)
    name = config.get("architectures", [None])[0] or {"t5": "T5ForConditionalGeneration"}.get(config["model_type"])
    with torch.device("meta"):
        m = getattr(transformers, name)(c) if name else transformers.AutoModelForCausalLM.from_config(c)
    return sum(p.numel() for p in m.parameters())


for kind, sizes in MODELS.items():
    page = estimate({"model_type": kind, **sizes}, "--seq=64", "--recipe=bf16")
    if page is None:
        continue
    m, want = page["model"], 30532122624 if kind == "qwen3_moe" else counted({"model_type": kind, **sizes})
    rows = {(p["phase"], r["row"]): r["bytes"] for p in page["phases"] for r in p["rows"]}
    if m["parameters"] != want or rows["forward", "parameters"] != 2 * want or rows["optimizer", "optimizer states"] != 4 * want:
        bad.append(f"{kind}: {m['parameters']} parameters, not {want}")
    if rows["forward", "activations"] is not None or page["whole"]:
        bad.append(f"{kind}: activations that no formula has: {rows['forward', 'activations']}")
    if kind == "qwen3_moe" and (m["active"] != 3353032704 or rows["logits", "output"] != 10 * 64 * 151936):
        bad.append(f"{kind}: {m['active']} active, logits of {rows['logits', 'output']}")
    if kind == "t5" and rows["logits", "output"] is not None:
        bad.append(f"{kind}: logits of another loss than the usual one have a figure")

llama = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL, "tie_word_embeddings": False}
linear = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96)
rest = 2 * 500 * 64 + 5 * 64
adapters = 2 * 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 96))
page = estimate(llama, "--frozen=model.layers.0.*", "--seq=64")
if page and (page["model"]["trained"], page["model"]["frozen"]) != (linear // 2 + rest - 128, linear // 2 + 128):
    bad.append(f"frozen: {page['model']}")
if importlib.util.find_spec("peft"):
    page = estimate(llama, "--lora=4", "--seq=64")
    if page and (page["model"]["trained"], page["model"]["frozen"]) != (adapters, linear + rest):
        bad.append(f"lora: {page['model']}, not {adapters} and {linear + rest}")
    page = estimate(llama, "--qlora=4", "--seq=64", "--recipe=mixed")
    scales = sum(n // 64 + 4 * -(-(n // 64) // 256) for n in [64 * 64] * 4 + [64 * 32] * 4 + [64 * 96] * 6)
    if page and (page["model"]["quantized"], page["model"]["quantized_bytes"], page["model"]["frozen"]) != (linear, linear // 2 + scales, rest):
        bad.append(f"qlora: {page['model']}, not {linear}, {linear // 2 + scales}, {rest}")
    page = estimate({**llama, "quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "--lora=4:q_proj")
    if page and page["model"]["quantized_bytes"] != linear + 4 * 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64):
        bad.append(f"8 bits: {page['model']}")
with open("config.json", "w") as f:
    json.dump({"model_type": "nobody_knows", "auto_map": {"AutoConfig": "evil.Config"}}, f)
with open("evil.py", "w") as f:
    f.write("open('ran', 'w')\n")
p = subprocess.run([sys.argv[1], "estimate", "config.json"], capture_output=True, text=True)
if p.returncode != 2 or p.stderr.count("\n") != 1 or p.stdout:
    bad.append(f"a type that nobody knows: status {p.returncode}: {p.stderr}")
if os.path.exists("ran"):
    bad.append("the model's folder's code was run")
print("\n".join(bad))
sys.exit(bool(bad))
PY
echo "parameters are those that the model's own code makes"
