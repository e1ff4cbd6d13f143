"""Random language models of every kind that the decoder opens, as transformers saves them, and what it computes with them.

    python3 tests/language_cases.py DIR              all of them
    python3 tests/language_cases.py DIR mamba …      those

build/language DIR (tests/language.c) reads the folder. Each model is a folder in DIR with model.safetensors and config.json in
float32; expected.safetensors in float64: tokens (B, L), logits (B, L, K), steps (B, n, K), the logits of the last n tokens
read one by one from the cache after the others, and loss, the mean cross-entropy of each token's next one; gradient.safetensors
in float64: the gradient of that loss, an array for each parameter, under the file's names. What transformers computes in
float32 inside of a network is widened. Nothing is loaded from elsewhere. All take 30 MB.
"""
import inspect, os, sys, zlib

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from safetensors.torch import save_file
    from safetensors import safe_open
    from torch.overrides import TorchFunctionMode
except ImportError as missing:
    print(f"skipped: language models of transformers, which this Python does not have whole ({missing})")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

B, L, STEPS, WORDS = 2, 37, 3, 61


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
    "smollm3": ("SmolLM3", heads(no_rope_layers=[1, 0, 1])),
    "granite": ("Granite", heads(embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
                                 attention_multiplier=0.1, tie_word_embeddings=True)),
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
    "nemotron-h": ("NemotronH", heads(
        layers_block_type=["mamba", "mlp", "attention"], head_dim=8, mamba_num_heads=8, mamba_head_dim=8, ssm_state_size=12,
        n_groups=2, chunk_size=16)),
}


class Double(TorchFunctionMode):
    """Whatever asks for float32 gets float64."""
    def __torch_function__(self, func, types, args=(), kwargs=None):
        def wide(x):
            return torch.float64 if x is torch.float32 else x
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{key: wide(x) for key, x in (kwargs or {}).items()})


def random_weights(net, seed):
    """Everything is to be seen in the output: norms and biases far from 1 and 0, steps and rates as Mamba's."""
    random = torch.Generator().manual_seed(seed)
    for name, p in net.named_parameters():
        values = torch.randn(p.shape, generator=random, dtype=torch.float32)
        if "A_log" in name:
            values = torch.rand(p.shape, generator=random) * 2
        elif "dt_proj.bias" in name or "dt_bias" in name:
            values = values * 0.7 - 2
        elif "norm" in name or name.endswith(".D"):
            values = values * 0.3 + 1
        elif p.ndim > 1:
            values = values / (p[0].numel() ** 0.5)
        else:
            values = values * 0.3
        with torch.no_grad():
            p.copy_(values)


def answers(net, seed):
    random = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(WORDS, (B, L), generator=random)
    logits = net(tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
    loss.backward()
    arrays = {"tokens": tokens.to(torch.int32), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    takes = inspect.signature(net.forward).parameters
    kind = [name for name in ("cache", "past_key_values", "cache_params") if name in takes][0]
    with torch.no_grad():
        seen = net(tokens[:, : L - STEPS], use_cache=True)
        rows = []
        for t in range(L - STEPS, L):
            cache = getattr(seen, kind)
            seen = net(tokens[:, t : t + 1], use_cache=True, **{kind: cache})
            rows.append(seen.logits[:, -1])
        arrays["steps"] = torch.stack(rows, 1)
    return arrays


def write(folder, names):
    written = skipped = 0
    for name in names:
        kind, options = MODELS[name]
        seed = zlib.crc32(name.encode())
        model, config = getattr(transformers, kind + "ForCausalLM", None), getattr(transformers, kind + "Config", None)
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
        written += 1
        print(f"{name:20} float32 and float64 are {apart:.1e} apart"
              + (f"; names in one of the two alone: {sorted(wrong)[:4]}" if wrong else ""), flush=True)
    print(f"{written} models of transformers {transformers.__version__}, torch {torch.__version__}, in {folder}")
    print(f"{written} passed, 0 failed, {skipped} skipped")


if len(sys.argv) < 2:
    sys.exit("usage: python3 tests/language_cases.py DIR [MODEL…]")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
write(sys.argv[1], sys.argv[2:] or MODELS)
