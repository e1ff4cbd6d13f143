"""Random ViTs with classifiers as timm builds and names them, and what it computes with them.

    python3 tests/timm_cases.py DIR             all of them
    python3 tests/timm_cases.py DIR timm-avg …  those

Beside tests/transformers_cases.py, whose text says what is in a folder of DIR; build/transformers DIR reads it. config.json
is what timm.models.push_to_hf_hub writes. Values come from a seed for each network; nothing is loaded from elsewhere.
"""
import json, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import timm
    import torch
    from safetensors.torch import save_file
except Exception as missing:                         # torchvision of another version fails in many ways
    print(f"skipped: networks of timm, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

# architecture, and what create_model is called with beside it
NETWORKS = {
    "timm-token": ("vit_tiny_patch16_224", dict()),
    "timm-avg": ("vit_tiny_patch16_224", dict(global_pool="avg")),
    "timm-avg-no-norm": ("vit_tiny_patch16_224", dict(global_pool="avg", fc_norm=False)),
    "timm-heads": ("vit_tiny_patch16_224", dict(embed_dim=128, num_heads=4)),
    "timm-registers": ("vit_tiny_patch16_224", dict(reg_tokens=4, no_embed_class=True, init_values=0.5)),
    "timm-deit3": ("deit3_small_patch16_224", dict()),
    "timm-giant-heads": ("vit_giant_patch14_224", dict(mlp_ratio=1.0)),
    "timm-swiglu": ("vit_giant_patch14_reg4_dinov2", dict(embed_dim=192, num_heads=3, img_size=224)),
}
LABELS = ["tench", "great white shark", "hen"]


def network(architecture, arguments, seed):
    net = timm.create_model(architecture, num_classes=len(LABELS), depth=2, **arguments).eval()
    random = torch.Generator().manual_seed(seed)
    for name, p in net.named_parameters():
        mean = 1.0 if "norm" in name and "bias" not in name else 0.0
        deviation = 0.3
        if p.ndim > 1 and name not in ("cls_token", "pos_embed", "reg_token"):
            deviation = p[0].numel() ** -0.5
        with torch.no_grad():
            p.copy_(mean + deviation * torch.randn(p.shape, generator=random))
    return net


def write(folder, names):
    for name in names:
        architecture, arguments = NETWORKS[name]
        seed = zlib.crc32(name.encode())
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        net = network(architecture, arguments, seed)
        save_file(net.state_dict(), os.path.join(where, "model.safetensors"), {"format": "pt"})
        config = dict(
            architecture=architecture,
            num_classes=net.num_classes,
            num_features=net.num_features,
            global_pool=net.global_pool,
            model_args=dict(arguments, depth=2),
            label_names=LABELS,
        )
        with open(os.path.join(where, "config.json"), "w") as f:
            json.dump(config, f)
        side = net.patch_embed.img_size[0]
        image = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(seed + 1))
        with torch.inference_mode():
            tokens, logits = net.forward_features(image), net(image)
        first = net.num_prefix_tokens
        parts = {
            "image": image,
            "token": tokens[:, 0],
            "registers": tokens[:, 1:first],
            "patches": tokens[:, first:],
            "logits": logits,
        }
        save_file(
            {f"{side}x{side}.{part}": x.contiguous() for part, x in parts.items() if x.numel()},
            os.path.join(where, "expected.safetensors"),
            {
                "source": f"timm {timm.__version__}, torch {torch.__version__}",
                "id2label": json.dumps(dict(enumerate(LABELS))),
            },
        )
        print(f"{name:18} {sum(p.numel() for p in net.parameters()) / 1e6:6.1f} million parameters")
    print(f"{len(names)} networks of timm {timm.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{len(names)} passed, 0 failed, 0 skipped")


if len(sys.argv) < 2:
    sys.exit("usage: python3 tests/timm_cases.py DIR [NETWORK…]")
write(sys.argv[1], sys.argv[2:] or NETWORKS)
