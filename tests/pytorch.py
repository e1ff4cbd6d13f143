"""Checkpoints that PyTorch wrote, loaded by the library, and features of photographs beside PyTorch's own; decoders
that transformers wrote, where that package is here, and their logits.

    python3 tests/pytorch.py build/pytorch             (tests/pytorch.c; or build/pytorch_f64)
    python3 tests/pytorch.py build/pytorch --memory    what inference takes on both sides, no test
    python3 tests/pytorch.py build/bench --openvino    ViT-S/16 of OpenVINO beside the library's, no test
    python3 tests/pytorch.py build/bench --dinov2      DINOv2's ViT-S/14: PyTorch (transformers) and ONNX Runtime, no test

From the repository's root. The models below are written from their definitions in plain PyTorch, with the
names of the reference systems' checkpoints: ViT (DINO), LinearViT, DinoVim as released, DinoMamba-Reg.
Weights are random. Errors are max |a - b| / max |b|; every output is compared with PyTorch in float32 and
with the same model in float64, and beside them stands how far these two are apart. The photographs are those
of ../shared/data where it is there, else smooth noise.
"""
import argparse, copy, ctypes, gc, json, math, os, struct, subprocess, sys, tempfile, time
from collections import OrderedDict

# spinning threads are slow where others work, too
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
try:
    import numpy as np
    import torch
    from PIL import Image
    from torch import nn
    from torch.nn import functional as F
    from pytorch_modules import MLP
except ImportError as missing:
    print(f"skipped: beside PyTorch, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

PHOTOS = "../shared/data/voc-animals/images/test"
NAMES = "../shared/reference/state_dicts.json"


# ---- the models ----

class Attention(nn.Module):
    def __init__(self, dim, heads, linear):
        super().__init__()
        self.heads, self.linear = heads, linear
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # both over the features; no scale, no normalizer
        if self.linear:
            y = q.softmax(-1) @ (k.softmax(-1).transpose(-2, -1) @ v)
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, linear):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), Attention(dim, heads, linear)
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=1e-6), MLP(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, 16, 16)

    def forward(self, image):
        return self.proj(image).flatten(2).transpose(-2, -1)


def positions(stored, image):
    """(1, n, D) for the image's patches. DINO adds 0.1 to the sides: it samples a little elsewhere."""
    h, w = image.shape[-2] // 16, image.shape[-1] // 16
    g, d = math.isqrt(stored.shape[1]), stored.shape[2]
    if h * w == g * g and image.shape[-2] == image.shape[-1]:
        return stored
    grid = stored.view(1, g, g, d).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, scale_factor=((h + 0.1) / g, (w + 0.1) / g), mode="bicubic")
    assert grid.shape[-2:] == (h, w)
    return grid.flatten(2).transpose(-2, -1)


class ViT(nn.Module):
    def __init__(self, dim=384, depth=12, heads=6, linear=False):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + 14 * 14, dim))
        self.patch_embed = PatchEmbed(dim)
        self.blocks = nn.ModuleList(Block(dim, heads, linear) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, image, last=0):
        """The class token, the patches' tokens, and the class tokens of the last blocks."""
        cls = (self.cls_token + self.pos_embed[:, :1]).expand(len(image), -1, -1)
        x = torch.cat([cls, self.patch_embed(image) + positions(self.pos_embed[:, 1:], image)], 1)
        between = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i >= len(self.blocks) - last:
                between.append(self.norm(x[:, 0]))
        x = self.norm(x)
        return x[:, 0], x[:, 1:], torch.cat(between, 1) if last else None


