"""A walk through mamba_mix.py: run it whole, or cell by cell (# %%) in an editor that knows such cells.

    python3 demos/python/mamba_mix_tour.py                                    figures to build/tour, where matplotlib is there
    python3 demos/python/mamba_mix_tour.py --vision model.safetensors --photo cat.jpg
    python3 demos/python/mamba_mix_tour.py --decoder stories260K.bin --tokenizer tok512.bin

It needs numpy and a C compiler; without matplotlib it prints the numbers that it would draw.
"""
# %% Beginning
import argparse, struct, time
from pathlib import Path

import numpy as np
import mamba_mix

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    plt = None
    print("matplotlib is not there: numbers alone\n")

options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
options.add_argument("--out", type=Path, default=Path("build/tour"), help="folder of the figures")
options.add_argument("--vision", help="weights of a backbone, e.g. DINOv2's .safetensors")
options.add_argument("--photo", help="a picture for it; needs matplotlib (PNG) or Pillow")
options.add_argument("--decoder", help="llama2.c's .bin")
options.add_argument("--tokenizer", help="its tok….bin")
given = options.parse_args()

m = mamba_mix.Context(seed=1)
print(m)
r = np.random.default_rng(1)


def save(figure, name):
    given.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.out / name, dpi=110, bbox_inches="tight")
    plt.close(figure)
    print("   figure:", given.out / name)


# %% Three mixers, one equation: Y = M X
# A sequence of 64 tokens: three tones, one after another. Queries and keys are the tokens themselves, so a token reads
# what is like it. SSD's decay e^(dt A) lets it forget what is long ago.
L, N = 64, 8
tone = np.repeat(np.eye(3, N), (20, 24, 20), axis=0) * 3 + r.normal(size=(L, N)) * .4
x = tone.reshape(1, L, 1, N)
mixers = {
    "softmax attention": m.softmax_attention(x, x, x),
    "softmax, causal": m.softmax_attention(x, x, x, mask="causal"),
    "linear attention": m.linear_attention(x, x, x, feature="elu1", normalize=True),
    "Mamba-2 SSD": m.ssd(x, np.full((1, L, 1), .15), [-1], x / 9, x),
}
print("\nY = M X. How far y is from M x, and what the last token reads of the first tone, the second and its own:")
for name, mixed in mixers.items():
    M = mixed.matrix()[0, 0]
    share = np.abs(M[-1]) / np.abs(M[-1]).sum()
    print(f"   {name:18} {np.abs(M @ x[0, :, 0] - mixed.y[0, :, 0]).max():.1e}   {share[:20].sum():.2f} {share[20:44].sum():.2f} {share[44:].sum():.2f}")
if plt:
    figure, axes = plt.subplots(2, 4, figsize=(13, 5), height_ratios=(3, 1), layout="constrained")
    for (name, mixed), above, below in zip(mixers.items(), *axes):
        above.imshow(mixed.matrix()[0, 0], cmap="magma", vmin=0)
        above.set_title(name)
        below.plot(mixed.rows([L - 1])[0, 0], color="black")
        below.set_xlabel("token")
    axes[0, 0].set_ylabel("M: row i is what y_i reads")
    axes[1, 0].set_ylabel("last row of M")
    save(figure, "matrices.png")

# %% Ranks: what makes linear time possible
# Off the diagonal a block of SSD's M has at most rank N, the width of the state, however large the block is: the state is
# all that passes from one chunk of tokens to the next. A softmax has no such bound but the block's size.
q, k, v = r.normal(size=(3, 1, 128, 1, 8))
print("\nRanks of the 32 x 32 blocks of M of 128 random tokens, N = 8 (row by row), and their bounds:")
for name, mixed in {"causal softmax": m.softmax_attention(q, k, v, mask="causal"),
                    "SSD": m.ssd(v, np.full((1, 128, 1), .05), [-1], k, q)}.items():
    ranks = mixed.ranks(32)
    for line, bound in zip(ranks.numerical[0, 0].astype(int), ranks.bound[0, 0].astype(int)):
        print(f"   {name:15}", " ".join(f"{n:3}" for n in line), "   at most", " ".join(f"{n:3}" for n in bound))
        name = ""

