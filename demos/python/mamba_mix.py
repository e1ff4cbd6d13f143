"""mamba_mix for Python: numpy in and out, one file over ctypes, no build system.

    import mamba_mix, numpy as np

    r = np.random.default_rng(0)
    x, B, C = r.normal(size=(1, 64, 4, 16)), r.normal(size=(1, 64, 1, 8)), r.normal(size=(1, 64, 1, 8))
    dt, A = np.full((1, 64, 4), 0.1), -np.ones(4)

    with mamba_mix.Context() as m:               # all cores, the best SIMD level
        ssd = m.ssd(x, dt, A, B, C)              # Mamba-2: y = M x, of any length in linear time
        ssd.y                                    # (1, 64, 4, 16)
        g = ssd.backward(np.ones_like(ssd.y))    # g.x, g.dt, g.A, g.B, g.C
        ssd.matrix()                             # M (1, 4, 64, 64) for each head
        ssd.rows([63])                           # what the last token reads, (1, 4, 64), without making M
        net = m.vision("model.safetensors")      # ViT, DINOv2, DINOv3, DinoVim, ... as downloaded
        net.features(m.image(photo)).token       # photo (h, w, 3) uint8

The first use compiles mamba_mix.h with $CC, cc, gcc or clang, which takes about ten seconds, and keeps the library in
$XDG_CACHE_HOME/mamba_mix (~/.cache/mamba_mix). The header is the one that MAMBA_MIX_H names, else the one beside this
file, else the first in the folders above. MAMBA_MIX_LIBRARY names a library that `python3 mamba_mix.py --build
mamba_mix.so` made, for machines without a compiler.

Letters of shapes, as in the header: B batch, L tokens, D model width, H heads, G groups (key/value heads, a divisor of
H), N query or state width, P value width of a head, S keys, W convolution width.

Arrays. The library computes in float32. What is float32 already is read where it lies, if its last axis is contiguous
and no two elements share memory: slices of a fused projection and transposes of (B, H, L, N) are not copied. Other real
dtypes and strides are copied once; what is not a real number is a TypeError. Results own their memory. An object that
has a backward reads its inputs again then: do not change them before; its y is read-only for the same reason.

Errors are mamba_mix.Error with the library's message. Nothing here can be used after its context was closed: that is an
Error, too. A context works for one thread at a time (others wait); two contexts work in two threads. After a fork the
child needs contexts of its own. Ctrl-C works between calls of the library.
"""
import contextlib, ctypes, hashlib, itertools, json, math, operator, os, platform, shlex, shutil, subprocess, sys
import tempfile, threading, zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np

__all__ = ["Context", "Error", "load"]


class Error(Exception):
    """What the library, the compiler or this file refused, in words."""


class ArgumentError(Error, ValueError):
    """Shapes or options that do not go together."""


class FileError(Error, OSError):
    """A file that cannot be read, or is not what it should be."""


class OutOfMemory(Error, MemoryError):
    """There was no memory."""


# ---- what of the header is used here ---------------------------------------------------------------------------------
# Each declaration below goes to the compiler, too: prototypes as they stand, which a header with others contradicts;
# of structs the sizes and places that ctypes gives to their members, which are compared when the library is loaded
# (see _unit). So a header that has changed is an error with a line of its own, and never a crash.

_FUNCTIONS = """
mmix_ctx *mmix_create(const mmix_options *options);
void mmix_destroy(mmix_ctx *m);
const char *mmix_error(const mmix_ctx *m);
int mmix_error_kind(const mmix_ctx *m);
void mmix_error_clear(mmix_ctx *m);
mmix_memory_use mmix_memory(const mmix_ctx *m);
void mmix_reset(mmix_ctx *m);
int mmix_threads(const mmix_ctx *m);
const char *mmix_simd_name(const mmix_ctx *m);
int mmix_ndim(const mmix_tensor *t);
size_t mmix_shape(const mmix_tensor *t, int axis);
int mmix_read(const mmix_tensor *t, mmix_real *values);
int mmix_record(mmix_ctx *m, int on);
mmix_tensor *mmix_require_grad(mmix_tensor *t);
mmix_tensor *mmix_grad(const mmix_tensor *t);
int mmix_backward_from(mmix_ctx *m, mmix_tensor **outputs, mmix_tensor **gradients, size_t n);
mmix_tensor *mmix_layer_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias, double eps);
mmix_tensor *mmix_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, double eps);
mmix_tensor *mmix_causal_conv1d(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias, const
    mmix_causal_conv1d_options *options);
int mmix_mixer_windows(mmix_mixer *mixer, int axes, const size_t *grid, const size_t *window, int shifted);
mmix_tensor *mmix_mix_matrix(mmix_ctx *m, const mmix_mixer *mixer);
mmix_tensor *mmix_mix_rows_mean(mmix_ctx *m, const mmix_mixer *mixer, const size_t *rows, size_t n);
int mmix_mix_rank(mmix_ctx *m, const mmix_mixer *mixer, mmix_tensor *out_proj, size_t block, double eps,
    mmix_mixer_rank *result);
mmix_tensor *mmix_image(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height, size_t size);
mmix_vision *mmix_vision_load_as(mmix_ctx *m, const char *path, int dtype);
void mmix_vision_destroy(mmix_vision *v);
const mmix_vision_config *mmix_vision_config_of(const mmix_vision *v);
mmix_features mmix_vision_forward(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, const mmix_vision_options
    *options);
mmix_tensor *mmix_vision_attention(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, size_t block);
mmix_tensor *mmix_vision_classify(mmix_ctx *m, const mmix_vision *v, const mmix_features *f);
const char *mmix_vision_class_name(const mmix_vision *v, size_t i);
int mmix_feature_map(mmix_ctx *m, const mmix_map_options *options, const mmix_tensor *query, const mmix_tensor
    *patches, size_t gh, size_t gw, size_t h, size_t w, mmix_map *result);
mmix_decoder *mmix_decoder_load_as(mmix_ctx *m, const char *path, int dtype);
void mmix_decoder_destroy(mmix_decoder *d);
mmix_tensor *mmix_decoder_forward(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence, const
    mmix_decoder_options *options);
mmix_tensor *mmix_decoder_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden);
mmix_mix_state *mmix_decoder_state_create(const mmix_decoder *d);
void mmix_mix_state_destroy(mmix_mix_state *s);
mmix_tensor *mmix_decoder_step(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *piece, mmix_mix_state *s);
mmix_real *mmix_data(const mmix_tensor *t);
int32_t mmix_sample_token(mmix_ctx *m, const mmix_real *logits, size_t K, const mmix_sampling *sampling, uint64_t place);
mmix_tensor *mmix_py_wrap(mmix_ctx *m, int dtype, int ndim, const size_t *shape, const size_t *stride, void *data);
int mmix_py_check(mmix_ctx *m, const char *who, const mmix_mixer *x, size_t *sizes);
int mmix_py_mix(mmix_ctx *m, const mmix_mixer *x, const mmix_py_pass *pass);
const size_t *mmix_py_layout(void);
"""

