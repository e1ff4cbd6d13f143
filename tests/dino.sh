#!/bin/sh
# The demo's arguments: bad ones get one line and status 2 and overwrite nothing; a run that was saved goes on to the same
# results as one that was never stopped.   sh tests/dino.sh build/dino
set -u
dino=$1 t=build/dino-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
small="--size 32 --swarms 240 --set batch=4 --set dim=32 --set heads=2 --set depth=1 --threads 2"

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
. tests/report.sh
refused()                                        # refused LABEL ARGUMENTS...: status 2, one line, the last, that names the program
{
    label=$1; shift
    "$dino" "$@" >$t/out 2>$t/err </dev/null; status=$?
    lines=$(grep -c '^[^ ]*dino: ' $t/err)
    if [ $status -eq 2 ] && [ "$lines" -eq 1 ] && tail -n 1 $t/err | grep -q '^[^ ]*dino: '; then ok
    else no "$label: status $status, $lines lines"; head -n 3 $t/err; fi
}
refused "missing folder" --images $t/nothing --out $t/o
refused "threads 0" --threads 0 --out $t/o
refused "unknown option" --frobnicate --out $t/o
refused "option without a value" --steps
refused "width that heads do not divide" --set dim=30 --set heads=4 --steps 20 --out $t/o
refused "heads of Mamba-2 that do not divide" --mixer ssd --set head_dim=48 --steps 20 --out $t/o
refused "unknown mixer" --mixer rnn --out $t/o
refused "a number that no recipe has" --set colour=1 --out $t/o
refused "no number" --set batch=many --out $t/o
refused "products of bf16 where there are none" --simd none --set bf16=1 --steps 20 --out $t/o
refused "half a picture" --set batch=2.5 --out $t/o
refused "a number out of range" --set jitter=2 --out $t/o
refused "crops of no whole number of patches" --set size=50 --out $t/o
refused "the mixer as a number" --set mixer=ssd --out $t/o
refused "steps and minutes" --steps 20 --minutes 1 $small --out $t/o
refused "one start for three" --start $t/run --out $t/o
refused "a start that is not there" --start $t/nothing --mixer ssd --steps 20 $small --out $t/o
: >$t/file
refused "a folder that cannot be made" --steps 20 $small --out $t/file/o
[ "$(grep -c . $t/err)" -eq 1 ] && ok || no "--out is tried only after $(head -n 1 $t/err)"
"$dino" --set batch=7 --set list >$t/out 2>$t/err && grep -q '^batch *7 ' $t/out && ok || no "--set list"

# a picture that is none; a mask of another size
mkdir -p $t/p/train/a $t/p/train/b $t/p/test/a $t/p/test/b $t/m/train/a $t/m/test/a
picture() { printf 'P6\n%d %d\n255\n' "$2" "$2" >"$1"; head -c $(($2 * $2 * 3)) /dev/zero | tr '\0' "$3" >>"$1"; }
for d in train test; do picture $t/p/$d/a/1.ppm 40 'a'; picture $t/p/$d/a/2.ppm 40 'k'; picture $t/p/$d/b/1.ppm 40 'x'; done
"$dino" --images $t/p --size 40 --steps 20 --mixer ssd --json --out $t/good $small >$t/good.json 2>$t/err && ok || no "a folder of pictures"
printf 'this is no picture' >$t/p/train/b/2.ppm; : >$t/p/test/a/3.gif
"$dino" --images $t/p --size 40 --steps 20 --mixer ssd --json --out $t/bad $small >$t/bad.json 2>$t/err && ok || { no "a picture that is none"; tail -n 2 $t/err; }
grep -q '^left out: 1 of 7 pictures.*train/b/2.ppm: ' $t/err && ok || no "the message does not name the file"
grep -q '^left out: 1 of a kind that is not read (3.gif' $t/err && ok || no "the message does not name the other kind"
grep '"before"' $t/good.json >$t/good.txt; grep '"before"' $t/bad.json >$t/bad.txt
[ -s $t/good.txt ] && cmp -s $t/good.txt $t/bad.txt && ok || no "what is left out changes the others"
mkdir -p $t/none/a $t/none/b; for i in 1 2 3 4 5 6; do printf 'none' >$t/none/a/$i.ppm; printf 'none' >$t/none/b/$i.ppm; done
refused "pictures that are all broken" --images $t/none --steps 20 $small --out $t/o
grep -q 'none of 10 pictures can be read; the first: .*a/1.ppm' $t/err && ok || no "the message does not say so"
rm $t/p/test/a/3.gif
# training pictures vote, test pictures are judged: where each test picture looks like the other class none is named rightly
for i in 1 2 3 4 5; do
    mkdir -p $t/held/train/a $t/held/train/b $t/held/test/a $t/held/test/b
    picture $t/held/train/a/$i.ppm 40 '0'; picture $t/held/train/b/$i.ppm 40 'x'
