#!/bin/sh
# The program that teaches a language model to see, on a ViT and a decoder of random weights: bad arguments and bad data get one
# line and status 2; it learns; a run that was stopped goes on to the same bits; students of each kind run; a page and a figure.
#   sh tests/vqa.sh build/vqa
set -u
vqa=$1 t=build/vqa-test
rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
run() { label=$1; shift; if "$vqa" "$@" >$t/out 2>$t/err; then ok; else no "$label"; head -n 3 $t/err; fi; }
refused()                                        # refused LABEL WORDS ARGUMENTS...: status 2 and one line with these words
{
    label=$1 words=$2; shift 2
    "$vqa" "$@" >$t/out 2>$t/err </dev/null; status=$?
    if [ $status -eq 2 ] && [ "$(wc -l <$t/err)" -eq 1 ] && grep -q '^vqa: ' $t/err && grep -q -e "$words" $t/err && [ ! -s $t/out ]; then ok
    else no "$label: status $status"; head -n 3 $t/err; fi
}
# holds LABEL PROGRAM: whether a line of Python about x, the JSON in $t/out, is true
holds() { if python3 -c "import json; x = json.load(open('$t/out')); raise SystemExit(not ($2))"; then ok; else no "$1"; head -n 5 $t/out; fi; }

run "help" --help
refused "nothing" "nothing to do"
refused "an unknown command" "answer" answer
refused "an unknown option" "--frobnicate" train --frobnicate 3
refused "an option without its value" "--steps" train --steps
refused "no decoder" "give --decoder" train
refused "branches that are none" "both, flex or swin" convert --decoder $t/none.gguf --branches all
refused "lengths that are none" "--lengths" speed --decoder $t/none.gguf --out $t/none --lengths 8,x
refused "a report of nothing" "vqa train writes it" report --decoder $t/none.gguf --out $t/none

if ! command -v python3 >/dev/null; then
    echo "skipped: a small ViT and a small decoder (no python3)"; skipped=30
