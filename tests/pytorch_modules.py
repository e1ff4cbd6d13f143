"""What tests/compare.py times in PyTorch, where PyTorch has no op of its own: SSD and causal linear attention in chunks,
attention in windows, the backbones, one layer of a decoder with M-MATE or attention, a DINO step. In plain PyTorch,
float32, for CPUs.

Shapes: tokens (B, L, D), heads (B, L, H, N). Parameters have the library's names, which are the checkpoints', so that
load_state_dict takes what `build/bench --save` wrote. tests/compare.py checks each against the library's outputs and
gradients.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


# ---- state-space duality (Mamba-2), in chunks of Q tokens ----
# h_t = e^(a_t) h_{t-1} + dt_t b_t x_tᵀ,  y_t = h_tᵀ c_t,  for each head. Inside a chunk this is a matrix,
# F_ij (c_i · b_j) dt_j with F_ij = e^(a_{j+1} + … + a_i) for i ≥ j; from chunk to chunk the state h (N, P) is handed
# on.

def later(Q):
    """(Q, Q), true where j is later than i."""
    return torch.ones(Q, Q, dtype=torch.bool).triu_(1)


class HandOn(torch.autograd.Function):
    """The state before each chunk, h_{c+1} = fade_c h_c + new_c with h_0 = 0; axis 1 counts the chunks."""

    @staticmethod
    def forward(ctx, new, fade):
        h = torch.empty_like(new)
        h[:, 0] = 0
        before, gain, rate = h.unbind(1), new.unbind(1), fade.unbind(1)
        for c in range(len(before) - 1):
            torch.addcmul(gain[c], rate[c], before[c], out=before[c + 1])
        ctx.save_for_backward(h, fade)
        return h

    @staticmethod
    def backward(ctx, dh):
        h, fade = ctx.saved_tensors
        dnew = torch.empty_like(h)
        dnew[:, -1] = 0
        down, out, rate = dnew.unbind(1), dh.unbind(1), fade.unbind(1)
        for c in range(len(out) - 1, 0, -1):
            torch.addcmul(out[c], rate[c], down[c], out=down[c - 1])
        axes = [i for i in range(h.dim()) if fade.shape[i] < h.shape[i]]
        return dnew, (dnew * h).sum(axes, keepdim=True)


def pad_tokens(t, n):
    """n zeros behind the tokens, axis 1."""
    return F.pad(t, (0, 0) * (t.dim() - 2) + (0, n)) if n else t


def ssd(x, dt, a, B, C, Q):
    """y (B, L, H, P) of x (B, L, H, P), dt and a = dt A (B, L, H), B and C (B, L, G, N), G = 1 or H."""
    n, L, H, P = x.shape
    Q = min(Q, L)
    x, dt, a, B, C = (pad_tokens(t, -L % Q) for t in (x, dt, a, B, C))
    c, G, N = x.shape[1] // Q, B.shape[2], B.shape[3]
    total = a.view(n, c, Q, H).cumsum(2)                                  # a_1 + … + a_i in the chunk
    rows = total.transpose(2, 3)
    fade = (rows.unsqueeze(-1) - rows.unsqueeze(-2)).masked_fill(later(Q), -math.inf).exp()
    xdt = x.view(n, c, Q, H, P) * dt.view(n, c, Q, H, 1)
    B, C = (t.view(n, c, Q, G, N).transpose(2, 3) for t in (B, C))        # (n, c, G, Q, N)
    y = (fade * (C @ B.mT)) @ xdt.transpose(2, 3)                         # (n, c, H, Q, P)
    if c == 1:
        return y[:, 0].transpose(1, 2)[:, :L]
    last = total[:, :, -1:]
    kept = xdt * (last - total).exp().unsqueeze(-1)                       # what is left of it at the chunk's end
    if G == 1:
        new = (B[:, :, 0].mT @ kept.flatten(3)).view(n, c, N, H, P)
        h = HandOn.apply(new, last.exp().view(n, c, 1, H, 1))
        read = (C[:, :, 0] @ h.flatten(3)).view(n, c, Q, H, P)
    else:
        h = HandOn.apply(B.mT @ kept.transpose(2, 3), last.exp().view(n, c, H, 1, 1))
        read = (C @ h).transpose(2, 3)
    y = y.transpose(2, 3) + read * total.exp().unsqueeze(-1)
    return y.reshape(n, c * Q, H, P)[:, :L]


def ssd_step(h, x, dt, A, B, C):
    """One token: h (B, H, P, N) is changed in place; x (B, 1, H, P), dt (B, 1, H), B and C (B, 1, 1, N)."""
    n, H, P, N = h.shape
    dt, x = dt.view(n, H, 1, 1), x.view(n, H, P, 1)
    h.mul_((dt * A.view(H, 1, 1)).exp()).addcmul_(x * dt, B.view(n, 1, 1, N))
    return (h.view(n, H * P, N) @ C.view(n, N, 1)).view(n, 1, H, P)


# ---- Mamba-1's selective scan ----

def selective_scan(x, dt, A, B, C):
    """A loop over time: y (B, L, D, 1) of x (B, L, D, 1), dt (B, L, D), A (D, N), B and C (B, L, 1, N)."""
    dt = dt.unsqueeze(-1)
    fade, new = (dt * A).exp().unbind(1), (dt * x * B).unbind(1)            # (B, D, N) a token
    h, states = torch.zeros_like(new[0]), []
    for e, u in zip(fade, new):
        h = torch.addcmul(u, e, h)
        states.append(h)
    return torch.stack(states, 1) @ C.mT


def selective_step(h, x, dt, A, B, C):
    """One token: h (B, D, N) is changed in place; x (B, 1, D, 1), dt (B, 1, D), B and C (B, 1, 1, N)."""
    dt = dt[:, 0].unsqueeze(-1)
    h.mul_((dt * A).exp()).addcmul_(x[:, 0] * dt, B[:, 0])
    return (h @ C[:, 0].mT).unsqueeze(1)


# ---- linear attention: softmax over the features of q and of k, no scale, no normalizer ----

def linear_attention(q, k, v):
    q, k, v = (t.transpose(1, 2) for t in (q.softmax(-1), k.softmax(-1), v))
    return (q @ (k.mT @ v)).transpose(1, 2)


def causal_linear_attention(q, k, v, Q):
    """SSD without decay: the states before the chunks are running sums."""
    n, L, H, N = q.shape
    q, k, v = (pad_tokens(t, -L % Q) for t in (q.softmax(-1), k.softmax(-1), v))
    q, k, v = (t.unflatten(1, (-1, Q)).permute(0, 3, 1, 2, 4) for t in (q, k, v))    # (n, H, c, Q, N)
    new = k.mT @ v
    y = (q @ k.mT).masked_fill(later(Q), 0.0) @ v + q @ (new.cumsum(2) - new)
    return y.permute(0, 2, 3, 1, 4).flatten(1, 2)[:, :L]


# ---- softmax attention ----

def attention(q, k, v, causal=False):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def attention_by_products(q, k, v):
    """With all scores in memory: the faster backward for few tokens."""
    q, k, v = (t.transpose(1, 2) for t in (q * q.shape[-1] ** -0.5, k, v))
    return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2)


def runs_of_windows(size, window, shift):
    """An axis cut at `shift` plus multiples of `window`: (begin, end, window) of each run of equal windows."""
    cuts = [0] + [i for i in range(1, size) if (i - shift) % window == 0] + [size]
    runs = []
    for begin, end in zip(cuts, cuts[1:]):
        if runs and runs[-1][2] == end - begin:
            runs[-1] = (runs[-1][0], end, end - begin)
        else:
            runs.append((begin, end, end - begin))
    return runs


class WindowAttention:
    """Attention inside the windows of a grid (T, Y, X). Equal windows are one batch, and the smaller ones at the border
    are batches of their own, so that nothing is computed to be masked."""

    def __init__(self, grid, window, shift):
        t, y, x = (runs_of_windows(*axis) for axis in zip(grid, window, shift))
        self.grid, self.parts = grid, [(i, j, k) for i in t for j in y for k in x]

    @staticmethod
    def windows(z, t, y, x):
        """(B, T, Y, X, H, N) as (windows, H, tokens, N)."""
        z = z.unflatten(3, (-1, x)).unflatten(2, (-1, y)).unflatten(1, (-1, t))
        return z.permute(0, 1, 3, 5, 7, 2, 4, 6, 8).flatten(5, 7).flatten(0, 3)

    @staticmethod
    def grid_of(z, shape, t, y, x):
        """The way back."""
        B, T, Y, X, H, N = shape
        z = z.view(B, T // t, Y // y, X // x, H, t, y, x, N).permute(0, 1, 5, 2, 6, 3, 7, 4, 8)
        return z.reshape(shape)

    def __call__(self, q, k, v):
        q, k, v = (z.unflatten(1, self.grid) for z in (q, k, v))
        out = torch.empty_like(v) if len(self.parts) > 1 else None
        for (t0, t1, t), (y0, y1, y), (x0, x1, x) in self.parts:
            cut = [z[:, t0:t1, y0:y1, x0:x1] for z in (q, k, v)]
            o = F.scaled_dot_product_attention(*(self.windows(z, t, y, x) for z in cut))
            o = self.grid_of(o, cut[2].shape, t, y, x)
            if out is None:
                return o.flatten(1, 3)
            out[:, t0:t1, y0:y1, x0:x1] = o
        return out.flatten(1, 3)


# ---- convolution, norm ----

def causal_conv(x, weight, bias):
    """SiLU of the depthwise convolution over past tokens: x (B, L, D), weight (D, 1, W). The tokens are a picture of
    height 1 with channels last, which spares the transposes of conv1d."""
    past = F.pad(x, (0, 0, weight.shape[2] - 1, 0)).unsqueeze(1).permute(0, 3, 1, 2)
    y = F.conv2d(past, weight.unsqueeze(2), bias, groups=len(weight))
    return F.silu(y).permute(0, 2, 3, 1).squeeze(1)


def causal_conv_1d(x, weight, bias):
    y = F.conv1d(x.mT, weight, bias, padding=weight.shape[2] - 1, groups=len(weight))
    return F.silu(y[..., :x.shape[1]]).mT


def causal_conv_taps(x, weight, bias):
    past = F.pad(x, (0, 0, weight.shape[2] - 1, 0))
    return F.silu(bias + sum(w * past[:, i:i + x.shape[1]] for i, w in enumerate(weight[:, 0].mT)))


def gated_norm(x, z, weight):
    """RMSNorm(x SiLU(z)) weight."""
    x = x * F.silu(z)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight


def gated_norm_op(x, z, weight):
    return F.rms_norm(x * F.silu(z), weight.shape, weight, 1e-5)


# ---- linear layers by oneDNN in place of the BLAS that torch was built with ----

def onednn(x, weight, bias):
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class OneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return onednn(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        rows = dy.flatten(0, -2)
        dx = onednn(dy, weight.t(), None) if ctx.needs_input_grad[0] else None
        dweight = onednn(rows.t(), x.flatten(0, -2).t(), None)
        return dx, dweight, rows.sum(0) if ctx.has_bias else None


class OneDNNLinear(nn.Linear):
    def forward(self, x):
        return OneDNN.apply(x, self.weight, self.bias)


def by_onednn(model):
    """The model, whose linear layers go through oneDNN from now on."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDNNLinear
    return model


