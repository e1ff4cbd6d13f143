#!/bin/sh
# The demo's arguments and files: bad ones get one line and status 2 and leave no report behind; good runs write features,
# a report with its sections, JSON and figures.   sh tests/features.sh build/features [build/dino]
set -u
features=$1 dino=${2:-} t=build/features-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
tiny="--model vit_tiny --size 64"

ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
skip() { skipped=$((skipped + $2)); echo "skipped: $1"; }
. tests/report.sh
holds() { if grep -q -e "$3" "$2"; then ok; else no "$1: no \"$3\" in $2"; fi; }            # holds LABEL FILE PATTERN
bytes() { if [ "$(wc -c <"$1")" -eq "$2" ]; then ok; else no "$1: $(wc -c <"$1") bytes, expected $2"; fi; }
run() { label=$1; shift; if "$features" "$@" >$t/out 2>$t/err; then ok; else no "$label"; head -n 3 $t/err; fi; }
refused()                                        # refused LABEL ARGUMENTS...: status 2, one line, the last, that names the program
{
    label=$1; shift
    "$features" "$@" --out $t/o >$t/out 2>$t/err </dev/null; status=$?
    lines=$(grep -c '^features: ' $t/err)
    if [ $status -eq 2 ] && [ "$lines" -eq 1 ] && tail -n 1 $t/err | grep -q '^features: ' && [ ! -s $t/out ]; then ok
    else no "$label: status $status, $lines lines"; head -n 3 $t/err; fi
}
picture() { printf 'P6\n%d %d\n255\n' "$2" "$3" >"$1"; head -c $(($2 * $3 * 3)) /dev/zero | tr '\0' "$4" >>"$1"; }

# a run of dino.c: two small networks; without it the smallest known one stands in
if [ -n "$dino" ]; then
    "$dino" --swarms 240 --steps 20 --size 32 --set batch=4 --set dim=32 --set heads=2 --set depth=1 --set size=32 --set local=16 --save $t/run --out $t/d >$t/out 2>$t/err && ok || no "dino"
fi

refused "unknown option" --frobnicate
refused "option without a value" --load
refused "unknown model" --model rnn
refused "nine models" --model vit_tiny --model vit_tiny --model vit_tiny --model vit_tiny --model vit_tiny --model vit_tiny \
    --model vit_tiny --model vit_tiny --model vit_tiny
refused "a mixer that is none" --load $t/a --mixer rnn
refused "a mixer of nothing" --mixer linear
refused "heads of random weights" --model vit_tiny --heads 2
refused "a type of nothing" --type bf16
refused "a type of random weights" --model vit_tiny --type bf16
refused "a type that is none" --load $t/a --type fp8
holds "the types" $t/err 'give bf16, f16, int8 or q4'
refused "no heads" --load $t/a --heads 0
refused "a size that patches do not fill" --model vit_tiny --size 100
holds "a size that would do" $t/err 'give 112'
refused "a block that is not there" $tiny --block 3,12
refused "blocks that do not rise" $tiny --block 3,3
refused "a threshold that is none" $tiny --threshold 2
refused "a threshold below all" $tiny --threshold -1
refused "a level that is none" $tiny --level 1.5
refused "a level and a threshold" $tiny --level 0.2 --threshold 0.5
refused "a measure that is none" $tiny --measure knn,rank
refused "no measure" $tiny --measure ""
refused "more blocks than there are" $tiny --blocks-read 13
refused "two ways to cut" $tiny --whole --square
refused "masks of pictures that differ in size" $tiny --whole --measure seg
holds "why" $t/err '--measure seg: with --whole'
refused "threads 0" $tiny --threads 0
refused "masks of scenes" $tiny --masks $t
refused "figures as JSON" --figures $t/f --json
refused "figures and measures" --figures $t/f --measure auc
refused "no folder" $tiny --images $t/nothing
refused "no weights" --load $t/missing.safetensors
printf 'these are no weights' >$t/none.pth
refused "weights that are none" --load $t/none.pth
holds "their name" $t/err 'none.pth'
: >$t/file
"$features" $tiny --limit 2 --out $t/file/o >$t/out 2>$t/err; [ $? -eq 2 ] && [ "$(grep -c . $t/err)" -eq 1 ] && ok || no "a folder that cannot be made"
"$features" --figures $t/file/f >$t/out 2>$t/err; [ $? -eq 2 ] && ok || no "figures that cannot be written"
mkdir -p $t/empty
refused "a folder without pictures" $tiny --images $t/empty

