#!/bin/sh
# Builds and runs the tests, then prints their sum: N passed, N failed, N skipped.
#   tests/run.sh all     every build, every SIMD level, sanitizers, compilers: 20 to 30 minutes on two cores
#   tests/run.sh fast    the float build on the small cases
# From the repository's root. Logs lie in build/log. It says what it is at and how long that took, from the start.
set -u
begin=$(date +%s)
mode=${1:-all}
mkdir -p build/log
rm -f build/log/*
passed=0 failed=0 skipped=0 jobs=$(nproc 2>/dev/null || echo 2)
reference=../shared/reference

# add NAME LOG STATUS: takes the counts from the log's last line; a program that did not print one has failed
add()
{
    line=$(tr -d '\r' <"$2" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' | tail -n 1)    # Windows ends lines so
    if [ -z "$line" ]; then
        echo "FAILED $1: no result (exit status $3)"; tail -n 5 "$2"
        failed=$((failed + 1)); return
    fi
    set -- "$1" "$2" "$3" $(echo "$line" | tr -dc '0-9 ')
    passed=$((passed + $4)) failed=$((failed + $5)) skipped=$((skipped + $6))
    if [ "$3" -ne 0 ] || [ "$5" -ne 0 ] || [ "$4" -eq 0 ]; then
        echo "FAILED $1 (exit status $3):"; grep -v '^ok' "$2" | tail -n 30
        [ "$5" -eq 0 ] && failed=$((failed + 1))         # a status without a failure, or nothing run at all
    fi
}
# Programs run several at a time, those of a chain one after another: they write the same files.
chain() { chain=build/log/chain.$1; : >"$chain"; echo "$chain" >>build/log/chains; }
run()                                            # run LABEL COMMAND...: at the end of this chain
{
    label=$1; shift
    log=build/log/$(printf %s "$label" | tr -c 'A-Za-z0-9' _).txt
    echo "$label|$log" >>build/log/order
    echo "from=\$(date +%s); $* >$log 2>&1; echo \$? >$log.status
printf '%-44s %4d s  %s\\n' \"$label\" \$((\$(date +%s) - from)) \"\$(tail -n 1 $log)\"" >>"$chain"
}
go()                                             # runs the chains, then adds up
{
    echo "running $(wc -l <build/log/order) programs and scripts, $jobs at a time; a line comes when one is through:"
    xargs -P "$jobs" -n 1 sh <build/log/chains
    while IFS='|' read -r label log; do add "$label" "$log" "$(cat "$log.status" 2>/dev/null || echo 1)"; done <build/log/order
}
build()                                          # build TARGET...: all that can be built, several at a time
{
    from=$(date +%s)
    echo "building $# programs into build/, $jobs at a time (what make says goes to build/log/make.txt)"
    ( while sleep 30 >/dev/null 2>&1; do echo "  ... still building, $(($(date +%s) - from)) s: $(grep -c '^[^ ]*cc\|^[^ ]*++' build/log/make.txt) compiler calls begun"; done ) &
    ticker=$!
    make -k -j"$jobs" "$@" >build/log/make.txt 2>&1 || { echo "FAILED to build:"; grep -E 'error|warning|Error' build/log/make.txt | head -n 20; }
    kill $ticker 2>/dev/null; wait $ticker 2>/dev/null
    echo "built in $(($(date +%s) - from)) s"
    if grep -q 'warning:' build/log/make.txt; then
        echo "FAILED: warnings in the build"; grep 'warning:' build/log/make.txt | head; failed=$((failed + 1))
    fi
}

if [ "$mode" = fast ]; then
    units="context arguments tape mixing training vision threads allocations"
    list="build/golden"
    for n in $units; do list="$list build/$n"; done
    build $list
    chain units
    for n in $units; do run $n build/$n; done
    chain golden
    run "golden (small cases)" build/golden tests/golden
    go
else
    set -- tests/golden
    if [ -d $reference ]; then set -- tests/golden $reference; else echo "no $reference here: the small cases in tests/golden only"; fi
    # the toolkit's compiler is slow: for one kind of GPU, beside everything else, and waited for at the end
    nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)
    if [ -n "$nvcc" ]; then
        make cuda-report NVCC="$nvcc" REPORT=90 >build/log/cuda_report.txt 2>&1 &
        report=$!
    fi
    # in float, double and regression; in float and double alone
    programs="properties mixing heads blocks files gguf distillation decoder backbones vision threads training tape context arguments allocations edges
        mmate qlora decoder_files language towers vlm qwen llama2c text tokenizer decoder_arguments internals video device tiny narrow"
    plain="kernels images metrics"
    list="build/grad_f64 build/threads_tsan build/fuzz build/fuzz_reg build/pytorch build/transformers build/dino build/mixers build/features build/linmu build/linear
        build/tables build/ranks build/decode build/typeseg build/typeseg_reg build/smol build/vqa build/bench build/play_native
        build/cuda build/cuda_san build/cuda_layouts build/golden_cuda"
    for n in $programs golden; do list="$list build/${n}_reg build/$n build/${n}_f64"; done
    for n in $plain; do list="$list build/$n build/${n}_f64"; done
    amx=''                                       # its tiles are in plain C there, what is around them is AVX-512
    if grep -q avx512_bf16 /proc/cpuinfo && grep -q avx512_vnni /proc/cpuinfo; then amx=1 list="$list build/narrow_amx"; fi
    mpi=''
    if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then mpi=1 list="$list build/dino_mpi"; fi
    if command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then arm=1; list="$list build/kernels_neon build/narrow_neon build/golden_neon"
    else arm=; fi
    # what the machine has is asked once: it may change while the tests run
    windows="context tape training" mingw='' wine=''
    if command -v "${MINGW:=x86_64-w64-mingw32-gcc}" >/dev/null; then
        mingw=1 wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null)
        for n in $windows; do list="$list build/${n}_win.exe"; done
    fi
    small="arguments context tape vision images llama2c decoder_arguments"
    narrow=''
    if command -v "${I686:=i686-linux-gnu-gcc}" >/dev/null; then
        narrow=1
        list="$list build/mixing_x87"
        for n in $small; do list="$list build/${n}_i686"; done
    fi
    build $list
    # the long ones first
    chain golden_reg
    run "golden tiny tiles, sanitizers" build/golden_reg "$@"
    chain programs
    run "the small programs" sh tests/demos.sh
    chain compilers
    run "compilers, symbols" sh tests/check.sh compilers
    chain documents
    run "documents" sh tests/check.sh documents
    run "fragments of the documents" sh tests/fragments.sh
    run "words of the course" sh tests/words.sh
    chain linmu
    run "attention out, M-MATE in" sh tests/linmu.sh build/linmu
    chain gradients
    run "gradients double" build/grad_f64
    chain fuzz
    run "hostile files" build/fuzz --runs 5000
    run "hostile files, sanitizers" build/fuzz_reg
    for n in $programs; do
        # what is drawn at random is the same in each: with sanitizers the first draws, in double the last
        few='' last=''
        if [ $n = properties ]; then few="1 0 400" last="1 1800 700"; fi
        chain $n
        run "$n tiny tiles, sanitizers" build/${n}_reg $few
        run $n build/$n
        run "$n double" build/${n}_f64 $last
    done
    chain amx
    if [ "$amx" ]; then run "narrow weights, AMX in plain C" build/narrow_amx tiles products linear attention multiply blocks
    else echo "skipped: AMX (no AVX512-BF16, no VNNI)"; skipped=$((skipped + 1)); fi
    for n in $plain; do
        chain $n
        run $n build/$n
        run "$n double" build/${n}_f64
    done
    chain golden
    run "golden float" build/golden "$@"
    levels="none avx2"
    if grep -q amx_int8 /proc/cpuinfo; then levels="$levels avx512"; fi
    for level in $levels; do
        run "golden float MMIX_SIMD=$level" env MMIX_SIMD=$level build/golden "$@"
    done
    chain golden_f64
    run "golden double" build/golden_f64 "$@"
    chain neon
    if [ -n "$arm" ]; then
        run "kernels NEON, emulated" qemu-aarch64 build/kernels_neon neon
        run "narrow weights NEON, emulated" qemu-aarch64 build/narrow_neon
        run "golden NEON, emulated" qemu-aarch64 build/golden_neon tests/golden
    else echo "skipped: NEON (no aarch64-linux-gnu-gcc, no qemu-aarch64)"; skipped=$((skipped + 1)); fi
    chain cuda
    run "CUDA kernels on the host" build/cuda 12
    run "CUDA kernels on the host, sanitizers" build/cuda_san 2
    run "CUDA kernels on the host, layouts as CUTLASS states them" build/cuda_layouts 2
    run "golden, mixers by CUDA kernels on the host" build/golden_cuda tests/golden
    chain gpu
    run "one command for a GPU, with stubs" sh tests/gpu_stubs.sh
    chain tsan
    run "threads, thread sanitizer" build/threads_tsan
    chain bits
    if [ -n "$narrow" ]; then
        for n in $small; do run "$n, 32 bits" build/${n}_i686; done
        run "mixing, 32 bits without SSE" build/mixing_x87 attention
    else echo "skipped: 32 bits (no $I686)"; skipped=$((skipped + 1)); fi
    chain windows
    if [ -z "$mingw" ]; then echo "skipped: Windows (no $MINGW)"; skipped=$((skipped + 1))
    elif [ -z "$wine" ]; then echo "skipped: running on Windows (no wine); it compiles"; skipped=$((skipped + 1))
    else for n in $windows; do run "$n on Windows" env WINEPREFIX="$PWD/build/wine" WINEDEBUG=-all "$wine" build/${n}_win.exe; done; fi
    chain tiny_programs
    run "the programs of docs/tiny" sh tests/tiny.sh
    chain demos
    run "demo arguments" sh tests/dino.sh build/dino
    run "a plan of tables" sh tests/tables.sh build/tables
    run "report of the mixers" sh tests/mixers.sh build/mixers build/dino
    run "report of the features" sh tests/features.sh build/features build/dino
    run "attention out of a backbone" sh tests/linear.sh build/linear build/dino
    run "a decoder in fewer bits" sh tests/decode.sh build/decode
    run "ranks and sizes of pictures" sh tests/ranks.sh build/ranks
    run "attention out of a language model" sh tests/smol.sh build/smol
    run "a language model that sees" sh tests/vqa.sh build/vqa
    if [ -n "$mpi" ]; then run "one run on several processes" sh tests/mpi.sh build/dino_mpi
    else echo "skipped: one run on several processes (no mpirun)"; skipped=$((skipped + 1)); fi
    chain page
    run "the page that plays" sh tests/play.sh
    chain pytorch
    if "${PYTHON:-python3}" -c 'import torch' 2>/dev/null; then
        run "PyTorch's files, features, logits" "${PYTHON:-python3}" tests/pytorch.py build/pytorch
        run "the benchmark's cases in PyTorch" "${PYTHON:-python3}" tests/compare.py --check --threads 1 build/bench
    else echo "skipped: PyTorch's files, features, logits, the benchmark's cases in PyTorch (${PYTHON:-python3} has no torch; PYTHON=... names another)"; skipped=$((skipped + 2)); fi
    chain gguf_py
    if "${PYTHON:-python3}" -c 'import numpy, gguf' 2>/dev/null; then
        run "GGUF beside the package gguf" "${PYTHON:-python3}" tests/gguf_package.py build/gguf
    else echo "skipped: GGUF beside the package gguf (${PYTHON:-python3} has no gguf; PYTHON=... names another)"; skipped=$((skipped + 1)); fi
    chain tokenizers
    if "${PYTHON:-python3}" -c 'import tokenizers, sentencepiece, jinja2' 2>/dev/null; then
        run "tokenizers and chat templates beside packages" "${PYTHON:-python3}" tests/tokenizer.py build/tokenizer
    else echo "skipped: tokenizers and chat templates beside packages (${PYTHON:-python3} has no tokenizers, sentencepiece, jinja2; PYTHON=... names another)"; skipped=$((skipped + 1)); fi
    chain typeseg
    if command -v "${PYTHON:-python3}" >/dev/null; then          # what it has to skip it counts itself
        run "a Mamba-1 that others trained" "${PYTHON:-python3}" tests/typeseg.py build/typeseg
        run "a Mamba-1 that others trained, sanitizers" "${PYTHON:-python3}" tests/typeseg.py build/typeseg_reg --short
    else echo "skipped: a Mamba-1 that others trained (no ${PYTHON:-python3})"; skipped=$((skipped + 2)); fi
    chain python
    run "the header from Python" sh tests/python.sh
    chain transformers
    if "${PYTHON:-python3}" -c 'import torch, safetensors; from transformers import Dinov2Model' 2>/dev/null; then
        run "networks of transformers" sh tests/transformers.sh build/transformers
        run "language models of transformers" sh tests/language.sh build/language build/language_f64
        run "towers of transformers" sh tests/language.sh --towers build/towers build/towers_f64
        run "towers of OpenCLIP" sh tests/language.sh --openclip build/towers build/towers_f64
        run "vision-language models of transformers" sh tests/language.sh --vlm build/vlm build/vlm_f64
        run "Qwen2-VL of transformers" sh tests/language.sh --qwen build/qwen build/qwen_f64
    else echo "skipped: networks, language models, towers, towers of OpenCLIP, vision-language models and Qwen2-VL of transformers (${PYTHON:-python3} has no transformers with Dinov2Model)"; skipped=$((skipped + 6)); fi
    go
    if [ -n "$nvcc" ]; then
        wait $report
        add "nvcc: warnings, registers, spills" build/log/cuda_report.txt $?
        echo "nvcc: warnings, registers, spills: $line"
        if grep -q 'warning' build/cuda_90.txt; then
            echo "FAILED: nvcc warns"; grep 'warning' build/cuda_90.txt | head; failed=$((failed + 1))
        fi
    else echo "skipped: nvcc (none on the PATH, in CUDA_HOME or in /usr/local/cuda): mamba_mix_cuda.cu was compiled for the host only"; skipped=$((skipped + 1)); fi
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then echo "there is a GPU here: make test-cuda runs the kernels on it"
    else echo "skipped: kernels on a GPU (there is none here; make test-cuda)"; skipped=$((skipped + 1)); fi
fi
echo "this took $((($(date +%s) - begin) / 60)) minutes and $((($(date +%s) - begin) % 60)) seconds"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
