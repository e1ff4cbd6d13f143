"""demos/studies/typeseg.c beside a plain loop, and beside the package typeseg and its network in ONNX Runtime.

    python3 tests/typeseg.py build/typeseg             from the repository's root
    python3 tests/typeseg.py build/typeseg --time      the time of a byte, in turns with ONNX Runtime, one thread each
    python3 tests/typeseg.py build/typeseg --short     without the package and the longest report

Bad arguments, broken files, and random weights beside the definition as a loop need Python alone. The rest wants numpy,
onnxruntime and typeseg 0.2.7 (PyPI): installed, or TYPESEG names the folder that holds the unpacked package. Nothing is
downloaded here.
"""
import array, importlib.util, io, math, os, random, re, struct, subprocess, sys, tempfile, xml.etree.ElementTree, zipfile
from pathlib import Path

BLOCKS, WIDTH, STATE, RANK, TAPS, KINDS, IDS = 6, 256, 16, 16, 4, 35, 130
SHAPES = {"LayerNorm_0__scale": (WIDTH,), "LayerNorm_0__bias": (WIDTH,), "Dense_0__kernel": (WIDTH, 2 * WIDTH),
          "Dense_0__bias": (2 * WIDTH,), "Conv_0__kernel": (TAPS, 1, WIDTH), "Conv_0__bias": (WIDTH,),
          "Dense_1__kernel": (WIDTH, RANK + 2 * STATE), "Dense_1__bias": (RANK + 2 * STATE,),
          "Dense_2__kernel": (RANK, WIDTH), "Dense_2__bias": (WIDTH,), "A_log": (WIDTH, STATE), "D": (WIDTH,),
          "Dense_3__kernel": (WIDTH, WIDTH), "Dense_3__bias": (WIDTH,)}
ALL = {f"CheckpointMambaBlock1D_{k}__{name}": shape for k in range(BLOCKS) for name, shape in SHAPES.items()}
ALL |= {"Embed_0__embedding": (IDS, WIDTH), "LayerNorm_0__scale": (WIDTH,), "LayerNorm_0__bias": (WIDTH,),
        "Dense_0__kernel": (WIDTH, KINDS), "Dense_0__bias": (KINDS,)}
passed = failed = skipped = 0


def check(name, right, found=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAILED {name} {found}")


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL)


def refused(name, pattern, *arguments):
    """Status 2, one line that names the program and has the pattern in it, and nothing on stdout."""
    made = run(*arguments)
    lines = made.stderr.decode(errors="replace").splitlines()
    right = made.returncode == 2 and not made.stdout and len(lines) == 1 and lines[0].startswith("typeseg: ")
    check(f"refused: {name}", right and re.search(pattern, lines[0]), f"status {made.returncode}: {lines[:3]}")


def npy(values, shape, kind="<f4"):
    head = str({"descr": kind, "fortran_order": False, "shape": tuple(shape)})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes()


def write_npz(path, arrays, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression, compresslevel=6) as z:
        for name, data in arrays.items():
            z.writestr(name + ".npy", data)


def read_npy(path):
    """Rows of a float32 matrix."""
    data = Path(path).read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    rows, columns = map(int, re.search(rb"\((\d+), (\d+)\)", data[:begin]).groups())
    numbers = array.array("f", data[begin:])
    return [numbers[i * columns:(i + 1) * columns] for i in range(rows)]


def random_weights(seed):
    """Of every array, as in a network that has just begun to learn."""
    rng, weights = random.Random(seed), {}
    for name, shape in ALL.items():
        size = math.prod(shape)
        deviation = 1 / math.sqrt(size / shape[-1]) if len(shape) > 1 else 0.1
        mean = 1 if name.endswith("scale") or name.endswith("__D") else 0
        if name.endswith("A_log"):
            deviation, mean = 0.5, 0.5
        weights[name] = array.array("f", (rng.gauss(mean, deviation) for _ in range(size)))
    return weights


# ---- the definition as a loop, in double ----

