"""Random vision-language models as transformers saves them, and what it computes with them.

    python3 tests/vlm_cases.py DIR              all of them
    python3 tests/vlm_cases.py --golden DIR     those that are kept, in tests/golden/vlm

build/vlm DIR (tests/vlm.c) reads the folder. Each is a folder in DIR with model.safetensors in bf16, config.json,
preprocessor_config.json, tokenizer.json, and expected.safetensors: of question N as nN.NAME

    pictureK (h, w, 3) uint8        its pictures
    frames (n, h, w, 3) uint8       its film, which stands behind them
    ids (L)                         its tokens as the processor writes them, with image tokens in their places
    levels (tiles, T, T, 3) uint8   what the processor makes of the pictures, before it is normalized
    features (n, D) float64         of the pictures
    places (p), logits (p, V)       logits at some places, in float64

and values (3, 256) float32, what the processor makes of level 0 … 255 in each channel; picture.ppm, and answer.txt, what it answers
greedily when asked "what is this?" about it by its chat template; without answer.txt it would say <image>. NVILA has two more answers,
to the picture twice and to a film of it.

NVILA is not in transformers: its folders nvila… are put together of a SigLIP, a Qwen2, and tiles, scales, joints and films as VILA's code
has them, written here.

Pillow up to 12.3 resizes the columns of a picture after its rows, whatever its shape; so it is done here.
"""
import json, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import numpy as np
    import PIL.Image
    import torch
    import transformers
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import Idefics3Processor, LlavaOnevisionProcessor, PreTrainedTokenizerFast
    from transformers.models.idefics3 import modeling_idefics3
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    from transformers.models.smolvlm import modeling_smolvlm
    from transformers_double import Double, random_weights