def ssd(x, dt, A, B, C, chunk):
    """h = exp(dt A) h + dt x Bᵀ, y = h C for each token: x (b, L, H, P), dt (b, L, H), A (H), B and C
    (b, L, N). A chunk is done as a matrix; one chunk of all tokens is the quadratic form."""
    h, ys = 0, []
    for x, dt, B, C in zip(*(t.split(chunk, 1) for t in (x, dt, B, C))):
        a, n = (dt * A).mT, x.shape[1]                               # (b, H, n)
        xdt = (x * dt[..., None]).transpose(1, 2)                    # (b, H, n, P)
        S = a[..., None].repeat(1, 1, 1, n).tril_(-1).cumsum_(-2)    # S_ij = a_{j+1} + … + a_i
        S = S.exp_().tril_()
        # from each token to the end of the chunk
        rest = S[:, :, -1, :, None].clone()
        y = S.mul_((C @ B.mT)[:, None]) @ xdt
        # what came in: h_{-1} (b, H, P, N)
        if ys:
            decay = a.cumsum(-1).exp_()[..., None]
            y += decay * (C[:, None] @ h.mT)
            h = h * decay[:, :, -1:]
        h = h + (xdt * rest).mT @ B[:, None]
        ys.append(y.transpose(1, 2))
    return torch.cat(ys, 1)


def causal(conv, x):
    """The convolution of x (b, L, c) over past tokens. PyTorch's own is slow in float64: there by taps."""
    if x.dtype == torch.float64:
        past, taps = F.pad(x, (0, 0, 3, 0)), conv.weight[:, 0].mT
        return conv.bias + sum(w * past[:, i:i + x.shape[1]] for i, w in enumerate(taps))
    return conv(x.mT)[..., :x.shape[1]].mT


class Mamba2(nn.Module):
    """Both directions of Vision Mamba's "v2" form: one in_proj and one out_proj, all between them twice."""
    def __init__(self, dim, N=64, P=64):
        super().__init__()
        self.d, self.N, self.H = 2 * dim, N, 2 * dim // P
        for name in "dt_bias", "A_log", "D", "A_log_b", "dt_b_bias", "D_b":
            setattr(self, name, nn.Parameter(torch.zeros(self.H)))
        wide = self.d + 2 * N
        self.in_proj = nn.Linear(dim, self.d + wide + self.H, bias=False)
        self.conv1d, self.conv1d_b = (
            nn.Conv1d(wide, wide, 4, groups=wide, padding=3) for _ in range(2)
        )
        self.norm, self.norm_b = (nn.RMSNorm(self.d, eps=1e-5) for _ in range(2))
        self.out_proj = nn.Linear(self.d, dim, bias=False)
        self.chunk = None                                            # None: one

    def one_way(self, u, conv, dt_bias, A_log, D, norm):
        z, xBC, dt = u.split([self.d, self.d + 2 * self.N, self.H], -1)
        xBC = F.silu(causal(conv, xBC))
        x, B, C = xBC.split([self.d, self.N, self.N], -1)
        x = x.unflatten(-1, (self.H, -1))
        y = ssd(x, F.softplus(dt + dt_bias), -A_log.exp(), B, C, self.chunk or u.shape[1])
        y += D[:, None] * x
        return norm(y.flatten(2) * F.silu(z))                        # the gate before the norm

    def forward(self, x):
        u = self.in_proj(x)
        y = self.one_way(u, self.conv1d, self.dt_bias, self.A_log, self.D, self.norm)
        back = (self.conv1d_b, self.dt_b_bias, self.A_log_b, self.D_b, self.norm_b)
        return self.out_proj((y + self.one_way(u.flip(1), *back).flip(1)) / 2)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mixer, self.norm = Mamba2(dim), nn.RMSNorm(dim, eps=1e-5)


