#!/bin/sh
# The small programs of demos/: each compiles with the cc line at its head, without a word under -std=c99 -Wall -Wextra, runs
# without arguments, finds itself right (status 0), and prints what is looked for here.   sh tests/demos.sh
# From the repository's root. Ends with N passed, N failed, N skipped.
set -u
t=build/demos-test; rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; head -n 5 "${2:-/dev/null}"; }

# builds NAME: by its own line, with -std, warnings and the place of the program added. The first compiles the header, too, with
# less optimization. The others are linked to an object of it in its place.
make -s build/mamba_mix.o build/mamba_mix_f64.o || exit 1
linked() { sed 's/^#define MAMBA_MIX_IMPLEMENTATION$//' demos/$1.c >$t/$1.c; }
builds()
{
    line=$(sed -n "s/^ *\(cc .*demos\/$1\.c .*\) && \.\/$1.*/\1/p" demos/$1.c | head -n 1)
    if [ -z "$line" ]; then no "$1: no cc line at its head"; return 1; fi
    from=demos/$1.c
    if [ $1 != mix ]; then
        object=build/mamba_mix.o; if grep -q 'MMIX_REAL double' $from; then object=build/mamba_mix_f64.o; fi
        linked $1
        from="-Idemos $t/$1.c $object"
    else from="-O0 $from"
    fi
    set -- "$1" $(echo "$line" | sed "s/^cc //; s| demos/$1.c | $from |; s| -o $1 | -o $t/$1 |")
    name=$1; shift
    if "${CC:-cc}" -std=c99 -Wall -Wextra "$@" >$t/$name.cc 2>&1 && [ ! -s $t/$name.cc ]; then ok; return 0; fi
    no "$name: $line" $t/$name.cc; return 1
}
runs()                                           # runs NAME PATTERN...: a line of its output for each extended pattern
{
    name=$1; shift
    builds $name || return
    $t/$name >$t/$name.txt 2>$t/$name.err </dev/null; status=$?
    if [ $status -eq 0 ] && [ ! -s $t/$name.err ]; then ok; else no "$name: status $status" $t/$name.err; tail -n 3 $t/$name.txt; fi
    for pattern in "$@"; do
        if grep -Eq -e "$pattern" $t/$name.txt; then ok; else no "$name prints no line like \"$pattern\"" $t/$name.txt; fi
    done
    longest=$(awk '{ if (length($0) > n) n = length($0) } END { print n }' demos/$name.c)
    if [ "$longest" -le 128 ]; then ok; else no "$name: a line of $longest characters"; fi
}
small='[0-9.]+e-(0[6-9]|[1-9][0-9])'             # below 1e-5
runs mix "largest .Y - M X.: $small" '^c \|  *[%#@]' '^a .*\|.*\|.*\|'
runs raw "^largest .y - definition.: $small" '^dA\[2\]: -41\.44[0-9]+ by mmix_raw_backward, -41\.4[0-9]+ by'
runs steps 'after 4096 tokens: +[0-9]{7,} bytes' 'after 4096 tokens: +1[67][0-9]{3} bytes' 'whole and its steps: [0-9.]+e-0[5-9]'
runs gradients '^loss 0\.1246' '^A .*tape \+0\.0178393834   difference \+0\.01783938' '^dt .*worst of 14: [0-9.]+e-(0[7-9]|1[0-9])'
runs custom_op "op and its parts: $small" '^  2\.0  1\.944  1\.069'
runs vit 'blocks\.0\.attn\.qkv\.weight   192 64$' '^42 parameters, 164864 numbers' "mmix_vision's: (0\.0e\+00|$small)"
runs photo '^196 patches of 192 features' 'AUC of the likeness for the disc: 0\.9'
runs neighbours 'nearest is of the same kind: 2[0-4] of 24' '^sea +0  is like   sea'
runs classify '^softmax attention .*0\.[6-9]' '^linear attention ' '^Mamba-2 .*(0\.9|1\.0)'
runs write '^step   0  loss [4-6]' 'that lay in the house that Jack built\.$' '^That is the rhyme, to the letter\.$'
runs text '^step 1 of 300: [78]' '^3 \+ 4 = 7$' '^6 \+ 7 = 13$'
runs chat '12\[hello\] 7\[,\] 17\[ world\] 19\[' '^These tokens are right'
# chat says in one line what is missing
refuses_by()                                     # refuses_by PROGRAM PATTERN ARGUMENT...
{
    program=$1; pattern=$2; shift 2
    [ -x $t/$program ] || return
    $t/$program "$@" >$t/refused.txt 2>&1 </dev/null; status=$?
    if [ $status -eq 1 ] && [ $(wc -l <$t/refused.txt) -eq 1 ] && grep -Eq -e "$pattern" $t/refused.txt; then ok
    else no "$program $*: status $status, expected \"$pattern\"" $t/refused.txt; fi
}
refuses() { refuses_by chat "$@"; }
refuses 'nowhere: there is no such file or folder$' $t/nowhere x
mkdir $t/model
refuses 'model has no tokenizer\.json \(that of state-spaces.* EleutherAI/gpt-neox-20b' $t/model x
cat >$t/model/tokenizer.json <<'EOF'
{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},
 "model":{"type":"BPE","vocab":{"a":0},"merges":[]}}
