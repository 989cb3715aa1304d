"""ends.py HOW: a training that does not want to end, or one that ends by itself."""
import atexit
import os
import subprocess
import sys
import threading
import time
import types

import torch

how = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 2, (64,)))
workers = 2 if how == "hostile" else 0


def train(steps, accumulate=1):
    done = 0
    while done < steps:
        for x, y in torch.utils.data.DataLoader(data, batch_size=8, num_workers=workers, persistent_workers=workers > 0):
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            done += 1
            if done % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            print(done, end=" ")  # not flushed
            if done == steps:
                return


if how == "hostile":
    threading.Thread(target=time.sleep, args=(1000,)).start()
    try:
        while True:
            try:
                train(1000, accumulate=4)
            except BaseException:
                print("caught")
    finally:
        open(os.environ["CHECKPOINT"], "w").close()
        time.sleep(1000)
elif how == "failing":
    train(3)
    sys.exit(7)
elif how == "compiled":  # its workers do not end when they are told to
    train(3)
    pool = types.SimpleNamespace(process=subprocess.Popen(["sleep", "280"]))
    sys.modules["torch._inductor.async_compile"] = types.SimpleNamespace(_pool_set={id(pool): pool}.values())
    atexit.register(lambda: pool.process.wait(300))
    print("end")
elif how == "generating":
    with torch.no_grad():
        for _ in range(10):
            model(torch.zeros(1, 16, device="cuda"))
    print("end")
