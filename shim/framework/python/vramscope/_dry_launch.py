"""_dry_launch - a launcher of many ranks (torchrun, accelerate, deepspeed) becomes the one rank that this process is to be.

`vramscope fit --ranks` starts the command once for each rank that runs, with the rank in its environment.  A launcher reads its arguments
and settings as ever, and where it would start its processes it executes what it would start, with the environment that it passes on.
Without --ranks a launcher of several ranks says how many it would start, and ends: `vramscope fit` begins anew with as many.
"""

import os
import sys
import types

from . import _dry_facts


def _told(launcher, ranks):
    _dry_facts.write("launch", launcher, ranks)
    if ranks > 1 and "VRAMSCOPE_DRY_RANKS" not in os.environ:
        sys.exit(2)


def _become(command, local):
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local = max(1, min(local, world))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), SIMCUDA_DEVICES=str(local))
    os.environ.update(LOCAL_RANK=str(rank % local), LOCAL_WORLD_SIZE=str(local), GROUP_RANK=str(rank // local))
    for name, value in ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500"):
        os.environ.setdefault(name, value)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], command, os.environ)


def _torch(api):
    def launch_agent(config, entrypoint, args, **_):
        _told("accelerate" if "accelerate.commands" in sys.modules else "torchrun", config.max_nodes * config.nproc_per_node)
        if not isinstance(entrypoint, str):
            return {int(os.environ.get("LOCAL_RANK", "0")): entrypoint(*args)}
        if config.nproc_per_node > 1:
            os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
        _become([entrypoint, *args], config.nproc_per_node)

    api.launch_agent = launch_agent


def _spawn(module):
    """torch.multiprocessing.spawn, with which a program starts the ranks of this machine itself."""
    start = module.start_processes

    def start_processes(fn, args=(), nprocs=1, join=True, *rest, **named):
        if nprocs == 1 or os.environ.get("LOCAL_WORLD_SIZE") != str(nprocs):
            return start(fn, args, nprocs, join, *rest, **named)
        fn(int(os.environ["LOCAL_RANK"]), *args)
        return None if join else types.SimpleNamespace(join=lambda *_, **__: True, processes=[], pids=lambda: [])

    module.start_processes = start_processes


def _accelerate(module):
    """Its launcher of one process, which that stays: what it sets for it is in no other process's environment."""
    launch = module.simple_launcher

    def simple_launcher(args):
        _told("accelerate", 1)
        launch(args)

    module.simple_launcher = simple_launcher


def _deepspeed_ranks(runner, args):
    one = 16 if args.include else int(os.environ.get("LOCAL_WORLD_SIZE", 1))  # --include names what is not here
    hosts = runner.fetch_hostfile(args.hostfile) or {"localhost": one}
    each = [args.num_gpus if args.num_gpus > 0 else len(gpus) for gpus in runner.parse_inclusion_exclusion(hosts, args.include, args.exclude).values()]
    return sum(each[: args.num_nodes] if args.num_nodes > 0 else each)


def _deepspeed(runner):
    parse = runner.parse_args

    def main(args=None):
        args = parse(args)
        _told("deepspeed", _deepspeed_ranks(runner, args))
        python = [] if args.no_python else [sys.executable, "-u", *(["-m"] if args.module else [])]
        local = args.num_gpus if args.num_gpus > 0 else int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        number = [] if args.no_local_rank else [f"--local_rank={int(os.environ.get('RANK', 0)) % local}"]
        os.environ["LOCAL_SIZE"] = str(local)
        _become([*python, args.user_script, *number, *args.user_args], local)

    runner.main = main


_OF = {"deepspeed.launcher.runner": _deepspeed, "accelerate.commands.launch": _accelerate, "torch.multiprocessing.spawn": _spawn}


def install(module):
    """Called once for each of the modules, when it has been imported."""
    _OF.get(module.__name__, _torch)(module)
