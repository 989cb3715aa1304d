#!/bin/bash
# wheel.sh TREE OUT - the wheel of TREE beside PyTorch: doctor's last line, a training recorded with phases, the fused loss from the
# package, the same package without `run`, silence into a pipe.
. "$(dirname "$0")/gpu.bash"
need
status=0
no() { echo "FAIL: $*" && status=1; }
unset PYTHONPATH LD_PRELOAD
export COLUMNS=400

wheel=$("$here/../../scripts/wheel.py" "$tree" "$work/dist") || exit 1
echo "${wheel##*/}, $(stat -c %s "$wheel") bytes"
"$python" -m venv --system-site-packages "$work/an env" && "$python" -m pip --python "$work/an env/bin/python" install -q --no-index --no-deps "$wheel" || exit 1
# the system's packages are the base Python's: where PyTorch is in an environment itself, that is named too
"$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' >"$("$work/an env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
V="$work/an env/bin/vramscope" own="$work/an env/bin/python"

# doctor asks the python3 that PATH finds: the environment's
PATH="$work/an env/bin:$PATH" "$V" doctor >"$out/doctor.txt" 2>&1 || no "doctor: $(cat "$out/doctor.txt")"
tail -n 1 "$out/doctor.txt"
tail -n 1 "$out/doctor.txt" | grep -q '^so: programs that use the GPU can be recorded here, if they are not linked statically, with native call stacks; PyTorch tensor by tensor$' ||
    no "doctor's last line"
grep 'fused loss' "$out/doctor.txt"

cat >"$work/train.py" <<'END'
import sys
import torch
import vramscope

model = torch.nn.Sequential(torch.nn.Embedding(1000, 256), torch.nn.Linear(256, 256)).cuda()
head = torch.nn.Linear(256, 1000, bias=False).cuda().bfloat16()
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
data = torch.randint(0, 1000, (2048,), device="cuda")
for _ in range(3):
    hidden = model(data).bfloat16()
    with vramscope.phase("logits"):
        loss = vramscope.linear_cross_entropy(hidden, head.weight, data)
    want = torch.nn.functional.cross_entropy(head(hidden.detach()).float(), data)
    assert abs(loss.item() - want.item()) < 1e-2 * want.item(), (loss.item(), want.item())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(vramscope.__file__, vramscope.__version__)
END
alone=$("$own" "$work/train.py") || no "without run"
under=$("$V" run -o "$work/run.db" -- "$own" "$work/train.py" 2>"$work/err") || no "under run: $(cat "$work/err")"
cat "$work/err"
[ -n "$alone" ] && [ "${alone##* }" = "${under##* }" ] && "$own" -c 'import os, sys; sys.exit(not os.path.samefile(*sys.argv[1:]))' \
    "${alone% *}" "${under% *}" || no "two packages: '$alone' and under run '$under'"
"$own" - "$work/run.db" <<'END' || no "the recording"
import sqlite3, sys
run = sqlite3.connect(sys.argv[1])
peaks = dict(run.execute("SELECT phase, allocated_bytes FROM phase_peak"))
assert all(peaks.get(name) for name in ("forward", "logits", "backward", "optimizer")), peaks
assert not run.execute("SELECT * FROM loss").fetchall()
print({name: f"{size / 2**20:.1f} MiB" for name, size in peaks.items()})
END
# plain LD_PRELOAD: not a word in a pipe
library=$("$V" run -q -o "$work/env.db" -- env | sed -n 's/^VRAMSCOPE_PRELOAD=//p')
LD_PRELOAD=$library VRAMSCOPE_OUTPUT=$work/plain.db "$own" "$work/train.py" 2>&1 >/dev/null | grep vramscope: && no "it spoke into a pipe"
[ -s "$work/plain.db" ] || no "nothing was recorded under LD_PRELOAD"
exit $status
