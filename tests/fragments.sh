#!/bin/sh
# What README.md and docs/api.md say of the interface, beside their programs.
# - A C block without main compiles, inside of a function, after what the comment above it says is given:
#       <!-- given: mmix_ctx *m; mmix_mixer ssd -->
# - Names of the library that they mention are in the header, and each heading of its public part is in docs/api.md.
# - The program of docs/models.md that opens a photograph prints its vector.
# - The CMake lines and the pkg-config file of docs/api.md build a program.
# Ends with N passed, N failed, N skipped.
set -u
t=build/fragments; rm -rf $t; mkdir -p $t
passed=0 failed=0 skipped=0
good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "$1"; head -n 8 "${2:-/dev/null}"; }

# extract BASE DOCUMENT: BASE_1.c, … with lines numbered as in the document
extract()
{
    awk -v base="$1" -v document="$2" '
        /^<!-- given:/ { given = $0; sub(/^<!-- given: */, "", given); sub(/ *-->$/, "", given) }
        /^```/ && on {
            on = 0
            if (code !~ /int main/) {
                file = base "_" ++n ".c"
                print "#include \"mamba_mix.h\"\n#include <stdio.h>\n#include <string.h>" >file
                count = split(given, one, / *; */)
                for (i = 1; i <= count; i++) if (one[i]) print "extern " one[i] ";" >file
                printf "void fragment(void);\nvoid fragment(void)\n{\n#line %d \"%s\"\n%s}\n", first, document, code >file
            }
            given = ""; next
        }
        /^```c$/ { on = 1; code = ""; first = NR + 1; next }
        on { code = code $0 "\n" }' "$2"
}
compiles() { gcc -std=c99 -Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-but-set-variable -fsyntax-only -I. "$1" >$t/said.txt 2>&1; }

for document in README.md docs/api.md; do extract $t/"$(basename $document .md)" $document; done
for f in $t/*.c; do if compiles "$f"; then good; else bad "$f" $t/said.txt; fi; done
[ $passed -ge 8 ] || bad "only $passed fragments found"
# and what is wrong is seen
for wrong in 'mmix_no_such(m);' 'mmix_reset(m, 1);' 'int x = mmix_grad(y);' 'mmix_reset(n);'; do
    printf '<!-- given: mmix_ctx *m; mmix_tensor *y -->\n```c\n%s\n```\n' "$wrong" >$t/wrong.md
    extract $t/wrong $t/wrong.md
    if compiles $t/wrong_1.c; then bad "compiles: $wrong"; else good; fi
done

# a name that ends in _ is the beginning of several
absent()
{
    grep -ohE '\b(mmix|MMIX)_[A-Za-z0-9_]+' "$@" | sort -u | while read -r name; do
        case $name in *_) word=$name ;; *) word="$name\\b" ;; esac
        grep -Eq "\\b$word" mamba_mix.h mamba_mix_cuda.cu || echo "$name"
    done
}
absent README.md docs/api.md >$t/absent.txt
if [ -s $t/absent.txt ]; then bad "in README.md or docs/api.md, but not in the header:" $t/absent.txt; else good; fi
if [ "$(echo 'mmix_reset mmix_rese mmix_' | absent -)" = mmix_rese ]; then good; else bad "a name that is not in the header was not seen"; fi
tags=$(sed -n 's/.*==== >>\(api-[a-z]*\) .*/\1/p' mamba_mix.h)
[ "$(echo "$tags" | wc -l)" -ge 12 ] || bad "headings of the public part: $tags"
for tag in $tags; do if grep -q "^| .>>$tag. |" docs/api.md; then good; else bad "docs/api.md has no >>$tag"; fi; done

# the program that both kinds of build make
printf '#include "mamba_mix.h"\nint main(void) { mmix_ctx *m = mmix_create(NULL); int status = mmix_threads(m) < 1; mmix_destroy(m); return status; }\n' >$t/main.txt
block() { awk -v kind="$1" '$0 == "```" kind { on = 1; next } /^```/ { on = 0 } on' docs/api.md; }
if command -v cmake >/dev/null 2>&1; then
    mkdir -p $t/cmake/third_party; cp $t/main.txt $t/cmake/main.c; cp $t/main.txt $t/cmake/main.cc; ln -s "$PWD" $t/cmake/third_party/mamba_mix
    for language in "C main.c" "CXX main.cc"; do         # in a project of C, and in one of C++ alone
        { echo 'cmake_minimum_required(VERSION 3.13)'; echo "project(program ${language% *})"; block cmake
          echo "add_executable(program ${language#* })"; echo 'target_link_libraries(program PRIVATE mamba_mix)'; } >$t/cmake/CMakeLists.txt
        if (cd $t/cmake && rm -rf out && cmake -S . -B out && cmake --build out && out/program) >$t/said.txt 2>&1; then good
        else tail -n 8 $t/said.txt >$t/last.txt; bad "CMake, $language" $t/last.txt; fi
    done
else skipped=$((skipped + 1)); echo "skipped: CMake (none here)"; fi
if command -v pkg-config >/dev/null 2>&1; then
    block pc >$t/mamba_mix.pc; printf '#define MAMBA_MIX_IMPLEMENTATION\n' | cat - $t/main.txt >$t/main.c
    flags=$(PKG_CONFIG_PATH=$t pkg-config --define-variable=includedir="$PWD" --cflags --libs mamba_mix 2>&1)
    if (cd $t && gcc -O0 main.c -o program $flags && ./program) >$t/said.txt 2>&1; then good; else bad "pkg-config: $flags" $t/said.txt; fi
else skipped=$((skipped + 1)); echo "skipped: pkg-config (none here)"; fi

# the program of docs/models.md that opens a photograph, by its own line but without optimization, on a picture and weights that are here
awk '$0 == "```c photograph.c" { on = 1; next } /^```/ { on = 0 } on' docs/models.md >$t/photograph.c
command=$(sed -n "s|^    cc \(.*\) photograph.c -o photograph |gcc -std=c99 \1 $t/photograph.c -o $t/photograph |p" docs/models.md | sed 's/ -O2 / -O0 /')
if ! echo '#include <stb_image.h>' | gcc -I/usr/include/stb -fsyntax-only -x c - 2>/dev/null; then
    skipped=$((skipped + 1)); echo "skipped: docs/models.md's photograph.c (no stb_image.h here)"
elif $command >$t/said.txt 2>&1 && $t/photograph docs/tiny/vit.safetensors docs/tiny/scene.ppm >$t/said.txt &&
    [ "$(grep -Ec '^-?[0-9][0-9.e-]*$' $t/said.txt)" = 16 ]; then good
else bad "docs/models.md, photograph.c: $command" $t/said.txt; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
