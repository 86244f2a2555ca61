# SPDX-License-Identifier: Apache-2.0
"""torch.library.opcheck of every op: schema, fake tensors, autograd, dynamic shapes."""
import torch
from torch.library import opcheck

from .world import BOTH, case

OPS = torch.ops.tilelace


@case(2, on=BOTH)
def gathers(w):
    x, weight, bias = w.randn(6, 8), w.randn(8, 8), w.randn(8)
    grads = [t.clone().requires_grad_() for t in (x, weight, bias)]
    opcheck(OPS.ag_gemm, (x, [weight], None, w.name))
    opcheck(OPS.ag_gemm, (grads[0], [grads[1], weight], [grads[2], bias], w.name),
            {"return_gathered": True, "activation": "gelu"})
    opcheck(OPS.ag_gemm, (w.randn(2, 3, 8), [weight], None, w.name),
            {"gather_dim": 1, "sizes": [3, 3]})
    opcheck(OPS.ag_gemm_out, (x, [weight], None, w.name),
            {"out": [w.empty(12, 8)], "gathered": w.empty(12, 8)})


@case(2, on=BOTH)
def reductions(w):
    x, weight, bias = (t.requires_grad_() for t in (w.randn(7, 8), w.randn(8, 8), w.randn(8)))
    opcheck(OPS.gemm_rs, (x, weight, bias, None, w.name), {"activation": "silu"})
    opcheck(OPS.gemm_rs, (w.randn(2, 5, 8), weight, None, None, w.name), {"scatter_dim": 1})
    opcheck(OPS.gemm_ar, (x, weight, bias, None, w.name))
    a, b = x.detach(), weight.detach()
    opcheck(OPS.gemm_rs_out, (a, b, None, None, w.name), {"out": w.empty(len(w.mine(a)), 8)})
    opcheck(OPS.gemm_ar_out, (a, b, None, None, w.name), {"out": w.empty(7, 8)})


@case(2, on=BOTH)
def collectives(w):
    x = w.randn(6, 8).requires_grad_()
    opcheck(OPS.all_gather, (x, w.name))
    opcheck(OPS.reduce_scatter, (x, w.name))
    opcheck(OPS._all_gather_like, (w.mine(w.randn(5, 8)), w.name, w.randn(5, 3)))
    opcheck(OPS._ag_gemm_like, (w.mine(w.randn(5, 8)), [w.randn(8, 8)], w.name, w.randn(5, 3)))
