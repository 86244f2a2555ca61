# SPDX-License-Identifier: Apache-2.0
"""tilelace.megatron on a GPT of Megatron-Core's, beside its own layers: bit for bit.

Megatron expects GPUs; `on_cpu` takes the places away that do not work without, and its torch.compile, which
would take longer than all the rest.
"""
import contextlib
import copy
import functools
import importlib.metadata
import statistics
import warnings
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from .world import case, expect_raises

LAYERS, STEPS, VOCABULARY, SEQUENCE = 2, 20, 64, 8


class FusedCalls(TorchDispatchMode):
    """How often each of the fused ops was called inside."""

    def __init__(self):
        super().__init__()
        self.counts = dict.fromkeys(("ag_gemm", "gemm_rs", "gemm_ar"), 0)

    def __torch_dispatch__(self, fn, types, args=(), kwargs=None):
        name = fn._schema.name.removeprefix("tilelace::").removesuffix("_like").removeprefix("_")
        if fn.namespace == "tilelace" and name in self.counts:
            self.counts[name] += 1
        return fn(*args, **(kwargs or {}))


@functools.cache
def core():
    """Imported by the first case that wants it: it takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tilelace.megatron
        from megatron.core import parallel_state
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        from megatron.core.tensor_parallel import random
        from megatron.core.transformer import TransformerConfig, torch_norm
    return {"state": parallel_state, "GPTModel": GPTModel, "local": get_gpt_layer_local_spec,
            "random": random, "Config": TransformerConfig, "norm": torch_norm,
            "ours": tilelace.megatron}


@contextlib.contextmanager
def on_cpu(w):
    m = core()
    m["state"].initialize_model_parallel(tensor_model_parallel_size=w.ranks)

    def norm(cls, config, hidden_size, eps=1e-5, **_):
        made = torch.nn.RMSNorm(hidden_size, eps)
        made.weight.sequence_parallel = config.sequence_parallel
        return made

    try:
        with patch("torch.cuda.current_device", lambda: "cpu"), patch.object(
                m["random"].CudaRNGStatesTracker, "fork", lambda *_: contextlib.nullcontext()), patch.object(
                m["norm"].WrappedTorchNorm, "__new__", norm), torch._dynamo.config.patch(
                disable=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield m
    finally:
        m["state"].destroy_model_parallel()


def config(m, w, sequence_parallel, **more):
    return m["Config"](**dict(
        num_layers=LAYERS, hidden_size=32, num_attention_heads=4 * w.ranks, num_query_groups=w.ranks,
        kv_channels=8, ffn_hidden_size=16 * w.ranks, gated_linear_unit=True, activation_func=F.silu,
        add_bias_linear=False, normalization="RMSNorm", hidden_dropout=0.0, attention_dropout=0.0,
        use_cpu_initialization=True, tensor_model_parallel_size=w.ranks,
        sequence_parallel=sequence_parallel) | more)


def gpt(m, its_config, spec):
    torch.manual_seed(7)
    return m["GPTModel"](its_config, spec, vocab_size=VOCABULARY, max_sequence_length=SEQUENCE,
                         position_embedding_type="rope")


def train(model, steps, follow=None):
    """Loss and every gradient of each step, of SGD. `follow`: gradients to go by instead of the own ones."""
    generator = torch.Generator().manual_seed(9)
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE).triu(1).bool()
    ids = torch.randint(VOCABULARY, (2, SEQUENCE + 1), generator=generator)
    positions = torch.arange(SEQUENCE).expand(2, -1)
    for _ in range(steps):
        loss = model(ids[:, :-1], positions, mask, labels=ids[:, 1:]).mean()
        model.zero_grad()
        loss.backward()
        yield loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}
        taken = next(follow) if follow else {name: p.grad for name, p in model.named_parameters()}
        with torch.no_grad():
            for name, p in model.named_parameters():
                p -= 0.1 * taken[name]


# Elsewhere torch's products of fp32 add in another order than oneDNN's.
BITS = torch.backends.cpu.get_cpu_capability() == "AVX512"


def distance(steps, exact):
    """Root mean square over the losses and all gradients, each by the length of the exact one."""
    pairs = [(found, wanted) for (loss, grads), (loss2, grads2) in zip(steps, exact)
             for found, wanted in ((loss, loss2), *((grads[name], grads2[name]) for name in grads))]
    return statistics.mean(((f.double() - e).norm() / e.norm()).item() ** 2 for f, e in pairs) ** 0.5


def near_as_megatrons(m, its_config, ours, start, megatrons):
    """At the parameters of every step of Megatron's layers: losses and gradients beside those of fp64."""
    exact = gpt(m, its_config, m["local"](normalization="RMSNorm"))
    for model in (ours, exact):
        model.load_state_dict(start)
    exact.double()
    ours, exact = (list(train(model, STEPS, (grads for _, grads in megatrons))) for model in (ours, exact))
    far, theirs = distance(ours, exact), distance(megatrons, exact)
    assert 0 < theirs < 1e-5 and far <= 1.1 * theirs, (far, theirs)


