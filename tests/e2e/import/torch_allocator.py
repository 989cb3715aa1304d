"""torch_allocator.py - PyTorch's caching allocator in its plainest form, with random programs, and the snapshots that it would write.

Written from the algorithm's description and not from the C code that it checks: blocks lie in lists, and every search looks at all.
"""
import pickle
import random

MIB = 1 << 20
POOL = 1 << 48  # stream + n * POOL: of private pool n, which shares no memory with others


class OutOfMemory(Exception):
    pass


class Block:
    def __init__(self, segment, address, size, state="inactive"):
        self.segment, self.address, self.size, self.state, self.requested = segment, address, size, state, 0
        self.mapped, self.since = True, 0


class Segment:
    def __init__(self, address, size, stream, small):
        self.address, self.stream, self.small = address, stream, small
        self.blocks = [Block(self, address, size)]


class Allocator:
    def __init__(self, capacity=1 << 40, max_split=None, roundup=0, expandable=False, seed=0, collect_above=None, reserve=None, oldest=False):
        self.oldest = oldest  # of blocks of one size the oldest segment's is taken, as since 2.13
        self.collect_above, self.searches, self.reserve = collect_above, {True: 0, False: 0}, reserve
        self.capacity, self.max_split, self.roundup, self.expandable = capacity, max_split, roundup, expandable
        self.segments, self.trace, self.time, self.next_address = [], [], 1_700_000_000_000_000, 0x100000000000 + (seed << 40)
        self.random = random.Random(seed)
        self.pools = []  # of each entry of the trace
        self.ended = {0}  # pools whose memory goes back as it is cached: the common one, and private ones that nobody has any more

    # ---- what is recorded

    def note(self, action, address, size, stream, stack=None):
        self.time += 7
        key = "device_free" if action == "oom" else "addr"
        frames = [{"name": n, "filename": f, "line": line} for n, f, line in stack or ()]
        self.pools.append((0, stream // POOL))
        self.trace.append({"action": action, key: address, "size": size, "stream": stream % POOL, "time_us": self.time, "frames": frames})

    # ---- the driver

    def take_segment(self, size):
        address = self.next_address
        self.next_address += size + self.random.randrange(1, 5) * 64 * MIB
        return (1 << 46) - self.next_address if self.oldest else address  # falling: the oldest one is the highest

    def take_addresses(self, size):
        self.next_address += 128 << 30
        return self.next_address - (128 << 30)

    def reserved(self):
        return sum(b.size for s in self.segments for b in s.blocks if b.mapped)

    # ---- sizes

    def round(self, size):
        if size < 512:
            return 512
        if self.roundup > 1 and size > 512 * self.roundup:
            if size & (size - 1) == 0:
                return size
            floor = 1 << (size.bit_length() - 1)
            step = floor // self.roundup
            return -(-size // step) * step
        return -(-size // 512) * 512

    @staticmethod
    def segment_size(size):
        if size <= MIB:
            return 2 * MIB
        return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    # ---- requests

    def free_blocks(self, stream, small):
        found = [b for s in self.segments if s.stream == stream and s.small == small for b in s.blocks if b.state == "inactive" and b.mapped]
        return sorted(found, key=lambda b: (b.size, self.oldest and self.segments.index(b.segment), b.address))

    def find(self, size, stream, small):
        self.searches[small] += 1
        fits = [b for b in self.free_blocks(stream, small) if b.size >= size]
        if not fits:
            return None
        best = fits[0]
        if self.expandable:
            def whole(b):
                i = b.segment.blocks.index(b) + 1
                after = b.segment.blocks[i] if i < len(b.segment.blocks) else None
                return b.size + (after.size if after and not after.mapped else 0)
            for other in fits[1:]:
                if whole(other) >= whole(best):
                    break
                best = other
        if self.max_split and ((size < self.max_split <= best.size) or (size >= self.max_split and best.size >= size + 20 * MIB)):
            return None
        return best

    def new_segment(self, size, stream, small):
        wanted = self.segment_size(size)
        if self.reserved() + wanted > self.capacity:
            return None
        if self.expandable:
            return self.grow(size, stream, small)
        address = self.take_segment(wanted)
        if address is None:
            return None
        segment = Segment(address, wanted, stream, small)
        self.segments.append(segment)
        self.note("segment_alloc", address, wanted, stream)
        return segment.blocks[0]

    def map(self, block, size):
        unit = 2 * MIB if block.segment.small else 20 * MIB
        size = min(-(-size // unit) * unit, block.size)
        if not self.has_memory(size):
            return None
        blocks = block.segment.blocks
        i = blocks.index(block)
        self.note("segment_map", block.address, size, block.segment.stream)
        if size < block.size:
            rest = Block(block.segment, block.address + size, block.size - size)
            rest.mapped = False
            blocks.insert(i + 1, rest)
            block.size = size
        block.mapped = True
        return self.merge(block)

    def has_memory(self, size):
        return self.reserved() + size <= self.capacity

    def grow(self, size, stream, small):
        for s in sorted((s for s in self.segments if s.stream == stream and s.small == small), key=lambda s: s.address):
            for i, b in enumerate(s.blocks):
                if b.mapped:
                    continue
                start = i - 1 if i and s.blocks[i - 1].state == "inactive" else i
                run = []
                for c in s.blocks[start:]:
                    if c.state != "inactive" or sum(x.size for x in run) >= size:
                        break
                    run.append(c)
                if sum(x.size for x in run) < size:
                    continue
                return self.map_run(run[0], size)
        unit = 2 * MIB if small else 20 * MIB
        reserved = -(-self.reserve // unit) * unit if self.reserve else 64 << 30
        segment = Segment(self.take_addresses(reserved), reserved, stream, small)
        segment.blocks[0].mapped = False
        self.segments.append(segment)
        return self.map_run(segment.blocks[0], size)

    def map_run(self, block, size):
        if not block.mapped:
            block = self.map(block, min(block.size, size))
        while block and block.size < size:
            after = block.segment.blocks[block.segment.blocks.index(block) + 1]
            block = self.map(after, min(size - block.size, after.size))
        return block

    def malloc(self, requested, stream=0, stack=None):
        size = self.round(requested)
        small = size <= MIB
        block = self.find(size, stream, small)
        if not block and self.collect_above:
            self.collect(int(self.collect_above * self.capacity))
        block = block or self.new_segment(size, stream, small)
        if not block and self.max_split:
            block = self.release_oversize(size, stream, small) and self.new_segment(size, stream, small)
        if not block:
            self.release_all()
            block = self.new_segment(size, stream, small)
        if not block:
            self.note("oom", self.capacity - self.reserved(), requested, stream, stack)
            raise OutOfMemory
        rest = block.size - size
        if rest >= 512 if small or self.expandable else (not self.max_split or size < self.max_split) and rest > MIB:
            blocks = block.segment.blocks
            tail = Block(block.segment, block.address + size, rest)
            tail.since = self.searches[small]
            blocks.insert(blocks.index(block) + 1, tail)
            block.size = size
        block.state, block.requested = "active_allocated", requested
        self.note("alloc", block.address, requested, stream, stack)
        return block

    # ---- ends

    def merge(self, block):
        blocks = block.segment.blocks
        i = blocks.index(block)
        for j in (i - 1, i + 1):
            if 0 <= j < len(blocks) and blocks[j] is not block and blocks[j].state == "inactive" and blocks[j].mapped == block.mapped:
                other = blocks[j]
                block.address = min(block.address, other.address)
                block.size += other.size
                blocks.remove(other)
                return self.merge(block)
        return block

    def free(self, block, deferred=False):
        self.note("free_requested", block.address, block.requested, block.segment.stream)
        block.state = "active_pending_free"
        if not deferred:
            self.complete(block)

    def complete(self, block):
        if block.state != "active_pending_free":
            return
        self.note("free_completed", block.address, block.requested, block.segment.stream)
        block.state = "inactive"
        self.merge(block).since = self.searches[block.segment.small]

    def is_kept(self, segment):
        return segment.stream // POOL not in self.ended

    def collect(self, most):
        """Whole large blocks go back, those of at least the mean age first, until MOST is met."""
        wanted, got = self.reserved() - most, 0
        while wanted > got:
            whole = [s for s in self.segments if not s.small and len(s.blocks) == 1 and s.blocks[0].state == "inactive" and not self.is_kept(s)]
            ages = {id(s): self.searches[False] - s.blocks[0].since for s in whole}
            old = [s for s in whole if ages[id(s)] >= sum(ages.values()) / len(whole)]
            if not old:
                break
            got += sum(s.blocks[0].size for s in old)
            for s in old:
                self.release(s)

    def release(self, segment):
        self.segments.remove(segment)
        self.note("segment_free", segment.address, segment.blocks[0].size, segment.stream)

    def release_oversize(self, size, stream, small):
        wanted, released = max(size, self.max_split), 0
        free = self.free_blocks(stream, small)
        fits = [b for b in free if b.size >= wanted]
        if fits:
            self.release(fits[0].segment)
            return True
        for b in reversed(free):
            if released >= wanted or b.size < self.max_split:
                break
            released += b.size
            self.release(b.segment)
        return released >= wanted

    def release_all(self):
        for s in list(self.segments):
            for b in list(s.blocks):
                self.complete(b)
        for small in (False, True):
            for s in [s for s in self.segments if s.small == small and not self.is_kept(s)]:
                if not self.expandable and len(s.blocks) == 1 and s.blocks[0].state == "inactive":
                    self.release(s)
                elif self.expandable:
                    for b in [b for b in s.blocks if b.state == "inactive" and b.mapped]:
                        self.unmap(b)

    def unmap(self, block):
        segment, unit = block.segment, 2 * MIB if block.segment.small else 20 * MIB
        first = segment.address + -(-(block.address - segment.address) // unit) * unit
        last = segment.address + (block.address + block.size - segment.address) // unit * unit
        if first >= last:
            return
        i = segment.blocks.index(block)
        parts = [Block(segment, a, e - a) for a, e in ((block.address, first), (first, last), (last, block.address + block.size)) if e > a]
        gone = next(p for p in parts if p.address == first)
        gone.mapped = False
        segment.blocks[i : i + 1] = parts
        self.note("segment_unmap", first, last - first, segment.stream)
        gone = self.merge(gone)
        if len(segment.blocks) == 1:
            self.segments.remove(segment)

    # ---- what is reserved and not allocated

    def unused(self, requests):
        """Bytes by what they are: kind -> [bytes, pieces, largest] of cached memory and of waiting blocks, the bytes of rounding, and of
        each private pool.  REQUESTS: blocks have the sizes that were requested, as in a snapshot."""
        found = {"cached": [0, 0, 0], "waiting": [0, 0, 0], "rounding": 0, "allocated": 0}
        pools = {}
        for s in self.segments:
            pool = s.stream[0] if isinstance(s.stream, tuple) else s.stream // POOL if s.stream >= POOL else None
            for b in (b for b in s.blocks if b.mapped):
                size = b.requested if requests and b.state != "inactive" else b.size
                found["rounding"] += b.size - size
                if b.state == "active_allocated":
                    found["allocated"] += size
                    continue
                if pool is not None and b.state == "inactive":
                    pools[pool] = pools.get(pool, 0) + size
                    continue
                kind = found["cached" if b.state == "inactive" else "waiting"]
                kind[:] = kind[0] + size, kind[1] + 1, max(kind[2], size)
        return {**found, "pools": sorted(n for n in pools.values() if n), "reserved": self.reserved()}

    # ---- snapshots

    def settings(self):
        return {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": self.max_split or -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": self.expandable, "roundup_power2_divisions": {str(1 << i): self.roundup for i in range(16)}}

    def ranges(self, segment):
        """The mapped ranges of a segment, each with its blocks."""
        out = []
        for b in segment.blocks:
            if not b.mapped:
                out.append([])
            elif out:
                out[-1].append(b)
            else:
                out = [[b]]
        return [r for r in out if r]

    def segments_of(self, device):
        out = []
        for s in self.segments:
            for r in self.ranges(s):
                out.append({"device": device, "address": r[0].address, "total_size": sum(b.size for b in r), "stream": s.stream % POOL,
                            "segment_type": "small" if s.small else "large", "segment_pool_id": (0, s.stream // POOL), "is_expandable": self.expandable,
                            "blocks": [{"address": b.address, "size": b.size, "requested_size": b.requested, "state": b.state, "frames": []} for b in r]})
        return out


STACKS = {
    "forward": [("forward", "/app/model.py", 10), ("_call_impl", "/v/site-packages/torch/nn/modules/module.py", 1), ("<module>", "/app/train.py", 3)],
    "backward": [("at::empty()", "??", 0), ("torch::autograd::generated::MmBackward0::apply(x)", "??", 0), ("torch::autograd::Engine::thread_main()", "??", 0)],
    "optimizer": [("_init_group", "/v/site-packages/torch/optim/adam.py", 5), ("step", "/v/site-packages/torch/optim/adam.py", 9), ("<module>", "/app/train.py", 4)],
}


def program(a, steps, seed, streams=(0,), deferred=0.0, empty=0.0, largest=40 * MIB):
    """Training steps of random blocks: activations that backward frees, states that stay."""
    r = random.Random(seed)
    size = lambda: r.choice((r.randrange(1, 4000), r.randrange(4000, MIB), r.randrange(MIB, 12 * MIB), r.randrange(10 * MIB, largest)))
    kept, late = [], []
    for step in range(steps):
        alive = []
        for phase in ("forward", "backward", "optimizer"):
            for _ in range(r.randrange(5, 25)):
                try:
                    b = a.malloc(size(), r.choice(streams), STACKS[phase])
                except OutOfMemory:
                    for k in kept + alive:
                        a.free(k)
                    kept, alive = [], []
                    continue
                (kept if r.random() < 0.05 else alive).append(b)
                if r.random() < 0.5 and alive:
                    later = r.random() < deferred
                    b = alive.pop(r.randrange(len(alive)))
                    a.free(b, later)
                    if later:
                        late.append(b)
                if late and r.random() < 0.4:
                    a.complete(late.pop(0))
        r.shuffle(alive)
        for b in alive:
            a.free(b)
        if r.random() < empty:
            a.release_all()
        while len(kept) > 30:
            a.free(kept.pop(0))


def dump(path, allocators, protocol=4, skip=0):
    """The first SKIP entries of each trace are dropped, as if recording began later."""
    snapshot = {"segments": [s for d, a in enumerate(allocators) for s in a.segments_of(d)], "device_traces": [a.trace[skip:] for a in allocators],
                "allocator_settings": allocators[0].settings(), "external_annotations": []}
    with open(path, "wb") as f:
        pickle.dump(snapshot, f, protocol)
