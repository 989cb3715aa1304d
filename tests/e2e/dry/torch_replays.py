"""torch_replays.py STEPS FRACTION - a random program on PyTorch's allocator, on three streams: sizes of any magnitude up to 60 MiB, two of three of a
dozen.  Of the device's memory it may hold FRACTION (0: all of it).
"""
import random
import sys

import torch

steps, fraction = int(sys.argv[1]), float(sys.argv[2])
random.seed(7)
sizes = [1 + random.randrange(60 << 20 >> random.randrange(15)) for _ in range(12)]
streams, live, refused = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()], [], 0
if fraction:
    torch.cuda.set_per_process_memory_fraction(fraction)
for i in range(steps):
    if i % 700 == 699:
        torch.cuda.empty_cache()
    if live and (len(live) > 700 or random.randrange(100) > (30 if i // 200 % 2 else 75)):
        gone = random.randrange(len(live))
        live[gone] = live[-1]
        live.pop()
        continue
    size = random.choice(sizes) if random.randrange(3) else 1 + random.randrange(60 << 20 >> random.randrange(15))
    try:
        with torch.cuda.stream(random.choice(streams)):
            live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        refused += 1
    else:
        if not random.randrange(20):
            live[-1].record_stream(random.choice(streams))
print(refused, torch.cuda.memory_stats()["num_alloc_retries"])
