"""demos/python/mamba_mix.py: golden cases, gradients, arrays, errors, what is closed, memory, threads, the library's making.

    python3 tests/python.py                  from the repository's root; needs numpy and a C compiler
    python3 tests/python.py --measure 200    SSD forward and backward from numpy beside a C program, in so many rounds; no test
"""
import gc, json, math, os, shutil, signal, statistics, struct, subprocess, sys, tempfile, threading, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SHARED") or ROOT.parent / "shared")
REFERENCE, DATA = SHARED / "reference", SHARED / "data"

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: mamba_mix.py, numpy is not there ({missing}; PYTHON=... names another Python)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
if not any(shutil.which(c) for c in (os.environ.get("CC", "cc").split()[0], "cc", "gcc", "clang")):
    print("skipped: mamba_mix.py, there is no C compiler")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
sys.path.insert(0, str(ROOT / "demos/python"))
import mamba_mix

passed = failed = skipped = 0


def check(name, right, found=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAILED {name} {found}")


def skip(what):
    global skipped
    skipped += 1
    print("skipped:", what)


def refuses(name, kind, words, call):
    """call raises kind, and its message has the words."""
    try:
        call()
    except kind as wrong:
        check(name, all(w in str(wrong) for w in words), f"said: {wrong}")
    except BaseException as wrong:
        check(name, False, f"raised {type(wrong).__name__}: {wrong}")
    else:
        check(name, False, "was accepted")


# ---- golden cases ----

TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4"}


def read_safetensors(path):
    data = Path(path).read_bytes()
    n, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + n])
    meta = head.pop("__metadata__", {})
    return {
        k: np.frombuffer(data[8 + n :][slice(*e["data_offsets"])], TYPES[e["dtype"]]).reshape(
            e["shape"]
        )
        for k, e in head.items()
    }, meta


def write_safetensors(path, arrays, meta):
    head, at, data = {"__metadata__": meta}, 0, []
    for name, a in arrays.items():
        data.append(np.ascontiguousarray(a, np.float32).tobytes())
        head[name] = {
            "dtype": "F32",
            "shape": list(a.shape),
            "data_offsets": [at, at := at + len(data[-1])],
        }
    head = json.dumps(head).encode()
    Path(path).write_bytes(struct.pack("<Q", len(head)) + head + b"".join(data))


def near(found, expected, tol):
    """The error over its bound, as in tests/golden.c."""
    if found is None or found.size != expected.size:
        return math.inf
    error = np.abs(found.reshape(expected.shape).astype(float) - expected).max()
    return error / (tol * (np.abs(expected).max() + 1e-3)) if np.isfinite(error) else math.inf


def inputs(case, *names):
    return {n: case.get("in." + n, case.get("p." + n)) for n in names}


def softmax_case(m, c, a):
    windows = a.pop("mask", "none")
    if windows == "window":
        a["shifted"] = a.pop("shift", False)
    else:
        a["mask"] = windows
    return m.softmax_attention(**inputs(c, "q", "k", "v"), **a)


def ssd_case(m, c, a):
    return m.ssd(
        **inputs(c, "x", "dt", "A", "B", "C", "D", "dt_bias", "initial_state", "seq_idx"), **a
    )


def ssd_steps_case(m, c, a):
    """Token by token, each call from the state that the one before left."""
    i = inputs(c, "x", "dt", "A", "B", "C", "D", "dt_bias", "initial_state")
    a.pop("states", None)
    h, y, states = i.pop("initial_state"), [], []
    for t in range(i["dt"].shape[1]):
        one = m.ssd(
            **{n: v[:, t : t + 1] if n in ("x", "dt", "B", "C") else v for n, v in i.items()},
            **a,
            initial_state=h,
            final_state=True,
            grad=False,
        )
        h = one.final_state
        y.append(one.y)
        states.append(h[:, None])
    one.y, one.states = np.concatenate(y, 1), np.concatenate(states, 1)
    return one


def conv1d_case(m, c, a):
    silu = a.pop("activation", "none") == "silu"
    return m.conv1d(**inputs(c, "x", "weight", "bias", "initial_state", "seq_idx"), silu=silu, **a)


CASES = {
    "softmax_attention": softmax_case,
    "ssd": ssd_case,
    "ssd_steps": ssd_steps_case,
    "conv1d": conv1d_case,
    # the cases spell it "normalise"
    "linear_attention": lambda m, c, a: m.linear_attention(
        **inputs(c, "q", "k", "v"), **{k.replace("normalise", "normalize"): v for k, v in a.items()}
    ),
    "layer_norm": lambda m, c, a: m.layer_norm(**inputs(c, "x", "weight", "bias"), **a),
    "rms_norm": lambda m, c, a: m.rms_norm(**inputs(c, "x", "weight"), **a),
}


def golden_op(m, kind, c, a, tol):
    """The worst error of a case over its bound, and of what."""
    matrix = a.pop("matrix", False)
    made = CASES[kind](m, c, a)
    found = {n: getattr(made, n) for n in ("y", "final_state", "states") if "out." + n in c}
    if matrix:
        found["matrix"] = made.matrix()
    worst = [(near(found.get(n[4:]), e, tol), n) for n, e in c.items() if n.startswith("out.")]
    if "cot.y" in c:
        for again in range(2):  # backward may be called again
            g = made.backward(
                c["cot.y"],
                **({"final_state": c["cot.final_state"]} if "cot.final_state" in c else {}),
            )
        worst += [
            (near(getattr(g, n[5:].removeprefix("p.")), e, tol), n)
            for n, e in c.items()
            if n.startswith("grad.")
        ]
    return max(worst)


