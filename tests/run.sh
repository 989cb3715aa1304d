#!/bin/bash
# run.sh - all tests, from a fresh checkout, in one command.
#
#   tests/run.sh [STAGE...]      stages: lint unit e2e oracle noarena asan tsan gpu (all unless named)
#   tests/run.sh quick           at each commit: the build, lint and the unit tests, in a minute and a half where all is built
#   tests/run.sh full [SCALE]    instead, what takes long, tests/full and tests/e2e in full: at most two hours on two cores; SCALE 0.01 for a taste
#
# A test that exits 77 was skipped and says why.  Logs lie in build/test-logs; those of failed tests are shown.  Each stage says its
# time, what of that the processors had to do, and for which scripts most of it; long tests begin first, and tests that wait much
# run beside others.  The last line counts, and the exit status is 0 where nothing failed.
#
# TEST_PYTHON, for the tests that want PyTorch, is one that scripts/torch.sh makes unless it is given; what reaches into PyTorch is
# tested with the newest, and by `full` with every version.  What they take to fetch is no part of the tests' time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

logs=$PWD/build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
export BUILD=$PWD/build/release
jobs=$(nproc)
# every test's temporary files, and by its name in their environment the processes that tests started
scratch=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-tests.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # tests become other users
export TMPDIR=$scratch
scale=1
if [ "${1:-}" = full ]; then
    scale=${2:-1}
    set -- full
fi
stages=" ${*:-lint unit e2e oracle noarena asan tsan gpu} "
stages=${stages/ quick / lint unit }
torches=(2.11.0 2.15.0) # PyTorch for the tests, and the newest
passed=0 failed=0 skipped=0
more=$((jobs + 1 + jobs / 2)) # at once, of what waits for clocks and other processes half of its time

wanted() { [[ $stages == *" $1 "* ]]; }

# told STATUS: the exit status in words where it is a failure.
told() {
    case $1 in
    0 | 77) echo "$1" ;;
    124 | 137) echo "exit status $1: took too long, or was killed" ;;
    *) echo "exit status $1" ;;
    esac
}

# result NAME STATUS LOG: counts one test and says how it went.
result() {
    case $2 in
    0)
        passed=$((passed + 1))
        printf 'ok    %s\n' "$1"
        ;;
    77)
        skipped=$((skipped + 1))
        printf 'SKIP  %s: %s\n' "$1" "$(grep -m 1 . "$3" 2>/dev/null)"
        ;;
    *)
        failed=$((failed + 1))
        printf 'FAIL  %s (%s)\n' "$1" "$2"
        sed 's/^/      | /' "$3" | tail -n 60
        ;;
    esac
}

finish() {
    stage ''
    printf 'took %d min %02d s on %d cores\n' $((SECONDS / 60)) $((SECONDS % 60)) "$jobs"
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
    exit
}

# step NAME COMMAND...: one test that is one command.
step() {
    local name=$1 log status
    shift
    log=$logs/$(tr -c 'a-zA-Z0-9_\n' - <<<"$name").log
    "$@" >"$log" 2>&1
    status=$?
    result "$name" "$(told $status)" "$log"
    return $status
}

# beside NAME COMMAND...: a step that runs beside what follows, until `together`, which gives the results in order.
names=() pids=()
beside() {
    local name=$1 log
    shift
    log=$logs/$(tr -c 'a-zA-Z0-9_\n' - <<<"$name").log
    # the shell forgets the status of one that ended long ago, once its number is another's
    { "$@" >"$log" 2>&1; echo $? >"$log.status"; } &
    pids+=($!) names+=("$name")
}
together() {
    local i status log
    for i in "${!pids[@]}"; do
        log=$logs/$(tr -c 'a-zA-Z0-9_\n' - <<<"${names[i]}").log
        wait "${pids[i]}" 2>/dev/null
        status=$(cat "$log.status" 2>/dev/null || echo 1)
        result "${names[i]}" "$(told "$status")" "$log"
    done
    names=() pids=()
}

# stage NAME: says how long the one before took; NAME is what begins now.
stage_name='' stage_began=0 stage_cpu=0
stage() {
    local cpu
    times >"$logs/times" # in this shell: a subshell has no children's times
    cpu=$(awk -F'[ms ]+' '{n += 60 * ($1 + $3) + $2 + $4} END {print int(n)}' "$logs/times")
    [ -z "$stage_name" ] || printf 'time  %s: %d s, %d s of processors\n' "$stage_name" $((SECONDS - stage_began)) $((cpu - stage_cpu))
    stage_name=$1 stage_began=$SECONDS stage_cpu=$cpu
}

