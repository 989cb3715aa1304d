#!/bin/bash
# `vramscope fit config.json`: parameters, optimizer states and gradients have the bytes that arithmetic says; what can't be had together is refused
# in a line.
. "$(dirname "$0")/../lib/lib.bash"
. "$(dirname "$0")/../lib/dry.bash"
find_torch
unset LD_LIBRARY_PATH
has() { "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$1"; }
has transformers || skip "$python has no transformers"
cd "$dir" || exit 1
mkdir bin && printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" >bin/python3 && chmod +x bin/python3
export PATH=$dir/bin:$PATH
cat >config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512, "tie_word_embeddings": false}
END
layers=$((2 * (4 * 256 * 256 + 3 * 256 * 512))) others=$((2 * 1000 * 256 + 5 * 256)) # two of them embeddings, and norms
all=$((layers + others))
adapters=$((2 * 8 * (4 * 512 + 3 * 768))) # rank 8, of all linear layers
fit() { # STATUS ARGUMENT...
    local wanted=$1 got
    shift
    timeout 200 "$BUILD/bin/vramscope" fit -f -o fit.db config.json --seq=64 "$@" >out 2>err </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(tail -n 20 err) $(head -c 1000 out)"
}
of() { "$BUILD/bin/vramscope" peak --by=role --bytes "${2:-fit.db}" | awk -v role="$1" 'index($0, "  " role " ") == 1 {n = split(substr($0, length(role) + 3), f, " "); print f[1]; found = 1} END {if (!found) print 0}'; }
holds() { # PARAMETERS STATES ARGUMENT...: bytes
    fit 0 "${@:3}"
    [ "$(of parameter) $(of 'optimizer state')" = "$1 $2" ] || fail "${*:3}: parameters and states $(of parameter) $(of 'optimizer state'), not $1 $2"
}
holds $((2 * all)) $((2 * layers + 4 * others)) --optimizer=muon
if has peft && has bitsandbytes; then
    holds $((layers / 2 + 2 * others + 4 * adapters)) $((8 * adapters)) --qlora=8
else
    echo "not tried: $python has no peft or no bitsandbytes"
fi
fit 0 --optimizer=sgd
alone=$(sed -n 's/^ *peak allocated *\([0-9]*\).*/\1/p' out)
fit 0 --optimizer=sgd --ranks=2 --rank=1
copies=$(sed -n 's/^ *peak allocated *\([0-9]*\).*/\1/p' out)
[ $((copies - alone)) -ge $((2 * all)) ] || fail "a copy among two holds $copies, and alone $alone: no buckets of $((2 * all))"
for bad in "--ranks=2 --zero=2 --optimizer=muon" --offload "--ranks=2 --fsdp --qlora=8" --zero=3; do
    # shellcheck disable=SC2086 # the last are several
    fit 2 $bad
    if ! grep -q "^vramscope: fit: --" err || grep -q Traceback err; then fail "$bad: $(cat err)"; fi
done
echo "a config's training has the bytes that arithmetic says"