def product(rows, kernel, bias):
    """rows times kernel (in, out), plus bias."""
    out = len(bias)
    columns = [kernel[o::out] for o in range(out)]
    return [[math.fsum(map(float.__mul__, row, map(float, c))) + b for c, b in zip(columns, bias)] for row in rows]


def norm(rows, scale, bias):
    made = []
    for row in rows:
        mean = math.fsum(row) / len(row)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / len(row) + 1e-6)
        made.append([(v - mean) / deviation * s + b for v, s, b in zip(row, scale, bias)])
    return made


def silu(v):
    return v / (1 + math.exp(-v))


def scan(x, dt, B, C, A, D):
    """One direction, for one channel: A has STATE numbers."""
    h, y = [0.0] * STATE, []
    for t in range(len(x)):
        h = [math.exp(dt[t] * a) * s + dt[t] * x[t] * b for a, s, b in zip(A, h, B[t])]
        y.append(math.fsum(s * c for s, c in zip(h, C[t])) + D * x[t])
    return y


def loop(weights, ids):
    h = [[float(v) for v in weights["Embed_0__embedding"][i * WIDTH:(i + 1) * WIDTH]] for i in ids]
    n = len(ids)
    for k in range(BLOCKS):
        w = {name: weights[f"CheckpointMambaBlock1D_{k}__{name}"] for name in SHAPES}
        xz = product(norm(h, w["LayerNorm_0__scale"], w["LayerNorm_0__bias"]), w["Dense_0__kernel"], w["Dense_0__bias"])
        x = [[0.0] * WIDTH for _ in range(n)]
        for t in range(n):
            for c in range(WIDTH):
                taps = [w["Conv_0__kernel"][j * WIDTH + c] * xz[t + j - 1][c] for j in range(TAPS) if 0 <= t + j - 1 < n]
                x[t][c] = silu(sum(taps) + w["Conv_0__bias"][c])
        mixed = product(x, w["Dense_1__kernel"], w["Dense_1__bias"])
        dt = product([row[:RANK] for row in mixed], w["Dense_2__kernel"], w["Dense_2__bias"])
        dt = [[math.log1p(math.exp(v)) + 1e-4 for v in row] for row in dt]
        B, C = [row[RANK:RANK + STATE] for row in mixed], [row[RANK + STATE:] for row in mixed]
        y = [[0.0] * WIDTH for _ in range(n)]
        for c in range(WIDTH):
            A = [-math.exp(a) for a in w["A_log"][c * STATE:(c + 1) * STATE]]
            xs, ds = [row[c] for row in x], [row[c] for row in dt]
            forward = scan(xs, ds, B, C, A, w["D"][c])
            reverse = scan(xs[::-1], ds[::-1], B[::-1], C[::-1], A, w["D"][c])[::-1]
            for t in range(n):
                y[t][c] = (forward[t] + reverse[t]) * silu(xz[t][WIDTH + c])
        y = product(y, w["Dense_3__kernel"], w["Dense_3__bias"])
        h = [[a + b for a, b in zip(*rows)] for rows in zip(h, y)]
    h = norm(h, weights["LayerNorm_0__scale"], weights["LayerNorm_0__bias"])
    return product(h, weights["Dense_0__kernel"], weights["Dense_0__bias"])


# ---- without the package ----

