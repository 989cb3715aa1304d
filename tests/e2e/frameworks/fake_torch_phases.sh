#!/bin/bash
# Automatic phases on a torch that is a shell: in order, with and without the library's hooks, by every interpreter that is here; off, and
# said to be, where
# one thing is otherwise (otherwise.py); silent after a failure of their own.  More programs: torch_phases.sh.
here=$(cd "$(dirname "$0")" && pwd)
python=${TEST_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PHASE_LOG=$work/log PYTHONDONTWRITEBYTECODE=1

# check CASE LOG [STDERR]: the log in one line, forward = F, logits = L, backward = B, optimizer = O,
# evaluation = E, pop = ., step = S, the moment of an output layer that was not called = M
check() {
    : >"$PHASE_LOG"
    LD_PRELOAD=$BUILD/tests/libframework_log.so PYTHONPATH=$here/../../../shim/framework/python:$here/fake_torch \
        "$python" "$here/fake_torch_phases.py" "$1" 2>"$work/err" || { cat "$work/err"; echo "FAIL: $1"; exit 1; }
    told=$(sed 's/+auto f.*/F/; s/+auto l.*/L/; s/+auto b.*/B/; s/+auto o.*/O/; s/+auto e.*/E/; s/^moment.*/M/; s/^-auto$/./; s/step/S/' "$PHASE_LOG" | tr -d '\n')
    [ "$told" = "$2" ] || { cat "$work/err"; echo "FAIL: $1: $told, not $2"; exit 1; }
    [ "$(cat "$work/err")" = "${3:-}" ] || { cat "$work/err"; echo "FAIL: $1: that on stderr"; exit 1; }
    echo "ok $1"
}
cases() {
    check train F.L.B.O.SF.L.B.O.S
    check closure O.F.L.B.O.SO.F.L.B.O.S
    check not_a_closure O.S
    check head_beside F.L.B.F.L.B.F.F.L.B.
    check tied_head F.B.F.L.B.
    check hidden_layers F.B.F.F.
    check small_vocabulary F.L.B.
    check replaced_head F.L.B.F.L.B.
    check two_vocabularies F.L.F.L.B.
    check not_called F.MB.F.B.
    check generate E.F.L.E.L.B.O.SF.L
    check unused_optimizer F.L.B.O.F.L.B.SO.SF.L.B.O.S
    check no_module F.L.B.
    check broken F.L.B. "vramscope: automatic phases are off from here: RuntimeError: surprise"
}
# otherwise WHAT CASE LOG [CONTRACT]: one thing of this torch is otherwise (fake_torch/torch/otherwise.py).  What needs it is off and
# the rest is as it was, nothing is raised or printed, and one contract says so.
otherwise() {
    : >"$work/contracts"
    FAKE_OTHERWISE=$1 CONTRACT_LOG=$work/contracts check "$2" "$3"
    # (of a free-threaded CPython it is always said that it is another one)
    [ "$(grep -v '^CPython: calls of modules run ' "$work/contracts")" = "${4:+PyTorch: $4}" ] || { cat "$work/contracts"; echo "FAIL: $1: that is said to be otherwise"; exit 1; }
}
otherwises() {
    otherwise nothing train F.L.B.O.SF.L.B.O.S
    otherwise state train "" "automatic phases and layers are not known: the engine's task is 0, that Dynamo compiles False, and whether gradients are on a bool"
    otherwise call generate E.E.B.O.S "forward, logits, evaluation and layers are not known: a call of nn.Identity does not pass the hook"
    local backward="backward and logits are not known, nor where a model without gradients is evaluation"
    otherwise entry generate E.F.E.O.SF. "$backward: Tensor.backward does not name autograd.backward"
    otherwise gone train F.O.SF.O.S "$backward: AttributeError: module 'torch.autograd.graph' has no attribute '_engine_run_backward'"
    otherwise frame train F.L.B.O.SF.L.B.O.S "lines of code that runs within a node may be missing where backward runs on the thread that called it: the engine is entered by run_engine of torch/autograd/graph.py"
    local optimizer="the phase optimizer, steps, and roles of gradients and optimizer states are not known"
    otherwise step train F.L.B.F.L.B. "$optimizer: a step's wrapper does not name _global_optimizer_post_hooks, _global_optimizer_pre_hooks"
    otherwise arguments train F.L.B.F.L.B. "$optimizer: a step's hook gets a list and a dict"
    otherwise decorator generate F.L.F.L.F.L.F.L.L.F.L.L.B.O.SF.L "\`generate\` is not known to be evaluation: a function that no_grad decorates is not known by what it closes over"
    otherwise widths train F.B.O.SF.B.O.S "logits may be more than is said: modules have no Linear.in_features, Linear.out_features"
    otherwise node train F.L.B.O.SF.L.B.O.S "logits may be more than is said: LogSoftmaxBackward0 has no _input_metadata"
    otherwise dynamo train F.L.B.O.SF.L.B.O.S "torch.compile is not told to skip functions of vramscope's, and may break its graphs at them: AttributeError: 'types.SimpleNamespace' object has no attribute 'skip_code'"
}
cases
otherwises
check interrupted F.L.B.
# where the library does the hooks' work the phases are the same, some of them by every interpreter that is here
export FAKE_TORCH=hooks
first=$python tried=
for python in "$first" /usr/bin/python3.1[0-9] "$HOME"/.pyenv/versions/3.1[0-9]*/bin/python3 "$here"/../../../build/deps/python/*/python3; do
    version=$("$python" -c 'import sys; print(sys.version.split()[0])' 2>/dev/null) || continue
    case "$tried " in *" $version"*) continue ;; esac
    if [ "$python" = "$first" ]; then cases && otherwises; fi
    for one in "train F.L.B.O.SF.L.B.O.S" "closure O.F.L.B.O.SO.F.L.B.O.S" "direct S"; do
        check "${one% *}" "${one#* }"
    done
    tried="$tried $version"
done
echo "by the library:$tried"
python=$first FAKE_TORCH=
# a torch without CUDA has no allocator that could be replaced; phases that are not wanted are not told
export VRAMSCOPE_ALLOCATOR=arena
check train F.L.B.O.SF.L.B.O.S
export VRAMSCOPE_AUTO_PHASES=off
check train ""
