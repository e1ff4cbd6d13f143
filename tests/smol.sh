#!/bin/sh
# The program that takes attention out of a language model, on one of four layers with random weights: bad arguments get one
# line and status 2; a text or a run that was stopped goes on to the same end; a student that should be its teacher is.
#   sh tests/smol.sh build/smol
set -u
smol=$1 t=build/smol-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
run() { label=$1; shift; if "$smol" "$@" >$t/out 2>$t/err; then ok; else no "$label"; head -n 3 $t/err; fi; }
refused()                                        # refused LABEL ARGUMENTS...: status 2 and one line that names the program
{
    label=$1; shift
    "$smol" "$@" >$t/out 2>$t/err </dev/null; status=$?
    if [ $status -eq 2 ] && [ "$(wc -l <$t/err)" -eq 1 ] && grep -q '^smol: ' $t/err && [ ! -s $t/out ]; then ok
    else no "$label: status $status"; head -n 3 $t/err; fi
}
# holds LABEL PROGRAM: whether a line of Python about x, the JSON in $t/out, is true
holds() { if python3 -c "import json; x = json.load(open('$t/out')); raise SystemExit(not ($2))"; then ok; else no "$1"; head -n 5 $t/out; fi; }
tokens() { tail -c 3072 "$1"; }                  # of a text of 16 rows of 24 tokens: both arrays

run "help" --help
refused "nothing"
refused "an unknown command" read
refused "an unknown option" write --frobnicate 3
refused "an option without its value" write --rows
refused "no teacher" write
refused "a teacher that is not there" write --teacher $t/none.gguf
refused "more held than written" write --teacher $t/none.gguf --rows 4 --held 4
refused "a type that is none" speed --teacher $t/none.gguf --type fp8
refused "lengths that are none" speed --teacher $t/none.gguf --lengths 8,x
refused "no runs" figure
refused "a run that is not there" figure --runs $t/none --out $t
refused "no student" answer --teacher $t/none.gguf

if ! command -v python3 >/dev/null; then
    echo "skipped: a small decoder (no python3)"; skipped=30
