#!/bin/sh
# What compilers, the linker and the documents say of the header.
#   tests/check.sh compilers     warnings under strict flags, build switches, names that leave the object, mutable data
#   tests/check.sh documents [FILE...]     the code in README.md and docs, and what it prints
set -u
W="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow"
t=build/check-$1; rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
# what the tests have built already; all of it with warnings counted
make -s build/mamba_mix.o build/mamba_mix_f64.o build/cuda_host.o || exit 1
try()                                            # try LABEL COMMAND...: passes with status 0 and no word
{
    label=$1; shift
    out=$("$@" 2>&1); status=$?
    if [ $status -eq 0 ] && [ -z "$out" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$label: status $status"; echo "$out" | head -n 8; fi
}
printf '#define MAMBA_MIX_IMPLEMENTATION\n#include "mamba_mix.h"\n#include "mamba_mix.h"\n' >$t/u.c
printf '#include "mamba_mix.h"\nmmix_ctx *user(void);\nmmix_ctx *user(void) { return mmix_create(0); }\n' >$t/d.c
printf '#define MMIX_STATIC\n#define MAMBA_MIX_IMPLEMENTATION\n#include "mamba_mix.h"\nmmix_ctx *user(void);\nmmix_ctx *user(void) { return mmix_create(0); }\n' >$t/s.c
for unit in u d s; do cp $t/$unit.c $t/$unit.cc; done

if [ "$1" = compilers ]; then
# one COMPILER STANDARD EXTENSION UNITS EXTRA...: the named units become objects, the others are read. Nearly all that a
# compiler warns of it knows when it has read a unit; what it says of functions that it can not inline, or that end without a
# value, it knows when it makes code: gcc does that in the builds of the tests, every other compiler here once.
one()
{
    cc=$1 std=$2 ext=$3 objects=$4 units="u d"; shift 4
    case $std in c99|c++11) units="u d s" ;; esac    # with MMIX_STATIC in one standard of each compiler
    if ! command -v "$cc" >/dev/null 2>&1; then skipped=$((skipped + 1)); echo "skipped: no $cc here"; return; fi
    for unit in $units; do
        case $objects in *$unit*) what="-c -o $t/$unit.o" ;; *) what=-fsyntax-only ;; esac
        try "$cc -std=$std $* $unit" "$cc" -std="$std" $W -O0 "$@" -I. $what $t/$unit.$ext
    done
}
one gcc c99 c s; one gcc c17 c ""; one g++ c++11 cc ""; one g++ c++17 cc ud
one clang c99 c ""; one clang c11 c ud; one clang++ c++11 cc ""; one clang++ c++17 cc ud
one gcc c99 c "" -DMMIX_REAL=double; one clang++ c++17 cc "" -DMMIX_REAL=double
# an even number of the four switches is on, so that any three of them come in all ways. clang reads it three times as fast
reads=gcc; if command -v clang >/dev/null 2>&1; then reads=clang; fi
for a in "" -DMMIX_NO_STDIO; do for b in "" -DMMIX_NO_THREADS; do for c in "" -DMMIX_NO_SIMD; do for d in "" -DMMIX_REGRESSION; do
    on=$(echo "$a$b$c$d" | grep -o DMMIX | wc -l)
    [ $((on % 2)) -eq 0 ] || continue
    case "$a$b$c$d" in -DMMIX_NO_STDIO-DMMIX_NO_THREADS-DMMIX_NO_SIMD*) cc="gcc -c -o $t/x.o" ;; *) cc="$reads -fsyntax-only" ;; esac
    try "$cc $a $b $c $d" $cc -std=c99 -O0 -Wall -Wextra -Wpedantic $a $b $c $d -I. $t/u.c
done; done; done; done

