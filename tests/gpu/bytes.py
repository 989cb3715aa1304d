"""bytes.py train MODEL STEPS DEVICE | table NAME FILE: the file's bytes an event"""
import os
import sqlite3
import sys


def train(model, steps, device):
    import torch
    import bench_models

    step = bench_models.make(model, device, device == "cpu")
    for number in range(steps):
        step(number)
    if device == "cuda":
        torch.cuda.synchronize()


def table(name, path):
    db = sqlite3.connect(path)
    events = db.execute("SELECT count(*) FROM ev").fetchone()[0]
    lost = db.execute("SELECT ifnull(sum(events), 0) FROM loss").fetchone()[0]
    print(f"{name}: {os.path.getsize(path)} bytes, {events} events, {os.path.getsize(path) / events:.1f} bytes an event, {lost} lost")


if __name__ == "__main__":
    train(sys.argv[2], int(sys.argv[3]), sys.argv[4]) if sys.argv[1] == "train" else table(sys.argv[2], sys.argv[3])
