"""_dry_launch - a launcher of many ranks (torchrun, accelerate, deepspeed) becomes the one rank that this process is to be.

`vramscope fit --ranks` starts the command once for each rank that runs, with the rank in its environment.  Where the command is a launcher it reads its own
arguments and settings as ever, and where it would start its processes it executes what it would start there: so what it hands on
to them by the environment is there, too.  How many there are says --ranks; how many on one machine says the launcher.
"""

import os
import sys


def _become(command, local):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = max(1, min(local, world))
    os.environ.update(LOCAL_RANK=str(rank % local), LOCAL_WORLD_SIZE=str(local), GROUP_RANK=str(rank // local), SIMCUDA_DEVICES=str(local))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command[0], command, os.environ)


def _torch(api):
    def launch_agent(config, entrypoint, args):
        if not isinstance(entrypoint, str):
            return {int(os.environ["LOCAL_RANK"]): entrypoint(*args)}
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for more than one process
        _become([entrypoint, *args], config.nproc_per_node)

    api.launch_agent = launch_agent


def _deepspeed(runner):
    parse = runner.parse_args

    def main(args=None):
        args = parse(args)
        python = [] if args.no_python else [sys.executable, "-u", *(["-m"] if args.module else [])]
        local = args.num_gpus if args.num_gpus > 0 else int(os.environ["LOCAL_WORLD_SIZE"])
        number = [] if args.no_local_rank else [f"--local_rank={int(os.environ['RANK']) % local}"]
        os.environ["LOCAL_SIZE"] = str(local)
        _become([*python, args.user_script, *number, *args.user_args], local)

    runner.main = main


def install(module):
    """Called once for each of the two modules, when it has been imported."""
    if module.__name__ == "deepspeed.launcher.runner":
        _deepspeed(module)
    else:
        _torch(module)
