"""Which lines of Python a call stack is shown by, worked out from its frames (innermost first) and from shim/trace/schema.sql's text."""
import re

PYTHON, NODE, LAYER = 2, 3, 4
TORCH = re.compile(r"-packages/torch/"
                   r"|/torch/(_(?!_)|nn/(modules|parallel|utils)/|nn/(functional|init)\.py|optim/|autograd/|cuda/|utils/_(?!_)|utils/checkpoint\.py|fx/|amp/|distributed/(_(?!_)|fsdp/))")
TOOL = re.compile(r"^<frozen |^<eval_with_key>|/torchinductor_|/torch_geometric\.|/vramscope/python/|/bin/[^./]*$")
PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]*)")


def whose(file):
    """None: torch's, Python's, generated; "": the program's; else the package's name."""
    package = PACKAGE.search(file)
    if TORCH.search(file) or TOOL.search(file):
        return None
    if package:
        return package[1]
    return None if "/lib/python3" in file else ""


def opened(python):
    """Whose the classes of the open modules are: of each call of a module, the forward next to it."""
    forward = None
    for f in python:
        name = f.function.split(".")
        if TORCH.search(f.file) and f.file.endswith("torch/nn/modules/module.py"):
            if name[-1] == "_call_impl":
                if forward is not None:
                    yield forward
                forward = None
        elif name[-1] == "forward" and name[-2:-1] != ["<locals>"]:
            forward = whose(f.file)


def shown(frames):
    """line, caller, whether the line is outside of the run of a node."""
    frames = [f for f in frames if f]
    python = [f for f in frames if f.kind == PYTHON]
    ours = [f for f in python if whose(f.file) is not None]
    own = [f for f in ours if whose(f.file) == ""]
    packages = set(opened(python))
    inner = [f for f in ours if whose(f.file) in packages - {""}] if packages else ours
    found = [python.index(some[0]) for some in (own, inner) if some]
    line = python[min(found)] if found else python[0] if python else None
    caller = own[0] if own and own[0] is not line else None
    forward = line is not None and any(f.kind == NODE for f in frames[: frames.index(line)])
    return line, caller, forward


def again(frames):
    """Whether a layer's call is inside of the run of a node."""
    kinds = [f.kind for f in frames if f]
    return NODE in kinds and LAYER in kinds[: kinds.index(NODE)]
