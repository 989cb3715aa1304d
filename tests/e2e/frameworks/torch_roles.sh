#!/bin/bash
# Under `vramscope run` PyTorch is asked which storages are parameters, gradients, optimizer states and buffers: each block that the
# program itself knows to be one is said to be that, and nothing else is; no subclass is asked, no model kept, and the cost is bounded.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
# shellcheck source-path=SCRIPTDIR
. "$here/../lib/lib.bash"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/cpu_blocks.c" || fail "cpu_blocks.c"

new_run
LD_PRELOAD=$dir/cpu_blocks.so timeout 300 \
    "$BUILD/bin/vramscope" run --simulated -o "$db" -- "$python" "$here/torch_roles.py" "$run/facts" >"$run/out" 2>"$run/err" ||
    fail "exit status $?"
python3 - "$run/facts" "$db" <<'PY' || fail "roles"
import collections, json, sqlite3, sys
facts = [f for f in json.load(open(sys.argv[1])) if f[2] >= 1024]  # smaller ones are no blocks
db = sqlite3.connect(sys.argv[2])
# what lived when the program said what is what
said = {address: (size, role) for address, size, role in db.execute("""SELECT a.address, a.size_bytes, f.role FROM allocation a LEFT JOIN framework_says f USING(alloc_seq)
    JOIN moment m ON a.t_alloc_ns <= m.t_ns AND (a.t_free_ns IS NULL OR a.t_free_ns > m.t_ns) JOIN string s ON s.id = m.name AND s.text = 'facts'
    WHERE a.op = 'block_alloc'""")}
wanted = {}
for case, address, size, role in facts:  # of several the first in this order
    order = ["parameter", "gradient", "optimizer state", "buffer"]
    if address not in wanted or order.index(role) < order.index(wanted[address][1]):
        wanted[address] = case, role, size
bad = 0
for address, (case, role, size) in wanted.items():
    if said.get(address) != (size, role):
        bad += 1
        print(f"{case}: {size} bytes are {said.get(address)}, should be {role}")
others = [(a, s) for a, s in said.items() if s[1] and a not in wanted]
counted = collections.Counter((case, role) for case, role, _ in wanted.values())
print(len(wanted), "storages,", counted)
# what the program does not name: the loud model's parameters, its gradients, and those of the other one
if len(others) > 4:
    bad += 1
    print("more is said to be something than is:", others[:10])
for case in ("adam", "frozen", "flat"):
    for role in ("parameter", "gradient", "optimizer state"):
        if not counted[case, role]:
            bad += 1
            print(f"{case} has no {role}: the test tests nothing")
sys.exit(bad > 0)
PY
expect_sql "SELECT state FROM contract WHERE name = 'storage_address'" proven
# a storage that does not begin where PyTorch says so: no block has a role of PyTorch's, and the report says why
cat >"$dir/elsewhere.py" <<'PY'
import torch
real = torch._C._data_address
torch._C._data_address = lambda tensor: real(tensor) + 8
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.ones(64)).sum().backward()
    optimizer.step()
PY
LD_PRELOAD=$dir/cpu_blocks.so timeout 60 "$BUILD/bin/vramscope" run --simulated -o "$run/elsewhere.db" -- "$python" "$dir/elsewhere.py" >"$run/out" 2>"$run/err" || fail "elsewhere"
first=$db db=$run/elsewhere.db
expect_sql "SELECT count(*) FROM framework_says" 0
expect_sql "SELECT state FROM contract WHERE name = 'storage_address' AND detail LIKE '%: roles that PyTorch itself knows are not known: the storage of a parameter begins 8 bytes away from where its data says so'" broken
db=$first
# nothing is asked where nothing is recorded
LD_PRELOAD=$dir/cpu_blocks.so VRAMSCOPE_AUTO_PHASES=off timeout 300 "$BUILD/bin/vramscope" run --simulated -o "$run/off.db" -- \
    "$python" -c 'import sys, torch; assert "vramscope._roles" not in sys.modules' >"$run/out" 2>"$run/err" || fail "without automatic phases: $?"
echo "PyTorch's own word is recorded, block by block"
