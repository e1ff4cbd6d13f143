#!/bin/sh
# The programs of docs/tiny: each compiles with the cc line at its head, by gcc and by clang, without a word under
# -std=c99 -Wall -Wextra -Wpedantic, runs within 5 seconds of processor time, and prints what is looked for here; its row in
# docs/tiny/README.md is right; and where a program is wrong, tests/tiny.c notices.   sh tests/tiny.sh
# From the repository's root. Ends with N passed, N failed, N skipped.
set -u
t=build/tiny-test; rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; head -n 5 "${2:-/dev/null}"; }
code_lines() { awk '{ if (on) { if (/\*\//) on = 0; next } if (/^[ \t]*\/\*/) { if (!/\*\//) on = 1; next } if (NF) n++ } END { print n }' "$1"; }

# builds FILE NUMBER: by its own line
builds()
{
    line=$(sed -n "s|^ *\(cc -O2 $1 -o $2 -lm\) && \./$2.*|\1|p" "$1" | head -n 1)
    if [ -z "$line" ]; then no "$1: no cc line at its head"; return 1; fi
    set -- "$1" "$2" $(echo "$line" | sed "s/^cc //; s| -o $2 | -o $t/$2 |")
    file=$1; shift 2
    for cc in clang gcc; do
        if ! command -v $cc >/dev/null 2>&1; then skipped=$((skipped + 1)); echo "skipped: no $cc here"; continue; fi
        if $cc -std=c99 -Wall -Wextra -Wpedantic "$@" >$t/cc.txt 2>&1 && [ ! -s $t/cc.txt ]; then ok
        else no "$file: $cc $*" $t/cc.txt; return 1; fi
    done
}
runs()                                           # runs FILE PATTERN...: a line of its output for each extended pattern
{
    file=docs/tiny/$1.c number=${1%%_*}; shift
    builds $file $number || return
    (ulimit -t 5; $t/$number >$t/$number.txt 2>$t/$number.err </dev/null); status=$?
    if [ $status -eq 0 ] && [ ! -s $t/$number.err ]; then ok; else no "$file: status $status" $t/$number.err; fi
    for pattern in "$@"; do
        if grep -Eq -e "$pattern" $t/$number.txt; then ok; else no "$file prints no line like \"$pattern\"" $t/$number.txt; fi
    done
    if grep -Eq '^#include "|mmix_|mamba_mix\.h' $file; then no "$file needs more than the standard library"; else ok; fi
    if LC_ALL=C.UTF-8 grep -Eq '^.{93}' $file; then no "$file has a line of more than 92 characters"; else ok; fi
    if grep -Eq "^\| \[$(basename $file)\]\($(basename $file)\) \|.*\| $(code_lines $file) \|" docs/tiny/README.md; then ok
    else no "docs/tiny/README.md has no row of $file with $(code_lines $file) lines"; fi
}
runs 01_softmax_attention '^it takes of itself 0\.0548; an equal share is 0\.0069$' '\[@\]'
runs 02_linear_attention '^    64 +524288 +524288 +[0-9]e-0[67]$' '^  1024 +134217728 +8388608 +[0-9]e-0[56]$'
runs 03_scan 'M x and the scan differ by [0-9.]+e-0[4-9], ' 'the same bits$' '\[@\]'
runs 04_chunks '^     1 .* 0e\+00$' '^  1024 .* [0-9]e-0[67]$'
runs 05_scan_backward '^dA +1 .* [0-9]e-(09|1[0-9])$' '^dC +120 .* [0-9]e-(09|1[0-9])$'
runs 06_product '^loops ' '^tiles '
runs 07_vit '^16 numbers a patch' '\[@\]'
runs 08_dino '^DINO.* 0\.[4-8][0-9]+$' '^ F( F){11}$' '^without the centre.* 0\.00[0-9]$' '^not sharp.* 2\.0[0-9]+$' '^( \?){12}$'
runs 09_knn '^always floor: right 0\.507, balanced 0\.250$' '^place: right 0\.8' '^pixels: right 0\.9'
runs 10_decoder '^step 2000: loss 0\.0' '^this is the cow that tossed the dog that   state 464, cache 1800$' 'jack built\.$' 'differ by [0-9]e-0[4-9]$'
for f in docs/tiny/*.c; do if [ -e $t/"$(basename $f | cut -c1-2)".txt ]; then ok; else no "$f is not run"; fi; done

# what 07 does not read it refuses with a word
refuses()                                        # refuses FILE TEXT
{
    $t/07 "$1" >$t/refused.txt 2>&1; status=$?
    if [ $status -eq 1 ] && grep -q -e "$2" $t/refused.txt; then ok; else no "07 with $1: status $status" $t/refused.txt; fi
}
weights=docs/tiny/vit.safetensors
LC_ALL=C sed 's/"F32"/"F16"/' $weights >$t/f16.safetensors
LC_ALL=C sed 's/"layernorm\.bias"/"layernorm.nono"/' $weights >$t/name.safetensors
head -c 20000 $weights >$t/short.safetensors
head -c 200 $weights >$t/shorter.safetensors
LC_ALL=C sed 's/"encoder\.layer\.1\./"encoder.other.1./g' $weights >$t/more.safetensors
refuses $t/more.safetensors 'more.safetensors: it has more tensors than DINOv2$'
refuses $t/f16.safetensors 'not F32'
refuses $t/name.safetensors '^"layernorm\.bias": the file has no tensor of this name$'
refuses $t/short.safetensors 'too short'
refuses $t/shorter.safetensors 'no \.safetensors file'
refuses docs/tiny/scene.ppm 'no \.safetensors file'
refuses $t/absent 'no \.safetensors file'
# a copy of the tests beside programs of which one is wrong
make -s build/mamba_mix.o || exit 1
w=$t/wrong; mkdir -p $w/tests $w/docs/tiny
cp tests/tiny.c tests/test.h $w/tests/; cp mamba_mix.h $w/
wrong()                                          # wrong NUMBER SED: with this change the tests of NUMBER fail
{
    cp docs/tiny/*.c $w/docs/tiny/
    sed -i "$2" $w/docs/tiny/$1_*.c
    if cmp -s $w/docs/tiny/$1_*.c docs/tiny/$1_*.c; then no "$1: \"$2\" changes nothing"; return; fi
    if ! "${CC:-cc}" -std=c99 -O1 -w -DMMIX_LINKED $w/tests/tiny.c build/mamba_mix.o -o $w/tiny -lm -lpthread >$t/cc.txt 2>&1; then
        no "$1: \"$2\" does not compile" $t/cc.txt; return; fi
    if $w/tiny $1 >$t/tests.txt 2>&1; then no "$1 with \"$2\" passes its tests"
    elif grep -Eq '^[0-9]+ passed, [1-9][0-9]* failed' $t/tests.txt; then ok; else no "$1: \"$2\" ends the tests" $t/tests.txt; fi
}
wrong 01 's/row\[j\] \/= sum;/row[j] \/= sum + 0.001f;/'
wrong 02 's/+= v\[j \* P + p\] \* g/+= 1.0001f * v[j * P + p] * g/'
wrong 03 's/fade \* h_p\[n\] + step/fade * h_p[n] + fade * step/'
wrong 04 's/h\[i\] \*= F_i0;/h[i] *= 1;/'
wrong 05 's/dstep + in\.A\[0\] \* f \* df/dstep + in.A[0] * df/'
wrong 06 's/i + r < n ? i + r : n - 1/i + r < n ? i : n - 1/'
wrong 07 's/ls\[i % D\] \* u\[i\]/u[i]/'
wrong 07 's/attention(u, q, k, v, L, N);/attention(u, q, v, k, L, N);/'
wrong 08 's/(i + B) % (2 \* B)/i/'
wrong 09 's/cosine\[i\] = -2;//'
wrong 10 's/add(db_j, c_i, ds_ij, N);/add(db_j, c_i, fade * ds_ij, N);/'
wrong 10 's/\*= expf(delta \* A);/*= expf(A);/'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
