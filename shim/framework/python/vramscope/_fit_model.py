"""_fit_model - what `vramscope fit config.json` runs: the model of a config.json, made by transformers, and trained on made-up data.

    python3 -m vramscope._fit_model CONFIG [--batch=1 --seq=2048 --dtype=bf16 --optimizer=adamw ...]

CONFIG is a config.json, or the directory that one lies in.  Nothing is downloaded and no weight is read: parameters are made
on the device.  The loop is PyTorch's plainest: loss, backward, step, zero_grad().

Types, by --dtype.  bf16, fp16, fp32: parameters, gradients and optimizer states have that type.  bf16-mixed: parameters in
fp32, the forward under autocast.  fp16-mixed: likewise, with a GradScaler.

What can't be done ends it with one line and status 2.
"""

import argparse
import contextlib
import os
import sys

_TYPES = {"bf16": ("bfloat16", None), "fp16": ("float16", None), "fp32": ("float32", None), "bf16-mixed": ("float32", "bfloat16"), "fp16-mixed": ("float32", "float16")}
_OPTIMIZERS = ("adamw", "adamw-fused", "adamw8bit", "adafactor", "sgd", "muon")
# a model's head, where its config names none: the first of transformers' that knows the type
_HEADS = ("AutoModelForImageTextToText", "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM", "AutoModelForCausalLM", "AutoModelForCTC",
          "AutoModelForMaskedLM", "AutoModelForImageClassification")  # fmt: skip


def refuse(sentence):
    print("vramscope: fit: " + sentence, file=sys.stderr)
    raise SystemExit(2)


def _arguments(words):
    p = argparse.ArgumentParser(prog="vramscope fit config.json", allow_abbrev=False)
    p.add_argument("config")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--seq", type=int, help="tokens, or frames of sound, of a sample (2048, or as many as the model has positions)")
    p.add_argument("--dtype", choices=_TYPES, default="bf16")
    p.add_argument("--optimizer", choices=_OPTIMIZERS, default="adamw")
    p.add_argument("--checkpoint", action="store_true", help="recompute each layer in backward")
    p.add_argument("--accumulate", type=int, default=1, help="forwards and backwards in a step")
    p.add_argument("--attention", choices=("eager", "sdpa", "flash_attention_2", "flex_attention"))
    p.add_argument("--lora", metavar="RANK[:TARGETS]", help="train adapters alone; TARGETS as q_proj,v_proj (all linear layers)")
    p.add_argument("--qlora", metavar="RANK[:TARGETS]", help="likewise, over weights in 4 bits (bitsandbytes)")
    p.add_argument("--fsdp", action="store_true", help="shard each layer over all ranks (FSDP2)")
    p.add_argument("--zero", type=int, choices=(1, 2, 3), help="DeepSpeed's stage, over all ranks")
    p.add_argument("--offload", action="store_true", help="with --zero: optimizer states on the host")
    o = p.parse_args(words)
    if o.batch < 1 or (o.seq is not None and o.seq < 1) or o.accumulate < 1:
        refuse("--batch, --seq and --accumulate are at least 1")
    if bool(o.lora) + bool(o.qlora) > 1 or (o.fsdp and o.zero):
        refuse("--lora or --qlora, and --fsdp or --zero, not both")
    if o.zero and o.optimizer != "adamw" or o.offload and not o.zero:
        refuse("--zero has DeepSpeed's AdamW, without another --optimizer, and --offload goes with --zero")
    if o.qlora and o.fsdp:
        refuse("--qlora with --fsdp is not in it: FSDP2 parts no weights of 4 bits that are stored as bytes")
    return o


# ---- the model ----


def _config_of(path):
    import transformers

    if not os.path.exists(path):
        refuse(f"{path}: no such file; give a config.json or its directory")
    try:
        return transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    except Exception as e:  # whatever transformers says of it
        refuse(f"{path} is no config that transformers {transformers.__version__} knows: {str(e).strip().splitlines()[0]}")


def _class_of(config):
    """-> the class of the model with a loss"""
    import transformers

    for name in config.architectures or ():
        if hasattr(transformers, name) and not name.endswith(("Model", "PreTrainedModel")):
            return getattr(transformers, name)
    for name in _HEADS:
        mapping = getattr(transformers, name)._model_mapping
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    refuse(f"transformers {transformers.__version__} has no trainable head for {config.model_type}: name one in the config's architectures")


def _made(o, config, kind, torch):
    """-> the model, on the device"""
    more = {"attn_implementation": o.attention} if o.attention else {}
    dtype = getattr(torch, _TYPES[o.dtype][0])
    if o.qlora:
        from ._fit_quantized import quantized

        return quantized(lambda: kind._from_config(config, dtype=dtype, **more), torch, dtype)
    if o.fsdp:
        with torch.device("meta"):
            return kind._from_config(config, dtype=dtype, **more)
    with torch.device("cuda"), _spread(o):
        return kind._from_config(config, dtype=dtype, **more).to("cuda")  # what does not ask for the device is made on the host


def _spread(o):
    """Under ZeRO 3 each parameter is divided as soon as it is made."""
    if o.zero != 3:
        return contextlib.nullcontext()
    return _deepspeed().zero.Init(config_dict_or_path=_settings(o))


