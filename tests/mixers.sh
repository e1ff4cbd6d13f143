#!/bin/sh
# The demo's arguments: bad ones get one line and status 2 and leave no report behind; good runs write figures and a report
# with its sections, of random weights and of a loaded run.   sh tests/mixers.sh build/mixers [build/dino]
set -u
mixers=$1 dino=${2:-} t=build/mixers-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
. tests/report.sh
holds() { if grep -q -e "$3" "$2"; then ok; else no "$1: no \"$3\" in $2"; fi; }            # holds LABEL FILE PATTERN
refused()                                        # refused LABEL ARGUMENTS...: status 2, one line, the last, that names the program
{
    label=$1; shift
    "$mixers" "$@" >$t/out 2>$t/err </dev/null; status=$?
    lines=$(grep -c '^mixers: ' $t/err)
    if [ $status -eq 2 ] && [ "$lines" -eq 1 ] && tail -n 1 $t/err | grep -q '^mixers: ' && [ ! -s $t/out ]; then ok
    else no "$label: status $status, $lines lines"; head -n 3 $t/err; fi
}
printf 'this is no picture' >$t/none.ppm
printf 'P6\n1 1\n255\nabc' >$t/one.ppm
{ printf 'P6\n4000 1\n255\n'; head -c 12000 /dev/zero; } >$t/wide.ppm
refused "unknown option" --frobnicate --out $t/o
refused "option without a value" --report --out
refused "unknown model" --model rnn --out $t/o
refused "a layer that is not there" --layers 4 --out $t/o
refused "layers that are no numbers" --layers 1,a --out $t/o
refused "C of 0" --block 0 --out $t/o
refused "C beyond half of the tokens" --size 64 --block 9 --out $t/o
holds "the range of C" $t/err 'C from 1 to 8'
refused "a picture smaller than a patch" --size 8 --out $t/o
refused "too many tokens" --size 1024 --out $t/o
refused "a patch that is not there" --patch 144 --figures $t/o
refused "figures and report at once" --figures $t/o --model vit
refused "what belongs to figures without them" --patch 3
refused "no picture" --image $t/missing.ppm --out $t/o
holds "a missing picture is called so" $t/err 'missing.ppm: missing'
refused "a photograph that is not there" --image $t/missing.jpg --out $t/o
holds "that it is missing" $t/err 'missing.jpg: missing'
refused "a picture that is none" --image $t/none.ppm --size 32 --out $t/o
holds "its name" $t/err 'none.ppm'
refused "no weights" --load $t/missing.safetensors --out $t/o
refused "weights that are none" --load $t/none.ppm --out $t/o
: >$t/file
refused "a folder that cannot be made" --report --out $t/file/o
refused "figures that cannot be written" --figures $t/file/o
if [ -e $t/o/report.html ] || [ -e $t/o/report.html.tmp ]; then no "a refused run left a report"; else ok; fi

# a report of three networks
if "$mixers" --image $t/wide.ppm --size 64 --block 4 --out $t/r >$t/out 2>$t/err; then ok; else no "a report"; head -n 3 $t/err; fi
[ "$(head -n 1 $t/err)" = "the matrices of 3 networks, and singular values of their blocks" ] && ok || no "it does not say first what it does"
ordered $t/r/report.html '<p>A token mixer lets' 'Read row i' 'its row as light' 'M of layer 0, head 0' 'What is claimed' '<b>Ranks'
readable $t/r/report.html $t/r/report
[ "$(grep -c . $t/out)" -eq 17 ] && ok || no "the table has not a line for each layer and direction"
for section in '<h2>Read row i' '<h2>What is claimed' 'rank of L is not above 1' '<h2>ViT' '<h2>LinearViT' '<h2>DinoVim' \
    'Random weights' '<b>Ranks' '<b>Reach' '<svg' 'data:image/png' '</html>'; do holds "the report" $t/r/report.html "$section"; done
# 12 + 12 + 3 x 24 matrices, 3 scales; the picture, of each network one matrix and one row
[ "$(grep -o 'data:image/png' $t/r/report.html | wc -l)" -eq 106 ] && ok || no "the report has not all matrices"
"$mixers" --image $t/one.ppm --size 48 --model dinovim --layers 1,3 --json --out $t/j >$t/json 2>$t/err && ok || no "JSON"
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))["models"][0]
assert [l["layer"] for l in d["layers"]] == [1, 1, 3, 3] and d["blocks_within_bound"] == d["blocks"] > 0
assert all(h["decay_rank"] == 1 and h["off_rank"] <= h["off_bound"] for l in d["layers"] for h in l["heads"])
assert all(h["whole_rank"] >= h["diagonal_sum"] for l in d["layers"] for h in l["heads"])' $t/json && ok || no "what the JSON says"
else skipped=$((skipped + 1)); echo "skipped: what the JSON says (no python3)"; fi
for n in 1 3; do "$mixers" --size 48 --threads $n --json --out $t/t >$t/t$n 2>$t/err; done
cmp -s $t/t1 $t/t3 && ok || no "the numbers depend on the threads"

# the run of another demo
if [ -n "$dino" ]; then
    "$dino" --swarms 240 --steps 20 --size 32 --set batch=4 --set dim=32 --set heads=2 --set depth=1 --set size=32 --set local=16 --save $t/run --out $t/d >$t/out 2>$t/err && ok || no "dino"
    "$mixers" --load $t/run-softmax.safetensors --load $t/run-linear.safetensors --load $t/run-ssd.safetensors --out $t/l \
        >$t/out 2>$t/err && ok || { no "--load"; head -n 3 $t/err; }
    holds "loaded weights" $t/l/report.html 'the teacher of that run'
    grep -q 'Random weights' $t/l/report.html && no "loaded weights are called random" || ok
    head -c 5000 $t/run-ssd.safetensors >$t/cut.safetensors
    refused "weights cut off" --load $t/cut.safetensors --out $t/c
else skipped=$((skipped + 4)); echo "skipped: loading a run (no dino given)"; fi

# without options all of it goes to build/, wherever that is
mkdir -p $t/empty && program=$(cd "$(dirname "$mixers")" && pwd)/$(basename "$mixers")
(cd $t/empty && "$program" --size 32 --block 2 >../out 2>../err) && [ "$(cd $t/empty && find . -type f)" = ./build/mixers-out/report.html ] && ok ||
    no "files outside of build: $(cd $t/empty && find . -type f | head -n 3)"

# figures
"$mixers" --image $t/one.ppm --patch 0 --figures $t/f --note 'A & <B>' >$t/out 2>$t/err && ok || no "figures"
grep -q 'A &amp; &lt;B&gt;' $t/f/cost.svg && ok || no "a note's marks in a figure"
for f in mixers.png directions.png decay.png singular.svg ranks.svg cost.svg; do
    [ -s $t/f/$f ] && ok || no "no $f"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