done
picture $t/held/test/a/1.ppm 40 'x'; picture $t/held/test/b/1.ppm 40 '0'
"$dino" --images $t/held --size 40 --steps 20 --mixer ssd --json --out $t/held/out $small >$t/held.json 2>$t/err || { no "pictures of exchanged classes"; tail -n 2 $t/err; }
grep -q '"histogram of colours": {"balanced": 0, .*"knn": 0,' $t/held.json && ok || no "the vote is not of training pictures on test pictures: $(grep colours $t/held.json)"
picture $t/p/train/b/2.ppm 40 'z'
mkdir $t/p/test/c
refused "a class without training pictures" --images $t/p --steps 20 $small --out $t/o
grep -q 'test/c' $t/err && ok || no "the message does not name the class"
rmdir $t/p/test/c
picture $t/m/train/a/1.ppm 20 'z'

# pictures as they lie, and packed into a file: the same to the last bit
"$dino" --images $t/p --pack $t/p.safetensors --size 40 2>$t/err && "$dino" --images $t/p.safetensors --pack $t/again.safetensors --size 40 2>$t/err &&
    cmp -s $t/p.safetensors $t/again.safetensors && ok || { no "--pack"; tail -n 2 $t/err; }
for images in $t/p $t/p.safetensors; do "$dino" --images $images --size 40 --steps 20 --mixer ssd --json --out $t/packed $small 2>$t/err; done >$t/both
[ "$(grep -c before $t/both)" = 2 ] && [ "$(grep -E '"(before|after)": ' $t/both | sort -u | wc -l)" = 2 ] && ok || { no "packed pictures give other results"; tail -n 2 $t/err; }
head -c 6000 $t/p.safetensors >$t/cut.safetensors
refused "a packed file cut short" --images $t/cut.safetensors --size 40 --out $t/o
# a packed file in which a picture has no class and others have
if command -v python3 >/dev/null; then
    python3 -c '
import json, struct, sys
names = ["train/a/1.ppm", "train/2.ppm", "test/a/3.ppm"]
head = {n: {"dtype": "U8", "shape": [16, 16, 3], "data_offsets": [768 * i, 768 * i + 768]} for i, n in enumerate(names)}
text = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + bytes(768 * 3))' $t/mixed.safetensors
    refused "a packed picture without a class" --images $t/mixed.safetensors --size 40 --out $t/o
    grep -q 'some pictures have a class' $t/err && ok || no "it is not said"
else skipped=$((skipped + 2)); echo "skipped: a packed picture without a class (no python3)"; fi
refused "a file of something else" --images $t/empty.safetensors --size 40 --out $t/o
if [ -e $t/o/report.html ]; then no "a refused run wrote a report"; else ok; fi