def arguments(folder):
    (folder / "latin1.txt").write_bytes(b"caf\xe9 au lait")
    (folder / "surrogate.txt").write_bytes(b"\xed\xa0\x80")
    (folder / "overlong.txt").write_bytes(b"ab\xc0\xaf")
    (folder / "cut.txt").write_bytes(b"ab\xe2\x82")
    load = "--load", folder / "random.npz"
    refused("no file", "there is no --load")
    refused("an unknown option", "no such option", "--frobnicate")
    refused("an option without its value", "wants a value", "--load")
    refused("a text and a file", "one of them", *load, "--text", "a", "--file", "b")
    refused("no characters without a report", "--out", *load, "--at", "1")
    refused("a character that is not there", "below 3", *load, "--text", "abc", "--at", "3", "--out", folder / "o")
    refused("characters that are no numbers", "below 3", *load, "--text", "abc", "--at", "1,x", "--out", folder / "o")
    refused("a character too many", "up to 8", *load, "--text", "abc", "--at", ",".join("0" * 9), "--out", folder / "o")
    refused("threads of 0", "from 1 to 64", *load, "--threads", "0")
    refused("no text", "cannot be opened", *load, "--file", folder / "missing.txt")
    refused("a folder as a text", "found another thing", *load, "--file", folder)
    refused("Latin-1", "byte 0xE9 at 3", *load, "--file", folder / "latin1.txt")
    refused("a surrogate", "byte 0xED at 0", *load, "--file", folder / "surrogate.txt")
    refused("an overlong form", "byte 0xC0 at 2", *load, "--file", folder / "overlong.txt")
    refused("a character that is cut", "byte 0xE2 at 2", *load, "--file", folder / "cut.txt")
    refused("a folder that cannot be made", "cannot write", *load, "--out", folder / "latin1.txt" / "o")
    check("refused runs leave no report", not (folder / "o" / "report.html").exists())
    check("help", run("--help").returncode == 0)


def broken_files(folder, good):
    """Each is refused with a line that says what is wrong."""
    def refuse(name, pattern, arrays=None, data=None):
        path = folder / "broken.npz"
        if arrays is not None:
            write_npz(path, arrays, zipfile.ZIP_STORED)
        else:
            path.write_bytes(data)
        refused(name, pattern, "--load", path, "--text", "abc")

    one, floats = "CheckpointMambaBlock1D_3__A_log", array.array("f", [0.5] * (WIDTH * STATE))
    whole = (folder / "random.npz").read_bytes()
    refuse("an array too few", rf"expected an array {one} \(256, 16\), found none",
           {n: d for n, d in good.items() if n != one})
    refuse("an array too many", "expected 89 arrays, found 90",
           good | {"CheckpointMambaBlock1D_6__D": npy(floats[:256], (256,))})
    refuse("a shape turned around", r"of shape \(256, 16\), found \(16, 256\)", good | {one: npy(floats, (16, 256))})
    refuse("a shape too short", r"of shape \(256, 16\), found \(255, 16\)", good | {one: npy(floats[16:], (255, 16))})
    refuse("an axis too few", r"of shape \(4, 1, 256\), found \(4, 256\)",
           good | {"CheckpointMambaBlock1D_0__Conv_0__kernel": npy(floats[:1024], (4, 256))})
    refuse("more numbers promised than there are", ".", good | {one: npy(floats, (256, 17))})
    refuse("texts in place of numbers", ".", good | {one: npy(floats, (256, 16), "<U1")})
    nans = array.array("f", [math.nan] * KINDS)
    refuse("a number that is none", "is no number", good | {"Dense_0__bias": npy(nans, (KINDS,))})
    refuse("nothing", ".", data=b"")
    refuse("no archive", ".", data=b"this is no archive of arrays")
    refuse("a zip of another thing", ".", {"readme": b"hello"})
    for share in (0.001, 0.1, 0.5, 0.9, 0.999):
        refuse(f"cut at {share} of it", ".", data=whole[:int(share * len(whole))])
    # a byte of the deflated stream of the first array, and what the headers promise
    begin = 30 + sum(struct.unpack("<HH", whole[26:30]))
    for place in (begin, begin + 1, begin + 5, begin + 900):
        refuse(f"byte {place} changed", "expected",
               data=whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1:])
    central = whole.index(b"PK\x01\x02")
    for place, name in ((10, "method"), (20, "packed size"), (24, "size"), (28, "length of a name"), (42, "place")):
        for value in (b"\2\0", b"\xff\xff", b"\x01\x7f"):
            refuse(f"{name} {value.hex()} in the directory", ".",
                   data=whole[:central + place] + value + whole[central + place + 2:])
    rng = random.Random(7)
    fewer = 0
    for _ in range(40):                      # anything may happen but a crash, a leak, or a second line
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            places = (rng.randrange(len(data)), rng.randrange(central, len(data)), rng.randrange(64))
            data[rng.choice(places)] = rng.randrange(256)
        (folder / "broken.npz").write_bytes(data)
        made = run("--load", folder / "broken.npz", "--text", "abc")
        lines = made.stderr.decode(errors="replace").splitlines()
        fewer += made.returncode == 2 and len(lines) == 1 or made.returncode == 0 and not lines
    check("files with bytes changed", fewer == 40, f"{fewer} of 40")