# MMIX_MIXERS_ONLY: the implementation ends after the mixers, in C and C++ and with the other switches, and a program of raw
# calls, mixers and gradients gets what it gets from the whole
for a in "gcc -std=c99 -x c" "g++ -std=c++11 -x c++" "clang -std=c99 -x c" "clang++ -std=c++11 -x c++"; do
    if ! command -v "${a%% *}" >/dev/null 2>&1; then skipped=$((skipped + 1)); echo "skipped: no ${a%% *} here"; continue; fi
    try "mixers only, $a" ${a%-x*} -DMMIX_MIXERS_ONLY -DMAMBA_MIX_IMPLEMENTATION $W -I. -fsyntax-only -x ${a##*-x } mamba_mix.h
done
for a in -DMMIX_STATIC -DMMIX_REAL=double -DMMIX_NO_STDIO -DMMIX_NO_THREADS -DMMIX_NO_SIMD -DMMIX_REGRESSION; do
    try "mixers only $a" gcc -std=c99 $W -DMMIX_MIXERS_ONLY -DMAMBA_MIX_IMPLEMENTATION $a -I. -fsyntax-only -x c mamba_mix.h
done
cat >$t/mixers.c <<'EOF'
#define MAMBA_MIX_IMPLEMENTATION
#include "mamba_mix.h"
#include <stdio.h>
int main(void)                                   /* softmax attention, by arrays and by tensors, and its gradient */
{
    enum { L = 9, H = 2, N = 4, n = L * H * N };
    mmix_ctx *m = mmix_create(NULL);
    mmix_tensor *t[3], *y;
    mmix_real out[n], *scratch;
    mmix_raw x;
    mmix_mixer s;
    int same = 1;
    memset(&x, 0, sizeof x);
    for (int i = 0; i < 3; i++) t[i] = mmix_require_grad(mmix_fill_normal(m, mmix_new4(m, 1, L, H, N), 1, (uint64_t)i));
    x.o.kind = MMIX_MIXER_SOFTMAX;
    x.B = 1;
    x.L = x.S = L;
    x.H = H;
    x.N = x.P = N;
    x.q = mmix_head_view_rows(mmix_data(t[0]), L, H, N, H);
    x.k = mmix_head_view_rows(mmix_data(t[1]), L, H, N, H);
    x.v = mmix_head_view_rows(mmix_data(t[2]), L, H, N, H);
    x.y = mmix_head_view_rows(out, L, H, N, H);
    scratch = (mmix_real *)malloc(mmix_raw_scratch_size(&x, 0) * sizeof *scratch);
    mmix_raw_forward(&x, scratch);
    free(scratch);
    mmix_record(m, 1);
    s = mmix_mixer_softmax(t[0], t[1], t[2]);
    y = mmix_mix(m, &s);
    for (int i = 0; y && i < n; i++) same &= fabs((double)(mmix_data(y)[i] - out[i])) < 1e-6;
    mmix_backward(m, mmix_sum(m, mmix_mul(m, y, y)));
    for (int i = 0; !mmix_error(m) && i < n; i++) printf("%.9g\n", (double)mmix_data(mmix_grad(t[0]))[i]);
    if (mmix_error(m)) puts(mmix_error(m));
    mmix_destroy(m);
    return !same;
}
EOF
try "mixers only, a program" gcc -std=c99 -O0 -Wall -Wextra -DMMIX_MIXERS_ONLY -I. $t/mixers.c -o $t/mixers -lm -lpthread
sed '/^#define MAMBA_MIX_IMPLEMENTATION$/d; s/^#include <stdio.h>/&\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>/' $t/mixers.c >$t/mixers_whole.c
try "the same with the whole" gcc -std=c99 -O0 -Wall -Wextra -I. $t/mixers_whole.c build/mamba_mix.o -o $t/mixers_whole -lm -lpthread
if $t/mixers >$t/mixers.txt && $t/mixers_whole >$t/whole.txt && [ "$(wc -l <$t/mixers.txt)" = 72 ] && cmp -s $t/mixers.txt $t/whole.txt; then passed=$((passed + 1))
else failed=$((failed + 1)); echo "MMIX_MIXERS_ONLY computes something else"; fi
# what it leaves out is not declared
printf '#define MMIX_MIXERS_ONLY\n#include "mamba_mix.h"\nint main(void) { return mmix_vision_load(0, 0) == 0; }\n' >$t/hidden.c
if gcc -std=c99 -Werror -I. -fsyntax-only $t/hidden.c >$t/hidden.txt 2>&1; then failed=$((failed + 1)); echo "MMIX_MIXERS_ONLY declares mmix_vision_load"
else passed=$((passed + 1)); fi

# fast math makes results wrong: a compiler that says it has it gets an error that tells what to do; clang does not
# say that it has parts of it, and is right with them
refused()                                        # refused COMMAND...: fails, and says why
{
    if "$@" >$t/fast.txt 2>&1; then failed=$((failed + 1)); echo "built: $*"
    elif grep -q 'error.*add -fno-fast-math' $t/fast.txt; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "another reason than wanted: $*"; head -n 3 $t/fast.txt; fi
}
cat >$t/far.c <<'EOF'
#define MAMBA_MIX_IMPLEMENTATION
#include "mamba_mix.h"
int main(void)                                   /* one query, 640 keys: blocks of keys are joined by exp */
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.simd = MMIX_SIMD_NONE;
    mmix_ctx *m = mmix_create(&o);
    size_t L = 640;
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 1, 1, 1), 1), *k = mmix_new4(m, 1, L, 1, 1), *v = mmix_new4(m, 1, L, 1, 1);
    double sum = 0, y = 0;
    for (size_t i = 0; i < L; i++) {
        double e = exp(3.0 * (double)i / (double)L), x = (double)i / (double)L;
        mmix_data(k)[i] = (float)(3 * x);
        mmix_data(v)[i] = (float)x;
        sum += e;
        y += e * x;
    }
    mmix_mixer s = mmix_mixer_softmax(q, k, v);
    int wrong = fabs((double)mmix_data(mmix_mix(m, &s))[0] - y / sum) > 1e-4;
    mmix_destroy(m);
    return wrong;
}
EOF
for cc in gcc clang; do
    if ! command -v $cc >/dev/null 2>&1; then skipped=$((skipped + 1)); echo "skipped: no $cc here"; continue; fi
    for fast in -ffast-math -Ofast -ffinite-math-only; do
        refused $cc -std=c99 $fast -I. -fsyntax-only $t/u.c
        try "$cc $fast, declarations" $cc -std=c99 $fast -I. -fsyntax-only $t/d.c
    done
    # -w: clang's driver has a word to say of its own about one option that takes another back
    try "$cc -ffast-math -fno-fast-math" $cc -std=c99 -w -ffast-math -fno-fast-math -I. -fsyntax-only $t/u.c
