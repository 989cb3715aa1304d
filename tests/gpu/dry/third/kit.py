"""What these programs share: command lines, and PyTorch's counters after each step and at the end."""
import argparse
import atexit
import json

import torch


def options(*names, **defaults):
    """NAMES stand without a dash; --device, and an option for each of DEFAULTS, of its type: a list takes several, False is a switch."""
    atexit.register(memory)
    p = argparse.ArgumentParser()
    for name in names:
        p.add_argument(name)
    for name, value in {"device": "cuda", **defaults}.items():
        several = isinstance(value, list)
        how = {"action": "store_true"} if value is False else {"type": type(value[0] if several else value), "default": value, **({"nargs": "+"} if several else {})}
        p.add_argument("--" + name.replace("_", "-"), **how)
    return p.parse_args()


def memory(**more):
    print(json.dumps({**more, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}), flush=True)