def config_of(a):
    """A backbone's config as mmix_vision_save writes it, from the options of a case."""
    axial, new = a["model"] == "dinov3", a["model"].startswith("dinov")
    vim, registers = a["model"] == "vim", a.get("registers", 0)
    o = dict.fromkeys(
        (
            "drop_path",
            "normalise",
            "mamba.d_inner",
            "mamba.conv_width",
            "mamba.dt_low",
            "mamba.dt_high",
            "mamba.out_scale",
            "mamba.d_state",
            "mamba.head_dim",
            "mamba.groups",
            "mamba.bidirectional",
            "mamba.eps",
            "mlp_ratio",
            "heads",
            "class_token",
            "swiglu",
            "layer_scale",
            "positions",
            "grid",
            "deviation",
            "sincos",
        ),
        0,
    )
    o["grid"] = 1  # of DINOv3, which stores no positions
    o.update(
        {n: a[n] for n in ("dim", "depth", "patch", "eps", "heads", "grid", "mlp_ratio") if n in a},
        registers=registers,
    )
    o["mixer"] = 2 if vim else int(a.get("mixer") == "linear")
    if new:
        o.update(
            mlp_ratio=a["hidden"] / a["dim"],
            swiglu=int(a.get("ffn") == "swiglu"),
            layer_scale=1,
            positions=3 if axial else ("dino", "exact", "antialias").index(a["positions"]),
        )
    elif vim:
        o.update(
            {
                "mamba.bidirectional": 1,
                "mamba.d_state": a["d_state"],
                "mamba.head_dim": a.get("headdim", 0),
                "mamba.groups": a.get("ngroups", 1),
                "mamba.eps": a["eps"],
                "class_token": 3 if registers else 1 if a["form"] == "middle" else 2,
            }
        )
    elif a.get("normalise"):
        o["normalise"] = 1
    return json.dumps({"vision." + n: [v] for n, v in o.items()})


def network(folder, c, a):
    """The file of a case's backbone."""
    path = folder / "net.safetensors"
    write_safetensors(
        path,
        {n[2:]: v for n, v in c.items() if n.startswith("p.") and n != "p.mask_token"},
        {"format": "mamba_mix vision 1", "config": config_of(a)},
    )
    return path


def tiny(folder):
    c, meta = read_safetensors(next((ROOT / "tests/golden").glob("model_vit-all*")))
    return network(folder, c, json.loads(meta["args"])), c


def golden_vision(m, c, a, tol, folder):
    path = ROOT / "tests/golden" / a["file"] if "file" in a else network(folder, c, a)
    with m.vision(path) as v:
        f = v.features(c["in.image"], n_last=a.get("n_last", 0) if "out.intermediate" in c else 0)
        found = {
            "features": f.token,
            "tokens": f.tokens,
            "intermediate": f.intermediate,
            "patches": f.patches,
            "registers": f.registers,
        }
        if "out.attention" in c:
            found["attention"] = v.attention(c["in.image"])
        if "out.logits" in c:
            found["logits"] = v.classify(c["in.image"])
            assert v.class_name(0) is None           # the file has no names of classes
    return max(
        (near(found[n[4:]], e, tol), n)
        for n, e in c.items()
        if n.startswith("out.") and n != "out.pooled"
    )


def golden_llama(m, c, a, tol):
    with m.decoder(DATA / "stories260k/stories260K.bin") as d:
        if a["kind"] == "logits":
            y = d.logits(c["in.tokens"])
            return near(y[a["rows"]] if "rows" in a else y, c["out.logits"], tol), "out.logits"
        tokens = c["out.tokens"]
        start = len(tokens) - a["count"]
        made = d.generate(tokens[:start], a["count"], stop=1)
        return (0 if np.array_equal(made, tokens[start:]) else math.inf), "out.tokens"


def golden(m, folder):
    ran = dict.fromkeys(("mixers and ops", "backbones", "decoder"), 0)
    worst = 0
    with tempfile.TemporaryDirectory() as temporary:
        for path in sorted(folder.glob("*.safetensors")):
            kind = path.name.partition("-")[0]
            if kind not in CASES and not kind.startswith(("model_", "checkpoint_vision")) and kind != "llama":
                continue
            c, meta = read_safetensors(path)
            a = json.loads(meta["args"])
            if kind == "llama" and (
                a["kind"] not in ("logits", "generate") or not (DATA / "stories260k").is_dir()
            ):
                continue
            tol = a.pop("tol", 2e-5 if kind in CASES else 2e-4)
            try:
                if kind in CASES:
                    ratio, name = golden_op(m, kind, c, a, tol)
                elif kind == "llama":
                    ratio, name = golden_llama(m, c, a, tol)
                else:
                    ratio, name = golden_vision(m, c, a, tol, Path(temporary))
            except (mamba_mix.Error, TypeError) as wrong:
                ratio, name = math.inf, f"{type(wrong).__name__}: {wrong}"
            ran[
                "mixers and ops" if kind in CASES else "decoder" if kind == "llama" else "backbones"
            ] += 1
            worst = max(worst, ratio)
            check(path.name, ratio <= 1, f"{name}: error {ratio:.3g} of its bound")
    print(
        f"golden, {folder}: {', '.join(f'{n} of {k}' for k, n in ran.items())}; largest error {worst:.2f} of its bound"
    )
    check(f"cases were found in {folder}", ran["mixers and ops"] > 50 and ran["backbones"] > 5)