def stretches(output):
    """Lines of stdout as (begin, end, kind, probability)."""
    lines = [line.split()[:4] for line in output.decode().split("\n") if line]
    return [(int(begin), int(end), kind, float(share)) for begin, end, kind, share in lines]


def without_package(folder):
    weights = random_weights(1)
    good = {name: npy(weights[name], shape) for name, shape in ALL.items()}
    write_npz(folder / "random.npz", good)
    write_npz(folder / "stored.npz", good, zipfile.ZIP_STORED)
    arguments(folder)
    broken_files(folder, good)

    text = "if (é) 1;"                       # of 10 bytes
    ids = [b if b < 128 else 128 for b in text.encode()]
    out = folder / "logits.npy"
    made = run("--load", folder / "random.npz", "--text", text, "--logits", out)
    check("random weights", made.returncode == 0, made.stderr)
    want, got = loop(weights, ids), read_npy(out)
    error = max(abs(a - b) for rows in zip(want, got) for a, b in zip(*rows))
    check("the definition as a loop", error < 1e-4 and max(map(max, want)) > 0.5, f"{error:.2e} apart")
    run("--load", folder / "stored.npz", "--text", text, "--logits", folder / "stored.npy")
    check("stored and deflated files are the same", out.read_bytes() == (folder / "stored.npy").read_bytes())
    for threads in (1, 3):
        run("--load", folder / "random.npz", "--threads", threads, "--logits", folder / f"{threads}.npy")
    check("threads change nothing", (folder / "1.npy").read_bytes() == (folder / "3.npy").read_bytes())
    empty = run("--load", folder / "random.npz", "--text", "")
    check("an empty text", empty.returncode == 0 and not empty.stdout and b"empty" in empty.stderr)

    page = folder / "page"
    given_texts = ["a", "ab", "<&>\"é\x01\tß\n\n" * 3]
    if "--short" not in sys.argv:
        given_texts.append(None)             # the program's own, which is long
    for text in given_texts:
        given = ("--text", text) if text else ()
        made = run("--load", folder / "random.npz", *given, "--out", page, "--figures", page)
        check(f"a report of {text!r}", made.returncode == 0, made.stderr)
        html = (page / "report.html").read_text()
        shown = re.search(r'<pre class="text">(.*?)</pre>', html, re.S).group(1)
        shown = re.sub("<[^>]*>", "", shown)
        if text:
            escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
            check("the page holds the text", shown == escaped.replace("\x01", " "), repr(shown))
        check("six strips for each character", html.count('class="strip"') == 6 * html.count("<h2>What character"))
        check("a figure", xml.etree.ElementTree.parse(page / "typeseg.svg").getroot().tag.endswith("svg"))
        spans = stretches(made.stdout)
        check("stretches follow one another", all(a[1] == b[0] for a, b in zip(spans, spans[1:])) and spans[0][0] == 0)


# ---- beside the package ----

def texts(package):
    here = Path(__file__).resolve().parent.parent
    code, prose = (here / "demos/mix.c").read_text(), (here / "README.md").read_text()
    rng = random.Random(3)
    yield from ("", "a", " ", "\n", "é", "\x00", "🎉", "ab", "日本語 text 🎉\x01 x", " \t\n ", "  x  ", "SELECT 1")
    yield "<div onclick=\"alert('x')\">hi</div>\n.btn { color: red; }\nfor f in *; do echo $f; done\n"
    yield '{"a": [1, 2, {"b": null}]}\nVGhlIHF1aWNrIGJyb3duIGZveA==\nkey: value\n'
    yield "".join(map(chr, rng.choices(range(32, 127), k=700)))
    yield "".join(map(chr, rng.choices(range(1, 0xD000), k=300)))
    yield code
    yield prose[:3000] + code[:2000] + prose[3000:5000]
    yield (code + prose + (here / "tests/run.sh").read_text() * 2)[:20000]


