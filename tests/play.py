"""The page of demos/page/play.c in headless Chromium: it starts, controls change M, a click shows a row, a stroke of the pen
changes the picture, nothing overflows, no text is small, the console has no error. Screenshots at 1280 and 390 pixels,
light and dark.

The numbers of the WebAssembly are those of the same C file compiled natively, to 1e-5 of the largest.

    python3 tests/play.py CHROMIUM PAGE.html [FOLDER NATIVE]        with a page alone: only that it loads
"""
import array, base64, json, os, pathlib, shutil, signal, subprocess, sys, tempfile, time

passed = failed = 0


def check(name, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED", name, found)


class Browser:
    """Chromium over a pipe: messages are JSON that end with a zero byte."""

    def __init__(self, program):
        self.home = tempfile.mkdtemp()
        out_read, self.write = os.pipe()
        self.read, in_write = os.pipe()

        def pipes():
            a, b = os.dup(out_read), os.dup(in_write)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
                "--user-data-dir=" + self.home,
                "about:blank",
            ],
            preexec_fn=pipes,
            pass_fds=(3, 4, out_read, in_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(out_read), os.close(in_write)
        self.id, self.rest, self.events, self.session = 0, b"", [], None
        page = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.read, 1 << 20)
                if not part:
                    raise RuntimeError("the browser has ended")
                self.rest += part
            one, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.id:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            self.events.append(answer)

    def ask(self, script):
        r = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(
                script + ": " + r["exceptionDetails"].get("exception", {}).get("description", "?")
            )
        return r["result"].get("value")

    def wait(self, script, seconds=20):
        end = time.time() + seconds
        while time.time() < end:
            if self.ask(script):
                return True
            time.sleep(0.05)
        return False

    def screen(self, width, height, dark=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def open(self, page, address=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri() + address)
        return self.wait("document.documentElement?.dataset.ready === 'yes'")

    def mouse(self, *points):
        for n, (x, y) in enumerate(points):
            self.call(
                "Input.dispatchMouseEvent",
                type="mouseMoved" if n else "mousePressed",
                x=x,
                y=y,
                button="left",
                buttons=1,
                clickCount=1,
            )
        self.call(
            "Input.dispatchMouseEvent",
            type="mouseReleased",
            x=points[-1][0],
            y=points[-1][1],
            button="left",
            clickCount=1,
        )

    def tap(self, x, y):
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.call("Emulation.setTouchEmulationEnabled", enabled=False)

    def key(self, key):
        number = {"ArrowDown": 40, "ArrowRight": 39}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number
            )

    def errors(self):
        self.ask("1")
        bad = [
            e
            for e in self.events
            if e["method"] == "Runtime.exceptionThrown"
            or e["method"] == "Runtime.consoleAPICalled"
            and e["params"]["type"] in ("error", "warning", "assert")
            or e["method"] == "Log.entryAdded"
            and e["params"]["entry"]["level"] in ("error", "warning")
        ]
        return [json.dumps(e["params"])[:300] for e in bad]

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(timeout=20)
        shutil.rmtree(self.home, ignore_errors=True)


# M as a hash of its bytes; where an element lies; what is too wide for the window, and what text is small
M = """(() => { const b = new Int32Array(play.wasm.memory.buffer, play.wasm.play_matrix(), 196 * 196);
  let h = 0; for (const v of b) h = h * 31 + v | 0; return h })()"""
BOX = "(() => { const b = document.querySelector('%s').getBoundingClientRect(); return [b.left, b.top, b.width, b.height] })()"
OVER = """[...document.querySelectorAll('body *')].filter(e => { const b = e.getBoundingClientRect(), s = getComputedStyle(e);
  return b.width && s.visibility === 'visible' && s.opacity > 0 && (b.right > %d + 0.5 || b.left < -0.5) })
  .map(e => e.tagName + '#' + e.id + '.' + (e.className.baseVal ?? e.className))"""
SMALL = """[...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
  && e.tagName !== 'SCRIPT' && e.getClientRects().length && parseFloat(getComputedStyle(e).fontSize) < 12)
  .map(e => e.tagName + ' ' + e.textContent.slice(0, 20))"""