# stop and go on: the same steps and results
"$dino" --steps 40 --mixer ssd --save $t/whole --json --out $t/w $small >$t/whole.json 2>$t/err && cp $t/err $t/err0 && ok || { no "a short run"; tail -n 2 $t/err; }
[ "$(head -n 1 $t/err)" = "drawing 400 swarms of 32 x 32 pixels" ] && ok || no "it does not say first what it does"
grep -q 'means nothing' $t/err && grep -q 'means nothing' $t/w/report.html && ok || no "40 steps are not called few"
"$dino" --images $t/p --size 40 --steps 100 --mixer ssd --out $t/hundred $small >$t/out 2>$t/err && ! grep -q 'means nothing' $t/err $t/hundred/report.html && ok || no "100 steps are called few"
"$dino" --steps 40 --mixer ssd --save $t/part --out $t/q $small >$t/part.txt 2>$t/err &
pid=$!; sleep 1; kill -INT $pid 2>/dev/null; wait $pid; status=$?
if [ $status -eq 130 ] || [ $status -eq 0 ]; then ok; else no "Ctrl-C: status $status"; fi
"$dino" --load $t/part --save $t/part --json --out $t/q >$t/part.json 2>$t/err && ok || { no "--load"; tail -n 2 $t/err; }
if cmp -s $t/whole-ssd.safetensors $t/part-ssd.safetensors; then ok
else
    # the note in the file holds times; the numbers must not differ
    tail -c 20000 $t/whole-ssd.safetensors >$t/a; tail -c 20000 $t/part-ssd.safetensors >$t/b
    cmp -s $t/a $t/b && ok || no "a run that was stopped differs from one that was not"
fi
"$dino" --start $t/whole-ssd.safetensors --mixer ssd --steps 20 --json --out $t/s $small >$t/start.json 2>$t/err && ok || { no "--start"; tail -n 2 $t/err; }
# it begins where the other ended: untrained here is trained there
[ "$(sed -n 's/.*"after": {//p' $t/whole.json)" = "$(sed -n 's/.*"before": {//p' $t/start.json)" ] && ok || no "--start does not begin with the weights"
# a run of three of which two have not begun: they are trained as was planned
"$dino" --steps 20 --set least=0.3 --save $t/three --json --out $t/3 $small >$t/three.json 2>$t/err && cp $t/three-softmax.safetensors $t/one-softmax.safetensors &&
    "$dino" --load $t/one --json --out $t/1 --threads 2 >$t/one.json 2>$t/err || { no "a run of three"; tail -n 2 $t/err; }
results() { grep -E '"(before|after)": ' "$1"; }
[ "$(results $t/three.json | grep -c before)" = 3 ] && [ "$(results $t/three.json)" = "$(results $t/one.json)" ] && ok || no "--load changes mixers that have not begun"
grep -q 'linear place=.* least=0.3' $t/1/report.html && ok || no "a loaded run's recipe is not in its report"
# to more steps than were planned: up to a multiple of a twentieth of them, the report's chart with points of both plans
cp $t/whole-ssd.safetensors $t/more-ssd.safetensors
"$dino" --load $t/more --steps 99 --json --out $t/m >$t/more.json 2>$t/err && ok || { no "--load --steps"; tail -n 2 $t/err; }
grep -q '"steps": 100,' $t/more.json && ok || no "--load --steps 99 of 40 is not 100: $(grep -o '"steps": [0-9]*' $t/more.json)"
[ "$(sed -n 's/.*"before": {//p' $t/whole.json)" = "$(sed -n 's/.*"before": {//p' $t/more.json)" ] && ok || no "it forgets where it began"
[ "$(results $t/whole.json)" != "$(results $t/more.json)" ] && ok || no "more steps change nothing"
refused "no more steps than there are" --load $t/more --steps 100 --out $t/c
grep -q 'has 100; give more' $t/err && ok || no "the message does not say how many there are"
# a run of three that was stopped while the first of them went on to more: the others go on to as many
for k in softmax linear ssd; do cp $t/three-$k.safetensors $t/mixed-$k.safetensors; cp $t/three-$k.safetensors $t/long-$k.safetensors; done
"$dino" --load $t/long --steps 40 --json --out $t/g >$t/long.json 2>$t/err && cp $t/long-softmax.safetensors $t/mixed-softmax.safetensors &&
    "$dino" --load $t/mixed --json --out $t/g >$t/mixed.json 2>$t/err || { no "three to more steps"; tail -n 2 $t/err; }
