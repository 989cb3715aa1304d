#!/bin/bash
# The installed tree works from wherever it is moved to, with an empty environment, and needs the C library alone.
. "$(dirname "$0")/../lib/command.bash"
command -v cmake >/dev/null && command -v readelf >/dev/null || { echo "skipped: no cmake or no readelf here"; exit 77; }

cmake --install "$BUILD" --prefix "$D/first" >log 2>&1 || { cat log && exit 1; }
mkdir else && mv first else/where
tree=$D/else/where
for file in bin/vramscope bin/train_lm lib/libvramscope.so include/vramscope.h share/vramscope/python/vramscope/__init__.py \
    lib/vramscope/sim/libcuda.so.1 lib/vramscope/sim/libnvidia-ml.so.1 lib/liblinear_cross_entropy.so include/linear_cross_entropy.h lib/pkgconfig/linear_cross_entropy.pc \
    share/man/man3/linear_cross_entropy.3 share/vramscope/examples/linear_cross_entropy.c \
    share/vramscope/python/vramscope/cross_entropy.py share/vramscope/examples/torch_llama.py share/vramscope/python/sitecustomize.py share/vramscope/examples/queries.sql share/man/man1/vramscope.1 share/man/man5/vramscope.5; do
    [ -s "$tree/$file" ] || no "not installed: $file"
done
find "$tree" -name 'libcuda*' | grep -v /lib/vramscope/ && no "the simulated driver lies where others look for libraries"
find "$tree" -type l | while read -r link; do case $(readlink "$link") in /*) echo "$link" ;; esac; done | grep . && no "links to the build"

# every binary: libc and what belongs to the tree; no directory of the build in what the loader reads
find "$tree" -type f | while read -r file; do
    readelf -dW "$file" 2>/dev/null | grep -q NEEDED || continue
    readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^((libc|libm|libdl|libpthread)\.so\.[0-9]+|ld-linux.*|libvramscope-[a-z]+\.so)$' | sed "s|^|${file##*/} needs |"
    readelf -dW "$file" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p' | tr : '\n' | grep -v '^\$ORIGIN' | sed "s|^|${file##*/} has the run path |"
    # the newest version of glibc that it asks for: 2.34 is what we promise
    readelf -VW "$file" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | awk -F. -v f="${file##*/}" '$2 > 34 {print f " needs " $0}'
done >needs
[ -s needs ] && no "the tree depends on more than it may: $(cat needs)"
find "$tree" -type f -exec grep -laF -e "$BUILD" -e "$D/first" {} + >named && no "names of the build or of the first place: $(cat named)"

# the quickstart's workload
bare() { env -i "$@"; }
bare "$tree/bin/vramscope" run --simulated --stacks=all -o "$D/run.db" -- "$tree/bin/train_lm" --steps 40 --vocab 300 --hidden 32 --batch 128 \
    "$SRC/LICENSE" >out 2>err || no "run: $(cat out err)"
grep -q '^ok: loss' out || no "the workload did not train: $(tail -n 1 out)"
bare "$tree/bin/vramscope" report --all run.db >report || no "report"
for phase in forward logits backward optimizer; do grep -q "$phase" report || no "no $phase in the report"; done
bare "$tree/bin/vramscope" peak --by=stack run.db >peak || no "peak"
grep -q train_lm peak || no "no call stacks: the unwinder was not found in the tree: $(cat peak)"
bare "$tree/bin/vramscope" plot run.db -o plot.gp && [ -s plot.gp ] || no "plot"

# the library alone, and its Python module

bare LD_LIBRARY_PATH="$tree/lib/vramscope/sim" LD_PRELOAD="$tree/lib/libvramscope.so" VRAMSCOPE_OUTPUT="$D/plain.db" "$tree/bin/train_lm" --steps 40 --vocab 300 --hidden 32 --batch 128 \
    "$SRC/LICENSE" >/dev/null 2>err || no "under LD_PRELOAD: $(cat err)"
bare "$tree/bin/vramscope" report --all plain.db >/dev/null || no "report of plain.db"
python=$(command -v python3) && {
    bare PYTHONPATH="$tree/share/vramscope/python" "$python" -c 'import vramscope
with vramscope.phase("forward"): vramscope.step()' || no "the Python module"
    bare PYTHONPATH="$tree/share/vramscope/python" "$python" -c 'import vramscope._torch, vramscope._arena' || no "the automatic phases"
}
[ $failures = 0 ] && echo "the tree can be moved" || exit 1
