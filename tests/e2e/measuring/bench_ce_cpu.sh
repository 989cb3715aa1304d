#!/bin/bash
# bench_ce with PyTorch on the CPU: every method is a row or says why not, errors are those of bf16, and time that is up loses no row.
set -u
: "${BUILD:?BUILD is the build directory}"
gpu=$(cd "$(dirname "$0")/../../gpu" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' torch numpy 2>/dev/null || { echo "skipped: no Python with PyTorch and NumPy here (TEST_PYTHON names one)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
library=$BUILD/lib/liblinear_cross_entropy.so
fail() { echo "FAIL: $*"; tail -n 20 "$work/out"; exit 1; }
bench() { timeout 300 "$python" "$gpu/bench_ce.py" "$@" >"$work/out" 2>&1; }

bench "$library" "$work/a.tsv" --device cpu --shape 96,64,800 --seconds 1 --rest 0.001 || fail "status $?"
PYTHONPATH=$gpu "$python" - "$work/a.tsv" >"$work/checked" <<'END' || { cat "$work/checked"; fail "the rows"; }
import sys
import bench_ce_methods as M
import bench_ce_table as T

comments, rows = T.read(sys.argv[1])
by_key = {(row["kind"], row["method"]): row for row in rows}
wanted = [(kind, name) for kind in ("random", "peaked") for name in ("GEMM alone", *M.METHODS)]
assert list(by_key) == wanted, list(by_key)
for kind in ("random", "peaked"):
    for name in ("ours fast", "ours lean", "PyTorch eager"):
        row = by_key[kind, name]
        assert not row["failure"] and row["burst_calls"] >= 3, dict(row)
        assert row["burst_min_ms"] <= row["burst_ms"] <= row["burst_max_ms"], dict(row)
        limit = 5e-3 if kind == "random" else 5e-2
        assert 0 < row["error_dx"] < limit and 0 < row["error_dw"] < limit, dict(row)
    # of one call, not of all so far
    assert by_key[kind, "ours fast, fp32 main_grad"]["error_dw"] < 1.05 * by_key[kind, "ours fast"]["error_dw"]
    assert by_key[kind, "QuACK"]["failure"] == "needs a GPU"
rounded, exact = by_key["peaked", "ours fast"], by_key["peaked", "ours fast, fp32 logits"]
assert exact["error_loss"] < rounded["error_loss"] / 100 and exact["error_dx"] < rounded["error_dx"] / 5, dict(exact)
loss = [float(line.split("loss ")[1].split()[0]) for line in comments if " in fp64" in line]
assert abs(loss[0] - 6.7) < 0.5 and abs(loss[1] / 0.0024 - 1) < 0.5, loss
END
bench --markdown "$work/a.tsv" && grep -q '^| ours fast | ' "$work/out" || fail "the page"

timeout 300 "$python" "$gpu/bench_ce.py" "$library" "$work/b.tsv" --device cpu --shape 96,64,800 --seconds 240 --rest 0.1 \
    --only 'ours fast$|eager' >"$work/out" 2>&1 &
for ((i = 0; i < 1800; i++)); do # until it begins to measure
    grep -qs 'in fp64' "$work/out" && break
    sleep 0.1
done
kill $! && wait $!
[ "$(cut -f 1-3 "$work/b.tsv" | grep -c '^96x64x800.random.\(GEMM alone\|ours fast\|PyTorch eager\)$')" = 3 ] || fail "rows were lost when time was up"
grep -q 'stopped: time is up' "$work/out" || fail "it does not say that it was stopped"

bench "$library" "$work/c.tsv" --device cpu --shape 96,64 && fail "a shape of two numbers"
grep -q "96,64: a shape is TOKENS,HIDDEN,VOCABULARY" "$work/out" || fail "what is wrong with the shape"
bench "$library" --memory "$work/n" --device cpu && fail "memory of the CPU"
grep -q "no device memory to record" "$work/out" || fail "why there is no memory"
families() { "$python" "$gpu/bench_ce.py" --families --only "$1"; }
[ -z "$(families ours)" ] || fail "a family is warmed up that was not chosen"
[ "$(families 'ours|CCE, no')" = $'60\t^(CCE,\\ no\\ filter)$' ] || fail "the families of one method: $(families 'ours|CCE, no')"
PYTHONPATH=$gpu "$python" - <<'END' || fail "the families"
import bench_ce_methods as M

found = [name for family in M.families(None) for name in M.chosen(family)]
assert sorted(found) == sorted(M.COMPILED) and {"QuACK", "QuACK, chunk 2048", "Liger CuTe"} <= set(found), found
END
# plans and options beside each other: none has other bits in a second run
timeout 300 "$python" "$gpu/bench_ce_ways.py" "$library" 96,64,800,20 --device cpu --rest 0 --grads bf16 fp32 --ways default beside all --errors --tsv "$work/d.tsv" >"$work/out" 2>&1 || fail "ways: status $?"
[ "$(cut -f 1-6 "$work/d.tsv" | grep -c '^96.64.800.20.\(default\|beside\|all\).\(bf16\|fp32\)$')" = 6 ] || fail "a way is missing"
echo "every method is a row"
