# SPDX-License-Identifier: Apache-2.0
"""What is split over the vocabulary: the embedding's rows, the loss of the head's columns."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter

from . import _groups, _megatron, _regions, collectives
from ._errors import usage
from ._groups import Group


class VocabParallelEmbedding(_megatron.Layer):
    """torch.nn.Embedding, the weight [num_embeddings / ranks, embedding_dim] on each rank.

    Every rank has the same ids [..]; the result [.., embedding_dim] is the same on every rank. With
    `reduce_scatter_embeddings` (Megatron's, for sequence parallelism) it is this rank's part of the
    first dimension. `config`, `init_method`, `tp_group`, `dtype`, `device`: as ColumnParallelLinear's.
    Collective. Errors: usage (the ranks do not divide num_embeddings), tilelace.Error.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, config: Any = None,
        init_method: Callable[[Tensor], Any] | None = None, reduce_scatter_embeddings: bool = False,
        tp_group: Group = None, dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        tp_group = _megatron.tensor_parallel_group() if tp_group is None else tp_group
        self.group_name = _groups.group_name(tp_group)
        self._ranks, rank = _groups.size_and_rank(self.group_name)
        _megatron.check_size(type(self).__name__, config, self._ranks)
        self.config, self.megatron = config, config is not None
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.reduce_scatter_embeddings = reduce_scatter_embeddings
        rows = _regions.slice_of(num_embeddings, self._ranks, rank)
        self._first = rows.start
        where = dict(device=_megatron.device(config, device, self.group_name),
                     dtype=getattr(config, "params_dtype", None) if dtype is None else dtype)
        # Every rank makes the whole weight and keeps its part: the unsharded layer's values.
        whole = torch.empty(num_embeddings, embedding_dim, **where)
        if getattr(config, "perform_initialization", True):
            with torch.no_grad():
                (init_method or torch.nn.init.normal_)(whole)
        self.weight = Parameter(whole.detach()[rows].clone())
        _megatron.mark_split(self.weight, 0, 1)

    @classmethod
    def from_embedding(cls, embedding: torch.nn.Embedding, **arguments: Any) -> VocabParallelEmbedding:
        """This rank's rows of a layer that every rank has, frozen where that is. Local.

        Errors: usage (padding_idx, max_norm, scale_grad_by_freq and sparse are not there).
        """
        e = embedding
        if (type(e) is not torch.nn.Embedding or e.padding_idx is not None or e.max_norm is not None
                or e.scale_grad_by_freq or e.sparse):
            raise usage(f"VocabParallelEmbedding.from_embedding: embedding: got {e}, expected a "
                        "torch.nn.Embedding without padding_idx, max_norm, scale_grad_by_freq and sparse")
        layer = cls(e.num_embeddings, e.embedding_dim, dtype=e.weight.dtype, device=e.weight.device,
                    init_method=lambda whole: whole.copy_(e.weight), **arguments)
        layer.weight.requires_grad_(e.weight.requires_grad)
        return layer

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of ids [..], [.., embedding_dim], of all of them or this rank's part. Collective.

        Errors: tilelace.Error. An id outside of the vocabulary is an error of torch's, on its rank.
        """
        rows = ids - self._first
        elsewhere = (rows < 0) | (rows >= self.weight.shape[0])
        outside = (ids < 0) | (ids >= self.num_embeddings)
        # What no rank has stays out of range for torch to refuse.
        rows = torch.where(elsewhere, torch.where(outside, ids, 0), rows)
        found = F.embedding(rows, self.weight).masked_fill(elsewhere.unsqueeze(-1), 0)
        if self.reduce_scatter_embeddings:
            return collectives.reduce_scatter(found, self.group_name)
        return _regions.sum_of_ranks(found, self.group_name)

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: Any = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """For Megatron's distributed checkpoints. Local. Errors: usage (no Megatron)."""
        return _megatron.sharded_tensors(self, {"weight": 0}, prefix, sharded_offsets, metadata)


@torch.compiler.assume_constant_result
def _place(group: Group) -> tuple[str, int, int]:
    """The group's name, its ranks, this rank: asked once, when a graph is compiled."""
    name = _groups.qualified(_megatron.tensor_parallel_group() if group is None else group)
    return name, *_groups.size_and_rank(name)


class _CrossEntropy(torch.autograd.Function):
    """Per token: two sums over the ranks, of a row each, and no gathered logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float, ignored: int, name: str,
                first: int, ranks: int) -> Tensor:
        x = logits.float()
        largest = collectives.all_reduce(x.amax(-1), name, op="max")
        x = x - largest.unsqueeze(-1)
        mine = target - first
        here = (mine >= 0) & (mine < x.shape[-1])
        index = torch.where(here, mine, 0).unsqueeze(-1)
        wanted = x.gather(-1, index).squeeze(-1).masked_fill(~here, 0)
        exponents = x.exp()
        sums = collectives.all_reduce(
            torch.stack([exponents.sum(-1), wanted, x.sum(-1)]), name)
        total, wanted, mean = sums[0], sums[1], sums[2] / (x.shape[-1] * ranks)
        loss = total.log() - (1 - smoothing) * wanted - smoothing * mean
        kept = target != ignored
        ctx.save_for_backward(exponents / total.unsqueeze(-1), index, here, kept)
        ctx.smoothing, ctx.width, ctx.dtype = smoothing, x.shape[-1] * ranks, logits.dtype
        return loss.masked_fill(~kept, 0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        softmax, index, here, kept = ctx.saved_tensors
        grad = softmax - ctx.smoothing / ctx.width
        ones = (here.to(grad.dtype) * (1 - ctx.smoothing)).unsqueeze(-1)
        grad = grad.scatter_add(-1, index, -ones)
        grad = grad * (grads[0] * kept).unsqueeze(-1)
        return grad.to(ctx.dtype), *(None,) * 6


def vocab_parallel_cross_entropy(
    logits: Tensor, target: Tensor, label_smoothing: float = 0.0, *, ignore_index: int = -100,
    tp_group: Group = None,
) -> Tensor:
    """The cross-entropy of each token, of logits that are split over the vocabulary.

    `logits` [.., vocabulary / ranks] of a ColumnParallelLinear without gather_output, `target` [..] the
    same ids on every rank. Result [..], fp32, the same on every rank; it counts once in the loss.
    `label_smoothing`: as torch.nn.functional.cross_entropy's. `ignore_index`: tokens of this target have
    loss 0. Collective: three numbers a token are summed, one is maximised; the backward has none.
    Errors: usage (sizes that do not match, a target outside of the vocabulary), tilelace.Error.
    """
    name, ranks, rank = _place(tp_group)
    what = "vocab_parallel_cross_entropy"
    if logits.dim() < 1 or logits.shape[:-1] != target.shape or target.is_floating_point():
        raise usage(f"{what}: target: got {list(target.shape)} of {target.dtype}, expected whole numbers "
                    f"of shape {list(logits.shape[:-1])}, the logits' without the last dimension")
    if not 0 <= label_smoothing <= 1:
        raise usage(f"{what}: label_smoothing: got {label_smoothing!r}, expected 0 to 1")
    width = logits.shape[-1]
    if not torch.compiler.is_compiling() and not target.is_cuda:
        wrong = (target != ignore_index) & ((target < 0) | (target >= width * ranks))
        if wrong.any():
            raise usage(f"{what}: target: got {target[wrong][0].item()}, expected 0 to {width * ranks - 1} "
                        f"or {ignore_index}")
    return _CrossEntropy.apply(logits, target, label_smoothing, ignore_index, name, rank * width, ranks)
