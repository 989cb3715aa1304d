"""_dry_ranks - a rank of many that runs alone: nothing of torch.distributed waits for ranks that do not run.

What is exchanged on the device is the stand-in's for NCCL (dry/nccl): as if every rank had what this one has.  Here is what goes other
ways:

    the store        is this process's own.  The id that rank 0 gives the others is there before they ask for it
    barriers         are over at once
    gloo             PyTorch's own group that does no communication, under gloo's name: gathers repeat this rank's part
    objects          gathered ones are this rank's; one that a rank sends which does not run is None, and is told as an assumption
    parts of NCCL    the stand-in is told a part's number of ranks before PyTorch splits a communicator, as the split names colors alone

NCCL's memory of a finished collective is let go by a thread of PyTorch's that looks ten times a second; after an
optimizer's step this process waits for that, except under the second assumption (VRAMSCOPE_DRY_ASSUME).
"""

import collections
import ctypes
import functools
import os
import sys
import types
import warnings

from . import _dry_facts

_STATUS_MISSING = 3  # dry/facts.h
_ID = b"\1" * 128  # an ncclUniqueId
_ANY_COLOR = -2  # dry/nccl/nccl.h
_COMMUNICATORS = 64  # that one group makes: one a device, and one for each peer of sends and receives


def _missing(what):
    _dry_facts.write("missing", "torch.distributed", what)
    print(f"vramscope: a dry run can't go on: {what}, and such a rank does not run here; run it too (--rank)", file=sys.stderr, flush=True)
    os._exit(_STATUS_MISSING)