# ---- arrays ----

def problem(B=2, L=48, H=4, G=2, N=8, P=16, seed=0):
    r = np.random.default_rng(seed)
    draw = lambda *shape: r.normal(size=shape).astype(np.float32)
    return dict(
        x=draw(B, L, H, P),
        dt=np.abs(draw(B, L, H)) / 10 + 0.01,
        A=-1 - np.abs(draw(H)),
        B=draw(B, L, G, N) / 3,
        C=draw(B, L, G, N),
    ), draw(B, L, H, P)


def same(a, b):
    return all(np.array_equal(vars(a)[n], vars(b)[n]) for n in vars(a))


def arrays(m):
    p, dy = problem()
    one = m.ssd(**p)
    g = one.backward(dy)
    double = m.ssd(**{n: a.astype(float) for n, a in p.items()})
    check(
        "float64 input gives the same bits",
        np.array_equal(double.y, one.y) and same(double.backward(dy.astype(float)), g),
    )
    check(
        "results are float32", one.y.dtype == g.x.dtype == np.float32 and g.A.shape == p["A"].shape
    )
    check(
        "y with a backward is read-only, without it is not",
        not one.y.flags.writeable and m.ssd(**p, grad=False).y.flags.writeable,
    )

    # x, B and C as slices of one projection, as Mamba-2 has them
    fused = np.zeros((2, 48, 200), np.float32)
    views = dict(
        x=fused[:, :, :64].reshape(2, 48, 4, 16),
        B=fused[:, :, 70:86].reshape(2, 48, 2, 8),
        C=fused[:, :, 86:102].reshape(2, 48, 2, 8),
    )
    check(
        "numpy reshapes of slices are views",
        all(np.shares_memory(v, fused) for v in views.values()),
    )
    for n, v in views.items():
        v[...] = p[n]
    mixed = m.ssd(**{**p, **views})
    check("slices are read where they lie", all(mixed._given[n] is views[n] for n in views))
    check(
        "slices give the same bits, gradients too",
        np.array_equal(mixed.y, one.y) and same(mixed.backward(dy), g),
    )

    turned = {
        n: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        for n, a in p.items()
        if a.ndim == 4
    }
    mixed = m.ssd(**{**p, **turned})  # (B, H, L, N) as PyTorch's attention has it
    check("transposes are read where they lie", all(mixed._given[n] is turned[n] for n in turned))
    check(
        "transposes give the same bits, gradients too",
        np.array_equal(mixed.y, one.y) and same(mixed.backward(dy), g),
    )

    for name, change in {
        "every second token": lambda a: np.repeat(a, 2, 1)[:, ::2],
        "reversed twice": lambda a: a[:, ::-1].copy()[:, ::-1],
        "big-endian": lambda a: a.astype(">f4"),
        "Fortran's order": np.asfortranarray,
        "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:]
        .view(np.float32)
        .reshape(a.shape),
        "read-only": lambda a: np.frombuffer(a.tobytes(), np.float32).reshape(a.shape),
    }.items():
        mixed = m.ssd(
            **(
                {n: change(a) for n, a in p.items()}
                if name not in ("every second token", "reversed twice")
                else {n: change(a) if a.ndim > 2 else a for n, a in p.items()}
            )
        )
        check(
            f"{name}: the same bits",
            np.array_equal(mixed.y, one.y) and same(mixed.backward(dy[:, ::-1].copy()[:, ::-1]), g),
        )
    check(
        "lists and broadcasts are taken",
        m.softmax_attention(*(np.broadcast_to(np.float32(1), (1, 3, 2, 4)),) * 3).y.tolist()
        == [[[[1.0] * 4] * 2] * 3]
        and m.rms_norm([[3, 3]], eps=0).y.tolist() == [[1, 1]],
    )

    wide = m.softmax_attention(p["C"], p["C"], p["B"], mask="band", left=5, right=0)
    M = wide.matrix()
    y = np.einsum("bhij,bjhp->bihp", M, p["B"])
    check(
        "y = M v",
        np.abs(y - wide.y).max() < 1e-5
        and M.shape == (2, 2, 48, 48)
        and M[0, 0, 20, 14] == 0 < M[0, 0, 20, 15],
    )
    check(
        "rows are M's",
        np.abs(wide.rows([7, 30]) - M[:, :, [7, 30]].mean(2)).max() < 1e-6
        and wide.rows(3).shape == (2, 2, 48),
    )
    r = one.ranks(16)
    check(
        "ranks of blocks keep their bounds",
        r.block == 16
        and r.numerical.shape == (2, 4, 3, 3)
        and r.singular.shape == (2, 4, 3, 3, 16)
        and (r.numerical <= r.bound).all()
        and (r.numerical[:, :, 1, 0] == 8).all()
        and (r.effective <= r.numerical + 1e-9).all(),
    )

    # backwards in any order: what a forward keeps is its object's own
    second = m.linear_attention(one.y, one.y, one.y, feature="elu1", causal=True)
    alone = m.linear_attention(one.y, one.y, one.y, feature="elu1", causal=True).backward(dy)
    one.backward(dy)
    check(
        "an older backward leaves a newer one alone",
        same(second.backward(dy), alone) and same(one.backward(dy), g),
    )
    kept = one.y
    del one, double, mixed
    gc.collect()
    m.ssd(**p)
    check("results outlive what made them", np.array_equal(kept, m.ssd(**p).y))