class Vim(nn.Module):
    """DinoVim as released (registers = 0), or DinoMamba-Reg."""
    def __init__(self, dim=512, depth=24, registers=0):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, registers or 1, dim))
        if registers:
            self.pos_embed_cls = nn.Parameter(torch.zeros(1, registers, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 7 * 7 if registers else 1 + 14 * 14, dim))
        self.patch_embed = PatchEmbed(dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.norm_f = nn.RMSNorm(dim, eps=1e-5)
        self.registers = registers

    def tokens(self, image):
        """(b, L, D), where the class tokens stand in it, and where the patches."""
        x, many = self.patch_embed(image), lambda t: t.expand(len(image), -1, -1)
        n, k = x.shape[1], self.registers
        step = n // (k + 1)                          # patches before each register
        # the class token in front, and bare in the middle
        if not k:
            x = x + positions(self.pos_embed[:, 1:], image)
            x = torch.cat([many(self.cls_token + self.pos_embed[:, :1]), x], 1)
            at = (n + 1) // 2
            x = torch.cat([x[:, :at], many(self.cls_token), x[:, at:]], 1)
            return x, [at], [i for i in range(1, n + 2) if i != at]
        parts = list((x + positions(self.pos_embed, image)).split([step] * k + [n - step * k], 1))
        for i, register in enumerate(many(self.cls_token + self.pos_embed_cls).split(1, 1)):
            parts.insert(2 * i + 1, register)
        at = [step + i * (step + 1) for i in range(k)]
        return torch.cat(parts, 1), at, [i for i in range(n + k) if i not in at]

    def forward(self, image, last=0):
        hidden, at, patches = self.tokens(image)
        residual, between = 0, []
        for i, layer in enumerate(self.layers):
            residual = residual + hidden
            hidden = layer.mixer(layer.norm(residual))
            if i >= len(self.layers) - last:
                between.append(self.norm_f(hidden[:, at]).mean(1))
        x = self.norm_f(residual + hidden)
        return x[:, at].mean(1), x[:, patches], torch.cat(between, 1) if last else None


class Head(nn.Module):
    """DINO's in names, but small: it is there to be passed over."""
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, 64))
        self.last_layer = nn.ParameterDict(
            {"weight_g": torch.ones(512, 1), "weight_v": torch.randn(512, 64)}
        )


# the name in pytorch.c, how to make it, its key in NAMES
MODELS = {
    "ViT-S/16": ("vit", ViT, "vit_small_16"),
    "DinoVim-S": ("dinovim", Vim, "dinovim_small_16"),
    "LinearViT-S": ("linearvit", lambda: ViT(linear=True), "vit_small_16"),
    "DinoMamba-Reg-S": ("mambareg", lambda: Vim(registers=12), "mambareg_small_16"),
}


@torch.no_grad()
def random_weights(model, seed):
    """Nothing is 0 or 1, so that each weight has its say in the features. What stands before a norm is small
    in places (class tokens, values and outputs of Mamba), so that its eps counts."""
    g = torch.Generator().manual_seed(seed)
    normal = lambda t, deviation, mean=0.0: t.copy_(
        mean + deviation * torch.randn(t.shape, generator=g)
    )
    for name, t in model.named_parameters():
        if "A_log" in name:
            t.uniform_(1, 16, generator=g).log_()
        # the inverse softplus of a step from 0.001 to 0.1
        elif ".dt_" in name:
            t.uniform_(math.log(1e-3), math.log(1e-1), generator=g).exp_().expm1_().log_()
        elif "cls" in name:
            normal(t, 0.01)
        elif "pos_embed" in name:
            normal(t, 0.3)
            if t.shape[1] == 197:                    # the class token's own
                t[:, 0] *= 0.03
        elif t.dim() > 1:
            normal(t, (0.1 if "out_proj" in name else 1.0) * t[0].numel() ** -0.5)
        elif name.endswith("bias"):
            normal(t, 0.1)
        else:                                        # norms, D
            normal(t, 0.2, 1.0)
        if "conv1d" in name:                         # x comes first, then B and C
            t[:-128] *= 0.1
    return model.eval().requires_grad_(False)


# ---- what torch.save writes ----

