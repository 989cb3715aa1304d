"""_fit_quantized - a model whose linear layers are in 4 bits, as bitsandbytes and transformers load it for QLoRA.

Each layer's weight is an untouched piece of the host's address space that goes to the device and is quantized there, one after another, so
the device never holds the whole model in 16 bits.  The output layer and embeddings keep their type.
"""

from ._fit_model import refuse


def _linear4(module, dtype, torch, bitsandbytes):
    layer = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=module.bias is not None, compute_dtype=dtype,
                                       compress_statistics=True, quant_type="nf4", device="meta")  # fmt: skip
    weight = torch.empty(module.out_features, module.in_features, dtype=dtype)
    layer.weight = bitsandbytes.nn.Params4bit(weight, requires_grad=False, compress_statistics=True, quant_type="nf4", module=layer).to("cuda")
    if module.bias is not None:
        layer.bias = torch.nn.Parameter(torch.empty(module.out_features, dtype=dtype, device="cuda"), requires_grad=False)
    return layer


def quantized(make, torch, dtype):
    """-> what MAKE gives, on the device"""
    try:
        import bitsandbytes
    except ImportError:
        refuse("--qlora needs the package bitsandbytes: pip install bitsandbytes")
    with torch.device("meta"):
        model = make()
    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is torch.nn.Linear and module is not head:
                setattr(parent, name, _linear4(module, dtype, torch, bitsandbytes))
    _filled(model, torch)
    model.is_loaded_in_4bit = True
    return model


def _filled(model, torch):
    """Makes on the device what is still on meta; tied parameters stay tied."""
    made = {}
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None or tensor.device.type != "meta":
                    continue
                if id(tensor) not in made:
                    empty = torch.empty_like(tensor, device="cuda")
                    made[id(tensor)] = torch.nn.Parameter(empty, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else empty
                table[name] = made[id(tensor)]