done
refused gcc -std=c99 -fassociative-math -fno-signed-zeros -fno-trapping-math -I. -fsyntax-only $t/u.c
if command -v clang >/dev/null 2>&1; then
    try "clang, unsafe math" clang -std=c99 -O2 -w -funsafe-math-optimizations -DMMIX_MIXERS_ONLY -I. $t/far.c -o $t/far -lm -lpthread
    try "clang, unsafe math, run" $t/far
else skipped=$((skipped + 1)); echo "skipped: no clang here"; fi

# names that Qt and windows.h define away
try "Qt's and Windows' macros" g++ -std=c++11 -Dslots= -Dsignals= -Demit= -Dforeach= -Dforever= -Dnear= -Dfar= -Dsmall=char -Dinterface=struct -I. -fsyntax-only $t/u.cc

# tcc has neither threads nor SIMD, and takes addresses alone as constants
if command -v tcc >/dev/null 2>&1; then
    printf '#define MAMBA_MIX_IMPLEMENTATION\n#include "mamba_mix.h"\nint main(void) { mmix_ctx *m = mmix_create(0); return (int)(mmix_item(mmix_sum(m, mmix_softmax(m, mmix_fill_normal(m, mmix_new2(m, 2, 3), 1, 1), -1))) * 10 + 0.5) != 20; }\n' >$t/tcc.c
    try "tcc" tcc -I. -o $t/tcc $t/tcc.c -lm
    try "tcc, run" $t/tcc
    # and README's program, as it stands there
    awk '/^```c$/ { n++; on = n == 1; next } /^```/ { on = 0 } on' README.md >$t/readme.c
    try "tcc, README" tcc -I. -o $t/readme $t/readme.c -lm
    [ "$($t/readme | grep -c ' y = ')" = 3 ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "README's program by tcc prints something else"; }
