#!/usr/bin/env bash
# predictions.sh TREE OUT - what `vramscope whatif --edit` says of a change, before the change is made, held against what it then
# took.
#
# Each model is recorded once, under PyTorch's native allocator. Of that recording every edit is predicted, for native, for expandable
# segments and for the arena (OUT/predictions.json). Only then the changed program runs under each of the three (peaks.jsonl,
# table.md).
#
# MODELS, EDITS: these alone; docs/measurements/predictions.md says on which models no rule was made. SECONDS_MOST: of the changed
# runs (330). Needs the fused loss, transformers, torchvision; three minutes on 16 cores.
. "$(dirname "$0")/gpu.bash"
need
export tree here python work TRITON_CACHE_DIR=$work/triton OMP_NUM_THREADS=2
models=${MODELS:-llama cnn lengths}
all="foreach=no optimizer=fused states=bf16 states=8bit states=host gradients=in-backward accumulate=3 checkpoint=1 checkpoint=2 types=bf16 batch=2"
edits=${EDITS:-$all}

# shellcheck disable=SC2317 # xargs calls both
one() { # one ALLOCATOR MODEL EDIT: trains, recorded; what PyTorch and the recording say goes to a file
  local name=$2.$3.$1 conf='' args=()
  [ "$1" = expandable ] && conf=expandable_segments:True
  [ "$1" = arena ] && args=(--allocator=arena)
  PYTORCH_CUDA_ALLOC_CONF=$conf timeout 100 "$tree/bin/vramscope" run -q "${args[@]}" -o "$work/$name.db" -- \
    "$python" "$here/predictions_model.py" "$2" "$3" >"$work/$name.json" 2>"$work/$name.err" ||
    echo "bad $name: $(tail -n 2 "$work/$name.err" | tr '\n' ' ' | cut -c1-300)"
}
# shellcheck disable=SC2317
predict() { # predict MODEL EDIT
  "$tree/bin/vramscope" whatif --json -e "$2" "$work/$1.base.native.db" >"$work/$1.$2.predicted" 2>"$work/$1.$2.err" || true
}
export -f one predict

for m in $models; do echo "native $m base"; done >"$work/bases"
xargs -P 12 -L 1 bash -c 'one "$@"' _ <"$work/bases"
for m in $models; do
  own=$edits
  [ -n "${EDITS:-}" ] || case $m in cnn | vit | *net | convnext | efficientnet2 | swin | resnext | gru | elman) ;; *) own="$own sequence=2" ;; esac
  case $m in llama | qwen | gemma | lengths | mistral | qwen3 | *-autocast) ;; *) own=${own/loss=fused/} ;; esac
  for e in $own; do
    echo "$m $e" >>"$work/predict"
    for a in native expandable arena; do echo "$a $m $e" >>"$work/jobs"; done
  done
  for a in expandable arena; do echo "$a $m base" >>"$work/jobs"; done
done
xargs -P 8 -L 1 bash -c 'predict "$@"' _ <"$work/predict"
"$python" "$here/predictions_table.py" gather "$work" "$out/predictions.json"
sha256sum "$out/predictions.json"
timeout "${SECONDS_MOST:-330}" xargs -P 14 -L 1 bash -c 'one "$@"' _ <"$work/jobs"
"$python" "$here/predictions_table.py" measure "$work" "$out/peaks.jsonl"
"$python" "$here/predictions_table.py" table "$out/predictions.json" "$out/peaks.jsonl" | tee "$out/table.md"
status=${PIPESTATUS[0]}
if [ -n "${KEEP:-}" ]; then (cd "$work" && tar cf - -- *.native.db) | xz -T12 -4 >"$out/native.txz"; fi
exit "$status"
