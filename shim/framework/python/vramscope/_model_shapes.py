"""_model_shapes - the parameters of a config.json as the model's own code makes them, for `vramscope estimate`.

    python3 _model_shapes.py CONFIG [--lora=RANK[:TARGETS]] [--qlora=RANK[:TARGETS]] [--frozen=PATTERN,...]

transformers makes the model on the device `meta`, where a tensor has a shape and no memory.  Nothing is downloaded, no weight is read, and no
code of the model's folder is run.  Prints lines of a word and a value:

    class, version      of the model, of transformers
    parameters          all, each once
    trained, frozen     those of them with a gradient; those without that have the type of the others
    quantized, bytes    those that are quantized, and what they take, scales included
    active              those that a token passes, of a mixture of experts
    embedding, largest, hidden, outputs, words, tied, layers     as in analyzer/estimate/model.h; what is not known is left out

What can't be done is one line that begins with `why`.
"""

import fnmatch
import os
import sys


def refuse(sentence):
    print("why " + " ".join(sentence.split())[:300])
    raise SystemExit(0)


def _first_line(e):
    lines = str(e).strip().splitlines()
    return lines[0] if lines else type(e).__name__


# ---- the model ----


def _config_of(path, transformers):
    try:
        return transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as e:  # whatever transformers says of it
        refuse(f"transformers {transformers.__version__} can't read it: {_first_line(e)}")


def _class_of(config, transformers):
    from vramscope._fit_model import _HEADS

    named = list(config.architectures or ())
    for name in named:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    if named:
        refuse(f"transformers {transformers.__version__} has no class {named[0]}")
    for name in _HEADS:
        mapping = getattr(transformers, name, None)
        mapping = mapping._model_mapping if mapping else {}
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    refuse(f"transformers {transformers.__version__} has no model for {config.model_type}")


def _made(config, kind, torch):
    try:
        with torch.device("meta"):
            return kind._from_config(config) if hasattr(kind, "_from_config") else kind(config)
    except Exception as e:
        refuse(f"{kind.__name__} can't be made of it: {_first_line(e)}")


# ---- quantized weights ----