# ---- backbones: ViT, LinearViT, DINOv2's ViT; DinoVim ----

class PatchEmbed(nn.Module):
    """Patches as rows of one product."""

    def __init__(self, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)

    def forward(self, image):
        p = self.proj.kernel_size[0]
        rows = image.unflatten(3, (-1, p)).unflatten(2, (-1, p)).permute(0, 2, 4, 1, 3, 5)
        return F.linear(rows.flatten(3).flatten(1, 2), self.proj.weight.flatten(1), self.proj.bias)


def positions(stored, side):
    """Of 1 + g x g stored positions those of 1 + side x side tokens. As in DINO 0.1 is added to the side."""
    g = math.isqrt(stored.shape[1] - 1)
    if g == side:
        return stored
    grid = stored[:, 1:].unflatten(1, (g, g)).permute(0, 3, 1, 2)
    scale = (side + 0.1) / g
    grid = F.interpolate(grid, scale_factor=(scale, scale), mode="bicubic")
    return torch.cat([stored[:, :1], grid.flatten(2).mT], 1)


class Scale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, dim, heads, linear):
        super().__init__()
        self.heads, self.mix = heads, linear_attention if linear else attention
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).unbind(2)
        return self.proj(self.mix(q, k, v).flatten(2))


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, linear, scaled):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), Attention(dim, heads, linear)
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=1e-6), MLP(dim)
        self.ls1, self.ls2 = (Scale(dim) if scaled else nn.Identity() for _ in range(2))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, dim, depth, heads, patch, stored, linear=False, scaled=False):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, stored, dim))
        self.patch_embed = PatchEmbed(dim, patch)
        self.blocks = nn.ModuleList(Block(dim, heads, linear, scaled) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, image):
        x = self.patch_embed(image)
        at = positions(self.pos_embed, math.isqrt(x.shape[1]))
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + at
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])


