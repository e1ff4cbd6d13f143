"""Random small models of Qwen2-VL and Qwen2.5-VL, as transformers saves them, and what it computes with them.

    python3 tests/qwen_cases.py DIR             all of them
    python3 tests/qwen_cases.py --golden tests/golden/qwen      two small ones, with the gradients of small parameters

build/qwen DIR (tests/qwen.c) reads the folder. Each model is a folder in DIR with model.safetensors, config.json and
preprocessor_config.json, in float32; those called -flat have the released files' config and names, the others those of
transformers 5. expected.safetensors: tokens (L); spans (n, 5), of each picture or film the first token, the frames, rows and
columns of its features, and 1 if it is a film; seconds (n), from one frame of features to the next; positions (3, L); pixels.I
(frames, h, w, 3), the levels of 8 bits, and film.I (T, 3, 2, Y, X), what the processor makes of them; in float64 features.I (T Y X,
width), logits (L, K), and gradient.NAME, the gradient of Σ weight.I · features.I over all I for the tower's parameter NAME. Beside
them lie a tokenizer, the chat template, picture.ppm, and answer.txt, what is answered greedily when asked "what is this?" about it.

A text goes on behind the largest of the three positions before it, as the models were trained and as their papers say. From
release 5 on transformers goes on behind the largest row or column, so that a long film's frames and the text behind them have
the same positions; positions are therefore given to it, and compared with its own where both rules agree.
"""
import json, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import numpy as np
    import torch
    import transformers
    from PIL import Image
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize
    from transformers_double import Double, random_weights