# "...": not all members, so that the size may differ.
_STRUCTS = """
mmix_options { ptr allocator[5]; int threads, simd; uint64_t seed; ptr parallel_for, parallel_user, thread_start, thread_user, device[7]; }
mmix_memory_use { size_t bytes, peak, allocations; }
mmix_mixer { int kind; ptr q, k, v; double scale; int mask; size_t prefix, left, right; ptr lefts; size_t grid[3], window[3],
             shift[3]; int windows_wrong, windows_axes; ptr bias; int bf16; size_t remembered; int feature, normalize; double eps;
             ptr dt, A, D, dt_bias; int dt_softplus; double dt_low, dt_high; int direction; ptr z, initial_state, final_state; size_t chunk; ptr seq_idx; }
mmix_py_pass { ptr y, final_state, saved[3], dy, dfinal, dx[12]; }
mmix_causal_conv1d_options { int silu, reverse; ptr initial_state, seq_idx, final_state; }
mmix_rank { size_t matrices, rows, cols, width; ptr numerical, effective, stable, singular; }
mmix_mixer_rank { size_t block; mmix_rank M, whole; ptr decay, bound, diagonal, joined; }
mmix_vision_config { int mixer; size_t dim, depth, heads; double mlp_ratio; size_t patch, grid; ... }
mmix_vision_options { size_t n_last; ptr dense; size_t n_dense; int dense_norm, train; uint64_t step, stream;
                      ptr mixed, outputs, inputs; int class_last; ptr masked, mask_token; }
mmix_features { ptr token, registers, patches, tokens, intermediate, dense; size_t grid_h, grid_w; }
mmix_map { ptr similarity, scaled, map; char how[320]; }
mmix_sequence { ptr tokens, spans; size_t n_spans; ptr media, prune; }
mmix_sampling { double temperature, top_p; uint64_t stream; int32_t stop; size_t top_k; }
"""

_ENUMS = """MMIX_OK MMIX_ERROR_ARGUMENT MMIX_ERROR_MEMORY MMIX_ERROR_FILE
MMIX_SIMD_AUTO MMIX_SIMD_NONE MMIX_SIMD_AVX2 MMIX_SIMD_AVX512 MMIX_SIMD_NEON
MMIX_DTYPE_REAL MMIX_DTYPE_I32 MMIX_DTYPE_BF16 MMIX_DTYPE_F16 MMIX_DTYPE_I8 MMIX_DTYPE_Q4 MMIX_MIXER_SOFTMAX MMIX_MIXER_LINEAR MMIX_MIXER_SSD
MMIX_MASK_NONE MMIX_MASK_CAUSAL MMIX_MASK_PREFIX MMIX_MASK_BAND
MMIX_FEATURE_SOFTMAX_BOTH MMIX_FEATURE_EFFICIENT MMIX_FEATURE_ELU1 MMIX_FEATURE_RELU MMIX_FEATURE_NONE
MMIX_SCAN_FORWARD MMIX_SCAN_REVERSE MMIX_SCAN_BOTH MMIX_MAX_INPUTS MMIX_MAX_DIMS MMIX_IN_Q MMIX_IN_K MMIX_IN_V MMIX_IN_STATE MMIX_IN_BIAS
MMIX_IN_DT MMIX_IN_A MMIX_IN_D MMIX_IN_DT_BIAS sizeof(mmix_real)""".split()

# What ctypes cannot do with the public part alone: a tensor over memory of the caller's, and one pass of a mixer, forward
# or back, whose results and whose sums for the backward lie with the caller, so that Python's own collector decides how
# long they live, and passes can be taken back in any order.
_SHIM = r"""
typedef struct mmix_py_pass {
    mmix_tensor *y, *final_state;
    mmix_real *saved[3], *dy, *dfinal, *dx[MMIX_MAX_INPUTS];
} mmix_py_pass;
/* A tensor over the caller's memory; steps in elements, the last one 1. */
mmix_tensor *mmix_py_wrap(mmix_ctx *m, int dtype, int ndim, const size_t *shape, const size_t *stride, void *data)
{
    mmix_tensor *t = mmix_new(m, dtype, 0, NULL);
    if (!t) return NULL;
    t->ndim = ndim; t->data = data;
    memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(t->stride, stride, (size_t)ndim * sizeof *stride);
    return t;
}
/* sizes: reals that the forward keeps (1 / sums, maxima, states or e^(score - m)), and the shape of a state. */
int mmix_py_check(mmix_ctx *m, const char *who, const mmix_mixer *x, size_t *sizes)
{
    mmix_mixer o;
    mmix_call call;
    mmixi_pass p;
    if (!mmixi_mixer_ok(m, who, x)) return -1;
    o = mmixi_mixer_settled(x, x->k->shape[3]);
    call = mmixi_mixer_call(m, &o);
    if (mmix_error_kind(m)) return -1;
    mmixi_pass_begin(&p, mmixi_raw_of(&call), 0, m);
    sizes[0] = p.sums;
    sizes[1] = p.maxima;
    sizes[2] = p.kept_pays ? p.kept : 0;         /* as mmix_mix */
    if (p.form.state_shape) p.form.state_shape(&o, sizes + 3);
    return 0;
}
/* A mixer that was checked: forward, or with dy backward. */
int mmix_py_mix(mmix_ctx *m, const mmix_mixer *x, const mmix_py_pass *pass)
{
    mmix_mixer o = mmixi_mixer_settled(x, x->k->shape[3]);
    mmix_call call = mmixi_mixer_call(m, &o);
    mmix_op_functions run;
    if (mmix_error_kind(m)) return -1;
    call.m = m;
    call.out[0] = pass->y; call.out[1] = pass->final_state;
    memcpy(call.saved, pass->saved, sizeof pass->saved);
    memcpy(call.dx, pass->dx, sizeof pass->dx);
    call.dy[0] = pass->dy; call.dy[1] = pass->dfinal;
    run = mmix_op_get(m, call.op);
    return pass->dy ? run.backward(m, &call) : run.forward(m, &call);
}
"""

