"""Golden cases of Vim and Mamba-Reg: tiny files as their authors' code saves them, and what the networks compute with them.

    python3 tests/vim_cases.py DIR          writes DIR/checkpoint/vim.pth, DIR/checkpoint_vision-vim.safetensors and so on

The networks are written here from their formulas, in float64 and token by token, not with the authors' kernels, which need a
GPU: Zhu et al. 2024 ("Vision Mamba"), Wang et al. 2025 ("Mamba-Reg"), Gu & Dao 2023 ("Mamba"). Names, shapes and the order of
things are those of github.com/hustvl/Vim and github.com/wangf3014/Mamba-Reg. Values come from a seed; all parameters fit a
float exactly. How a case is read stands in tests/golden/README.md.
"""
import json, math, os, sys

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
except ImportError as missing:
    sys.exit(f"golden cases of Vim need PyTorch and safetensors ({missing})")

D, DEPTH, STATE, RANK, WIDTH, PATCH, GRID, CLASSES, EPS = 20, 2, 3, 2, 4, 4, 4, 5, 1e-5
INNER = 2 * D


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


def scan(p, x, z, back):
    """One direction on x, z (B, L, INNER), already in its own order: y (B, L, INNER), and M (B, INNER, L, L) before the
    gate, y = silu(z) M x."""
    suffix = "_b" if back else ""
    rates = -torch.exp(p["A_b_log" if back else "A_log"])
    length = x.shape[1]
    x = F.conv1d(
        x.transpose(1, 2),
        p[f"conv1d{suffix}.weight"],
        p[f"conv1d{suffix}.bias"],
        padding=WIDTH - 1,
        groups=INNER,
    )
    x = F.silu(x[..., :length]).transpose(1, 2)
    low, B, C = (x @ p[f"x_proj{suffix}.weight"].T).split([RANK, STATE, STATE], -1)
    dt = F.softplus(low @ p[f"dt_proj{suffix}.weight"].T + p[f"dt_proj{suffix}.bias"])
    skip = p["D" + suffix]
    state = x.new_zeros(x.shape[0], INNER, STATE)
    rows, M = [], x.new_zeros(x.shape[0], INNER, length, length)
    for t in range(length):
        decay = torch.exp(dt[:, t, :, None] * rates)
        state = decay * state + (dt[:, t] * x[:, t])[..., None] * B[:, t, None]
        rows.append((state * C[:, t, None]).sum(-1) + skip * x[:, t])
        carried = B[:, t, None] * dt[:, t, :, None]
        for i in range(t, length):
            if i > t:
                carried = carried * torch.exp(dt[:, i, :, None] * rates)
            M[:, :, i, t] = (carried * C[:, i, None]).sum(-1).detach()
        M[:, :, t, t] += skip.detach()
    return torch.stack(rows, 1) * F.silu(z), M


def mixer(p, u, divide):
    """What both directions make of u (B, L, D), and the mean of their M over the channels, (B, L, L)."""
    x, z = (u @ p["in_proj.weight"].T).chunk(2, -1)
    forward, M = scan(p, x, z, False)
    reverse, N = scan(p, x.flip(1), z.flip(1), True)
    both = forward + reverse.flip(1)
    seen = (M + N.flip(-1, -2)).mean(1) / 2
    return (both / 2 if divide else both) @ p["out_proj.weight"].T, seen