except ImportError as missing:
    print(f"skipped: Qwen2-VL of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

PATCH, MERGE, FRAMES = 4, 2, 2
PIECES = ["Ġ", "Ċ"] + list("abcdefghijklmnopqrstuvwxyz.,?:!-0123456789ABCDEFGHIJY") + ["th", "the", "Ġthe"]
SPECIAL = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|im_start|>", "<|im_end|>"]
START, END, PICTURE, FILM, _, STOP = range(len(PIECES), len(PIECES) + len(SPECIAL))
WORDS = STOP + 1
# that of the released models
CHAT = ("{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}{% if loop.first and "
        "message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}"
        "\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}{% for content in message['content'] %}{% if "
        "content['type'] == 'image' or 'image' in content or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}{% if "
        "add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == "
        "'video' or 'video' in content %}{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value "
        "}}: {% endif %}<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}"
        "<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def small_tokenizer():
    inner = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(PIECES)}, merges=[("t", "h"), ("th", "e"), ("Ġ", "the")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    t = PreTrainedTokenizerFast(tokenizer_object=inner)
    t.add_special_tokens({"additional_special_tokens": SPECIAL})
    t.eos_token = SPECIAL[-1]
    t.chat_template = CHAT
    return t




def model(kind, media, width=16, heads=2, sections=(1, 1, 2), theta=1e6, tied=False, vision=None, text=None, interval=None,
          least=200, most=3000):
    text = dict(dict(vocab_size=WORDS, hidden_size=width, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=24, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-6,
                     rope_parameters=dict(rope_type="default", rope_theta=theta, mrope_section=list(sections))), **(text or {}))
    if kind == "Qwen2VL":
        vision = dict(dict(depth=2, embed_dim=16, num_heads=heads, mlp_ratio=2, hidden_size=width), **(vision or {}))
    else:
        vision = dict(dict(depth=3, hidden_size=16, num_heads=heads, intermediate_size=20, out_hidden_size=width, window_size=16,
                           fullatt_block_indexes=[1], tokens_per_second=3), **(vision or {}))
    vision.update(patch_size=PATCH, spatial_merge_size=MERGE, temporal_patch_size=FRAMES)
    options = dict(text_config=text, vision_config=vision, image_token_id=PICTURE, video_token_id=FILM, vision_start_token_id=START,
                   vision_end_token_id=END, tie_word_embeddings=tied)
    return kind, options, media, dict(least=least, most=most)


# Media: (width, height) of a picture; (width, height, frames, seconds from one frame to the next) of a film.
MODELS = {
    "qwen2.5-flat": model("Qwen2_5_VL", [(21, 14), (30, 21), (34, 22, 5, 0.25)], tied=True),
    "qwen2": model("Qwen2VL", [(14, 23), (18, 14, 3, 1.0)]),
    "qwen2-flat": model("Qwen2VL", [(45, 29), (40, 40), (8, 60)], tied=True, vision=dict(hidden_act="gelu")),
    "qwen2.5": model("Qwen2_5_VL", [(100, 10), (17, 190), (1, 1), (64, 64)], width=32, heads=4, sections=(2, 3, 3)),
    "qwen2.5-film": model("Qwen2_5_VL", [(20, 16, 37, 1.0), (30, 30), (24, 40, 1, 0.7)], theta=1e4,
                          vision=dict(window_size=24, tokens_per_second=2, fullatt_block_indexes=[0, 2])),
    "qwen2.5-full": model("Qwen2_5_VL", [(60, 60), (24, 16, 2, 0.5)], vision=dict(window_size=8, fullatt_block_indexes=[])),
}
GOLDEN = ["qwen2.5-flat", "qwen2"]


def film_of(processor, frames):
    """(T, 3, 2, Y, X) of frames (n, h, w, 3): each prepared as a picture, the last one repeated. Along the rows first, as Pillow up
    to 12.3 resizes; the processor then finds them at their size."""
    planes = []
    height, width = smart_resize(*frames.shape[1:3], PATCH * MERGE, processor.size["shortest_edge"], processor.size["longest_edge"])
    for frame in frames:
        frame = Image.fromarray(frame).resize((width, len(frame)), Image.Resampling.BICUBIC)
        frame = np.asarray(frame.resize((width, height), Image.Resampling.BICUBIC))
        made = processor(images=[frame], return_tensors="np", input_data_format="channels_last")
        _, down, across = made["image_grid_thw"][0]
        patches = made["pixel_values"].reshape(down // MERGE, across // MERGE, MERGE, MERGE, 3, FRAMES, PATCH, PATCH)
        planes.append(patches[:, :, :, :, :, 0].transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, down * PATCH, across * PATCH))
    while len(planes) % FRAMES:
        planes.append(planes[-1])
    planes = np.stack(planes)
    return planes.reshape(-1, FRAMES, *planes.shape[1:]).transpose(0, 2, 1, 3, 4).copy()


def patches_of(film):
    """The rows that transformers reads."""
    T, _, _, Y, X = film.shape
    cut = film.reshape(T, 3, FRAMES, Y // PATCH // MERGE, MERGE, PATCH, X // PATCH // MERGE, MERGE, PATCH)
    return torch.from_numpy(cut.transpose(0, 3, 6, 4, 7, 1, 2, 5, 8).reshape(-1, 3 * FRAMES * PATCH * PATCH).copy())


def positions_of(length, spans, intervals):
    at, rows, token = 0, [], 0
    for (start, T, Y, X, _), interval in zip(spans, intervals):
        rows += [[at + i] * 3 for i in range(start - token)]
        at += start - token
        times = [int(np.float32(t) * np.float32(interval)) for t in range(T)]
        rows += [[at + t, at + y, at + x] for t in times for y in range(Y) for x in range(X)]
        at += max(times[-1] + 1, Y, X)
        token = start + T * Y * X
    rows += [[at + i] * 3 for i in range(length - token)]
    return torch.tensor(rows).T.contiguous()


def sequence_of(films, random):
    tokens, kinds, spans = [], [], []
    for film, frames in films:
        words = torch.randint(3, START, (int(torch.randint(1, 5, (1,), generator=random)),), generator=random).tolist()
        T, Y, X = film.shape[0], film.shape[3] // PATCH // MERGE, film.shape[4] // PATCH // MERGE
        tokens += words + [START]
        kinds += [0] * (len(words) + 1)
        spans.append((len(tokens), T, Y, X, int(frames)))
        tokens += [FILM if frames else PICTURE] * (T * Y * X) + [END]
        kinds += [2 if frames else 1] * (T * Y * X) + [0]
    tokens += torch.randint(3, START, (6,), generator=random).tolist()
    kinds += [0] * (len(tokens) - len(kinds))
    return torch.tensor([tokens]), torch.tensor([kinds]), spans


def write_configs(where, name, options, pixels):
    path = os.path.join(where, "config.json")
    config = json.load(open(path))
    flat = name.endswith("-flat")
    if flat:                                             # as the released files have it
        text = config.pop("text_config")
        rope = text.pop("rope_parameters")
        for key in ("model_type", "layer_types"):
            text.pop(key)
        config.update(text, rope_theta=rope["rope_theta"], sliding_window=32,
                      rope_scaling=dict(type="mrope", mrope_section=rope["mrope_section"]))
        vision = config["vision_config"]
        vision.pop("rope_parameters")
        vision["model_type"] = config["model_type"]
        vision["in_chans"] = vision.pop("in_channels")
        vision["spatial_patch_size"] = PATCH
    else:                                                # transformers 5 has these names inside
        file = os.path.join(where, "model.safetensors")
        named = {}
        for key, value in load_file(file).items():
            if key.startswith("visual."):
                key = "model." + key
            elif key.startswith("model."):
                key = "model.language_model." + key[len("model."):]
            named[key] = value
        save_file(named, file, metadata=dict(format="pt"))
    json.dump(config, open(path, "w"), indent=1)
    made = Qwen2VLImageProcessorPil(patch_size=PATCH, merge_size=MERGE, temporal_patch_size=FRAMES, min_pixels=pixels["least"],
                                    max_pixels=pixels["most"])
    made.save_pretrained(where)
    path = os.path.join(where, "preprocessor_config.json")
    config = json.load(open(path))
    if flat:
        config = dict(min_pixels=pixels["least"], max_pixels=pixels["most"], patch_size=PATCH, temporal_patch_size=FRAMES,
                      merge_size=MERGE, image_mean=config["image_mean"], image_std=config["image_std"],
                      image_processor_type="Qwen2VLImageProcessor", processor_class="Qwen2_5_VLProcessor")
    json.dump(config, open(path, "w"), indent=1)
    return made


def compute(net, films, spans, tokens, kinds, intervals, seconds, weights):
    """Features, positions, logits, and the tower's gradients."""
    grids = [(T, Y * MERGE, X * MERGE) for _, T, Y, X, _ in spans]
    features = [net.model.visual(patches_of(film).double(), grid_thw=torch.tensor([grid])).pooler_output
                for film, grid in zip(films, grids)]
    sum((w.double() * f).sum() for w, f in zip(weights, features)).backward()
    positions = positions_of(tokens.shape[1], spans, intervals)
    given = dict(input_ids=tokens, mm_token_type_ids=kinds)
    if kinds.eq(1).any():
        given["image_grid_thw"] = torch.tensor([g for g, s in zip(grids, spans) if not s[4]])
        given["pixel_values"] = torch.cat([patches_of(f) for f, s in zip(films, spans) if not s[4]]).double()
    if kinds.eq(2).any():
        given["video_grid_thw"] = torch.tensor([g for g, s in zip(grids, spans) if s[4]])
        given["pixel_values_videos"] = torch.cat([patches_of(f) for f, s in zip(films, spans) if s[4]]).double()
    asked = {key: given[key] for key in ("image_grid_thw", "video_grid_thw") if key in given}
    if hasattr(net.config.vision_config, "tokens_per_second"):
        asked["second_per_grid_ts"] = torch.tensor([x for x, s in zip(seconds, spans) if s[4]], dtype=torch.float32)
    theirs, _ = net.model.get_rope_index(tokens, kinds, **asked)
    longest = all(int(np.float32(s[1] - 1) * np.float32(i)) < max(s[2:4]) for s, i in zip(spans, intervals))
    assert not longest or torch.equal(theirs[:, 0], positions), "positions"
    with torch.no_grad():
        logits = net(**given, position_ids=positions[:, None], use_cache=False).logits[0]
    return features, positions, logits


def write_answer(net, processor, tokenizer, where, random):
    """Until it ends or eight tokens are there; nothing if one of them would stand for a picture."""
    shown = torch.randint(256, (29, 37, 3), generator=random, dtype=torch.uint8).numpy()
    with open(os.path.join(where, "picture.ppm"), "wb") as f:
        f.write(b"P6 37 29 255\n" + shown.tobytes())
    film = film_of(processor, shown[None])
    grid = torch.tensor([[1, film.shape[3] // PATCH, film.shape[4] // PATCH]])
    words = tokenizer.apply_chat_template([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is this?"}]}],
                                          tokenize=False, add_generation_prompt=True)
    words = words.replace("<|image_pad|>", "<|image_pad|>" * (int(grid.prod()) // MERGE ** 2))
    said, ids = [], tokenizer(words)["input_ids"]
    while len(said) < 8:
        tokens = torch.tensor([ids + said])
        with torch.no_grad():
            logits = net(input_ids=tokens, mm_token_type_ids=tokens.eq(PICTURE).int(), image_grid_thw=grid,
                         pixel_values=patches_of(film).double(), use_cache=False).logits
        token = int(logits[0, -1].argmax())
        if token in (PICTURE, FILM): return
        if token == STOP: break
        said.append(token)
    with open(os.path.join(where, "answer.txt"), "w") as f:
        f.write(tokenizer.decode(said, skip_special_tokens=True) + "\n")


def write(folder, name, golden):
    kind, options, media, pixels = MODELS[name]
    seed = zlib.crc32(name.encode())
    where = os.path.join(folder, name)
    os.makedirs(where, exist_ok=True)
    settings = getattr(transformers, kind + "Config")(**options)
    settings._attn_implementation = "eager"
    of = getattr(transformers, kind + "ForConditionalGeneration")
    torch.set_default_dtype(torch.float32)
    net = of(settings).eval()
    random_weights(net, seed)
    net.save_pretrained(where)
    processor = write_configs(where, name, options, pixels)
    random = torch.Generator().manual_seed(seed)
    levels = [torch.randint(256, (m[2] if len(m) > 2 else 1, m[1], m[0], 3), generator=random, dtype=torch.uint8) for m in media]
    films = [film_of(processor, x.numpy()) for x in levels]
    tokens, kinds, spans = sequence_of([(f, len(m) > 2) for f, m in zip(films, media)], random)
    seconds = [m[3] * FRAMES if len(m) > 2 else 1.0 for m in media]
    rate = getattr(settings.vision_config, "tokens_per_second", None)
    intervals = [np.float32(rate) * np.float32(x) if rate and s[4] else 1 for x, s in zip(seconds, spans)]
    weights = [torch.randn(s[1] * s[2] * s[3], net.config.text_config.hidden_size, generator=random) for s in spans]
    torch.set_default_dtype(torch.float64)
    with Double():
        wide = of(settings).eval()
        wide.load_state_dict(net.state_dict())
        wide = wide.double()
        features, positions, logits = compute(wide, films, spans, tokens, kinds, intervals, seconds, weights)
        tokenizer = small_tokenizer()
        tokenizer.save_pretrained(where)
        write_answer(wide, processor, tokenizer, where, random)
    torch.set_default_dtype(torch.float32)
    arrays = dict(tokens=tokens[0].to(torch.int32), spans=torch.tensor(spans, dtype=torch.int32),
                  seconds=torch.tensor(seconds), positions=positions.to(torch.int32), logits=logits)
    for i, film in enumerate(films):
        arrays.update({f"pixels.{i}": levels[i], f"film.{i}": torch.from_numpy(film), f"features.{i}": features[i].detach(),
                       f"weight.{i}": weights[i]})
    for key, p in wide.model.visual.named_parameters():
        if not golden or p.numel() <= 100:
            arrays["gradient." + key] = p.grad
    save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))
    for other in os.listdir(where):
        if other == "generation_config.json":
            os.remove(os.path.join(where, other))
        else:
            os.chmod(os.path.join(where, other), 0o644)


def main(folder, golden):
    names = GOLDEN if golden else MODELS
    for name in names:
        write(folder, name, golden)
    print(f"{len(names)} models of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{len(names)} passed, 0 failed, 0 skipped")


if len(sys.argv) != 2 + ("--golden" in sys.argv):
    sys.exit("usage: python3 tests/qwen_cases.py [--golden] DIR")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(sys.argv[-1], "--golden" in sys.argv)
