#!/bin/sh
# All that wants a GPU, in one command that fits into ten minutes of one.
#
#   sh tests/gpu.sh build    on any machine with nvcc: the programs for one kind of GPU into build/gpu, no GPU needed
#   sh tests/gpu.sh          on the machine with the GPU: tests, times, profiles, a summary
#
# build reads GPU_ARCH (sm_90), BENCH (a script that times PyTorch and mamba_ssm at the same shapes; if there is none,
# nobody is compared with) and MAMBA (a clone of state-spaces/mamba, of which the few files of its Triton kernels are
# taken). The folder build/gpu is all that has to travel with the repository.
#
# The run reads LIMIT (540 seconds from its start) and OUT (build/gpu/out, where its files go). Steps come in this order:
# are the kernels right (one case of each kind, random cases, golden cases, with memcheck and racecheck beside them); then,
# alone on the card, how fast are they (these kernels, PyTorch, mamba_ssm, in one run); then profiles of four of them,
# and synccheck. Every step has a limit of its own and adds to a file as it goes; one that fails or is stopped does not
# stop those behind it. The summary is $OUT/summary.txt. The exit status is 0 if nothing failed or was stopped.
cd "$(dirname "$0")/.." || exit 1
programs=build/gpu

# ---- build ----

# compile: the test, golden and benchmark programs. Two compilations by nvcc, a minute of one core and some GB each.
compile()
{
    arch=${GPU_ARCH:-sm_90}
    nvcc="${NVCC:-nvcc} -O3 -std=c++17 -arch=$arch -lineinfo"
    link="${NVCC:-nvcc} -arch=$arch -Xcompiler -static-libstdc++,-static-libgcc"
    cc=${CC:-cc}
    bench=demos/studies/bench_cuda.c
    $cc -std=c99 -O2 -DMAMBA_MIX_IMPLEMENTATION -x c -c -o $programs/mix.o mamba_mix.h || return 1
    $cc -std=c99 -O2 -DMMIX_LINKED -DMMIX_GOLDEN_CUDA -c -o $programs/golden.o tests/golden.c || return 1
    { $nvcc -x cu -c -o $programs/test.o tests/cuda.cpp &&
        $link -o $programs/cuda_gpu $programs/test.o $programs/mix.o -lm -lpthread; } &
    test=$!
    [ "$(nproc)" -gt 3 ] || wait $test
    $nvcc -c -o $programs/kernels.o mamba_mix_cuda.cu &&
        $link -o $programs/golden_gpu $programs/golden.o $programs/kernels.o $programs/mix.o -lm -lpthread &&
        $link -O2 -o $programs/bench_cuda "$bench" $programs/kernels.o $programs/mix.o -lm -lpthread
    wait $test
    rm -f $programs/*.o
    [ -x $programs/cuda_gpu ] && [ -x $programs/golden_gpu ] && [ -x $programs/bench_cuda ]
}
build()
{
    mkdir -p $programs
    rm -f $programs/cuda_gpu $programs/golden_gpu $programs/bench_cuda
    compile || return 1
    git log -1 --format=%h >$programs/commit.txt 2>/dev/null || echo "no commit" >$programs/commit.txt
    BENCH=${BENCH:-../shared/bench/gpu_bench.py}
    if [ -e "$BENCH" ]; then cp "$BENCH" $programs/gpu_bench.py
    else echo "there is no $BENCH: PyTorch and mamba_ssm will not be timed"; fi
    rm -rf $programs/mamba
    if [ -d "$MAMBA" ]; then
        mkdir -p $programs/mamba
        here=$PWD
        ( cd "$MAMBA" && cp --parents mamba_ssm/ops/__init__.py mamba_ssm/ops/triton/*.py mamba_ssm/utils/__init__.py \
            mamba_ssm/utils/torch.py mamba_ssm/utils/determinism.py "$here/$programs/mamba" ) || return 1
    else echo "MAMBA names no folder: mamba_ssm will not be timed"; fi
    for p in cuda_gpu golden_gpu bench_cuda; do echo "$programs/$p: $($programs/$p 2>&1 | tail -n 1)"; done
    du -sh $programs
}
if [ "$1" = build ]; then
    build
    exit $?
elif [ -n "$1" ]; then
    echo "tests/gpu.sh [build]"
    exit 2
fi

# ---- run ----

begun=$(date +%s)
LIMIT=${LIMIT:-540}
OUT=${OUT:-$programs/out}
mkdir -p "$OUT"
summary=$OUT/summary.txt
: >"$summary"
export PYTHONUNBUFFERED=1 TRITON_CACHE_DIR="${TMPDIR:-/tmp}/triton" PATH="$PATH:/usr/local/cuda/bin"

# say TEXT: a line of the summary
say() { printf '%4d s  %s\n' $(($(date +%s) - begun)) "$*" | tee -a "$summary"; }
# left: seconds until LIMIT
left() { echo $((LIMIT - $(date +%s) + begun)); }
# step FILE NAME SECONDS COMMAND…: runs it for so long at most, its output added to FILE, one line to the summary
step()
{
    file=$OUT/$1; name=$2; most=$3
    shift 3
    if [ "$(left)" -lt "$most" ]; then most=$(left); fi
    if [ "$most" -lt 3 ]; then
        say "$name: STOPPED before it began, no time left"
        return 1
    fi
    echo "==== $name: $*" >>"$file"
    timeout -k 3 "$most" "$@" >>"$file" 2>&1
    status=$?
    case $status in
    0) how=ok ;;
    124 | 137) how="STOPPED after $most s" ;;
    *) how="FAILED ($status)" ;;
    esac
    say "$name: $how: $(tail -n 1 "$file" | cut -c 1-150)"
    return $status
}
have() { command -v "$1" >/dev/null; }
# sanitize TOOL FILE SECONDS: the test program under one of NVIDIA's checkers. Its tests ask for a device that is not
# there, an error of the runtime that is wanted.
sanitize()
{
    step "$2" "$1" "$3" compute-sanitizer --tool "$1" --report-api-errors no --print-limit 20 --error-exitcode 9 $programs/cuda_gpu 1
}

say "$(cat $programs/commit.txt 2>/dev/null || echo 'no build'); $(nproc) cores; $(nvcc --version 2>/dev/null | tail -n 1)"
if ! have nvidia-smi || ! nvidia-smi -L >/dev/null 2>&1; then
    say "there is no GPU here: FAILED"
    exit 1
fi
say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu --format=csv,noheader)"
rm -f "$OUT"/peer.txt "$OUT"/tests.txt "$OUT"/memcheck.txt "$OUT"/racecheck.txt "$OUT"/synccheck.txt "$OUT"/bench.txt "$OUT"/ncu.txt

# Triton compiles and tunes some 200 kernels on first use: on the other cores, while the tests run.
peer=
beside=
if [ -e $programs/gpu_bench.py ] && [ -d $programs/mamba ]; then
    peer=1
    for shape in ssd_vision_64x198_h16 ssd_vision_256x48_h24 ssd_1x2048_h80 ssd_8x2048_h80 ssd_8x2048_h24 ssd_1x65536_h8 ssd_4x32768_h80; do
        timeout -k 3 200 python3 $programs/gpu_bench.py --only "^$shape" --reps 1 --mamba-ssm $programs/mamba >>"$OUT/peer.txt" 2>&1 &
        beside="$beside $!"
    done
fi
if ! [ -x $programs/bench_cuda ] || ! [ -x $programs/golden_gpu ] || ! $programs/cuda_gpu shared >/dev/null 2>&1; then
    say "$programs was not built, or does not run here: compiling"
    mkdir -p $programs
    compile >>"$OUT/tests.txt" 2>&1 || say "FAILED to compile: $(grep -m 1 error "$OUT/tests.txt")"
    say "compiled"
fi

# ---- are the kernels right? ----
step tests.txt "one case of each kind, bf16" 60 $programs/bench_cuda --check
step tests.txt "one case of each kind, float" 60 $programs/bench_cuda --check --dtype fp32
if have compute-sanitizer; then
    sanitize memcheck memcheck.txt 200 &
    beside="$beside $!"
    sanitize racecheck racecheck.txt 200 &
    beside="$beside $!"
else say "there is no compute-sanitizer: no memcheck, racecheck, synccheck"; fi
step tests.txt "random cases" 120 $programs/cuda_gpu 30
step tests.txt "golden cases" 90 $programs/golden_gpu tests/golden
grep -h '^FAILED' "$OUT/tests.txt" | sort | uniq -c | sort -rn | head -n 20 | cut -c 1-300 | tee -a "$summary"
for process in $beside; do wait "$process"; done
say "the tests are done, the GPU is free"

# ---- how fast are they? Alone on the card ----
step bench.txt "times, bf16" 60 $programs/bench_cuda
if [ -e $programs/gpu_bench.py ]; then step bench.txt "PyTorch's attention, bf16" 60 python3 $programs/gpu_bench.py --only '^attn'; fi
if [ "$peer" ]; then step bench.txt "mamba_ssm, bf16" 150 python3 $programs/gpu_bench.py --only '^ssd' --mamba-ssm $programs/mamba; fi
if have ncu; then
    for case in ssd_8x2048_h80_fwd ssd_8x2048_h80_fwdbwd attn_4x4096_h16_causal_fwd attn_4x4096_h16_causal_fwdbwd; do
        step ncu.txt "profile of $case" 40 ncu --clock-control none --section SpeedOfLight --section Occupancy --section LaunchStats \
            --section WarpStateStats --section MemoryWorkloadAnalysis --launch-count 4 $programs/bench_cuda --only $case --reps 1
    done
fi
step bench.txt "times, tf32" 40 $programs/bench_cuda --dtype tf32
step bench.txt "times, float" 60 $programs/bench_cuda --dtype fp32
if [ -e $programs/gpu_bench.py ]; then step bench.txt "PyTorch's attention, float" 40 python3 $programs/gpu_bench.py --only '^attn' --dtype fp32; fi
if have compute-sanitizer; then sanitize synccheck synccheck.txt 60; fi
say "$(nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader)"

# ---- the table, in the words of docs/performance.md ----
if [ -s "$OUT/bench.txt" ]; then
    timeout -k 3 20 python3 - "$OUT/bench.txt" <<'END' 2>&1 | tee -a "$summary"
import json, sys

cases, errors = {}, []
for line in open(sys.argv[1]):
    if not line.startswith("{"):
        continue
    row = json.loads(line)
    if "ms" in row:
        cases.setdefault((row["case"], row["dtype"]), {})[row["impl"]] = row
    elif "error" in row:
        errors.append(row)
    else:
        print(row)                                       # the copy
print("| case | numbers | here, ms | as a graph, ms | TFLOPS | GB/s | others, ms (times as long as here) |")
print("|---|---|---|---|---|---|---|")
for (case, dtype), rows in cases.items():
    own, graph = rows.pop("mamba_mix", None), rows.pop("mamba_mix_graph", None)
    best = graph or own
    others = []
    for name, row in rows.items():
        same = graph if name.endswith("_graph") else own
        others.append("%s %.4f" % (name, row["ms"]) + (" (%.2f)" % (row["ms"] / same["ms"]) if same else ""))
    print("| %s | %s | %s | %s | %s | %s | %s |" % (
        case, dtype, "%.4f" % own["ms"] if own else "-", "%.4f" % graph["ms"] if graph else "-",
        "%.0f" % (best["gflop"] / best["ms"]) if best else "-",
        "%.0f" % (best["gb"] / best["ms"] * 1e3) if best else "-", ", ".join(others)))
for row in errors:
    print("no time: %s %s %s: %s" % (row["case"], row["impl"], row.get("dtype", ""), row["error"]))
END
fi
say "the end"
! grep -q -e FAILED -e STOPPED "$summary"
