# SPDX-License-Identifier: Apache-2.0
"""The fastest product that a peer can take: torch.mm, or one of cuBLASLt's algorithms. And what gates
its result."""
import torch
import torch.nn.functional as F
from timing import GPUS, each_largest, make_way
from vendor import Blas

ALGORITHMS = 10
# A first look at all, a second at those that may be the fastest, and samples of the last few.
LOOK_LOAD_US, LOOK_US = 6e3, 4e3
SECOND, LAST, FINALISTS, FINAL_ROUNDS = 1.25, 1.05, 3, 2


def mm(x, weight, out):
    torch.mm(x, weight.t(), out=out)


class Product:
    """x[m, k] weight[n, k]^T, into a tensor that is there. `us`: alone; None: a dry run's."""

    def __init__(self, name, run, us, mm_us):
        self.name, self.run, self.us, self.mm_us = name, run, us, mm_us


class Products:
    """By sizes; each is searched once. Collective."""

    def __init__(self, timer, searches, notes):
        self.timer, self._known, self._blas = timer, {}, None
        why = ""
        try:
            self._blas = Blas() if GPUS and searches else None
        except (OSError, RuntimeError, AttributeError) as error:
            why = str(error)
        if each_largest([1.0 if why else 0.0])[0]:
            self._blas, notes["cublasLt"] = None, why or "failed on a peer"

    def best(self, xs, weights, calls):
        """Of operands that take turns."""
        m, k = xs[0].shape
        key = (m, weights[0].shape[0], k)
        if key not in self._known:
            self._known[key] = self._search(*key, xs, weights, calls)
        return self._known[key]

    def _candidates(self, m, n, k):
        runs = {"torch.mm": mm}
        if self._blas is not None:
            product = None
            try:
                product = self._blas.product(m, n, k, ALGORITHMS)
            except RuntimeError:
                pass  # the rank has no algorithm of this shape
            count = -int(each_largest([0.0 if product is None else -float(product.count)])[0])
            for a in range(count):
                runs[f"cublasLt {a}"] = lambda x, w, out, a=a: product.run(a, x, w, out)
        return runs

    def _search(self, m, n, k, xs, weights, calls):
        runs = self._candidates(m, n, k)
        if not GPUS:
            return Product("torch.mm", mm, None, None)
        out, notes, ways = xs[0].new_empty(m, n), {}, []
        for name, run in runs.items():
            way = make_way(name, lambda i, run=run: run(xs[i % len(xs)], weights[i], out), len(weights),
                           notes, calls=calls)
            if way is not None and way.graph is not None:
                ways.append(way)
        took = self._looks(ways, LOOK_LOAD_US, LOOK_US)
        first = dict(took)
        some = [w for w in reversed(ways) if took[w.name] <= SECOND * min(took.values())]
        again = self._looks(some, LOOK_LOAD_US, LOOK_US)
        took = {w.name: (took[w.name] + again[w.name]) / 2 for w in some}
        some = sorted((w for w in some if took[w.name] <= LAST * min(took.values())),
                      key=lambda w: took[w.name])[:FINALISTS]
        final = [self._looks(some) for _ in range(FINAL_ROUNDS)]
        took = {w.name: sum(f[w.name] for f in final) / FINAL_ROUNDS for w in some}
        name = min(took, key=took.get)
        return Product(name, runs[name], took[name], took.get("torch.mm", first.get("torch.mm")))

    def _looks(self, ways, *times):
        mine = [self.timer.look(w, *times) for w in ways]
        return dict(zip((w.name for w in ways), each_largest(mine)))


def gated_by_torch(both, out):
    gate, up = both.chunk(2, 1)
    torch.mul(F.silu(gate), up, out=out)


def find_gate(notes):
    """silu(first half) * second half of each row, in one kernel where Triton makes it. Collective."""
    why, gate = "a dry run", None
    if GPUS:
        try:
            from gate import gated as gate  # needs Triton

            probe = torch.randn(3, 64, device="cuda").bfloat16()
            out, expected = probe.new_empty(3, 32), probe.new_empty(3, 32)
            gate(probe, out)
            gated_by_torch(probe, expected)
            why = "" if torch.allclose(out, expected, atol=0.05, rtol=0.05) else "a wrong result"
        except Exception as error:  # a compiler that is not there, say
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    if each_largest([1.0 if why else 0.0])[0]:
        if GPUS:
            notes["gate"] = f"two kernels of torch: {why or 'failed on a peer'}"
        return gated_by_torch
    return gate
