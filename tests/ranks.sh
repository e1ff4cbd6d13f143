#!/bin/sh
# demos/studies/ranks.c: a table for each size, the same when it goes on from lines that are there, and bad arguments in one
# line with status 2.   sh tests/ranks.sh build/ranks
set -u
ranks=$1 t=build/ranks-test; rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; head -n 5 "${2:-/dev/null}"; }
refused()                                        # refused PATTERN ARGUMENTS...
{
    pattern=$1; shift
    "$ranks" "$@" >$t/out 2>$t/err </dev/null; status=$?
    if [ $status -eq 2 ] && [ $(wc -l <$t/err) -eq 1 ] && [ ! -s $t/out ] && grep -q -e "$pattern" $t/err; then ok
    else no "$*: status $status" $t/err; fi
}
scene=docs/tiny/scene.ppm
printf 'this is no picture' >$t/none.ppm
refused 'give a picture' --sizes 48
refused 'sides of 16 to 4096' --sizes 48,x $scene
refused 'sides of 16 to 4096' --sizes 8 $scene
refused '4 are the most' --sizes 32,48,64,80,96 $scene
refused 'no such option' --frobnicate 1 $scene
refused 'wants a value' --sizes
refused 'none.ppm' --out $t/n.txt $t/none.ppm
[ "$(grep -o 'none.ppm' $t/err | wc -l)" -eq 1 ] && ok || no "a broken picture is named twice" $t/err
refused 'missing.safetensors' --load $t/missing.safetensors --out $t/m.txt $scene
refused 'n.txt/x' --out $t/n.txt/x $scene

run() { "$ranks" --sizes 48,64 --heads 2 --threads 1 "$@" >$t/out 2>$t/err </dev/null; }
run --out $t/a.txt $scene && ok || no "a table" $t/err
cp $t/out $t/whole
# 12 blocks x 2 heads x 2 sizes, and the line that says of what
[ $(wc -l <$t/a.txt) -eq 49 ] && ok || no "$(wc -l <$t/a.txt) lines in place of 49" $t/a.txt
# 3 x 3 and 4 x 4 patches and the class token: halves of 5 and of 8 tokens
head -n 1 $t/out | grep -q '48 pixels, C 5 .*64 pixels, C 8$' && ok || no "sizes and sides" $t/out
[ $(grep -c '^[0-9]' $t/out) -eq 12 ] && grep -q '^all ' $t/out && ok || no "a row for each block" $t/out
# no rank is above C, and none below the effective one or 1
awk 'NR > 1 && ($6 > $5 || $7 > $6 * (1 + 1e-6) || $7 < 1 || $8 < 1 || $8 > $6) { bad = 1 } END { exit bad }' $t/a.txt && ok || no "ranks in order" $t/a.txt
# it goes on where it was stopped, to the same table, and measures nothing twice
head -n 20 $t/a.txt >$t/b.txt
run --out $t/b.txt $scene && cmp -s $t/out $t/whole && [ $(wc -l <$t/b.txt) -eq 49 ] && ok || no "it goes on" $t/err
run --out $t/b.txt $scene && cmp -s $t/out $t/whole && [ $(wc -l <$t/b.txt) -eq 49 ] && ok || no "it is done" $t/err
# a line that was broken off is measured again, and what follows is not glued to it
for cut in 5 40 700; do
    head -c $cut $t/a.txt >$t/c.txt
    run --out $t/c.txt $scene && cmp -s $t/out $t/whole && cmp -s $t/a.txt $t/c.txt && ok || no "cut off at $cut bytes" $t/c.txt
done
sed '9s/ .*//' $t/a.txt >$t/d.txt
refused 'line 9: expected eight numbers' --out $t/d.txt $scene
# the same name, another picture
cp $scene $t/same.ppm
run --out $t/e.txt $t/same.ppm && ok || no "a copy" $t/err
printf '\001' | dd of=$t/same.ppm bs=1 seek=500 conv=notrunc 2>/dev/null
refused 'of another network or of other pictures' --out $t/e.txt $t/same.ppm
refused 'of another network or of other pictures' --seed 2 --out $t/a.txt $scene
refused 'of another network or of other pictures' --out $t/a.txt $scene $scene
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
