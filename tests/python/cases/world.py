# SPDX-License-Identifier: Apache-2.0
"""What cases share: their list, the group they run in, references and their bounds."""
import torch
import torch.distributed as dist

MODULES = ("ops", "residuals", "chosen_plans", "memory", "pool_functions", "pools", "grads", "groups", "opchecks", "compiled",
           "compiled_calls", "compiled_left", "compiled_norms", "compiled_plans", "compiled_sizes",
           "compat", "symm_mem_switch", "hugging_face", "rotary", "fits", "collectives", "norms", "moe", "moe_gpu", "overrides", "layers", "layers_more", "megatron", "megatron_core", "styles",
           "kinds", "second", "ordinary", "wrong", "gpu", "gpu_wrong", "tuned")
CASES = {}
BOTH = ("cpu", "cuda")
GPU = ("cuda",)

# One rounding to the type, and fp32 accumulation: |y - y64| <= u |y64| + 16 * 2^-24 * sum |a b|.
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}


def case(*ranks, on=("cpu",), **arguments):
    """Registers a case for these numbers of ranks, on ranks of these devices.

    `arguments` tell cases of one function apart.
    """

    def register(fn):
        tail = ",".join(f"{v}".replace("torch.", "") for v in arguments.values())
        CASES[f"{fn.__module__.split('.')[-1]}.{fn.__name__}{tail and '[' + tail + ']'}"] = (
            fn, ranks, arguments, on)
        return fn

    return register


def cases_of(device, ranks=None):
    return {name: (fn, n, arguments) for name, (fn, n, arguments, on) in CASES.items()
            if device in on and (ranks is None or ranks in n)}


class World:
    """The ranks of a case. Every rank draws the same numbers.

    On GPUs the type is bf16 unless a case says another, and kernels want n and k in eights.
    """

    def __init__(self, group, device="cpu"):
        self.group, self.name = group, group.group_name
        self.device, self.cuda = device, device == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.rank, self.ranks = group.rank(), group.size()
        self.generator = torch.Generator().manual_seed(5)
        self.lines = []

    def randn(self, *size, dtype=None):
        return torch.randn(*size, generator=self.generator).to(self.device, dtype or self.dtype)

    def integers(self, *size, ones=3):
        """-1, 0, 1 with about `ones` that are not 0 in a row: sums of them are exact in bf16."""
        t = torch.randint(-1, 2, size, generator=self.generator)
        t *= torch.rand(size, generator=self.generator) * size[-1] < 1.5 * ones
        return t.to(self.device, self.dtype)

    def empty(self, *size, dtype=None):
        """Of values that no result has."""
        return torch.full(size, -777.0, device=self.device, dtype=dtype or self.dtype)

    def split(self, size):
        return [(size + self.ranks - 1 - r) // self.ranks for r in range(self.ranks)]

    def mine(self, t, dim=0, sizes=None):
        """This rank's part of a tensor that every rank has."""
        return t.split(sizes or self.split(t.shape[dim]), dim)[self.rank].contiguous()

    def everyone(self, value):
        values = [None] * self.ranks
        dist.all_gather_object(values, value, group=self.group)
        return values

    def gather(self, t, dim=0):
        """All ranks' parts, by plain means."""
        return torch.cat(self.everyone(t.detach().cpu()), dim).to(t.device)

    def tell(self, **figures):
        """Something measured: printed, and written where results are kept."""
        self.lines.append(figures)
        if self.rank == 0:
            print("  " + ", ".join(f"{k} {v}" for k, v in figures.items()), flush=True)

    def synchronize(self):
        if self.cuda:
            import tilelace

            tilelace.synchronize(self.group)


def product(x, weight, bias=None):
    """In fp64, and the sum of the absolute terms."""
    x, weight = x.double(), weight.double()
    y, terms = x @ weight.t(), x.abs() @ weight.abs().t()
    if bias is not None:
        y, terms = y + bias.double(), terms + bias.double().abs()
    return y, terms


def with_partials(terms, dtype):
    """Terms of a sum over ranks whose partials are rounded to the type before they travel."""
    return terms if dtype == torch.float32 else terms * (1 + UNIT[dtype] / (16 * 2.0**-24))


def expect_close(y, y64, terms, what, slope=1.0, roundings=1):
    """`slope`: of an activation that follows, at most."""
    assert y.shape == y64.shape, f"{what}: got {list(y.shape)}, expected {list(y64.shape)}"
    bound = roundings * UNIT[y.dtype] * y64.abs() + slope * 16 * 2.0**-24 * terms
    if y.dtype == torch.float16:
        bound = bound + 2.0**-24  # subnormal results
    worst = ((y.double() - y64).abs() - bound).max().item() if y.numel() else -1
    assert worst <= 0, f"{what}: {worst} over the bound"


def expect_raises(kind, text, fn):
    import tilelace

    try:
        fn()
    except tilelace.Error as error:
        assert error.kind == kind, f"got kind {error.kind} ({error}), expected {kind}"
        assert text in str(error), f'got "{error}", expected "{text}" in it'
        return str(error)
    raise AssertionError(f'got no error, expected {kind}: "{text}"')