else skipped=$((skipped + 1)); echo "skipped: no tcc here"; fi

# the demos know Windows' names, too
if command -v "${MINGW:=x86_64-w64-mingw32-gcc}" >/dev/null 2>&1; then
    for f in dino features linmu linear mixers tables decode typeseg smol vqa; do try "Windows, $f" "$MINGW" -std=gnu99 -DMMIX_LINKED -fsyntax-only demos/studies/$f.c; done
else skipped=$((skipped + 1)); echo "skipped: no $MINGW here"; fi

# names: everything that leaves the object begins with mmix_, no data can be written, float and double do not link
# (.data.rel.ro has constants with addresses in them, which the loader fills in before it locks them)
bad=$(nm build/mamba_mix.o | awk '$2 ~ /^[TDBRC]$/ && $3 !~ /^mmix_/ { print "exported: " $3 }'
    objdump -t build/mamba_mix.o | awk '/ O .*(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && !/\.data\.rel\.ro/ { print "mutable: " $NF }')
try "symbols" printf '%s' "$bad"
printf '#include "mamba_mix.h"\nint main(void) { return mmix_create(0) == 0; }\n' >$t/main.c
try "float unit, float implementation" gcc -std=c99 -I. $t/main.c build/mamba_mix.o -o $t/main -lm -lpthread
# every function whose declaration has reals in it, or a struct that points to them, carries the type in its symbol
awk '/^#endif .* MAMBA_MIX_H/ { exit } /^MMIXDEF/ { on = 1; d = "" } on { d = d " " $0 } on && /;/ { on = 0; if (d ~ /mmix_real|mmix_head_view |mmix_raw_|mmix_optimizer|mmix_source /) print d }' mamba_mix.h |
    grep -v 'mmix_raw_[a-z]*_s[ct]' | sed 's/^[^(]*[ *]\(mmix_[a-z0-9_]*\)(.*/\1/' | grep -v '^mmix_\(optimizer_free\|adamw_step\|sgd_step\)$' >$t/reals.txt
[ "$(wc -l <$t/reals.txt)" -ge 16 ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "only $(wc -l <$t/reals.txt) functions with reals found"; }
for f in mmix_create $(cat $t/reals.txt); do
    printf '#include "mamba_mix.h"\nint main(void) { return (int)(intptr_t)%s; }\n' "$f" >$t/main.c
    if gcc -std=c99 -DMMIX_REAL=double -I. $t/main.c build/mamba_mix.o -o $t/main -lm -lpthread 2>$t/link.txt; then
        failed=$((failed + 1)); echo "a double unit that calls $f links with a float implementation"
    elif grep -q 'undefined reference' $t/link.txt; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "$f:"; head -n 3 $t/link.txt; fi
done

# the CUDA file: declarations for C and C++, its opening example on a device that is not there, no double, no MMIX_STATIC
printf '#include "mamba_mix_cuda.cu"\n#include "mamba_mix_cuda.cu"\nint user(mmix_ctx *m);\nint user(mmix_ctx *m) { return mmix_cuda_attach(m, 0); }\n' >$t/cu.c
cp $t/cu.c $t/cu.cc
try "CUDA declarations, gcc c99" gcc -std=c99 $W -I. -c $t/cu.c -o $t/cu.o
try "CUDA declarations, g++ c++11" g++ -std=c++11 $W -I. -c $t/cu.cc -o $t/cu.o
try "CUDA file, g++" g++ -std=c++17 -Wall -Wextra -DMMIX_CUDA_HOST -include tests/cuda_host.h -I. -x c++ -fsyntax-only mamba_mix_cuda.cu
bad=$(nm build/cuda_host.o | awk '$2 ~ /^[TDBRC]$/ && $3 !~ /^(mmix_|cuda_host_switch)/ { print "exported: " $3 }')
try "CUDA symbols" printf '%s' "$bad"
awk '/one call that lets a program/ { on = 1; next } /nvcc -O3 -arch=native program.c/ { on = 0 } on { sub(/^       /, ""); print }' mamba_mix_cuda.cu >$t/cuda_opening.c
try "CUDA example" gcc -std=c99 -O0 -Wall -Wextra -I. -c $t/cuda_opening.c -o $t/cuda_opening.o
try "CUDA example, linked" g++ $t/cuda_opening.o build/cuda_host.o -o $t/cuda_opening -lm -lpthread
if grep -q 'int main' $t/cuda_opening.c && sed '/^#define MAMBA_MIX_IMPLEMENTATION$/d; s/B = 64, L = 198, H = 16/B = 1, L = 30, H = 1/; s/options.quiet = 1;/options.least = 1;/' $t/cuda_opening.c >$t/cuda_small.c \
    && gcc -std=c99 -O0 -I. -c $t/cuda_small.c -o $t/cuda_small.o && g++ $t/cuda_small.o build/cuda_host.o build/mamba_mix.o -o $t/cuda_small -lm -lpthread \
    && $t/cuda_small | grep -q '^1 calls on the GPU$'; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "the CUDA file's example did not run"; fi