else
    python3 tests/tiny_gguf.py $t/tiny.gguf 4 0.4 && ok || no "writing a GGUF"
    teacher="--teacher $t/tiny.gguf --threads 1"
    text="$teacher --text $t/text.safetensors"
    plain="--plain --context 24 --held 4"
    run "a text" write $text $plain --rows 16 --batch 16 --json
    holds "what was written" "x['rows'] == 16 and x['tokens'] == 384 and x['drawn'] == 16 * 23"
    run "the same in two parts" write $teacher --text $t/parts.safetensors $plain --rows 5 --batch 3
    run "its second part" write $teacher --text $t/parts.safetensors $plain --rows 16 --batch 7
    tokens $t/text.safetensors >$t/a; tokens $t/parts.safetensors >$t/b
    cmp -s $t/a $t/b && ok || no "a text in two parts is another"
    refused "a text of another context" write $text --plain --context 25 --held 4 --rows 16
    refused "conversations without a tokenizer" write $teacher --text $t/c.safetensors --rows 8 --held 2

    # the window sees all of a row and Flex-MA is silent: attention in other clothes
    run "a student that is its teacher" train $text --run $t/same --tokens 0 --begin silent --window 24 --json
    holds "as the teacher" "abs(x['scores'][2]['perplexity'] / x['teacher'] - 1) < 1e-4 and x['scores'][2]['agree'] > 0.98"
    # what least squares learned from is said better, and the window is enough for it
    run "least squares" train $text --run $t/same --tokens 0 --window 24 --solve 12 --json
    holds "still as the teacher" "abs(x['scores'][3]['perplexity'] / x['teacher'] - 1) < 1e-2"
    [ ! -e $t/same.txt ] && ok || no "a run of no tokens left a file"

    # beside narrow matrices: least squares into them, adapters in every stage
    for type in bf16 f16 int8 q4; do
        narrow="train $text --type $type --tokens 20000 --batch 4 --window 4 --solve 12 --rate 0.5"
        run "of $type" $narrow --run $t/$type --json
        holds "of $type it learns" "len(x['scores']) == 7 and x['scores'][6]['perplexity'] < x['scores'][0]['perplexity']"
        [ -e $t/$type.student.safetensors ] && ok || no "no student of $type"
    done
    refused "a type that is none, to train" train $text --type int3 --run $t/int3

    # three stages, stopped and taken up again
    three="train $text --tokens 200000 --batch 4 --window 4 --solve 12 --apart"
    run "three stages" $three --run $t/three --json
    holds "they teach" "len(x['scores']) == 7 and x['scores'][6]['perplexity'] < x['scores'][0]['perplexity'] and x['teacher'] < 40"
    python3 -c "import json; print([s['perplexity'] for s in json.load(open('$t/out'))['scores']])" >$t/whole
    mkfifo $t/pipe
    for again in 1 2 3 4 5 6 7 8 9; do           # on a busy machine it may be through before it is stopped
        rm -f $t/halves*
        "$smol" $three --run $t/halves >$t/out 2>$t/pipe & running=$!
        while read -r line; do
            case $line in "stage 1: "*) kill -INT $running 2>/dev/null ;; esac
        done <$t/pipe
        wait $running; status=$?
        [ $status -eq 0 ] || break
    done
    [ $status -eq 130 ] && [ -e $t/halves.safetensors ] && ok || no "stopping: status $status"
    refused "with another rate" $three --run $t/halves --rate 2
    python3 tests/tiny_gguf.py $t/other.gguf 4 0.5   # of the same sizes
    refused "with another teacher" $three --teacher $t/other.gguf --run $t/halves
    grep -q 'another teacher, text or settings' $t/err && ok || no "it is not said"
    run "taken up again" $three --run $t/halves --json
    python3 -c "import json; print([s['perplexity'] for s in json.load(open('$t/out'))['scores']])" >$t/again
    cmp -s $t/whole $t/again && ok || no "a run in two parts is another: $(cat $t/whole $t/again)"
    [ -e $t/halves.student.safetensors ] && [ ! -e $t/halves.safetensors ] && ok || no "what a run leaves"
    run "its numbers again" $three --run $t/halves --json
    holds "all of them" "len(x['scores']) == 7"
    refused "its numbers, of another teacher" $three --teacher $t/other.gguf --run $t/halves
    grep -q 'another teacher, text or settings' $t/err && ok || no "it is not said"
    refused "narrow ones, of another teacher" train $text --type int8 --tokens 20000 --batch 4 --window 4 --solve 12 --rate 0.5 --run $t/int8 --teacher $t/other.gguf
    refused "its numbers, with another rate" $three --run $t/halves --rate 2

    run "one stage, every second layer kept" train $text --run $t/kept --tokens 2000 --stages 1 --keep 2 --begin calibrated --json
    holds "three scores" "[s['after'] for s in x['scores']] == ['converted', 'calibrated', 'stage 1']"
    run "speed" speed $teacher --lengths 8,64 --window 4 --type float --json
    holds "what is remembered" "[r['who'] for r in x] == ['teacher', 'student'] * 2 and x[2]['state_bytes'] > 3 * x[0]['state_bytes'] and x[3]['state_bytes'] == x[1]['state_bytes']"
    run "ranks" rank $text --layers 1 --widths 4,16,32 --steps 40 --json
    holds "what width buys" "[r['rank'] for r in x][1] <= 4 < x[2]['rank'] <= 12 and x[3]['error_solved'] < x[1]['error_solved'] + 0.2"
    holds "more width, the same scores" "abs(x[3]['error_solved'] - x[2]['error_solved']) < 1e-3"
    refused "a layer that is none" rank $text --layers 4
    refused "decays that are none" rank $text --layers 1 --decays fixed,slow
    run "decays" rank $text --layers 1 --widths 16 --decays none,fixed,learned --steps 40 --json
    holds "what decays do" "[r['decays'] for r in x] == ['-', 'none', 'fixed', 'learned'] and x[3]['error_fitted'] < x[2]['error_fitted'] < x[1]['error_fitted']"
    run "a figure" figure --runs $t/three,$t/kept --names "three stages,one" --out $t
    python3 -c "import xml.dom.minidom as d; d.parse('$t/smol.svg')" && grep -q 'three stages' $t/smol.svg && ok || no "smol.svg"
    # what cannot be written whole does not take the place of what is there
    mkdir -p $t/keep/smol.svg.tmp; echo old >$t/keep/smol.svg
    refused "a figure that cannot be written" figure --runs $t/three --out $t/keep
    [ "$(cat $t/keep/smol.svg)" = old ] && ok || no "a figure lost what was there"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