def _where():
    """The innermost line of the program's own."""
    frame = sys._getframe(1)
    while frame and (os.sep + "torch" + os.sep in frame.f_code.co_filename or __package__ in frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"


# ---- the store ----


def _own_store(init):
    """TCPStore as if this process were the server and waited for nobody, at any free port: the ranks' port may be another one's."""

    @functools.wraps(init)
    def made(self, host_name, port, world_size=None, is_master=False, *args, **named):
        if args:  # timeout, wait_for_workers, ...
            named["timeout"] = args[0]
        named.update(wait_for_workers=False)
        named.pop("master_listen_fd", None)
        init(self, "127.0.0.1", 0, world_size, True, **named)

    return made


def alone(torch):
    """Called once, when torch has been imported: a rank that is the only one needs no port that others may have, as several dry runs at a time do."""
    if torch.distributed.is_available():
        store = torch.distributed.TCPStore
        init, own = store.__init__, _own_store(store.__init__)

        @functools.wraps(init)
        def made(self, host_name, port, world_size=None, is_master=False, *args, **named):
            (own if world_size == 1 and is_master else init)(self, host_name, port, world_size, is_master, *args, **named)

        store.__init__ = made


def _get(get):
    @functools.wraps(get)
    def got(self, key):
        if not self.check([key]):
            _missing(f"the program waits for '{key}' in torch.distributed's store, which another rank writes")
        return get(self, key)

    return got


def _wait(wait):
    @functools.wraps(wait)
    def waited(self, keys, *timeout):
        if self.check(keys):
            wait(self, keys, *timeout)

    return waited


def _with_ids(init):
    """ProcessGroupNCCL, whose rank 0 gives an id to the others by the store."""

    @functools.wraps(init)
    def made(self, store, rank, size, *rest, **named):
        if rank:
            for number in range(_COMMUNICATORS):
                store.set(str(number), _ID)
        for peer in range(rank):  # the lower rank of two gives the id
            store.set(f"{peer}:{rank}", _ID)
        init(self, store, rank, size, *rest, **named)

    return made


def _with_newer_ids(init):
    """The same of PyTorch 2.15's class."""

    @functools.wraps(init)
    def made(self, store, rank, size, options, *rest):
        if rank:
            for number in range(_COMMUNICATORS):
                store.set(f"{options.group_name}/nccl_storekey_{number}", _ID)
        init(self, store, rank, size, options, *rest)

    return made


# ---- gloo ----


def _gloo(c10d, real):
    """What stands under the name ProcessGroupGloo: makes groups that do nothing, and takes both kinds for its own."""
    fake = c10d.FakeProcessGroup
    fake._set_sequence_number_for_group = lambda _: None
    fake._get_sequence_number_for_group = lambda _: 0
    fake.options = property(lambda _: types.SimpleNamespace())

    class Kind(type):
        def __instancecheck__(cls, group):
            return isinstance(group, (fake, real))

        def __call__(cls, _store, rank, size, *_, **__):
            make = getattr(fake, "_create_internal", fake)
            return make(rank, size)

        def __getattr__(cls, name):
            return getattr(real, name)

    return Kind("ProcessGroupGloo", (), {})


# ---- objects ----


def _objects(c10d):
    """The functions of distributed_c10d that would give objects of other ranks."""

    def unknown(objects, src, group):
        if src != c10d.get_rank():
            _dry_facts.value(_where(), f"an object of rank {src}, which does not run", "None")

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
        root = c10d.get_global_rank(group, group_dst) if group_dst is not None and group else (group_dst if group_dst is not None else dst or 0)
        if root == c10d.get_rank():
            object_gather_list[:] = [obj] * c10d.get_world_size(group)

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        unknown(object_list, source(src, group, group_src), group)

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
        root = source(src, group, group_src)
        unknown(scatter_object_output_list, root, group)
        if root == c10d.get_rank():
            scatter_object_output_list[0] = scatter_object_input_list[c10d.get_rank(group)]

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
        _missing(f"the program receives an object of rank {source(src, group, group_src)}")

    def source(src, group, group_src):
        if group_src is None:
            return src or 0
        return c10d.get_global_rank(group, group_src) if group else group_src

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
        return None

    return gather_object, broadcast_object_list, scatter_object_list, recv_object_list, send_object_list


# ---- NCCL ----


def _tell_part(c10d, color, ranks):
    group = getattr(ctypes.CDLL(None), "dry_nccl_group", None)
    if group and c10d.get_rank() in ranks:
        group(color, len(ranks), list(ranks).index(c10d.get_rank()))


def _parted(c10d, split):
    """PyTorch 2.15 makes up its colors itself."""

    @functools.wraps(split)
    def told(self, store, ranks, *rest, **named):
        _tell_part(c10d, _ANY_COLOR, ranks)
        return split(self, store, ranks, *rest, **named)

    return told


def _color(c10d, color):
    """Tells NCCL how large the part is and which rank this process has in it."""

    @functools.wraps(color)
    def told(ranks):
        number = color(ranks)
        _tell_part(c10d, number, ranks)
        return number

    return told


def _let_go(c10d):
    def stepped(*_):
        if c10d.is_initialized() and c10d.get_backend() == c10d.Backend.NCCL:
            try:
                c10d._get_default_group()._wait_for_pending_works()
            except RuntimeError:  # since 2.15 what is called NCCL may be another group, which has no such thing
                pass

    return stepped


def _told_of(torch, c10d, init):
    def at_once(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    @functools.wraps(init)
    def made(self, *args, **named):
        _dry_facts.value(_where(), "when NCCL lets go of DistributedDataParallel's first bucket", "at once")
        init(self, *args, **named)
        if c10d.get_backend(self.process_group) == "gloo":  # what stands for it gives no results
            self.register_comm_hook(None, at_once)
            self.register_comm_hook = lambda *_: None  # there can be one, and nothing is exchanged

    return made


# ---- values ----

# operators of c10d: which argument is written, which is read
_MOVING = {
    "allreduce_": (0, 0),
    "allreduce_coalesced_": (0, 0),
    "reduce_": (0, 0),
    "broadcast_": (0, 0),
    "allgather_": (0, 1),
    "_allgather_base_": (0, 1),
    "allgather_into_tensor_coalesced_": (0, 1),
    "reduce_scatter_": (0, 1),
    "_reduce_scatter_base_": (0, 1),
    "reduce_scatter_tensor_coalesced_": (0, 1),
    "alltoall_base_": (0, 1),
    "alltoall_": (0, 1),
    "gather_": (0, 1),
    "scatter_": (0, 1),
    "recv_": (0, None),
    "recv_any_source_": (0, None),
}


def _flat(value):
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def _covered(outs):
    """The storages of which OUTS are all there is: a list of outputs lies as a rule in one that was made for it."""
    bytes_of = collections.Counter()
    for t in outs:
        bytes_of[t.untyped_storage().data_ptr()] += t.numel() * t.element_size()
    return {at for at, size in bytes_of.items() if size >= next(t for t in outs if t.untyped_storage().data_ptr() == at).untyped_storage().nbytes()}


def _moved(values, call, written, read):
    """The operator, after which what it wrote is as certain as what it read, less, where there are other ranks, that theirs is taken to be the same."""
    from torch import distributed

    def moved(keys, *args):
        marks = [None] if read is None else [values.mark_of(t) for t in _flat(args[read])]
        if not distributed.is_initialized() or distributed.get_world_size() > 1:
            marks.append((values.RULE, "every rank has what this one has"))
        out = call(keys, *args)
        outs = [t for t in _flat(args[written]) if t.is_cuda and t.numel()]
        covered = _covered(outs) if marks and None not in marks else ()
        for t in outs:
            if t.untyped_storage().data_ptr() in covered:
                values.put(t, max(marks), is_new=True)
            else:
                values.forget(t)
        return out

    return moved


_library = None


def _behind(torch, op):
    """What calls OP's kernel, and the key of the function that is to do so (_dry_wrap has the same for aten's)."""
    if hasattr(torch.library, "get_kernel"):
        return torch.library.get_kernel(op, "CUDA").call_boxed, "CUDA"
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    return lambda keys, *args: op.redispatch(keys & after, *args), "BackendSelect"


def follow(torch):
    """What is exchanged on the device, also by a rank that is the only one."""
    global _library
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return
    from . import _dry_values as values

    _library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a kernel of PyTorch's own is replaced
        for name, (written, read) in _MOVING.items():
            try:
                call, key = _behind(torch, getattr(torch.ops.c10d, name).default)
            except (AttributeError, RuntimeError):
                continue  # not in this version
            _library.impl(name, _moved(values, call, written, read), key, with_keyset=True)


# ---- all of it ----


def _no_barrier(*_, **__):
    """All ranks are there as soon as this one is."""


def _put(torch, c10d, **functions):
    """These, in the two modules that have them by their names."""
    for name, function in functions.items():
        for module in (c10d, torch.distributed):
            if hasattr(module, name):
                setattr(module, name, function)


def install(torch):
    """Called once, when torch has been imported."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    store = torch.distributed.Store
    torch.distributed.TCPStore.__init__ = _own_store(torch.distributed.TCPStore.__init__)
    store.get, store.wait = _get(store.get), _wait(store.wait)
    _put(torch, c10d, _store_based_barrier=_no_barrier, monitored_barrier=_no_barrier)
    _put(torch, c10d, **{function.__name__: function for function in _objects(c10d)})
    _put(torch, c10d, _process_group_color=_color(c10d, c10d._process_group_color))
    if c10d.is_gloo_available():
        c10d.FakeProcessGroup = torch._C._distributed_c10d.FakeProcessGroup
        _put(torch, c10d, ProcessGroupGloo=_gloo(c10d, c10d.ProcessGroupGloo))
    if c10d.is_nccl_available():
        c10d.ProcessGroupNCCL.__init__ = _with_ids(c10d.ProcessGroupNCCL.__init__)
        for name in ("ProcessGroupNCCL2", "ProcessGroupNCCLLazy"):
            newer = getattr(c10d, name, None)
            if newer:
                newer.__init__, newer.split = _with_newer_ids(newer.__init__), _parted(c10d, newer.split)
        _put_hooks(torch, c10d)


def _put_hooks(torch, c10d):
    if os.environ.get("VRAMSCOPE_DRY_ASSUME") != "second":
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(_let_go(c10d))
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel.__init__ = _told_of(torch, c10d, parallel.__init__)
    logger = getattr(torch.distributed, "Logger", None)
    if logger:  # it asks what is called gloo for its threads, as if it were gloo
        logger.set_construction_data_and_log = lambda *_, **__: None