def derivative(m):
    """Central differences of the whole, in float: a few digits."""
    p, dy = problem(B=1, L=9, H=2, G=1, N=3, P=4)
    p["D"], p["dt_bias"] = np.float32([.5, -.3]), np.float32([.1, .2])
    given = dict(dt_softplus=True, final_state=True)
    loss = lambda q, **o: float((m.ssd(**q, **given, **o).y.astype(float) * dy).sum())
    for direction in ("forward", "reverse", "both"):
        o = dict(direction=direction)
        if direction == "both":
            given["final_state"] = False
        g = m.ssd(**p, **given, **o).backward(dy)
        for n, a in p.items():
            e = np.random.default_rng(1).normal(size=a.shape).astype(np.float32)
            slope = (loss({**p, n: a + .01 * e}, **o) - loss({**p, n: a - .01 * e}, **o)) / .02
            along = float((getattr(g, n).astype(float) * e).sum())
            check(
                f"d/d{n} {direction}",
                abs(slope - along) < 1e-3 * (abs(slope) + 1),
                f"{slope} {along}",
            )


# ---- refusals ----

def refusals(m):
    A, E = mamba_mix.ArgumentError, mamba_mix.Error
    p, dy = problem()
    ssd = m.ssd(**p)
    q = p["C"]
    refuses("a shape", A, ["ssd: B has shape", "expected"], lambda: m.ssd(**{**p, "B": p["B"][:1]}))
    refuses("axes", A, ["x has shape", "expected"], lambda: m.ssd(**{**p, "x": p["x"][0]}))
    refuses("too many axes", A, ["6 axes"], lambda: m.rms_norm(np.ones((1,) * 7)))
    refuses(
        "an empty axis",
        A,
        ["x has shape (2, 0, 4, 16)"],
        lambda: m.ssd(**{**p, "x": p["x"][:, :0]}),
    )
    refuses(
        "heads",
        A,
        ["heads"],
        lambda: m.softmax_attention(q, p["x"][:, :, :, :8][:, :, :3], p["x"][:, :, :3]),
    )
    refuses(
        "complex numbers",
        TypeError,
        ["x has dtype complex64"],
        lambda: m.ssd(**{**p, "x": p["x"] * 1j}),
    )
    refuses("words", TypeError, ["dtype <U"], lambda: m.rms_norm(np.array(["a", "b"])))
    refuses("objects", TypeError, ["dtype object"], lambda: m.rms_norm(np.array([None, 1])))
    refuses(
        "a real index",
        TypeError,
        ["seq_idx", "integers"],
        lambda: m.ssd(**p, seq_idx=np.zeros((2, 48))),
    )
    refuses(
        "an index that does not fit",
        A,
        ["int32"],
        lambda: m.ssd(**p, seq_idx=np.full((2, 48), 2**40)),
    )
    refuses(
        "an unknown mask",
        A,
        ["'diagonal'", "'causal'"],
        lambda: m.softmax_attention(q, q, q, mask="diagonal"),
    )
    refuses(
        "an unknown feature", A, ["'tanh'"], lambda: m.linear_attention(q, q, q, feature="tanh")
    )
    refuses(
        "a negative size",
        A,
        ["left is -1"],
        lambda: m.softmax_attention(q, q, q, mask="band", left=-1),
    )
    refuses(
        "a grid that does not fit",
        A,
        ["grid"],
        lambda: m.softmax_attention(q, q, q, grid=(6, 6), window=(2, 2)),
    )
    refuses(
        "windows without a grid",
        A,
        ["grid None"],
        lambda: m.softmax_attention(q, q, q, window=(2, 2)),
    )
    refuses(
        "four axes of windows",
        A,
        ["4 axes"],
        lambda: m.softmax_attention(q, q, q, grid=(2,) * 4, window=(2,) * 4),
    )
    refuses(
        "a state both ways",
        A,
        ["MMIX_SCAN_BOTH"],
        lambda: m.ssd(**p, direction="both", final_state=True),
    )
    refuses(
        "efficient, causal",
        A,
        ["linear attention"],
        lambda: m.linear_attention(q, q, q, feature="efficient", causal=True),
    )
    refuses("dy of another shape", A, ["ssd.backward: dy has shape"], lambda: ssd.backward(dy[:1]))
    refuses("dy of words", TypeError, ["dy has dtype"], lambda: ssd.backward("abc"))
    refuses("a state's gradient", A, ["final_state"], lambda: ssd.backward(dy, final_state=dy))
    refuses("backward without grad", E, ["grad=False"], lambda: m.ssd(**p, grad=False).backward(dy))
    refuses("a row beyond", A, ["row"], lambda: ssd.rows([48]))
    refuses("a negative row", A, ["row is -1"], lambda: ssd.rows([-1]))
    refuses(
        "M with a state",
        A,
        ["initial state"],
        lambda: m.ssd(**p, initial_state=np.zeros((2, 4, 16, 8))).matrix(),
    )
    refuses(
        "ranks with a state",
        A,
        ["initial state"],
        lambda: m.ssd(**p, initial_state=np.zeros((2, 4, 16, 8))).ranks(),
    )
    refuses(
        "a convolution's weight",
        A,
        ["conv1d", "weight"],
        lambda: m.conv1d(np.ones((1, 4, 3)), np.ones((2, 1, 4))),
    )
    refuses(
        "a missing file",
        mamba_mix.FileError,
        ["/nowhere"],
        lambda: m.vision("/nowhere.safetensors"),
    )
    refuses("OSError, too", OSError, ["/nowhere"], lambda: m.decoder("/nowhere.bin"))
    for wrong in "fp8", True, None:
        refuses(
            f"dtype {wrong}",
            mamba_mix.ArgumentError,
            ["dtype is", "'bf16'"],
            lambda: m.vision("/nowhere.safetensors", dtype=wrong),
        )
    refuses(
        "a file of another kind", mamba_mix.FileError, ["python.py"], lambda: m.vision(__file__)
    )
    refuses("a picture of reals", A, ["uint8"], lambda: m.image(np.zeros((4, 4, 3))))
    refuses("an unknown SIMD level", A, ["'sse'"], lambda: mamba_mix.Context(simd="sse"))
    refuses("threads below 0", A, ["threads is -1"], lambda: mamba_mix.Context(threads=-1))
    check(
        "after all of these it works",
        np.array_equal(m.ssd(**p).y, ssd.y) and m.memory.bytes < 1 << 26,
    )


