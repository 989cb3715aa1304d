"""sitecustomize - how `vramscope run` gets the automatic phases, the arena, and JAX's and CuPy's own figures.

Python imports a module of this name at start.  This one hooks `import torch`, `import jax` and `import cupy`, and then runs the
sitecustomize that it shadows, if there is one.  In a program that imports none of these nothing else happens.
"""

import os
import sys


def _is_listed(library):
    return library in os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":")


def _is_mapped(names):
    with open("/proc/self/maps", "rb") as maps:
        return any(name in line for line in maps for name in names)


def _is_plain_program():
    """Whether this interpreter is running a program from its beginning, so that another exec would run it the same way."""
    argv = getattr(sys, "orig_argv", None)  # Python 3.10
    if not argv or not sys.executable or not os.path.samefile(sys.executable, "/proc/self/exe"):
        return False  # too old, or embedded in another program
    if sys.flags.interactive or hasattr(sys, "ps1") or (len(argv) == 1 and os.isatty(0)):
        return False  # interactive
    if sys.flags.verbose or "importtime" in sys._xoptions or os.environ.get("PYTHONPROFILEIMPORTTIME"):
        return False
    return len(os.listdir("/proc/self/task")) == 1


def _restart():
    """Executes the interpreter again where the library should be preloaded and is not.

    Never twice in a process, also where the program executes itself again without the library: the pid, which an exec
    keeps, stays in the environment.  Not if the driver is loaded, threads are running,
    Python is interactive or embedded, or if it prints its imports, which it would do twice.
    """
    tried = os.environ.get("VRAMSCOPE_REEXEC_PID", "")
    preload = os.environ.get("VRAMSCOPE_PRELOAD", "")  # the library, and behind it what a dry run stands on
    library = preload.split(":")[0]
    if not library or os.environ.get("VRAMSCOPE_REEXEC") in ("off", "0", "no", "false"):
        return
    if tried == str(os.getpid()) or _is_listed(library) or not os.access(library, os.R_OK):
        return
    if _is_mapped((os.fsencode(library), b"/libcuda.so")) or not _is_plain_program():
        return
    there = os.environ.get("LD_PRELOAD", "")
    environment = dict(os.environ, LD_PRELOAD=preload + (":" + there if there else ""), VRAMSCOPE_REEXEC_PID=str(os.getpid()))
    os.execve(sys.executable, sys.orig_argv, environment)


try:
    _restart()
except Exception:
    pass  # whatever failed, the program must run; its driver is then not recorded


def _is_off(name):
    return os.environ.get(name, "").strip() in ("off", "0", "no", "false")


def _is_dry():
    return os.environ.get("VRAMSCOPE_DRY") == "1"


def _has_arena():
    return os.environ.get("VRAMSCOPE_ALLOCATOR") == "arena"


# what is put into a module: ours, whether it is wanted, what is missing where that fails
_LINES = ("vramscope._lines", lambda: True, "whether lines of Python are right is not known")
_POOLS = (_LINES, ("vramscope._pools", lambda: True, "what its pool uses is not known"))
_TRITON = (("vramscope._dry_triton", _is_dry, "what Triton's kernels write is taken for unwritten"),)
_LAUNCH = (("vramscope._dry_launch", _is_dry, "a launcher starts all ranks"),)
_DEEPSPEED = (("vramscope._dry_deepspeed", _is_dry, "DeepSpeed compiles its optimizers, and skips steps"),)
_PARTS = {
    "torch": (
        _LINES,
        ("vramscope._simulated", lambda: os.environ.get("VRAMSCOPE_SIMULATED") == "1", "PyTorch on the simulated driver"),
        ("vramscope._arena", _has_arena, "PyTorch keeps its own allocator"),
        ("vramscope._allocator", lambda: True, "its allocator's settings are not known"),
        ("vramscope._torch", lambda: not _is_off("VRAMSCOPE_AUTO_PHASES"), "no automatic phases"),
        ("vramscope._dry", _is_dry, "values are not followed, and no step is the last"),
        ("vramscope._dry_writes", _is_dry, "files of its tensors take room"),
    ),
    "jax": _POOLS,
    "cupy": _POOLS,
}
if _has_arena():
    # torch 2.15's other NCCL wants the allocator's snapshot, which none but PyTorch's own has, and aborts
    os.environ["TORCH_DIST_USE_NCCL2"] = "0"
    _PARTS["torch._inductor.compile_fx"] = (("vramscope._arena", _has_arena, "torch.compile records CUDA graphs"),)
if _is_dry():
    _PARTS.update({"triton": _TRITON, "torch._inductor.runtime.triton_heuristics": _TRITON})
    _PARTS.update({name: _LAUNCH for name in ("torch.distributed.launcher.api", "torch.multiprocessing.spawn", "deepspeed.launcher.runner", "accelerate.commands.launch")})
    _PARTS.update({f"deepspeed.{name}": _DEEPSPEED for name in ("ops.op_builder.builder", "runtime.utils", "runtime.zero.utils")})


# in a dry run: modules of which what they write or send is worth nothing, and goes nowhere
_SENDERS = ("safetensors.torch", "huggingface_hub.hf_api", "wandb", "mlflow", "neptune", "clearml", "comet_ml")


class _After:
    """A meta path finder that lets the others find a module, and calls a hook after the import."""

    def __init__(self, name):
        self._name = name

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return None
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """A module's own loader, which calls the hook after exec_module."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        from importlib import import_module

        if module.__name__ in _SENDERS:
            try:
                getattr(import_module("vramscope._dry_writes"), "install_" + module.__name__.replace(".", "_"))(module)
            except Exception as error:
                print(f"vramscope: what {module.__name__} sends is not stopped: {type(error).__name__}: {error}", file=sys.stderr)
        for name, wanted, lacking in _PARTS.get(module.__name__, ()):
            try:
                if wanted():
                    import_module(name).install(module)
            except Exception as error:
                print(f"vramscope: {lacking}: {type(error).__name__}: {error}", file=sys.stderr)


def _chain():
    """Runs the sitecustomize that this one shadows, under the name that it expects."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.realpath(__file__))
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


for _name in (*_PARTS, *(_SENDERS if _is_dry() else ())):
    if _name not in sys.modules:
        sys.meta_path.insert(0, _After(_name))
_chain()