EOF
refuses 'no chat template; --plain goes on with a text$' $t/model x
refuses 'model has no model\.safetensors, .*pytorch_model\.bin$' $t/model x --plain
echo '{"chat_template":"{{ words }}"}' >$t/model/tokenizer_config.json
refuses 'chat template is not done \(.*Granite.*\); --plain goes on with a text$' $t/model x
echo '{"chat_template":"<|im_start|> <|im_end|>"}' >$t/model/tokenizer_config.json
refuses 'no switch for thinking$' $t/model x --think 1
refuses '^chat: --plain has no --think$' $t/model x --think 1 --plain
# ask answers what transformers does, by the model's template, and says in one line what is missing
runs ask '^SmolVLM +640 x 480   3 x 4 tiles and the whole:  832 tokens$' '^That is right'
for folder in tests/golden/vlm/smolvlm tests/golden/vlm/idefics3 tests/golden/vlm/llava-few tests/golden/qwen/qwen2 tests/golden/qwen/qwen2.5-flat; do
    [ -x $t/ask ] || continue
    if $t/ask $folder $folder/picture.ppm "what is this?" --count 8 2>$t/ask.err | cmp -s - $folder/answer.txt; then ok
    else no "ask $folder: another answer than transformers'" $t/ask.err; fi
done
for folder in tests/golden/vlm/smolvlm tests/golden/qwen/qwen2 tests/golden/qwen/qwen2.5-flat; do
    [ -x $t/ask ] || continue
    if $t/ask $folder/decoder.gguf --mmproj $folder/tower.gguf $folder/picture.ppm "what is this?" --count 8 2>$t/ask.err | cmp -s - $folder/answer.txt; then ok
    else no "ask $folder's GGUFs: another answer than transformers'" $t/ask.err; fi