def closed():
    E = mamba_mix.Error
    p, dy = problem()
    with tempfile.TemporaryDirectory() as temporary:
        path, c = tiny(Path(temporary))
        with mamba_mix.Context(threads=1) as m:
            ssd, net, other = m.ssd(**p), m.vision(path), m.vision(path)
            norm = m.rms_norm(p["x"])
            other.close()
            other.close()
            refuses(
                "a closed network", E, ["Vision is closed"], lambda: other.features(c["in.image"])
            )
            refuses(
                "a picture of another shape",
                mamba_mix.ArgumentError,
                ["image"],
                lambda: net.features(c["in.image"][0]),
            )
            refuses(
                "a map of no picture",
                mamba_mix.ArgumentError,
                ["image"],
                lambda: net.map(c["in.image"][0]),
            )
            refuses(
                "a block beyond",
                mamba_mix.ArgumentError,
                ["block"],
                lambda: net.attention(c["in.image"], 7),
            )
            f, made = net.features(c["in.image"]), net.map(c["in.image"])
            check(
                "a map is the cosine of token and patches",
                np.abs(
                    made.similarity.reshape(3, -1)
                    - np.einsum("bd,bnd->bn", f.token, f.patches)
                    / np.linalg.norm(f.token, axis=-1)[:, None]
                    / np.linalg.norm(f.patches, axis=-1)
                ).max()
                < 1e-5
                and made.map.shape == (3, 24, 16)
                and "cosine" in made.how,
            )
            check("attention of a block", net.attention(c["in.image"], -1).shape == (3, 2, 3, 2))
        y = ssd.y.copy()
    for name, call in {
        "ssd": lambda: m.ssd(**p),
        "backward": lambda: ssd.backward(dy),
        "matrix": ssd.matrix,
        "norm": lambda: norm.backward(norm.y),
        "threads": lambda: m.threads,
        "features": lambda: net.features(c["in.image"]),
        "enter": lambda: m.vision(path),
    }.items():
        refuses(f"{name} after close", E, ["context is closed"], call)
    check("arrays outlive the context", np.array_equal(y, ssd.y))
    m.close()
    net.close()
    check("a closed context says so", "closed" in repr(m))
    # collected in a cycle, network and context in any order
    m = mamba_mix.Context(threads=1)
    net = m.vision
    m.net = [m, m]
    del m, net
    gc.collect()

    m = mamba_mix.Context(threads=2)
    if hasattr(os, "fork"):
        child = os.fork()
        if not child:
            try:
                m.ssd(**p)
            except E as wrong:
                m.close()
                os._exit(0 if "fork" in str(wrong) else 1)
            os._exit(2)
        check("a context of the parent's", os.waitpid(child, 0)[1] == 0)
    m.close()


def interrupts(m):
    """Ctrl-C between calls: KeyboardInterrupt, and the context goes on."""
    p, dy = problem()
    y = m.ssd(**p).y
    if not hasattr(signal, "setitimer"):
        return skip("Ctrl-C (no timer here)")
    # as SIGINT, but from a timer
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    for delay in (.01, .0213, .037):
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            until = time.monotonic() + 60
            while time.monotonic() < until:
                m.ssd(**p).backward(dy)
                m.rms_norm(p["x"]).backward(dy)
            check("Ctrl-C is seen", False)
        except KeyboardInterrupt:
            check("after Ctrl-C it goes on", np.array_equal(m.ssd(**p).y, y))
    signal.signal(signal.SIGALRM, previous)


# ---- memory, threads ----

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leaks(m):
    p, dy = problem(L=16)
    temporary = tempfile.TemporaryDirectory()
    path, _ = tiny(Path(temporary.name))

    def once(i):
        mixed = m.ssd(**p)
        mixed.backward(dy)
        if i % 5 == 0:
            m.softmax_attention(p["C"], p["B"], p["B"], mask="causal").matrix()
            m.conv1d(p["x"][:, :, 0], np.ones((16, 1, 4))).backward(dy[:, :, 0])
            mixed.rows([1])
        if i % 7 == 0:
            try:
                m.ssd(**{**p, "B": p["C"][:1]})
            except mamba_mix.ArgumentError:
                pass
        if i % 20 == 0:                          # not closed: collected
            m.vision(path)
            mamba_mix.Context(threads=1).vision(path)
    for i in range(1000):
        once(i)
    gc.collect()
    if not os.path.exists("/proc/self/statm"):
        return skip("memory of ten thousand calls (no /proc)")
    before, held = resident(), m.memory.bytes
    for i in range(10000):
        once(i)
    gc.collect()
    grown = resident() - before
    print(
        f"ten thousand calls: {grown / 1024:+.0f} KiB resident, {m.memory.bytes - held:+d} bytes held by the library"
    )
    temporary.cleanup()
    check(
        "ten thousand calls leak nothing",
        grown < 1 << 20 and m.memory.bytes == held,
        f"{grown} bytes",
    )


