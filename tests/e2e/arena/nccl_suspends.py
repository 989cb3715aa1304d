"""nccl_suspends.py CASE - a rank of two on the stand-in for NCCL (the other is not there) suspends itself, and says in which order what went and came."""
import sys

import torch
import torch.distributed as dist
import vramscope
from torch._C._distributed_c10d import Backend
from vramscope import _suspended

MIB = 1 << 20
COMMUNICATOR = 484 * MIB  # what the stand-in's takes
cuda = torch.device("cuda")
can = hasattr(dist.ProcessGroupNCCL, "suspend")  # 2.12 does
order, fails, names = [], {}, {}


class Other(Backend):
    """Of another library, which knows no suspension."""

    def getBackendName(self):
        return "other"


def begin():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=2)
    groups = [dist.group.WORLD, dist.new_group([0, 1]), dist.new_group([0, 1])]
    if can:  # else nobody makes such a one in Python
        dist.Backend.register_backend("other", lambda store, rank, size, timeout: Other(rank, size), devices=["cuda"])
        groups.append(dist.new_group([0, 1], backend="other"))
    for name, group in enumerate(groups):
        names[id(group._get_backend(cuda))] = name
    known = dist.distributed_c10d._world.pg_names
    known[dist.group.WORLD] = known.pop(dist.group.WORLD)  # ranks may make groups in different orders
    for group in groups[:2]:  # the third has no communicator yet
        assert reduced(group) == 14
    return groups, [group._get_backend(cuda) for group in groups]


def listen():
    """Each call is written down, and fails as often as `fails` has an error for it."""
    for owner, call in ((dist.ProcessGroupNCCL, "suspend"), (dist.ProcessGroupNCCL, "resume"), (_suspended.suspended, "_call")):
        if hasattr(owner, call):
            setattr(owner, call, heard(call, getattr(owner, call)))


def heard(call, function):
    def inside(self, *arguments):
        what = " ".join((call, "arena" if arguments else str(names[id(self)]))) if call != "_call" else f"{arguments[0]} arena"
        order.append(what)
        if fails.get(what):
            raise fails[what].pop()
        return function(self, *arguments)

    return inside


def reduced(group):
    x = torch.empty(1, dtype=torch.int32, device="cuda")
    x.copy_(torch.tensor([7], dtype=torch.int32))
    dist.all_reduce(x, group=group)
    return x.item()


def free():
    return torch.cuda.mem_get_info()[0]


def ordered(*wanted):
    if not can:
        wanted = [what for what in wanted if "arena" in what]
    assert order == list(wanted), order
    order.clear()


ALL = ("suspend 0", "suspend 1", "suspend arena", "resume arena", "resume 1", "resume 0")


def goes_and_comes(groups, backends):
    before, reserved = free(), torch.cuda.memory_reserved()
    assert reserved >= 20 * MIB
    with vramscope.suspended() as suspension:
        assert suspension.moved and suspension.why == "", suspension.why
        assert free() - before == reserved + 2 * COMMUNICATOR * can, (free() - before, reserved)
    ordered(*ALL)
    assert free() == before


def body_raises(groups, backends):
    try:
        with vramscope.suspended():
            raise KeyError
    except KeyError:
        ordered(*ALL)


def work_inside(groups, backends):
    """It brings the arena back, and not NCCL's memory."""
    x = torch.zeros(1, device="cuda")
    with vramscope.suspended():
        before = free()
        x.cpu()
        assert free() < before
        assert not can or backends[0].memory_stats()["suspended"]
    ordered(*ALL)


def nested(groups, backends):
    with vramscope.suspended():
        with vramscope.suspended() as inner:
            assert not inner.moved and inner.why == "it is suspended already", inner.why
        order.clear()
    ordered(*ALL[3:])


def one_stays(groups, backends):
    fails["suspend 1"] = [RuntimeError("invalid usage\nLast error:")]
    with vramscope.suspended() as suspension:
        assert suspension.moved
        assert suspension.why == ("group 1: NCCL refuses to give its memory back (invalid usage); NCCL_DEBUG=WARN tells more" if can else ""), suspension.why
    ordered(*ALL[:4], "resume 0")


def sends_alone(groups, backends):
    """Communicators of two ranks are out of PyTorch's reach."""
    dist.send(torch.zeros(1, device="cuda"), 1, group=groups[2])
    with vramscope.suspended() as suspension:
        assert suspension.moved and suspension.why == "", suspension.why
    ordered(*ALL[:2], "suspend 2", *ALL[2:])


def full_for_a_while(groups, backends):
    fails["resume 1"] = [RuntimeError("unhandled cuda error")] * 2
    with vramscope.suspended():
        pass
    ordered(*ALL[:4], *["resume 1"] * 3, "resume 0")


def full_for_long(groups, backends):
    fails["resume 1"], _suspended._PATIENCE = [RuntimeError("unhandled cuda error\nLast error:")], -1  # seconds
    try:
        with vramscope.suspended() as suspension:
            pass
        assert not can
    except RuntimeError as error:
        assert str(error) == "vramscope: group 1: NCCL's memory does not come back (unhandled cuda error): have other processes free the device's", error
    order.clear()
    suspension._resume_nccl()
    ordered("resume 1", "resume 0")


def refused(groups, backends):
    with vramscope.suspended() as suspension:
        assert not suspension.moved and "the host's memory" in suspension.why, suspension.why
        ordered(*ALL[:3], *ALL[4:])
        assert reduced(groups[1]) == 14
    ordered()


def without(groups, backends):
    with vramscope.suspended() as suspension:
        assert not suspension.moved
    ordered("suspend arena")


def main():
    cases = {"arena": (goes_and_comes, body_raises, work_inside, nested, one_stays, full_for_a_while, full_for_long, sends_alone), "refused": (refused,), "without": (without,)}
    groups, backends = begin()
    listen()
    alive = torch.zeros(20 * MIB, dtype=torch.uint8, device="cuda")
    for case in cases[sys.argv[1]]:
        case(groups, backends)
        assert [reduced(group) for group in groups[:2]] == [14, 14], case
        print(case.__name__, flush=True)
    del alive
    dist.destroy_process_group()


main()
