"""Random towers of pictures and texts under OpenCLIP's names, and what open_clip computes with them.

    python3 tests/openclip_cases.py DIR           all of them
    python3 tests/openclip_cases.py tests/golden/towers golden      two, as they are kept: smaller, without gradients

It needs the packages open_clip_torch and timm. build/towers DIR (tests/towers.c) reads the folder. Each is a folder in DIR with
open_clip_model.safetensors and open_clip_config.json in float32 (openai has no config: its sizes tell), expected.safetensors as
tests/towers_cases.py has it, with gradients under Hugging Face's names and q, k and v apart, and pixels.safetensors: rgb
(H, W, 3) uint8, and pixels (1, 3, S, S), what OpenCLIP's preprocessing makes of it.
"""
import json, os, sys, zlib

here = sys.path.pop(0)                                  # torchvision looks for a module pytorch, and finds that of this folder
try:
    import timm.models.vision_transformer
    import torch
    import open_clip
    import open_clip.transform
    from PIL import Image
    from safetensors.torch import save_file
    sys.path.append(here)
    from transformers_double import random_weights
except ImportError as missing:
    print(f"skipped: towers of OpenCLIP, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

SMALL = sys.argv[2:] == ["golden"]
VISION = dict(image_size=32, layers=1 if SMALL else 2, mlp_ratio=1.5 if SMALL else 4, width=24, head_width=8, patch_size=8)
TEXT = dict(context_length=9, vocab_size=40, width=16, heads=2, layers=1 if SMALL else 2)
SIGLIP = dict(image_size=32, timm_model_name="vit_base_patch32_siglip_256", timm_pool="map", timm_proj="none")
SIGLIP_TEXT = dict(context_length=8, vocab_size=40, width=24, heads=3, layers=1 if SMALL else 2, no_causal_mask=True, proj_bias=True,
                   pool_type="last", norm_kwargs=dict(eps=1e-6), act_kwargs=dict(approximate="tanh"))
HALF = dict(mean=[0.5] * 3, std=[0.5] * 3, interpolation="bilinear", resize_mode="squash")
CASES = {
    "openclip": (dict(embed_dim=16, quick_gelu=True, vision_cfg=VISION, text_cfg=TEXT), {}),
    "openclip-text": (dict(embed_dim=20, custom_text=True, vision_cfg=dict(VISION, mlp_ratio=4.9231, norm_kwargs=dict(eps=1e-4)),
                           text_cfg=dict(TEXT, pool_type="eos", eos_id=39, mlp_ratio=3, proj_bias=True)), {}),
    "openclip-bare": (dict(embed_dim=24, custom_text=True, init_logit_bias=-10,
                           vision_cfg=dict(VISION, no_ln_pre=True, act_kwargs=dict(approximate="tanh")),
                           text_cfg=dict(TEXT, width=24, proj_type="none", pool_type="last")), HALF),
    "openclip-siglip": (dict(embed_dim=24, init_logit_bias=-10, custom_text=True, vision_cfg=SIGLIP, text_cfg=SIGLIP_TEXT), HALF),
    "openclip-siglip-wide": (dict(embed_dim=48, init_logit_bias=-10, custom_text=True,
                                  vision_cfg=dict(SIGLIP, timm_model_name="vit_so400m_patch14_siglip_384"),
                                  text_cfg=dict(SIGLIP_TEXT, width=48, act_kwargs=None)), HALF),
    "openai": (dict(embed_dim=16, quick_gelu=True, vision_cfg=dict(VISION, width=128, head_width=64, layers=1),
                    text_cfg=dict(TEXT, width=64, heads=1, layers=1)), None),
}


class Trunk(torch.nn.Module):
    """open_clip.timm_model.TimmModel with a network of any size."""
    def __init__(self, dim, heads, tanh):
        super().__init__()
        self.trunk = timm.models.vision_transformer.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=dim, depth=1 if SMALL else 2, num_heads=heads, class_token=False, global_pool="map",
            num_classes=0, mlp_ratio=1.5, act_layer="gelu_tanh" if tanh else None)

    def forward(self, x):
        return self.trunk(x)


def network(config):
    config = dict(config)
    kind = open_clip.CustomTextCLIP if config.pop("custom_text", False) else open_clip.CLIP
    if "timm_model_name" not in config["vision_cfg"]:
        return kind(**config).eval()
    name, dim = config["vision_cfg"]["timm_model_name"], config["embed_dim"]
    heads = 12 if "base" in name else 16
    net = kind(**dict(config, vision_cfg=dict(VISION)))
    net.visual = Trunk(dim, heads, name in ("vit_base_patch32_siglip_256",))
    return net.eval()


def pictures_names(name):
    for ours, theirs in (("patch_embed.proj", "embeddings.patch_embedding"), ("pos_embed", "embeddings.position_embedding.weight"),
                         ("blocks.", "encoder.layers."), ("encoder.layers.0.norm", "encoder.layers.0.layer_norm"),
                         ("encoder.layers.1.norm", "encoder.layers.1.layer_norm"), ("attn_pool.norm", "head.layernorm"),
                         ("attn_pool.latent", "head.probe"), ("attn_pool.mlp", "head.mlp"),
                         ("attn_pool.proj", "head.attention.out_proj"), ("norm.", "post_layernorm.")):
        if not (ours == "norm." and not name.startswith("norm.")):
            name = name.replace(ours, theirs)
    return "vision_model." + name.replace("attn.qkv", "attn.in_proj").replace("attn.proj", "self_attn.out_proj")


