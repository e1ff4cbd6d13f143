"""Writes what tests/vqa.sh learns from: a ViT of random weights, 64 wide, of patches of 4 x 4, and questions about
pictures of one colour.

    python3 tests/tiny_vqa.py FOLDER
"""
import json
import os
import random
import struct
import sys
import zlib

folder = sys.argv[1]
D, P, GRID = 64, 4, 2
random.seed(0)


def safetensors(path, shapes):
    head, data = {}, b""
    for name, shape in shapes.items():
        count = 1
        for n in shape:
            count *= n
        level = 1.0 if name.endswith(("norm1.weight", "norm2.weight")) or name == "norm.weight" else 0.0
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack("<%df" % count, *(level + random.gauss(0, 0.2) for _ in range(count)))
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def png(path, colour, side=16):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    row = b"\0" + bytes(colour) * side
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b""))


os.makedirs(folder, exist_ok=True)
block = {"norm1.weight": [D], "norm1.bias": [D], "attn.qkv.weight": [3 * D, D], "attn.qkv.bias": [3 * D],
         "attn.proj.weight": [D, D], "attn.proj.bias": [D], "norm2.weight": [D], "norm2.bias": [D],
         "mlp.fc1.weight": [4 * D, D], "mlp.fc1.bias": [4 * D], "mlp.fc2.weight": [D, 4 * D], "mlp.fc2.bias": [D]}
shapes = {"cls_token": [1, 1, D], "pos_embed": [1, 1 + GRID * GRID, D], "patch_embed.proj.weight": [D, 3, P, P],
          "patch_embed.proj.bias": [D]}
shapes.update({"blocks.0." + name: shape for name, shape in block.items()})
shapes.update({"norm.weight": [D], "norm.bias": [D]})
safetensors(os.path.join(folder, "vision.safetensors"), shapes)

colours = {"red": (220, 20, 20), "blue": (20, 20, 220)}
for part, count in (("train", 24), ("test", 12)):
    images = os.path.join(folder, part, "images")
    os.makedirs(images, exist_ok=True)
    questions = []
    for i in range(count):
        name = random.choice(sorted(colours))
        png(os.path.join(images, "%d.png" % i), colours[name])
        questions.append(["what colour?", name[0], i])
        asked = random.choice(sorted(colours))
        questions.append(["is it %s?" % asked, "y" if asked == name else "n", i])
    with open(os.path.join(folder, part, "questions.json"), "w") as file:
        json.dump(questions, file)