except ImportError as missing:
    print(f"skipped: vision-language models of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

resize_once = PIL.Image.Image.resize


def rows_first(image, size, *options, **more):
    between = (size[0], image.size[1])
    return resize_once(resize_once(image, between, *options, **more), size, *options, **more)


PIL.Image.Image.resize = rows_first


def places_in_float(embeddings):
    """Places of patches are compared in float32 by a model that is loaded as usual, also where all else is float64."""
    plain = embeddings.forward

    def forward(*arguments, **more):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        with torch._C.DisableTorchFunction():
            y = plain(*arguments, **more)
        torch.set_default_dtype(before)
        return y
    embeddings.forward = forward


LETTERS = "abcdefghijklmnopqrstuvwxyz.,:?!-"
SPECIAL = ["<|im_start|>", "<|im_end|>", "<end_of_utterance>", "<image>", "<video>", "<fake_token_around_image>", "<global-img>"]
ROWS = [f"<row_{r + 1}_col_{c + 1}>" for r in range(4) for c in range(4)]


def small_tokenizer(*more):
    words = ["Ġ", "Ċ", "<", ">", "/"] + list(LETTERS) + [str(i) for i in range(10)] + ["U", "A", "th", "the", "Ġthe"]
    inner = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=[("t", "h"), ("th", "e"), ("Ġ", "the")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    t = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end_of_utterance>", pad_token="<|im_end|>")
    t.add_special_tokens({"additional_special_tokens": SPECIAL + ROWS + list(more)})
    return t


TOKENIZER = small_tokenizer()
VOCABULARY = len(TOKENIZER) + 3
IMAGE = TOKENIZER.convert_tokens_to_ids("<image>")
NVILA_TOKENIZER = small_tokenizer("<vila/video>")
VIDEO = NVILA_TOKENIZER.convert_tokens_to_ids("<vila/video>")
IDEFICS3_CHAT = ("<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == 'image' %}"
                 "{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
                 "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
                 "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
LLAVA_CHAT = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}{% for content in message['content'] | selectattr('type', "
              "'equalto', 'image') %}{{ '<image>' }}{% endfor %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
              "{{ '\\n' + content['text'] }}{% endfor %}{{'<|im_end|>'}}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|im_start|>assistant\\n' }}{% endif %}")
# Qwen2's
NVILA_CHAT = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful "
              "assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def text(kind="llama", **more):
    return dict(dict(model_type=kind, vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=900, pad_token_id=1, bos_token_id=2,
                     eos_token_id=3, rms_norm_eps=1e-5), **more)


def tower(side, patch, **more):
    return dict(dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=side, patch_size=patch),
                **more)


def idefics3(model, side, patch, tile, longest, merge, splits=True, tied=False, **more):
    config = dict(vision_config=tower(side, patch), text_config=text(**more), scale_factor=merge, image_token_id=IMAGE, pad_token_id=1,
                  tie_word_embeddings=tied)
    pictures = dict(size={"longest_edge": longest}, max_image_size={"longest_edge": tile}, do_image_splitting=splits)
    return model, config, pictures, (tile // patch // merge) ** 2


def llava(side, patch, shapes, most=9, layer=-1, vision=None, pictures=None, **more):
    config = dict(vision_config=tower(side, patch, model_type="siglip_vision_model", **dict(dict(vision_use_head=False), **(vision or {}))),
                  text_config=text("qwen2", **more), image_token_index=IMAGE, video_token_index=IMAGE + 1, vision_feature_layer=layer,
                  image_grid_pinpoints=shapes, vision_aspect_ratio=f"anyres_max_{most}")
    pictures = dict(dict(size={"height": side, "width": side}, image_grid_pinpoints=shapes, image_mean=[0.5] * 3, image_std=[0.5] * 3),
                    **(pictures or {}))
    return "LlavaOnevision", config, pictures, (side // patch) ** 2


def grid(side, rows, columns):
    return [[side * r, side * c] for r in range(1, rows + 1) for c in range(1, columns + 1)]


MODELS = {
    "smolvlm": idefics3("SmolVLM", 16, 4, 16, 48, 2),
    "idefics3": idefics3("Idefics3", 21, 3, 15, 40, 5, tied=True),
    "smolvlm-27": idefics3("SmolVLM", 54, 2, 54, 108, 3),
    "smolvlm-wider": idefics3("SmolVLM", 12, 3, 24, 60, 4),
    "smolvlm-whole": idefics3("SmolVLM", 16, 4, 16, 48, 4, splits=False),
    "smolvlm-26": idefics3("SmolVLM", 26, 1, 26, 26, 2, head_dim=8),
    "llava": llava(16, 4, grid(16, 3, 3)),
    "llava-few": llava(14, 4, grid(14, 4, 4), most=2, layer=-2, tie_word_embeddings=True),
    "llava-wide": llava(16, 4, [[16, 48], [48, 16], [32, 32]], layer=1, vision=dict(vision_use_head=True, hidden_act="gelu"),
                        pictures=dict(image_mean=[0.48, 0.45, 0.4], image_std=[0.26, 0.27, 0.28])),
}
# A tile's side and patch, the tower's layer, the joint, how many frames become one, and what config.json says of tiles
NVILA = {
    "nvila": (20, 4, -2, "mlp_downsample_2x2_fix", 2, dict(image_aspect_ratio="resize", s2=False)),
    "nvila-even": (16, 4, -1, "mlp_downsample_2x2_fix", None, dict(image_aspect_ratio="resize")),
    "nvila-tiles": (20, 4, -2, "mlp_downsample_3x3_fix", 1, dict(image_aspect_ratio="dynamic", min_tiles=1, max_tiles=6)),
    "nvila-many": (12, 4, -2, "mlp_downsample_3x3_fix", None, dict(image_aspect_ratio="dynamic", min_tiles=3, max_tiles=12)),
    "nvila-scales": (12, 4, -2, "mlp_downsample", 1, dict(image_aspect_ratio="dynamic_s2", dynamic_s2=True, s2_scales="12,24,36",
                                                          s2_resize_output_to_scale_idx=-1, max_tiles=12)),
    "nvila-small": (20, 4, -1, "mlp_downsample", None, dict(image_aspect_ratio="dynamic_s2", dynamic_s2=True, s2_scales="20,40",
                                                            max_tiles=6)),
}
GOLDEN = ["smolvlm", "idefics3", "llava-few"]
GOLDEN_NVILA = ["nvila", "nvila-tiles", "nvila-scales"]
FRAMES = (4, 19, 26)                             # of a film: how many, width, height
# (width, height) of each picture of a question; None: no pictures
QUESTIONS = [[(50, 37)], [(20, 31), (64, 16)], [(9, 120)], [(1, 1)], None]
GOLDEN_QUESTIONS = [[(50, 37)], [(20, 31), (64, 16)]]


def picture(width, height, random):
    """A gradient with noise and a disc: what a filter does wrong shows."""
    y, x = np.mgrid[0:height, 0:width]
    channels = np.stack([255 * x / width, 255 * y / height, 200 * ((x - width / 2) ** 2 + (y - height / 2) ** 2 < 90)], -1)
    return np.clip(channels + random.integers(-60, 60, channels.shape), 0, 255).astype(np.uint8)


def processor_of(kind, pictures, tokens, ratio):
    if kind in ("SmolVLM", "Idefics3"):
        return Idefics3Processor(Idefics3ImageProcessorPil(image_mean=[0.5] * 3, image_std=[0.5] * 3, **pictures), TOKENIZER,
                                 image_seq_len=tokens)
    LlavaOnevisionProcessor.check_argument_for_proper_class = lambda *arguments: None    # that of films would need torchvision
    return LlavaOnevisionProcessor(LlavaOnevisionImageProcessorPil(**pictures), TOKENIZER, num_image_tokens=tokens,
                                   vision_feature_select_strategy="full", vision_aspect_ratio=ratio)


def wording(count):
    if not count: return "<|im_start|>the sea?<end_of_utterance>\nassistant:"
    return "<|im_start|>user:" + "and".join(["<image>"] * count) + "what is this?<end_of_utterance>\nassistant:"


def normalized(processor):
    """(3, 256): what each level becomes."""
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256)).copy()
    p = processor.image_processor
    return p.normalize(p.rescale(levels, p.rescale_factor), p.image_mean, p.image_std)[:, 0]


def levels_of(pixels, values):
    """Which level each of (tiles, 3, T, T) numbers was; the processor's, to the bit."""
    found = np.stack([np.searchsorted(values[c], pixels[:, c]) for c in range(3)], -1)
    assert all((values[c][found[..., c]] == pixels[:, c]).all() for c in range(3))
    return found.astype(np.uint8)


def answers(net, processor, questions, seed):
    random = np.random.default_rng(seed)
    values = normalized(processor)
    arrays = {"values": torch.tensor(values)}
    for n, sizes in enumerate(questions):
        of = [picture(w, h, random) for w, h in sizes or []]
        inputs = processor(text=[wording(len(of))], images=[[PIL.Image.fromarray(p) for p in of]] if of else None, return_tensors="pt")
        ids = inputs["input_ids"]
        given = {key: x for key, x in inputs.items() if key not in ("attention_mask",)}
        if of: given["pixel_values"] = given["pixel_values"].double()
        out = net(**given)
        logits = out.logits[0]
        L = len(logits)
        at = torch.tensor(sorted({0, L // 3, L // 2, L - 9, L - 2, L - 1}), dtype=torch.int32)
        arrays[f"n{n}.ids"] = ids[0].to(torch.int32)
        arrays[f"n{n}.places"] = at
        arrays[f"n{n}.logits"] = logits[at.long()]
        for k, p in enumerate(of): arrays[f"n{n}.picture{k}"] = torch.tensor(p)
        if not of: continue
        pixels = inputs["pixel_values"].numpy()
        arrays[f"n{n}.levels"] = torch.tensor(levels_of(pixels.reshape(-1, *pixels.shape[-3:]), values))
        features = net.model.get_image_features(**{key: x for key, x in given.items() if key != "input_ids"}, return_dict=True)
        arrays[f"n{n}.features"] = torch.cat(list(features.pooler_output), 0)
    return arrays


class Squares(torch.nn.Module):
    """r x r tokens are joined, row by row, with zeros at the right and lower edge of a grid that is no multiple of r."""
    def __init__(self, r):
        super().__init__()
        self.r = r

    def forward(self, x):
        r, side = self.r, int(x.shape[1] ** 0.5)
        more = -side % r
        x = torch.nn.functional.pad(x.reshape(len(x), side, side, -1), (0, 0, 0, more, 0, more))
        return torch.cat([x[:, i::r, j::r] for i in range(r) for j in range(r)], -1).flatten(1, 2)


class Joint(torch.nn.Module):
    def __init__(self, kind, inner, outer):
        super().__init__()
        nn = torch.nn
        if kind == "mlp_downsample_3x3_fix":
            layers = [Squares(3), nn.LayerNorm(9 * inner), nn.Linear(9 * inner, 3 * inner), nn.GELU(), nn.LayerNorm(3 * inner),
                      nn.Linear(3 * inner, outer), nn.GELU(), nn.Linear(outer, outer)]
        else:
            layers = [Squares(2), nn.LayerNorm(4 * inner), nn.Linear(4 * inner, outer), nn.GELU(), nn.Linear(outer, outer)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def tiles_of(image, side, columns, rows):
    """The picture as so many tiles, whatever its shape, with Pillow's default, which is bicubic."""
    image = image.resize((side * columns, side * rows), PIL.Image.BICUBIC)
    return [image.crop((side * c, side * r, side * (c + 1), side * (r + 1))) for r in range(rows) for c in range(columns)]


def shape_of(image, side, least, most):
    """Columns and rows of tiles whose ratio is next to the picture's; of several the one with more, if the picture has pixels for half."""
    best, far = None, float("inf")
    for columns, rows in sorted(((c, r) for c in range(1, most + 1) for r in range(1, most + 1) if least <= c * r <= most),
                                key=lambda shape: shape[0] * shape[1]):
        away = abs(image.width / image.height - columns / rows)
        if away < far or away == far and image.width * image.height > 0.5 * side * side * columns * rows:
            best, far = (columns, rows), away
    return best


class Nvila:
    """What a config of NVILA makes of pictures and films: tiles, then what the decoder reads of them."""
    def __init__(self, side, layer, mean, options, eyes, joint):
        self.side, self.layer, self.mean, self.options, self.eyes, self.joint = side, layer, mean, options, eyes, joint
        scales = [int(s) for s in options["s2_scales"].split(",")] if options.get("dynamic_s2") else []
        self.scales = [s // scales[0] for s in scales]

    def tiles(self, image, alone):
        """A list of tiles, and how many there are in each row and column of each scale."""
        ratio, most = self.options["image_aspect_ratio"], self.options.get("max_tiles")
        if not alone or ratio == "resize": return tiles_of(image, self.side, 1, 1), None
        if ratio == "dynamic":
            shape = shape_of(image, self.side, self.options["min_tiles"], most)
            tiles = tiles_of(image, self.side, *shape)
            return tiles + (tiles_of(image, self.side, 1, 1) if len(tiles) > 1 else []), None
        shapes = [(s, s) for s in self.scales[:-1]] + [shape_of(image, self.side, self.scales[-1] ** 2, most)]
        return sum([tiles_of(image, self.side, *shape) for shape in shapes], []), shapes

    def see(self, pixels):
        return self.eyes(torch.tensor(pixels).double(), output_hidden_states=True).hidden_states[self.layer]

    def features(self, pixels, shapes):
        """(tiles, n, D), or all tokens of all scales (1, n, D)."""
        x = self.see(pixels)
        if not shapes: return self.joint(torch.cat([x] * max(1, len(self.scales)), -1))
        P, at, grids = int(x.shape[1] ** 0.5), 0, []
        columns, rows = shapes[self.options.get("s2_resize_output_to_scale_idx", 0)]
        for c, r in shapes:
            tiles = x[at:at + c * r].reshape(r, c, P, P, -1)
            at += c * r
            picture = torch.cat([torch.cat(list(line), 1) for line in tiles], 0).permute(2, 0, 1)[None]
            grids.append(torch.nn.functional.interpolate(picture, size=(rows * P, columns * P), mode="area"))
        whole = torch.cat(grids, 1)[0].permute(1, 2, 0)
        parts = [whole[r * P:(r + 1) * P, c * P:(c + 1) * P].flatten(0, 1) for r in range(rows) for c in range(columns)]
        y = self.joint(torch.stack(parts))
        n = int(y.shape[1] ** 0.5)
        y = y.reshape(rows, columns, n, n, -1)
        return torch.cat([torch.cat(list(line), 1) for line in y], 0).flatten(0, 1)[None]

    def film(self, pixels):
        x = self.features(pixels, None)
        return x.reshape(-1, self.mean, *x.shape[1:]).mean(1)


def answer_nvila(model, llm, processor, where, seed):
    """What is answered about picture.ppm, alone; twice; and as a film of two pictures in answer-film.txt, where films are read."""
    shown = picture(50, 37, np.random.default_rng(seed + 1))
    with open(os.path.join(where, "picture.ppm"), "wb") as f:
        f.write(b"P6 50 37 255\n" + shown.tobytes())
    image, t, end = PIL.Image.fromarray(shown), NVILA_TOKENIZER, NVILA_TOKENIZER("\n").input_ids

    def pixels(tiles):
        return processor(tiles, return_tensors="np")["pixel_values"]
    tiles, shapes = model.tiles(image, True)
    alone = model.features(pixels(tiles), shapes)
    lines = "\n" if model.options["image_aspect_ratio"] == "dynamic" else ""
    one = tiles_of(image, model.side, 1, 1)
    asked = {"answer.txt": (("<image>" + lines) * len(alone), alone, 1),
             "answer-two.txt": ("<image><image>", model.features(pixels(one + one), None), 1)}
    if model.mean: asked["answer-film.txt"] = ("<vila/video>", model.film(pixels(one + one)), 2 // model.mean)
    for file, (marks, features, grids) in asked.items():
        words = t.apply_chat_template([{"role": "user", "content": marks + "what is this?"}], tokenize=False, add_generation_prompt=True)
        embedded, left = [], list(features)
        table = llm.get_input_embeddings()
        for token in t(words).input_ids:
            if token not in (IMAGE, VIDEO): embedded.append(table(torch.tensor([token])))
            else:
                for _ in range(grids): embedded += [left.pop(0), table(torch.tensor(end))]
        assert not left
        embedded, said = torch.cat(embedded), []
        while len(said) < 8:
            token = int(llm(inputs_embeds=embedded[None]).logits[0, -1].argmax())
            if token in (t.eos_token_id, t.convert_tokens_to_ids("<|im_end|>")): break
            said.append(token)
            embedded = torch.cat((embedded, table(torch.tensor([token]))))
        with open(os.path.join(where, file), "w") as f:
            f.write(t.decode(said, skip_special_tokens=True) + "\n")


def without_tokenizer_json(folder):
    """The files of Qwen2's slow tokenizer, which VILA saved at its release."""
    with open(os.path.join(folder, "tokenizer.json")) as f: whole = json.load(f)
    os.remove(os.path.join(folder, "tokenizer.json"))
    write_json(folder, "vocab.json", whole["model"]["vocab"])
    write_json(folder, "added_tokens.json", {token["content"]: token["id"] for token in whole["added_tokens"]})
    with open(os.path.join(folder, "merges.txt"), "w") as f:
        f.write("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in whole["model"]["merges"]))
    with open(os.path.join(folder, "tokenizer_config.json")) as f: config = json.load(f)
    write_json(folder, "tokenizer_config.json", dict(config, tokenizer_class="Qwen2Tokenizer"))


def nvila(name, where, golden):
    side, patch, layer, kind, mean, options = NVILA[name]
    seed = zlib.crc32(name.encode())
    torch.set_default_dtype(torch.float32)
    vision = transformers.SiglipVisionConfig(**tower(side, patch))
    # as in released models the marks of media stand behind the vocabulary, but for one
    vocabulary = VOCABULARY if name == "nvila" else IMAGE
    language = transformers.Qwen2Config(**{key: x for key, x in text("qwen2", vocab_size=vocabulary).items() if key != "model_type"})
    wide = 16 * len(options.get("s2_scales", "1").split(","))
    nets = [transformers.Qwen2ForCausalLM(language), transformers.SiglipVisionModel(vision), Joint(kind, wide, 16)]
    arrays = {}
    for number, (net, folder) in enumerate(zip(nets, ("llm", "vision_tower", "mm_projector"))):
        into = os.path.join(where, folder)
        os.makedirs(into, exist_ok=True)
        net.config = getattr(net, "config", vision)
        net.config._attn_implementation = "eager"
        random_weights(net, seed + number)
        net.to(torch.bfloat16)
        if number < 2: net.save_pretrained(into)
        before = "vision_model." if number == 1 and name == "nvila" else ""      # as earlier versions have it
        if number == 2 or before:
            save_file({before + key: x.contiguous() for key, x in net.state_dict().items()}, os.path.join(into, "model.safetensors"))
    write_json(where, "mm_projector/config.json", dict(mm_projector_type=kind, model_type="v2l_projector"))
    config = dict(architectures=["LlavaLlamaModel"], model_type="llava_llama", mm_vision_select_layer=layer,
                  mm_vision_select_feature="cls_patch", image_encoder={"_target_": "llava.model.encoders.BasicImageEncoder"}, **options)
    if mean:
        kinds = ["TSPVideoEncoder", "BasicVideoEncoder"]
        config["video_encoder"] = {"_target_": "llava.model.encoders." + kinds[mean == 1], "end_tokens": "\n"}
        if mean > 1: config["video_encoder"].update(pool_sizes=[[mean, 1, 1]], start_tokens=None, sep_tokens=None)
    write_json(where, "config.json", config)
    NVILA_TOKENIZER.chat_template = NVILA_CHAT
    NVILA_TOKENIZER.save_pretrained(os.path.join(where, "llm"))
    write_json(where, "llm/added_tokens.json", {"<image>": IMAGE, "<vila/video>": VIDEO})
    if name == "nvila-tiles": without_tokenizer_json(os.path.join(where, "llm"))
    processor = SiglipImageProcessorPil(size={"height": side, "width": side}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    processor.save_pretrained(os.path.join(where, "vision_tower"))
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256)).copy()
    values = processor.normalize(processor.rescale(levels, processor.rescale_factor), [0.5] * 3, [0.5] * 3)[:, 0]
    arrays["values"] = torch.tensor(values)
    random = np.random.default_rng(seed)
    torch.set_default_dtype(torch.float64)
    with Double(), torch.no_grad():
        llm = transformers.Qwen2ForCausalLM(language).eval()         # its angles are doubles now
        llm.load_state_dict(nets[0].state_dict())
        llm, eyes, joint = [net.double() for net in [llm] + nets[1:]]
        model = Nvila(side, layer, mean, options, eyes, joint)
        answer_nvila(model, llm, processor, where, seed)
        questions = list(GOLDEN_QUESTIONS if golden else QUESTIONS[:4]) + ([[], [(33, 8)]] if mean else [])
        for n, sizes in enumerate(questions):
            of = [picture(w, h, random) for w, h in sizes]
            with_film = mean and n >= len(questions) - 2
            ids, levels, features = [2], [], []
            for p in of:
                tiles, shapes = model.tiles(PIL.Image.fromarray(p), len(of) == 1)
                pixels = processor(tiles, return_tensors="np")["pixel_values"]
                levels.append(levels_of(pixels, values))
                y = model.features(pixels, shapes)
                features.append(y.flatten(0, 1))
                # a line's end follows each, and of tiles another one
                more = [5, 5] if options["image_aspect_ratio"] == "dynamic" and len(of) == 1 else [5]
                for tile in y: ids += [IMAGE] * len(tile) + more
            if with_film:
                count, w, h = FRAMES
                frames = [picture(w, h, random) for _ in range(count)]
                pixels = processor([tiles_of(PIL.Image.fromarray(p), side, 1, 1)[0] for p in frames], return_tensors="np")["pixel_values"]
                y = model.film(pixels)
                for frame in y: ids += [VIDEO] * len(frame) + [5]
                levels.append(levels_of(pixels, values))
                features.append(y.flatten(0, 1))
                arrays[f"n{n}.frames"] = torch.tensor(np.stack(frames))
            ids, features = torch.tensor(ids + [7, 9, 11]), torch.cat(features)
            media = (ids == IMAGE) | (ids == VIDEO)
            embedded = llm.get_input_embeddings()(ids.masked_fill(media, 0))
            embedded[media] = features
            logits = llm(inputs_embeds=embedded[None]).logits[0]
            at = torch.tensor([0, len(ids) // 2, len(ids) - 1], dtype=torch.int32)
            arrays.update({f"n{n}.ids": ids.to(torch.int32), f"n{n}.places": at, f"n{n}.logits": logits[at.long()],
                           f"n{n}.levels": torch.tensor(np.concatenate(levels)), f"n{n}.features": features})
            arrays.update({f"n{n}.picture{k}": torch.tensor(p) for k, p in enumerate(of)})
    torch.set_default_dtype(torch.float32)
    save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))


def write_json(folder, name, content):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(content, f, indent=2)


def write_answer(net, processor, where, seed):
    """What is answered, greedily, until it ends or eight tokens are there."""
    shown = picture(50, 37, np.random.default_rng(seed + 1))
    with open(os.path.join(where, "picture.ppm"), "wb") as f:
        f.write(b"P6 50 37 255\n" + shown.tobytes())
    words = TOKENIZER.apply_chat_template([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is this?"}]}],
                                          tokenize=False, add_generation_prompt=True)
    given = dict(processor(text=[words], images=[[PIL.Image.fromarray(shown)]], return_tensors="pt"))
    del given["attention_mask"]
    given["pixel_values"] = given["pixel_values"].double()
    said = []
    ends = {TOKENIZER.eos_token_id, TOKENIZER.convert_tokens_to_ids("<|im_end|>")}
    while len(said) < 8:
        token = int(net(**given).logits[0, -1].argmax())
        if token == IMAGE: return                # which transformers would want a picture for
        if token in ends: break
        said.append(token)
        given["input_ids"] = torch.cat((given["input_ids"], torch.tensor([[token]])), 1)
    with open(os.path.join(where, "answer.txt"), "w") as f:
        f.write(TOKENIZER.decode(said, skip_special_tokens=True) + "\n")


def main(folder, golden):
    written = 0
    for name, (kind, options, pictures, tokens) in MODELS.items():
        if golden and name not in GOLDEN: continue
        seed = zlib.crc32(name.encode())
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        torch.set_default_dtype(torch.float32)
        settings = getattr(transformers, kind + "Config")(**options)
        settings._attn_implementation = "eager"
        model = getattr(transformers, kind + "ForConditionalGeneration")
        net = model(settings).eval()
        random_weights(net, seed)
        net = net.to(torch.bfloat16)
        net.save_pretrained(where)
        processor = processor_of(kind, pictures, tokens, options.get("vision_aspect_ratio"))
        TOKENIZER.chat_template = LLAVA_CHAT if kind == "LlavaOnevision" else IDEFICS3_CHAT
        TOKENIZER.save_pretrained(where)
        processor.image_processor.save_pretrained(where)
        torch.set_default_dtype(torch.float64)
        with Double(), torch.no_grad():
            wide = model(settings).eval()
            wide.load_state_dict(net.state_dict())
            wide = wide.double()
            for module in wide.modules():
                if isinstance(module, (modeling_smolvlm.SmolVLMVisionEmbeddings, modeling_idefics3.Idefics3VisionEmbeddings)):
                    places_in_float(module)
            arrays = answers(wide, processor, GOLDEN_QUESTIONS if golden else QUESTIONS, seed)
            write_answer(wide, processor, where, seed)
        torch.set_default_dtype(torch.float32)
        save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))
        for other in os.listdir(where):
            os.chmod(os.path.join(where, other), 0o644)
        written += 1
    for name in GOLDEN_NVILA if golden else NVILA:
        nvila(name, os.path.join(folder, name), golden)
        written += 1
    print(f"{written} vision-language models of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{written} passed, 0 failed, 0 skipped")


arguments = [a for a in sys.argv[1:] if a != "--golden"]
if len(arguments) != 1:
    sys.exit("usage: python3 tests/vlm_cases.py [--golden] DIR")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
main(arguments[0], "--golden" in sys.argv)