def threads():
    p, dy = problem(L=300)
    with mamba_mix.Context(threads=1) as m:
        y, g = m.ssd(**p).y, m.ssd(**p).backward(dy)
    wrong = []

    def work(m):
        for _ in range(60):
            mixed = m.ssd(**p)
            if not np.array_equal(mixed.y, y) or not same(mixed.backward(dy), g):
                wrong.append("other bits")

    def run(*contexts):
        jobs = [threading.Thread(target=work, args=(m,)) for m in contexts]
        [j.start() for j in jobs]
        [j.join() for j in jobs]
        return not wrong
    with mamba_mix.Context(threads=1) as one, mamba_mix.Context(threads=2) as two:
        check("two threads, a context each: the same bits", run(one, two))
        check("two threads in one context wait for each other", run(two, two))
    late = mamba_mix.Context(threads=2)
    jobs = [
        threading.Thread(target=lambda: [contextless(late, p, wrong) for _ in range(200)])
        for _ in range(2)
    ]
    [j.start() for j in jobs]
    time.sleep(.05)
    late.close()
    [j.join() for j in jobs]
    check("closed by another thread: an Error, no crash", not wrong, wrong[:1])


def contextless(m, p, wrong):
    try:
        m.ssd(**p)
    except mamba_mix.Error as error:
        if "closed" not in str(error):
            wrong.append(str(error))


# ---- the library ----