@case(2, sequence_parallel=False)
@case(2, sequence_parallel=True)
def training_is_megatrons_bit_for_bit(w, sequence_parallel):
    with on_cpu(w) as m:
        its_config = config(m, w, sequence_parallel)
        stock = gpt(m, its_config, m["local"](normalization="RMSNorm"))
        spec = m["ours"].layer_spec(its_config)
        ours = gpt(m, its_config, spec)
        ours.load_state_dict(stock.state_dict())
        assert spec == m["ours"].llama_layer
        start = copy.deepcopy(ours.state_dict())
        with FusedCalls() as calls:
            steps = list(train(ours, STEPS))
        expected = {"ag_gemm": 0, "gemm_rs": 0, "gemm_ar": 4 * LAYERS * STEPS}
        if sequence_parallel:  # forward 2 each; backward the same the other way round
            expected = {"ag_gemm": 4 * LAYERS * STEPS, "gemm_rs": 4 * LAYERS * STEPS, "gemm_ar": 0}
        assert calls.counts == expected, calls.counts
        assert steps[-1][0] < steps[0][0] and len(steps[0][1]) > 12
        megatrons = list(train(stock, STEPS))
        if BITS:
            for step, ((loss, grads), (loss2, grads2)) in enumerate(zip(steps, megatrons)):
                assert torch.equal(loss, loss2), f"step {step}: loss {loss} and {loss2}"
                assert grads.keys() == grads2.keys()
                for name in grads:
                    assert torch.equal(grads[name], grads2[name]), f"step {step}: {name}"
        else:
            near_as_megatrons(m, its_config, ours, start, megatrons)
        each = {op: n // LAYERS // STEPS for op, n in calls.counts.items() if n}
        w.tell(stack="Megatron-Core", version=importlib.metadata.version("megatron-core"),
               switch="--spec tilelace.megatron llama_layer",
               what="GPT, SwiGLU" + (", sequence parallelism" if sequence_parallel else ""), left=0,
               fused=", ".join(f"{n} {op}" for op, n in each.items()) + " a layer and step",
               result=f"loss and gradients of {STEPS} steps: " + (
                   "the same bits" if BITS else "as near to fp64 as Megatron's"))


@case(2)
def experts_stay_megatrons(w):
    with on_cpu(w) as m:
        from megatron.core.tensor_parallel import layers

        its_config = config(m, w, False, num_moe_experts=4, moe_router_topk=2, moe_ffn_hidden_size=16)
        spec = m["ours"].layer_spec(its_config)
        attention, mlp = spec.submodules.self_attention.submodules, spec.submodules.mlp
        assert attention.linear_qkv is m["ours"].ColumnParallelLinear
        assert mlp == m["local"](num_experts=4, normalization="RMSNorm").submodules.mlp
        stock = m["local"]()
        assert stock.submodules.self_attention.submodules.linear_qkv is layers.ColumnParallelLinear
        its_config.moe_layer_freq = 2
        expect_raises("usage", "moe_layer_freq: got 2", lambda: m["ours"].layer_spec(its_config))
