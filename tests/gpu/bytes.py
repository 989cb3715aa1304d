"""The programs of bytes.sh, and the table that it prints.

    bytes.py train MODEL STEPS DEVICE    trains a model of bench_models.py
    bytes.py table NAME FILE             bytes an event, of the file and of each table that has a byte an event or more
"""
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
    tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    lost = db.execute("SELECT ifnull(sum(events), 0) FROM loss").fetchone()[0]
    print(f"{name}: {os.path.getsize(path)} bytes, {events} events, {os.path.getsize(path) / events:.1f} bytes an event, {lost} lost")
    try:
        sizes = db.execute("SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
    except sqlite3.OperationalError:  # built without it
        return
    for t, size, unused in sizes:
        if size >= events:
            rows = db.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] if t in tables else 0
            print(f"    {t:16} {size / events:6.2f} an event, {rows} rows of {size / max(rows, 1):.1f}, {100 * unused / size:.0f} % of its pages empty")


if __name__ == "__main__":
    train(sys.argv[2], int(sys.argv[3]), sys.argv[4]) if sys.argv[1] == "train" else table(sys.argv[2], sys.argv[3])
