"""Random language models of every kind that the decoder opens, as transformers saves them, and what it computes with them.

    python3 tests/language_cases.py DIR              all of them
    python3 tests/language_cases.py DIR mamba …      those
    python3 tests/language_cases.py --golden tests/golden/language      small ones of a few kinds, gradients of two

build/language DIR (tests/language.c) reads the folder. Each model is a folder in DIR with model.safetensors and config.json in
float32; expected.safetensors in float64: tokens (B, L), logits (B, L, K), and loss, the mean cross-entropy of each token's next
one; gradient.safetensors in float64: the gradient of that loss, an array for each parameter, under the file's names; where
there is the package gguf, model.gguf in float32, with the names, values and changes of weights that llama.cpp's converter has.
The two models whose names end in -ssm lie in pytorch_model.bin, under state-spaces' names. What transformers computes in
float32 inside of a network is widened. Nothing is loaded from elsewhere. All take 20 MB.
"""
import json, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from safetensors import safe_open
    from transformers_double import Double, random_weights
except ImportError as missing:
    print(f"skipped: language models of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

try:
    import gguf
except ImportError:
    gguf = None

B, L, WORDS = 2, 37, 61


def sizes(**more):
    return dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=3, pad_token_id=None, bos_token_id=1, eos_token_id=2, **more)


def heads(**more):
    return sizes(num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=256, **more)


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


