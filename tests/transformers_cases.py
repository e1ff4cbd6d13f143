"""Random networks of the shapes of ViT, DINOv2 and DINOv3, as transformers saves them, and what it computes with them.

    python3 tests/transformers_cases.py DIR                  all of them
    python3 tests/transformers_cases.py DIR dinov2-s …       those
    python3 tests/transformers_cases.py --golden DIR         two tiny ones as golden cases

build/transformers DIR (tests/transformers.c) reads the folder. Each network is a folder in DIR: model.safetensors, or the
parts of it and model.safetensors.index.json; config.json; expected.safetensors, with for each picture HxW the arrays HxW.image
(B, 3, H, W), HxW.token (B, D), HxW.registers (B, k, D) and HxW.patches (B, n, D), after the last norm, in float32, and of a
classifier HxW.logits (B, K) and in the metadata the names of its classes. Widths,
heads, patches and positions are those of the systems; there are 2 blocks instead of 12 to 40. Values come from a seed
for each network. Nothing is loaded from elsewhere. The folder of a network that this version of transformers does not have
stays empty, and a line says so. All take 1.4 GB.
"""
import json, math, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from torch.overrides import TorchFunctionMode
except ImportError as missing:
    print(f"skipped: networks of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def dinov2(dim, heads, registers=0, swiglu=False, patch=14, grid=37):
    """transformers keeps two thirds of 4 dim as the width of a SwiGLU, up to a multiple of 8: 4096 for 1536."""
    return "Dinov2WithRegisters" if registers else "Dinov2", dict(
        hidden_size=dim,
        num_attention_heads=heads,
        num_hidden_layers=2,
        mlp_ratio=4,
        use_swiglu_ffn=swiglu,
        image_size=patch * grid,
        patch_size=patch,
        **(dict(num_register_tokens=registers) if registers else {}),
    )


def dinov3(dim, heads, hidden, gated=False, patch=16):
    return "DINOv3ViT", dict(
        hidden_size=dim,
        num_attention_heads=heads,
        num_hidden_layers=2,
        intermediate_size=hidden,
        patch_size=patch,
        use_gated_mlp=gated,
        hidden_act="silu" if gated else "gelu",
        num_register_tokens=4,
        rope_theta=100.0,
    )


def vit(dim, heads, patch, **more):
    return "ViT", dict(
        hidden_size=dim,
        num_attention_heads=heads,
        num_hidden_layers=2,
        intermediate_size=4 * dim,
        image_size=224,
        patch_size=patch,
        **more,
    )


LABELS = {0: "tench", 1: "great white shark, \"white death\"", 2: "café", 3: "hen", 4: "ostrich"}


def classifier(network):
    """The same with a classifier of five classes."""
    kind, options = network
    return kind + "ForImageClassification", dict(
        options, id2label=LABELS, label2id={name: k for k, name in LABELS.items()}
    )


NETWORKS = {
    "vit-s-classes": classifier(vit(384, 6, 16)),
    "dinov2-s-classes": classifier(dinov2(384, 6)),
    "dinov2-s-reg-classes": classifier(dinov2(384, 6, 4)),
    "vit-b": vit(768, 12, 16),                "vit-h": vit(1280, 16, 14),
    "vit-s-12": vit(384, 12, 16),             "vit-s-eps": vit(384, 6, 16, layer_norm_eps=1e-3),
    "dinov2-s-3": dinov2(384, 3, 4),
    "dinov2-s": dinov2(384, 6),               "dinov2-s-reg": dinov2(384, 6, 4),
    "dinov2-b": dinov2(768, 12),              "dinov2-b-reg": dinov2(768, 12, 4),
    "dinov2-l": dinov2(1024, 16),             "dinov2-l-reg": dinov2(1024, 16, 4),
    "dinov2-g": dinov2(1536, 24, 0, True),    "dinov2-g-reg": dinov2(1536, 24, 4, True),
    "dinov3-s": dinov3(384, 6, 1536),         "dinov3-splus": dinov3(384, 6, 1536, True),
    "dinov3-b": dinov3(768, 12, 3072),        "dinov3-l": dinov3(1024, 16, 4096),
    "dinov3-hplus": dinov3(1280, 20, 5120, True),
    "dinov2-s-sharded": dinov2(384, 6, 4),    "dinov3-s-sharded": dinov3(384, 6, 1536)}
# (B, H, W): the stored grid and another one, not square (longer than the stored one in one direction), pixels that fill no
# whole patch, which are left out at the right and below
PICTURES = {"vit": [(1, 224, 224), (2, 160, 304), (1, 157, 201)],
            "dinov2": [(1, 518, 518), (2, 224, 224), (1, 574, 98), (1, 201, 157)],
            "dinov3": [(1, 512, 512), (2, 224, 224), (1, 80, 304), (1, 157, 201)]}


def network(kind, options, seed):
    """None if transformers has no such class."""
    family = kind.replace("ForImageClassification", "")
    model = getattr(transformers, kind if family != kind else kind + "Model", None)
    config = getattr(transformers, family + "Config", None)
    if model is None or config is None:
        return None
    net = model(config(**options)).eval()
    random_weights(net, seed)
    return net


def random_weights(net, seed):
    """Everything is to be seen in the output: scales, norms and biases far from 1 and 0, and attention that prefers some
    tokens, logits deviating by 2 to 3. Class token and registers are small, so that even the norms' eps shows."""
    random = torch.Generator().manual_seed(seed)
    for name, p in net.named_parameters():
        mean, deviation = 0.0, 0.3                   # biases
        if "norm" in name or "lambda" in name:
            mean = 1.0 * ("bias" not in name)
        elif "cls_token" in name or "register_tokens" in name:
            deviation = 0.02
        elif "position_embeddings" in name:
            deviation = 0.5
        elif "mask_token" in name:
            deviation = 1.0                          # which must not be seen
        elif p.ndim > 1:
            sharp = any(word in name for word in ("q_proj", "k_proj", "query", "key"))
            deviation = (1.5 if sharp else 1.0) / math.sqrt(p[0].numel())
        values = mean + deviation * torch.randn(p.shape, generator=random, dtype=torch.float32)
        if "position_embeddings" in name:
            values[:, 0] *= 0.04
        with torch.no_grad():
            p.copy_(values)


def answers(net, shapes, seed):
    """HxW.image, .token, .registers, .patches for each of the pictures."""
    random = torch.Generator().manual_seed(seed + 1)
    k, arrays = getattr(net.config, "num_register_tokens", 0), {}
    for b, h, w in shapes:
        image = torch.randn(b, 3, h, w, generator=random, dtype=torch.float32)
        other = dict(interpolate_pos_encoding=True) if net.config.model_type == "vit" else {}
        with torch.inference_mode():
            image_as = image.to(next(net.parameters()).dtype)
            # DINOv3's encoder is called "model", too
            classifies = type(net).__name__.endswith("ForImageClassification")
            base = getattr(net, net.base_model_prefix) if classifies else net
            tokens = base(image_as, **other).last_hidden_state
            if base is not net:
                arrays[f"{h}x{w}.logits"] = net(image_as, **other).logits
        assert tokens.shape[1] == 1 + k + (h // net.config.patch_size) * (
            w // net.config.patch_size
        )
        arrays[f"{h}x{w}.image"] = image
        parts = {
            "token": tokens[:, 0],
            "registers": tokens[:, 1 : 1 + k],
            "patches": tokens[:, 1 + k :],
        }
        arrays.update({f"{h}x{w}.{part}": x.contiguous() for part, x in parts.items() if x.numel()})
    return arrays


def write(folder, names):
    written = skipped = 0
    by = {"source": f"transformers {transformers.__version__}, torch {torch.__version__}"}
    for name in names:
        kind, options = NETWORKS[name]
        seed = zlib.crc32(name.encode())
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        net = network(kind, options, seed)
        if net is None:
            print(f"skipped: {name} (transformers {transformers.__version__} has no {kind}Model)")
            skipped += 1
            continue
        net.save_pretrained(where, max_shard_size="10MB" if "sharded" in name else "2GB")
        named = {"id2label": json.dumps(LABELS)} if kind.endswith("Classification") else {}
        save_file(
            answers(net, PICTURES[name.split("-")[0]], seed),
            os.path.join(where, "expected.safetensors"),
            {**by, **named},
        )
        written += 1
        print(
            f"{name:18} {sum(p.numel() for p in net.parameters()) / 1e6:6.1f} million parameters",
            flush=True,
        )
    print(
        f"{written} networks of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}"
    )
    print(f"{written} passed, 0 failed, {skipped} skipped")


class Double(TorchFunctionMode):
    """Whatever asks for float32, as the resizing of positions and the angles do, gets float64; but for random numbers,
    which are to be the same ones."""
    def __torch_function__(self, func, types, args=(), kwargs=None):
        def wide(x):
            return torch.float64 if x is torch.float32 and func is not torch.randn else x
        return func(*map(wide, args), **{key: wide(x) for key, x in (kwargs or {}).items()})


def golden(folder):
    """Golden cases (tests/golden/README.md) of files that transformers wrote, computed by its classes in float64."""
    small = {
        "transformers_dinov2": (
            dinov2(16, 2, 4, True, 4, 5),
            (2, 13, 24),
            dict(
                model="dinov2",
                hidden=48,
                ffn="swiglu",
                patch=4,
                grid=5,
                eps=1e-6,
                positions="antialias",
            ),
        ),
        "transformers_dinov3": (
            dinov3(16, 2, 32, True, 4),
            (2, 13, 20),
            dict(model="dinov3", hidden=32, ffn="swiglu", patch=4, eps=1e-5),
        ),
    }
    for seed, (name, ((kind, options), shape, args)) in enumerate(small.items()):
        where = os.path.join(folder, "checkpoint", name)
        net = network(kind, options, seed)
        net.save_pretrained(where)
        os.replace(os.path.join(where, "model.safetensors"), where + ".safetensors")
        os.remove(os.path.join(where, "config.json"))
        os.rmdir(where)
        torch.set_default_dtype(torch.float64)
        # first: transformers keeps coordinates of a grid for the next call
        with Double():
            arrays = answers(network(kind, options, seed).double(), [shape], seed)
        torch.set_default_dtype(torch.float32)
        expected = answers(net, [shape], seed)
        size = f"{shape[1]}x{shape[2]}."
        apart = max(float((arrays[key] - x).abs().max()) for key, x in expected.items())
        args.update(
            dim=16, depth=2, heads=2, registers=4, n_last=1, file=f"checkpoint/{name}.safetensors"
        )
        case = {
            "in.image": expected[size + "image"],
            "out.features": arrays[size + "token"],
            "out.patches": arrays[size + "patches"],
            "out.registers": arrays[size + "registers"],
        }
        save_file(
            case,
            os.path.join(folder, f"checkpoint_dinov2-{name}.safetensors"),
            {
                "case": "checkpoint_dinov2",
                "args": json.dumps(args, sort_keys=True),
                "source": f"transformers {transformers.__version__}, its own class and file, in float64; in float32 it differs "
                f"by at most {apart:.1e}",
            },
        )
        print(f"{name}: float32 and float64 are {apart:.1e} apart")


if len(sys.argv) < 2:
    sys.exit("usage: python3 tests/transformers_cases.py DIR [NETWORK…], or --golden DIR")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
if sys.argv[1] == "--golden":
    golden(sys.argv[2])
else:
    write(sys.argv[1], sys.argv[2:] or NETWORKS)
