"""_dry_writes - what a program computes in a dry run is worth nothing: files of it take no room, and none of it goes anywhere.

    torch.save, safetensors     what is zero is a hole in the file, which so has its size and takes no room: a device's tensors are
                                nothing else, but for the small ones that are kept
    hubs, trackers              what would be sent is not, and is listed; trackers are offline

Where the files go is not decided here (analyzer/fit/contain.h).  `install_X` is called when module X has been imported.
"""

import concurrent.futures
import inspect
import json
import os
import types

from . import _dry_facts

HOLE = 1 << 20  # bytes of a tensor that are looked at whether they are zero


def _is_zero(tensor):
    """TENSOR, of the CPU, contiguous."""
    import torch

    count = tensor.numel() * tensor.element_size()
    data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), tensor.storage_offset() * tensor.element_size(), (count,))
    whole = data[: count // 8 * 8].view(torch.int64) if data.data_ptr() % 8 == 0 else data
    return not bool(whole.any()) and not bool(data[count // 8 * 8 :].any())


def _without_uploads(what):
    _dry_facts.write("wrote", "an upload: " + what)


# ---- torch ----


def install(torch):
    """Called once, when torch has been imported."""
    _dry_facts.write("torch", torch.__version__, torch.version.cuda or "none")
    writer = getattr(torch._C, "PyTorchFileWriter", None)
    if writer is None or not hasattr(writer, "write_record_metadata"):
        return

    class PyTorchFileWriter(writer):
        def __init__(self, file, *more, **named):
            super().__init__(file, *more, **named)
            self._is_own = isinstance(file, (str, os.PathLike))  # not a stream of the program's, in which nothing can be left out

        def write_record(self, name, data, size, *more):
            if self._is_own and size >= HOLE and isinstance(data, torch.UntypedStorage) and _is_zero(torch.empty(0, dtype=torch.uint8).set_(data)):
                return self.write_record_metadata(name, size)
            return super().write_record(name, data, size, *more)

    torch._C.PyTorchFileWriter = PyTorchFileWriter


# ---- safetensors ----


def _type_names(torch):
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
             "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
             "complex64": "C64", "uint64": "U64", "uint32": "U32", "uint16": "U16"}  # fmt: skip
    return {getattr(torch, name): code for name, code in names.items() if hasattr(torch, name)}


def _write_safetensors(torch, tensors, filename, metadata):
    """The format is a length, a header of JSON that says where each tensor lies, and the tensors, one behind the other."""
    codes, header, at = _type_names(torch), {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": codes[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(filename, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            host, size = tensor.detach().cpu().contiguous(), tensor.numel() * tensor.element_size()
            if size >= HOLE and _is_zero(host):
                file.seek(size, os.SEEK_CUR)
            elif size:
                file.write(host.view(-1).view(torch.uint8).numpy().tobytes())
        file.truncate(8 + len(text) + at)


def install_safetensors_torch(module):
    import torch

    save_file, codes = module.save_file, _type_names(torch)

    def save_file_of_holes(tensors, filename, metadata=None, *args, **kwargs):
        known = all(isinstance(t, torch.Tensor) and t.dtype in codes and t.layout is torch.strided for t in tensors.values())
        if args or kwargs or not known or not any(t.is_cuda for t in tensors.values()):
            return save_file(tensors, filename, metadata, *args, **kwargs)
        return _write_safetensors(torch, tensors, filename, metadata)

    module.save_file = save_file_of_holes


# ---- the hub ----

_HUB = ("create_commit", "preupload_lfs_files", "upload_file", "upload_folder", "upload_large_folder", "create_repo", "delete_repo", "delete_file", "delete_files", "delete_folder",
        "create_branch", "delete_branch", "create_tag", "delete_tag", "move_repo", "super_squash_history", "update_repo_settings")  # fmt: skip


def _hub_stub(module, name):
    def stub(*args, **kwargs):
        repo = kwargs.get("repo_id") or next((a for a in args if isinstance(a, str)), "")
        _without_uploads(f"huggingface_hub.{name} {repo}".strip())
        if name == "create_repo":
            return module.RepoUrl(f"https://huggingface.co/{repo}")
        nothing = types.SimpleNamespace(commit_url="", oid="", pr_url=None, pr_num=None, pr_revision=None, commit_message="")
        if not kwargs.get("run_as_future"):
            return nothing
        upload = concurrent.futures.Future()
        upload.set_result(nothing)
        return upload

    stub.__name__ = name
    return stub


def install_huggingface_hub_hf_api(module):
    for name in _HUB:
        stub = _hub_stub(module, name)
        if hasattr(module.HfApi, name):
            setattr(module.HfApi, name, lambda self, *args, _stub=stub, **kwargs: _stub(*args, **kwargs))
        if hasattr(module, name):
            setattr(module, name, stub)


# ---- trackers ----


def _local(function, what, **settings):
    def wrapper(*args, **kwargs):
        _without_uploads(what)
        return function(*args, **{**kwargs, **settings})

    return wrapper


def install_wandb(module):
    init = module.init

    def offline_init(*args, **kwargs):
        if kwargs.get("mode") != "disabled" and os.environ.get("WANDB_MODE") != "disabled":
            _without_uploads("wandb.init")
            kwargs["mode"] = os.environ["WANDB_MODE"] = "offline"
        return init(*args, **kwargs)

    module.init = offline_init
    if os.environ.get("WANDB_MODE") != "disabled":
        os.environ["WANDB_MODE"] = "offline"


def install_mlflow(module):
    """Stores that lie elsewhere are a directory, whoever asks for one."""
    from mlflow.tracking._model_registry import registry, utils as registry_utils
    from mlflow.tracking._tracking_service import registry as tracking, utils

    def nearer(get_store, resolve):
        def store(self, uri=None, *args, **kwargs):
            uri = str(resolve(kwargs.pop("store_uri", uri)))
            if uri.startswith(("http", "databricks", "uc")):
                _without_uploads(f"mlflow {uri}")
                uri = "file:./mlruns"
            return get_store(self, uri, *args, **kwargs)

        return store

    for kind, resolve in (tracking.TrackingStoreRegistry, utils._resolve_tracking_uri), (registry.ModelRegistryStoreRegistry, registry_utils._resolve_registry_uri):
        kind.get_store = nearer(kind.get_store, resolve)


def install_neptune(module):
    def silent(kind, init):
        def made(self, *args, **kwargs):
            if kwargs.get("mode") != "read-only":
                _without_uploads(f"neptune.{kind}")
                kwargs["mode"] = "debug"  # the one mode that all of them have and that sends nothing
            init(self, *args, **kwargs)

        return made

    for kind in "Run", "Model", "ModelVersion", "Project":
        if hasattr(module, kind):
            getattr(module, kind).__init__ = silent(kind, getattr(module, kind).__init__)


def install_clearml(module):
    _without_uploads("clearml")
    module.Task.set_offline(True)
    module.Task.set_offline = lambda *_, **__: None


def _offline_kind(online, offline):
    """OFFLINE, with the arguments and the name of ONLINE."""
    names = list(inspect.signature(online.__init__).parameters)[1:]

    class Experiment(offline):
        def __init__(self, *args, **kwargs):
            _without_uploads("comet_ml." + online.__name__)
            super().__init__(**dict(zip(names, args)), **kwargs)

    Experiment.__name__ = online.__name__
    return Experiment


def install_comet_ml(module):
    module.Experiment = _offline_kind(module.Experiment, module.OfflineExperiment)
    module.ExistingExperiment = _offline_kind(module.ExistingExperiment, module.ExistingOfflineExperiment)
    if hasattr(module, "start"):
        module.start = _local(module.start, "comet_ml.start", online=False)
