# SPDX-License-Identifier: Apache-2.0
"""Layers of tilelace.nn beyond the two linear ones, against the unsharded layers."""
import tilelace.nn as tnn
import torch
import torch.distributed as dist
import torch.nn.functional as F

from .layers import close
from .world import case, expect_raises


@case(2)
def results_without_a_bias_beside_them(w):
    torch.manual_seed(3)
    x, whole = w.randn(4, 16), torch.nn.Linear(16, 16)
    column = tnn.ColumnParallelLinear.from_linear(
        whole, gather_output=True, return_bias=False, tp_group=w.group)
    row = tnn.RowParallelLinear.from_linear(
        whole, input_is_parallel=False, return_bias=False, tp_group=w.group)
    for layer in (column, row):
        close(layer(x), whole(x), type(layer).__name__)
    mlp = tnn.ParallelMLP(16, 32, return_bias=False, tp_group=w.group)
    assert isinstance(mlp(x), torch.Tensor)
    expect_raises("usage", "return_bias: got False with skip_bias_add", lambda: tnn.RowParallelLinear(
        16, 16, return_bias=False, skip_bias_add=True, tp_group=w.group))


def heads_of(y, sizes, head):
    q, k, v = y.split(sizes, -1)
    return (t.unflatten(-1, (-1, head)).transpose(-3, -2) for t in (q, k, v))


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(-3, -2).flatten(-2)


@case(2, 3, 4)
def heads_of_queries_keys_and_values(w):
    """More key and value heads than ranks, as many, fewer; results and all gradients."""
    hidden, head, tokens = 8, 4, 2 * w.ranks
    for kv in {n for n in (1, 2, w.ranks, 2 * w.ranks) if n % w.ranks == 0 or w.ranks % n == 0}:
        for sequence_parallel in (False, True):
            q = 2 * w.ranks * (2 if kv == 2 * w.ranks else 1)
            torch.manual_seed(4)
            whole = torch.nn.Linear(hidden, (q + 2 * kv) * head)
            out = torch.nn.Linear(q * head, hidden)
            common = dict(tp_group=w.group, sequence_parallel=sequence_parallel)
            qkv = tnn.QKVParallelLinear.from_linear(
                whole, head_size=head, total_num_heads=q, total_num_kv_heads=kv, **common)
            row = tnn.RowParallelLinear.from_linear(out, return_bias=False, **common)
            assert qkv.sizes == [q // w.ranks * head] + 2 * [max(1, kv // w.ranks) * head]
            x, grad = w.randn(tokens, hidden).requires_grad_(), w.randn(tokens, hidden)
            expected = out(attention(*heads_of(whole(x), [q * head] + 2 * [kv * head], head)))
            expected.backward(grad)
            split = w.mine if sequence_parallel else (lambda t: t)
            mine = split(x.detach()).clone().requires_grad_()
            y = row(attention(*heads_of(qkv(mine)[0], qkv.sizes, head)))
            y.backward(split(grad))
            what = f"{q} and {kv} heads, sequence_parallel={sequence_parallel}"
            close(y, split(expected), what)
            close(mine.grad, split(x.grad), what)
            close(qkv.weight.grad, qkv._part(whole.weight.grad), what)
            close(qkv.bias.grad, qkv._part(whole.bias.grad), what)
    expect_raises("usage", "QKVParallelLinear: heads: got 5", lambda: tnn.QKVParallelLinear(
        hidden, head, 5, tp_group=w.group))
    expect_raises("usage", "got 8 output features, expected", lambda: tnn.QKVParallelLinear.from_linear(
        torch.nn.Linear(8, 8), head_size=4, total_num_heads=w.ranks, tp_group=w.group))


@case(2, 3)
def an_embedding_and_the_loss_of_its_head(w):
    """Vocabulary over the ranks, with sequence parallelism or without: loss and gradients."""
    vocabulary, hidden, tokens = 6 * w.ranks, 8, 2 * w.ranks
    torch.manual_seed(6)
    whole, head = torch.nn.Embedding(vocabulary, hidden), torch.nn.Linear(hidden, vocabulary, bias=False)
    ids = torch.randint(vocabulary, (tokens, 3), generator=w.generator)
    target = torch.randint(vocabulary, (tokens, 3), generator=w.generator)
    target[0, 0] = -100
    for smoothing, sequence_parallel in ((0.0, False), (0.1, True)):
        for layer in (whole, head):
            layer.zero_grad()
        embedded = whole(ids)
        logits = head(embedded)
        expected = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none",
                                   label_smoothing=smoothing).view(target.shape)
        expected.mean().backward()
        embedding = tnn.VocabParallelEmbedding.from_embedding(
            whole, reduce_scatter_embeddings=sequence_parallel, tp_group=w.group)
        column = tnn.ColumnParallelLinear.from_linear(
            head, sequence_parallel=sequence_parallel, return_bias=False, tp_group=w.group)
        x = embedding(ids)
        close(x, w.mine(embedded) if sequence_parallel else embedded, "embedded")
        loss = tnn.vocab_parallel_cross_entropy(column(x), target, smoothing, tp_group=w.group)
        close(loss, expected, "loss")
        loss.mean().backward()
        close(embedding.weight.grad, w.mine(whole.weight.grad), "embedding's gradient")
        close(column.weight.grad, w.mine(head.weight.grad), "head's gradient")
    everyone = w.everyone(loss.detach())
    assert all(torch.equal(t, everyone[0]) for t in everyone)