def hybrid(**more):
    """Bamba, Granite 4 and Falcon-H1 name Mamba-2's sizes alike."""
    return heads(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=12, mamba_chunk_size=16, **more)


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
MODELS = {
    "llama": ("Llama", heads(rms_norm_eps=1e-5)),
    "llama-linear": ("Llama", heads(**rope("linear", factor=2.5))),
    "llama-llama3": ("Llama", heads(head_dim=16, **rope("llama3", **LLAMA3))),
    "llama-yarn": ("Llama", heads(head_dim=16, **rope("yarn", factor=4.0, original_max_position_embeddings=16))),
    "llama-yarn-factor": ("Llama", heads(head_dim=16, **rope("yarn", factor=4.0, original_max_position_embeddings=16,
                                                             attention_factor=1.25, beta_fast=24.0, beta_slow=2.0))),
    "llama-biases": ("Llama", heads(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "mistral": ("Mistral", heads(sliding_window=None)),
    "qwen2": ("Qwen2", heads()),
    "qwen3": ("Qwen3", heads(head_dim=16, tie_word_embeddings=True)),
    "llama-3.1": ("Llama", heads(head_dim=16, **rope("llama3", **dict(LLAMA3, original_max_position_embeddings=8192)))),
    "smollm3": ("SmolLM3", dict(heads(), num_hidden_layers=5)),
    "smollm3-list": ("SmolLM3", heads(no_rope_layers=[1, 0, 1])),
    "granite": ("Granite", heads(embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
                                 attention_multiplier=0.1, tie_word_embeddings=True)),
    "mistral-window": ("Mistral", heads(sliding_window=7)),
    "qwen2-window": ("Qwen2", heads(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "smollm3-window": ("SmolLM3", heads(no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=6)),
    "gemma3": ("Gemma3Text", dict(heads(head_dim=16, sliding_window=8, query_pre_attn_scalar=16), num_hidden_layers=7)),
    "mamba": ("Mamba", sizes(state_size=8)),
    "mamba-biases": ("Mamba", sizes(state_size=5, use_bias=True, use_conv_bias=False, expand=3, time_step_rank=3,
                                    tie_word_embeddings=False)),
    "falcon-mamba": ("FalconMamba", sizes(state_size=8)),
    "mamba2": ("Mamba2", sizes(num_heads=8, head_dim=8, state_size=12, n_groups=1, chunk_size=16)),
    "mamba2-groups": ("Mamba2", sizes(num_heads=8, head_dim=8, state_size=12, n_groups=2, chunk_size=16, use_bias=True,
                                      conv_kernel=3, time_step_limit=(0.01, 0.5), tie_word_embeddings=True)),
    "bamba": ("Bamba", hybrid(attn_layer_indices=[1], head_dim=8)),
    "granite-hybrid": ("GraniteMoeHybrid", hybrid(
        num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40, position_embedding_type=None,
        layer_types=["mamba", "attention", "mamba"], embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
        attention_multiplier=0.1, tie_word_embeddings=True)),
    "granite-hybrid-rope": ("GraniteMoeHybrid", hybrid(
        num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40, position_embedding_type="rope",
        layer_types=["attention", "mamba", "attention"])),
    "falcon-h1": ("FalconH1", hybrid(
        mamba_d_ssm=64, mamba_rms_norm=False, lm_head_multiplier=0.04, embedding_multiplier=5.6, key_multiplier=0.3,
        attention_in_multiplier=0.7, attention_out_multiplier=0.9, ssm_in_multiplier=1.25, ssm_out_multiplier=0.23,
        ssm_multipliers=[0.35, 0.25, 0.18, 0.5, 0.35], mlp_multipliers=[0.88, 0.4])),
    "falcon-h1-norm": ("FalconH1", hybrid(
        mamba_d_ssm=64, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_n_groups=2, projectors_bias=False,
        attention_bias=True)),
    "mamba-ssm": ("Mamba", sizes(state_size=16)),
    "mamba2-ssm": ("Mamba2", sizes(num_heads=2, head_dim=32, state_size=12, n_groups=2, chunk_size=16, tie_word_embeddings=True)),
    "nemotron-h": ("NemotronH", heads(
        layers_block_type=["mamba", "mlp", "attention"], head_dim=8, mamba_num_heads=8, mamba_head_dim=8, ssm_state_size=12,
        n_groups=2, chunk_size=16)),
}


def answers(net, seed):
    random = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(WORDS, (B, L), generator=random)
    logits = net(tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
    loss.backward()
    arrays = {"tokens": tokens.to(torch.int32), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    return arrays


# ---- other files of the same models ----

SSM = {"mamba-ssm": {}, "mamba2-ssm": dict(layer="Mamba2", d_state=12, headdim=32, ngroups=2)}


# one model of each way to name and mix, without those that differ in a factor alone
GOLDEN = ["llama-llama3", "llama-yarn", "llama-yarn-factor", "llama-biases", "mistral-window", "qwen3", "smollm3", "gemma3", "mamba", "falcon-mamba", "mamba2-groups", "bamba", "granite-hybrid",
          "falcon-h1", "nemotron-h", "mamba2-ssm"]


def golden(folder):
    """The models in fewer numbers: half as wide, two sequences of 13 tokens, 23 words."""
    global L, WORDS
    L, WORDS = 13, 23
    for name in GOLDEN:
        kind, options = MODELS[name]
        options.update(vocab_size=WORDS, hidden_size=16)
        for key in ("intermediate_size", "shared_intermediate_size", "state_size", "mamba_d_state", "ssm_state_size"):
            if key in options:
                options[key] = options[key] // 2
        for key in ("num_heads", "mamba_n_heads", "mamba_num_heads"):
            if key in options:
                options[key] = options[key] // 2
        if "mamba_d_ssm" in options:
            options["mamba_d_ssm"] = 32
        if name in SSM:
            options.update(num_heads=2, head_dim=16)
            SSM[name].update(headdim=16, d_state=6)
        if options.get("head_dim") == 16 and kind != "Mamba2":
            options["head_dim"] = 8
        if "query_pre_attn_scalar" in options:
            options["query_pre_attn_scalar"] = 8
    write(folder, GOLDEN)
    for name in GOLDEN:
        kept = ["model.safetensors", "pytorch_model.bin", "model.gguf", "config.json", "expected.safetensors"]
        if name in ("falcon-h1", "nemotron-h"):
            kept.append("gradient.safetensors")
        for other in os.listdir(os.path.join(folder, name)):
            os.chmod(os.path.join(folder, name, other), 0o644)
            if other not in kept:
                os.remove(os.path.join(folder, name, other))


def state_spaces(where, net, cfg):
    """The files of state-spaces/mamba: other names, and the classifier beside the embedding that it is."""
    arrays = {key.replace("embeddings", "embedding"): p.detach().clone() for key, p in net.named_parameters()}
    arrays["lm_head.weight"] = arrays["backbone.embedding.weight"].clone()
    torch.save(arrays, os.path.join(where, "pytorch_model.bin"))
    config = dict(d_model=net.config.hidden_size, n_layer=3, vocab_size=WORDS - 4, ssm_cfg=cfg, rms_norm=True, residual_in_fp32=True,
                  fused_add_norm=True, pad_vocab_size_multiple=8)
    with open(os.path.join(where, "config.json"), "w") as f:
        json.dump(config, f)
    os.remove(os.path.join(where, "model.safetensors"))


GGUF = {
    "model.embed_tokens": "token_embd", "backbone.embeddings": "token_embd", "model.embeddings": "token_embd",
    "model.norm_f": "output_norm", "backbone.norm_f": "output_norm", "model.final_layernorm": "output_norm",
    "model.norm": "output_norm", "lm_head": "output", "model.layers.": "blk.", "backbone.layers.": "blk.",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "pre_ff_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v", "mixer.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
    "shared_mlp.output_linear": "ffn_down", "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down",
    "in_proj": "ssm_in", "conv1d": "ssm_conv1d", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "dt_bias": "ssm_dt.bias",
    "A_log": "ssm_a", ".D": ".ssm_d", "mamba.norm": "ssm_norm", "mixer.norm": "ssm_norm", "out_proj": "ssm_out",
    ".norm.": ".attn_norm.", "mamba.": "", "mixer.": ""}
ARCHITECTURES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "smollm3": "smollm3", "granite": "granite", "mamba": "mamba",
    "falcon_mamba": "mamba", "mamba2": "mamba2", "bamba": "granitehybrid", "granitemoehybrid": "granitehybrid",
    "falcon_h1": "falcon-h1", "nemotron_h": "nemotron_h", "mistral": "llama", "gemma3_text": "gemma3"}
PERMUTED = ("llama", "smollm3", "granite", "granitehybrid", "nemotron_h")      # pairs of rotary positions side by side
# what GGUF has no words for; of Bamba, half of whose heads turn, the converter pairs rows that do not turn together
NOT_IN_GGUF = ("llama-llama3", "smollm3-list", "smollm3-window", "qwen2-window", "mamba2-groups", "mamba-biases", "bamba")


def gguf_name(key, c):
    if c.model_type == "gemma3_text":
        key = key.replace("post_attention_layernorm", "post_attention_norm")
        key = key.replace("pre_feedforward_layernorm", "ffn_norm")
    if c.model_type == "falcon_h1":                  # without .weight
        key = key.replace("pre_ff_layernorm.weight", "ffn_norm")
    for theirs, ours in GGUF.items():
        key = key.replace(theirs, ours)
    return key


def gguf_values(w, architecture, c):
    """What llama.cpp reads beside the arrays."""
    get = lambda name, otherwise=None: getattr(c, name, otherwise)
    rope = get("rope_parameters") or {}
    kinds = get("layers_block_type") or get("layer_types") or []
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(256)
    w.add_embedding_length(c.hidden_size)
    w.add_vocab_size(c.vocab_size)
    if architecture == "nemotron_h":
        w.add_layer_norm_eps(c.layer_norm_epsilon)
    else:
        w.add_layer_norm_rms_eps(get("rms_norm_eps", get("layer_norm_epsilon")))
    w.add_feed_forward_length(get("intermediate_size", 0) if "mamba" not in architecture else 0)
    if get("shared_intermediate_size"):
        w.add_expert_count(0)
        w.add_expert_used_count(0)
        w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)
    w.add_head_count(get("num_attention_heads", 0))
    if get("num_attention_heads") and "qwen" not in architecture and "falcon" not in architecture:
        w.add_rope_dimension_count(get("head_dim") or c.hidden_size // c.num_attention_heads)
    if get("num_key_value_heads"):
        w.add_head_count_kv(c.num_key_value_heads)
    if get("head_dim") and architecture != "mamba2":
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
    if get("sliding_window") and c.model_type in ("mistral", "gemma3_text"):
        w.add_sliding_window(c.sliding_window)
    if c.model_type == "gemma3_text":
        w.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    elif rope:
        w.add_rope_freq_base(rope["rope_theta"])
    if rope.get("rope_type") == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "attention_factor" in rope:
            w.add_rope_scaling_yarn_attn_factor(rope["attention_factor"])
            w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if "granite" in architecture:
        w.add_embedding_scale(get("embedding_multiplier", 1.0))
        w.add_residual_scale(get("residual_multiplier", 1.0))
        w.add_logit_scale(get("logits_scaling", 1.0))
        if get("attention_multiplier"):
            w.add_attention_scale(c.attention_multiplier)
    if architecture == "mamba":
        w.add_ssm_inner_size(c.intermediate_size)
        w.add_ssm_state_size(c.state_size)
        w.add_ssm_conv_kernel(c.conv_kernel)
        w.add_ssm_time_step_rank(c.time_step_rank)
        w.add_ssm_dt_b_c_rms(c.model_type == "falcon_mamba")
    elif get("mamba_n_heads") or get("mamba_num_heads") or architecture == "mamba2":
        heads = get("mamba_n_heads") or get("mamba_num_heads") or c.num_heads
        w.add_ssm_inner_size(heads * (get("mamba_d_head") or get("mamba_head_dim") or c.head_dim))
        w.add_ssm_state_size(get("mamba_d_state") or get("ssm_state_size") or c.state_size)
        w.add_ssm_conv_kernel(get("mamba_d_conv") or c.conv_kernel)
        w.add_ssm_group_count(get("mamba_n_groups") or c.n_groups)
        w.add_ssm_time_step_rank(heads)
    if architecture in ("granitehybrid", "nemotron_h"):
        w.add_head_count_kv([c.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds])
    if architecture == "granitehybrid":
        w.add_rope_scaling_finetuned(c.position_embedding_type == "rope")
    if architecture == "nemotron_h":
        w.add_feed_forward_length([c.intermediate_size if kind == "mlp" else 0 for kind in kinds])


def gguf_array(key, x, architecture, c):
    """(key, array) as the converter makes them of one of transformers' arrays."""
    if key.endswith("A_log"):
        x = -x.exp()
    if "conv1d.weight" in key:
        x = x.squeeze(1)
    if architecture != "mamba" and (key.endswith("A_log") or key.endswith(".D")):
        x = x.reshape(-1, 1)
    if architecture != "mamba" and ("mamba.norm" in key or "mixer.norm" in key):
        x = x.reshape(getattr(c, "mamba_n_groups", None) or c.n_groups, -1)
    if architecture in PERMUTED and ("q_proj" in key or "k_proj" in key):
        width = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
        x = x.reshape(-1, 2, width // 2, *x.shape[1:]).transpose(1, 2).reshape(x.shape)
    if architecture == "falcon-h1":
        x = x * falcon_factor(key, c, x)
    if architecture == "gemma3" and "norm" in key:
        x = x + 1
    if "shared_mlp.input_linear" in key:
        return [(key.replace("shared_mlp.input_linear", "mlp." + part), half)
                for part, half in zip(("gate_proj", "up_proj"), x.chunk(2))]
    return [(key, x)]


def falcon_factor(key, c, x):
    """The converter multiplies Falcon-H1's factors into its weights."""
    factors = {"down_proj": c.mlp_multipliers[1], "gate_proj": c.mlp_multipliers[0], "q_proj": c.attention_in_multiplier,
               "k_proj": c.key_multiplier * c.attention_in_multiplier, "v_proj": c.attention_in_multiplier,
               "o_proj.weight": c.attention_out_multiplier, "out_proj": c.ssm_out_multiplier, "lm_head": c.lm_head_multiplier,
               "embed_tokens": c.embedding_multiplier}
    if "in_proj" in key:
        wide = [c.mamba_d_ssm, c.mamba_d_ssm] + 2 * [c.mamba_n_groups * c.mamba_d_state] + [c.mamba_n_heads]
        each = [torch.full((n, 1), f * c.ssm_in_multiplier) for n, f in zip(wide, c.ssm_multipliers)]
        return torch.cat(each)
    for part in ("out_proj", *factors):              # "o_proj" is not "out_proj"
        if "." + part in key or key.startswith(part):
            return factors[part]
    return 1.0


def write_gguf(path, net, name):
    c = net.config
    architecture = ARCHITECTURES.get(c.model_type)
    if gguf is None or architecture is None or name in SSM or name in NOT_IN_GGUF:
        return False
    w = gguf.GGUFWriter(path, architecture)
    gguf_values(w, architecture, c)
    if name == "llama-3.1":                          # what each pair's frequency is divided by
        turning = net.model.rotary_emb
        plain = 10000.0 ** -(torch.arange(0, c.head_dim, 2, dtype=torch.float64) / c.head_dim)
        w.add_tensor("rope_freqs.weight", (plain / turning.inv_freq.double()).float().numpy())
    for key, p in net.named_parameters():
        for part, x in gguf_array(key, p.detach().float(), architecture, c):
            w.add_tensor(gguf_name(part, c), x.contiguous().numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return True


def write(folder, names):
    written = skipped = 0
    for name in names:
        kind, options = MODELS[name]
        seed = zlib.crc32(name.encode())
        model = getattr(transformers, kind.replace("Text", "") + "ForCausalLM", None)
        config = getattr(transformers, kind + "Config", None)
        where = os.path.join(folder, name)
        os.makedirs(where, exist_ok=True)
        if model is None or config is None:
            print(f"skipped: {name} (transformers {transformers.__version__} has no {kind}ForCausalLM)")
            skipped += 1
            continue
        settings = config(**options)
        settings._attn_implementation = "eager"
        torch.set_default_dtype(torch.float32)
        net = model(settings).eval()
        random_weights(net, seed)
        net.save_pretrained(where)
        kept = [key for key in safe_open(os.path.join(where, "model.safetensors"), "pt").keys()]
        torch.set_default_dtype(torch.float64)
        with Double():
            wide = model(settings).eval()
            wide.load_state_dict(net.state_dict())
            wide = wide.double()
            arrays = answers(wide, seed)
        torch.set_default_dtype(torch.float32)
        gradients = {}
        for key, p in wide.named_parameters():
            if key not in kept:                      # Nemotron-H's file says backbone. for model.
                key = key.replace("model.", "backbone.", 1)
            gradients[key] = (torch.zeros_like(p) if p.grad is None else p.grad).contiguous()
        wrong = set(kept) ^ set(gradients)
        gradients = {key: x for key, x in gradients.items() if key in kept}
        with torch.no_grad():
            apart = float((net(arrays["tokens"].long()).logits - arrays["logits"]).abs().max())
        save_file({key: x.contiguous() for key, x in arrays.items()}, os.path.join(where, "expected.safetensors"))
        save_file(gradients, os.path.join(where, "gradient.safetensors"))
        also = " and GGUF" if write_gguf(os.path.join(where, "model.gguf"), net, name) else ""
        if name in SSM:
            state_spaces(where, net, SSM[name])
        written += 1
        print(f"{name:20} safetensors{also}; float32 and float64 are {apart:.1e} apart"
              + (f"; names in one of the two alone: {sorted(wrong)[:4]}" if wrong else ""), flush=True)
    print(f"{written} models of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{written} passed, 0 failed, {skipped} skipped")


if len(sys.argv) < 2:
    sys.exit("usage: python3 tests/language_cases.py DIR [MODEL…], or --golden DIR")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
if sys.argv[1] == "--golden":
    golden(sys.argv[2])
else:
    write(sys.argv[1], sys.argv[2:] or MODELS)
