"""suspend_program.py WHAT... - programs whose memory suspend.py has go away; they say what they find in lines of JSON.

    cycles N SECONDS       suspends itself N times, or as often as fits; every word is looked at after each time, and what the process
                           holds is written down
    hold MIB               holds so much; on its standard input "link MIB" has the link's rate measured, "check" the words counted
    vit STEPS [how...]     trains a ViT. captured: forward, backward and optimizer are one CUDA graph. stop=N: waits for a line after N
                           steps. endless: goes on until its standard input ends. freed: frees all at the end, and waits for a line
    nccl RANK RANKS FILE   an all-reduce, a suspension, an all-reduce. In a dry run the other ranks are not there

Without values (SIMCUDA_DRY) every word is right.
"""
import array
import collections
import gc
import json
import os
import sys
import threading
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch.distributed as dist  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "oracle/programs"), os.path.join(HERE, "../../shim/framework/python")]  # the tree's own comes first
from truth import nvml_used  # noqa: E402
import vramscope  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
DRY = os.environ.get("SIMCUDA_DRY") == "1"


def say(**what):
    print(json.dumps(what), flush=True)


# ---- words that are known ----


class Block:
    """Words of which each follows from its place and the block's seed."""

    def __init__(self, size, seed):
        self.words = torch.empty(size // 4, dtype=torch.int32, device="cuda")
        self.fill(seed)

    def fill(self, seed):
        self.seed = seed * 0x9E3779B1 % (1 << 31)
        for at in range(0, self.words.numel(), 1 << 26):
            part = self.words[at:at + (1 << 26)]
            part.copy_(self.wanted(at, part.numel()))

    def wanted(self, at, count):
        return torch.arange(at, at + count, dtype=torch.int32, device="cuda").mul_(0x01000193).add_(self.seed)

    def wrong(self):
        """How many words are not as they were written, on the device."""
        parts = self.words.split(1 << 26)
        return sum((part != self.wanted(i << 26, part.numel())).sum() for i, part in enumerate(parts))


def wrong_words(blocks):
    return int(sum(block.wrong() for block in blocks))


def finds_planted(block):
    """Whether one wrong word is found."""
    before = block.words[-1].clone()
    block.words[-1] += 1
    found = wrong_words([block]) == 1 or DRY
    block.words[-1] = before
    return found and wrong_words([block]) == 0


# ---- cycles ----


class Cycles:
    """Small blocks and large ones, some in alias mappings; two graphs in a private pool; two streams and events between them."""

    TURNS = 10  # in so many cycles the same blocks are made anew

    def __init__(self):
        self.side, self.seeds, self.why = torch.cuda.Stream(), 0, ""
        self.small = [self.block(4 * KIB * (i % 7 + 1) + 512 * i) for i in range(4 * self.TURNS)]
        self.large = self.in_holes()
        self.capture()
        torch.cuda.synchronize()

    def block(self, size):
        self.seeds += 1
        return Block(size, self.seeds)

    def in_holes(self):
        """Every other of many blocks is freed, and larger ones lie in what they left."""
        pieces = [self.block(3 * MIB + 512 * KIB * (i % 3)) for i in range(2 * self.TURNS)]
        kept = pieces[::2]
        del pieces
        return kept + [self.block(9 * MIB) for _ in range(3)]

    def capture(self):
        self.given = torch.zeros(MIB, device="cuda")
        with torch.cuda.stream(self.side):
            (self.given * 2 + 1) @ self.given  # cuBLAS's workspace is there before
        torch.cuda.synchronize()
        self.graph, self.second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            between = self.given * 3
            self.product = between + 1
            del between
        with torch.cuda.graph(self.second, pool=self.graph.pool()):
            self.sum = self.product + self.given

    def replayed_wrong(self, value):
        return int((self.product != 3 * value + 1).sum() + (self.sum != 4 * value + 1).sum()) if not DRY else 0

    def replay(self, value):
        self.given.fill_(value)
        self.graph.replay()
        self.second.replay()

    def renew(self, i):
        """The blocks whose turn it is are made anew, which moves them."""
        at = i % self.TURNS
        for blocks in (self.small, self.large):
            size = blocks[at].words.numel() * 4
            blocks[at] = None
            blocks[at] = self.block(size)

    def give_work(self, i):
        """The device is busy with both streams when it is to be suspended."""
        self.event = torch.cuda.Event(enable_timing=True)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(200_000)
            self.large[-1].fill(self.seeds + i)
            self.event.record()
        self.replay(i % 1000)

    # how it comes back, after which all of it is there

    def by_kernel(self):
        self.small[0].words.add_(0)

    def by_graph(self):
        self.graph.replay()
        self.second.replay()  # the first alone writes where the second's result lies

    def by_copy(self):
        self.large[0].words[-1:].cpu()

    def by_request(self):
        torch.empty(2 * MIB, device="cuda")

    def by_event(self):
        assert self.event.query() and torch.cuda.current_stream().wait_event(self.event) is None
        self.small[1].words.add_(0)

    def by_side_stream(self):
        with torch.cuda.stream(self.side):
            self.small[2].words.add_(0)
        torch.cuda.current_stream().wait_stream(self.side)

    def by_free(self):
        size, self.small[3] = self.small[3].words.numel() * 4, None
        self.small[3] = self.block(size)

    def by_end(self):
        pass

    def cycle(self, i):
        """Wrong words; -1: nothing was suspended."""
        ways = (self.by_end, self.by_kernel, self.by_graph, self.by_copy, self.by_request, self.by_event, self.by_side_stream, self.by_free)
        self.renew(i)
        self.give_work(i)
        with vramscope.suspended() as suspension:
            self.why, self.away = suspension.why, nvml_used(0)[0]
            if not suspension.moved:
                return -1
            ways[i % len(ways)]()
        torch.cuda.current_stream().wait_event(self.event)
        wrong = self.replayed_wrong(i % 1000)
        self.replay(i % 1000 + 1)
        return wrong + self.replayed_wrong(i % 1000 + 1) + wrong_words(self.small + self.large)


def status_of(*names):
    """Figures of /proc/self/status, in KiB."""
    with open("/proc/self/status") as file:
        found = dict(line.split(":", 1) for line in file if line.split(":", 1)[0] in names)
    return [int(found[name].split()[0]) for name in names]


def held():
    with open("/proc/self/maps") as file:
        mappings = sum(1 for _ in file)
    return [*status_of("VmRSS", "VmSize", "VmPin"), len(os.listdir("/proc/self/fd")), mappings]


HELD = ("rss_kib", "size_kib", "pinned_kib", "files", "mappings", "away_bytes", "back_bytes", "reserved_bytes")


def cycles(n, seconds):
    begun, wrong, done = time.monotonic(), 0, 0
    figures = [array.array("q", bytes(8 * n)) for _ in HELD]  # nothing of ours grows
    with torch.no_grad():
        work = Cycles()
        live, planted = torch.cuda.memory_allocated(), finds_planted(work.large[0])
        for done in range(1, n + 1):
            found = work.cycle(done - 1)
            if found < 0:
                say(cycles=done - 1, refused=work.why)
                return 1
            wrong += found
            row = [*held(), work.away or 0, nvml_used(0)[0] or 0, torch.cuda.memory_reserved()]
            for figure, value in zip(figures, row):
                figure[done - 1] = value
            if time.monotonic() - begun > seconds:
                break
    say(cycles=done, wrong=wrong, planted=planted, live_bytes=live, seconds=round(time.monotonic() - begun, 1),
        **{name: list(figure[:done]) for name, figure in zip(HELD, figures)})
    return 0


# ---- hold ----


def link_rates(device, mib):
    """Bytes a second to the host and from it: pinned memory, 256 MiB at a time."""
    piece = min(256 * MIB, device.numel())
    host = torch.empty(piece, dtype=torch.uint8, pin_memory=True)
    rates = []
    for out in (True, False):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        pieces = [device[at:at + piece] for at in range(0, device.numel() - piece + 1, piece)]
        torch.cuda.synchronize()
        begun.record()
        for i in range(max(1, mib * MIB // piece)):
            there = pieces[i % len(pieces)]
            host.copy_(there, non_blocking=True) if out else there.copy_(host, non_blocking=True)
        ended.record()
        ended.synchronize()
        rates.append(max(1, mib * MIB // piece) * piece / max(begun.elapsed_time(ended), 1e-3) * 1e3)
    return rates


def hold(mib):
    sizes = [512, 64, 1024, 20, 256, 3, 128]  # MiB, by turns
    scratch = torch.zeros(min(512, mib // 4) * MIB, dtype=torch.uint8, device="cuda")
    blocks, left = [], mib - scratch.numel() // MIB
    while left:
        blocks.append(Block(min(left, sizes[len(blocks) % len(sizes)]) * MIB, len(blocks) + 1))
        left -= blocks[-1].words.numel() * 4 // MIB
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # what the words were made in
    say(ready=os.getpid(), live_bytes=torch.cuda.memory_allocated(), reserved_bytes=torch.cuda.memory_reserved())
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "link":
            out, back = link_rates(scratch, int(rest[0]))
            say(link_out=out, link_in=back)
        elif word == "check":
            say(wrong=wrong_words(blocks), words=sum(block.words.numel() for block in blocks))
    return 0


# ---- vit ----


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    """ViT-B/16; patches by a convolution, which is cuDNN's."""

    def __init__(self, hidden, layers, heads, side):
        super().__init__()
        self.patches = nn.Conv2d(3, hidden, 16, 16)
        self.place = nn.Parameter(torch.randn(1, (side // 16) ** 2 + 1, hidden) * 0.02)
        self.first = nn.Parameter(torch.zeros(1, 1, hidden))
        self.layers = nn.Sequential(*(Layer(hidden, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.place
        return self.head(self.norm(self.layers(x))[:, 0])


SIZES = dict(hidden=768, layers=12, heads=12, side=224)
SMALL = dict(hidden=192, layers=2, heads=3, side=64)


class Training:
    def __init__(self, how):
        self.captured, self.batch = "captured" in how, 4 if "small" in how else 32
        self.sizes = SMALL if "small" in how else SIZES
        with torch.device("cuda"):
            self.model = ViT(**self.sizes)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, capturable=self.captured)
        self.random = torch.Generator().manual_seed(7)
        self.images = torch.zeros(self.batch, 3, self.sizes["side"], self.sizes["side"], device="cuda")
        self.labels = torch.zeros(self.batch, dtype=torch.long, device="cuda")
        self.loss = self.graph = None
        if self.captured:
            self.capture()

    def step_of_device(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=not self.captured):
            loss = F.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def next_batch(self):
        shape = self.images.shape
        self.images.copy_(torch.randn(shape, generator=self.random).pin_memory(), non_blocking=True)
        self.labels.copy_(torch.randint(1000, shape[:1], generator=self.random).pin_memory(), non_blocking=True)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.next_batch()
                self.step_of_device()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step_of_device()

    def step(self):
        """The loss, to the bit."""
        self.next_batch()
        if self.graph is None:
            self.loss = self.step_of_device()
        else:
            self.graph.replay()
        return self.loss.item().hex()

    def free(self):
        self.__dict__.clear()


def figures():
    torch.cuda.synchronize()
    return dict(used_bytes=nvml_used(torch.cuda.current_device())[0], reserved_bytes=torch.cuda.memory_reserved(), allocated_bytes=torch.cuda.memory_allocated())


def until_told(ended):
    sys.stdin.read()
    ended.set()


def vit(steps, how):
    stops, ended = {int(word[5:]) for word in how if word.startswith("stop=")}, threading.Event()
    if "endless" in how:
        threading.Thread(target=until_told, args=(ended,), daemon=True).start()
    torch.use_deterministic_algorithms(True)  # with warn_only flash attention adds up in any order
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(1)
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.nn.attention.SDPBackend.MATH]):
        training = Training(how)
        states = sum(p.numel() for p in training.model.parameters()) * 8
        say(ready=os.getpid(), state_bytes=states, **figures())
        for step in range(1, steps + 1):
            say(step=step, loss=training.step())
            if step in stops:
                say(stop=step, **figures())
                sys.stdin.readline()
            if ended.is_set():
                break
    if "freed" in how:
        training.free()
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        say(freed=True, **figures())
        sys.stdin.readline()
    say(end=True)
    return 0


# ---- nccl ----


def no_nccl():
    """Why there is nothing to show; None: there is."""
    if not dist.is_nccl_available():
        return "this PyTorch has no NCCL"
    if not hasattr(dist.ProcessGroupNCCL, "suspend"):
        return f"PyTorch {torch.__version__} cannot suspend NCCL: 2.12 can"
    return None


def nccl(rank, ranks, file):
    why = no_nccl()
    if why:
        say(nccl=None, why=why)
        return 0
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", store=dist.HashStore() if DRY else dist.FileStore(file, ranks), rank=rank, world_size=ranks)
    given, backend = torch.full((16 << 20,), rank + 1.0, device="cuda"), dist.group.WORLD._get_backend(torch.device("cuda"))

    def reduced():
        summed = given.clone()
        dist.all_reduce(summed)
        return DRY or bool((summed == ranks * (ranks + 1) // 2).all())

    right = [reduced()]
    try:
        stats = backend.memory_stats()
    except RuntimeError as error:
        say(nccl=None, why=str(error).splitlines()[0])
        return 0
    before = figures()
    with vramscope.suspended() as suspension:
        away = dict(used_bytes=nvml_used(rank)[0], suspended=backend.memory_stats()["suspended"] == 1)
    right += [reduced(), reduced()]
    say(nccl=stats, moved=suspension.moved, why=suspension.why, right=right, before=before, away=away, back=figures())
    dist.destroy_process_group()
    return 0


def main():
    what, *rest = sys.argv[1:]
    if what == "nccl":
        return nccl(int(rest[0]), int(rest[1]), rest[2])
    if what == "cycles":
        return cycles(int(rest[0]), float(rest[1]))
    return hold(int(rest[0])) if what == "hold" else vit(int(rest[0]), rest[1:])


if __name__ == "__main__":
    sys.exit(main())
