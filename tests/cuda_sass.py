"""What the machine code of mamba_mix_cuda.cu says without a GPU: counts of each kernel, and an estimate of its times.

    cuobjdump -sass build/mamba_mix_cuda.o >build/cuda.sass; build/cuda shared >build/cuda_shared.txt
    python3 tests/cuda_sass.py build/cuda.sass build/cuda.txt build/cuda_shared.txt

build/cuda.txt: what `make cuda` keeps of ptxas -v. cuobjdump and nvdisasm are in the toolkit, or are PyPI's
nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.

Counts. Of each kernel in tiles: instructions; of its loop over chunks or tiles (of 64 tokens) instructions, mma (HMMA),
shared memory's wavefronts of 128 bytes, MUFU (2^x, 1/x) and integer divisions; registers, shared memory and the blocks
that a processor then has.

Estimates, of the shapes of demos/studies/bench_cuda.c in bf16: nothing was run. A warp issues each instruction of a loop's body
once per chunk or tile, branches that are not taken (a mask, D, softplus) included, the rest of the kernel once. A kernel
takes the longest of four times on an H100 SXM, as if they overlapped entirely:
    issue   1 warp instruction a cycle and scheduler, 4 a processor
    mma     2048 multiply-adds each, at bf16's dense 989 TFLOPS, of which mma.sync is reported to reach 63 % (Luo et al.
            2024, "Benchmarking and dissecting the Nvidia Hopper GPU architecture")
    shared  1 wavefront a cycle and processor
    special 16 results of MUFU a cycle and processor
    memory  each array and workspace once, at 3.35 TB/s
times the part of its last wave of blocks that is empty. Launches, the L2 cache and latency are not in it."""
import re
import subprocess
import sys
from collections import Counter
from math import ceil

SMS, CLOCK, HBM, SHARED, TENSOR = 132, 1.755e9, 3.35e12, 228 * 1024, 989e12 / 2 * 0.63
if len(sys.argv) < 4:
    sys.exit(__doc__)
arch = "sm_90"                                           # elsewhere loops end otherwise


def demangle(names):
    out = subprocess.run(
        ["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True
    ).stdout
    return [re.sub(r"mmixi_cuda_|\(int\)|\s", "", n) for n in out.strip().split("\n")]


def kernels(path):
    """Name: [(address, opcode, operands, predicated)]"""
    found, body, right = {}, None, True
    for line in open(path):
        if m := re.search(r"arch = (sm_\d+)", line):
            right = m[1] == arch
        elif m := re.search(r"Function : (\S+)", line):
            body = found.setdefault(m[1], []) if right else None
        elif body is not None and (
            m := re.search(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);", line)
        ):
            body.append((int(m[1], 16), m[3], m[4], bool(m[2])))
    return dict(zip(demangle(found), found.values()))


def registers(path):
    found, name = {}, None
    for line in open(path):
        if m := re.search(r"Compiling entry function '(\S+)' for '(sm_\d+)'", line):
            name = m[1] if m[2] == arch else None
        elif name and (m := re.search(r"Used (\d+) registers", line)):
            found[name], name = int(m[1]), None
    return dict(zip(demangle(found), found.values()))


def loops(body):
    """The outermost loops with an mma, as slices of the body: a branch back under a condition ends one."""
    at = {address: i for i, (address, *_) in enumerate(body)}
    spans = []
    for i, (address, op, rest, predicated) in enumerate(body):
        if op.startswith("BRA") and predicated and (m := re.search(r"0x([0-9a-f]+)", rest)):
            first = at.get(int(m[1], 16), i)
            if first < i and any(o.startswith("HMMA") for _, o, *_ in body[first:i]):
                spans.append((first, i + 1))
    return [s for s in spans if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in spans)]