SET = """(() => { const e = document.querySelector(`input[name=%s]%s`);
  if (e.type === 'range') e.value = %s; else e.checked = e.type === 'radio' || !e.checked;
  e.dispatchEvent(new Event('input', {bubbles: true})) })()"""


FRESH = "!document.querySelector('#singular').classList.contains('stale')"


def controls(b):
    """Each control, where it is shown, changes M."""
    steps = [
        ("width", "", 3),
        ("sharpness", "", 2),
        ("mask", "[value='1']", 0),
        ("mask", "[value='2']", 0),
        ("window", "", 2),
        ("mask", "[value='3']", 0),
        ("window", "", 5),
        ("shifted", "", 0),
        ("kind", "[value='1']", 0),
        ("feature", "[value='2']", 0),
        ("feature", "[value='3']", 0),
        ("feature", "[value='4']", 0),
        ("normalise", "", 0),
        ("feature", "[value='0']", 0),
        ("mask", "[value='0']", 0),
        ("feature", "[value='1']", 0),
        ("sharpness", "", 0),
        ("kind", "[value='2']", 0),
        ("direction", "[value='1']", 0),
        ("direction", "[value='2']", 0),
        ("step", "", 0),
        ("spread", "", 0),
        ("decay", "", 0.2),
        ("width", "", 6),
    ]
    before = b.ask(M)
    for name, which, value in steps:
        shown = b.ask(
            "document.querySelector(`input[name=%s]%s`).getClientRects().length > 0" % (name, which)
        )
        b.ask(SET % (name, which, value))
        after = b.ask(M)
        check(
            "%s%s = %s changes M" % (name, which, value),
            shown and after != before,
            "shown: %s" % shown,
        )
        before = after