def libraries():
    tcc = shutil.which("tcc")
    if not tcc:
        return skip("changed headers, a library that is given (no tcc, and others take long)")
    script = str(ROOT / "demos/python/mamba_mix.py")
    with tempfile.TemporaryDirectory() as temporary:
        t = Path(temporary)
        env = {
            **os.environ,
            "CC": tcc,
            "XDG_CACHE_HOME": str(t / "cache"),
            "MAMBA_MIX_LIBRARY": "",
            "MAMBA_MIX_H": "",
        }

        def run(*arguments, **more):
            return subprocess.run(
                [sys.executable, script, *arguments],
                env={**env, **more},
                capture_output=True,
                text=True,
            )

        both = [
            subprocess.Popen(
                [sys.executable, script],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        said = [p.communicate() for p in both]
        check(
            "two processes at once",
            all(p.returncode == 0 for p in both) and said[0][0] == said[1][0],
            said,
        )
        files = list((t / "cache/mamba_mix").iterdir())
        check("one file is left", len(files) == 1 and files[0].suffix == ".so", files)
        check("the second time nothing is compiled", run().stderr == "")

        header = (ROOT / "mamba_mix.h").read_text()
        changed = t / "other name.h"
        changed.write_text(header)
        check(
            "a header of another name and place",
            run(MAMBA_MIX_H=str(changed)).returncode == 0,
            run(MAMBA_MIX_H=str(changed)).stderr[-300:],
        )
        changed.write_text(
            header.replace("    size_t prefix, left, right;", "    size_t right, prefix, left;")
        )
        said = run(MAMBA_MIX_H=str(changed))
        check(
            "members in another order",
            said.returncode == 1 and "offsetof(mmix_mixer, prefix)" in said.stderr,
            said.stderr[-300:],
        )
        changed.write_text(
            header.replace("    size_t chunk;                ", "    size_t chunks;               ")
        )
        said = run(MAMBA_MIX_H=str(changed))
        check(
            "a member that is gone",
            said.returncode == 1 and "could not compile" in said.stderr,
            said.stderr[-300:],
        )
        changed.write_text(
            header.replace(
                "const mmix_mixer *mixer, const size_t *rows,",
                "const mmix_mixer *mixer, const int *rows,",
            )
        )
        said = run(MAMBA_MIX_H=str(changed))
        check(
            "other arguments",
            said.returncode == 1 and "mmix_mix_rows_mean" in said.stderr,
            said.stderr[-300:],
        )
        said = run(MAMBA_MIX_H=str(t / "none.h"))
        check("no header", said.returncode == 1 and "MAMBA_MIX_H" in said.stderr)
        # the file copied elsewhere finds the header beside itself, then in the folders above, and says where it looked
        below = t / "project/tools"
        below.mkdir(parents=True)
        copy = below / "mamba_mix.py"
        shutil.copy(script, copy)

        def run_copy():
            return subprocess.run(
                [sys.executable, str(copy)], env=env, capture_output=True, text=True
            )

        said = run_copy()
        check(
            "no header beside the file or above",
            said.returncode == 1 and str(below.resolve()) in said.stderr,
            said.stderr[-300:],
        )
        (t / "project/mamba_mix.h").write_text(header)
        check("the header in a folder above", run_copy().returncode == 0, run_copy().stderr[-300:])
        (t / "project/mamba_mix.h").write_text("#error this is the one above\n")
        (below / "mamba_mix.h").write_text(header)
        check(
            "the header beside the file comes first",
            run_copy().returncode == 0,
            run_copy().stderr[-300:],
        )
        said = run(CC="no-such-compiler")
        check("no compiler", said.returncode == 1 and "no-such-compiler" in said.stderr)

        given = t / "given.so"
        check("--build", run("--build", str(given)).returncode == 0 and given.exists())
        check(
            "a library that is given",
            str(given.resolve()) in run(MAMBA_MIX_LIBRARY=str(given), CC="none").stdout,
        )
        check("what is no library", "no library" in run(MAMBA_MIX_LIBRARY=script).stderr)


def decoder(m):
    """A decoder that streams: closed under way, left alone, two at once."""
    path = DATA / "stories260k/stories260K.bin"
    if not path.exists():
        return skip(f"{path} is not there")
    with m.decoder(path) as d:
        whole = d.generate([1, 403, 407], 20)
        first, second = d.stream([1, 403, 407], 20), d.stream(np.array([1, 403, 407]), 20)
        check(
            "two streams in turns",
            [t for pair in zip(first, second) for t in pair]
            == [int(t) for t in whole for _ in range(2)],
        )
        logits = d.logits([[1, 403, 407]] * 2)
        check(
            "logits of rows",
            logits.shape == (2, 3, 512)
            and np.array_equal(logits[0], d.logits([1, 403, 407]))
            and logits[0, -1].argmax() == whole[0],
        )
        draw = lambda **o: d.generate([1], 20, temperature=1, top_p=0.9, **o).tolist()
        check(
            "drawn tokens: the same of one stream, others of another",
            draw() == draw() != draw(stream=1),
        )
        check(
            "top_k: the likeliest one is the greedy one",
            d.generate([1, 403, 407], 20, temperature=1, top_k=1).tolist() == whole.tolist(),
        )
        refuses("a token beyond", mamba_mix.ArgumentError, ["512"], lambda: d.logits([512]))
        refuses(
            "a token beyond, in a stream",
            mamba_mix.ArgumentError,
            ["512"],
            lambda: d.generate([1, 512], 3),
        )
        refuses(
            "two prompts",
            mamba_mix.ArgumentError,
            ["prompt has shape"],
            lambda: d.stream([[1], [1]], 3),
        )
        for dtype, most in ("bf16", 0.02), ("f16", 0.003), ("int8", 0.05), ("q4", 0.3):
            with m.decoder(path, dtype=dtype) as narrow:
                off = narrow.logits([1, 403, 407]) - d.logits([1, 403, 407])
                off = np.abs(off).max() / np.abs(d.logits([1, 403, 407])).max()
                check(f"logits in {dtype}", 0 < off < most, off)
        models = len(m._models)
        left = d.stream([1], 5)
        next(left)
        check("a stream under way holds a state", len(m._models) == models + 1)
        del left
        gc.collect()
        check("a stream that is left gives it back", len(m._models) == models)
        going = d.stream([1], 5)
        next(going)
    refuses(
        "a stream of a closed decoder", mamba_mix.Error, ["Decoder is closed"], lambda: next(going)
    )
    one = mamba_mix.Context(threads=1)
    going = one.decoder(path).stream([1], 5)
    next(going)
    one.close()
    refuses(
        "a stream of a closed context", mamba_mix.Error, ["context is closed"], lambda: next(going)
    )


def trained(m):
    if not (DATA / "vit-s14").is_dir():
        return skip(f"{DATA}/vit-s14 is not there")
    c, _ = read_safetensors(DATA / "vit-s14/onnxruntime.safetensors")
    # the file says (5, 3, 224, 224) and lies (5, 224, 224, 3)
    image = c["image"].reshape(5, 224, 224, 3).transpose(0, 3, 1, 2)[:2]
    for dtype, least in ("bf16", 0.9999), ("f16", 0.9999), ("int8", 0.998), ("q4", 0.9):
        with m.vision(DATA / "vit-s14/model.safetensors", dtype=dtype) as v:
            x, y = v.features(image[:1]).tokens.ravel(), c["tokens"][:1].ravel()
            cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
            check(f"a trained ViT-S/14 in {dtype}", least < cosine < 1, cosine)
    with m.vision(DATA / "vit-s14/model.safetensors") as v:
        f = v.features(image)
        check(
            "a trained ViT-S/14 beside ONNX Runtime",
            (v.dim, v.depth, v.heads, v.patch) == (384, 12, 6, 14)
            and np.abs(f.tokens - c["tokens"][:2]).max() < 2e-5 * np.abs(c["tokens"]).max()
            and f.grid == (16, 16),
        )


def documented():
    """The example at the top of mamba_mix.py runs, but for the lines that need a file."""
    lines = [
        line[4:]
        for line in mamba_mix.__doc__.split("\n")
        if line.startswith("    ") and "net" not in line
    ]
    made = {}
    exec("\n".join(lines), made)
    check(
        "the documented example",
        len(lines) > 8 and made["ssd"].y.shape == (1, 64, 4, 16) and made["g"].A.shape == (4,),
    )


def tour():
    with tempfile.TemporaryDirectory() as out:
        said = subprocess.run(
            [sys.executable, str(ROOT / "demos/python/mamba_mix_tour.py"), "--out", out],
            capture_output=True,
            text=True,
        )
    lines = said.stdout.split("\n")
    check(
        "the tour runs to its end",
        said.returncode == 0 and "this context is closed" in lines[-2],
        said.stderr[-300:],
    )
    last = [line for line in lines if "step 399" in line]
    check("in the tour SSD learns", last and float(last[0].split(":")[1].split(",")[0]) < .1, last)


# ---- measuring ----

C_PROGRAM = r"""
#define MAMBA_MIX_IMPLEMENTATION
#include "mamba_mix.h"
#include <time.h>
static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* demos/studies/bench.c's way: inputs are parameters with gradients in their slab; a line read is a round made. */
int main(void)
{
    size_t L = %d, H = 16, P = 64, N = 64, s[5][4] = { {1, L, H, P}, {1, L, H}, {H}, {1, L, 1, N}, {1, L, 1, N} };
    int axes[5] = {4, 3, 1, 4, 4}, line;
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = %d;
    mmix_ctx *m = mmix_create(&o);
    mmix_params *in = mmix_params_create(m), *up = mmix_params_create(m);
    mmix_tensor *t[5], *dy = mmix_params_add(up, "", "dy", 4, s[0], MMIX_INIT_NORMAL, 1, 0);
    for (int i = 0; i < 5; i++) {
        char name[2] = { (char)('a' + i), 0 };
        t[i] = mmix_params_add(in, "", name, axes[i], s[i], i == 1 || i == 2 ? MMIX_INIT_UNIFORM : MMIX_INIT_NORMAL,
                               i == 1 ? 1e-3 : i == 2 ? -16 : i == 3 ? 0.125 : 1, i == 1 ? 0.1 : i == 2 ? -1 : 0);
    }
    mmix_params_allocate(in); mmix_params_allocate(up); mmix_params_require_grad(in, 1);
    mmix_record(m, 1);
    while ((line = getchar()) != EOF) {
        double from[2], took[2];
        for (int i = 0; i < 2; i++) from[i] = now(i ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
        mmix_params_zero_grad(in);
        mmix_mixer x = mmix_mixer_ssd(t[0], t[1], t[2], t[3], t[4]);
        mmix_tensor *y = mmix_mix(m, &x);
        mmix_backward_from(m, &y, &dy, 1);
        mmix_reset(m);
        for (int i = 0; i < 2; i++) took[i] = now(i ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC) - from[i];
        if (mmix_error(m)) { puts(mmix_error(m)); return 1; }
        printf("%%.9f %%.9f\n", took[0], took[1]);
        fflush(stdout);
    }
    return 0;
}
"""


def measure(L=1024, workers=1, rounds=200):
    """Rounds of C and Python in turns, so that what else the machine does meets both: wall clock, and of one thread the processor's."""
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary) / "ssd"
        subprocess.run(
            [
                *mamba_mix._compiler(),
                "-std=c99",
                "-D_POSIX_C_SOURCE=200809L",
                "-O2",
                f"-I{ROOT}",
                "-x",
                "c",
                "-",
                "-o",
                program,
                "-lm",
                "-lpthread",
            ],
            input=C_PROGRAM % (L, workers),
            text=True,
            check=True,
        )
        other = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        r = np.random.default_rng(0)
        draw = lambda *shape: r.normal(size=shape).astype(np.float32)
        x, dt, A = (
            draw(1, L, 16, 64),
            r.uniform(1e-3, 0.1, (1, L, 16)).astype(np.float32),
            r.uniform(-16, -1, 16).astype(np.float32),
        )
        B, C, dy = draw(1, L, 1, 64) / 8, draw(1, L, 1, 64), draw(1, L, 16, 64)
        times = []
        with mamba_mix.Context(threads=workers) as m:
            for i in range(rounds + 10):
                other.stdin.write("\n")
                other.stdin.flush()
                c = [float(t) for t in other.stdout.readline().split()]
                start, used = time.perf_counter(), time.process_time()
                m.ssd(x, dt, A, B, C).backward(dy)
                times.append([*c, time.perf_counter() - start, time.process_time() - used])
            simd = m.simd
        other.stdin.close()
        other.wait()
    print(
        f"SSD forward + backward, 1 x {L} x 16, P = N = 64, {workers} threads, {simd}, {rounds} rounds in turns, milliseconds:"
    )
    times = np.array(times[10:]) * 1e3
    for name, c, python in (
        ("wall", times[:, 0], times[:, 2]),
        ("processor", times[:, 1], times[:, 3]),
    ):
        ratio = (
            np.sort(
                [
                    statistics.median(r)
                    for r in np.random.default_rng(1).choice(python / c, (1000, rounds))
                ]
            )
            * 100
            - 100
        )
        print(
            f"  {name:9}  fastest tenth C {np.quantile(c, .1):6.2f}, Python {np.quantile(python, .1):6.2f} "
            f"({100 * np.quantile(python, .1) / np.quantile(c, .1) - 100:+5.1f} %);  median C {np.median(c):6.2f}, Python {np.median(python):6.2f};  "
            f"a round's Python over its C, median {100 * np.median(python / c) - 100:+5.1f} % (95 %: {ratio[25]:+.1f} ... {ratio[974]:+.1f})"
        )


if __name__ == "__main__":
    if "--measure" in sys.argv:
        for workers in (1, 2):
            measure(workers=workers, rounds=int(sys.argv[2]) if len(sys.argv) > 2 else 200)
        sys.exit(0)
    try:
        mamba_mix.load()
    except mamba_mix.Error as wrong:
        print(f"FAILED {wrong}\n0 passed, 1 failed, 0 skipped")
        sys.exit(1)
    with mamba_mix.Context(threads=2) as m:
        golden(m, ROOT / "tests/golden")
        if REFERENCE.is_dir():
            golden(m, REFERENCE)
        else:
            skip(f"{REFERENCE} is not there")
        arrays(m)
        derivative(m)
        refusals(m)
        interrupts(m)
        decoder(m)
        trained(m)
        leaks(m)
    closed()
    threads()
    documented()
    libraries()
    tour()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
