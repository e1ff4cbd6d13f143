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
tiny="--swarms 240 --size 32 --set batch=4 --set dim=32 --set heads=2 --set depth=3 --threads 2 --steps 20"
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
refused "adapters alone" $short --stages 1 --lora 2
refused "an odd batch" $short --batch 3
refused "half a patch" $short --size 36
refused "a block that is not there" $short --keep 1,4
refused "no list" $short --keep 1,,2
refused "all blocks kept" $short --keep every=1
refused "no time" $short --minutes 0
refused "no list of sizes" $short --cost 32,,64
refused "too many sizes" $short --cost 8,8,8,8,8,8,8,8,8
refused "less than a patch" $short --cost 7
refused "a choice among mixers that are attention" $short --mixer auto --window 4
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
[ "$(value $t/all.json 'student before' probe)" = "$(value $t/all.json teacher probe)" ] && ok || no "a probe of the teacher's own features"
# and the difference of a student that is the teacher is 0 on every picture: its interval is 0 to 0, whatever each errs by itself
for measure in balanced probe auc; do
    for end in "" _low _high; do
        [ "$measure" = auc ] && [ "$(value $t/all.json 'student before' auc)" = null ] && continue
        less "$measure: a student that is the teacher, less the teacher$end" "$(value $t/all.json 'student before' ${measure}_less_teacher$end)" 1e-9
        less "$measure: the teacher less a student that is it$end" -1e-9 "$(value $t/all.json 'student before' ${measure}_less_teacher$end)"
    done
done
"$linear" $short --mixer flex --lora 2 --steps 3 --json --out $t/low >$t/low.json 2>$t/err && grep -q -e "--lora 2" $t/low/report.html && ok || no "adapters in the last stage"
"$linear" $short --mixer flex --steps 3 --resume --out $t/low >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q "began otherwise" $t/err && ok || no "a run with adapters resumed without"
"$linear" $short --mixer flex --stages 1 --steps 4 --json --out $t/one >$t/one.json 2>$t/err && grep -q '"steps": 4,' $t/one.json && ok || no "one stage"
"$linear" $short --minutes 0.02 --json --out $t/timed >$t/timed.json 2>$t/err && ok || { no "a run by time"; tail -n 2 $t/err; }

# each block takes the mixer with the least error among those tried, and learns with it
"$linear" $short --mixer auto --keep 2 --steps 30 --json --out $t/auto >$t/auto.json 2>$t/err && ok || { no "auto"; tail -n 2 $t/err; }
less "auto: distance after and before" "$(value $t/auto.json 'student after' relative_error)" "$(value $t/auto.json 'student before' relative_error)"
sed -n 's/.*"block": \([0-9]*\), "mixer": "\([a-z]*\)", "tried_mmate": \([^,]*\), "tried_flex": \([^,]*\), "tried_swin": \([^,]*\), "tried_linear": \([^,]*\),.*/\1 \2 mmate \3 flex \4 swin \5 linear \6/p' $t/auto.json >$t/tried
[ "$(awk '$1 == 2 { if ($2 == "kept") n++; next } { best = 3; for (i = 5; i < NF; i += 2) if ($(i + 1) < $(best + 1)) best = i; if ($2 == $best && $(best + 1) < 1) n++ } END { print n + 0 }' $t/tried)" = 3 ] &&
    ok || { no "auto: not the nearest"; cat $t/tried; }
grep -q 'Which mixer comes nearest' $t/auto/report.html && ok || no "auto: the report has no table of it"

# figures; cost: FLOPs of the teacher grow by more than four from one size to its double, of a student without attention by about four
"$linear" figures --out $t/figures 2>$t/err && ok || { no "figures"; tail -n 2 $t/err; }
for f in converted linear-cost; do cmp -s $t/figures/$f.svg docs/figures/$f.svg && ok || no "$f.svg is not the one in docs/figures"; done
"$linear" --load $t/t-softmax.safetensors --cost 128,257 --window 2 --threads 1 --json >$t/cost.json 2>$t/err && ok || { no "--cost"; tail -n 2 $t/err; }
costs() { sed -n "s/.*\"network\": \"$2\", \"pixels\": $3,.*\"$4\": \([^,}]*\).*/\1/p" $1; }
for network in teacher M-MATE Flex-MA Local-Swin "linear attention" "M-MATE, 1.4 kept"; do
    less "cost of $network: seconds" 0 "$(costs $t/cost.json "$network" 256 processor_seconds)"
    less "cost of $network: its weights take a part of its memory" "$(costs $t/cost.json "$network" 256 weights_mib)" "$(costs $t/cost.json "$network" 256 peak_mib)"
done
grows() { awk -v a="$(costs $t/cost.json "$1" 128 gflops)" -v b="$(costs $t/cost.json "$1" 256 gflops)" 'BEGIN { print b / a }'; }
less "cost of a student is linear" "$(grows Flex-MA)" 4.05; less "cost of a student is linear" 3.9 "$(grows 'linear attention')"
less "the teacher's is not" 5 "$(grows teacher)"
"$linear" --load $t/t-softmax.safetensors --cost 32 --threads 1 >$t/cost.txt 2>$t/err && [ "$(grep -c '^ *32 ' $t/cost.txt)" -eq 6 ] && ok || no "--cost as a table"

