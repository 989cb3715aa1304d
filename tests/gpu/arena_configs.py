"""arena_configs.py - the allocators that are compared: how a Python program is started under each.

    command(tree, name, database, program) -> argv, environment

native, expandable and async are PyTorch's own; nocache is PyTorch without any (PYTORCH_NO_CUDA_MEMORY_CACHING=1); arena is
`vramscope run --allocator=arena`; nocache-arena is nocache with the arena under cudaMalloc, without call stacks.  "+recorded" runs
PyTorch's own under `vramscope run`, "+quiet" the arena without recording and without the phases' hooks: so that what records is
compared with what records, and what does not with what does not.
"""
import os
import sys

NAMES = {
    "native": "torch native",
    "expandable": "torch expandable_segments",
    "async": "torch cudaMallocAsync",
    "arena": "arena",
    "arena+quiet": "arena, not recording",
    "nocache": "no caching",
    "nocache-arena": "no caching, arena",
    "nocache-arena+quiet": "no caching, arena, not recording",
    "native+recorded": "torch native, recorded",
}
CONF = {"native": None, "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


def clean():
    drop = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "LD_PRELOAD")
    env = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith("VRAMSCOPE_")}
    return dict(env, PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")


def command(tree, name, database, program):
    env, argv = clean(), [sys.executable] + program
    base, _, how = name.partition("+")
    run = [os.path.join(tree, "bin/vramscope"), "run", "-q", "-o", database]
    if how == "quiet":
        run += ["--start-off", "--no-auto-phases", "--no-nvtx"]
    if CONF.get(base):
        env["PYTORCH_CUDA_ALLOC_CONF"] = env["PYTORCH_ALLOC_CONF"] = CONF[base]
    if base.startswith("nocache"):
        env["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    if base == "nocache-arena":
        env.update(VRAMSCOPE_ALLOCATOR="arena", VRAMSCOPE_ARENA_FREE="defer", VRAMSCOPE_OUTPUT=database, VRAMSCOPE_STACKS="off",
                   VRAMSCOPE_ENABLED="off" if how == "quiet" else "on", LD_PRELOAD=os.path.join(tree, "lib/libvramscope.so"))
    elif base == "arena":
        argv = run + ["--allocator=arena", "--"] + argv
    elif how == "recorded":
        argv = run + ["--"] + argv
    return argv, env


def main():
    """arena_configs.py TREE NAME DATABASE PROGRAM...: becomes that program."""
    argv, env = command(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    os.execvpe(argv[0], argv, env)


if __name__ == "__main__":
    main()
