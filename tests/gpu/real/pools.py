"""pools.py jax|cupy FACTS.json: the program, and its library's own figures at its end | check RUN.db FACTS.json TREE"""
import json
import os
import sqlite3
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import verify  # noqa: E402
from verify import check, one  # noqa: E402


def jax(path):
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda w, x: (w - 1e-3 * (x.T @ jnp.tanh(x @ w)), jnp.sum(jnp.tanh(x @ w))))
    w = jnp.ones((4096, 4096), jnp.float32)
    x = jnp.ones((8192, 4096), jnp.float32)
    for _ in range(20):
        w, loss = step(w, x)
        loss.block_until_ready()
        time.sleep(0.05)
    keep.extend((w, x, loss))
    figures = jax.devices()[0].memory_stats()
    facts = {"pool": "JAX", "used": figures["bytes_in_use"], "peak": figures["peak_bytes_in_use"], "held": figures.get("pool_bytes"), "all": figures}
    with open(path, "w") as out:
        json.dump(facts, out)
    print("jax", w.shape)


def cupy(path):
    import cupy

    arrays = []
    for n in range(30):
        arrays.append(cupy.ones((n + 1) * 300_000, cupy.float32))
        if n % 3 == 2:
            arrays.pop(0)
        time.sleep(0.05)
    keep.extend(arrays)
    pool = cupy.get_default_memory_pool()
    facts = {"pool": "CuPy", "used": pool.used_bytes(), "peak": None, "held": pool.total_bytes()}
    with open(path, "w") as out:
        json.dump(facts, out)
    print("cupy", len(arrays))


keep = []  # alive to the end


def compare(path, facts_path, tree):
    with open(facts_path) as file:
        facts = json.load(file)
    db = sqlite3.connect(path)

    def peak(kind, column="peak_bytes"):
        return one(db, f"SELECT {column} FROM peak WHERE device = 0 AND kind = '{kind}'")

    held = peak("unknown_use")
    check(held and (facts["held"] is None or held == facts["held"]), f"held by the pool: recorded {held}, {facts['pool']} says {facts['held']}")
    check(peak("allocated") is None, f"peak allocated is unknown: {peak('allocated')}; known of it {peak('allocated', 'known_bytes')}")
    beside = dict(db.execute("SELECT ifnull(owner, 'unknown'), sum(size_bytes) FROM live_at_peak WHERE device = 0 GROUP BY 1"))
    check(all(name.startswith(("libcublas", "libcudnn")) for name in beside), f"known at the peak, beside the pool: {beside or 'nothing'}")
    check(peak("reserved") >= held, f"peak reserved {peak('reserved')}")
    check(one(db, "SELECT count(*) FROM timeline WHERE device = 0 AND allocated_bytes IS NOT NULL") == 0, "no curve of allocated is made up")
    rows = db.execute("SELECT text, used_bytes, peak_bytes, held_bytes FROM pool_use JOIN string ON string.id = pool ORDER BY t_ns").fetchall()
    check(len(rows) > 5, f"{len(rows)} answers of {facts['pool']}")
    last = rows[-1] if rows else (None, None, None, None)
    check(last[0] == facts["pool"] and last[1] == facts["used"], f"in use at the end: recorded {last[1]}, {facts['pool']} says {facts['used']}")
    check(last[2] == facts["peak"], f"the most in use: recorded {last[2]}, {facts['pool']} says {facts['peak']}")
    most = max((row[1] for row in rows), default=0)
    check(facts["peak"] is None or most <= facts["peak"], f"the most that was seen in use: {most}")
    report = subprocess.run([os.path.join(tree, "bin", "vramscope"), "report", "--all", path], capture_output=True, text=True)
    check("unknown" in report.stdout and facts["pool"] in report.stdout, "the report names the pool, and says that its use is unknown")
    return verify.FAILED


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[2:]) > 0 if sys.argv[1] == "check" else {"jax": jax, "cupy": cupy}[sys.argv[1]](sys.argv[2]))
