#!/bin/bash
# The first screen of a report is at most 40 lines of 80 columns: what happened, what to do, free settings first, then who held the memory.
# What gains by
# luck or cannot be replayed is no advice.
. "$(dirname "$0")/../lib/command.bash"
export COLUMNS=80

fits() { # FILE
    "$V" report "$1" >"$1.txt" || no "$1: exit status $?"
    awk -v name="$1" 'length($0) > 80 {print name ": " length($0) " columns: " $0; bad = 1} END {if (NR > 40) print name ": " NR " lines"; exit bad || NR > 40}' "$1.txt" || no "$1 is no screen"
    tail -n 1 "$1.txt" | grep -qE "^(the recording is complete; )?all of it: vramscope report --all $1$" || no "$1 does not say where the rest is"
}
in_order() { # FILE PATTERN...: lines that come one after the other
    local file=$1.txt at=0 line
    shift
    for pattern; do
        line=$(grep -nE "$pattern" "$file" | head -n 1 | cut -d: -f1)
        [ -n "$line" ] && [ "$line" -gt "$at" ] || no "$file: no '$pattern' behind line $at"
        at=$line
    done
}

for name in llama-h200 llama-h200-oom lora-h200 qwen-h200-limit; do
    case $name in
    *-oom) gzip -dc "$SRC/examples/$name.db.gz" ;;
    *) xz -dc "$SRC/tests/data/$name.db.xz" ;;
    esac >$name.db
    fits $name.db
done
if [ -s llama-h200-oom.db.txt ]; then
    in_order llama-h200-oom.db '^OUT OF MEMORY on device 0 at 2.34 s, step 3, in logits$' 'asked for 19.57 GiB, float32 \[2, 20480, 128256\]: short by 56.88 MiB' \
        '^    by train.py:37 > loss_utils.py:59 ForCausalLMLoss, in LlamaForCausalLM$' '108.5 GiB allocated of 119.7 GiB reserved from the$' '^  would have let it pass  *left then  costs$' '^  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  *11.07 GiB  no code change$' \
        '^  vramscope run --allocator=arena  ' '^  checkpoint=1: recompute each layer ' '^  in step 2 the same line got 15.66 GiB, and up to 21.23 GiB more were allocated$' '^    held by role and layer$' '^    held by line$' 'of 119.7 GiB reserved then 11.12 GiB were not allocated'
    COLUMNS=200 "$V" whatif llama-h200-oom.db >whatif.txt
    in_order whatif 'expandable_segments:True alone: this request would have passed, 11.07 GiB left'
fi
[ ! -s llama-h200.db.txt ] ||
    in_order llama-h200.db '^PEAK on device 0 at 2.2 s, step 2, in backward: 43.97 GiB allocated$' '46.65 GiB reserved from the driver at the most$' '^  would lower what is reserved  *to at most  costs$' \
        '^  loss=fused: vramscope.patch_loss\(model\) ' '^    held by role and layer$' 'of 46.64 GiB reserved then 2.67 GiB were not allocated'

make_db train.db --devices 2
make_db oom.db --kind oom
make_db leak.db --leak 64 --steps 14
make_db empty.db --kind empty
make_db thinned.db --kind thinned
for name in train oom leak empty thinned; do
    fits $name.db
done
in_order train.db '^PEAK on device 0 ' '^device 1: 6.96 GiB allocated at the peak, 10.03 GiB reserved at the most$'
in_order oom.db '^OUT OF MEMORY' '^    neither PyTorch'
in_order leak.db '^    leak: \+64.00 MiB a step since step 1, model.py:41 Model.forward'
in_order empty.db '^no device memory was ever allocated$'
grep -qE '^  would|neither PyTorch' thinned.db.txt && no "advice from a recording that cannot be replayed"
# the program went on after it ran out of memory: the page is about the peak
make_db went.db --kind oom
sqlite3 went.db "UPDATE step SET t_ns = t_ns + 1000000000000 WHERE rowid = (SELECT max(rowid) FROM step)"
fits went.db
in_order went.db '^PEAK on device 0' '^    memory ran out on the way, at 918 ms, and the program went on: vramscope'
# everything there is
for how in --all --full --sort=peak --top=3; do
    "$V" report $how train.db >all.txt || no "$how"
    grep -q '^  the peak was made of$' all.txt || no "$how does not show everything"
done
[ "$failures" = 0 ] && echo "the first screen says what to do"
exit "$failures"
