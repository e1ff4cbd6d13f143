"""PyTorch's half of tests/compare.py: computes and times a case of demos/studies/bench.c.

Lines of JSON come in, {"case": NAME, "file": FILE, "seconds": S}, and one goes out for each. FILE is what
`build/bench --only '^NAME$' --save FILE` wrote: inputs, weights, and what the library makes of them. A case has
several ways in PyTorch, such as chunks of several sizes. Each is compared with the library, and the fastest is then
timed. seconds 0: they are only compared.

    python3 tests/pytorch_bench.py [--threads N] [--compile]        as tests/compare.py starts it
    python3 tests/pytorch_bench.py --peak NAME FILE                 MiB that the case takes, in this process alone
"""
import argparse, gc, json, math, mmap, re, resource, statistics, struct, sys, time

import torch
from torch.nn import functional as F

import pytorch_modules as modules

TORCH = {"F32": torch.float32, "I32": torch.int32}


class Case:
    """A saved case. Tensors are read when they are asked for."""

    def __init__(self, name, path):
        self.name, self.back = name, name.endswith(".bwd")
        with open(path, "rb") as f:
            self.file = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.begin = 8 + struct.unpack("<Q", self.file[:8])[0]
        self.entries = json.loads(self.file[8:self.begin])
        self.entries.pop("__metadata__", None)

    def tensor(self, name):
        e = self.entries[name]
        begin, end = (self.begin + at for at in e["data_offsets"])
        return torch.frombuffer(bytearray(self.file[begin:end]), dtype=TORCH[e["dtype"]]).view(e["shape"])

    def shape(self, name):
        return self.entries[name]["shape"]

    def all(self, kind):
        """The tensors of a kind by what stands behind it: of "weight" those named weight.NAME."""
        kind += "."
        return {n[len(kind):]: self.tensor(n) for n in self.entries if n.startswith(kind)}


# ---- cases: how each is computed. A maker takes a case and returns its ways, {name: () -> function of the inputs} ----

CHUNKS = 32, 64, 128, 256


def linear(case):
    if case.back:
        return {"F.linear": lambda: F.linear, "oneDNN": lambda: modules.OneDNN.apply}

    def packed():
        weight = torch.ops.mkldnn._reorder_linear_weight(case.tensor("in.1"), case.shape("in.0")[0])
        return lambda x, _, bias: modules.onednn(x, weight, bias)
    return {"F.linear": lambda: F.linear, "oneDNN": lambda: modules.onednn, "oneDNN, weight packed": packed}


def attention(case):
    causal = "_causal" in case.name
    ways = {"sdpa": lambda: lambda q, k, v: modules.attention(q, k, v, causal)}
    if not causal:
        ways["products"] = lambda: modules.attention_by_products
    return ways


def windows(case):
    shift = (8, 2, 2) if "_shift" in case.name else (0, 0, 0)
    return {"sdpa": lambda: modules.WindowAttention((16, 16, 16), (16, 4, 4), shift)}


def linear_attention(case):
    if "_full" in case.name:
        return {"products": lambda: modules.linear_attention}
    return {f"chunks of {Q}": lambda Q=Q: lambda q, k, v: modules.causal_linear_attention(q, k, v, Q)
            for Q in CHUNKS}


def ssd(case):
    return {f"chunks of {Q}": lambda Q=Q: lambda x, dt, A, B, C: modules.ssd(x, dt, dt * A, B, C, Q)
            for Q in CHUNKS}


def step(case):
    n, _, H, P = case.shape("in.0")

    def make():
        state = torch.zeros(n, H, P, case.shape("in.3")[3])
        return lambda *parts: modules.ssd_step(state, *parts)
    return {"in place": make}


def selective(_):
    return {"loop over time": lambda: modules.selective_scan}


def selective_step(case):
    n, _, D, _ = case.shape("in.0")

    def make():
        state = torch.zeros(n, D, case.shape("in.2")[1])
        return lambda *parts: modules.selective_step(state, *parts)
    return {"in place": make}


def convolution(_):
    return {"conv2d": lambda: modules.causal_conv, "conv1d": lambda: modules.causal_conv_1d,
            "taps": lambda: modules.causal_conv_taps}


def gated_norm(_):
    return {"rms_norm": lambda: modules.gated_norm_op, "by hand": lambda: modules.gated_norm}


def layer_norm(_):
    return {"layer_norm": lambda: lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-6)}


def cross_entropy(case):
    classes = case.tensor("in.classes").long()
    return {"cross_entropy": lambda: lambda x: F.cross_entropy(x, classes)}


