"""Reads what the oracle wrote, and says which events a complete recording must have for it.

A driver call is not always an event (a free of NULL, the second of many Retains). Each such translation is made from what CUPTI
told, never from what vramscope recorded.
"""
import collections
import re

from calls import CALLS

# What both sides are brought to.  `size` None: not told by the call, so not compared.  `function` is the name without
# its version: CUPTI counts some exported names under an older or newer number than the export has.
Event = collections.namedtuple("Event", "tid op function address size status space")
MEM_ALLOC_NODE, MEM_FREE_NODE = 10, 11
AUTO_FREE_ON_LAUNCH = 1  # CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH


def plain(name):
    return re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", name or "")


class Call:
    def __init__(self, seq, tid, name, status, values):
        self.seq, self.tid, self.name, self.status = seq, tid, name, status
        known = CALLS.get(name, {"kind": "unknown", "fields": {}})
        self.kind = known["kind"]
        self.values = dict(zip(known["fields"], values))


class Log:
    """One process's log.  `calls`: in the order in which their lines were written, which for what gives back is its
    beginning and for the rest its end: the same rule as vramscope's own order."""

    def __init__(self, path):
        self.threads, self.calls, self.activities, self.pools, self.errors = {}, [], [], [], []
        self.contexts = collections.defaultdict(list)
        self.loose_contexts, self.static_modules = [], []
        self.unknown = collections.Counter()
        self.pid, self.ended, self.bad_lines, self.unfinished = None, False, 0, 0
        ends = {}
        with open(path, errors="replace") as lines:
            for line in lines:
                try:
                    self._line(line.rstrip("\n").split(" "), ends)
                except (ValueError, IndexError):
                    self.bad_lines += 1  # the last one of a process that was killed
        for call in self.calls:
            if call.status is None:
                call.status = ends.get(call.seq, 0)  # one that never came back is told as it was recorded: before
                self.unfinished += call.seq not in ends

    def _line(self, word, ends):
        kind = word[0]
        if kind == "C":
            self.calls.append(Call(int(word[1], 16), int(word[2]), word[3], int(word[4], 16), [int(v, 16) for v in word[5:]]))
        elif kind == "B":
            self.calls.append(Call(int(word[1], 16), int(word[2]), word[3], None, [int(v, 16) for v in word[4:]]))
        elif kind == "R":
            ends[int(word[1], 16)] = int(word[2], 16)
        elif kind == "A":
            self.activities.append(Memory(*(int(word[i]) if i in (1, 2, 5, 6, 9) else int(word[i], 16)
                                            for i in (1, 2, 3, 4, 5, 6, 9, 10, 11, 12))))
        elif kind == "K":
            call = int(word[1], 16)
            (self.contexts[call] if call else self.loose_contexts).append((word[3], int(word[4], 16), int(word[2])))
        else:
            self._rare_line(kind, word)

    def _rare_line(self, kind, word):
        if kind == "T":
            self.threads[int(word[1])] = " ".join(word[2:])
        elif kind == "H":
            self.pid = int(word[2])
        elif kind == "U":
            self.unknown[word[3]] += 1
        elif kind == "P":
            self.pools.append([int(v) for v in word[1:3]] + [int(word[3], 16)] + [int(v) for v in word[4:6]] + [int(v, 16) for v in word[6:9]])
        elif kind == "E":
            self.errors.append(" ".join(word[1:]))
        elif kind == "Z":
            self.ended = True
            if int(word[2]):
                self.errors.append(f"{word[2]} lines of the oracle's log were lost")
        elif kind != "M":
            raise ValueError(kind)


Memory = collections.namedtuple("Memory", "op kind address size pid device is_async pool pool_size pool_used")


def net_effect(nodes):
    """What a launch of these memory nodes leaves behind: ({address: size} allocated, {addresses} freed)."""
    balance, sizes = collections.Counter(), {}
    for is_alloc, address, size in nodes:
        balance[address] += 1 if is_alloc else -1
        if is_alloc:
            sizes[address] = size
    return ({a: sizes[a] for a, n in balance.items() if n > 0}, {a for a, n in balance.items() if n < 0})