# %% Gradients: SSD learns to remember
# The task: after a mark, say again the number that stood with it, until the next mark. One head with state N = 2 learns dt's
# weights, A, B's and C's: backward gives the gradient of each argument, numpy does the rest (Adam is five lines).
L = 200


def marks(n):
    mark = r.random((n, L, 1)) < .05
    number = r.normal(size=(n, L, 1))
    at = np.maximum.accumulate(np.where(mark[..., 0], np.arange(L), 0), axis=1)
    held = np.take_along_axis(np.where(mark, number, 0)[..., 0], at, axis=1)
    return np.concatenate([mark, np.where(mark, number, 0), np.ones_like(number)], -1), held


w = {"dt": np.array([[0.], [0.], [-1.]]), "B": r.normal(size=(3, 2)) * .3, "C": r.normal(size=(3, 2)) * .3, "A": np.zeros(1),
     "x": np.array([[0.], [1.], [0.]])}
moment = {n: (np.zeros_like(a), np.zeros_like(a)) for n, a in w.items()}
losses = []
print("\nSSD learns to hold a number, mean square error:")
for step in range(400):
    u, target = marks(16)
    mixed = m.ssd((u @ w["x"])[..., None], u @ w["dt"], -np.exp(w["A"]), (u @ w["B"])[:, :, None], (u @ w["C"])[:, :, None],
                  dt_softplus=True)
    error = mixed.y[..., 0, 0] - target
    g = mixed.backward((2 * error / error.size)[..., None, None])
    through = lambda d: np.einsum("blf,blo->fo", u, d)               # of u @ w
    slope = {"x": through(g.x[..., 0]), "dt": through(g.dt), "B": through(g.B[:, :, 0]), "C": through(g.C[:, :, 0]),
             "A": g.A * -np.exp(w["A"])}
    for n, (mean, square) in moment.items():                         # Adam
        mean += .1 * (slope[n] - mean)
        square += .01 * (slope[n] ** 2 - square)
        w[n] -= .05 * mean / (1 - .9 ** (step + 1)) / (np.sqrt(square / (1 - .99 ** (step + 1))) + 1e-8)
    losses.append(np.mean(error ** 2))
    if step % 100 == 0 or step == 399:
        print(f"   step {step:3}: {losses[-1]:.3f}, of {np.mean(target ** 2):.2f} with no answer at all")
if plt:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 3), width_ratios=(1, 2))
    left.semilogy(losses, color="black")
    left.set(xlabel="step", ylabel="mean square error")
    right.plot(target[0], color="black", label="wanted")
    right.plot(mixed.y[0, :, 0, 0], color="tab:orange", linestyle="--", label="SSD's output")
    right.set_xlabel("token")
    right.legend()
    save(figure, "memory.png")

# %% Time
# M is never made: SSD's time grows with L, attention's with L squared.
print("\nMilliseconds forward and backward, 4 heads of 64 (the fastest of 3):")
lengths, took = (256, 1024, 4096), {}
for L in lengths:
    q, k, v = r.normal(size=(3, 1, L, 4, 64)).astype(np.float32)
    dt, A, dy = np.full((1, L, 4), .1, np.float32), -np.ones(4, np.float32), np.ones_like(v)
    for name, call in {"softmax, causal": lambda: m.softmax_attention(q, k, v, mask="causal"),
                       "linear, causal": lambda: m.linear_attention(q, k, v, causal=True),
                       "SSD": lambda: m.ssd(v, dt, A, k[:, :, :1] / 8, q[:, :, :1])}.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            call().backward(dy)
            times.append(time.perf_counter() - start)
        took.setdefault(name, []).append(min(times) * 1e3)
print("   L               ", *(f"{L:8}" for L in lengths))
for name, times in took.items():
    print(f"   {name:16}", *(f"{t:8.1f}" for t in times))
if plt:
    figure, axes = plt.subplots(figsize=(5, 3))
    for (name, times), mark in zip(took.items(), "os^"):
        axes.loglog(lengths, times, marker=mark, color="black", label=name)
    axes.set(xlabel="tokens", ylabel="milliseconds", xticks=lengths, xticklabels=lengths)
    axes.minorticks_off()
    axes.legend()
    save(figure, "time.png")