class Conv(nn.Module):
    def __init__(self, dim, width=4):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(dim, 1, width)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return causal_conv(x, self.weight, self.bias)


class Mamba2(nn.Module):
    """Both directions, which share the first and the last projection, as the two halves of one batch."""

    def __init__(self, dim, Q, N=64, P=64):
        super().__init__()
        self.inner, self.N, self.H, self.Q = 2 * dim, N, 2 * dim // P, Q
        wide = self.inner + 2 * N
        self.in_proj = nn.Linear(dim, self.inner + wide + self.H, bias=False)
        self.out_proj = nn.Linear(self.inner, dim, bias=False)
        self.conv1d, self.conv1d_b = Conv(wide), Conv(wide)
        self.norm, self.norm_b = nn.RMSNorm(self.inner, eps=1e-5), nn.RMSNorm(self.inner, eps=1e-5)
        for name in "dt_bias", "A_log", "D", "dt_b_bias", "A_log_b", "D_b":
            self.register_parameter(name, nn.Parameter(torch.zeros(self.H)))

    def forward(self, u):
        n = len(u)
        z, xBC, dt = self.in_proj(u).split([self.inner, self.inner + 2 * self.N, self.H], -1)
        xBC = torch.cat([self.conv1d(xBC.contiguous()), self.conv1d_b(xBC.flip(1))])
        dt = torch.cat([F.softplus(dt + self.dt_bias), F.softplus(dt.flip(1) + self.dt_b_bias)])
        both = lambda a, b: torch.stack([a, b]).repeat_interleave(n, 0).unsqueeze(1)      # (2n, 1, H)
        a = dt * -both(self.A_log, self.A_log_b).exp()
        x, B, C = xBC.split([self.inner, self.N, self.N], -1)
        x = x.unflatten(2, (self.H, -1))
        y = ssd(x, dt, a, B.unsqueeze(2).contiguous(), C.unsqueeze(2).contiguous(), self.Q)
        y = (y + both(self.D, self.D_b).unsqueeze(-1) * x).flatten(2)
        forth = gated_norm(y[:n], z, self.norm.weight)
        back = gated_norm(y[n:], z.flip(1), self.norm_b.weight).flip(1)
        return self.out_proj((forth + back) / 2)


