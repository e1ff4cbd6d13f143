"""Writes the vision-language models of tests/golden as the two GGUFs that llama.cpp's converter would make of them.

    python3 tests/vlm_gguf.py FOLDER...         tests/golden/vlm/smolvlm, tests/golden/qwen/qwen2, …

Into each folder go decoder.gguf, tower.gguf and, but for Qwen2.5-VL's, tower-old.gguf, as older programs wrote it, which tests/vlm.c opens beside the folder itself. Names of arrays are
those of the package gguf (PyPI: gguf), which is llama.cpp's own: TensorNameMap. Matrices of bf16 stay so, the rest is float. In
llama.cpp a tile is as large as the tower's pictures, so tests/golden/vlm/idefics3, which has smaller ones, has no such files.
"""
import json, os, sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

TYPES = gguf.GGMLQuantizationType
old = False


def add(writer, name, x):
    """As the converter: matrices keep their type, vectors become float; patches and positions are float, too."""
    if old:                                          # as programs before it called the two matrices of an MLP
        name = name.replace("ffn_up", "ffn_?").replace("ffn_down", "ffn_up").replace("ffn_?", "ffn_down")
    if x.dtype != torch.bfloat16 or x.ndim < 2 or "embd" in name and name.startswith("v."):
        writer.add_tensor(name, x.float().contiguous().numpy())
    else:
        writer.add_tensor(name, x.contiguous().view(torch.uint8).numpy(), raw_dtype=TYPES.BF16)


def permuted(x, heads):
    """Pairs of rotary positions side by side, as of a Llama."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).transpose(1, 2).reshape(x.shape)


def named(names, key):
    found = names.get_name(key, try_suffixes=(".weight", ".bias"))
    assert found, key
    return found


def split(arrays):
    """The language half under Llama's names, and the rest."""
    decoder, tower = {}, {}
    for key, x in arrays.items():
        bare = key.removeprefix("model.")
        for part in ("text_model.", "language_model."):
            bare = bare.removeprefix(part)
        if bare.startswith(("layers.", "embed_tokens.", "norm.")):
            decoder["model." + bare] = x
        elif key.endswith("lm_head.weight"):
            decoder["lm_head.weight"] = x
        else:
            tower[key] = x
    return decoder, tower


def add_tokenizer(w, folder, count):
    """The folder's tokenizer, byte-level BPE, and its chat template, as the converter has them."""
    t = json.load(open(os.path.join(folder, "tokenizer.json")))
    tokens, kinds = [f"[PAD{i}]" for i in range(count)], [gguf.TokenType.UNUSED] * count
    for token, i in t["model"]["vocab"].items():
        tokens[i], kinds[i] = token, gguf.TokenType.NORMAL
    for token in t["added_tokens"]:
        tokens[token["id"]], kinds[token["id"]] = token["content"], gguf.TokenType.CONTROL
    settings = json.load(open(os.path.join(folder, "tokenizer_config.json")))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges([" ".join(pair) for pair in t["model"]["merges"]])
    w.add_eos_token_id(tokens.index(settings["eos_token"]))
    w.add_add_bos_token(False)
    w.add_chat_template(open(os.path.join(folder, "chat_template.jinja")).read())


def write_decoder(path, arrays, text, folder):
    is_llama = text.get("model_type") == "llama"
    arch = gguf.MODEL_ARCH.LLAMA if is_llama else gguf.MODEL_ARCH.QWEN2VL
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    w = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    w.add_block_count(text["num_hidden_layers"])
    w.add_context_length(text["max_position_embeddings"])
    w.add_embedding_length(text["hidden_size"])
    w.add_feed_forward_length(text["intermediate_size"])
    w.add_head_count(text["num_attention_heads"])
    w.add_head_count_kv(text["num_key_value_heads"])
    w.add_layer_norm_rms_eps(text["rms_norm_eps"])
    w.add_rope_freq_base(rope.get("rope_theta") or text.get("rope_theta") or 10000.0)
    if text.get("head_dim"):
        w.add_key_length(text["head_dim"])
    if not is_llama:
        w.add_rope_dimension_sections(list(rope["mrope_section"]) + [0])
    add_tokenizer(w, folder, text["vocab_size"])
    names = gguf.get_tensor_name_map(arch, text["num_hidden_layers"])
    for key, x in arrays.items():
        if is_llama and ".q_proj" in key:
            x = permuted(x, text["num_attention_heads"])
        if is_llama and ".k_proj" in key:
            x = permuted(x, text["num_key_value_heads"])
        add(w, named(names, key), x)
    return w