def _bytes_of_4_bits(n, nested):
    """bitsandbytes: two weights a byte, a scale for 64 of them, which is quantized itself in blocks of 256"""
    scales = -(-n // 64)
    return -(-n // 2) + (scales + 4 * -(-scales // 256) if nested else 4 * scales)


def _bitsandbytes(model, settings, torch):
    """-> {name of a weight: bytes}"""
    skipped = set(settings.get("llm_int8_skip_modules") or ())
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    found = {}
    for name, m in model.named_modules():
        if not isinstance(m, torch.nn.Linear) or m is head or any(part in skipped or name.startswith(s) for s in skipped for part in name.split(".")):
            continue
        n = m.weight.numel()
        four = settings.get("load_in_4bit")
        found[name + ".weight"] = _bytes_of_4_bits(n, settings.get("bnb_4bit_use_double_quant")) if four else n + 4 * m.out_features
    return found


def _by_quantizer(make, config, settings):
    """By transformers' own quantizer, on what MAKE gives: modules that it changes, with what they hold -> {name of a weight: bytes}"""
    try:
        from transformers.quantizers.auto import AutoHfQuantizer

        quantizer = AutoHfQuantizer.from_config(config.quantization_config, pre_quantized=True)
        model, plain = make(), make()
        quantizer.preprocess_model(model=model, config=config)
    except Exception as e:
        refuse(f"its weights are quantized ({settings.get('quant_method', 'unknown')}), and transformers can't make these here: {_first_line(e)}")
    before, found = dict(plain.named_modules()), {}
    for name, m in model.named_modules():
        old = before.get(name)
        if old is None or type(old) is type(m) or any(True for _ in m.children()):
            continue
        tensors = list(m.parameters(recurse=False)) + list(m.buffers(recurse=False))
        weights = [n for n, _ in old.named_parameters(recurse=False)]
        for i, n in enumerate(weights):  # the first stands for all of the module
            found[f"{name}.{n}"] = sum(t.numel() * t.element_size() for t in tensors) if i == 0 else 0
    if not found:
        refuse(f"its weights are quantized ({settings.get('quant_method', 'unknown')}), and what they take is not known")
    return found


def _quantized(model, make, config, qlora, torch):
    if qlora:
        return _bitsandbytes(model, {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, torch)
    settings = getattr(config, "quantization_config", None)
    if not settings:
        return {}
    settings = settings if isinstance(settings, dict) else settings.to_dict()
    if settings.get("load_in_4bit") or settings.get("load_in_8bit"):
        return _bitsandbytes(model, settings, torch)
    return _by_quantizer(make, config, settings)


# ---- who is trained ----


def _with_adapters(model, words):
    """-> the model with adapters, and the names that its weights had"""
    from vramscope import _adapters

    names = {id(p): n for n, p in model.named_parameters()}
    try:
        return _adapters.with_adapters(model, words, refuse, low_cpu_mem_usage=True), names
    except Exception as e:  # whatever peft says of it
        refuse(f"peft can't adapt it: {_first_line(e)}")


def _freeze(model, patterns):
    for pattern in patterns:
        found = [p for n, p in model.named_parameters() if fnmatch.fnmatchcase(n, pattern)]
        if not found:
            refuse(f"--frozen: no parameter's name is like '{pattern}': the first is '{next(n for n, _ in model.named_parameters())}'")
        for p in found:
            p.requires_grad_(False)


# ---- what is said ----


def _first_of(config, *names):
    for name in names:
        n = getattr(config, name, None)
        if isinstance(n, int) and n > 0:
            return n
    return None


def _active(model, config, parameters):
    """Of E experts a token passes K: so much of what lies in a module called `experts`."""
    experts = _first_of(config, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    each = _first_of(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
    if not experts or experts < 2 or not each:
        return None
    inside = sum(p.numel() for n, p in parameters if "experts" in n.split("."))
    return sum(p.numel() for _, p in parameters) - inside + inside * each // experts if inside else None


def _largest_layer(model):
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    sizes = [sum(p.numel() for p in m.parameters()) for m in model.modules() if type(m).__name__ in kinds]
    return max(sizes, default=None), len(sizes) or None


def _has_the_usual_loss(model, outputs):
    """Hugging Face's loss of a causal language model, of logits in the model's type (loss/loss_utils.py)"""
    import inspect

    try:
        source = inspect.getsource(type(model).forward)
    except (OSError, TypeError):
        return False
    upcast = "lm_head" in source and (".float()" in source or ".to(torch.float32)" in source)
    return outputs is not None and getattr(model, "loss_type", None) == "ForCausalLM" and "self.loss_function(" in source and not upcast


def _say(**words):
    for word, value in words.items():
        if value is not None:
            print(word, int(value) if isinstance(value, bool) else value)


def main(words):
    import torch
    import transformers

    path, options = words[0], dict(w[2:].split("=", 1) for w in words[1:])
    config = _config_of(path, transformers)
    kind = _class_of(config, transformers)
    make = lambda: _made(config, kind, torch)
    model = make()
    quantized = _quantized(model, make, config, "qlora" in options, torch)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    embedding = getattr(embedding, "weight", None)
    largest, layers = _largest_layer(model)
    usual = _has_the_usual_loss(model, head)
    tied = head is not None and getattr(head, "weight", None) is embedding
    active = _active(model, text, list(model.named_parameters()))
    adapters = options.get("qlora") or options.get("lora")
    if quantized and not adapters:
        refuse("its weights are quantized, and such are not trained but by adapters: --lora=RANK")
    names = {id(p): n for n, p in model.named_parameters()}
    if adapters:
        model, names = _with_adapters(model, adapters)
    _freeze(model, [p for p in options.get("frozen", "").split(",") if p])
    bytes_, counts = 0, {"trained": 0, "frozen": 0, "quantized": 0}
    for p in model.parameters():
        name = names.get(id(p))
        what = "trained" if p.requires_grad else "quantized" if name in quantized else "frozen"
        counts[what] += p.numel()
        bytes_ += quantized.get(name, 0) if what == "quantized" else 0
    if not counts["trained"]:
        refuse("nothing of it is trained")
    _say(**{"class": kind.__name__, "version": transformers.__version__}, parameters=sum(counts.values()), **counts, bytes=bytes_, active=active,
         embedding=embedding.numel() if embedding is not None and embedding.dim() == 2 else None, largest=largest, layers=layers,
         hidden=_first_of(text, "hidden_size", "d_model", "n_embd"), outputs=head.out_features if usual and hasattr(head, "out_features") else None,
         words=usual, tied=tied)  # fmt: skip


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as e:
        refuse(f"python3 of PATH has no {e.name}, which would count them by the model's own code")
    main(sys.argv[1:])