def page(b, path, folder):
    b.screen(1280, 800)
    check("the page starts", b.open(path), b.errors())
    if not folder:
        return
    time.sleep(0.6)
    said = b.ask("document.querySelector('#finding').textContent")
    check("it says what is seen", "Softmax attention" in said, said)
    x, y, w, h = b.ask(BOX % "#x canvas")
    row = "document.querySelector('#x-caption').textContent"
    look = "document.querySelector('#x canvas').toDataURL()"
    before = b.ask("play.now.i"), b.ask(look)
    b.mouse((x + w * 3.5 / 14, y + h * 2.5 / 14))
    check("a click chooses a patch", b.ask("play.now.i") == 31 != before[0], b.ask("play.now.i"))
    b.call("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=5)
    check(
        "and shows its row",
        b.ask(row).startswith("Row 31 of M") and b.ask(look) != before[1],
        b.ask(row),
    )
    b.ask("document.querySelector('#x canvas').focus()")
    b.key("ArrowDown"), b.key("ArrowRight")
    check("arrow keys move it", b.ask("play.now.i") == 46, b.ask("play.now.i"))
    mx, my, mw, mh = b.ask(BOX % "#m canvas")
    b.mouse((mx + mw / 2, my + mh * 100.5 / 196))
    check("a click on M chooses a row", b.ask("play.now.i") == 100, b.ask("play.now.i"))
    controls(b)
    check("rank within its bound", b.wait(FRESH) and b.ask("play.now.rank <= play.now.bound"))
    b.ask(SET % ("direction", "[value='0']", 0))
    check(
        "steps and matrix agree",
        b.ask("play.now.ways") == 1 and 0 <= b.ask("play.now.differ") < 1e-4,
        b.ask("play.now.differ"),
    )
    b.ask("document.querySelector('#run').click()")
    time.sleep(0.4)
    check("it runs", b.ask("play.now.running > 0 && play.now.i > 0"))
    b.ask("document.querySelector('#run').click()")
    before = b.ask(M)
    b.ask("document.querySelector('#draw').click()")
    x, y, w, h = b.ask(BOX % "#x canvas")
    b.mouse(*[(x + w * (0.2 + 0.1 * n), y + h * 0.3) for n in range(6)])
    check("drawing changes M", b.wait(M + " !== %d" % before, 5))
    before = b.ask(M)
    b.ask(
        """(async () => { const c = new OffscreenCanvas(300, 200), g = c.getContext('2d'); g.fillStyle = '#2060a0'; g.fillRect(0, 0, 300, 200);
      g.fillStyle = '#f0c040'; g.fillRect(100, 50, 80, 80); const t = new DataTransfer();
      t.items.add(new File([await c.convertToBlob()], 'dropped.png', {type: 'image/png'}));
      document.dispatchEvent(new DragEvent('drop', {dataTransfer: t, bubbles: true, cancelable: true})) })()"""
    )
    check("a dropped picture is taken", b.wait(M + " !== %d" % before, 5))
    time.sleep(0.5)
    address = b.ask("location.hash")
    check(
        "the address keeps the settings",
        "kind=2" in address and b.open(path, address) and b.ask("play.set.kind") == 2,
        address,
    )


# scene; kind, N, mask, window, shifted, feature, normalise, sharpness, step, spread, A, direction
CASES = [
    (30, 0, 16, 0, 4, 0, 0, 1, 1.4, 0.1, 1, -0.3, 0),
    (12, 0, 64, 1, 4, 0, 0, 1, 8, 0.1, 1, -0.3, 0),
    (2, 0, 8, 2, 3, 0, 0, 1, 1, 0.1, 1, -0.3, 0),
    (33, 0, 32, 3, 5, 1, 0, 1, 2, 0.1, 1, -0.3, 0),
    (30, 1, 16, 0, 4, 0, 0, 1, 1, 0.1, 1, -0.3, 0),
    (12, 1, 32, 0, 4, 0, 1, 0, 2, 0.1, 1, -0.3, 0),
    (2, 1, 4, 1, 4, 0, 2, 1, 1, 0.1, 1, -0.3, 0),
    (33, 1, 16, 1, 4, 0, 3, 0, 1, 0.1, 1, -0.3, 0),
    (30, 2, 16, 0, 4, 0, 0, 1, 1, 0.1, 1, -0.3, 0),
    (12, 2, 64, 0, 4, 0, 0, 1, 1, 1, 2, -10, 1),
    (2, 2, 1, 0, 4, 0, 0, 1, 1, 0.01, 0, -0.01, 2),
]
RUN = """(() => { const e = play.wasm, [scene, ...set] = %s; e.play_scene(scene); e.play_picture();
  new Float64Array(e.memory.buffer, e.play_settings(), 12).set(set);
  const bad = e.play_mix(), mean = e.play_mean(), ways = e.play_steps(), rank = e.play_rank(1);
  const part = (p, n) => { let s = ''; for (const v of new Uint8Array(e.memory.buffer, p, n)) s += String.fromCharCode(v); return btoa(s) };
  return [bad, mean, ways, rank, e.play_bound(), part(e.play_matrix(), 4 * 196 * 196), part(e.play_y(), 4 * 588),
    part(e.play_stepped(), 4 * 588), part(e.play_singular(), 8 * 98)] })()"""
IMPORTS = """(async () => {
  const packed = Uint8Array.from(atob(document.querySelector('#wasm').textContent.trim()), c => c.charCodeAt(0));
  const bytes = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  const m = new WebAssembly.Module(bytes), names = WebAssembly.Module.exports(m).map(e => e.name);
  return [WebAssembly.Module.imports(m).length, names.filter(n => !/^(memory|_initialize|play_.*)$/.test(n))] })()"""
TIMES = """(() => { const e = play.wasm, said = [];
  for (const [name, kind, way] of [['softmax', 0, 0], ['linear', 1, 0], ['SSD', 2, 0], ['SSD both', 2, 2]]) for (const N of [16, 64]) {
    new Float64Array(e.memory.buffer, e.play_settings(), 12).set([kind, N, 0, 4, 0, 0, 1, 1, 0.1, 1, -0.3, way]);
    const t = []; for (let n = 0; n < 25; n++) { const s = performance.now(); e.play_mix(); t.push(performance.now() - s) }
    t.sort((a, b) => a - b); said.push([name + ', N = ' + N, t[0], t[12]]) } return said })()"""


def numbers(b, native):
    """The same bits in, the same numbers out: M, y by the matrix and by steps, singular values."""
    for case in CASES:
        raw = subprocess.run(
            [native] + [str(v) for v in case], stdout=subprocess.PIPE, check=True
        ).stdout
        want, at = [], 0
        for kind, n in (("f", 196 * 196), ("f", 588), ("f", 588), ("d", 98), ("d", 2)):
            want.append(array.array(kind, raw[at:at + n * array.array(kind).itemsize]))
            at += n * want[-1].itemsize
        bad, mean, ways, rank, bound, *found = b.ask(RUN % json.dumps(case))
        check(
            "%s: runs" % (case,),
            at == len(raw) and not bad and 0 <= mean < 1e-4 and ways >= 0,
            (bad, mean, ways),
        )
        for name, a, text in zip(("M", "y", "y by steps", "singular values"), want, found):
            c = array.array(a.typecode, base64.b64decode(text))
            most, differ = max(map(abs, a)), max(abs(u - v) for u, v in zip(a, c))
            check(
                "%s: %s as compiled natively" % (case, name),
                differ <= 1e-5 * most or (name == "y by steps" and not ways),
                "%g of %g" % (differ, most),
            )
        check(
            "%s: rank" % (case,),
            rank <= bound == want[4][1] and abs(rank - want[4][0]) <= 1,
            (rank, bound, list(want[4])),
        )
    imports, others = b.ask(IMPORTS)
    check(
        "the module imports nothing, and what it exports begins with play_",
        imports == 0 and not others,
        (imports, others),
    )
    times = b.ask(TIMES)
    print(
        "M of 196 tokens, ms, the quickest and the median of 25: "
        + "; ".join("%s %.1f %.1f" % tuple(t) for t in times)
    )
    check("M is made within 5 ms", max(t[1] for t in times) <= 5, times)


def touch(b, path):
    b.screen(390, 844)
    b.open(path)
    x, y, w, h = b.ask(BOX % "#x canvas")
    b.tap(x + w * 4.5 / 14, y + h * 1.5 / 14)
    check("a tap chooses a patch", b.wait("play.now.i === 18", 3), b.ask("play.now.i"))


def shots(b, path, folder):
    for name, address in (
        ("softmax", ""),
        ("linear", "#kind=1"),
        ("ssd", "#kind=2&direction=0&i=134"),
        ("both", "#kind=2&direction=2&scene=12"),
        ("windows", "#mask=3&window=5&scene=2"),
    ):
        for width, height in ((1280, 900), (390, 844)):
            for dark in (False, True):
                if name not in ("softmax", "ssd") and dark:
                    continue
                b.screen(width, height, dark)
                if not b.open(path, address):
                    check("%s at %d opens" % (name, width), False)
                    continue
                b.wait(FRESH)
                over, small = b.ask(OVER % width), b.ask(SMALL)
                # innerWidth grows with what is too wide
                wide = b.ask("document.documentElement.scrollWidth > %d" % width)
                check(
                    "%s at %d: nothing is wider than the window" % (name, width),
                    not over and not wide,
                    over[:5],
                )
                check("%s at %d: no text below 12 pixels" % (name, width), not small, small[:5])
                size = b.call("Page.getLayoutMetrics")["cssContentSize"]
                png = b.call(
                    "Page.captureScreenshot",
                    format="png",
                    captureBeyondViewport=True,
                    clip={"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1},
                )["data"]
                file = os.path.join(
                    folder, "%s-%d-%s.png" % (name, width, "dark" if dark else "light")
                )
                with open(file, "wb") as f:
                    f.write(base64.b64decode(png))


def main():
    folder = sys.argv[3] if len(sys.argv) > 4 else None
    # a browser that says nothing more is a failure, not a wait
    signal.alarm(400)
    b = Browser(sys.argv[1])
    try:
        page(b, sys.argv[2], folder)
        if folder:
            numbers(b, sys.argv[4])
            touch(b, sys.argv[2])
            shots(b, sys.argv[2], folder)
        bad = b.errors()
        check("no error in the console", not bad, bad[:3])
    finally:
        b.close()
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


sys.exit(main())
