#!/bin/sh
# The page of demos/page/play.c: builds it where clang and wasi-libc are, checks its size, and lets tests/play.py run it in Chromium
# where that is; the copy in docs must load. Screenshots go to build/play.     sh tests/play.sh
set -u
t=build/play; mkdir -p $t
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $1"; }
light()                                          # light PAGE: at most 150 kB on their way
{
    bytes=$(gzip -9nc "$1" | wc -c)
    if [ "$bytes" -le 150000 ]; then ok; else no "$1: $bytes bytes compressed, 150000 at most"; fi
}
page()                                           # page LABEL ARGUMENTS...: what tests/play.py says is added
{
    label=$1; shift
    python3 tests/play.py "$chromium" "$@" >$t/page.txt 2>&1; status=$?
    grep -v -E '^[0-9]+ passed' $t/page.txt
    set -- $(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' $t/page.txt | tail -n 1 | tr -dc '0-9 ')
    if [ $# -ne 3 ]; then no "$label: no result (exit status $status)"; return; fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}
browser=1 WASMCC=${WASMCC:-clang}
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$chromium" ]; then skip "the page in a browser (no chromium)"; browser=
elif ! command -v python3 >/dev/null; then skip "the page in a browser (no python3)"; browser=; fi

light docs/play.html
[ -z "$browser" ] || page "the page in docs" docs/play.html
if ! echo 'int main(void) { return 0; }' | "$WASMCC" --target=wasm32-wasi -msimd128 -x c -o $t/try.wasm - 2>$t/try.txt; then
    skip "the page built ($WASMCC does not make WebAssembly here: Debian's clang lld wasi-libc libclang-rt-dev-wasm32)"
elif ! make -s WASMCC="$WASMCC" $t/play.html build/play_native 2>$t/make.txt; then no "make play"; head -n 5 $t/make.txt
else
    if [ -s $t/make.txt ]; then no "warnings"; head -n 5 $t/make.txt; else ok; fi
    light $t/play.html
    build/play_native 1 2 >$t/out.txt 2>&1; [ $? -eq 2 ] && ok || no "too few settings are taken"
    [ -z "$browser" ] || page "the page built" $t/play.html $t build/play_native
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