def hugging_face(name, trunk):
    """Hugging Face's name of a parameter."""
    if name.startswith("visual.trunk."):
        return pictures_names(name[len("visual.trunk."):])
    if name in ("logit_scale", "logit_bias"):
        return name
    pictures = name.startswith("visual.")
    name = name.removeprefix("visual.").removeprefix("text.")
    if name == "proj":
        return "visual_projection.weight"
    if name.startswith("text_projection"):
        return {"text_projection": "text_projection.weight"}.get(name, name.replace("text_projection", "text_model.head"))
    for theirs, ours in (("transformer.resblocks", "encoder.layers"), ("ln_1", "layer_norm1"), ("ln_2", "layer_norm2"),
                         ("attn.out_proj", "self_attn.out_proj"), ("c_fc", "fc1"), ("c_proj", "fc2"),
                         ("conv1", "embeddings.patch_embedding"), ("class_embedding", "embeddings.class_embedding"),
                         ("positional_embedding", "embeddings.position_embedding.weight"), ("ln_pre", "pre_layrnorm"),
                         ("ln_post", "post_layernorm"), ("ln_final", "final_layer_norm"),
                         ("token_embedding", "embeddings.token_embedding")):
        name = name.replace(theirs, ours)
    return ("vision_model." if pictures else "text_model.") + name


def gradients(net):
    out, probe = {}, {}
    for name, p in net.named_parameters():
        grad = p.grad
        ours = hugging_face(name, net.visual)
        if ours in ("visual_projection.weight", "text_projection.weight"):
            grad = grad.T
        if name == "visual.trunk.pos_embed":
            grad = grad[0]
        if "attn_pool.q." in name or "attn_pool.kv." in name:
            probe[name.rsplit(".", 2)[1] + name.rsplit(".", 1)[1]] = grad
        elif "attn.in_proj" in ours:                    # q, k and v
            what = ours.rsplit("in_proj", 1)[1].replace("_", ".")
            for part, rows in zip("qkv", grad.chunk(3)):
                out[ours.rsplit("attn.in_proj", 1)[0] + f"self_attn.{part}_proj{what}"] = rows
        else:
            out[ours] = grad.reshape(1) if grad.ndim == 0 else grad
    for what in ("weight", "bias"):
        if probe:
            out["vision_model.head.attention.in_proj_" + what] = torch.cat([probe["q" + what], probe["kv" + what]])
    return out


def picture(side, preprocess, random):
    """A wide picture whose width leaves a rest that is odd, and what the preprocessing makes of it."""
    options = {k: v for k, v in (preprocess or {}).items()}
    made = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(size=side, **options), is_train=False)
    rgb = torch.randint(0, 256, (45, 72, 3), generator=random).to(torch.uint8)
    return dict(rgb=rgb, pixels=made(Image.fromarray(rgb.numpy()))[None].contiguous())


def main(folder):
    written = 0
    for name, (config, preprocess) in CASES.items():
        if SMALL and name not in ("openclip", "openclip-siglip"):
            continue
        seed = zlib.crc32(name.encode())
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        net = network(config)
        net.config = torch.nn.Module()
        net.config.model_type = ""
        random_weights(net, seed)
        del net.config
        with torch.no_grad():
            net.logit_scale.fill_(1.5)
            for key, p in net.named_parameters():
                if key.rsplit(".", 2)[-2:-1] in (["ln_1"], ["ln_2"], ["ln_pre"], ["ln_post"], ["ln_final"]) and "weight" in key:
                    p.add_(1)
        arrays = {key: x.contiguous() for key, x in net.state_dict().items()}
        if preprocess is None:
            arrays.update(input_resolution=torch.tensor(32), context_length=torch.tensor(9), vocab_size=torch.tensor(40))
        else:
            with open(os.path.join(where, "open_clip_config.json"), "w", encoding="utf-8") as f:
                json.dump({"model_cfg": config, "preprocess_cfg": preprocess}, f, indent=1)
        save_file(arrays, os.path.join(where, "open_clip_model.safetensors"))
        random = torch.Generator().manual_seed(seed)
        length = config["text_cfg"]["context_length"]
        image = torch.randn(2, 3, 32, 32, generator=random, dtype=torch.float32)
        tokens = torch.randint(3, 38, (3, length), generator=random)
        for row, end in enumerate((length - 1, 4, 6)):
            tokens[row, end] = 39
        weight = torch.randn(2, 3, generator=random, dtype=torch.float32)
        net = net.double()
        pictures, texts = net.encode_image(image.double(), normalize=True), net.encode_text(tokens, normalize=True)
        logits = net.logit_scale.exp() * pictures @ texts.T
        if net.logit_bias is not None:
            logits = logits + net.logit_bias
        (logits * weight.double()).sum().backward()
        arrays = dict(image=image, tokens=tokens.to(torch.int32), weight=weight, pictures=pictures.detach(), texts=texts.detach(),
                      logits=logits.detach())
        if not SMALL:
            arrays.update({"gradient." + key: x for key, x in gradients(net).items()})
        save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))
        save_file(picture(32, preprocess, random), os.path.join(where, "pixels.safetensors"))
        for other in os.listdir(where):
            os.chmod(os.path.join(where, other), 0o644)
        written += 1
    print(f"{written} towers of open_clip {open_clip.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{written} passed, 0 failed, 0 skipped")


if len(sys.argv) != 2 and not SMALL:
    sys.exit("usage: python3 tests/openclip_cases.py DIR [golden]")
main(sys.argv[1])