else
    python3 tests/tiny_gguf.py $t/tiny.gguf 2 0.2 chat && python3 tests/tiny_vqa.py $t/data && ok || no "writing models and data"
    model="--decoder $t/tiny.gguf --vision $t/data/vision.safetensors --size 8 --threads 1 --judge 24"
    all="$model --data $t/data"
    train="train $all --steps 600 --every 300 --rate 1e-2"
    refused "data that is not there" "questions.json" train $model --data $t/none --out $t/none
    mkdir -p $t/broken; cp -r $t/data/train $t/data/test $t/broken
    "$vqa" train $model --data $t/broken --steps 0 --out $t/broken/out >$t/out 2>$t/err
    echo '[["what?", "red", 99]]' >$t/broken/train/questions.json
    refused "a question about no picture" "picture 99" train $model --data $t/broken --out $t/broken/out
    echo '[["what?", "red" 0]]' >$t/broken/train/questions.json
    refused "questions that are none" "at byte 17" train $model --data $t/broken --out $t/broken/out
    refused "features of other pictures" "give another --out" train $all --out $t/broken/out
    refused "a size that has no whole patches" "multiple" train $all --size 9 --out $t/none

    run "it learns" $train --out $t/whole --json
    holds "something" "[s['step'] for s in x['scores']] == [0, 300, 600] and x['scores'][0]['right'] == 0 and x['scores'][2]['right'] > 0.1"
    holds "and what the question alone says" "0.2 < x['prior']['right'] < 0.8 and x['prior']['asked'] == 24"
    "$vqa" $train --out $t/parts >$t/out 2>$t/err & running=$!
    while [ ! -e $t/parts/trained.txt ] && kill -0 $running 2>/dev/null; do sleep 0.02; done
    kill -INT $running 2>/dev/null; wait $running; status=$?
    [ $status -eq 130 ] || [ $status -eq 0 ] && ok || no "stopping: status $status"
    refused "with another rate" "other models or settings" $train --rate 2 --out $t/parts
    # models of the same sizes
    python3 tests/tiny_gguf.py $t/other.gguf 2 0.3 chat
    sed 's/random.seed(0)/random.seed(5)/' tests/tiny_vqa.py >$t/other.py; python3 $t/other.py $t/others
    refused "with another decoder" "other models or settings" $train --decoder $t/other.gguf --out $t/parts
    refused "with another ViT" "give another --out" $train --vision $t/others/vision.safetensors --out $t/parts
    cp $t/data/vision.safetensors $t/vision.safetensors; cp -r $t/parts $t/moved
    run "a ViT" $train --vision $t/vision.safetensors --steps 0 --run none --out $t/moved/out
    cp $t/others/vision.safetensors $t/vision.safetensors
    refused "another ViT of the same name" "give another --out" $train --vision $t/vision.safetensors --steps 0 --run none --out $t/moved/out
    mkdir -p $t/keep/none.txt.tmp; echo old >$t/keep/none.txt; cp $t/parts/features-* $t/keep
    "$vqa" $train --steps 0 --run none --out $t/keep >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q 'none.txt: cannot be written' $t/err && ok || no "numbers that cannot be written"
    [ "$(cat $t/keep/none.txt)" = old ] && ok || no "numbers lost what was there"
    run "taken up again" $train --out $t/parts
    tail -c 8000 $t/whole/trained.safetensors >$t/a; tail -c 8000 $t/parts/trained.safetensors >$t/b
    cmp -s $t/a $t/b && ok || no "a run in two parts is another"
    run "a ViT of random numbers" train $all --random --run random --steps 20 --out $t/whole
    run "several questions about a picture" train $all --ask 3 --run three-asked --steps 20 --out $t/whole

    convert="convert $all --out $t/whole --student-steps 90 --batch 4 --solve 24 --rate 0.2"
    run "three stages" $convert --json
    holds "what is judged" "[s['after'] for s in x['scores']] == ['converted', 'least squares', 'stage 1', 'stage 2', 'stage 3']"
    holds "the teacher teaches" "x['scores'][4]['same'] > x['scores'][0]['same'] + 0.2 and x['teacher']['right'] > 0.1"
    run "its numbers again" $convert --json
    holds "all of them" "len(x['scores']) == 5"
    refused "its numbers, of another decoder" "another ViT or decoder" $convert --decoder $t/other.gguf
    refused "its numbers, with another window" "other models or settings" $convert --window 64
    for branches in flex swin; do
        run "$branches alone" $convert --branches $branches --stages 1 --run $branches --json
        holds "a stage of $branches" "x['scores'][2]['after'] == 'one stage'"
    done
    refused "a student of the run itself" "trained" $convert --run trained
    refused "a student without a teacher" "none.safetensors" $convert --trained none --run other
    run "times" speed $model --lengths 4,16 --out $t/whole --json
    holds "of three" "[r['who'] for r in x] == ['encoder', 'teacher', 'student'] * 2 and x[4]['state_bytes'] > x[1]['state_bytes']"
    run "the same without new ones" speed $model --lengths 4,16 --out $t/whole
    [ "$(wc -l <$t/whole/speed.txt)" -eq 7 ] && ok || no "times were taken twice"
    speeds="times of other models, sizes or threads"
    "$vqa" speed $model --decoder $t/other.gguf --lengths 4,16 --out $t/whole >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q "$speeds" $t/err && ok || no "times of another decoder"
    "$vqa" speed $model --vision $t/others/vision.safetensors --lengths 4,16 --out $t/whole >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q "$speeds" $t/err && ok || no "times of another ViT"
    "$vqa" speed $model --size 4 --lengths 4,16 --out $t/whole >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q "$speeds" $t/err && ok || no "times of another size"
    run "fewer patches" prune $all --out $t/whole --after 1 --keep 100,25 --json
    holds "all patches, all of them once more, a quarter, one of four" "[r['after'] for r in x] == ['all', '100 %', '25 %', 'one of 2 x 2']"
    holds "of which the second changes nothing" "x[0]['same'] == x[1]['same'] == 1 and x[0]['right'] == x[1]['right'] > 0.1"
    run "fewer patches of students" prune $all --out $t/whole --student three --after 1 --keep 100,25 --json
    holds "as many lines of them" "[r['after'] for r in x] == ['all', '100 %', '25 %', 'one of 2 x 2'] and x[0]['same'] == 1"
    refused "a student of patches that is not there" "none.student.safetensors" prune $all --out $t/whole --after 1 --student none
    refused "more patches than there are" "1 to 100 percent" prune $all --out $t/whole --after 1 --keep 200
    refused "patches of a run that is not there" "train it" prune $all --out $t/whole --run none
    run "a page" report $all --out $t/whole
    [ "$(grep -c 'data:image/png' $t/whole/report.html)" -ge 4 ] && grep -q 'three stages: stage 3' $t/whole/report.html && ok || no "report.html"
    python3 -c "import xml.dom.minidom as d; d.parse('$t/whole/vqa.svg')" && grep -q 'random ViT' $t/whole/vqa.svg && ok || no "vqa.svg"
    run "everything by one command" all $all --steps 20 --student-steps 3 --batch 4 --solve 4 --lengths 4 --out $t/all
    [ -e $t/all/report.html ] && [ -e $t/all/swin.student.safetensors ] && ok || no "what it leaves"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
