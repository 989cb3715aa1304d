"""Tensors on several streams, each with words of its own: one that is reused too early is found by its words.

A tensor is dropped while other streams, which record_stream told the allocator, still work on it; some are freed by threads of a
backward. --plant leaves record_stream out for some. Exit status 1: some words were wrong; 2: it went wrong otherwise.
"""
import argparse
import math
import random
import sys
import threading
import time

import torch

MIB = 1 << 20


class Held:
    """A tensor of consecutive numbers from FIRST, last written or read on STREAM."""

    def __init__(self, tensor, first, stream):
        self.tensor, self.first, self.stream = tensor, first, stream


class Stresser:
    def __init__(self, a, seed):
        self.a, self.rng = a, random.Random(seed)
        self.streams = [torch.cuda.Stream() for _ in range(a.streams)]
        self.wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in self.streams]
        self.held, self.live, self.error = [], 0, None
        self.counts = dict.fromkeys(("tensors", "moves", "copies", "gradients", "planted", "dropped"), 0)

    def elements(self):
        return int(math.exp(self.rng.uniform(math.log(128), math.log(self.a.largest * MIB / 4))))

    def stream(self):
        return self.rng.randrange(len(self.streams))

    def take(self):
        n, s, first = self.elements(), self.stream(), self.rng.randrange(1 << 20)
        if self.live + 4 * n > self.a.live * MIB:
            return self.drop()
        with torch.cuda.stream(self.streams[s]):
            tensor = torch.empty(n, dtype=torch.int32, device="cuda")
            torch.arange(first, first + n, dtype=torch.int32, out=tensor)
        self.held.append(Held(tensor, first, s))
        self.live += 4 * n
        self.counts["tensors"] += 1

    def check(self, held, s):
        """On stream S, which is ordered after all that was done to it."""
        with torch.cuda.stream(self.streams[s]):
            wanted = torch.arange(held.first, held.first + held.tensor.numel(), dtype=torch.int32, device="cuda")
            self.wrong[s] += (held.tensor != wanted).sum()

    def move(self, held, drop_after):
        s = self.stream()
        if s == held.stream:
            return
        self.streams[s].wait_stream(self.streams[held.stream])
        planted = self.a.plant and drop_after
        if planted:
            with torch.cuda.stream(self.streams[s]):
                torch.cuda._sleep(20_000_000)
        self.check(held, s)
        if planted:
            self.counts["planted"] += 1
            return
        held.tensor.record_stream(self.streams[s])
        if not drop_after:  # the stream that it was allocated on must see later writes in order
            held.stream = s
        self.counts["moves"] += 1

    def pick(self):
        return self.held.pop(self.rng.randrange(len(self.held)))

    def drop(self):
        if not self.held:
            return
        held = self.pick()
        self.check(held, held.stream)
        self.move(held, drop_after=True)
        self.live -= 4 * held.tensor.numel()
        self.counts["dropped"] += 1

    def copy(self):
        held = self.pick()
        self.held.append(held)
        if self.live + 4 * held.tensor.numel() > self.a.live * MIB:
            return
        with torch.cuda.stream(self.streams[held.stream]):
            tensor = held.tensor.clone()
        self.held.append(Held(tensor, held.first, held.stream))
        self.live += 4 * tensor.numel()
        self.counts["copies"] += 1

    def gradients(self):
        """What forward saved is freed on backward's thread, on the stream of the forward."""
        s, n = self.stream(), min(self.elements(), 16 * MIB)
        with torch.cuda.stream(self.streams[s]):
            x = torch.full((n,), 3.0, device="cuda", requires_grad=True)
            (x * x * x).sum().backward()
            self.wrong[s] += (x.grad != 27.0).sum()
        self.counts["gradients"] += 1

    def slow(self):
        with torch.cuda.stream(self.streams[self.stream()]):
            torch.cuda._sleep(self.rng.randrange(1_000_000))

    def run(self, end):
        try:
            self.work(end)
        except BaseException as error:
            self.error = error
            raise

    def work(self, end):
        torch.cuda.set_device(0)
        while time.monotonic() < end:
            what = self.rng.random()
            if what < 0.42 or not self.held:
                self.take()
            elif what < 0.74:
                self.drop()
            elif what < 0.84:
                self.move(self.held[self.rng.randrange(len(self.held))], drop_after=False)
            elif what < 0.90:
                self.copy()
            elif what < 0.93:
                self.gradients()
            else:
                self.slow()
        while self.held:
            self.drop()


def parse():
    p = argparse.ArgumentParser()
    for name, value in (("seconds", 15), ("threads", 2), ("streams", 4), ("largest", 512), ("live", 8192), ("seed", 1)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--plant", action="store_true")
    return p.parse_args()


def main():
    a = parse()
    torch.zeros(1, device="cuda")
    workers = [Stresser(a, a.seed * 100 + n) for n in range(a.threads)]
    torch.cuda.synchronize()
    end = time.monotonic() + a.seconds
    threads = [threading.Thread(target=w.run, args=(end,)) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if any(w.error for w in workers):
        sys.exit(2)
    torch.cuda.synchronize()
    wrong = sum(int(count) for w in workers for count in w.wrong)
    counts = {name: sum(w.counts[name] for w in workers) for name in workers[0].counts}
    print(", ".join(f"{name} {count}" for name, count in counts.items()) + f"; wrong words {wrong}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