def vision_values(w, config, vision, pictures):
    text = config.get("text_config") or config
    w.add_clip_has_vision_encoder(True)
    w.add_vision_projection_dim(text["hidden_size"])
    w.add_vision_patch_size(vision["patch_size"])
    w.add_vision_block_count(vision.get("num_hidden_layers") or vision["depth"])
    w.add_vision_head_count(vision.get("num_attention_heads") or vision["num_heads"])
    w.add_vision_image_mean(pictures["image_mean"])
    w.add_vision_image_std(pictures["image_std"])


def write_idefics3(w, arrays, config, pictures):
    vision = config["vision_config"]
    vision_values(w, config, vision, pictures)
    w.add_clip_projector_type("idefics3")
    w.add_vision_image_size(vision["image_size"])
    w.add_vision_embedding_length(vision["hidden_size"])
    w.add_vision_feed_forward_length(vision["intermediate_size"])
    w.add_vision_attention_layernorm_eps(vision.get("layer_norm_eps", 1e-6))
    w.add_vision_projector_scale_factor(config["scale_factor"])
    w.add_vision_use_gelu(True)
    w.add_vision_preproc_image_size(pictures["size"]["longest_edge"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, vision["num_hidden_layers"])
    for key, x in arrays.items():
        add(w, named(names, key), x)


def write_qwen(w, arrays, config, pictures):
    vision = config["vision_config"]
    newer = config["model_type"] == "qwen2_5_vl"
    vision_values(w, config, vision, pictures)
    w.add_clip_projector_type("qwen2.5vl_merger" if newer else "qwen2vl_merger")
    w.add_vision_image_size(560)
    w.add_vision_embedding_length(vision["hidden_size"] if newer else vision["embed_dim"])
    # a Qwen2-VL's MLP is mlp_ratio x embed_dim wide, but the converter writes hidden_size, the decoder's width; surgery wrote 0
    w.add_vision_feed_forward_length(vision["intermediate_size"] if newer else 0 if old else vision["hidden_size"])
    w.add_vision_attention_layernorm_eps(1e-6)
    if old:                                          # what has to be there, says nothing, and is no parameter
        w.add_tensor("v.position_embd.weight", np.zeros([10, 10], np.float32))
    else:
        w.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    w.add_uint32("clip.vision.image_min_pixels", pictures["min_pixels"] if "min_pixels" in pictures else pictures["size"]["shortest_edge"])
    w.add_uint32("clip.vision.image_max_pixels", pictures["max_pixels"] if "max_pixels" in pictures else pictures["size"]["longest_edge"])
    if newer:
        w.add_vision_use_silu(True)
        w.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
        w.add_uint32("clip.vision.window_size", vision["window_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(vision["depth"], 3))
    for key, x in arrays.items():
        key = key.removeprefix("model.")
        if ".qkv." in key:
            for part, rows in zip("qkv", x.chunk(3)):
                add(w, named(names, key.replace("qkv", part)), rows)
        elif key == "visual.patch_embed.proj.weight":
            add(w, "v.patch_embd.weight", x[:, :, 0])
            add(w, "v.patch_embd.weight.1", x[:, :, 1])
        else:
            add(w, named(names, key), x)


def close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write(folder):
    def read(name):
        return json.load(open(os.path.join(folder, name)))
    config, pictures = read("config.json"), read("preprocessor_config.json")
    text = dict(config.get("text_config") or config)
    decoder, tower = split(load_file(os.path.join(folder, "model.safetensors")))
    is_qwen = config["model_type"].startswith("qwen")
    olds = config["model_type"] != "qwen2_5_vl"
    close(write_decoder(os.path.join(folder, "decoder.gguf"), decoder, text, folder))
    global old
    for old in (False, True)[:1 + olds]:
        w = gguf.GGUFWriter(os.path.join(folder, "tower-old.gguf" if old else "tower.gguf"), "clip")
        (write_qwen if is_qwen else write_idefics3)(w, tower, config, pictures)
        close(w)
    old = False


for folder in sys.argv[1:]:
    write(folder)
    print(folder, *(os.path.getsize(os.path.join(folder, name)) for name in ("decoder.gguf", "tower.gguf")))