_real = np.dtype(np.float32)
_TYPES = {"int": ctypes.c_int, "int32_t": ctypes.c_int32, "size_t": ctypes.c_size_t, "double": ctypes.c_double, "uint64_t":
          ctypes.c_uint64, "char": ctypes.c_char, "ptr": ctypes.c_void_p, "void": None}


def _declare():
    """ctypes' structures, and in the same order what the C compiler is to say about them."""
    structs, questions, answers = {}, [], []
    for text in filter(None, (s.strip() for s in _STRUCTS.split("}"))):
        name, body = (s.strip() for s in text.split("{"))
        fields = []
        for line in filter(None, (s.strip() for s in body.split(";"))):
            kind, _, names = line.partition(" ")
            for field in names.split(",") if names else ():
                field, _, count = field.strip().rstrip("]").partition("[")
                fields.append((field, _TYPES[kind] * int(count) if count else _TYPES[kind]))
        _TYPES[name] = structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        if "..." not in body:
            questions.append(f"sizeof({name})")
            answers.append(ctypes.sizeof(structs[name]))
        for field, kind in fields:
            questions += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
            answers += [getattr(structs[name], field).offset, ctypes.sizeof(kind)]
    return SimpleNamespace(**{n.removeprefix("mmix_"): s for n, s in structs.items()}), questions, answers


_c, _questions, _answers = _declare()
_version = zlib.crc32("\n".join([*_questions, *_ENUMS, _FUNCTIONS, _SHIM]).encode())


def _unit(header):
    """The C file that becomes the library."""
    table = ",\n    ".join(f"(size_t){q}" for q in [_version, *_questions, *_ENUMS])
    return (f'#define MAMBA_MIX_IMPLEMENTATION\n#include <{header.name}>\n#include <stddef.h>\n{_SHIM}{_FUNCTIONS}'
            f"const size_t *mmix_py_layout(void)\n{{\n    static const size_t table[] = {{\n    {table} }};\n    return table;\n}}\n")


# ---- the library -----------------------------------------------------------------------------------------------------

