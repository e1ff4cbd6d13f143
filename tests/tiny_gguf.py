"""Writes a Llama of random weights as a GGUF: 32 wide, two heads, 40 tokens.

    python3 tests/tiny_gguf.py PATH [LAYERS [WIDE [chat]]]     (1 layer, weights of deviation 0.2)

With `chat` its tokens are the 256 bytes and ChatML's two marks.
"""
import random
import struct
import sys

D, F, K = 32, 64, 40
path = sys.argv[1]
layers = int(sys.argv[2]) if len(sys.argv) > 2 else 1
wide = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(key, n):
    return text("llama." + key) + struct.pack("<II", 4, n)


def tokenizer():
    """The values of a tokenizer of bytes, each written as GPT-2 writes it."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in plain]
    tokens = [chr(b) if b in plain else chr(256 + rest.index(b)) for b in range(256)] + ["<|im_start|>", "<|im_end|>"]
    template = "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    key = "tokenizer.ggml."
    return [text(key + "model") + struct.pack("<I", 8) + text("gpt2"), text(key + "pre") + struct.pack("<I", 8) + text("gpt-2"),
            text(key + "tokens") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(text, tokens)),
            text(key + "token_type") + struct.pack("<IIQ", 9, 5, len(tokens)) + struct.pack("<258i", *[1] * 256, 3, 3),
            text(key + "eos_token_id") + struct.pack("<II", 4, 257),
            text("tokenizer.chat_template") + struct.pack("<I", 8) + text(template)]


values = [text("general.architecture") + struct.pack("<I", 8) + text("llama"), value("embedding_length", D),
          value("block_count", layers), value("feed_forward_length", F), value("attention.head_count", 2),
          text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
if len(sys.argv) > 4:
    K = 258
    values += tokenizer()
shapes = {"token_embd.weight": (K, D), "output_norm.weight": (D,)}
for layer in range(layers):
    for name, shape in dict(attn_norm=(D,), ffn_norm=(D,), attn_q=(D, D), attn_k=(D, D), attn_v=(D, D), attn_output=(D, D),
                            ffn_gate=(F, D), ffn_up=(F, D), ffn_down=(D, F)).items():
        shapes["blk.%d.%s.weight" % (layer, name)] = shape
random.seed(0)
head, data = b"", b""
for name, shape in shapes.items():
    head += text(name) + struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *shape[::-1])
    head += struct.pack("<IQ", 0, len(data))
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    data += struct.pack("<%df" % count, *(1 if len(shape) == 1 else random.gauss(0, wide) for _ in range(count)))
    data += bytes(-len(data) % 32)
whole = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values)) + b"".join(values) + head
with open(path, "wb") as file:
    file.write(whole + bytes(-len(whole) % 32) + data)