def backbone(p, image, registers):
    """Tokens after the final norm, those that are read, each block's mixer's output there, normed, and the last M."""
    part = lambda prefix: {n[len(prefix) :]: x for n, x in p.items() if n.startswith(prefix)}
    patches = F.conv2d(image, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], PATCH)
    x = patches.flatten(2).transpose(1, 2)
    batch, n, _ = x.shape
    if registers:
        step = n // (registers + 1)
        places = [step + r * (step + 1) for r in range(registers)]
        x = x + p["pos_embed"]
        own = (p["cls_token"] + p["pos_embed_cls"]).expand(batch, -1, -1)
        pieces = []
        for r in range(registers):
            pieces += [x[:, r * step : (r + 1) * step], own[:, r : r + 1]]
        x = torch.cat(pieces + [x[:, registers * step :]], 1)
    else:
        places = [n // 2]
        x = torch.cat([x[:, : n // 2], p["cls_token"].expand(batch, -1, -1), x[:, n // 2 :]], 1)
        x = x + p["pos_embed"]
    taken = []
    for i in range(DEPTH):
        y, M = mixer(part(f"layers.{i}.mixer."), rms_norm(x, p[f"layers.{i}.norm.weight"]), True)
        x = x + y
        taken.append(rms_norm(y[:, places], p["norm_f.weight"]).mean(1))
    return rms_norm(x, p["norm_f.weight"]), places, torch.cat(taken, -1), M


def parameters(registers, neck, random):
    k = registers or 1
    width = k * D // neck if registers else D
    shapes = {
        "cls_token": (1, k, D),
        "pos_embed": (1, GRID * GRID + (0 if registers else 1), D),
        "patch_embed.proj.weight": (D, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (D,),
        "norm_f.weight": (D,),
        "head.weight": (CLASSES, width),
        "head.bias": (CLASSES,),
    }
    if registers:
        shapes["pos_embed_cls"] = (1, k, D)
    if neck > 1:
        shapes["neck.weight"] = (D // neck, D)
        shapes["norm_neck.weight"] = (width,)
    for i in range(DEPTH):
        shapes[f"layers.{i}.norm.weight"] = (D,)
        block = {"in_proj.weight": (2 * INNER, D), "out_proj.weight": (D, INNER)}
        for b in ("", "_b"):
            block[f"conv1d{b}.weight"] = (INNER, 1, WIDTH)
            block[f"conv1d{b}.bias"] = (INNER,)
            block[f"x_proj{b}.weight"] = (RANK + 2 * STATE, INNER)
            block[f"dt_proj{b}.weight"] = (INNER, RANK)
            block[f"dt_proj{b}.bias"] = (INNER,)
            block["A_b_log" if b else "A_log"] = (INNER, STATE)
            block["D" + b] = (INNER,)
        shapes.update({f"layers.{i}.mixer.{name}": shape for name, shape in block.items()})
    values = {}
    for name, shape in shapes.items():
        near, deviation = 0.0, 0.3
        if "norm" in name or name.endswith((".D", ".D_b")):
            near = 1.0
        elif len(shape) > 1 and "log" not in name and not name.startswith(("cls", "pos")):
            deviation = 1 / math.sqrt(math.prod(shape[1:]))
        values[name] = near + deviation * torch.randn(shape, generator=random, dtype=torch.float32)
    return values


def write(folder, name, registers, neck, shape, seed):
    random = torch.Generator().manual_seed(seed)
    saved = parameters(registers, neck, random)
    file = f"checkpoint/{name}.pth"
    torch.save({"model": saved, "epoch": 299}, os.path.join(folder, file))
    p = {name: x.double() for name, x in saved.items()}
    image = torch.randn(shape, generator=random, dtype=torch.float32)
    x = image.double().requires_grad_()
    tokens, places, taken, M = backbone(p, x, registers)
    others = [i for i in range(tokens.shape[1]) if i not in places]
    read = tokens[:, places]
    pooled = read[:, 0]
    if registers:
        joined = (read @ p["neck.weight"].T).flatten(1)
        pooled = rms_norm(joined, p["norm_neck.weight"])
    logits = pooled @ p["head.weight"].T + p["head.bias"]
    cotangent = torch.randn(logits.shape, generator=random, dtype=torch.float32)
    (logits * cotangent.double()).sum().backward()
    grid = [side // PATCH for side in shape[2:]]
    case = {
        "in.image": image,
        "out.features": read.mean(1),
        "out.patches": tokens[:, others],
        "out.intermediate": taken,
        "out.attention": M[:, places].mean(1)[:, others].unflatten(1, grid)[:, None],
        "out.pooled": pooled,
        "out.logits": logits,
        "cot.logits": cotangent,
        "grad.image": x.grad,
    }
    if registers:
        case["out.registers"] = read
    args = dict(file=file, n_last=DEPTH, depth=DEPTH)
    save_file(
        {key: x.detach().contiguous() for key, x in case.items()},
        os.path.join(folder, f"checkpoint_vision-{name}.safetensors"),
        {
            "case": "checkpoint_vision",
            "args": json.dumps(args, sort_keys=True),
            "source": f"tests/vim_cases.py: the formulas token by token in float64, torch {torch.__version__}",
        },
    )


if len(sys.argv) != 2:
    sys.exit("usage: python3 tests/vim_cases.py DIR")
write(sys.argv[1], "vim", 0, 1, (2, 3, 16, 16), 1)
write(sys.argv[1], "mambareg_neck", 3, 2, (1, 3, 16, 16), 2)