def soft_cross_entropy(_):
    return {"cross_entropy": lambda: F.cross_entropy,
            "by hand": lambda: lambda x, p: -(p * F.log_softmax(x, -1)).sum(-1).mean()}


def backbone(case, Q):
    """The network that the names and shapes of the weights say it is."""
    weights = case.all("weight")
    dim, _, _, patch = weights["patch_embed.proj.weight"].shape
    stored = weights["pos_embed"].shape[1]
    depth = 1 + max(int(n.split(".")[1]) for n in weights if re.match(r"(blocks|layers)\.", n))
    if "norm_f.weight" in weights:
        net = modules.DinoVim(dim, depth, patch, stored, Q)
    else:
        scaled = "blocks.0.ls1.gamma" in weights
        net = modules.ViT(dim, depth, dim // 64, patch, stored, "linearvit" in case.name, scaled)
    net.load_state_dict(weights)
    return net


def vision(case):
    make = lambda: backbone(case, 256).eval()
    return {"eager": make, "oneDNN": lambda: modules.by_onednn(make())}


def dino(case):
    def networks():
        weights = case.all("head")
        K, bottleneck = weights["last_layer.weight_v"].shape
        hidden, dim = weights["mlp.0.weight"].shape
        head = modules.Head(dim, hidden, bottleneck, K)
        head.load_state_dict(weights)
        return torch.nn.ModuleList([backbone(case, 256), head])
    make = lambda: modules.DinoStep(networks)
    return {"eager": make, "oneDNN": lambda: modules.DinoStep(lambda: modules.by_onednn(networks()))}


# frames of the span, its sides, and the text before it, for as many tokens
SPANS = {4096: ((14, 16, 16), 256), 16384: ((56, 16, 16), 1024), 65536: ((56, 32, 32), 4096)}


def decoder(case):
    _, L, dim = case.shape("in.0")
    ffn = case.shape("weight.up_proj.weight")[0]

    def make(Q):
        if case.name.startswith("mmate"):
            grid, start = SPANS[L]
            net = modules.MMate(dim, 8, ffn, L, start, grid, (14, 4, 4), Q)
        else:
            net = modules.AttentionDecoder(dim, 8, ffn)
        net.load_state_dict(case.all("weight"))
        return modules.by_onednn(net.eval())
    if not case.name.startswith("mmate"):
        return {"oneDNN": lambda: make(0)}
    return {f"oneDNN, chunks of {Q}": lambda Q=Q: make(Q) for Q in (64, 128)}


# a case's name begins with …; the group it counts in; its maker
CASES = (
    ("gemm_", "products", linear),
    ("attn_", "softmax attention", attention),
    ("attn3d_", "attention in windows", windows),
    ("linattn_", "linear attention", linear_attention),
    ("ssd_", "SSD", ssd),
    ("ssdstep_", "SSD, one token", step),
    ("selective_", "selective scan", selective),
    ("selectivestep_", "selective scan, one token", selective_step),
    ("conv1d_silu_", "rows and elements", convolution),
    ("gated_rmsnorm_", "rows and elements", gated_norm),
    ("layernorm_", "rows and elements", layer_norm),
    ("gelu_", "rows and elements", lambda _: {"gelu": lambda: F.gelu}),
    ("softmax_", "rows and elements", lambda _: {"softmax": lambda: lambda x: x.softmax(-1)}),
    ("xent_soft_", "rows and elements", soft_cross_entropy),
    ("xent_", "rows and elements", cross_entropy),
    ("vit_", "backbones", vision),
    ("linearvit_", "backbones", vision),
    ("dinovim_", "backbones", vision),
    ("dinov2_", "backbones", vision),
    ("dino_train_", "DINO steps", dino),
    ("mmate_", "layers of decoders", decoder),
    ("decoder_attn_", "layers of decoders", decoder),
)


def group_and_maker(name):
    for begin, group, maker in CASES:
        if name.startswith(begin):
            return group, maker
    raise ValueError(f"tests/pytorch_bench.py does not know the case {name}")


# ---- a case at work ----

class Work:
    """One way of a case: its inputs, what is timed, what comes out."""

    def __init__(self, case, make):
        self.case, self.run = case, make()
        self.inputs = [t for n, t in case.all("in").items() if n != "classes"]
        self.learns = [i for i in range(len(self.inputs)) if f"grad.{i}" in case.entries]
        for i in self.learns:
            self.inputs[i].requires_grad_(True)
        self.trains = case.name.startswith("dino_train")
        self.upstream = case.tensor("upstream.0") if "upstream.0" in case.entries else None
        self.inner = 1

    def gradients(self, y):
        return torch.autograd.grad(y, [self.inputs[i] for i in self.learns], self.upstream)

    def outputs(self):
        """What the library saved under the same names."""
        if self.trains:
            return dict(zip(("out.loss", "out.gradient_norm"), self.run(*self.inputs)))
        if not self.case.back:
            with torch.no_grad():
                return {"out.y": self.run(*self.inputs)}
        y = self.run(*self.inputs)
        return {"out.y": y, **{f"grad.{i}": g for i, g in zip(self.learns, self.gradients(y))}}

    def seconds(self):
        """Of one run; of a backward pass without the forward before it."""
        if self.case.back:
            y = self.run(*self.inputs)
            start = time.perf_counter()
            self.gradients(y)
            return time.perf_counter() - start
        with torch.set_grad_enabled(self.trains):
            start = time.perf_counter()
            for _ in range(self.inner):
                self.run(*self.inputs)
            return (time.perf_counter() - start) / self.inner

    def measure(self, seconds, least=3):
        """Times of runs, after runs that only warm up."""
        before, now = math.inf, self.seconds()
        for _ in range(6):
            if now > 5 * seconds or now > 0.8 * before:
                break
            before, now = now, self.seconds()
        if not self.case.back and now < 1e-4:
            self.inner = max(1, int(2e-4 / now))
        times, start = [], time.perf_counter()
        while len(times) < 20000:
            spent = time.perf_counter() - start
            if times and spent > (seconds if len(times) >= least else 5 * seconds):
                break
            times.append(self.seconds())
        return times


def difference(case, outputs):
    """The largest of max |a - b| / max |b| over all outputs, a PyTorch's and b the library's."""
    worst = 0.0
    for name in case.entries:
        if not name.startswith(("out.", "grad.")):
            continue
        ours, theirs = case.tensor(name), outputs[name].detach()
        if ours.numel() != theirs.numel():
            return math.inf
        apart = (theirs.reshape(ours.shape).double() - ours.double()).abs().max()
        e = (apart / ours.double().abs().max()).item()
        worst = max(worst, math.inf if math.isnan(e) else e)
    return worst


class Server:
    """Answers one case after another, and keeps the last one with its fastest way."""

    def __init__(self, compiles):
        self.compiles, self.name, self.work, self.answer = compiles, None, None, None

    def ways(self, case):
        ways = group_and_maker(case.name)[1](case)
        if self.compiles and not case.name.startswith("dino_train"):
            for name, make in list(ways.items()):
                ways[f"{name}, compiled"] = lambda make=make: torch.compile(make(), dynamic=False)
        return ways

    def open(self, case, seconds):
        """Compares all ways with the library; keeps the fastest."""
        self.name, self.work, fastest, worst = case.name, None, math.inf, 0.0
        for way, make in self.ways(case).items():
            gc.collect()
            work = Work(case, make)
            worst = max(worst, difference(case, work.outputs()))
            if seconds > 0:
                time_of = min(work.measure(0.3 * seconds, 2))
                if time_of < fastest:
                    fastest, self.work, kept = time_of, work, way
        self.answer = {"case": case.name, "group": group_and_maker(case.name)[0], "difference": worst}
        if self.work:
            self.answer["way"] = kept

    def serve(self, request):
        if request["case"] != self.name:
            self.work = None
            gc.collect()
            self.open(Case(request["case"], request["file"]), request["seconds"])
        if request["seconds"] > 0:
            times = self.work.measure(request["seconds"])
            self.answer.update(ms=1000 * statistics.median(times), ms_min=1000 * min(times), reps=len(times))
        return self.answer


def peak(name, path):
    """MiB that two runs of the case's first way take above the process before it, with weights and inputs."""
    resident = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    before, case = resident(), Case(name, path)
    work = Work(case, next(iter(group_and_maker(name)[1](case).values())))
    for _ in range(2):
        work.seconds()
    return {"case": name, "peak_mb": resident() - before, "idle_mb": before}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--compile", action="store_true")
    arguments.add_argument("--peak", nargs=2)
    a = arguments.parse_args()
    torch.set_flush_denormal(True)                   # before the threads begin, which inherit it
    torch.set_num_threads(a.threads)
    if a.peak:
        print(json.dumps(peak(*a.peak)))
        return
    print(json.dumps({"torch": torch.__version__}), flush=True)
    server = Server(a.compile)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = server.serve(request)
        except Exception as why:                     # of whatever kind: the other cases go on
            server.name = None
            answer = {"case": request["case"], "error": f"{type(why).__name__}: {why}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