@case(2)
def wrong_ids_and_targets(w):
    embedding = tnn.VocabParallelEmbedding(6, 4, tp_group=w.group)
    for wrong in (6, -1):
        try:
            embedding(torch.tensor([0, wrong]))
            raise AssertionError("got no error")
        except IndexError:
            pass
    logits = w.randn(2, 3)
    for target, text in ((torch.tensor([0, 6]), "got 6, expected 0 to 5"),
                         (torch.tensor([0, -1]), "got -1"), (torch.tensor([0]), "target: got [1]"),
                         (torch.tensor([0.0, 1.0]), "of torch.float32")):
        expect_raises("usage", text, lambda t=target: tnn.vocab_parallel_cross_entropy(
            logits, t, tp_group=w.group))
    expect_raises("usage", "label_smoothing: got 2", lambda: tnn.vocab_parallel_cross_entropy(
        logits, torch.tensor([0, 1]), 2, tp_group=w.group))
    expect_raises("usage", "got 7, expected a multiple", lambda: tnn.VocabParallelEmbedding(
        7, 4, tp_group=w.group))
    expect_raises("usage", "without padding_idx", lambda: tnn.VocabParallelEmbedding.from_embedding(
        torch.nn.Embedding(6, 4, padding_idx=0), tp_group=w.group))
    dist.barrier(w.group)


@case(2)
def gpt2s_layers(w):
    """transformers' Conv1D, whose weight is [k, n]; its c_attn has three blocks."""
    from transformers.pytorch_utils import Conv1D

    torch.manual_seed(3)
    x, c_attn, c_proj = w.randn(4, 8), Conv1D(24, 8), Conv1D(8, 8)
    column = tnn.ColumnParallelLinear.from_linear(c_attn, stride=3, return_bias=False, tp_group=w.group)
    row = tnn.RowParallelLinear.from_linear(c_proj, return_bias=False, tp_group=w.group)

    def mlp(x, first, second):
        q, k, v = first(x).chunk(3, -1)
        return second(torch.tanh(q) * k + v)

    close(mlp(x, column, row), mlp(x, c_attn, c_proj), "Conv1D")


@case(2)
def they_are_whole_graphs(w):
    """Forward and backward, with shared heads and a split vocabulary."""
    torch.manual_seed(5)
    qkv = tnn.QKVParallelLinear(8, 4, 2 * w.ranks, 1, return_bias=False, tp_group=w.group)
    row = tnn.RowParallelLinear(8 * w.ranks, 8, return_bias=False, tp_group=w.group)
    embedding = tnn.VocabParallelEmbedding(6 * w.ranks, 8, tp_group=w.group)
    head = tnn.ColumnParallelLinear(8, 6 * w.ranks, bias=False, return_bias=False, tp_group=w.group)
    parameters = [p for layer in (qkv, row, embedding, head) for p in layer.parameters()]
    ids = torch.randint(6 * w.ranks, (5,), generator=w.generator)

    def step(ids):
        y = row(attention(*heads_of(qkv(embedding(ids)), qkv.sizes, 4)))
        return tnn.vocab_parallel_cross_entropy(head(y), ids, tp_group=w.group).mean()

    expected = step(ids)
    grads = torch.autograd.grad(expected, parameters)
    torch._dynamo.reset()
    loss = torch.compile(step, backend="aot_eager", fullgraph=True)(ids)
    assert torch.equal(loss, expected)
    for ours, theirs in zip(torch.autograd.grad(loss, parameters), grads):
        torch.testing.assert_close(ours, theirs)
