"""GGUF files that the Python package gguf writes are read as it reads them, bit for bit.

    python3 tests/gguf_package.py build/gguf            from the repository's root; needs numpy and gguf (PyPI: gguf)
    python3 tests/gguf_package.py build/gguf FILE...    these files alone
"""
import json, struct, subprocess, sys, tempfile
from pathlib import Path

try:
    import numpy as np
    import gguf
    from gguf import GGMLQuantizationType as Type, quants
except ImportError as missing:
    print(f"skipped: GGUF beside the package gguf ({missing}; PYTHON=... names another Python)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

READ = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
        "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
# where the float16 scales of a block are, for those that gguf doesn't quantise: bits are drawn, scales are kept finite
SCALES = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
passed = failed = 0


def check(name, right, found=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAILED {name} {found}")


def blocks(rng, kind, rows, columns):
    """Random rows of a type, as bytes or as numbers that numpy knows."""
    values = (rng.standard_normal((rows, columns)) * 10 ** rng.uniform(-3, 3, (rows, 1))).astype(np.float32)
    values[0] = 0
    if kind in ("F32", "F16", "F64"):
        return values.clip(-60000, 60000).astype({"F32": np.float32, "F16": np.float16, "F64": np.float64}[kind])
    if kind[0] == "I" and kind[1:].isdigit():
        info = np.iinfo(f"int{kind[1:]}")
        return rng.integers(info.min, info.max, (rows, columns), info.dtype, endpoint=True)
    if kind not in SCALES:
        return quants.quantize(values, Type[kind])
    elements, size = gguf.GGML_QUANT_SIZES[Type[kind]]
    data = rng.integers(0, 256, (rows, columns // elements, size), np.uint8, endpoint=False)
    for at in SCALES[kind]:
        data[..., at + 1] &= 0xBF                # exponents below 16
    return data.reshape(rows, -1)


def expected(tensor):
    """A tensor as gguf reads it, in the shape that a reader of rows sees."""
    shape = [int(n) for n in reversed(tensor.shape)]
    kind = tensor.tensor_type.name
    if kind in ("F32", "F16", "F64") or kind[0] == "I" and kind[1:].isdigit():
        return np.asarray(tensor.data).astype(np.float32).reshape(shape)
    return quants.dequantize(np.asarray(tensor.data), tensor.tensor_type).astype(np.float32).reshape(shape)


def read_safetensors(path):
    data = memoryview(Path(path).read_bytes())
    n, = struct.unpack("<Q", data[:8])
    head = json.loads(bytes(data[8:8 + n]))
    meta = head.pop("__metadata__", {})
    found = {}
    for name, e in head.items():
        begin, end = (8 + n + at for at in e["data_offsets"])
        found[name] = np.frombuffer(data[begin:end], "<f4").reshape(e["shape"])
    return found, meta


def compare(program, path, keys=()):
    """All tensors of a file, and what the metadata say."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.safetensors"
        made = subprocess.run([program, "--read", path, out, *keys], capture_output=True, text=True)
        check(f"{program} reads {path}", made.returncode == 0, made.stdout[-500:])
        if made.returncode:
            return {}
        found, meta = read_safetensors(out)
    reader = gguf.GGUFReader(path)
    for t in reader.tensors:
        if t.tensor_type.name not in READ:
            check(f"{t.name} ({t.tensor_type.name}) is not read", t.name not in found)
            continue
        want, got = expected(t), found.get(t.name)
        same = got is not None and got.shape == want.shape
        check(f"{t.name} ({t.tensor_type.name}) has the shape", same, f"{want.shape}")
        if same:
            differ = (got.view(np.uint32) != want.view(np.uint32)) & ~((got == 0) & (want == 0))
            check(f"{t.name} ({t.tensor_type.name}) has the bits", not differ.any(), f"{differ.sum()} differ")
    return meta


def random_files(program, folder):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        path = Path(folder) / f"{seed}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_string("text", "é \"quoted\"\n{}")
        writer.add_uint32("u32", 4294967295)
        writer.add_int64("i64", -2**63)
        writer.add_float32("f32", 0.1)
        writer.add_bool("bool", True)
        writer.add_array("list", ["a", "b"])
        if seed:
            writer.add_custom_alignment([0, 64, 512][seed])
        for kind in READ + ["TQ1_0", "TQ2_0", "MXFP4"]:
            for rows in (1, 7):
                data = blocks(rng, kind, rows, 256 * int(rng.integers(1, 4)))
                writer.add_tensor(f"{kind}.{rows}", data, raw_dtype=Type[kind])
        cube = blocks(rng, "Q4_0", 6, 256)
        writer.add_tensor("cube", cube.reshape(2, 3, -1), raw_dtype=Type.Q4_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        keys = ["general.architecture", "text", "u32", "i64", "f32", "bool", "list"]
        meta = compare(program, path, keys)
        check("metadata", meta == {
            "general.architecture": "llama", "text": "é \"quoted\"\n{}", "u32": "4294967295",
            "i64": str(-2**63), "f32": "0.100000001", "bool": "true"}, f"{meta}")


if len(sys.argv) < 2:
    sys.exit(__doc__)
for name in sys.argv[2:]:
    compare(sys.argv[1], name)
if len(sys.argv) == 2:
    with tempfile.TemporaryDirectory() as folder:
        random_files(sys.argv[1], folder)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed != 0)