# ---- lint ----

# sources TEST...: the files of the checkout that find's TESTs name.
sources() { find . \( -path ./build -o -path ./.git \) -prune -o -type f \( "$@" \) -print0; }

check_format() {
    if ! command -v clang-format >/dev/null; then
        echo "no clang-format here"
        return 77
    fi
    local version
    version=$(clang-format --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
    if [ "$version" != 14 ]; then # versions differ in what they do to the same file
        echo "clang-format is version $version; the sources are formatted with 14"
        return 77
    fi
    sources -name '*.[ch]' -o -name '*.cu' | xargs -0 -P "$jobs" -n 100 clang-format --dry-run -Werror
}

check_shell() {
    if ! command -v shellcheck >/dev/null; then
        echo "no shellcheck here"
        return 77
    fi
    sources -name '*.sh' -o -path ./.ci/run | xargs -0 -P "$jobs" -n 20 shellcheck --severity=warning
}

# ---- unit tests ----

# run_unit_tests LABEL BUILD-DIR: ctest, into a log.
run_unit_tests() {
    local label=$1 dir=$2 prefix=() leave=()
    if [ "$label" = tsan ] && setarch -R true 2>/dev/null; then
        prefix=(setarch -R) # its shadow memory does not fit every layout of the address space
    fi
    [ "$label" != tsan ] || leave=(-LE 'one_thread|two_mappings|in_full') # where nothing runs beside it there is no race to find
    "${prefix[@]}" ctest --test-dir "$dir" -j "$more" --timeout 900 --output-on-failure "${leave[@]}" >"$logs/ctest-$label.log" 2>&1
}

# told_unit_tests LABEL: one result per ctest test.
told_unit_tests() {
    local label=$1 log=$logs/ctest-$1.log name outcome before=$((passed + failed + skipped))
    while read -r name outcome; do
        case $outcome in
        Passed*) result "$label $name" 0 "$log" ;;
        *Skipped*) result "$label $name" 77 <(echo "its log: $log") ;;
        *) result "$label $name" "$outcome" <(sed -nE "/Test +#[0-9]*: $name /,/(Start *[0-9]*:|Test *#[0-9]*:|tests passed,)/p" "$log") ;;
        esac
    done < <(sed -nE 's,^ *[0-9]+/[0-9]+ Test +#[0-9]+: ([^ ]+) \.*[ *]*([A-Z].*) +[0-9.]+ sec.*,\1 \2,p' "$log")
    if [ $((passed + failed + skipped)) -eq $before ]; then
        result "$label: unit tests were found" 1 "$log"
    fi
}

unit_tests() { # LABEL BUILD-DIR
    run_unit_tests "$1" "$2"
    told_unit_tests "$1"
}

# ---- end to end ----

run_one() {
    local log TIMEFORMAT='%U %S' file=${2%@*}
    log=$1/$(basename "$2").log
    [ "$file" = "$2" ] || export TEST_PYTHON=$newest
    {
        # on a busy machine the recorder's thread may get no processor for as long as a program runs (tests/e2e/lib/lib.bash)
        time VRAMSCOPE_EXIT_MS=60000 timeout --kill-after=10 "$3" "$file" >"$log" 2>&1 </dev/null
        echo $? >"$log.status"
    } 2>"$log.time"
}
export -f run_one