def count(body):
    c = Counter()
    for _, op, rest, _ in body:
        c["issue"] += 1
        c["mma"] += op.startswith("HMMA")
        c["mufu"] += op.startswith("MUFU")
        c["division"] += (
            op.startswith("CALL") or op.startswith("I2F.U32.RP") or op.startswith("I2F.RP")
        )
        if op.startswith("LDSM"):
            c["shared"] += 4
        elif op.startswith(("LDS", "STS", "LDGSTS")) and "[RZ]" not in rest:
            c["shared"] += 4 if ".128" in op else 2 if ".64" in op else 1
    return c


code, used = kernels(sys.argv[1]), registers(sys.argv[2])
shared = {}
for line in open(sys.argv[3]):
    n, p, *numbers = map(
        int, re.findall(r"\d+", line.replace("F32", "").replace("TF", "").replace("BF16", ""))
    )
    # ssd forward, backward, attention forward, backward, dbias
    shared[n, p, "BF16" in line] = numbers


def blocks_a_processor(name, nbytes):
    return max(1, min(SHARED // (nbytes + 1024), 65536 // (128 * ceil(used[name] / 8) * 8), 16))


def nbytes(kernel, N, P, heads=1):
    s = shared[N, P, True]
    if kernel.startswith("attention"):
        return s[2 if "forward" in kernel else 4 if "dbias" in kernel else 3]
    return s["backward" in kernel] + (heads - 1) * N * (P + 8) * 6


MAIN = [
    ("ssd_forward<2,64,64>", 64, 64),
    ("ssd_forward<2,128,64>", 128, 64),
    ("ssd_leave<2,64,64,0>", 64, 64),
    ("ssd_backward<2,64,64>", 64, 64),
    ("ssd_backward<2,128,64>", 128, 64),
    ("attention_forward<2,8,1>", 64, 64),
    ("attention_dq<2,8,1>", 64, 64),
    ("attention_dkv<2,8,1,3>", 64, 64),
    ("attention_dbias<2>", 64, 64),
    ("attention_forward<2,16,1>", 128, 128),
    ("attention_dq<2,16,1>", 128, 128),
    ("attention_dkv<2,16,1,1>", 128, 128),
]
print(
    f"{arch}\n{'kernel':30s} {'code':>6s} {'loop':>5s} {'mma':>4s} {'shared':>6s} {'MUFU':>4s} {'div.':>4s} {'regs':>4s} "
    f"{'bytes':>6s} blocks"
)
for name, N, P in MAIN:
    if name not in code:
        continue
    spans = loops(code[name])
    c = sum((count(code[name][a:b]) for a, b in spans), Counter())
    size = nbytes(name, N, P)
    print(
        f"{name:30s} {len(code[name]):6d} {c['issue']:5d} {c['mma']:4d} {c['shared']:6d} {c['mufu']:4d} {c['division']:4d} "
        f"{used[name]:4d} {size:6d} {blocks_a_processor(name, size):6d}"
    )


def kernel(name, blocks, rounds, memory, nbytes, even=True):
    """Seconds, by what; rounds: of each loop, by all blocks together."""
    body, total = code[name], Counter()
    spans = loops(body)
    rest = [x for i, x in enumerate(body) if not any(a <= i < b for a, b in spans)]
    for part, times in [(rest, blocks)] + [(body[a:b], r) for (a, b), r in zip(spans, rounds)]:
        for key, value in count(part).items():
            total[key] += value * times * 4  # warps of a block
    seconds = {
        "issue": total["issue"] / (4 * SMS * CLOCK),
        "mma": total["mma"] * 2048 / TENSOR,
        "shared": total["shared"] / (SMS * CLOCK),
        "special": total["mufu"] * 2 / (SMS * CLOCK),
    }
    slots = SMS * blocks_a_processor(name, nbytes)
    waste = ceil(blocks / slots) * slots / blocks if even else 1
    seconds = {k: v * waste for k, v in seconds.items()}
    seconds["memory"] = memory / HBM
    return seconds


SSD = {
    "ssd_vision_64x198_h16": (64, 198, 16, 64, 64),
    "ssd_vision_256x48_h24": (256, 48, 24, 64, 64),
    "ssd_1x2048_h80": (1, 2048, 80, 64, 128),
    "ssd_8x2048_h80": (8, 2048, 80, 64, 128),
    "ssd_8x2048_h24": (8, 2048, 24, 64, 128),
    "ssd_1x65536_h8": (1, 65536, 8, 64, 64),
    "ssd_4x32768_h80": (4, 32768, 80, 64, 128),
}
ATTENTION = {
    "attn_vision_64x197_h6": (64, 197, 6, False),
    "attn_vision_256x37_h12": (256, 37, 12, False),
    "attn_4x4096_h16_causal": (4, 4096, 16, True),
    "attn_1x16384_h16_causal": (1, 16384, 16, True),
}


def ssd(B, L, H, P, N):
    # as mmixi_cuda_ssd_begin and mmixi_cuda_ssd_together
    chunks, heads = ceil(L / 64), 1
    segments = max(1, min(264 // (B * H) if B * H < 132 and chunks >= 8 else 1, chunks))
    run = ceil(chunks / segments)
    segments = ceil(chunks / run)
    for k in (2, 4):
        if (
            segments == 1
            and H % k == 0
            and B * H // k >= 264
            and nbytes("ssd_forward", N, P, k) <= 232448 // 2
        ):
            heads = k
    x, b, state = B * L * H * P * 2, B * L * N * 2, B * H * N * P
    widths = f"<2,{N},{P}>"
    leave = (
        [
            kernel(
                f"ssd_leave<2,{N},{P},0>",
                B * H * segments,
                [B * H * chunks],
                x + b + 4 * state * segments,
                nbytes("ssd_forward", N, P),
            )
        ]
        if segments > 1
        else []
    )
    forward = leave + [
        kernel(
            "ssd_forward" + widths,
            B * H * segments // heads,
            [B * H * chunks],
            2 * x + 2 * b + B * L * H * 2 + 4 * state * (segments > 1) * segments,
            nbytes("ssd_forward", N, P, heads),
        )
    ]
    kept = 2 * state * (chunks - segments)
    parts = 2 * B * L * H * N * 2 * (H > 1)
    backward = (
        leave
        + leave
        + [
            kernel(
                "ssd_backward" + widths,
                B * H * segments,
                [B * H * (chunks - segments), B * H * chunks],
                4 * x + 3 * b + 2 * kept + parts + 2 * B * L * H * 2,
                nbytes("ssd_backward", N, P),
            ),
            {"memory": (parts + 2 * b) / HBM},
        ]
    )
    return forward, backward


def attention(B, L, H, causal):
    tiles = ceil(L / 64)
    pairs = B * H * (tiles * (tiles + 1) // 2 if causal else tiles * tiles)
    one = B * L * H * 64 * 2
    run = lambda name, memory: kernel(
        name, B * H * tiles, [pairs], memory, nbytes(name, 64, 64), not causal
    )
    return (
        [run("attention_forward<2,8,1>", 4 * one)],
        [run("attention_dq<2,8,1>", 6 * one), run("attention_dkv<2,8,1,3>", 6 * one)],
    )


print(
    f"\nestimates, H100 SXM, bf16, milliseconds\n{'case':26s} {'forward':>8s} {'by':7s} {'backward':>8s} {'by':7s} "
    f"{'of it memory':>12s}"
)
for name, shape in {**SSD, **ATTENTION}.items():
    columns = ""
    for launches in (ssd if name in SSD else attention)(*shape):
        slowest = max(launches, key=lambda s: max(s.values()))
        columns += f" {sum(max(s.values()) for s in launches) * 1e3:8.3f} {max(slowest, key=slowest.get):7s}"
    memory = sum(s["memory"] for s in launches) * 1e3
    print(f"{name:26s}{columns} {memory:12.3f}")
