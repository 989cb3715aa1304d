"""train.py STRATEGY MODEL [--batch N] [--steps N]: a training over the ranks of torchrun; rank by rank PyTorch's own counters at the
end.

fsdp2-keep: gathered from forward to backward. zero1-host: DeepSpeed's optimizer on the host. tp: tensors in parts. Models held out:
qwen, shared, bert; neox, dino.
"""
import argparse
import functools
import json
import os

import torch
import torch.distributed as dist
import transformers

MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32003, hidden_size=1024, intermediate_size=2816, num_hidden_layers=7, num_attention_heads=16, num_key_value_heads=4)),
    "moe": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=20011, hidden_size=768, intermediate_size=1344, num_hidden_layers=5, num_attention_heads=12, num_key_value_heads=4,
        num_local_experts=6, num_experts_per_tok=2)),
    "vit": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=960, intermediate_size=3200, num_hidden_layers=9, num_attention_heads=12, num_labels=1001)),
    # those below were chosen when what the first three had shown was mended: tied embeddings, a shared expert, dropout
    "qwen": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=50021, hidden_size=896, intermediate_size=4864, num_hidden_layers=6, num_attention_heads=14, num_key_value_heads=2,
        tie_word_embeddings=True)),
    "shared": lambda: transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(
        vocab_size=30011, hidden_size=640, intermediate_size=2048, moe_intermediate_size=704, shared_expert_intermediate_size=1408, num_hidden_layers=4,
        num_attention_heads=10, num_key_value_heads=5, num_experts=10, num_experts_per_tok=3)),
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=28997, hidden_size=1152, intermediate_size=3000, num_hidden_layers=7, num_attention_heads=12, max_position_embeddings=1024)),
    # and these when DDP's and FSDP1's answers had been mended again
    "neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=36007, hidden_size=1280, intermediate_size=5120, num_hidden_layers=5, num_attention_heads=10)),
    "dino": lambda: transformers.Dinov2ForImageClassification(transformers.Dinov2Config(
        hidden_size=768, num_hidden_layers=10, num_attention_heads=12, image_size=224, num_labels=1003)),
}


def batch_of(name, size, rank):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(rank)
        if name in ("vit", "dino"):
            return {"pixel_values": torch.randn(6 * size, 3, 224, 224).cuda(), "labels": torch.randint(1000, (6 * size,)).cuda()}
        ids = torch.randint(20000, (size, 777)).cuda()
        return {"input_ids": ids, "labels": ids}


def layers_of(model):
    return next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))


def ddp(model, _):
    model = torch.nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[torch.cuda.current_device()])
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def fsdp1(model, mixed):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    layer = type(layers_of(model)[0])
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if mixed == "mixed" else None
    model = FullyShardedDataParallel(model, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={layer}),
                                     mixed_precision=precision, device_id=torch.cuda.current_device(), use_orig_params=True)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def fsdp2(model, how):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    options = {"reshard_after_forward": how != "keep"}
    if how == "mixed":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = model.cuda()
    for layer in layers_of(model):
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def tp(model, _):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = model.cuda()
    columns = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "query", "key", "value", "intermediate.dense", "fc1")
    rows = ("o_proj", "down_proj", "attention.output.dense", "output.dense", "fc2")
    plan = {}
    for name, module in layers_of(model)[0].named_modules():
        if isinstance(module, torch.nn.Linear):
            plan.update({name: ColwiseParallel() for end in columns if name.endswith(end)} or {name: RowwiseParallel() for end in rows if name.endswith(end)})
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for layer in layers_of(model):
        parallelize_module(layer, mesh, plan)
    model.tensors_in_parts = sorted(plan)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)


def zero(model, stage, host):
    import deepspeed

    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "gradient_clipping": 1.0, "zero_optimization": {"stage": stage},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    if host:
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0], None


def step(strategy, model, optimizer, inputs):
    if strategy.startswith("zero"):
        model.backward(model(**inputs).loss)
        model.step()
        return
    with torch.autocast("cuda", torch.bfloat16, enabled=strategy in ("ddp", "tp")):
        loss = model(**inputs).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("strategy")
    p.add_argument("model", choices=MODELS)
    p.add_argument("--batch", type=int, default=5)
    p.add_argument("--steps", type=int, default=4)
    a = p.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    kind, _, how = a.strategy.partition("-")
    made = zero(MODELS[a.model](), int(kind[4]), how == "host") if kind[:4] == "zero" else {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "tp": tp}[kind](MODELS[a.model](), how)
    inputs = batch_of(a.model, a.batch, 0 if kind == "tp" else dist.get_rank())
    if kind[:4] == "zero":
        inputs = {k: v.bfloat16() if v.is_floating_point() else v for k, v in inputs.items()}
    steps = []
    for _ in range(a.steps):
        step(a.strategy, *made, inputs)
        steps.append([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])
    torch.cuda.synchronize()
    print(json.dumps({"two": a.strategy, "model": a.model, "rank": dist.get_rank(), "steps": steps}), flush=True)
    dist.destroy_process_group()


main()