def _compiler():
    command = shlex.split(os.environ.get("CC", "")) or next(([c] for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if not command or not shutil.which(command[0]):
        raise Error(f"no C compiler: {' '.join(command or ['cc, gcc, clang'])} not found; CC names another, and "
                    "MAMBA_MIX_LIBRARY a library that was built before")
    return command


def _compile(header, target, command):
    """Compiles the header to a library that appears whole: two processes at once are no matter."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(suffix=".tmp", prefix=target.name, dir=target.parent)
    os.close(handle)
    try:
        print(f"mamba_mix: compiling {header} (about ten seconds, once) ...", file=sys.stderr, flush=True)
        made = subprocess.run(command + ["-o", part, "-x", "c", "-", "-lm", "-lpthread"], input=_unit(header), text=True,
                              capture_output=True)
        if made.returncode:
            lines = made.stderr.strip().split("\n")
            raise Error("\n".join([f"{' '.join(command)} could not compile {header}:", *lines[:12]]))
        os.chmod(part, 0o755)
        os.replace(part, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _header():
    """The path of mamba_mix.h: the one that MAMBA_MIX_H names, else beside this file, else the first in the folders above."""
    named = os.environ.get("MAMBA_MIX_H")
    if named:
        header = Path(named).resolve()
        if not header.is_file():
            raise FileError(f"there is no {header}, which MAMBA_MIX_H names")
        return header
    here = Path(__file__).resolve().parent
    for folder in (here, *here.parents):
        header = folder / "mamba_mix.h"
        if header.is_file():
            return header
    raise FileError(f"there is no mamba_mix.h in {here} or above it; put it beside this file, or name it in MAMBA_MIX_H")


def _build(target=None):
    """The path of the library, compiled unless it is there: by header, this file's C, flags, compiler and machine."""
    header = _header()
    compiler, flags = _compiler(), ["-std=c99", "-O2", "-fPIC", "-shared"]
    if header.name != "mamba_mix.h":
        flags.append(f'-DMMIX_SELF="{header.name}"')
    if target is None:
        version = subprocess.run([*compiler, "--version"], capture_output=True).stdout
        key = hashlib.sha256(header.read_bytes())
        for part in (_unit(header), " ".join(compiler + flags), platform.platform(), version):
            key.update(hashlib.sha256(part if isinstance(part, bytes) else part.encode()).digest())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        target = cache / "mamba_mix" / (key.hexdigest()[:32] + ".so")
        if target.exists():
            return target
    _compile(header, Path(target), [*compiler, *flags, f"-I{header.parent}"])
    return target


def _bind(path):
    """The library's functions with their types, its enumerators in `.e`; an Error where it is not what this file expects."""
    try:
        library = ctypes.CDLL(str(path))
        layout = library.mmix_py_layout
    except (OSError, AttributeError) as wrong:
        raise FileError(f"{path} is no library of mamba_mix.py ({wrong}); `python3 mamba_mix.py --build FILE` makes one") from None
    layout.restype = ctypes.POINTER(ctypes.c_size_t)
    table = layout()
    if table[0] != _version:
        raise FileError(f"{path} was built by another mamba_mix.py")
    for i, (question, answer) in enumerate(zip(_questions, _answers), 1):
        if table[i] != answer:
            raise Error(f"{path}: {question} is {table[i]}, {Path(__file__).name} expects {answer}: the header has changed")
    enums = dict(zip(_ENUMS, (table[i] for i in range(1 + len(_questions), 1 + len(_questions) + len(_ENUMS)))))
    lib = SimpleNamespace(e=SimpleNamespace(**enums), path=str(path))
    if enums["sizeof(mmix_real)"] != _real.itemsize:
        raise Error(f"{path}: sizeof(mmix_real) is {enums['sizeof(mmix_real)']}, expected {_real.itemsize}")

    def kind(words):
        words = words.replace("const ", "").strip()
        if "*" in words:
            return ctypes.c_char_p if words.startswith("char") else ctypes.c_void_p
        return _TYPES[words]

    for line in " ".join(_FUNCTIONS.split()).rstrip(";").split("; "):
        front, _, arguments = line.rstrip(")").partition("(")
        result, _, name = front.replace("*", "* ").rpartition(" ")
        # functions that take or give reals carry the type in their symbol
        f = getattr(library, name, None) or getattr(library, name + "_float")
        f.restype = kind(result)
        f.argtypes = [kind(a[:a.rindex("*") + 1] if "*" in a else a.rpartition(" ")[0])
                      for a in arguments.split(", ") if a != "void"]
        setattr(lib, name, f)
    return lib


_loaded, _loading = {}, threading.Lock()


def load(path=None):
    """Loads the library that contexts use: the one at path, else MAMBA_MIX_LIBRARY's, else one compiled from the header.
    Contexts call it themselves; call it to have the wait, or the error, at a time of your own."""
    with _loading:
        path = path or os.environ.get("MAMBA_MIX_LIBRARY")
        key = str(path) if path else None
        if key not in _loaded:
            _loaded[key] = _bind(Path(path).resolve() if path else _build())
        return _loaded[key]


# ---- arrays ----------------------------------------------------------------------------------------------------------

def _lies_well(a):
    """Whether the library can read a where it lies: the last axis contiguous, no element twice."""
    if not a.flags.aligned or (a.ndim and a.shape[-1] > 1 and a.strides[-1] != a.itemsize):
        return False
    extent = a.itemsize
    for step, n in sorted((s, n) for s, n in zip(a.strides, a.shape) if n > 1):
        if step < extent or step % a.itemsize:
            return False
        extent = step * n
    return True


def _array(who, name, a, dtype=_real, strided=True):
    """a as an array that the library can read; the same one where it can be."""
    a = np.asarray(a)
    right = np.can_cast(a.dtype, _real, "same_kind") if dtype == _real else a.dtype.kind in "iu"
    if not right:
        raise TypeError(f"{who}: {name} has dtype {a.dtype}, expected {'real numbers' if dtype == _real else 'integers'}")
    if a.ndim > 6 or 0 in a.shape:
        raise ArgumentError(f"{who}: {name} has shape {a.shape}, expected at most 6 axes, none of them empty")
    if dtype != _real and a.dtype != dtype and (a.min() < -2**31 or a.max() >= 2**31):
        raise ArgumentError(f"{who}: {name} has numbers that do not fit into int32")
    if a.dtype == dtype and (_lies_well(a) if strided else a.flags.c_contiguous and a.flags.aligned):
        return a
    return np.array(a, dtype, order="C")


def _empty(*shape):
    """np.empty from a line of the cache on: numpy's own 16 bytes cost the kernels a twentieth of their time."""
    n = math.prod(shape)
    room = np.empty(n + 15, _real)
    at = -room.ctypes.data % 64 // _real.itemsize
    return room[at:at + n].reshape(shape)


def _gradient_like(a):
    """Memory for the gradient of a: the library lays it as a lies."""
    if a.flags.c_contiguous:
        return _empty(*a.shape)
    room = _empty(1 + sum((n - 1) * (s // a.itemsize) for n, s in zip(a.shape, a.strides) if n > 1))
    return np.ndarray(a.shape, _real, room, 0, [s if n > 1 else a.itemsize for n, s in zip(a.shape, a.strides)])


def _count(who, name, value):
    """A size: a whole number from 0 on."""
    value = operator.index(value)
    if value < 0 or value >= 2**63:
        raise ArgumentError(f"{who}: {name} is {value}, expected 0 or more")
    return value


def _counts(who, name, values):
    values = [_count(who, name, v) for v in values]
    return (ctypes.c_size_t * max(len(values), 1))(*values)


def _choice(who, name, value, choices):
    if value not in choices:
        raise ArgumentError(f"{who}: {name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return choices[value]


def _address(a):
    return None if a is None else a.ctypes.data


# ---- contexts --------------------------------------------------------------------------------------------------------

class Context:
    """Threads, memory and the seed; everything else comes from one.

        with mamba_mix.Context(threads=2, seed=7) as m: ...

    threads 0: all cores. simd: "auto", "none", "avx2", "avx512", "neon"; what the machine lacks falls to the next lower
    level. close(), which the end of `with` calls, also closes networks that came from it; later use of any is an Error.
    """
    _lib = _ptr = None

    def __init__(self, threads=0, seed=0, simd="auto", library=None):
        self._lock, self._models, self._numbers = threading.RLock(), {}, itertools.count()
        self._pid = os.getpid()
        lib = load(library)
        o = _c.options(threads=_count("Context", "threads", threads), seed=_count("Context", "seed", seed))
        o.simd = _choice("Context", "simd", simd, {n: getattr(lib.e, "MMIX_SIMD_" + n.upper())
                                                   for n in ("auto", "none", "avx2", "avx512", "neon")})
        self._lib, self._ptr = lib, lib.mmix_create(ctypes.byref(o))
        if not self._ptr:
            raise OutOfMemory(lib.mmix_error(None).decode())

    def close(self):
        """Frees the context and the networks that were opened with it. Twice is as good as once."""
        with self._lock:
            m, self._ptr = self._ptr, None
            if m and self._pid == os.getpid():
                for destroy, model in reversed(self._models.values()):
                    destroy(model)
                self._lib.mmix_destroy(m)
            self._models.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self._ptr:
            self.close()

    def __repr__(self):
        if not self._ptr:
            return "<mamba_mix.Context, closed>"
        return f"<mamba_mix.Context: {self.threads} threads, {self.simd}>"

    @contextlib.contextmanager
    def _working(self):
        """The context's pointer for one call, by one thread; afterwards the library's error, if any, is raised and its
        step memory, where nothing of ours stays, is given back."""
        with self._lock:
            if not self._ptr:
                raise Error("this context is closed")
            if self._pid != os.getpid():
                raise Error("this context was made before a fork: its threads are the parent's")
            m, lib = self._ptr, self._lib
            try:
                yield m
                self._raise(m)
            finally:
                lib.mmix_error_clear(m)
                lib.mmix_record(m, 0)
                lib.mmix_reset(m)

    def _raise(self, m):
        e, kind = self._lib.e, self._lib.mmix_error_kind(m)
        if kind:
            raise {e.MMIX_ERROR_ARGUMENT: ArgumentError, e.MMIX_ERROR_FILE: FileError, e.MMIX_ERROR_MEMORY: OutOfMemory}.get(
                kind, Error)(self._lib.mmix_error(m).decode(errors="replace"))

    def _wrap(self, m, a):
        """A tensor over an array, which must live until the call ends."""
        if a is None:
            return None
        size = ctypes.c_size_t * max(a.ndim, 1)
        strides = [s // a.itemsize if n > 1 else 1 for s, n in zip(a.strides, a.shape)]
        dtype = self._lib.e.MMIX_DTYPE_REAL if a.dtype == _real else self._lib.e.MMIX_DTYPE_I32
        return self._lib.mmix_py_wrap(m, dtype, a.ndim, size(*a.shape), size(*strides), a.ctypes.data)

    def _read(self, t):
        """A copy of a tensor; None of none."""
        if not t:
            return None
        a = _empty(*(self._lib.mmix_shape(t, i) for i in range(self._lib.mmix_ndim(t))))
        self._lib.mmix_read(t, a.ctypes.data)
        return a

    threads = property(lambda self: self._asked("mmix_threads"), doc="how many threads work")
    simd = property(lambda self: self._asked("mmix_simd_name").decode(), doc="the SIMD level, e.g. 'avx512'")

    def _asked(self, name):
        with self._working() as m:
            return getattr(self._lib, name)(m)

    @property
    def memory(self):
        """Bytes that the library holds now, held at most, and allocations so far: .bytes, .peak, .allocations."""
        use = self._asked("mmix_memory")
        return SimpleNamespace(bytes=use.bytes, peak=use.peak, allocations=use.allocations)

    # ---- mixers ----

    def softmax_attention(self, q, k, v, *, scale=None, mask="none", prefix=0, left=0, right=0, lefts=None, grid=None,
                          window=None, shifted=False, bias=None, seq_idx=None, grad=True):
        """y_i = sum_j p_ij v_j, p_i = softmax over the keys that i sees of scale q_i . k_j: a Mixed.

        q (B, L, H, N), k (B, S, G, N), v (B, S, G, P); y (B, L, H, P). scale None: 1/sqrt(N). mask: "none"; "causal", j <= i;
        "prefix", also both i and j < prefix; "band", i - left <= j <= i + right, lefts (L) int a left of each query's own.
        grid, window (1 to 3 axes): Swin's windows on a grid of L tokens, `shifted` by half a window, with bias
        (H, prod(2 window - 1)), the relative position bias. seq_idx (B, L) int: runs of equal numbers are sequences apart.
        """
        who, e = "softmax_attention", self._lib.e
        if scale == 0:
            raise ArgumentError(f"{who}: scale is 0, expected another number, or None for 1/sqrt(N)")
        options = dict(kind=e.MMIX_MIXER_SOFTMAX, scale=float(scale or 0), prefix=_count(who, "prefix", prefix),
                       left=_count(who, "left", left), right=_count(who, "right", right),
                       mask=_choice(who, "mask", mask, {"none": e.MMIX_MASK_NONE, "causal": e.MMIX_MASK_CAUSAL,
                                                        "prefix": e.MMIX_MASK_PREFIX, "band": e.MMIX_MASK_BAND}))
        if (grid is None) != (window is None) or (grid is not None and len(grid) != len(window)):
            raise ArgumentError(f"{who}: grid {grid} and window {window}, expected as many axes of both")
        windows = grid is not None and (len(grid), _counts(who, "grid", grid), _counts(who, "window", window), bool(shifted))
        return Mixed(self, who, options, windows, dict(q=q, k=k, v=v, bias=bias), dict(lefts=lefts, seq_idx=seq_idx), False, grad)

    def linear_attention(self, q, k, v, *, feature="softmax_both", causal=False, normalize=None, eps=1e-6, initial_state=None,
                         final_state=False, seq_idx=None, chunk=0, grad=True):
        """y_i = sum_j phi(q_i) . psi(k_j) v_j, with `normalize` divided by sum_j phi(q_i) . psi(k_j) + eps: a Mixed.

        Shapes as softmax_attention's. feature: "softmax_both", over the N features of each token; "efficient", over features
        for q and over tokens for k; "elu1", x + 1 or e^x; "relu"; "none", q and k are features already. normalize None: for
        elu1 and relu. causal: j <= i alone; then also initial_state (B, G, P, N), with normalize (B, G, P + 1, N), a
        final_state, and seq_idx (B, L).
        """
        who, e = "linear_attention", self._lib.e
        options = dict(kind=e.MMIX_MIXER_LINEAR, eps=float(eps), mask=e.MMIX_MASK_CAUSAL if causal else e.MMIX_MASK_NONE,
                       normalize=0 if normalize is None else 1 if normalize else -1, chunk=_count(who, "chunk", chunk),
                       feature=_choice(who, "feature", feature, {n: getattr(e, "MMIX_FEATURE_" + n.upper()) for n in (
                           "softmax_both", "efficient", "elu1", "relu", "none")}))
        return Mixed(self, who, options, None, dict(q=q, k=k, v=v, initial_state=initial_state), dict(seq_idx=seq_idx),
                     final_state, grad)

    def ssd(self, x, dt, A, B, C, *, D=None, dt_bias=None, dt_softplus=False, dt_limit=None, direction="forward",
            initial_state=None, final_state=False, seq_idx=None, chunk=0, grad=True):
        """h_t = e^(d_t A) h_(t-1) + d_t x_t b_t^T, y_t = h_t c_t + D x_t (Mamba-2, Dao & Gu 2024): a Mixed.

        x (B, L, Gx, P), dt (B, L, H), A (H) negative, B (B, L, G, N), C (B, L, Gc, N), D (H) or (H, P); y (B, L, H, P). d = dt
        + dt_bias (H), then softplus if dt_softplus, then clamped to dt_limit = (low, high). direction: "forward", "reverse",
        or "both", the mean of the two. initial_state (B, H, P, N): h before the first token; with final_state=True the
        result has that after the last. seq_idx (B, L) int: runs of equal numbers are sequences apart. chunk: tokens of a
        chunk, 0: chosen; changes nothing but rounding and speed.
        """
        who, e = "ssd", self._lib.e
        low, high = dt_limit or (0, 0)
        options = dict(kind=e.MMIX_MIXER_SSD, dt_softplus=bool(dt_softplus), dt_low=float(low), dt_high=float(high),
                       chunk=_count(who, "chunk", chunk), direction=_choice(who, "direction", direction, {
                           "forward": e.MMIX_SCAN_FORWARD, "reverse": e.MMIX_SCAN_REVERSE, "both": e.MMIX_SCAN_BOTH}))
        return Mixed(self, who, options, None, dict(x=x, dt=dt, A=A, B=B, C=C, D=D, dt_bias=dt_bias, initial_state=initial_state),
                     dict(seq_idx=seq_idx), final_state, grad)

    # ---- what stands beside mixers ----

    def layer_norm(self, x, weight=None, bias=None, eps=1e-5):
        """(x - mean) / sqrt(variance + eps) weight + bias over the last axis; x (..., D), weight, bias (D): an Applied."""
        return Applied(self, "layer_norm", lambda m, t, last: self._lib.mmix_layer_norm(m, t["x"], t["weight"], t["bias"], eps),
                       dict(x=x, weight=weight, bias=bias))

    def rms_norm(self, x, weight=None, eps=1e-5):
        """x / sqrt(mean(x^2) + eps) weight over the last axis; x (..., D), weight (D): an Applied."""
        return Applied(self, "rms_norm", lambda m, t, last: self._lib.mmix_rms_norm(m, t["x"], t["weight"], eps),
                       dict(x=x, weight=weight))

    def conv1d(self, x, weight, bias=None, *, silu=False, reverse=False, initial_state=None, final_state=False, seq_idx=None):
        """y_t = act(bias + sum_k weight[:, 0, k] x_(t-(W-1)+k)), causal and depthwise: an Applied.

        x (B, L, D), weight (D, 1, W), bias (D). initial_state (B, D, W-1): the tokens before the first, oldest first, else
        zeros. final_state=True: the result has the last W-1 inputs. seq_idx (B, L) int: a tap counts within its own number.
        """
        def run(m, t, last):
            o = _c.causal_conv1d_options(bool(silu), bool(reverse), t["initial_state"], t["seq_idx"])
            if final_state:
                o.final_state = ctypes.addressof(last)
            return self._lib.mmix_causal_conv1d(m, t["x"], t["weight"], t["bias"], ctypes.byref(o))
        return Applied(self, "conv1d", run, dict(x=x, weight=weight, bias=bias, initial_state=initial_state),
                       dict(seq_idx=seq_idx))

    # ---- networks ----

    def image(self, rgb, size=224):
        """(1, 3, size, size) for a network from a picture (h, w, 3) of uint8: the shorter side to size 256/224, bicubic,
        the middle, ImageNet's mean and deviation."""
        rgb = np.asarray(rgb)
        if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
            raise ArgumentError(f"image: rgb has shape {rgb.shape} of {rgb.dtype}, expected (h, w, 3) of uint8")
        rgb = np.ascontiguousarray(rgb)
        with self._working() as m:
            return self._read(self._lib.mmix_image(m, rgb.ctypes.data, rgb.shape[1], rgb.shape[0], _count("image", "size", size)))

    def vision(self, path, dtype="float"):
        """A backbone from a file: ViT (DINO), DINOv2, DINOv3, LinearViT, DinoVim, as downloaded or saved: a Vision.
        .safetensors, .pth, .npz. dtype: "float"; "bf16", "f16", "int8" or "q4": matrices in 2, 2 or 1 bytes or 5 bits a number."""
        return Vision(self, path, dtype)

    def decoder(self, path, dtype="float"):
        """A decoder from a file: .gguf of a llama or qwen2, llama2.c's .bin, or .safetensors of a Llama or Qwen2 with its
        config.json: a Decoder. dtype as in vision."""
        return Decoder(self, path, dtype)


# ---- results ---------------------------------------------------------------------------------------------------------

def _upstream(who, name, given, like):
    """The gradient of an output; None: 0 of a state."""
    if given is None:
        return None
    given = _array(who, name, given, strided=False)
    if given.shape != like.shape:
        raise ArgumentError(f"{who}: {name} has shape {given.shape}, expected {like.shape}")
    return given


class Mixed:
    """Y = M X, computed. y (B, L, H, P); final_state, or None.

    grad=False keeps nothing for backward, which then is an Error.
    """
    def __init__(self, context, who, options, windows, reals, integers, final_state, grad):
        self._context, self._who, self._options, self._windows = context, who, options, windows
        # k, v of ssd are called B, x there; what is short is copied if it is not in one piece
        names = dict(x="v", B="k", C="q") if options["kind"] == context._lib.e.MMIX_MIXER_SSD else {}
        self._given = {n: _array(who, n, a, strided=n in ("q", "k", "v", "x", "dt", "B", "C"))
                       for n, a in reals.items() if a is not None}
        self._field = {n: names.get(n, n) for n in self._given}
        self._integers = {n: _array(who, n, a, np.dtype(np.int32), False) for n, a in integers.items() if a is not None}
        both = options.get("direction") == context._lib.e.MMIX_SCAN_BOTH
        self._ways = (context._lib.e.MMIX_SCAN_FORWARD, context._lib.e.MMIX_SCAN_REVERSE) if both else (None,)
        self._grad, self._kept = grad, []
        with context._working() as m:
            sizes = (ctypes.c_size_t * 7)()
            x = self._mixer(m)
            if final_state:                      # only that it is wanted matters to the check
                x.final_state = ctypes.addressof(sizes)
            if not context._lib.mmix_py_check(m, who.encode(), ctypes.byref(x), sizes):
                self._forward(m, x, sizes, final_state)

    def _mixer(self, m):
        x = _c.mixer(**self._options)
        for name, a in self._given.items():
            setattr(x, self._field[name], self._context._wrap(m, a))
        for name, a in self._integers.items():
            setattr(x, name, self._context._wrap(m, a))
        if self._windows:
            self._context._lib.mmix_mixer_windows(ctypes.byref(x), *self._windows)
        return x

    def _pass(self, m, x, way, y, saved, **more):
        p = _c.py_pass(y=self._context._wrap(m, y), **more)
        p.saved[:] = [_address(s) for s in saved]
        if way is not None:
            x.direction = way
        x.final_state = None
        self._context._lib.mmix_py_mix(m, ctypes.byref(x), ctypes.byref(p))

    def _forward(self, m, x, sizes, final_state):
        g, field = self._given, {f: self._given[n] for n, f in self._field.items()}
        heads = g["dt"].shape[2] if "dt" in g else g["q"].shape[2]
        shape = (*field["q"].shape[:2], heads, field["v"].shape[3])
        self.final_state = _empty(*sizes[3:7]) if final_state else None
        for way in self._ways:
            y = _empty(*shape)
            saved = [_empty(n) if self._grad and n else None for n in sizes[:3]]
            self._pass(m, x, way, y, saved, final_state=self._context._wrap(m, self.final_state))
            self._kept.append((way, y, saved))
        self.y = y if len(self._kept) == 1 else (self._kept[0][1] + y) / _real.type(2)
        if self._grad:
            self.y.flags.writeable = False
        else:
            self._kept = []

    def backward(self, dy, final_state=None):
        """The gradients of sum(y dy) (+ sum(final_state d)), by the names of the arguments: g.q or g.x, ...; float32, of the
        arguments' shapes. dy of y's shape; final_state: d, of the state's. May be called again."""
        who = self._who + ".backward"
        if not self._grad:
            raise Error(f"{who}: this was computed with grad=False")
        dy = _upstream(who, "dy", dy, self.y)
        if final_state is not None and self.final_state is None:
            raise ArgumentError(f"{who}: a gradient of final_state, which was not asked for")
        dlast = _upstream(who, "final_state", final_state, self.final_state)
        place = {f: getattr(self._context._lib.e, "MMIX_IN_" + f.upper().replace("INITIAL_", "")) for f in self._field.values()}
        sums = None
        if len(self._kept) > 1:
            dy = dy / _real.type(2)
        with self._context._working() as m:
            x = self._mixer(m)
            for way, y, saved in self._kept:
                made = {n: _gradient_like(a) for n, a in self._given.items()}
                dx = (ctypes.c_void_p * 12)()
                for n, a in made.items():
                    dx[place[self._field[n]]] = a.ctypes.data
                self._pass(m, x, way, y, saved, dy=_address(dy), dfinal=_address(dlast), dx=dx)
                sums = made if sums is None else {n: sums[n] + a for n, a in made.items()}
        return SimpleNamespace(**sums)

    def matrix(self):
        """M (B, H, L, S) with y = M v (M x) for each head: for looking, of a few thousand tokens at most."""
        with self._context._working() as m:
            return self._context._read(self._context._lib.mmix_mix_matrix(m, ctypes.byref(self._mixer(m))))

    def rows(self, rows):
        """The mean of these rows of M, (B, H, S): what those outputs read. No M is made."""
        rows = np.atleast_1d(rows)
        with self._context._working() as m:
            return self._context._read(self._context._lib.mmix_mix_rows_mean(
                m, ctypes.byref(self._mixer(m)), _counts(self._who + ".rows", "a row", rows), len(rows)))

    def ranks(self, block=0, eps=0.0):
        """Ranks of the block x block blocks of M (0: half of L), (B, H, n, n): .numerical, .effective, .stable, and .bound, what
        they cannot exceed (rank L_IJ N of SSD and N of linear attention off the diagonal; 0 of a block of zeros); .singular
        (B, H, n, n, width): the singular values, falling."""
        with self._context._working() as m:
            r = _c.mixer_rank()
            self._context._lib.mmix_mix_rank(m, ctypes.byref(self._mixer(m)), None, _count(self._who + ".ranks", "block", block),
                                             float(eps), ctypes.byref(r))
            self._context._raise(m)

            def numbers(address, *more):
                shape = (self.y.shape[0], self.y.shape[2], r.M.rows, r.M.cols, *more)
                return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_double)), shape).copy()
            return SimpleNamespace(block=r.block, singular=numbers(r.M.singular, r.M.width), bound=numbers(r.bound), **{
                n: numbers(getattr(r.M, n)) for n in ("numerical", "effective", "stable")})


class Applied:
    """An op of one pass over its input: y; final_state, or None. backward runs the op again, on the library's tape."""
    def __init__(self, context, who, run, reals, integers={}):
        self._context, self._who, self._run = context, who, run
        self._given = {n: a if a is None else _array(who, n, a, strided=False) for n, a in reals.items()}
        self._integers = {n: a if a is None else _array(who, n, a, np.dtype(np.int32), False) for n, a in integers.items()}
        with context._working() as m:
            last = ctypes.c_void_p()
            y = run(m, self._wrapped(m), last)
            self.y, self.final_state = context._read(y), context._read(last.value)

    def _wrapped(self, m):
        return {n: self._context._wrap(m, a) for n, a in [*self._given.items(), *self._integers.items()]}

    def backward(self, dy, final_state=None):
        """As Mixed.backward."""
        who, lib, wrap = self._who + ".backward", self._context._lib, self._context._wrap
        if final_state is not None and self.final_state is None:
            raise ArgumentError(f"{who}: a gradient of final_state, which was not asked for")
        dy = _upstream(who, "dy", dy, self.y)
        dlast = _upstream(who, "final_state", final_state, self.final_state)
        with self._context._working() as m:
            t, last = self._wrapped(m), ctypes.c_void_p()
            for n in self._given:
                lib.mmix_require_grad(t[n])
            lib.mmix_record(m, 1)
            y = self._run(m, t, last)
            two, n = ctypes.c_void_p * 2, 1 + (dlast is not None)
            lib.mmix_backward_from(m, two(y, last), two(wrap(m, dy), wrap(m, dlast)), n)
            made = {n: self._context._read(lib.mmix_grad(t[n])) for n, a in self._given.items() if a is not None}
        return SimpleNamespace(**{n: np.zeros_like(self._given[n]) if a is None else a for n, a in made.items()})


# ---- networks --------------------------------------------------------------------------------------------------------

class _Model:
    """What lives in a context until it, or the context, is closed."""
    _context = None

    def _keep(self, context, destroy, open_):
        self._context, self._key = context, next(context._numbers)
        with context._working() as m:
            model = open_(m)
            if model:
                context._models[self._key] = (destroy, model)

    @contextlib.contextmanager
    def _working(self):
        with self._context._working() as m:
            if self._key not in self._context._models:
                raise Error(f"this {type(self).__name__} is closed")
            yield m, self._context._models[self._key][1]

    def close(self):
        """Frees it. Twice is as good as once."""
        if self._context:
            with self._context._lock:
                destroy, model = self._context._models.pop(self._key, (None, None))
                if model and self._context._pid == os.getpid():
                    destroy(model)

    __enter__, __exit__, __del__ = Context.__enter__, Context.__exit__, close


def _path(path):
    path = os.fsencode(path)
    if b"\0" in path:
        raise ArgumentError(f"{os.fsdecode(path)!r}: expected a path, found a zero byte in it")
    return path


def _dtype(lib, who, dtype):
    known = dict(float=lib.e.MMIX_DTYPE_REAL, bf16=lib.e.MMIX_DTYPE_BF16, f16=lib.e.MMIX_DTYPE_F16,
                 int8=lib.e.MMIX_DTYPE_I8, q4=lib.e.MMIX_DTYPE_Q4)
    if not isinstance(dtype, str) or dtype not in known:
        raise ArgumentError(f"{who}: dtype is {dtype!r}, expected one of {', '.join(map(repr, known))}")
    return known[dtype]


class Vision(_Model):
    """A backbone: pictures in, tokens out. dim, depth, heads (0 of Mamba), patch."""
    def __init__(self, context, path, dtype="float"):
        lib = context._lib
        dtype = _dtype(lib, "vision", dtype)
        self._keep(context, lib.mmix_vision_destroy, lambda m: lib.mmix_vision_load_as(m, _path(path), dtype))
        with self._working() as (m, v):
            c = _c.vision_config.from_address(lib.mmix_vision_config_of(v))
            self.dim, self.depth, self.heads, self.patch = c.dim, c.depth, c.heads, c.patch

    def features(self, image, n_last=0):
        """Tokens of image (B, 3, h, w), normalized: .token (B, D), the class token or the registers' mean; .patches (B, n, D),
        raster order, .grid their (rows, columns); .registers (B, k, D) or None; .tokens (B, L, D), all in the model's order;
        .intermediate (B, n_last D), the class tokens of the last n_last blocks. All after the final norm."""
        image = _array("features", "image", image, strided=False)
        with self._working() as (m, v):
            o = _c.vision_options(n_last=_count("features", "n_last", n_last))
            f = self._context._lib.mmix_vision_forward(m, v, self._context._wrap(m, image), ctypes.byref(o))
            return SimpleNamespace(grid=(f.grid_h, f.grid_w), **{n: self._context._read(getattr(f, n)) for n in (
                "token", "registers", "patches", "tokens", "intermediate")})

    def attention(self, image, block=-1):
        """What the class token reads of each patch in a block (-1: the last), head by head: (B, H, rows, columns)."""
        image = _array("attention", "image", image, strided=False)
        block = operator.index(block) + (self.depth if block < 0 else 0)
        with self._working() as (m, v):
            return self._context._read(self._context._lib.mmix_vision_attention(
                m, v, self._context._wrap(m, image), _count("attention", "block", block)))

    def classify(self, image):
        """Logits of the classes for each picture, (B, K), if the file has a classifier."""
        image = _array("classify", "image", image, strided=False)
        with self._working() as (m, v):
            lib = self._context._lib
            f = lib.mmix_vision_forward(m, v, self._context._wrap(m, image), None)
            self._context._raise(m)
            return self._context._read(lib.mmix_vision_classify(m, v, ctypes.byref(f)))

    def class_name(self, i):
        """What class i is called in the file, or None."""
        with self._working() as (_, v):
            name = self._context._lib.mmix_vision_class_name(v, _count("class_name", "i", i))
            return name.decode() if name else None

    def map(self, image):
        """How alike each patch is to the class token, by cosine: .similarity (B, rows, columns); .map (B, h, w), each picture's
        least to 0 and largest to 1, bilinear; .how, in words."""
        image, lib, read = _array("map", "image", image, strided=False), self._context._lib, self._context._read
        with self._working() as (m, v):
            f = lib.mmix_vision_forward(m, v, self._context._wrap(m, image), None)
            self._context._raise(m)
            r = _c.map()
            lib.mmix_feature_map(m, None, f.token, f.patches, f.grid_h, f.grid_w, *image.shape[2:], ctypes.byref(r))
            self._context._raise(m)
            return SimpleNamespace(similarity=read(r.similarity)[:, 0], map=read(r.map)[:, 0], how=r.how.decode())


class _Carried(_Model):
    """What a decoder remembers of the tokens before."""
    def __init__(self, decoder):
        lib = decoder._context._lib
        with decoder._working() as (_, d):
            self._keep(decoder._context, lib.mmix_mix_state_destroy, lambda m: lib.mmix_decoder_state_create(d))


class Decoder(_Model):
    """A decoder of tokens, which are numbers."""
    def __init__(self, context, path, dtype="float"):
        lib = context._lib
        dtype = _dtype(lib, "decoder", dtype)
        self._keep(context, lib.mmix_decoder_destroy, lambda m: lib.mmix_decoder_load_as(m, _path(path), dtype))

    def logits(self, tokens):
        """(B, L, K) for tokens (B, L) int; (L, K) for (L)."""
        tokens = _array("logits", "tokens", tokens, np.dtype(np.int32), False)
        with self._working() as (m, d):
            s = _c.sequence(tokens=self._context._wrap(m, np.atleast_2d(tokens)))
            hidden = self._context._lib.mmix_decoder_forward(m, d, ctypes.byref(s), None)
            y = self._context._read(self._context._lib.mmix_decoder_logits(m, d, hidden))
        return y[0] if tokens.ndim == 1 else y

    def stream(self, prompt, count, temperature=0.0, top_p=0.0, stream=0, stop=0, top_k=0):
        """Yields up to `count` tokens that follow prompt (L) int, each as soon as it is there. temperature 0: the likeliest;
        else drawn from softmax(logits / temperature), of which the likeliest top_k (0: all), and of those the likeliest with
        together top_p (0: all) are kept, by the context's seed, `stream` and its place. stop: the last token to make, none if 0."""
        prompt = _array("stream", "prompt", prompt, np.dtype(np.int32), False)
        if prompt.ndim != 1:
            raise ArgumentError(f"stream: prompt has shape {prompt.shape}, expected (L)")
        o = _c.sampling(float(temperature), float(top_p), _count("stream", "stream", stream), operator.index(stop),
                        _count("stream", "top_k", top_k))
        return self._tokens(prompt, _count("stream", "count", count), o)

    def _tokens(self, piece, count, sampling):
        lib, place = self._context._lib, len(piece)
        with _Carried(self) as state:
            for place in range(place, place + count):
                with self._working() as (m, d), state._working() as (_, s):
                    step = _c.sequence(tokens=self._context._wrap(m, piece[None]))
                    t = lib.mmix_decoder_step(m, d, ctypes.byref(step), s)
                    token = lib.mmix_sample_token(m, lib.mmix_data(t), lib.mmix_shape(t, -1), ctypes.byref(sampling), place)
                yield token
                if sampling.stop and token == sampling.stop:
                    break
                piece = np.array([token], np.int32)

    def generate(self, prompt, count, **sampling):
        """The tokens of stream as an array (n) of int32."""
        return np.fromiter(self.stream(prompt, count, **sampling), np.int32)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--build":
        print(_build(Path(sys.argv[2]).absolute()))
    elif len(sys.argv) == 1:
        with Context() as _m:
            print(json.dumps({"library": _m._lib.path, "threads": _m.threads, "simd": _m.simd}))
    else:
        sys.exit("usage: python3 mamba_mix.py [--build FILE.so]\nwithout arguments: compiles, and says where the library is")