[ "$(grep -c '"steps": 40,' $t/mixed.json)" = 3 ] && [ "$(results $t/long.json)" = "$(results $t/mixed.json)" ] && ok || no "a run stopped on its way to more steps ends elsewhere"
# Ctrl-C while the first of three learns: it is saved, what there is is reported, and it goes on. Nobody said how many steps
"$dino" --out $t/stop $small >$t/stop.txt 2>$t/err &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    grep -q ' step [0-9]* of 4600 ' $t/err && break
    sleep 2
done
kill -INT $pid; wait $pid; status=$?
[ $status -eq 130 ] && ok || no "Ctrl-C while it learns: status $status"
grep -q '^softmax: stopped at step [0-9]* of 4600 and saved' $t/err && ok || no "it does not say where it was stopped: $(tail -n 2 $t/err)"
grep -q "go on with --load \"$t/stop/run\"" $t/err && ok || no "it does not say how to go on: $(tail -n 2 $t/err)"
grep -q '^softmax *trained ' $t/stop.txt && ! grep -q '^linear' $t/stop.txt && ok || no "what there is is not in the table"
grep -q 'softmax has made [0-9]* of its 4600 steps' $t/stop/report.html && grep -q 'linear is not in this report' $t/stop/report.html && ok ||
    no "the page does not say that it was stopped"
[ -s $t/stop/run-softmax.safetensors ] && ok || no "Ctrl-C: nothing is saved"
cp $t/part-ssd.safetensors $t/one-ssd.safetensors
refused "files of two runs" --load $t/one --out $t/c
grep -q 'one-ssd.*another run' $t/err && ok || no "the message does not name the file of the other run"
refused "a folder without a name" --steps 20 $small --out ''
refused "figures that cannot be written" --steps 20 $small --out $t/o --figures $t/file
head -c 5000 $t/part-ssd.safetensors >$t/cut-ssd.safetensors
cp $t/cut-ssd.safetensors $t/before
refused "truncated run file" --load $t/cut --out $t/c
cmp -s $t/before $t/cut-ssd.safetensors && ok || no "the refused file was changed"
# on which side of the maps objects are is said, not taken for granted
grep -q 'objects are the patches \(most like the class token (yellow)\|least like the class token (violet)\)' $t/w/report.html && ok ||
    no "the page does not say on which side objects are"
# whether the maps have got better or worse, as the numbers have it
auc() { sed -n "s/.*\"$1\": {.*\"auc\": \([0-9.e-]*\),.*/\1/p" $t/whole.json; }
said=$(sed -n 's/.*<li>ssd: \(.*\) before training, .*/\1/p' $t/w/report.html)
echo "$(auc before) $(auc after) $said" | awk '{ exit !($1 > 0 && (/worse<.b> than$/ && $2 < $1 || /better than$/ && $2 > $1 || /level with$/)) }' && ok ||
    no "the page does not say what became of the maps: $(auc before), $(auc after), \"$said\""
grep -q '95&nbsp;% interval' $t/w/report.html && ok || no "the page does not say what its errors are"
grep -q 'That is <b>\(less than\|level with\|more than\)</b> what [a-z ]* name, the best of what nobody has trained' $t/w/report.html && ok || no "the page does not set it beside the best descriptor"
grep -q '>edges</text>' $t/w/report.html && grep -q '>colours</text>' $t/w/report.html && grep -q '>raw pixels</text>' $t/w/report.html && ok || no "the chart has no lines of descriptors"
grep -q 'there the objects are' $t/w/report.html && no "the page takes objects for what resembles the class token" || ok
grep -q 'ssd *(1 of 1) step 40 of 40 .* 0:00 left' $t/err0 && ok || no "progress without its mixer or the time that is left: $(grep step $t/err0)"
ordered $t/w/report.html '<p>Without a label' 'Where patches resemble' '<h2>Learning' '<h2>What the features' '<h2>What it took' '<h2>How'
grep -q 'It goes up where that entropy does' $t/w/report.html && ok || no "a rise of the loss is not explained"
grep -q '<td>0[.][0-9]*[^0-9<]*±[^0-9<]*0[.]' $t/w/report.html && ok || no "no cell has its error"
readable $t/w/report.html $t/w/report
grep -q '<svg' $t/w/report.html && grep -q 'data:image/png' $t/w/report.html && ok || no "the report has no figures"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
