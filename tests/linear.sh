#!/bin/sh
# The demo's arguments and runs: bad input gets one line and status 2 and leaves no report; what keeps all that attention did
# is the teacher; a run that was stopped ends with the same student, byte for byte.   sh tests/linear.sh build/linear build/dino
set -u
linear=$1 dino=$2 t=build/linear-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
. tests/report.sh

# a teacher of three blocks, patches of 8; scenes are noise and stripes, masks one half of a picture
tiny="--size 32 --set batch=4 --set dim=32 --set heads=2 --set depth=3 --threads 2 --steps 20"
"$dino" $tiny --mixer softmax --save $t/t --out $t/d >$t/out 2>$t/err && ok || { no "a teacher"; tail -n 2 $t/err; }
"$dino" $tiny --mixer ssd --save $t/t --out $t/d >$t/out 2>$t/err || no "a network without attention"
awk -v t=$t 'BEGIN {
    srand(1)
    for (part = 0; part < 2; part++) for (i = 0; i < 12; i++) {
        class = i % 2 ? "noise" : "stripes"; name = "/" (part ? "test" : "train") "/" class
        system("mkdir -p " t "/p" name " " t "/m" name)
        f = t "/p" name "/" i ".ppm"; g = t "/m" name "/" i ".pgm"
        printf "P6\n40 40\n126\n" >f; printf "P5\n40 40\n255\n" >g
        for (k = 0; k < 1600; k++) {
            for (c = 0; c < 3; c++) printf "%c", i % 2 ? 1 + rand() * 125 : int(k / 160 + i) % 2 * 80 + 3 * i + 1 >f
            printf "%s", (k % 40 > 15 + i) ? "#" : "." >g
        }
        close(f); close(g)
    } }'
for f in $t/m/*/*/*.pgm; do tr '.#' '\000\001' <$f >$t/mask && mv $t/mask $f; done
short="--load $t/t-softmax.safetensors --images $t/p --size 32 --window 2 --batch 4 --threads 2"
refused()                                        # refused LABEL ARGUMENTS...: status 2, one line, the last, that names the program
{
    label=$1; shift
    "$linear" --out $t/o "$@" >$t/out 2>$t/err </dev/null; status=$?
    lines=$(grep -c '^[^ ]*linear: ' $t/err)
    if [ $status -eq 2 ] && [ "$lines" -eq 1 ] && tail -n 1 $t/err | grep -q '^[^ ]*linear: '; then ok
    else no "$label: status $status, $lines lines"; head -n 3 $t/err; fi
}
"$linear" --help >$t/help && grep -q -- '--keep' $t/help && ok || no "--help"
refused "nothing given"
refused "unknown option" --frobnicate 3
refused "option without a value" --steps
refused "no pictures" --load $t/t-softmax.safetensors
refused "missing teacher" --load $t/nothing --images $t/p
refused "missing pictures" --load $t/t-softmax.safetensors --images $t/nothing
refused "a teacher without attention" $short --load $t/t-ssd.safetensors
refused "unknown mixer" $short --mixer softmax
refused "unknown feature" $short --feature relu2
refused "two stages" $short --stages 2
refused "an odd batch" $short --batch 3
refused "half a patch" $short --size 36
refused "a block that is not there" $short --keep 1,4
refused "no list" $short --keep 1,,2
refused "all blocks kept" $short --keep every=1
refused "no time" $short --minutes 0
refused "no run to go on with" $short --resume
: >$t/file
refused "a folder that cannot be made" $short --steps 1 --out $t/file/o
[ "$(grep -c . $t/err)" -eq 1 ] && ok || no "--out is tried only after $(head -n 1 $t/err)"
if [ -e $t/o/report.html ]; then no "a refused run wrote a report"; else ok; fi