# scripts LABEL TIMEOUT FILE...: each in a process of its own, more at once than there are cores; FILE@VERSION with the newest PyTorch.
scripts() {
    local label=$1 limit=$2 file log
    shift 2
    [ $# -gt 0 ] || return 0
    mkdir -p "$logs/$label"
    printf '%s\0' "$@" | xargs -0 -P "$more" -I FILE bash -c "run_one '$logs/$label' FILE $limit"
    for file; do
        log=$logs/$label/$(basename "$file").log
        result "$label/$(basename "$file")" "$(told "$(cat "$log.status" 2>/dev/null || echo unknown)")" "$log"
    done
    [ $# -le 5 ] || (cd "$logs/$label" && awk '{ name = FILENAME; sub(/\.log\.time$/, "", name); printf "%.0f %s\n", $1 + $2, name }' ./*.time |
        sort -rn | head -n 5 | awk '{ said = said (NR > 1 ? ", " : "") substr($2, 3) " " $1 " s" } END { print "      the most of the processors: " said }')
}

# names_differ FILE...: results and logs go by the file's name without its folder; what lies beside the folders is never run.
names_differ() {
    local twice flat
    twice=$(basename -a "$@" | sort | uniq -d)
    flat=$(find tests/e2e -maxdepth 1 -type f ! -name CMakeLists.txt)
    [ -z "$twice" ] || echo "in two folders: $twice"
    [ -z "$flat" ] || echo "in no folder: $flat"
    [ -z "$twice$flat" ]
}

# tests/gpu/*.sh and tests/gpu/real/*.sh TREE OUT run against an installed tree, one after the other: they measure.
gpu_tests() {
    local file tree=$PWD/build/gpu-tree out=$logs/gpu
    if [ ! -e /dev/nvidiactl ]; then
        for file in tests/gpu/*.sh tests/gpu/real/*.sh; do
            result "gpu/$(basename "$file")" 77 <(echo "THERE IS NO GPU HERE: nothing was tested on one")
        done
        return
    fi
    step "install for the GPU tests" cmake --install build/release --prefix "$tree" || return
    step "install the witness" cmake --install build/release --component witness --prefix "$tree"
    for file in tests/gpu/*.sh tests/gpu/real/*.sh; do
        step "gpu/$(basename "$file")" timeout --kill-after=10 1800 "$file" "$tree" "$out/$(basename "$file" .sh)"
    done
}

# torch VERSION: sets $python to one that has it, or says why there is none.
torch() {
    local said
    python=''
    if said=$(scripts/torch.sh "$1" 2>&1); then
        python=${said##*$'\n'}
    else
        result "PyTorch $1" 77 <(echo "not fetched, and not tested: ${said##*$'\n'}")
    fi
}

# ---- what tests leave behind ----

# our_processes: the pids of those that have our TMPDIR in their environment (this shell has it not: it is older).
our_processes() {
    local file entries
    found=()
    for file in /proc/[0-9]*/environ; do
        mapfile -d '' entries 2>/dev/null <"$file" || continue # it ended meanwhile, or is somebody else's
        [[ $'\n'$(printf '%s\n' "${entries[@]}") == *$'\n'"TMPDIR=$scratch"$'\n'* ]] && found+=("${file//[!0-9]/}")
    done 2>/dev/null
}

nothing_left() {
    local left journals pid
    rm -rf "$scratch"/torchinductor_* # PyTorch's compiler keeps its precompiled headers for whoever comes next
    for _ in {1..30}; do # some end a moment after the program that is looked at
        our_processes
        [ ${#found[@]} -gt 0 ] || break
        sleep 1
    done
    our_processes
    for pid in "${found[@]}"; do
        echo "still running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done
    left=$(find "$scratch" -mindepth 1 -maxdepth 3 | head -n 20)
    [ -z "$left" ] || echo "left in TMPDIR: $left"
    # a journal names the database that it is for
    journals=$(grep -laF "$scratch" /dev/shm/vramscope-* 2>/dev/null)
    [ -z "$journals" ] || echo "left in memory: $journals"
    [ -z "${found[*]}$left$journals" ]
}

# ---- all of it ----

stage "set up"
include=$(scripts/setup.sh test | sed -n 's/^CUDA_INCLUDE_DIR=//p')
if [ -z "$include" ]; then
    echo "run.sh: setting up failed (see above)"
    failed=1
    finish
fi
# where python3 is a version manager's script, which looks for the interpreter at each call, it is looked for once
if python_in=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'); then
    PATH=$python_in:$PATH
fi
stage "build with gcc, lint beside it" # where one of them has one processor's work, the other has company
if wanted lint; then
    beside "clang-format" check_format
    beside "shellcheck" check_shell
    beside "header guards" scripts/guards.py
    beside "names in comments" scripts/comment_names.py
fi
fetching=() # PyTorch, which one processor unpacks
if wanted e2e || wanted full; then
    for version in "${torches[@]:${TEST_PYTHON:+1}}"; do
        scripts/torch.sh "$version" >/dev/null 2>&1 &
        fetching+=($!)
    done
fi
what=(-DVRAMSCOPE_KERNELS_QUICK=ON) targets='' # without a GPU nothing runs the kernels' machine code; `full` and the packages have it whole
[ ! -e /dev/nvidiactl ] && ! wanted full || what=() targets="all benches"
step "build with gcc" env CC=gcc TARGETS="$targets" scripts/build.sh release "$include" "${what[@]}"
built=$?
together
[ $built = 0 ] || finish

newest=''
if wanted e2e || wanted full; then
    before=$SECONDS
    stage "PyTorch"
    wait "${fetching[@]}" # what it said, if it failed, is said by the next call
    if [ -z "${TEST_PYTHON:-}" ]; then
        torch "${torches[0]}"
        [ -z "$python" ] || export TEST_PYTHON=$python
    fi
    torch "${torches[1]}"
    export newest=$python
    stage ''
    SECONDS=$before
fi

shopt -s nullglob
alone=tests/e2e/host/host_starved.sh # it takes a processor from all others
# what `full` alone has: what tests/gpu measures, on a processor; and real programs for what unit tests hold
elsewhere=(measuring/bench_ce_cpu arena/{arena_measurements{,_torch},away_measurements} frameworks/{torch_compile_phases,unseen_programs} dry/torch_replays
    cli/whatif_{refused,stages} frameworks/torch_{tools,trainers} recording/max_bytes install/wheel_installed examples/torch_llama
    dry/{launchers,budgets} cross_entropy/cross_entropy_operator measuring/oracle_comparison)
# what reaches into PyTorch; the others have the older one
with_newest=(arena/suspend_nccl frameworks/{autograd_lines,torch_{layers,phases,recorded,roles,tensors,unharmed}} export/export_pytorch dry/{torch_agrees,ranks_alone,values_rules})
# The other builds, beside what comes next, with what it leaves of the processors.  Those under the
# sanitizers have what the unit tests link; that under the address sanitizer is clang's, for its warnings, its linker's
# complaints and its sanitizer, which finds more undefined behaviour than gcc's.  The build without the arena compiles the
# files of the shim and of the command that know of it.  `full` builds all of it twice: with clang, for what the sanitizers'
# builds leave out, and with gcc, as it is shipped; and it runs all tests that are not the arena's.
quickly=(-DVRAMSCOPE_QUICK=ON "-DCMAKE_C_FLAGS_RELEASE=-O0 -DNDEBUG")
same=("-DVRAMSCOPE_FATBINS=$BUILD") # what nvcc makes does not differ
build() { # NAME VARIABLE=VALUE... scripts/build.sh ARGUMENT...
    local name=$1
    shift
    beside "build $name" nice -n 10 env "$@"
}
if wanted full; then
    build "with clang, without the arena" CC=clang BUILD_DIR=build/clang scripts/build.sh release "$include" -DVRAMSCOPE_ARENA=OFF "${same[@]}" "${quickly[@]}"
    build "without the arena" CC=gcc BUILD_DIR=build/noarena scripts/build.sh release "$include" -DVRAMSCOPE_ARENA=OFF "${same[@]}"
elif wanted noarena; then
    build "without the arena" CC=gcc BUILD_DIR=build/noarena TARGETS="vramscope_shim vramscope linear_cross_entropy simcuda simnvml prog_linked" \
        scripts/build.sh release "$include" -DVRAMSCOPE_ARENA=OFF -DVRAMSCOPE_OBJECTS="$BUILD" -DVRAMSCOPE_QUICK=ON "${same[@]}"
fi
sanitizes=clang
clang -fsanitize=address -x c -o /dev/null - <<<'int main(void) { return 0; }' 2>/dev/null || sanitizes=gcc
! wanted asan || build "with asan ($sanitizes)" CC=$sanitizes scripts/build.sh asan "$include" "${same[@]}"
! wanted tsan || build "with tsan" CC=gcc scripts/build.sh tsan "$include" "${same[@]}"
if wanted unit; then
    stage "unit, and other builds"
    unit_tests unit build/release
fi
if wanted e2e; then
    stage "e2e, and other builds"
    tests=()
    for file in tests/e2e/*/*.py; do # they take long, and are first
        [ -x "$file" ] && tests+=("$file") # the others are programs that a test runs
    done
    first=(tests/e2e/cross_entropy/cross_entropy_emulated.sh tests/e2e/surface/surface_every_fault.sh tests/e2e/laws/sweep.sh)
    tests+=("${first[@]}")
    for file in tests/e2e/*/*.sh; do
        [[ " ${first[*]} $alone " == *" $file "* ]] || tests+=("$file")
    done
    for i in "${!tests[@]}"; do
        file=${tests[i]#tests/e2e/}
        case " ${elsewhere[*]} | ${with_newest[*]} " in
        *" ${file%.*} "*"|"*) unset "tests[i]" ;;
        *"|"*" ${file%.*} "*) [ -z "$newest" ] || tests[i]+=@${torches[1]} ;;
        esac
    done
    step "e2e: each test has a name of its own, and lies in a topic" names_differ "${tests[@]}" "$alone"
    scripts e2e 600 "${tests[@]}" # the longest takes 100 s, and other work on the machine may double that
fi
if wanted oracle; then
    stage "oracle, and other builds"
    beside "kills" tests/full/kills.py 6 1
    beside "damaged files" tests/full/damage.py 30 1
    beside "impossible numbers" tests/full/extremes.py 12 1
    beside "oracle: 120 random programs" tests/oracle/oracle.py seeds 1 120
    beside "oracle: changed values are found" tests/oracle/oracle.py mutate 1 155 348 328 182 172 154 36 39
fi
# long NAME COUNT COMMAND...: one loop of tests/full, COUNT times as long as the scale says; its last lines are shown.
long() {
    local name=$1 count
    count=$(awk -v n="$2" -v scale="$scale" 'BEGIN { n *= scale; print n < 1 ? 1 : int(n) }')
    shift 2
    step "$name" "${@//COUNT/$count}"
    tail -n 1 "$logs/$(tr -c 'a-zA-Z0-9_\n' - <<<"$name").log" | sed 's/^/      /'
}
whatif_threads() {
    CC=gcc TARGETS=replay_database scripts/build.sh tsan "$include" "-DVRAMSCOPE_FATBINS=$BUILD" && ctest --test-dir build/tsan -R fuzz_database --output-on-failure
}
if wanted full; then
    stage full
    step "aarch64: the shim compiles" tests/full/cross.sh "$include"
    step "the wheel and the Debian package" tests/full/packages.sh
    step "interpreters for the tests of lines: 3.14, 3.15, free-threaded 3.13" scripts/interpreters.sh
    step "full: each sequence of four operations of the arena" env ARENA_DEPTH=4 "$BUILD/tests/test_arena_exhaustive"
    step "full: 400 recordings whose writers are killed" env RESUME_SEEDS=400 "$BUILD/tests/test_resume"
    step "full: the loss's kernels, emulated" tests/e2e/cross_entropy/cross_entropy_emulated.sh all
    mapfile -t tests < <({
        for test in "${elsewhere[@]}"; do
            [ -e "tests/e2e/$test.sh" ] && echo "tests/e2e/$test.sh" || echo "tests/e2e/$test.py"
        done
        grep -lwE 'in_full|find_pythons' tests/e2e/*/*.{sh,py}
    } | sort -u)
    [ -z "$newest" ] || tests+=("tests/e2e/dry/fit_torch.sh@${torches[1]}")
    FULL=1 scripts "full" 1800 "${tests[@]}"
    long "full: random programs" 20000 tests/oracle/oracle.py seeds 1 COUNT
    long "full: changed values are found" 100 tests/oracle/oracle.py mutate COUNT 155 348 328 182 172 154 36 39
    long "full: kills" 500 tests/full/kills.py COUNT 1
    long "full: damaged files" 5000 tests/full/damage.py COUNT 1
    long "full: impossible numbers" 4000 tests/full/extremes.py COUNT 1
    long "full: hostile hosts" 24 tests/full/hosts.sh COUNT
    step "full: the page in Firefox and WebKitGTK" tests/full/view_browsers.py
    step "full: whatif's threads under the thread sanitizer" whatif_threads
    FULL=1 step "full: every version of PyTorch" tests/full/versions.py
    step "full: programs in bf16 as predicted" tests/full/types_predicted.sh
    step "full: dry runs in bf16 as predicted" tests/full/types_dry.sh
    long "full: the page of a long recording" 10000000 tests/full/view_big.py COUNT
fi
[ ${#pids[@]} -eq 0 ] || stage "other builds, what is left"
together
! wanted e2e || scripts e2e 600 "$alone"
if wanted noarena || wanted full; then
    stage noarena
    tests=(tests/e2e/cli/arena_left_out.sh tests/e2e/cli/doctor_findings.sh tests/e2e/consistency/exports_match_driver_def.sh)
    if wanted full; then
        for file in tests/e2e/arena/*.sh; do
            result "noarena/$(basename "$file")" 77 <(echo "this build has no arena")
        done
        mapfile -t tests < <(printf '%s\n' tests/e2e/*/*.sh | grep -v -e /arena/ -e "$alone")
    fi
    BUILD=$PWD/build/noarena
    ! wanted full || unit_tests noarena build/noarena
    scripts noarena 600 "${tests[@]}"
    BUILD=$PWD/build/release
fi
sanitizers=()
for sanitizer in asan tsan; do
    ! wanted $sanitizer || sanitizers+=("$sanitizer")
done
[ ${#sanitizers[@]} -eq 0 ] || stage "${sanitizers[*]}" # beside each other: tsan's wait
for sanitizer in "${sanitizers[@]}"; do
    run_unit_tests "$sanitizer" build/$sanitizer &
done
wait
for sanitizer in "${sanitizers[@]}"; do
    told_unit_tests "$sanitizer"
done
if wanted gpu; then
    stage gpu
    gpu_tests
fi
step "nothing is left behind" nothing_left
finish
