"""Random towers of pictures and texts, CLIP and SigLIP, as transformers saves them, and what it computes with them.

    python3 tests/towers_cases.py DIR           all of them
    python3 tests/towers_cases.py tests/golden/towers      as they are kept

build/towers DIR (tests/towers.c) reads the folder. Each is a folder in DIR with model.safetensors and config.json in float32, and
expected.safetensors: image (B, 3, S, S) and tokens (T, L); in float64 pictures (B, E) and texts (T, E), the vectors of length 1,
logits (B, T), and gradient.NAME, the gradient of Σ weight · logits for the parameter of the file's NAME; weight (B, T). In
pixels.safetensors rgb (H, W, 3) is a picture, and pixels (1, 3, S, S) what the processor that works with Pillow makes of it.
"""
import os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    from transformers_double import Double, random_weights
except ImportError as missing:
    print(f"skipped: towers of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def towers(dim, heads, ffn, side, patch, words, length, text=None, **more):
    vision = dict(hidden_size=dim, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=ffn, image_size=side,
                  patch_size=patch, **more)
    text = dict(dict(hidden_size=dim, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=ffn, vocab_size=words,
                     max_position_embeddings=length, pad_token_id=None, bos_token_id=1), **more, **(text or {}))
    return dict(vision_config=vision, text_config=text)


TOWERS = {
    "clip": ("CLIP", dict(towers(24, 3, 40, 32, 8, 40, 9, dict(eos_token_id=39, hidden_size=16, num_attention_heads=2)),
                          projection_dim=20)),
    "clip-old": ("CLIP", dict(towers(16, 2, 32, 24, 8, 40, 9, dict(eos_token_id=2), hidden_act="gelu"), projection_dim=12)),
    "siglip": ("Siglip", towers(24, 3, 40, 32, 8, 40, 8, dict(projection_size=24, eos_token_id=2))),
}


def picture(kind, side, random):
    """A wide picture whose width leaves a rest that is odd."""
    rgb = torch.randint(0, 256, (45, 72, 3), generator=random).to(torch.uint8)
    processor = (CLIPImageProcessorPil(size=dict(shortest_edge=side), crop_size=dict(height=side, width=side)) if kind == "CLIP"
                 else SiglipImageProcessorPil(size=dict(height=side, width=side), resample=2))
    return processor, dict(rgb=rgb, pixels=processor(rgb.numpy(), return_tensors="pt", input_data_format="channels_last").pixel_values)


def main(folder):
    written = 0
    for name, (kind, options) in TOWERS.items():
        seed = zlib.crc32(name.encode())
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        settings = getattr(transformers, kind + "Config")(**options)
        settings._attn_implementation = "eager"
        torch.set_default_dtype(torch.float32)
        model = getattr(transformers, kind + "Model")
        net = model(settings).eval()
        random_weights(net, seed)
        with torch.no_grad():
            net.logit_scale.fill_(1.5)
        net.save_pretrained(where)
        random = torch.Generator().manual_seed(seed)
        side, length = options["vision_config"]["image_size"], options["text_config"]["max_position_embeddings"]
        image = torch.randn(2, 3, side, side, generator=random, dtype=torch.float32)
        tokens = torch.randint(3, 38, (3, length), generator=random)
        for row, end in enumerate((length - 1, 4, 6)):           # texts end in several places
            tokens[row, end] = 39
        weight = torch.randn(2, 3, generator=random, dtype=torch.float32)
        torch.set_default_dtype(torch.float64)
        with Double():
            wide = model(settings).eval()
            wide.load_state_dict(net.state_dict())
            wide = wide.double()
            out = wide(input_ids=tokens, pixel_values=image.double())
            (out.logits_per_image * weight.double()).sum().backward()
        torch.set_default_dtype(torch.float32)
        arrays = dict(image=image, tokens=tokens.to(torch.int32), weight=weight, pictures=out.image_embeds.detach(),
                      texts=out.text_embeds.detach(), logits=out.logits_per_image.detach())
        arrays.update({"gradient." + key: p.grad for key, p in wide.named_parameters()})
        save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))
        processor, pixels = picture(kind, side, random)
        save_file(pixels, os.path.join(where, "pixels.safetensors"))
        if kind == "Siglip":
            processor.save_pretrained(where)
        for other in os.listdir(where):
            os.chmod(os.path.join(where, other), 0o644)
        written += 1
    print(f"{written} towers of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{written} passed, 0 failed, 0 skipped")


if len(sys.argv) != 2:
    sys.exit("usage: python3 tests/towers_cases.py DIR")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(sys.argv[1])