def _checkpointed(model, adapters):
    if not getattr(model, "supports_gradient_checkpointing", True):
        refuse(f"{type(model).__name__} can't recompute its layers: do without --checkpoint")
    if adapters:
        model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _with_adapters(model, words):
    """LoRA's, of WORDS, RANK[:TARGETS]"""
    try:
        import peft
    except ImportError:
        refuse("--lora and --qlora need the package peft: pip install peft")
    rank, _, targets = words.partition(":")
    if not rank.isdigit() or int(rank) < 1:
        refuse(f"--lora takes RANK or RANK:TARGETS, as 16:q_proj,v_proj, not '{words}'")
    return peft.get_peft_model(model, peft.LoraConfig(r=int(rank), target_modules=targets.split(",") if targets else "all-linear"))


# ---- the optimizer ----


def _optimizers(o, model, torch):
    """-> optimizers, each over its part of the trainable parameters"""
    trainable = [p for p in model.parameters() if p.requires_grad]
    if o.optimizer == "muon":  # for matrices of layers alone, as its authors have it
        inner = {p for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.get_output_embeddings() for p in [m.weight] if p.requires_grad}
        return [torch.optim.Muon(list(inner)), torch.optim.AdamW([p for p in trainable if p not in inner])]
    if o.optimizer == "adamw8bit":
        try:
            import bitsandbytes
        except ImportError:
            refuse("--optimizer=adamw8bit needs the package bitsandbytes: pip install bitsandbytes")
        return [bitsandbytes.optim.AdamW8bit(trainable)]
    made = {"adamw": lambda p: torch.optim.AdamW(p), "adamw-fused": lambda p: torch.optim.AdamW(p, fused=True), "adafactor": torch.optim.Adafactor,
            "sgd": lambda p: torch.optim.SGD(p, lr=0.01)}  # fmt: skip
    return [made[o.optimizer](trainable)]


# ---- over ranks ----


def _sharded(model, torch):
    """FSDP2: each layer that transformers does not split, then the rest"""
    from torch.distributed.fsdp import fully_shard

    layers = set(getattr(model, "_no_split_modules", None) or ())
    for module in model.modules():
        if type(module).__name__ in layers:
            fully_shard(module)
    fully_shard(model)
    model.to_empty(device="cuda")
    return model


def _deepspeed():
    try:
        import deepspeed
    except ImportError:
        refuse("--zero needs the package deepspeed: pip install deepspeed")
    return deepspeed


def _settings(o):
    plain = {"type": "AdamW", "params": {"lr": 1e-5, "torch_adam": not o.offload}}
    return {"train_micro_batch_size_per_gpu": o.batch, "gradient_accumulation_steps": o.accumulate, "optimizer": plain,
                "bf16": {"enabled": o.dtype.startswith("bf16")}, "fp16": {"enabled": o.dtype.startswith("fp16")},
                "zero_optimization": {"stage": o.zero, **({"offload_optimizer": {"device": "cpu", "pin_memory": True}} if o.offload else {})}}  # fmt: skip


def _engine(o, model):
    """DeepSpeed's, with its own optimizer"""
    trainable = [p for p in model.parameters() if p.requires_grad]
    return _deepspeed().initialize(model=model, model_parameters=trainable, config=_settings(o))[0]


# ---- the loop ----


def _steps():
    words = os.environ.get("VRAMSCOPE_DRY_STEPS", "3")
    return int(words) if words.isdigit() else 3


def _copied(o, model, torch):
    """Ranks without another way are copies; what a forward leaves unused is looked for as transformers' Trainer has it."""
    return torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=not o.checkpoint)


def _train(o, model, forward, batch, torch):
    half = _TYPES[o.dtype][1]
    scaler = torch.amp.GradScaler(enabled=o.dtype == "fp16-mixed")
    optimizers = _optimizers(o, model, torch)
    for _ in range(_steps()):
        for _ in range(o.accumulate):
            with torch.autocast("cuda", getattr(torch, half)) if half else contextlib.nullcontext():
                loss = forward(**batch()).loss
            scaler.scale(loss / o.accumulate).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()


def _train_engine(engine, o, batch):
    for _ in range(_steps() * o.accumulate):
        loss = engine(**batch()).loss
        engine.backward(loss)
        engine.step()


def main(words):
    o = _arguments(words)
    try:
        import torch
        import transformers
    except ImportError as e:
        refuse(f"a config.json needs the packages torch and transformers: {e}")
    from ._fit_inputs import inputs_of

    transformers.utils.logging.disable_progress_bar()
    config = _config_of(o.config)
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    elif o.fsdp or o.zero:
        refuse("--fsdp and --zero need ranks: --ranks=8")
    if o.zero:
        _deepspeed().init_distributed()
    elif ranks > 1:
        torch.distributed.init_process_group("nccl")
    kind = _class_of(config)
    batch = inputs_of(config, kind, o.batch, o.seq, getattr(torch, _TYPES[o.dtype][0]))
    model = _made(o, config, kind, torch)
    if o.lora or o.qlora:
        model = _with_adapters(model, o.lora or o.qlora)
    model.train()
    if o.checkpoint:
        _checkpointed(model, bool(o.lora or o.qlora))
    if o.zero:
        _train_engine(_engine(o, model), o, batch)
        return
    if o.fsdp:
        model = _sharded(model, torch)
    _train(o, model, _copied(o, model, torch) if ranks > 1 and not o.fsdp else model, batch, torch)


if __name__ == "__main__":
    main(sys.argv[1:])
