class Module:
    training = True

    @property
    def _modules(self):
        return {name: value for name, value in vars(self).items() if isinstance(value, Module)}

    @property
    def _parameters(self):
        return {name: value for name, value in vars(self).items() if name == "weight"}

    def eval(self):
        self.training = False
        return self

    def _wrapped_call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules((prefix + "." if prefix else "") + name)

    def modules(self):
        return (module for _, module in self.named_modules())

    def parameters(self):
        return (module.weight for module in self.modules() if hasattr(module, "weight"))


class Identity(Module):
    def __init__(self):
        vars(self).update(_modules={}, _parameters={}, _buffers={})

    def forward(self, x):
        return x


class Embedding(Module):
    __constants__ = ["num_embeddings"]

    def __init__(self, num_embeddings, width):
        self.num_embeddings, self.weight = num_embeddings, object()

    def forward(self, x):
        return x


class Linear(Module):
    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features, out_features):
        self.in_features, self.out_features, self.weight = in_features, out_features, object()

    def forward(self, x):
        return x
