#!/bin/bash
# cold_start.sh - how a new user's first minutes go: each line of output with the second at which it came.
#
#     tests/bench/cold_start.sh wheel ROOT WHEEL BUILD     a virtual environment, pip, demo, doctor, a recording, its report
#     tests/bench/cold_start.sh clone ROOT                 git clone, the quickstart
#
# The commands run by chroot in ROOT, a Debian root of its own (debootstrap --variant=minbase --include=python3-venv ... ROOT; for
# `clone` with git and ca-certificates); BUILD has the simulated driver and train_lm.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=$1 root=$2
begin=${EPOCHREALTIME/./}
# what a network needs here, as this shell has it
mapfile -t network < <(env | grep -iE '^(https?|no)_proxy=|^PIP_(INDEX_URL|CERT|PROXY)=' || true)

# film COMMAND: shown as it is typed, run in the root, its lines with their times
film() {
    stamped <<<"\$ $1"
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 COLUMNS=120 "${network[@]}" /bin/bash -c "cd /root && $1" 2>&1 </dev/null | stamped
}
stamped() {
    local line now
    while IFS= read -r line; do
        now=${EPOCHREALTIME/./}
        printf '%7s  %s\n' "$(((now - begin) / 1000000)).$(((now - begin) / 100000 % 10))" "$line"
    done
}
mounted() {
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev/shm" || mount -t tmpfs tmpfs "$root/dev/shm"
}
trap 'umount "$root/proc" "$root/dev/shm" 2>/dev/null || true' EXIT
mounted
echo "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) at the begin, $(. "$root/etc/os-release" && echo "$PRETTY_NAME") in the root"
case $what in
wheel)
    wheel=$3 build=$4
    mkdir -p "$root/opt/sim"
    cp -L "$build"/sim/*.so.1 "$root/opt/sim/"
    cp "$build/bin/train_lm" LICENSE "$wheel" "$root/opt/"
    rm -rf "$root/root/env" "$root/root/run.db"
    begin=${EPOCHREALTIME/./}
    film "python3 -m venv env"
    film "env/bin/pip install --no-index /opt/${wheel##*/}"
    film "env/bin/vramscope demo -o demo"
    film "LD_LIBRARY_PATH=/opt/sim env/bin/vramscope doctor"
    film "LD_LIBRARY_PATH=/opt/sim env/bin/vramscope run -o run.db -- /opt/train_lm --steps 40 --vocab 300 --hidden 32 --batch 128 /opt/LICENSE"
    film "env/bin/vramscope report run.db"
    ;;
clone)
    [ -z "${PIP_CERT:-}" ] || install -D "$PIP_CERT" "$root$PIP_CERT"
    rm -rf "$root/root/vramscope" "$root/opt/vramscope.git"
    git clone -q --bare . "$root/opt/vramscope.git"
    begin=${EPOCHREALTIME/./}
    film "git clone -q /opt/vramscope.git vramscope"
    film "cd vramscope && ./examples/quickstart.sh"
    ;;
esac
echo "load $(cut -d' ' -f1 /proc/loadavg) at the end"