value() { sed -n "s/.*\"network\": \"$2\".*\"$3\": \([^,}]*\).*/\1/p" $1; }
# less LABEL A B: A is there and below B
less() { if awk -v a="$2" -v b="$3" 'BEGIN { exit !(a != "" && b != "" && a < b + 0) }'; then ok; else no "$1: $2, $3"; fi; }
for mixer in mmate flex swin linear; do
    "$linear" $short --mixer $mixer --keep 2 --steps 30 --json --out $t/$mixer >$t/$mixer.json 2>$t/err && ok || { no "$mixer"; tail -n 2 $t/err; }
    less "$mixer: distance after and before" "$(value $t/$mixer.json 'student after' relative_error)" "$(value $t/$mixer.json 'student before' relative_error)"
    less "$mixer: the teacher's own distance" "$(value $t/$mixer.json teacher relative_error)" 1e-9
    grep -q '"block": 2, "mixer": "kept"' $t/$mixer.json && ok || no "$mixer: block 2 is not kept"
done
# windows that hold all patches are the teacher before anything is learned, smaller ones are not
"$linear" $short --mixer swin --window 8 --steps 1 --json --out $t/all >$t/all.json 2>$t/err
less "windows of all patches" "$(value $t/all.json 'student before' relative_error)" 1e-9
less "windows of some" 1e-3 "$(value $t/swin.json 'student before' relative_error)"
grep -q 'hold all 4 x 4 patches' $t/err && ok || no "windows of all patches are not called so"
"$linear" $short --mixer flex --stages 1 --steps 4 --json --out $t/one >$t/one.json 2>$t/err && grep -q '"steps": 4,' $t/one.json && ok || no "one stage"
"$linear" $short --minutes 0.02 --json --out $t/timed >$t/timed.json 2>$t/err && ok || { no "a run by time"; tail -n 2 $t/err; }

# stop and go on: the same student, and the same results but for times
whole="$short --masks $t/m --steps 500 --json"
"$linear" $whole --out $t/w >$t/w.json 2>$t/err && ok || { no "a whole run"; tail -n 2 $t/err; }
[ "$(head -n 1 $t/err)" = "opening $t/t-softmax.safetensors" ] && ok || no "it does not say first what it does"
stops=0 from=
while :; do
    "$linear" $whole --threads 1 --out $t/s $from >$t/s.json 2>$t/err &
    pid=$!; sleep 0.6
    [ $stops -lt 3 ] && kill -INT $pid 2>/dev/null
    wait $pid; status=$?
    [ $status -eq 130 ] || break
    if [ -e $t/s/run.safetensors ]; then stops=$((stops + 1)) from=--resume; fi
done
[ $status -eq 0 ] && [ $stops -gt 0 ] && ok || { no "stopped $stops times: status $status"; tail -n 2 $t/err; }
cmp -s $t/w/student.safetensors $t/s/student.safetensors && ok || no "a run that was stopped $stops times ends with another student"
untimed() { sed -e 's/"seconds": [^,]*,//' -e 's/"pictures_per_second[a-z_]*": [0-9.e+-]*//g' $1; }
untimed $t/w.json >$t/w.txt; untimed $t/s.json >$t/s.txt
cmp -s $t/w.txt $t/s.txt && ok || no "a run that was stopped has other results"
refused "a run of other settings" $short --out $t/s --resume --seed 2
refused "a run of another teacher" $short --out $t/s --resume --load $t/s/student.safetensors
head -c 5000 $t/s/run.safetensors >$t/cut; mv $t/cut $t/s/run.safetensors
refused "a run file cut short" $whole --out $t/s --resume
# a student opens as any backbone does
"$linear" $short --load $t/linear/student.safetensors --steps 1 --out $t/again >$t/out 2>$t/err && ok || { no "a student is not opened"; tail -n 2 $t/err; }
ordered $t/w/report.html '<p>With M-MATE' 'Where patches resemble' '<h2>Learning' '<h2>What the features' '<h2>What it costs' '<h2>How'
readable $t/w/report.html $t/w/report
grep -q '<svg' $t/w/report.html && grep -q 'data:image/png' $t/w/report.html && ok || no "the report has no figures"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