def training_checkpoint(student, teacher, dim):
    """As DINO's main_dino.py saves it: student and teacher, each with its head; the optimiser's moments."""
    whole = [nn.ModuleDict({"backbone": m, "head": Head(dim)}) for m in (student, teacher)]
    weights = [p.requires_grad_() for p in whole[0].parameters()]
    groups = [{"params": [p for p in weights if p.dim() > 1]},
              {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-4)
    for p in weights:
        p.grad = torch.full_like(p, 1e-3)
    optimizer.step()
    args = argparse.Namespace(
        arch="vit_small",
        patch_size=16,
        lr=5e-4,
        use_fp16=False,
        saveckp_freq=20,
        global_crops_scale=(0.4, 1.0),
        data_path="/data",
        gpu=0,
        clip_grad=None,
    )
    return {
        "student": nn.ModuleDict({"module": whole[0]}).state_dict(),
        "teacher": whole[1].state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "args": args,
        "fp16_scaler": {"scale": 65536.0},
        "dino_loss": OrderedDict(center=torch.zeros(1, 512)),
    }


def strided(weights):
    """The same weights as parameters, which are views of one storage, matrices transposed."""
    parts = [t.mT if t.dim() == 2 else t for t in weights.values()]
    storage = torch.cat([p.flatten() for p in parts])
    views = [t.view(p.shape) for t, p in zip(storage.split([p.numel() for p in parts]), parts)]
    return OrderedDict((name, nn.Parameter(v.mT if v.dim() == 2 else v, requires_grad=False))
                       for name, v in zip(weights, views))


# ---- pictures ----

def photographs():
    found = []
    for kind in "cat", "dog", "sheep":
        folder = f"{PHOTOS}/{kind}"
        if os.path.isdir(folder):
            found.append(Image.open(f"{folder}/{sorted(os.listdir(folder))[0]}").convert("RGB"))
    if found:
        return found
    print(f"no {PHOTOS} here: smooth noise instead of photographs")
    noise = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.uint8)
    sizes = (112, 156), (500, 375), (300, 300)
    return [Image.fromarray(n).resize(size, Image.BICUBIC) for n, size in zip(noise, sizes)]


def resize(picture, width, height):
    """Rows first, then columns, in two calls: in one, newer Pillows choose the order by the shape."""
    return picture.resize((width, picture.height), Image.BICUBIC).resize(
        (width, height), Image.BICUBIC
    )