class Witness:
    """Turns a log into the events that must be there."""

    def __init__(self, log):
        self.log = log
        self.events = []
        self.skipped = collections.Counter()  # calls that rightly make no event, by why
        self.unexamined = collections.Counter(log.unknown)
        self.live = {}                        # address -> (size, space)
        self.graphs = collections.defaultdict(list)  # graph -> [(is_alloc, address, size)]
        self.execs = {}                       # exec -> (graph, its nodes, flags)
        self.relaunched = collections.Counter()  # (address, size) freed by a launch that made it again
        self.layers, self.mipmapped = {}, []  # array -> layers; [array, bytes]
        self.puzzling = set()                 # graphs whose nodes cannot be told: they hold other graphs
        for call in log.calls:
            getattr(self, "_" + call.kind, self._unknown)(call, call.values)
        for sign, context, tid in log.loose_contexts:
            if sign == "+":  # no public function was called for it
                self._add_event(tid, "context_create", "(none)", context, None, 0)
            else:
                self.skipped["contexts that the driver ended by itself at exit"] += 1

    def _add_event(self, tid, op, function, address, size, status, space=None):
        self.events.append(Event(tid, op, function, address, size, status, space))

    def _add(self, call, op, address, size=None, space=None):
        self._add_event(call.tid, op, plain(call.name), address, size, call.status, space)

    def _unknown(self, call, _):
        self.unexamined[call.name] += 1

    def _state(self, call, _):
        self.skipped["calls that change a pool's or a graph's state: the figure is sampled, see the bytes"] += 1

    # ---- allocations and frees ----
    def _allocated(self, call, v, space):
        size = v.get("size")
        self._add(call, "alloc", v["address"], size, space)
        if call.status == 0:
            self.live[v["address"]] = (size, space)

    def _alloc(self, call, v):
        self._allocated(call, v, "device")

    def _managed(self, call, v):
        self._allocated(call, v, "managed")

    def _pinned(self, call, v):
        self._allocated(call, v, "pinned")

    def _registered(self, call, v):
        self._allocated(call, v, "registered")

    def _array(self, call, v):
        if v.get("layers", 1) > 1:
            self.layers[v["address"]] = v["layers"]
        if "Mipmapped" in call.name and call.status == 0:
            self.mipmapped.append((v["address"], v["size"]))
        if not v["size"]:  # a format whose bytes the oracle does not know, or memory that comes later
            v = dict(v, size=None)
        self._allocated(call, v, "array")

    def _import(self, call, v):
        self._allocated(call, dict(v, size=None), "imported")  # the owner's size, which this call does not tell

    def _async(self, call, v):
        if not v.get("graph"):
            self._allocated(call, v, "pool")
            return
        self._add(call, "graph_node", v["address"], v["size"])
        self.graphs[v["graph"]].append((True, v["address"], v["size"]))

    def _freed(self, call, address):
        if address == 0:
            self.skipped["frees of NULL"] += 1
            return
        size, space = self.live.get(address, (None, None))
        self._add(call, "free", address, size, space)
        if call.status == 0:
            self.live.pop(address, None)

    def _free(self, call, v):
        self._freed(call, v["address"])

    def _free_async(self, call, v):
        if not v.get("graph"):
            self._freed(call, v["address"])
            return
        self._add(call, "graph_node", v["address"], 0)
        self.graphs[v["graph"]].append((False, v["address"], 0))

    # ---- virtual memory management ----
    def _plain_vmm(self, call, v):
        self._add(call, call.kind, v["address"], v.get("size"))

    _va_reserve = _va_free = _unmap = _set_access = _map = _plain_vmm

    def _phys_create(self, call, v):
        space = "device" if v["location"] >> 32 in (1, 6) else "host_vmm"  # 6: of a part of a device
        self._add(call, "phys_create", v["address"], v["size"], space)

    def _phys_release(self, call, v):
        self._add(call, "phys_release", v["address"])

    def _phys_retain(self, call, v):
        self._add(call, "phys_retain", v["address"])

    def _multicast_create(self, call, v):
        self._add(call, "phys_create", v["address"], v["size"], "multicast")

    def _bind(self, call, v):
        self._add(call, "bind", v["address"], v["size"])

    def _unbind(self, call, v):
        self._add(call, "unbind", v["address"], v["size"])

    # ---- graphs ----
    def _node_alloc(self, call, v):
        self._add(call, "graph_node", v["address"], v["size"])
        if call.status == 0:
            self.graphs[v["graph"]].append((True, v["address"], v["size"]))

    def _node_free(self, call, v):
        self._add(call, "graph_node", v["address"], 0)
        if call.status == 0:
            self.graphs[v["graph"]].append((False, v["address"], 0))

    def _node_any(self, call, v):
        if v["type"] == MEM_ALLOC_NODE:
            self._node_alloc(call, v)
        elif v["type"] == MEM_FREE_NODE:
            self._node_free(call, v)
        else:
            self.skipped["graph nodes of other kinds"] += 1

    def _node_child(self, call, v):
        if self.graphs.get(v["child"]) or v["child"] in self.puzzling:
            self.puzzling.add(v["graph"])

    def _node_destroy(self, call, v):
        self.skipped["graph nodes destroyed"] += 1

    def _graph_destroy(self, call, v):
        if call.status == 0:  # its handle may be another graph's soon
            self.graphs.pop(v["graph"], None)
            self.puzzling.discard(v["graph"])
        self.skipped["graphs destroyed: their executable copies live on"] += 1

    def _graph_clone(self, call, v):
        if call.status == 0 and v["of"] in self.graphs:
            self.graphs[v["graph"]] = list(self.graphs[v["of"]])

    def _instantiate(self, call, v):
        if call.status == 0:
            flags = v.get("flags", self.execs.get(v["exec"], (0, 0, 0))[2] if call.kind == "exec_update" else 0)
            self.execs[v["exec"]] = (v["graph"], list(self.graphs.get(v["graph"], ())), flags)

    _exec_update = _instantiate

    def _launch(self, call, v):
        """Memory that outlives the launch is allocated by it; what other graphs allocated is freed by it, and with
        AUTO_FREE_ON_LAUNCH what an earlier launch left alive.  By address: a graph's nodes have no other order."""
        graph, nodes, flags = self.execs.get(v["exec"], (None, (), 0))
        if graph in self.puzzling:
            self.unexamined[call.name + " of a graph with memory inside child graphs"] += 1
        outliving, freed = net_effect(nodes)
        if "Upload" in call.name or not (outliving or freed):
            self.skipped["launches and uploads of graphs that change no memory that outlives them"] += 1
            return
        if flags & AUTO_FREE_ON_LAUNCH:
            again = {address for address in outliving if address in self.live}
            self.relaunched.update((address, outliving[address]) for address in again)
            freed |= again
        for address in sorted(freed):
            self._freed(call, address)
        for address, size in sorted(outliving.items()):
            if call.status == 0:
                self._allocated(call, {"address": address, "size": size}, "graph")

    # ---- contexts, code, limits ----
    def _context_create(self, call, v):
        self._add(call, "context_create", v["address"])

    def _context_destroy(self, call, v):
        if v["address"]:
            self._add(call, "context_destroy", v["address"])

    _green_create, _green_destroy = _context_create, _context_destroy

    def _primary_retain(self, call, _):
        """The first of many retains creates the context, which a resource callback inside the call tells."""
        made = [c for sign, c, _ in self.log.contexts.get(call.seq, ()) if sign == "+"]
        for context in made:
            self._add_event(call.tid, "context_create", plain(call.name), context, None, 0)
        if not made:
            self.skipped["contexts retained that were there, or refused"] += 1

    def _primary_end(self, call, _):
        ended = [c for sign, c, _ in self.log.contexts.get(call.seq, ()) if sign == "-"]
        for context in ended:
            self._add_event(call.tid, "context_destroy", plain(call.name), context, None, call.status)
        if not ended:
            self.skipped["contexts released that others still hold"] += 1

    def _limit(self, call, v):
        self._add(call, "limit", v["address"])

    def _module_load(self, call, v):
        self._add(call, "module_load", v["address"])

    def _module_unload(self, call, v):
        self._add(call, "module_unload", v["address"])

    def _import_external(self, call, v):
        self._add(call, "alloc", v["address"], v["size"] or None, "imported")

    def _free_external(self, call, v):
        self._add(call, "free", v["address"], None, "imported")
