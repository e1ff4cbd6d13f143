#!/bin/sh
# tests/gpu.sh without a GPU: its programs and the card's tools are stubs that succeed, fail, hang or talk, in a folder of
# their own. What must hold: the order of the steps, a word on each, files that grow as it goes, the table, the time limit, the
# exit status. Prints N passed, N failed, N skipped.
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED  $*"; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/tests/golden" "$folder/build/gpu/mamba" "$folder/bin"
cp tests/gpu.sh "$folder/tests/"
# stub PATH LINE…: a program of these lines
stub()
{
    path=$folder/$1
    shift
    { echo "#!/bin/sh"; for line in "$@"; do echo "$line"; done; } >"$path"
    chmod +x "$path"
}
row() { echo "{\"case\": \"$1\", \"impl\": \"$2\", \"dtype\": \"bf16\", \"ms\": $3, \"ms_min\": 1, \"gb\": 1, \"gflop\": 2}"; }
setup()
{
    stub bin/nvidia-smi 'echo "a card, 580.1"'
    stub bin/nvcc 'echo "a compiler"'
    stub bin/compute-sanitizer 'echo "checked with $*"'
    stub bin/ncu 'echo "profiled $*"'
    stub build/gpu/cuda_gpu 'echo "7 passed, 0 failed, 0 skipped"'
    stub build/gpu/golden_gpu 'echo "9 passed, 0 failed, 0 skipped"'
    stub build/gpu/bench_cuda "echo '$(row some_case_fwd mamba_mix 2.0)'" "echo '$(row some_case_fwd mamba_mix_graph 1.5)'"
    echo "print('$(row some_case_fwd sdpa 4.0)'); print('$(row some_case_fwd sdpa_graph 3.0)')" >"$folder/build/gpu/gpu_bench.py"
}
# try LIMIT: runs it; its status, output and seconds
try()
{
    from=$(date +%s)
    output=$(cd "$folder" && PATH="$folder/bin:$PATH" LIMIT=$1 OUT="$folder/out" sh tests/gpu.sh 2>&1)
    status=$?
    seconds=$(($(date +%s) - from))
}
# says WHAT TEXT: the summary has this text
says() { if grep -q -e "$2" "$folder/out/summary.txt"; then ok; else no "$1: the summary lacks '$2'"; fi; }

setup
try 60
if [ $status = 0 ]; then ok; else no "all is well: status $status"; echo "$output" | tail -n 5; fi
for text in "a card" "one case of each kind, bf16: ok" "random cases: ok: 7 passed" "golden cases: ok: 9 passed" "memcheck: ok" \
    "racecheck: ok" "synccheck: ok" "times, bf16: ok" "mamba_ssm, bf16: ok" "profile of ssd_8x2048_h80_fwd: ok" "the end"; do
    says "all is well" "$text"
done
says "the table" "| some_case_fwd | bf16 | 2.0000 | 1.5000 | 1 | 667 | sdpa 4.0000 (2.00), sdpa_graph 3.0000 (2.00) |"
for f in tests bench memcheck racecheck synccheck ncu; do if [ -s "$folder/out/$f.txt" ]; then ok; else no "no $f.txt"; fi; done
if grep -q "report-api-errors no" "$folder/out/memcheck.txt"; then ok; else no "memcheck counts errors of calls"; fi

# a test that fails is named, with its message, and nothing behind it is lost
stub build/gpu/golden_gpu 'echo "FAILED  a_case: off by 3"' 'echo "8 passed, 1 failed, 0 skipped"' 'exit 1'
try 60
if [ $status != 0 ]; then ok; else no "a failed test: status 0"; fi
says "a failed test" "golden cases: FAILED (1)"
says "a failed test" "FAILED  a_case: off by 3"
says "a failed test" "times, bf16: ok"

# a program that hangs is stopped within the limit, and what others wrote is there
setup
stub build/gpu/cuda_gpu '[ "$1" = shared ] || sleep 100'
try 9
if [ $status != 0 ] && [ $seconds -le 16 ]; then ok; else no "a hang: status $status after $seconds s, limit 9"; fi
says "a hang" "random cases: STOPPED after"
says "a hang" "golden cases: STOPPED before it began"
says "a hang" "the end"

# no tools beside the programs
setup
rm "$folder/bin/compute-sanitizer" "$folder/bin/ncu" "$folder/build/gpu/gpu_bench.py"
if PATH="$folder/bin:$PATH" command -v compute-sanitizer >/dev/null || PATH="$folder/bin:$PATH" command -v ncu >/dev/null; then ok
else
    try 60
    if [ $status = 0 ]; then ok; else no "no tools: status $status"; fi
    says "no tools" "there is no compute-sanitizer"
fi
# no GPU
stub bin/nvidia-smi 'exit 9'
try 60
if [ $status = 1 ]; then ok; else no "no GPU: status $status"; fi
says "no GPU" "there is no GPU here"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
