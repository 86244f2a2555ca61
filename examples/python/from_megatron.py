# SPDX-License-Identifier: Apache-2.0
"""For users of Megatron-LM and TransformerEngine: the same layers and arguments, in training.

    torchrun --nproc-per-node 2 examples/python/from_megatron.py
"""
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F

# Was: from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from tilelace.nn import ColumnParallelLinear, RowParallelLinear

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
sequence, batch, hidden, wide = 8, 2, 32, 64
# Megatron's ModelParallelConfig does as well: these fields are read. Where its parallel_state is
# initialised, layers take its tensor-parallel group; here they take the default group.
config = SimpleNamespace(sequence_parallel=True, gradient_accumulation_fusion=True,
                         params_dtype=torch.float32, tensor_model_parallel_size=ranks,
                         use_cpu_initialization=True, perform_initialization=True)
init = torch.nn.init.xavier_normal_
torch.manual_seed(0)
fc1 = ColumnParallelLinear(hidden, wide, config=config, init_method=init, bias=True,
                           gather_output=False, skip_bias_add=True, tp_comm_buffer_name="fc1")
fc2 = RowParallelLinear(wide, hidden, config=config, init_method=init, bias=True,
                        input_is_parallel=True, skip_bias_add=True, tp_comm_buffer_name="fc2")
for layer in (fc1, fc2):
    layer.weight.main_grad = torch.zeros_like(layer.weight)  # as Megatron's DDP makes them

torch.manual_seed(1)
whole = torch.randn(sequence, batch, hidden)
x = whole.chunk(ranks)[rank].clone().requires_grad_()
h, bias1 = fc1(x)
y, bias2 = fc2(F.gelu(h + bias1))
y = y + bias2
y.square().sum().backward()


def gathered(t, dim):
    parts = [torch.empty_like(t) for _ in range(ranks)]
    dist.all_gather(parts, t.detach().contiguous())
    return torch.cat(parts, dim)


w1, w2 = gathered(fc1.weight, 0).requires_grad_(), gathered(fc2.weight, 1).requires_grad_()
expected = F.gelu(whole @ w1.t()) @ w2.t()
torch.testing.assert_close(y, expected.chunk(ranks)[rank])
expected.square().sum().backward()
torch.testing.assert_close(fc1.weight.main_grad, w1.grad.chunk(ranks)[rank], rtol=1e-5, atol=1e-4)
torch.testing.assert_close(fc2.weight.main_grad, w2.grad.chunk(ranks, 1)[rank], rtol=1e-5,
                           atol=1e-4)
assert fc2.bias.sequence_parallel  # Megatron sums such gradients over the ranks itself
if rank == 0:
    print("ok")
dist.destroy_process_group()