done
for folder in tests/golden/vlm/nvila tests/golden/vlm/nvila-tiles tests/golden/vlm/nvila-scales; do
    [ -x $t/ask ] || continue
    for more in "" -two "-film --film 2"; do
        pictures=$folder/picture.ppm; [ -z "$more" ] || pictures="$pictures $pictures"
        set -- ${more#-two}; kind=${more%% *}; [ $# -eq 0 ] || shift
        if $t/ask $folder $pictures "what is this?" --count 8 "$@" 2>$t/ask.err | cmp -s - $folder/answer$kind.txt; then ok
        else no "ask $folder $more: another answer than PyTorch's" $t/ask.err; fi
    done
done
asked() { refuses_by ask "$@"; }
asked 'nowhere: expected a folder with model\.safetensors' $t/nowhere x
asked '^ask: no question; --help says' tests/golden/vlm/smolvlm
asked '^ask: no question: the last argument is a file$' tests/golden/vlm/smolvlm tests/golden/vlm/smolvlm/picture.ppm
refuses 'expected a tokenizer \(tokenizer\.ggml\.model\), found none$' tests/golden/vlm/smolvlm/tower.gguf x
asked 'general\.architecture: expected qwen2vl, found llama|expected <.image_pad.> among them' tests/golden/vlm/smolvlm/decoder.gguf x --mmproj tests/golden/qwen/qwen2/tower.gguf
asked 'missing\.ppm: missing, or not to be read' tests/golden/vlm/smolvlm $t/missing.ppm x
asked '101 pictures, expected at most the 900' tests/golden/vlm/smolvlm $(for i in $(seq 101); do echo tests/golden/vlm/smolvlm/picture.ppm; done) x
asked '^ask: --type: give float' tests/golden/vlm/smolvlm x --type int3
asked 'mmix_vlm_longest: kind is 1, expected MMIX_VLM_IDEFICS3' tests/golden/vlm/llava-few x --longest 28
asked '13 of the ids are image tokens, expected 9 for' tests/golden/vlm/nvila tests/golden/vlm/nvila/picture.ppm 'an <image><image><image><image>'
asked 'count is 1, expected a multiple of film_frames, 2' tests/golden/vlm/nvila tests/golden/vlm/nvila/picture.ppm x --film 2
asked 'this model reads no films' tests/golden/vlm/smolvlm tests/golden/vlm/smolvlm/picture.ppm x --film 2
refuses 'an empty question$' tests/golden/language/llama-yarn ''
refuses '^chat: --coun: no such option; --help has all$' x --coun 3
refuses '^chat: --seed without its value; --help has all$' x --seed
refuses_by photo '^photo: expected MODEL PICTURE' x
refuses_by neighbours '^neighbours: expected MODEL PICTURE' x
refuses_by text '^text: expected FILE STEPS BEGINNING' Makefile abc
refuses_by text 'nowhere cannot be opened$' $t/nowhere
refuses_by text 'model/tokenizer_config.json: expected a file of more than 128 bytes' $t/model/tokenizer_config.json
runs swap '^attention +loss 0\.0' '^M-MATE, untaught +loss [1-9]' '^stage 3.* loss 0\.[01].*memory +1[0-9]{5} bytes'
runs selfsup '^named rightly: 0\.[34][0-9]+ before, 0\.[5-9]'
runs search '^12 of 12 pictures find themselves$' '^"A Dog" is 7 8 6 8 8 8 8 8$'
if [ -x $t/search ] && command -v "${PYTHON:-python3}" >/dev/null; then
    "${PYTHON:-python3}" tests/search.py $t/search >$t/search-python.txt 2>&1
    grep -v -E '^[0-9]+ passed' $t/search-python.txt
    set -- $(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' $t/search-python.txt | tr -dc '0-9 ')
    if [ $# -eq 3 ]; then passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3)); else no "tests/search.py ends without a result"; fi
else echo "skipped: searches among pictures (no ${PYTHON:-python3})"; skipped=$((skipped + 1)); fi
# every program of the folder is run here and named in its README
for f in demos/*.c; do
    name=$(basename $f .c)
    if [ -e $t/$name.txt ]; then ok; else no "$name is not run"; fi
    if grep -q "($name\.c)" demos/README.md; then ok; else no "$name is not in demos/README.md"; fi
done
# and where a program is wrong, it is noticed
if [ -x $t/vit ]; then
    linked vit
    sed 's/normed, x, NULL);/normed, NULL, NULL);/' $t/vit.c >$t/vit-wrong.c
    if ! "${CC:-cc}" -O1 -Idemos $t/vit-wrong.c build/mamba_mix.o -o $t/vit-wrong -lm -lpthread 2>$t/wrong.cc; then
        no "a ViT without its residual is not built" $t/wrong.cc
    elif $t/vit-wrong >$t/wrong.txt 2>&1; then no "a ViT without its residual passes"; else ok; fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
