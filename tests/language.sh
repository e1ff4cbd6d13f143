#!/bin/sh
# Random language models that transformers writes, with --towers towers of pictures and texts, with --vlm vision-language models, with
# --qwen those of Qwen, and what it computes with them, beside the library in float and double.
#   [PYTHON=...] sh tests/language.sh build/language build/language_f64
#   [PYTHON=...] sh tests/language.sh --towers build/towers build/towers_f64      --openclip: open_clip's
#   [PYTHON=...] sh tests/language.sh --vlm build/vlm build/vlm_f64
#   [PYTHON=...] sh tests/language.sh --qwen build/qwen build/qwen_f64
set -u
what=language
case $1 in --towers | --openclip | --vlm | --qwen) what=${1#--}; shift ;; esac
t=build/$what-cases
rm -rf $t
"${PYTHON:-python3}" tests/${what}_cases.py $t >$t.txt 2>&1; status=$?
[ $status -eq 0 ] || { cat $t.txt; exit 1; }
[ -d $t ] || { cat $t.txt; exit 0; }             # it has said what is missing
grep -v -E '^[0-9]+ passed|^Duplicated' $t.txt
passed=0 failed=0 skipped=0
for program in "$@"; do
    "$program" $t >$t.txt 2>&1; status=$?
    grep -v -E '^[0-9]+ passed' $t.txt
    set -- $(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' $t.txt | tail -n 1 | tr -dc '0-9 ')
    if [ $# -ne 3 ] || [ $status -gt 1 ]; then failed=$((failed + 1)); echo "$program: no result (exit status $status)"; continue; fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done
rm -rf $t $t.txt                                 # 20 MB
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