def evaluation(picture):
    """The shorter side to 256, the 224 x 224 in the middle."""
    w, h = picture.size
    w, h = (256, 256 * h // w) if w < h else (256 * w // h, 256)
    left, top = round((w - 224) / 2), round((h - 224) / 2)
    return resize(picture, w, h).crop((left, top, left + 224, top + 224))


def normalized(picture):
    x = torch.from_numpy(np.array(picture)).double().permute(2, 0, 1) / 255
    channels = lambda *t: torch.tensor(t, dtype=torch.float64)[:, None, None]
    return (x - channels(0.485, 0.456, 0.406)) / channels(0.229, 0.224, 0.225)


# ---- the library's side ----

def library(*arguments):
    return subprocess.run(
        [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def read_safetensors(path):
    with open(path, "rb") as f:
        header_bytes = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(header_bytes)), f.read()
    header.pop("__metadata__", None)
    out = {}
    for name, e in header.items():
        start, end = e["data_offsets"]
        values = np.frombuffer(data[start:end], {"F32": np.float32, "F64": np.float64}[e["dtype"]])
        out[name] = torch.from_numpy(values.reshape(e["shape"]).copy())
    return out


passed = failed = skipped = 0


def check(ok, what, expected="", found=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAILED {what}: expected {expected}, found {found}")
    return ok


def error(a, b):
    if a.shape != b.shape:
        return math.inf
    worst = ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()
    return math.inf if math.isnan(worst) else worst


# as pytorch.c names them; the last of LAST blocks
OUTPUTS = "token", "patches", "intermediate"
LAST = 4


def features(net, inputs):
    """For each of the inputs its outputs in float32 and in float64."""
    double = copy.deepcopy(net).double()
    with torch.inference_mode():
        return {
            name: list(zip(net(x, LAST), double(x.double(), LAST))) for name, x in inputs.items()
        }


def compare(title, file, model, checkpoint, inputs, wanted, folder):
    """The library's features with this checkpoint beside PyTorch's; a row for each of the inputs."""
    path, npz, out = (
        os.path.join(folder, name) for name in ("weights.pth", "in.npz", "out.safetensors")
    )
    torch.save(checkpoint, path)
    np.savez(npz, **{name: x.numpy() for name, x in inputs.items()})
    run = library("features", model, path, npz, out)
    os.remove(path)
    if not check(run.returncode == 0, f"{title}, {file}", "its features", run.stderr.strip()):
        return
    ours = read_safetensors(out)
    for name in inputs:
        row = []
        for output, (torch32, torch64) in zip(OUTPUTS, wanted[name]):
            y = ours[f"{name}.{output}"]
            e = [error(y, torch32), error(y, torch64), error(torch32, torch64)]
            double = y.dtype == torch.float64            # a double build stands beside float64 only
            good = e[1] <= 1e-9 if double else max(e[:2]) <= 2e-4
            found = " ".join(f"{v:7.1e}" for v in e)
            check(good, f"{title}, {file}, {name}, {output}", "1e-9" if double else "2e-4", found)
            row.append(found)
        print(f"{title:15} {file:8} {name:10} " + "  ".join(row))


def test_images(photos, folder):
    """mmix_image of the pictures' bytes against Pillow."""
    files, out = [], os.path.join(folder, "images.safetensors")
    for i, photo in enumerate(photos):
        files.append(os.path.join(folder, f"{i}.ppm"))
        photo.save(files[-1])
    run = library("image", out, *files)
    if check(run.returncode == 0, "images", "3 pictures", run.stderr.strip()):
        ours = read_safetensors(out)
        for i, photo in enumerate(photos):
            e = (ours[f"{i}.image"][0].double() - normalized(evaluation(photo))).abs().max().item()
            print(
                f"picture {i}, {photo.width} x {photo.height}: largest difference from Pillow {e:.1e}"
            )
            check(e <= 1e-6, f"mmix_image of picture {i}", "at most 1e-6", e)


def test_models(photos, folder):
    global skipped
    pictures = {
        "3x224x224": [evaluation(p) for p in photos],
        # 15 x 19 patches, the last pixels beyond them
        "250x310": [resize(photos[1], 310, 250)],
        # as many patches as positions, still resized
        "112x448": [resize(photos[1], 448, 112)],
        "2x96x96": [p.crop((8, 8, 104, 104)) for p in photos[:2]],
    }
    inputs = {
        name: torch.stack([normalized(p) for p in ps]).float() for name, ps in pictures.items()
    }
    few = {"2x96x96": inputs["2x96x96"]}
    shapes = None
    if os.path.exists(NAMES):
        with open(NAMES) as f:
            shapes = json.load(f)
    else:
        print(f"skipped: names and shapes beside {NAMES}, which is not here")
        skipped += 1
    titles = "class token", "patch tokens", f"class, last {LAST} blocks"
    print(f"{'':36}" + "  ".join(f"{t:^23}" for t in titles))
    print(f"{'model':15} {'file':8} {'images':10} " + "  ".join(["ours-32 ours-64   32-64"] * 3))
    for seed, (title, (model, make, key)) in enumerate(MODELS.items()):
        net = random_weights(make(), seed)
        weights = net.state_dict()
        if shapes:
            named = {(name, *t.shape) for name, t in weights.items()}
            theirs = {(name, *shape) for name, shape in shapes[key]["tensors"]}
            check(named == theirs, f"{title}: names and shapes", theirs - named, named - theirs)
        wanted = features(net, inputs)
        compare(title, "plain", model, weights, inputs, wanted, folder)
        # in names and shapes a ViT: it has to be told
        if model == "linearvit":
            continue
        # the other files are opened without saying what they are
        for dtype in torch.bfloat16, torch.float16:
            half = {name: t.to(dtype) for name, t in weights.items()}
            rounded = copy.deepcopy(net)
            rounded.load_state_dict(half)
            compare(title, str(dtype)[6:], "open", half, few, features(rounded, few), folder)
        if model == "mambareg":                          # its files are as DinoVim's
            continue
        compare(title, "strided", "open", strided(weights), few, wanted, folder)
        training = training_checkpoint(
            random_weights(make(), 99), net, weights["cls_token"].shape[2]
        )
        compare(title, "training", "open", training, few, wanted, folder)

    path = os.path.join(folder, "old.pth")
    torch.save({"cls_token": torch.zeros(1)}, path, _use_new_zipfile_serialization=False)
    run = library("features", "vit", path, path, path)
    refused = run.returncode == 1 and "1.6" in run.stderr
    check(refused, "a file of torch before 1.6", "a refusal that says so", run.stderr)


def test_decoders(folder):
    """Tiny Llama and Qwen2 models as transformers saves them: their logits, to 2e-4 of the largest."""
    global skipped
    try:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers
        from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
    except ImportError as missing:
        print(f"skipped: decoders beside transformers, which this Python does not have ({missing})")
        skipped += 1
        return
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    size = dict(
        vocab_size=61,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
    )
    variants = [
        ("Llama", LlamaForCausalLM, LlamaConfig(**size, num_key_value_heads=2, rope_theta=500.0)),
        (
            "Llama, tied, biases",
            LlamaForCausalLM,
            LlamaConfig(
                **size,
                num_key_value_heads=4,
                tie_word_embeddings=True,
                attention_bias=True,
                rms_norm_eps=1e-3,
            ),
        ),
        (
            "Llama, wide heads",
            LlamaForCausalLM,
            LlamaConfig(**size, num_key_value_heads=1, head_dim=10),
        ),
        ("Qwen2", Qwen2ForCausalLM, Qwen2Config(**size, num_key_value_heads=2, rope_theta=1e6)),
        (
            "Qwen2, tied",
            Qwen2ForCausalLM,
            Qwen2Config(**size, num_key_value_heads=1, tie_word_embeddings=True),
        ),
    ]
    tokens = {"2x37": (2, 37), "1x1": (1, 1), "1x300": (1, 300)}
    npz, out = os.path.join(folder, "tokens.npz"), os.path.join(folder, "logits.safetensors")
    for seed, (title, kind, config) in enumerate(variants):
        for dtype in torch.float32, torch.bfloat16:
            torch.manual_seed(seed)
            net = kind(config).eval()
            with torch.no_grad():
                for name, p in net.named_parameters():
                    p.normal_(1.0 if "norm" in name else 0.0, 0.3)
            where = os.path.join(folder, f"{seed}-{dtype}")
            half = net.to(dtype)
            half.save_pretrained(where)
            net = kind(config).eval()                # its rotary frequencies were not rounded
            net.load_state_dict(half.state_dict())
            inputs = {name: torch.randint(0, 61, shape) for name, shape in tokens.items()}
            np.savez(npz, **{name: x.numpy() for name, x in inputs.items()})
            run = library("logits", os.path.join(where, "model.safetensors"), npz, out)
            if not check(
                run.returncode == 0, f"{title}, {dtype}", "its logits", run.stderr.strip()
            ):
                continue
            ours = read_safetensors(out)
            with torch.inference_mode():
                errors = {
                    name: error(ours[f"{name}.logits"], net(x).logits) for name, x in inputs.items()
                }
            for name, e in errors.items():
                check(e <= 2e-4, f"{title}, {dtype}, {name}", "2e-4", e)
            print(
                f"{title:20} {str(dtype)[6:]:9} "
                + "  ".join(f"{name} {e:7.1e}" for name, e in errors.items())
            )


# ---- memory ----

def rss(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key))


def measure(title, batch, chunk):
    """In a process of its own: KiB before and at the peak of one pass."""
    net = random_weights(MODELS[title][1](), 0)
    for layer in getattr(net, "layers", []):
        layer.mixer.chunk = chunk
    image = torch.randn(batch, 3, 224, 224)
    with torch.inference_mode():
        # then threads and code are there and do not count
        net(torch.zeros(1, 3, 32, 32))
        gc.collect()
        # freed memory still held would hide what the pass takes
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")                             # the peak begins anew
        before = rss("VmRSS")
        net(image)
    print(before, rss("VmHWM"))


def memory_table():
    """Peak of one pass above weights and the idle process. SSD in PyTorch: in chunks of 64 and as one matrix,
    whichever takes less."""
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError as e:
        sys.exit(f"a process cannot set the peak of its memory back here: {e}")
    print("MiB above weights, 224 x 224       ours, counted  ours, process  torch, process  ratio")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.pth")
        for title in "ViT-S/16", "DinoVim-S":
            model, make, _ = MODELS[title]
            torch.save(random_weights(make(), 0).state_dict(), path)
            for batch in "1", "8":
                before, peak, held, most = map(
                    int, library("memory", model, path, batch).stdout.split()
                )
                theirs = []
                for chunk in ("64", "0") if model == "dinovim" else ("0",):
                    command = [sys.executable, __file__, program, "--measure", title, batch, chunk]
                    out = subprocess.run(
                        command, stdout=subprocess.PIPE, text=True, check=True
                    ).stdout
                    idle, most_of = map(int, out.split())
                    theirs.append((most_of - idle) / 1024)
                ours, torchs = (peak - before) / 1024, min(theirs)
                more = (
                    f"  (chunks {theirs[0]:.1f}, one matrix {theirs[1]:.1f})"
                    if len(theirs) > 1
                    else ""
                )
                print(
                    f"{title + ', batch ' + batch:32} {(most - held) / 2**20:15.1f} {ours:14.1f} "
                    f"{torchs:15.1f} {ours / torchs:6.2f}{more}"
                )


def openvino_table():
    """Milliseconds of 8 pictures and of 1, in turns, two threads and float32 on both sides."""
    try:
        import openvino
    except ImportError:
        sys.exit("this Python has no openvino: pip install openvino")
    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = random_weights(ViT(), 0).eval()

        def forward(self, image):
            return torch.cat([t.flatten(1) for t in self.vit(image)[:2]], 1)

    net = Features()
    for batch in 8, 1:
        image = torch.randn(batch, 3, 224, 224)
        model = openvino.convert_model(net, example_input=image, input=[image.shape])
        compiled = openvino.Core().compile_model(
            model,
            "CPU",
            {
                "INFERENCE_NUM_THREADS": 2,
                "INFERENCE_PRECISION_HINT": "f32",
                "PERFORMANCE_HINT": "LATENCY",
            },
        )
        with torch.inference_mode():
            error = np.abs(compiled(image.numpy())[0] - net(image).numpy()).max()
        ours, theirs = [], []
        for _ in range(5):
            line = subprocess.run(
                [program, "--only", f"^vit_s16_b{batch}$", "--threads", "2", "--seconds", "2"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            ours.append(json.loads(line.splitlines()[-1])["ms"])
            times = []
            while sum(times) < 2:
                start = time.perf_counter()
                compiled(image.numpy())
                times.append(time.perf_counter() - start)
            theirs.append(1000 * float(np.median(times)))
        a, b = float(np.median(ours)), float(np.median(theirs))
        print(
            f"ViT-S/16, batch {batch}: {a:.1f} ms, OpenVINO {openvino.__version__.split('-')[0]} {b:.1f} ms, "
            f"OpenVINO / ours {b / a:.2f} ({min(theirs) / min(ours):.2f} of the least); it differs from "
            f"PyTorch by {error:.1e}"
        )


DINOV2 = [(224, 1), (224, 8), (518, 1), (518, 8)]


def dinov2(engine, folder, pixels, batch):
    """A function that runs one pass in two threads: the network as transformers has it, or its export in ONNX Runtime. The
    export is made for one size, so that there the positions are brought to the grid once and for all."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    image = np.random.default_rng(0).standard_normal((batch, 3, pixels, pixels), dtype=np.float32)
    path = os.path.join(folder, f"{pixels}.onnx")
    if engine == "onnxruntime" and os.path.exists(path):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        # beside the calling one
        options.add_session_config_entry("session.intra_op_thread_affinities", "2")
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        os.sched_setaffinity(0, {0})
        return lambda: session.run(None, {"image": image})
    import transformers
    torch.set_num_threads(2)
    torch.manual_seed(0)
    net = transformers.Dinov2Model(
        transformers.Dinov2Config(
            hidden_size=384,
            num_attention_heads=6,
            num_hidden_layers=12,
            image_size=518,
            patch_size=14,
        )
    ).eval()
    if engine == "export":
        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, image):
                return self.net(image).last_hidden_state

        with torch.inference_mode(False), torch.no_grad():
            torch.onnx.export(
                Tokens(),
                (torch.from_numpy(image[:1]),),
                path,
                input_names=["image"],
                dynamo=False,
                dynamic_axes={"image": {0: "batch"}},
            )
        return None

    def run():
        with torch.inference_mode():
            return net(torch.from_numpy(image)).last_hidden_state
    return run


def dinov2_measure(engine, folder, pixels, batch, memory):
    """In a process of its own: milliseconds of a pass, the least of about two seconds; or KiB that a pass and its weights take."""
    if engine == "onnxruntime":
        import onnxruntime
    else:
        import transformers
        transformers.Dinov2Model
    before = rss("VmRSS")
    run = dinov2(engine, folder, pixels, batch)
    run()
    if memory:
        run()
        print(rss("VmHWM") - before, rss("VmHWM"))
        return
    times = []
    while sum(times) < 2 or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - start))
    print(float(np.min(times)))


def dinov2_table(rounds=3):
    """Median of the least milliseconds of each round, in turns; peak MiB above the idle process with all that it imports, and of the
    whole process. Two threads and float32."""
    with tempfile.TemporaryDirectory() as folder:
        for pixels in 224, 518:
            try:
                dinov2("export", folder, pixels, 1)
            except Exception as why:                 # without onnx there is no export
                print(f"no ONNX Runtime: {why}")
        engines = (
            ["ours", "onnxruntime", "torch"]
            if os.path.exists(os.path.join(folder, "518.onnx"))
            else ["ours", "torch"]
        )

        def one(engine, pixels, batch, memory):
            if engine == "ours":
                case = [
                    program,
                    "--only",
                    f"^dinov2_s14_{pixels}_b{batch}$",
                    "--threads",
                    "2",
                    "--seconds",
                    "2",
                ]
                line = subprocess.run(
                    case + ["--peak"][:memory], capture_output=True, text=True, check=True
                ).stdout
                line = json.loads(line.splitlines()[-1])
                return (
                    (line["peak_mb"], line["peak_mb"] + line["idle_mb"])
                    if memory
                    else line["ms_min"]
                )
            command = [
                sys.executable,
                __file__,
                program,
                "--dinov2-measure",
                engine,
                folder,
                pixels,
                batch,
                int(memory),
            ]
            # each thread on a core of its own
            env = dict(os.environ, OMP_PROC_BIND="true") if engine == "torch" else None
            line = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, check=True, env=env
            ).stdout
            numbers = line.splitlines()[-1].split()
            return [float(kib) / 1024 for kib in numbers] if memory else float(numbers[0])

        for pixels, batch in DINOV2:
            ms = {e: [] for e in engines}
            for _ in range(rounds):
                for e in engines:
                    ms[e].append(one(e, pixels, batch, False))
            peak = {e: one(e, pixels, batch, True) for e in engines}
            line = f"{pixels} pixels, batch {batch}:"
            for e in engines:
                ratio = float(np.median([a / b for a, b in zip(ms[e], ms["ours"])]))
                line += f"\n  {e:12} {np.median(ms[e]):8.1f} ms, {peak[e][0]:4.0f} MiB, {peak[e][1]:4.0f} with the process"
                line += (
                    f"; {ratio:.2f} times ours, {min(ms[e]) / min(ms['ours']):.2f} of the least, ours takes "
                    f"{peak['ours'][0] / peak[e][0]:.2f}, {peak['ours'][1] / peak[e][1]:.2f} of its memory"
                    if e != "ours"
                    else ""
                )
            print(line, flush=True)


def main():
    photos = photographs()
    print(f"torch {torch.__version__}, {len(photos)} pictures")
    with tempfile.TemporaryDirectory() as folder:
        test_images(photos, folder)
        test_models(photos, folder)
        test_decoders(folder)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if len(sys.argv) < 2:
    sys.exit(
        "usage: python3 tests/pytorch.py build/pytorch [--memory], or build/bench --openvino or --dinov2"
    )
program = os.path.abspath(sys.argv[1])
if sys.argv[2:3] == ["--memory"]:
    memory_table()
elif sys.argv[2:3] == ["--openvino"]:
    openvino_table()
elif sys.argv[2:3] == ["--dinov2"]:
    dinov2_table()
elif sys.argv[2:3] == ["--dinov2-measure"]:
    dinov2_measure(*sys.argv[3:5], *map(int, sys.argv[5:8]))
elif sys.argv[2:3] == ["--measure"]:
    measure(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    main()