class Layer(nn.Module):
    def __init__(self, dim, Q):
        super().__init__()
        self.mixer, self.norm = Mamba2(dim, Q), nn.RMSNorm(dim, eps=1e-5)


class DinoVim(nn.Module):
    """The class token stands in front and, without a position, in the middle, where it is read."""

    def __init__(self, dim, depth, patch, stored, Q):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, stored, dim))
        self.patch_embed = PatchEmbed(dim, patch)
        self.layers = nn.ModuleList(Layer(dim, Q) for _ in range(depth))
        self.norm_f = nn.RMSNorm(dim, eps=1e-5)

    def forward(self, image):
        x = self.patch_embed(image)
        middle, token = (x.shape[1] + 1) // 2, self.cls_token.expand(len(x), -1, -1)
        x = torch.cat([token, x], 1) + positions(self.pos_embed, math.isqrt(x.shape[1]))
        x = torch.cat([x[:, :middle], token, x[:, middle:]], 1)
        residual = 0
        for layer in self.layers:
            residual = residual + x
            x = layer.mixer(layer.norm(residual))
        return self.norm_f((residual + x)[:, middle])


# ---- one step of DINO ----

class Head(nn.Module):
    def __init__(self, dim, hidden, bottleneck, K):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, bottleneck)
        )
        self.last_layer = nn.ParameterDict(
            {"weight_g": torch.ones(K, 1), "weight_v": torch.zeros(K, bottleneck)}
        )

    def forward(self, x):
        weight = F.normalize(self.last_layer["weight_v"], dim=-1) * self.last_layer["weight_g"]
        return F.linear(F.normalize(self.mlp(x), dim=-1), weight)


