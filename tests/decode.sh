#!/bin/sh
# The program that runs a decoder in several types: bad arguments get one line and status 2; good runs write, or print a table.
#   sh tests/decode.sh build/decode
set -u
decode=$1 t=build/decode-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
skip() { skipped=$((skipped + $2)); echo "skipped: $1"; }
holds() { if grep -q -e "$3" "$2"; then ok; else no "$1: no \"$3\" in $2"; fi; }            # holds LABEL FILE PATTERN
run() { label=$1; shift; if "$decode" "$@" >$t/out 2>$t/err; then ok; else no "$label"; head -n 3 $t/err; fi; }
refused()                                        # refused LABEL ARGUMENTS...: status 2 and one line that names the program
{
    label=$1; shift
    "$decode" "$@" >$t/out 2>$t/err </dev/null; status=$?
    if [ $status -eq 2 ] && [ "$(wc -l <$t/err)" -eq 1 ] && grep -q '^decode: ' $t/err && [ ! -s $t/out ]; then ok
    else no "$label: status $status"; head -n 3 $t/err; fi
}

refused "nothing"
refused "an unknown option" --frobnicate
refused "no file" --load $t/none
refused "a type that is none" --load $t/none --type fp8
refused "a text without a tokenizer" --load $t/none --prompt text
refused "a prompt before a text" --load $t/none --perplexity $t/none --tokenizer $t/none --prompt text
grep -q 'leave --prompt and --tokens out' $t/err && ok || no "it is not said"
refused "tokens before a text" --load $t/none --perplexity $t/none --tokens 1,2
grep -q 'leave --prompt and --tokens out' $t/err && ok || no "it is not said"
refused "no tokens" --load $t/none --count 0
refused "top_p of 2" --load $t/none --top-p 2

# a Llama of one layer in GGUF
if ! command -v python3 >/dev/null; then
    skip "a decoder in GGUF (no python3)" 16
else
    python3 tests/tiny_gguf.py $t/tiny.gguf && ok || no "writing a GGUF"
    run "all types write" --load $t/tiny.gguf --type float,bf16,f16,int8,q4 --tokens 1,2,3 --count 600 --temperature 1
    [ "$(wc -l <$t/out)" -eq 5 ] && [ "$(head -n 1 $t/out | wc -w)" -eq 603 ] && ok || no "five lines of 603 tokens"
    for type in float bf16 f16 int8 q4; do
        holds "its line" $t/err "^$type: read 3 tokens, [0-9.]* a second; wrote 600, [0-9.]* a second; [0-9.]* MiB held"
    done
    head -n 1 $t/out >$t/ids
    run "greedily" --load $t/tiny.gguf --tokens 1,2,3 --count 9
    refused "a token beyond" --load $t/tiny.gguf --tokens 40
    refused "a word as a token" --load $t/tiny.gguf --tokens one
    run "perplexity" --load $t/tiny.gguf --type float,bf16,f16,int8,q4 --perplexity $t/ids
    holds "how many tokens" $t/out '^603 tokens, 601 of them judged$'
    awk '$1 == "float" { first = $2; ok = $3 == 0 && $5 == 1 } $1 == "bf16" { ok = ok && $2 / first < 1.02 && $5 > 0.95 }
         $1 == "f16" { ok = ok && $2 / first < 1.005 && $5 > 0.98 }
         $1 == "q4" { ok = ok && $2 / first < 1.2 && $2 / first > 0.8 } END { exit !ok }' $t/out && ok || no "the table"
    echo 1 >$t/one
    refused "a text of one token" --load $t/tiny.gguf --perplexity $t/one
fi
stories=../shared/data/stories260k
if [ -d $stories ]; then
    run "a story" --load $stories/stories260K.bin --tokenizer $stories/tok512.bin --prompt "Once upon a time" --type int8 --count 20
    holds "its text" $t/out '^ Once upon a time, there was a little girl'
    holds "its tokens" $t/err '^int8: read 5 tokens'
else skip "$stories is not there" 3; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
