"""What tests/language_cases.py and tests/towers_cases.py share: float64 throughout, and random weights."""
import torch
from torch.overrides import TorchFunctionMode


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
        elif "norm" in name or name.endswith(".D"):  # Gemma's multiply by 1 + w
            values = values * 0.3 + (0 if net.config.model_type == "gemma3_text" else 1)
        elif p.ndim > 1:
            values = values / (p[0].numel() ** 0.5)
        else:
            values = values * 0.3
        with torch.no_grad():
            p.copy_(values)