def session(package):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(package / "data/mamba_al.onnx"), options, providers=["CPUExecutionProvider"])


def beside_package(package, folder):
    import numpy as np, typeseg
    network, worst = session(package), 0
    load = "--load", package / "data/mamba_al.npz"
    rules = typeseg.Options(boundary_snap=False, paired_delimiter_fill=False)
    none = typeseg.Options(boundary_snap=False, paired_delimiter_fill=False, whitespace_relabel=False,
                           confidence_gating=False, min_run_normalize=False)
    path, out = folder / "text.txt", folder / "logits.npy"
    for text in texts(package):
        name = f"{len(text)} characters, {text[:12]!r}"
        path.write_bytes(text.encode())
        for options, flags in ((rules, ()), (none, ("--raw",))):
            made = run(*load, "--file", path, "--logits", out, *flags)
            check(name, made.returncode == 0, made.stderr[-200:])
            want = [(s.start, s.end, s.label, s.confidence) for s in typeseg.precise(text, options).segments]
            got = stretches(made.stdout)
            check(f"stretches of {name} {flags}", [s[:3] for s in got] == [s[:3] for s in want],
                  [pair for pair in zip(got, want) if pair[0][:3] != pair[1][:3]][:2])
            check(f"probabilities of {name} {flags}", all(abs(a[3] - b[3]) < 0.002 for a, b in zip(got, want)))
        if text:
            tokens = typeseg._tokenize.text_to_bytes(text).astype(np.int64)
            want = network.run(None, {"ids": np.where(tokens < 128, tokens, 128)})[0]
            error = float(np.abs(np.load(out) - want).max())
            worst = max(worst, error)
            check(f"ONNX Runtime on {name}", np.load(out).shape == want.shape and error < 1e-4, f"{error:.2e} apart")
    print(f"largest difference of a logit from ONNX Runtime's: {worst:.1e}")


def measure(package, folder):
    """Least times of a byte, in turns."""
    import numpy as np, time
    network = session(package)
    for n in (1000, 20000):
        data = (Path(__file__).resolve().parent.parent / "docs/api.md").read_bytes().decode()[:n].encode()[:n]
        data = bytes(b if b < 128 else 63 for b in data)
        (folder / "text.txt").write_bytes(data)
        ids, ours, theirs = np.frombuffer(data, np.uint8).astype(np.int64), [], []
        for _ in range(5):
            made = run("--load", package / "data/mamba_al.npz", "--file", folder / "text.txt", "--threads", 1,
                       "--repeat", 3)
            ours.append(float(re.search(rb"([0-9.]+) us a byte", made.stderr).group(1)))
            for _ in range(3):
                begin = time.perf_counter()
                network.run(None, {"ids": ids})
                theirs.append(1e6 * (time.perf_counter() - begin) / len(data))
        print(f"{len(data)} bytes, microseconds a byte: ours {min(ours):.1f}, ONNX Runtime {min(theirs):.1f}")
        print(made.stderr.decode().strip())


if len(sys.argv) < 2:
    sys.exit(__doc__)
program, place = sys.argv[1], os.environ.get("TYPESEG")
if place:
    sys.path.insert(0, place)
missing = [name for name in ("numpy", "onnxruntime", "typeseg") if not importlib.util.find_spec(name)]
package = None if missing else Path(importlib.util.find_spec("typeseg").origin).parent
if "--time" in sys.argv and not package:
    sys.exit(f"--time: {', '.join(missing)} not found")
with tempfile.TemporaryDirectory() as name:
    if "--time" in sys.argv:
        measure(package, Path(name))
        sys.exit(0)
    without_package(Path(name))
    if package and "--short" not in sys.argv:
        beside_package(package, Path(name))
    elif not package:
        print(f"skipped: the package typeseg and ONNX Runtime ({', '.join(missing)} not found; TYPESEG and PYTHON name places)")
        skipped += 1
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
