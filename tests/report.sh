# Sourced by the tests of demos: what holds of every report. ok and no, failed and skipped are the caller's.

ordered()                                        # ordered FILE TEXT...: these come in this order, each for the first time
{
    file=$1 before=0; shift
    for text in "$@"; do
        at=$(grep -n -F -m 1 -e "$text" "$file" | cut -d: -f1)
        if [ "${at:-0}" -gt $before ]; then ok; else no "$file: \"$text\" is not where it belongs (line ${at:-none})"; fi
        before=${at:-$before}
    done
}

# readable FILE SCRATCH: in Chromium, on a phone of 390 pixels, nothing is cut off but what scrolls of itself, no chart cuts a
# word off, and no text is smaller than 12 pixels. Without Chromium: skipped.
readable()
{
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
    if [ -z "$chromium" ]; then skipped=$((skipped + 1)); echo "skipped: $1 on a phone (no chromium)"; return; fi
    cat "$1" - >"$2.phone.html" <<'END'
<script>addEventListener("load", () => {
    let small = [], cut = [], texts = 0
    for (const e of document.querySelectorAll("svg text")) {
        const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect()
        if (a.left < b.left - 1 || a.right > b.right + 1) cut.push(e.textContent)
    }
    for (const e of document.body.querySelectorAll(":not(script):not(style)")) {
        const right = e.getBoundingClientRect().right
        if (right > innerWidth + 1 && !e.closest(".wide,svg")) cut.push(e.tagName + " to " + right)
        if (![...e.childNodes].some(c => c.nodeType == 3 && c.data.trim())) continue
        const size = parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ? e.getScreenCTM().a : 1)
        texts++
        if (size < 11.95) small.push(e.textContent.slice(0, 20) + " " + size)
    }
    parent.postMessage(texts + " texts, small: [" + small.slice(0, 3) + "], cut: [" + cut.slice(0, 3) + "]", "*")
})</script>
END
    cat >"$2.frame.html" <<END
<pre id="said"></pre><script>onmessage = e => { said.textContent = e.data }</script>
<iframe width="390" height="800" style="border:0" src="$(basename "$2").phone.html"></iframe>
END
    said=$("$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=8000 --dump-dom \
        "file://$(cd "$(dirname "$2")" && pwd)/$(basename "$2").frame.html" 2>/dev/null | sed -n 's/.*<pre id="said">\([^<]*\)<.*/\1/p')
    case $said in [1-9]*"small: [], cut: []") ok ;; *) no "$1 on a phone: ${said:-Chromium said nothing}" ;; esac
}