class DinoStep:
    """Two global and some local crops, crop after crop; loss, backward, clipping of each tensor, AdamW, the teacher's
    moving average, the center. `networks` makes a backbone and its head with the weights of the case."""

    def __init__(self, networks):
        self.student, self.teacher = networks(), networks().requires_grad_(False)
        self.student[1].last_layer["weight_g"].requires_grad_(False)
        self.weights = [p for p in self.student.parameters() if p.requires_grad]
        self.pairs = list(self.teacher.parameters()), [p.detach() for p in self.student.parameters()]
        groups = [{"params": [p for p in self.weights if p.dim() > 1], "weight_decay": 0.04},
                  {"params": [p for p in self.weights if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, fused=True)
        self.center = torch.zeros(1, len(self.student[1].last_layer["weight_g"]))

    def loss(self, views, said, taught):
        """The mean over the teacher's views t and the student's other views s of -Σ softmax(t) log softmax(s): the sum
        over s is that of all views less the view itself."""
        said = F.log_softmax(said / 0.1, -1).chunk(views)
        taught = ((taught - self.center) / 0.04).softmax(-1).chunk(2)
        total = sum(said[1:], said[0])
        loss = sum(-(t * (total - s)).sum(-1).mean() for t, s in zip(taught, said))
        return loss / (2 * (views - 1))

    def __call__(self, crops, small):
        """The loss, and the norm of all gradients before they are clipped."""
        (backbone, head), (old_backbone, old_head) = self.student, self.teacher
        with torch.no_grad():
            taught = old_head(old_backbone(crops))
        said = head(torch.cat([backbone(crops), backbone(small)]))
        loss = self.loss(2 + 2 * len(small) // len(crops), said, taught)
        loss.backward()
        gradients = [p.grad for p in self.weights]
        norms = torch._foreach_norm(gradients)
        torch._foreach_mul_(gradients, [(3 / (n + 1e-6)).clamp(max=1.0) for n in norms])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            self.center.mul_(0.9).add_(taught.mean(0, keepdim=True), alpha=0.1)
            torch._foreach_lerp_(*self.pairs, 0.004)
        return loss.detach(), torch.stack(norms).norm()


# ---- one layer of a decoder over all tokens: x += mixer(norm x), x += SwiGLU(norm x) ----

def projections(module, dim):
    for name in "q_proj", "k_proj", "v_proj", "o_proj":
        setattr(module, name, nn.Linear(dim, dim, bias=False))


class Decoder(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))
        self.gate_proj, self.up_proj = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, dim, bias=False)

    def split(self, of, x):
        return (p(x).unflatten(2, (self.heads, -1)) for p in (of.q_proj, of.k_proj, of.v_proj))

    def forward(self, x):
        x = x + self.mix(F.rms_norm(x, self.norm1.shape, self.norm1, 1e-6))
        u = F.rms_norm(x, self.norm2.shape, self.norm2, 1e-6)
        return x + self.down_proj(F.silu(self.gate_proj(u)) * self.up_proj(u))


class AttentionDecoder(Decoder):
    def __init__(self, dim, heads, ffn):
        super().__init__(dim, heads, ffn)
        projections(self, dim)

    def mix(self, x):
        return self.o_proj(attention(*self.split(self, x), causal=True).flatten(2))


class Flex(nn.Module):
    """The parameters of Flex-MA: SSD with C = q, B = k, X = v."""

    def __init__(self, dim, heads):
        super().__init__()
        projections(self, dim)
        self.dt_proj, self.gate = nn.Linear(dim, heads, bias=False), nn.Linear(dim, heads)
        self.dt_bias, self.A_log = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.zeros(heads))


class MMate(Decoder):
    """M-MATE = Flex-MA + Local-Swin; text before and after one span of T x Y x X tokens, which the scans visit with time
    innermost. The span's tokens are scanned backwards, too, and a gate joins the two scans."""

    def __init__(self, dim, heads, ffn, tokens, start, grid, window, Q):
        super().__init__(dim, heads, ffn)
        self.flex, self.swin, self.Q = Flex(dim, heads), nn.Module(), Q
        projections(self.swin, dim)
        self.span = slice(start, start + math.prod(grid))
        self.windows = WindowAttention(grid, window, (0, 0, 0))
        order = torch.arange(tokens)
        order[self.span] = order[self.span].view(grid).permute(1, 2, 0).flatten()
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("inverse", order.argsort(), persistent=False)

    def flex_ma(self, x):
        f, span = self.flex, self.span
        x = x[:, self.order]
        C, B, X = self.split(f, x)
        dt = F.softplus(f.dt_proj(x) + f.dt_bias)
        parts = X, dt, dt * -f.A_log.exp(), B, C
        y = ssd(*parts, self.Q)
        back = ssd(*(t[:, span].flip(1) for t in parts), self.Q).flip(1)
        gate = f.gate(x[:, span]).sigmoid().unsqueeze(-1)
        y[:, span] = torch.lerp(back, y[:, span], gate)
        return f.o_proj(y.flatten(2))[:, self.inverse]

    def mix(self, x):
        y = self.flex_ma(x)
        seen = self.windows(*self.split(self.swin, x[:, self.span]))
        y[:, self.span] += self.swin.o_proj(seen.flatten(2))
        return y
