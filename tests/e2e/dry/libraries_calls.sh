#!/bin/bash
# What PyTorch asks of CUDA's other libraries goes through without a GPU.  Figures that no table has are told as guesses.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
limit=250
mkdir "$dir/home"
shim_env=(HOME="$dir/home" XDG_CACHE_HOME="$dir/home")

dry "$python" "$here/libraries_program.py"
[ "$status" = 0 ] || fail "status $status"
grep -q '^[0-9][0-9][0-9] calls$' "$run/out" || fail "$(cat "$run/out")"
guessed() { grep -qP "^(guess|beside)\t$1" "$run/facts"; }
guessed 'libcusolver\.so\.1[12]\tcusolverDnSgesvd\t[1-9]' || fail "nothing is said of what a decomposition needs"
guessed "libcufft\.so\.1[12]\ta plan's work area\t[1-9]" || fail "nothing is said of a transform's work area"
toolkit=$("$python" -c 'import importlib.metadata as m; print(*m.requires("torch"), sep="\n")' | sed -n 's/^cuda-toolkit[^=]*==\([0-9.]*\).*/\1/p')
if [ "$toolkit" = 13.0.2 ]; then
    ! guessed libcublas || fail "what a cuBLAS handle takes of an H200 is known"
    ! guessed 'libcusolver\.so\.12\tcusolverDn(Xpotrf|[SDCZX]geqrf)\t' || fail "what Cholesky's decomposition and QR need of an H200 is known"
else
    guessed libcublas || fail "what a handle of another cuBLAS takes is said to be known"
fi
grep -qP '^value\tlibcusparse\.so\.12\t.*cusparseSpGEMM\t3$' "$run/facts" || fail "nothing is said of the elements of a sparse product"
! grep -q ^missing "$run/facts" || fail "$(grep ^missing "$run/facts")"
found=$(find "$dir/home" -path '*torch/kernels*' | head -n 1)
[ -z "$found" ] || fail "a kernel that was not compiled lies where a later run finds it: $found"
echo "ok $(cat "$run/out")"