# %% What a network sees
# Features of a backbone as downloaded: where the patches differ (their first three principal components as colours), and
# what each head of the last block lets the class token read.
if not given.vision:
    print("\nskipped: features of a network (--vision model.safetensors --photo picture)")
else:
    if given.photo:
        try:
            from PIL import Image
            photo = np.asarray(Image.open(given.photo).convert("RGB"))
        except ImportError:
            photo = (plt.imread(given.photo)[..., :3] * 255).astype(np.uint8)
    else:                                        # two discs
        at = np.indices((256, 256))
        photo = np.full((256, 256, 3), 90, np.uint8)
        for (row, column), colour in (((100, 90), (230, 120, 60)), ((160, 180), (60, 120, 220))):
            photo[(at[0] - row) ** 2 + (at[1] - column) ** 2 < 45 ** 2] = colour
    with m.vision(given.vision) as net:
        image = m.image(photo, 16 * net.patch)
        f, heads, alike = net.features(image), net.attention(image), net.map(image)
    centred = f.patches[0] - f.patches[0].mean(0)
    components = (centred @ np.linalg.svd(centred, full_matrices=False)[2][:3].T).reshape(*f.grid, 3)
    components = (components - components.min((0, 1))) / np.ptp(components, axis=(0, 1))
    print(f"\n{given.vision}: {net.depth} blocks of {net.dim}, patches of {net.patch}; token {f.token.shape}, patches {f.patches.shape}")
    print(f"   {alike.how}\n   what each head's class token reads of its most read patch:", *(f"{h.max():.3f}" for h in heads[0]))
    if plt:
        shown = {"picture": np.clip(image[0].transpose(1, 2, 0) * (.229, .224, .225) + (.485, .456, .406), 0, 1), "patches, 3 components": components,
                 "like the class token": alike.map[0], **{f"head {i}": h for i, h in enumerate(heads[0])}}
        figure, axes = plt.subplots(1, len(shown), figsize=(2.2 * len(shown), 2.6))
        for axis, (name, picture) in zip(axes, shown.items()):
            axis.imshow(picture, cmap="magma")
            axis.set_title(name, fontsize=9)
            axis.axis("off")
        save(figure, "features.png")

# %% A decoder tells
# Tokens come one by one from a generator; Ctrl-C ends it after the token at hand. llama2.c's tokenizer in a few lines: the
# neighbours whose joined text has the highest score merge, again and again.
if not (given.decoder and given.tokenizer):
    print("\nskipped: a decoder's story (--decoder stories260K.bin --tokenizer tok512.bin)")
else:
    data, at, pieces, score = Path(given.tokenizer).read_bytes(), 4, [], []
    while at < len(data):
        s, n = struct.unpack_from("<fi", data, at)
        pieces.append(data[at + 8:at + 8 + n])
        score.append(s)
        at += 8 + n
    number = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    tokens = [number[bytes([c])] for c in b" Once upon a time"]
    while True:
        pairs = [(score[number[pieces[a] + pieces[b]]], -i) for i, (a, b) in enumerate(zip(tokens, tokens[1:])) if pieces[a] + pieces[b] in number]
        if not pairs:
            break
        i = -max(pairs)[1]
        tokens[i:i + 2] = [number[pieces[tokens[i]] + pieces[tokens[i + 1]]]]
    print("\n   Once upon a time", end="")
    start, made = time.perf_counter(), 0
    with m.decoder(given.decoder) as tells:
        for token in tells.stream([1, *tokens], 120, temperature=.8, top_p=.9, stop=1):
            piece = pieces[token]
            text = bytes([int(piece[3:5], 16)]) if piece.startswith(b"<0x") else piece
            print(text.decode(errors="replace").replace("\n", "\n   "), end="", flush=True)
            made += 1
    print(f"\n   {made} tokens, {made / (time.perf_counter() - start):.0f} a second")

# %% The end
# What was made by m is closed with it; arrays stay.
m.close()
try:
    m.rms_norm(x)
except mamba_mix.Error as error:
    print(f"\nafter m.close(): {error}")
