#!/bin/sh
# The demo's arguments, figures and runs: bad input gets one line and status 2 and leaves no report; a run that was stopped
# goes on to the same table as one that was not.   sh tests/linmu.sh build/linmu
set -u
linmu=$1 t=build/linmu-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
. tests/report.sh
refused()                                        # refused LABEL ARGUMENTS...: status 2, one line, the last, that names the program
{
    label=$1; shift
    "$linmu" "$@" --out $t/o >$t/out 2>$t/err </dev/null; status=$?
    lines=$(grep -c '^[^ ]*linmu: ' $t/err)
    if [ $status -eq 2 ] && [ "$lines" -eq 1 ] && tail -n 1 $t/err | grep -q '^[^ ]*linmu: '; then ok
    else no "$label: status $status, $lines lines"; head -n 3 $t/err; fi
}
"$linmu" --help >$t/help && grep -q -- '--budget' $t/help && ok || no "--help"
refused "unknown part" speech
refused "unknown option" text --frobnicate 3
refused "option without a value" text --steps
refused "no number" text --steps many
refused "too few steps" text --steps 1
refused "unknown budget" text --budget huge
refused "no such way to distil" text --only three,frob
refused "a way of another part" text --only w222
refused "too many frames" video --frames 65
refused "missing teacher" text --teacher $t/nothing.bin
refused "missing folder" pictures --data $t/nothing
mkdir -p $t/vqa/train/images $t/vqa/test/images
echo '[["what is it?", "circle", 0' >$t/vqa/train/questions.json
refused "questions that end halfway" pictures --data $t/vqa --steps 2
if command -v python3 >/dev/null; then           # the questions about what follows a broken picture are not moved up to it
    python3 tests/tiny_vqa.py $t/easy && echo 'no picture' >$t/easy/train/images/3.png
    refused "a broken picture among whole ones" pictures --data $t/easy --steps 2 --teach 2
    grep -q '1 of 36 pictures .*train/images/3.png' $t/err && ok || no "it is not named"
else skipped=$((skipped + 2)); echo "skipped: a broken picture (no python3)"; fi
head -c 3000 /dev/zero >$t/zero.bin
refused "--load of nothing" text --load $t/nothing/run --steps 2
refused "--load and --save of two runs" text --load $t/a/run --save $t/b/run --steps 2
refused "a teacher that is none" text --teacher $t/zero.bin --steps 2
[ -e $t/o/report.html ] && no "a refused run wrote a report" || ok

"$linmu" figures --out "" 2>$t/err; [ $? -eq 2 ] && ok || no "a folder without a name"
"$linmu" figures --out $t/figures 2>$t/err && ok || { no "figures"; tail -n 2 $t/err; }
for f in scan-orders spans windows mmate; do
    cmp -s $t/figures/$f.svg docs/figures/$f.svg && ok || no "$f.svg is not the one in docs/figures"
done

# the ways that are named, controls too, and no other; of films whose frames are asked for, right answers by quarter
"$linmu" video --frames 4 --only flex,random,four --teach 3 --steps 4 --out $t/frames >$t/frames.txt 2>$t/err && ok || { no "frames"; tail -n 2 $t/err; }
[ "$(grep -c '^4 frames, seed 1, .* asked for: .* all' $t/frames.txt)" -eq 4 ] && ok || no "no right answers by quarter"
[ "$(grep -cE '^(Flex-MA only|random start|four stages) .*\]' $t/frames.txt)" -eq 3 ] && ! grep -q '^three stages' $t/frames.txt && ok ||
    { no "not the ways that were named"; cat $t/frames.txt; }
# from random weights a student begins elsewhere; more than three stages end with a score, too
awk '/^four stages/ { start = $3; ends = NF } /^random start/ { random = $3 } END { exit !(start != random && ends > 12) }' $t/frames.txt && ok || no "scores"

# all of it again from its files
"$linmu" video --frames 4 --only flex,random,four --teach 3 --steps 4 --load $t/frames/run --out $t/frames >$t/again.txt 2>$t/err &&
    cmp -s $t/frames.txt $t/again.txt && ok || { no "what is loaded differs"; tail -n 2 $t/err; }

# its teacher learned for 3 steps, and is no other
refused "a teacher of other steps" video --frames 4 --only flex,random,four --teach 4 --steps 4 --load $t/frames/run
grep -q 'found ".*--teach 3, .*", expected ".*--teach 4, ' $t/err && ok || no "its steps are not said"

# the whole part of text, two steps a stage; then the same, stopped when its first student learns
{ "$linmu" text --steps 2 --json --out $t/whole 2>&1 >$t/whole.json && echo done; } |
    while IFS= read -r line; do echo "$(date +%s) $line" >>$t/whole.times; echo "$line"; done >$t/whole.err
[ "$(tail -n 1 $t/whole.err)" = "done" ] && ok || { no "text"; tail -n 2 $t/whole.err; }
for run in teacher three two single nohid flex swin rank2 full; do
    grep -q "\"run\": \"$run\"" $t/whole.json && ok || no "no row $run"
done
grep -q '<svg' $t/whole/report.html && ok || no "the report has no figures"
ordered $t/whole/report.html '<p>Without attention' '<h2>Text' 'A story goes on' '<h3>How the students' '<svg' 'after stage 1' 'distance of M'
grep -q 'so a curve may jump up there' $t/whole/report.html && ok || no "a rise between stages is not explained"
grep -q 'class="curve[^"]*"[^>]* d="M[0-9. L]*L' $t/whole/report.html && ! grep -q 'class="curve[^"]*"[^>]* d="M[^"]*M' $t/whole/report.html && ok ||
    no "curves of few steps have gaps"
grep -q '^text, 6 steps a student: .*means nothing' $t/whole.err && grep -q 'means nothing' $t/whole/report.html && ok || no "6 steps are not called few"
# no screen here: lines of progress, each whole, some seconds apart
grep -q "$(printf '\r')" $t/whole.err && no "lines are written over where there is no screen" || ok
[ "$(awk '/tells stories|stories    step/ { if (n++ && $1 - last > most) most = $1 - last; last = $1 } END { print (most > 12) }' $t/whole.times)" = 0 ] &&
    ok || no "no line for more than 12 seconds"
readable $t/whole/report.html $t/whole/report
"$linmu" text --steps 2 --out $t/part >$t/part.txt 2>$t/err &
pid=$!; for i in $(seq 1200); do grep -q three $t/err && break; sleep 0.5; done; kill -INT $pid 2>/dev/null; wait $pid; status=$?
if [ $status -eq 130 ] || [ $status -eq 0 ]; then ok; else no "Ctrl-C: status $status"; fi
"$linmu" text --steps 2 --load $t/part/run --json --out $t/part >$t/part.json 2>$t/err && ok || { no "--load"; tail -n 2 $t/err; }
cmp -s $t/whole.json $t/part.json && ok || no "a run that was stopped differs from one that was not"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