sed '/^#define MAMBA_MIX_IMPLEMENTATION$/d' $t/cuda_opening.c >$t/cuda_double.c
for bad in "-DMMIX_REAL=double $t/cuda_double.c" "-DMMIX_STATIC -c -x c++ -DMMIX_CUDA_HOST -include tests/cuda_host.h mamba_mix_cuda.cu" \
    "-DMMIX_REAL=double -c -x c++ -DMMIX_CUDA_HOST -include tests/cuda_host.h mamba_mix_cuda.cu"; do
    case $bad in *cuda_double*) more="build/cuda_host.o build/mamba_mix_f64.o -lstdc++ -lm -lpthread" ;; *) more= ;; esac
    if gcc -I. $bad $more -o $t/bad >$t/bad.txt 2>&1; then failed=$((failed + 1)); echo "built: gcc $bad"
    elif grep -Eq 'mmix_cuda_attach_double|is for MMIX_REAL=float|which MMIX_STATIC hides' $t/bad.txt; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "another reason than wanted: gcc $bad"; head -n 3 $t/bad.txt; fi
done

else
# the header's own example (at >>api-mixers) and every C block with a main in the documents compiles, runs and prints what tests/printed.c
# finds written below it; the implementation, which is in all of them, is linked but for the header's example, and what it
# includes is there as if it were not
compared=0 once="-include errno.h -include float.h -include math.h -include stdio.h -include stdlib.h -include string.h"
try "implementation for the documents" gcc -std=c99 -Wall -Wextra -I. -fsyntax-only $t/u.c
awk '/A complete program. It/ { on = 1; next } /^   ====/ { on = 0 } on { sub(/^       /, ""); print }' mamba_mix.h >$t/opening.c
# and the three recipes of its first screen, in a function that is given what they take
recipe()                                         # recipe N GIVEN: what follows "   N. " in the header's head
{
    printf '#include "mamba_mix.h"\n#include <stdio.h>\nvoid recipe(%s);\nvoid recipe(%s)\n{\n' "$2" "$2"
    awk -v n="   $1. " 'index($0, n) == 1 { on = 1; next } on && /^   [^ ]/ { exit } on' mamba_mix.h
    printf '}\n'
}
recipe 1 "size_t L, size_t H, size_t N, float *q, float *k, float *v, float *y, float *scratch" >$t/recipe_1.c
recipe 2 "const uint8_t *rgb, size_t width, size_t height" >$t/recipe_2.c
recipe 3 "const mmix_picture *pictures, size_t count" >$t/recipe_3.c
for n in 1 2 3; do
    if [ "$(wc -l <$t/recipe_$n.c)" -ge 11 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "recipe $n of the header not found"; fi
    try "recipe $n" gcc -std=c99 -Wall -Wextra -I. -fsyntax-only $t/recipe_$n.c
done
try "printed" gcc -std=c99 -O1 $W tests/printed.c -o $t/printed -lm
[ -d ../shared ] && ln -sfn "$PWD/../shared" build/shared        # what a program calls ../shared, from $t
# program FILE DOCUMENT N: it compiles, runs and, if a document is named, prints what is written there
program()
{
    f=$1
    if ! grep -q 'int main' "$f"; then return; fi
    object=build/mamba_mix.o; if grep -q '^#define MMIX_REAL double$' "$f"; then object=build/mamba_mix_f64.o; fi
    if [ $# = 1 ]; then try "$f" gcc -std=c99 -O0 -Wall -Wextra -I. "$f" -o "$f.out" -lm -lpthread
    else
        sed -i '/^#define MAMBA_MIX_IMPLEMENTATION$/d' "$f"      # linked
        try "$f" gcc -std=c99 -O1 -Wall -Wextra $once -I. "$f" $object -o "$f.out" -lm -lpthread
    fi
    if (cd $t && "./$(basename "$f").out" >"$(basename "$f").txt" 2>&1 </dev/null); then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "$f fails"; tail -n 3 "$f.txt"; return; fi
    [ $# = 1 ] && return
    out=$($t/printed "$2" "$3" "$f.txt")
    case $? in
        0) passed=$((passed + 1)); compared=$((compared + 1)) ;;
        2) skipped=$((skipped + 1)); echo "skipped: $2, program $3: $out" ;;
        *) failed=$((failed + 1)); echo "$f prints something else"; echo "$out" ;;
    esac
}
program $t/opening.c
shift
for md in ${*:-README.md docs/*.md}; do
    base=$t/$(echo "${md%.md}" | tr / -)
    awk -v base="$base" '/^```c$/ { on = 1; n++; file = base "_" n ".c"; next } /^```/ { on = 0 } on { print > file }' "$md"
    n=1; while [ -f "${base}_$n.c" ]; do program "${base}_$n.c" "$md" $n; n=$((n + 1)); done
done
# a line of code that a document quotes is still in the source; … stands for what was left out. A comment <!-- yours -->
# before an indented block says that the lines of it are the reader's own
cat mamba_mix.h mamba_mix_cuda.cu demos/*.c demos/studies/*.[ch] | tr -d '[:space:]' >$t/source.txt
awk 'FNR == 1 { fenced = 0; yours = 0 } /^```/ { fenced = !fenced } /^<!-- yours -->$/ { yours = 1; next } /^[^ ]/ { yours = 0 }
    !fenced && !yours && /^    / && (/mmixi_|MMIXI_|[^a-z][ajkr]->/ || /^ *[A-Za-z_*({}].*[;{},][ \t]*(\/\*.*\*\/)?$/) {
        sub(/\/\*.*\*\//, ""); gsub(/[ \t]/, "")
        n = split($0, part, "…"); for (i = 1; i <= n; i++) if (length(part[i]) > 3) print FILENAME ":" FNR, part[i] }' \
    ${*:-README.md docs/*.md} >$t/quoted.txt
while read -r where line; do
    if grep -qF -- "$line" $t/source.txt; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$where is not in the source: $line"; fi
done <$t/quoted.txt
# links between documents lead to files and headings that are there, and one that does not is noticed
if command -v python3 >/dev/null 2>&1; then
    try "links" python3 tests/links.py ${*:-README.md docs/*.md}
    printf '# One heading\n\n[here](#one-heading), [nowhere](#no-heading)\n' >$t/link.md
    said=$(python3 tests/links.py $t/link.md)
    if [ "$said" = "$t/link.md: #no-heading leads nowhere" ]; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "a link that leads nowhere: $said"; fi
else skipped=$((skipped + 1)); echo "skipped: links (no python3 here)"; fi
# and where the document says something else, it is noticed
printf '```c\nint main(void) { }\n```\n\n    one 1.50 and 2\n' >$t/document.txt
for said in "one 1.49 and 2" "one 1.50 and 3" "two 1.50 and 2" "one 1.50 and 2 more" "one 1.52 and 2"; do
    echo "$said" >$t/said.txt; $t/printed $t/document.txt 1 $t/said.txt >/dev/null; status=$?
    case $said in *1.49*) good=0 ;; *) good=1 ;; esac
    [ $status = $good ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$said: status $status"; }
done
[ $compared -ge 1 ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "no program of a document was compared"; }
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
