#!/usr/bin/env bash
# cost_parts.sh TREE OUT - what `vramscope run` costs a training step, inside one process (cost_parts.py has the configurations and
# the targets).
#
# MODELS: what CONFIGS cost each; ACCESS_MODELS: what the access ledger adds; RANKED_MODELS (ddp, fsdp): rank 0 of two, on two GPUs.
# ROUNDS=220 of TURN=1 steps take half a minute a model. STACKS=all also walks the native frames of each block.
. "$(dirname "$0")/gpu.bash"
device=${DEVICE:-cuda}
[ "$device" = cpu ] || need
more=("--device" "$device" --turn "${TURN:-1}")
[ "$device" = cuda ] || more+=(--tiny)
failed=0 access=
one() { # NAME MODEL ROUNDS [options]
  timeout 150 "$tree/bin/vramscope" run -q ${access:+--access} ${STACKS:+--stacks="$STACKS"} -o "$work/$1.db" -- \
    "$python" "$here/cost_parts.py" turns "$out/$1.json" "$2" --rounds "$3" "${more[@]}" "${@:4}" >"$out/$1.log" 2>&1 || { failed=1; tail -n 5 "$out/$1.log"; }
  rm -f "$work/$1".db*
  "$python" "$here/cost_parts.py" table "$out/$1.json" || failed=1
}
for model in ${MODELS-small cnn vit gpt2}; do
  one "parts-$model" "$model" "${ROUNDS:-220}" ${CONFIGS:+--configs "$CONFIGS"}
done
for model in ${ACCESS_MODELS-small cnn}; do
  access=1 one "access-$model" "$model" "${ROUNDS:-220}" --access
done
for model in ${RANKED_MODELS-}; do
  export MASTER_ADDR=127.0.0.1 MASTER_PORT=29541 WORLD_SIZE=2 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 # multicast can put the host's GPUs out of service
  RANK=1 one "rank1-$model" "$model" "${ROUNDS:-220}" --configs off,all >"$work/rank1.log" 2>&1 &
  RANK=0 one "rank0-$model" "$model" "${ROUNDS:-220}" --configs off,all
  wait $! || { failed=1; tail -n 5 "$work/rank1.log"; }
done
exit $failed
