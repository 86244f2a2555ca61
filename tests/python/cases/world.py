# SPDX-License-Identifier: Apache-2.0
"""What cases share: their list, the group they run in, references and their bounds."""
import torch
import torch.distributed as dist

MODULES = ("ops", "grads", "groups", "opchecks", "compiled", "layers", "styles", "wrong")
CASES = {}

# One rounding to the type, and fp32 accumulation: |y - y64| <= u |y64| + 16 * 2^-24 * sum |a b|.
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}


def case(*ranks, **arguments):
    """Registers a case for these numbers of ranks; `arguments` tell cases of one function apart."""

    def register(fn):
        tail = ",".join(f"{v}".replace("torch.", "") for v in arguments.values())
        CASES[f"{fn.__module__.split('.')[-1]}.{fn.__name__}{tail and '[' + tail + ']'}"] = (
            fn, ranks, arguments)
        return fn

    return register


class World:
    """The ranks of a case. Every rank draws the same numbers."""

    def __init__(self, group):
        self.group, self.name = group, group.group_name
        self.rank, self.ranks = group.rank(), group.size()
        self.generator = torch.Generator().manual_seed(5)

    def randn(self, *size, dtype=torch.float32):
        return torch.randn(*size, generator=self.generator).to(dtype)

    def split(self, size):
        return [(size + self.ranks - 1 - r) // self.ranks for r in range(self.ranks)]

    def mine(self, t, dim=0, sizes=None):
        """This rank's part of a tensor that every rank has."""
        return t.split(sizes or self.split(t.shape[dim]), dim)[self.rank].contiguous()

    def everyone(self, value):
        values = [None] * self.ranks
        dist.all_gather_object(values, value, group=self.group)
        return values

    def gather(self, t, dim=0, sizes=None):
        """All ranks' parts, by plain collectives; `sizes` where they differ."""
        sizes = sizes or [t.shape[dim]] * self.ranks
        rows = t.detach().movedim(dim, 0)
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self.group)
        return torch.cat([p[:s] for p, s in zip(parts, sizes)]).movedim(0, dim).contiguous()


def product(x, weight, bias=None):
    """In fp64, and the sum of the absolute terms."""
    x, weight = x.double(), weight.double()
    y, terms = x @ weight.t(), x.abs() @ weight.abs().t()
    if bias is not None:
        y, terms = y + bias.double(), terms + bias.double().abs()
    return y, terms


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