# pictures of several sizes in classes, with masks
mkdir -p $t/p/a $t/p/b $t/m/a $t/m/b
picture $t/p/a/1.ppm 90 60 k; picture $t/p/a/2.ppm 60 90 x; picture $t/p/b/1.ppm 64 64 A
half() { { printf 'P5\n%d %d\n255\n' "$2" "$3"; head -c $(($2 * $3 / 2)) /dev/zero; head -c $(($2 * $3 / 2)) /dev/zero | tr '\0' '\1'; } >"$1"; }
half $t/m/a/1.pgm 90 60; half $t/m/a/2.pgm 60 90
refused "no picture has a mask" $tiny --images $t/p --masks $t/empty
holds "a name" $t/err 'a/1.ppm: no mask'
run "a picture without a mask" $tiny --images $t/p --masks $t/m --out $t/pm
holds "its name" $t/err '1 of 3 pictures have no mask (.*b/1.ppm'
half $t/m/b/1.pgm 60 60
refused "a mask of another size" $tiny --images $t/p --masks $t/m
half $t/m/b/1.pgm 64 64
if [ -e $t/o/report.html ] || ls $t/o/*.tmp >/dev/null 2>&1; then no "a refused run left files"; else ok; fi
# pictures that cannot be read are left out and counted, those of kinds that nothing here reads as well; all of them: an error
half $t/m/b/1.pgm 64 64
run "whole pictures alone" $tiny --images $t/p --masks $t/m --out $t/pw
mv $t/out $t/pw.txt
printf 'this is no picture' >$t/p/b/2.ppm; half $t/m/b/2.pgm 64 64; : >$t/p/b/3.webp; : >$t/p/a/4.heic
run "a picture that is none" $tiny --images $t/p --masks $t/m --out $t/pb
holds "its name" $t/err '^left out: 1 of 4 pictures.*b/2.ppm: '
holds "other kinds" $t/err '^left out: 2 of a kind that is not read (4.heic'
[ "$(head -n 1 $t/err)" = "4 pictures in $t/p" ] && ok || no "the first line: $(head -n 1 $t/err)"
cmp -s $t/pw/vit_tiny-token.npy $t/pb/vit_tiny-token.npy && ok || no "what is left out changes the others"
mkdir -p $t/broken; for i in 1 2 3; do printf 'P6 none' >$t/broken/$i.ppm; done
refused "pictures that are all broken" $tiny --images $t/broken
holds "their number" $t/err 'none of the pictures can be read'
rm $t/p/b/2.ppm $t/p/b/3.webp $t/p/a/4.heic
mkdir -p $t/many; for i in 1 2 3 4 5 6 7; do picture $t/many/$i.ppm 16 16 k; done
run "some of many" --model vit_tiny --size 16 --images $t/many --limit 3 --out $t/some
[ "$(head -n 1 $t/err)" = "taking 3 of the 7 pictures in $t/many, spread over all; --limit 0 takes all of them" ] && ok || no "the first line: $(head -n 1 $t/err)"
# what may not be looked into: root may look everywhere, so that root asks as somebody else
as=
if [ "$(id -u)" = 0 ]; then as="setpriv --reuid=65534 --clear-groups"; $as "$features" --help >/dev/null 2>&1 || as=none; fi
if [ "$as" = none ]; then skip "folders that may not be read (root, and no setpriv)" 4
else
    mkdir -p $t/no $t/no/a $t/no/b $t/no/o; picture $t/no/a/1.ppm 16 16 k; picture $t/no/a/2.ppm 16 16 x; picture $t/no/b/1.ppm 16 16 A
    chmod 0 $t/no/b; chmod 555 $t/no/o; mkdir -p $t/open; chmod 777 $t/open
    $as "$features" --model vit_tiny --size 16 --images $t/no --out $t/open/o >$t/out 2>$t/err; [ $? -eq 2 ] && ok || no "a class that may not be read"
    holds "its name and the reason" $t/err "no/b: this folder cannot be read: Permission denied"
    $as "$features" --model vit_tiny --size 16 --limit 2 --out $t/no/o/deeper/still >$t/out 2>$t/err; [ $? -eq 2 ] && ok || no "a folder that may not be made"
    holds "the reason" $t/err "deeper/still/report.html: Permission denied"
    chmod 755 $t/no/b $t/no/o
fi
run "pictures with masks" $tiny --images $t/p --masks $t/m --out $t/pm
[ "$(cut -f 2,3 $t/pm/pictures.txt | tr '\n\t' ' -')" = "a-4x4 a-4x4 b-4x4 " ] && ok || no "pictures.txt"
# what cannot be written whole does not take the place of what is there
mkdir -p $t/keep/pictures.txt.tmp; echo old >$t/keep/pictures.txt
"$features" $tiny --images $t/p --masks $t/m --out $t/keep >$t/out 2>$t/err; [ $? -eq 2 ] && [ "$(cat $t/keep/pictures.txt)" = old ] && ok ||
    no "pictures.txt lost what was there"
holds "classes" $t/pm/report.html '<td>a</td><td>2</td>'
refused "measures of classes without pictures to learn from" $tiny --images $t/p --measure probe
refused "masks that are not given" $tiny --images $t/p --measure auc

# two classes, each a colour above another, so that what is measured is known beforehand; masks of VOC's 3 and 5
two() { { printf 'P6\n48 48\n255\n'; head -c 3456 /dev/zero | tr '\0' "$2"; head -c 3456 /dev/zero | tr '\0' "$3"; } >"$1"; }
labels() { { printf 'P5\n48 48\n255\n'; head -c 1152 /dev/zero; head -c 1152 /dev/zero | tr '\0' "$2"; } >"$1"; }
for part in train test; do
    mkdir -p $t/two/$part/a $t/two/$part/b $t/two-m/$part/a $t/two-m/$part/b
    for i in 1 2 3 4 5 6; do
        two $t/two/$part/a/$i.ppm '\20' '\260'; labels $t/two-m/$part/a/$i.pgm '\3'
        two $t/two/$part/b/$i.ppm '\320' '\100'; labels $t/two-m/$part/b/$i.pgm '\5'
    done
done
rm $t/two/test/b/6.ppm                               # 6 of a, 5 of b
small="--model vit_tiny --size 48 --square"
[ -n "$dino" ] && small="--load $t/run-softmax.safetensors --size 48 --square"
run "classes and masks" $small --images $t/two --masks $t/two-m --json --out $t/w
mv $t/out $t/w.json
holds "a measure above all baselines is marked" $t/w/report.html '(mIoU)</td><td>[01].*▲</td>'
mkdir -p $t/two/test/c; cp $t/two/test/a/1.ppm $t/two/test/c
refused "a class that none teaches" $small --images $t/two
holds "its name" $t/err 'two/test/c: a class without training pictures'
rm -r $t/two/test/c
run "one measure" $small --images $t/two --masks $t/two-m --measure auc --out $t/w1
if grep -q 'k-NN\|mIoU' $t/out; then no "measures that were not asked for"; else ok; fi
run "no measure" $small --images $t/two --measure none --out $t/w0
[ "$(grep -c . $t/out)" -eq 2 ] && ok || no "without measures there is more than the costs"
run "leave one out" $small --images $t/two/train --measure knn --json --out $t/loo
mv $t/out $t/loo.json
mkdir -p $t/flat; for i in 1 2; do cp $t/two/test/a/$i.ppm $t/flat/a$i.ppm; two $t/flat/b$i.ppm '\320' "\\$i"; done
refused "classes of none" $small --images $t/flat --measure knn
holds "why" $t/err 'there are no classes'
run "a flat folder" $small --images $t/flat --out $t/fl
for section in 'No label says anything' 'nearest pictures' 'head 1' '1.000<br>'; do holds "a flat folder" $t/fl/report.html "$section"; done
if grep -q '<h2>Measures\|Binary-AUC' $t/fl/report.html; then no "measures of pictures without labels"; else ok; fi
run "whole pictures" $tiny --images $t/p --masks $t/m --whole --patches --out $t/whole
[ "$(cut -f 3 $t/whole/pictures.txt | tr '\n' ' ')" = "4x6 6x4 4x4 " ] && ok || no "grids of whole pictures"
bytes $t/whole/vit_tiny-patches.npy $((128 + 64 * 192 * 4))
mkdir -p $t/thin; { printf 'P6\n51 3\n255\n'; head -c 459 /dev/zero; } >$t/thin/1.ppm
refused "a picture too thin" --model vit_tiny --size 16 --whole --images $t/thin --out $t/th
holds "what is too thin" $t/err '51 x 3 pixels are too thin for --whole, which would make them 272 x 16'
{ printf 'P6\n48 3\n255\n'; head -c 432 /dev/zero; } >$t/thin/1.ppm
run "a picture that is thin" --model vit_tiny --size 16 --whole --images $t/thin --out $t/th

# a JPEG of 32 x 16 pixels, dark at the left; and the same with the word of its camera that its right side is below (orientation
# 6, turned by a quarter to the right)
base64 -d >$t/jpeg 2>$t/err <<'END'
/9j/4AAQSkZJRgABAQAAAQABAAD/2wCEABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6QB
HB4eKCMoTisrTqRuXW6kpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpP/AABEIABAAIAMBIgACEQEDEQH/xAGiAAAB
BQEBAQEBAQAAAAAAAAAAAQIDBAUGBwgJCgsQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYn
KCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV
1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+gEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoLEQACAQIEBAMEBwUEBAABAncAAQIDEQQFITEGEkFRB2FxEyIy
gQgUQpGhscEJIzNS8BVictEKFiQ04SXxFxgZGiYnKCkqNTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqCg4SFhoeIiYqSk5SVlpeYmZqi
o6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2dri4+Tl5ufo6ery8/T19vf4+fr/2gAMAwEAAhEDEQA/AMWiuvooAyKK6aigD//Z
END
mkdir -p $t/lying $t/turned; cp $t/jpeg $t/lying/1.jpg
{ head -c 2 $t/jpeg; printf '\377\341\0\42Exif\0\0MM\0\52\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\6\0\0\0\0\0\0'; tail -c +3 $t/jpeg; } >$t/turned/1.jpg
if "$features" --model vit_tiny --size 16 --whole --images $t/lying --out $t/ly >$t/out 2>$t/err; then
    run "a JPEG that is turned" --model vit_tiny --size 16 --whole --images $t/turned --out $t/tu
    [ "$(cut -f 3 $t/ly/pictures.txt)" = 1x2 ] && [ "$(cut -f 3 $t/tu/pictures.txt)" = 2x1 ] && ok || no "the camera's word on which way is up"
else grep -q stb_image $t/err && skip "a JPEG that is turned (no stb_image.h)" 2 || no "a JPEG"; fi

# scenes
run "scenes" $tiny --model mambareg_tiny --blocks-read 2 --limit 4 --show 3 --block 0,5 --patches --out $t/s
[ "$(grep -c . $t/out)" -eq 24 ] && ok || no "the tables have not lines for 2 models, 5 baselines, 2 costs, 2 x 6 differences and 3 heads"
holds "measures" $t/out 'k-NN .* probe .* +mean .* mIoU .* AUC'
[ -z "$(ls $t/s | grep -v 'report.html\|pictures.txt\|token.npy\|patches.npy\|registers.npy')" ] && ok || no "files were left: $(ls $t/s)"
holds "random weights in the table" $t/out 'vit_tiny (random)'
bytes $t/s/vit_tiny-token.npy $((128 + 4 * 192 * 4))
bytes $t/s/vit_tiny-patches.npy $((128 + 4 * 16 * 192 * 4))
bytes $t/s/mambareg_tiny-registers.npy $((128 + 4 * 12 * 256 * 4))
[ ! -e $t/s/vit_tiny-registers.npy ] && ok || no "registers of a ViT"
[ "$(grep -c . $t/s/pictures.txt)" -eq 4 ] && ok || no "pictures.txt has not a line for each picture"
for section in '<h2>Costs' '<b>Random weights:</b> vit_tiny, mambareg_tiny' '<h2>Binary-AUC' 'nearness to the middle' '<svg' \
    '<h2>Measures' 'by the 20 pictures with the most similar class tokens (k-NN)</td><td>0' '<th>best baseline</th>' 'histograms of edges' '&plusmn;' \
    'vit_tiny (random): what the class token reads, head by head' 'vit_tiny (random): the nearest pictures' \
    'Otsu' '<h2>Pictures' '<h2>mambareg_tiny (random): registers and blocks' 'register 11: last block' '<td>register 11</td><td>0' 'have a correlation of' 'block 5 after the final norm' \
    'foreground: where the first principal component' '<h2>Files' '</html>'; do holds "the report" $t/s/report.html "$section"; done
ordered $t/s/report.html 'is better than every baseline in' 'interval of the difference from the best of them lies above 0' '<h2>Pictures' '<h2>Measures' 'by the 20 pictures' \
    'the same for both, 2000 times' 'difference from the best baseline</th>' '<h2>Binary-AUC' '<h2>Costs'
readable $t/s/report.html $t/s-report
[ "$(head -n 1 $t/err)" = "opening 2 networks" ] && ok || no "it does not say first what it does"
run "one level for all" $tiny --limit 4 --show 2 --measure none --level 0.1 --out $t/lv
holds "one level for all" $t/lv/report.html 'brought to length 1, is at least 0.1, the same for all networks'
# of 3 pictures: picture, mask, 2 x (map, read, components, segmentation); picture, map, 2 blocks; picture, mean, 12
# registers, 2 blocks; picture, 2 x (3 heads, mean); picture, 2 x (8 heads, mean); 2 x (picture, 4 nearest)
[ "$(grep -o 'data:image/png' $t/s/report.html | wc -l)" -eq $((3 * (10 + 4 + 16 + 9 + 19 + 10))) ] && ok || no "the report has not all pictures"
if command -v python3 >/dev/null; then
    python3 -c '
import struct, sys
for name, shape in ("vit_tiny-token", (4, 192)), ("vit_tiny-patches", (4, 16, 192)), ("mambareg_tiny-registers", (4, 12, 256)):
    b = open(sys.argv[1] + "/" + name + ".npy", "rb").read()
    assert b[:8] == b"\x93NUMPY\x01\x00" and len(b[:128]) == 10 + struct.unpack("<H", b[8:10])[0], name
    d = eval(b[10:128])
    assert d == {"descr": "<f4", "fortran_order": False, "shape": shape}, (name, d)
    v = struct.unpack("<%df" % ((len(b) - 128) // 4), b[128:])
    assert all(abs(x) < 1e3 for x in v) and any(v), name' $t/s && ok || no "what the .npy files hold"
    run "JSON" $tiny --limit 4 --json --out $t/j
    python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
x = d["models"][0]
assert d["pictures"] == 4 and x["random"] and x["kind"] == "ViT" and x["tokens"] == 17 and x["parameters"] > 5e6
assert 0.5 <= x["auc"] <= 1 and 0 <= x["iou"] <= 1 and x["judged"] <= 4 and d["baselines"][0]["judged"] == x["judged"]
assert 0 < x["foreground"][0] and x["foreground"][1] < 1, x["foreground"]
assert any(v for v in x["classes"].values())' $t/out && ok || no "what the JSON says"
    python3 -c '
import json, math, sys
d = json.load(open(sys.argv[1]))
x, b = d["models"][0], {v["name"]: v for v in d["baselines"]}
assert d["pictures"] == 11 and d["train_pictures"] == 12
v = b["histogram of colours"]
assert v["knn"] == v["knn_balanced"] == 1 and v["knn_95"] == 0 and x["knn"] > 0.5, (v, x)
for v in x, b["raw 16 x 16 pixels"], b["histogram of colours"]: assert v["probe"] == 1, v
assert b["histograms of edges"]["knn"] < 0.7                              # both classes have the same edge
assert x["probe_mean"] == 1 and b["histogram of colours"]["probe_mean"] is None
c = b["commonest class, ground"]
assert abs(c["knn"] - 6 / 11) < 1e-6 and c["knn_balanced"] == 0.5 and abs(c["knn_95"] - 1.96 * math.sqrt(30 / 121 / 11)) < 1e-6, c
assert abs(c["miou"] - 0.5 / 3) < 1e-3 and c["pixels"] == 0.5, c          # IoU of the ground 1/2; of 3 and 5 nothing
assert x["miou"] > 0.9 and x["pixels"] > 0.95 and 0 <= x["miou_95"] < 0.2, x
# beside the best baseline, on the same pictures; nearness to the middle is 1/2 in all, so what the difference errs by is what the map
# errs by alone: 1.96 standard errors to either side
pair, n = x["against_baseline"]["auc"], x["judged"]
half = x["auc_95"] * math.sqrt((n - 1) / n)
assert pair["baseline"] == "nearness to the middle" and b[pair["baseline"]]["auc_95"] < 1e-3 * half + 1e-9, (pair, b)
assert 0 < half and abs((pair["high"] - pair["low"]) / 2 / half - 1) < 0.25, (pair, half, n)
for key, pair in x["against_baseline"].items():
    best = max(v[key] for v in d["baselines"] if v[key] is not None)
    assert abs(pair["difference"] - (x[key] - best)) < 1e-6 and pair["low"] <= pair["difference"] <= pair["high"], (key, pair)
assert set(x["against_baseline"]) == {"knn", "knn_balanced", "probe", "probe_balanced", "miou", "auc"}, x
assert x["against_baseline"]["probe"]["high"] == 0 == x["against_baseline"]["probe"]["low"]      # both right in all
e = json.load(open(sys.argv[2]))
y, b = e["models"][0], {v["name"]: v for v in e["baselines"]}
assert e["train_pictures"] == 0 and 0 <= y["knn"] <= 1 and y["probe"] is None and y["auc"] is None
assert b["histogram of colours"]["knn"] == 1 and abs(b["commonest class, ground"]["knn"] - 0.5) < 1e-9' $t/w.json $t/loo.json && ok || no "what is measured of two classes"
else skip "what .npy files and JSON hold (no python3)" 4; fi
for n in 1 3; do "$features" $tiny --limit 9 --threads $n --patches --out $t/t$n >$t/out 2>$t/err; done
cmp -s $t/t1/vit_tiny-patches.npy $t/t3/vit_tiny-patches.npy && ok || no "the features depend on the threads"
run "one patch alone" --model vit_tiny --size 16 --limit 1 --out $t/one
[ "$(ls $t/one | tr '\n' ' ')" = "pictures.txt report.html vit_tiny-token.npy " ] && ok || no "patches that were not asked for: $(ls $t/one)"
holds "how to ask for them" $t/one/report.html 'Features of patches: --patches'
"$features" $tiny --limit 50000 --out $t/stop >$t/out 2>$t/err &
pid=$!; sleep 1; kill -INT $pid 2>/dev/null; wait $pid; status=$?
[ $status -eq 130 ] && [ ! -e $t/stop/report.html ] && [ -z "$(ls $t/stop)" ] && ok || no "Ctrl-C: status $status, $(ls $t/stop)"

# what is in a checkpoint
run "--list" --list --model mambareg_tiny
holds "a parameter" $t/out 'pos_embed_cls (1, 12, 256)'
if [ -n "$dino" ]; then
    refused "more blocks than a run has" --load $t/run-ssd.safetensors --size 32 --blocks-read 64
    run "--list of a run" --list --load $t/run-ssd.safetensors
    holds "what fits" $t/out 'all names and shapes fit'
    run "a run" --load $t/run-softmax.safetensors --load $t/run-ssd.safetensors --size 32 --limit 9 --out $t/l
    grep -q 'Random weights' $t/l/report.html && no "loaded weights are called random" || ok
    refused "a mixer against the file's word" --load $t/run-ssd.safetensors --mixer linear
    refused "a type and a mixer against the file's word" --load $t/run-ssd.safetensors --type bf16 --mixer linear
    float=$t/run-softmax.safetensors
    narrow="--load $float"
    for type in bf16 f16 int8 q4; do narrow="$narrow --load $float --type $type"; done
    run "matrices in fewer bits" $narrow --load $t/run-ssd.safetensors --type q4 --size 32 --limit 8 --patches --out $t/n
    for name in 'run-softmax ' 'run-softmax-2 (bf16)' 'run-softmax-3 (f16)' 'run-softmax-4 (int8)' 'run-softmax-5 (q4)' 'run-ssd (q4)' '^beside float'; do
        holds "its name" $t/out "$name"
    done
    [ "$(sed -n '/^beside float/,/^$/p' $t/out | grep -c 'run-')" -eq 4 ] && ok || no "four are beside float"
    holds "types in the report" $t/n/report.html 'matrices in int8'
    holds "differences in the report" $t/n/report.html '<h2>Narrow matrices beside float'
    for n in "" -2 -3 -4 -5; do bytes $t/n/run-softmax$n-patches.npy $((128 + 8 * 16 * 32 * 4)); done
    [ -z "$(ls $t/n | grep tmp)" ] && ok || no "drafts were left"
    run "the same as JSON" $narrow --size 32 --limit 8 --json --out $t/n
    if command -v python3 >/dev/null; then
        python3 -c '
import json, sys
x = json.load(open(sys.argv[1]))["models"]
assert [v["type"] for v in x] == ["float", "bf16", "f16", "int8", "q4"]
assert x[0]["cosine"] is None and x[0]["knn_difference"] is None
assert 1 >= x[2]["cosine"] > x[1]["cosine"] > x[3]["cosine"] > x[4]["cosine"] > 0.9, [v["cosine"] for v in x]
for v in x[1:]:
    assert v["cosine_least"] <= v["cosine"], v
    for key in "knn", "auc":
        low, off, high = (v[key + "_difference" + end] for end in ("_low", "", "_high"))
        assert low <= off <= high, v
    assert abs(v["knn_difference"] - (v["knn_balanced"] - x[0]["knn_balanced"])) < 1e-6, v
    assert abs(v["auc_difference"] - (v["auc"] - x[0]["auc"])) < 1e-6, v' $t/out && ok || no "what narrow matrices change"
    else skip "what narrow matrices change (no python3)" 1; fi
    head -c 5000 $t/run-ssd.safetensors >$t/cut.safetensors
    refused "weights cut off" --load $t/cut.safetensors
    run "figures of a run" --load $t/run-softmax.safetensors --size 32 --show 2 --figures $t/fl
    for f in positions.svg features.png; do [ -s $t/fl/$f ] && ok || no "no $f"; done
else skip "loading a run (no dino given)" 31; fi

# figures
run "figures" --figures $t/f
for f in tokens.svg grids.svg axial.svg; do holds "$f" $t/f/$f '</svg>'; done
for token in 98 191; do holds "token $token" $t/f/tokens.svg ">$token<"; done
[ "$(grep -c '9650;</text>' $t/f/tokens.svg)" -eq 15 ] && ok || no "the tokens that are read are not 1 + 1 + 1 + 12"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