# stop and go on: the same student, and the same results but for times
whole="$short --masks $t/m --mixer auto --steps 200 --json"
"$linear" $whole --out $t/w >$t/w.json 2>$t/err && ok || { no "a whole run"; tail -n 2 $t/err; }
[ "$(head -n 1 $t/err)" = "opening $t/t-softmax.safetensors" ] && ok || no "it does not say first what it does"
stops=0 from= wait=0.6                           # longer each time: a busy machine may save nothing so soon
while :; do
    "$linear" $whole --threads 1 --out $t/s $from >$t/s.json 2>$t/err &
    pid=$!; sleep $wait; wait=$(awk -v w=$wait 'BEGIN { print w * 1.4 }')
    [ $stops -lt 3 ] && kill -INT $pid 2>/dev/null
    wait $pid; status=$?
    [ $status -eq 130 ] || break
    if [ -e $t/s/run.safetensors ]; then stops=$((stops + 1)) from=--resume; fi
done
[ $status -eq 0 ] && [ $stops -gt 0 ] && ok || { no "stopped $stops times: status $status"; tail -n 2 $t/err; }
cmp -s $t/w/student.safetensors $t/s/student.safetensors && ok || no "a run that was stopped $stops times ends with another student"
untimed() { sed -E 's/"(seconds|processor_seconds|pictures_per_second|times|peak_mib)": [^,}]*//g' $1; }
untimed $t/w.json >$t/w.txt; untimed $t/s.json >$t/s.txt
cmp -s $t/w.txt $t/s.txt && ok || no "a run that was stopped has other results"
# masks: what one class everywhere gets is about a quarter; each of the two ways of a head leaves no file
less "mIoU of the teacher" 0.4 "$(value $t/w.json teacher miou)"; less "mIoU" "$(value $t/w.json teacher miou)" 1
less "mIoU: its error" 0 "$(value $t/w.json 'student after' miou_95)"
# intervals: 1.96 standard errors; the difference is that of the two, and lies in its interval
if command -v python3 >/dev/null; then
    python3 -c '
import json, math, sys
teacher, before, after = json.load(open(sys.argv[1]))["networks"]
least = min(n["knn"] for n in (teacher, before, after))
for n in teacher, before, after:                 # of 12 pictures in two classes of 6: k and 6 - k right in each
    shares = [(i / 6, j / 6) for i in range(7) for j in range(7) if abs(i + j - 12 * n["knn"]) < 1e-6]
    widths = [1.96 * math.sqrt(sum(p * (1 - p) / 6 for p in s)) / 2 for s in shares]
    assert any(abs(n["balanced_95"] - w) < 1e-6 for w in widths), (n, widths)
for n in before, after:
    for key, at in ("balanced", "balanced"), ("probe", "probe"), ("miou", "miou"), ("auc", "auc"):
        d, low, high = (n[key + "_less_teacher" + end] for end in ("", "_low", "_high"))
        assert abs(d - (n[at] - teacher[at])) < 1e-6, (key, d, n[at], teacher[at])
        assert low <= d <= high, (key, low, d, high)
        assert high - low <= 2 * (n[key + "_95"] + teacher[key + "_95"]) + 0.2, (key, low, high)
assert all(teacher[k + "_less_teacher"] is None for k in ("balanced", "probe", "miou", "auc")), teacher
assert after["auc_less_teacher_high"] > after["auc_less_teacher_low"], after' $t/w.json && ok || no "intervals"
else skipped=$((skipped + 1)); echo "skipped: intervals (no python3)"; fi
[ -z "$(ls $t/w | grep tmp)" ] && ok || no "left behind: $(ls $t/w | grep tmp)"
refused "a run of other settings" $short --out $t/s --resume --seed 2
for length in "--steps 300" "--minutes 1"; do    # the run decides how long it takes
    "$linear" $short --mixer flex --lora 2 $length --out $t/low --resume >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q 'began otherwise: .*--steps 3,' $t/err && ok || no "resumed with $length"
done
refused "a run of another teacher" $short --out $t/s --resume --load $t/s/student.safetensors
head -c 5000 $t/s/run.safetensors >$t/cut; mv $t/cut $t/s/run.safetensors
refused "a run file cut short" $whole --out $t/s --resume
# a student opens as any backbone does
"$linear" $short --load $t/linear/student.safetensors --steps 1 --out $t/again >$t/out 2>$t/err && ok || { no "a student is not opened"; tail -n 2 $t/err; }
ordered $t/w/report.html '<p>With the nearest' 'Where patches resemble' '<h2>Learning' '<h2>Which mixer' '<h2>What the features' '<h2>What it costs' '<h2>How'
readable $t/w/report.html $t/w/report
grep -q '<svg' $t/w/report.html && grep -q 'data:image/png' $t/w/report.html && ok || no "the report has no figures"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
