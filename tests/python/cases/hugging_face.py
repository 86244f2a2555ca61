# SPDX-License-Identifier: Apache-2.0
"""tilelace.transformers on small models of random weights, beside one rank's and transformers' own."""
import contextlib
import functools
import tempfile
from unittest.mock import patch

import tilelace
import tilelace.transformers as switch
import torch
import torch.distributed as dist
from tilelace import _rotary, _tuning, _versions

from . import rotary
from .symm_mem_switch import told
from .world import case, expect_raises

LAYERS, TOKENS = 2, 12
SIZES = dict(vocab_size=192, hidden_size=96, intermediate_size=192, num_hidden_layers=LAYERS,
             num_attention_heads=12, num_key_value_heads=6, head_dim=8, max_position_embeddings=64,
             bos_token_id=1, eos_token_id=None, pad_token_id=0)


@functools.cache
def packages():
    """Imported by the first case that wants it: it takes seconds."""
    import transformers
    from transformers.distributed import DistributedConfig

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers, DistributedConfig


def config(kind="Llama", **changes):
    return getattr(packages()[0], f"{kind}Config")(**{**SIZES, **changes})


class Models:
    """A model as one rank has it, and how to load it over all ranks."""

    def __init__(self, w, folder, its_config, dtype=torch.float32):
        transformers, self.distributed = packages()
        self.w, self.folder = w, w.everyone(folder)[0]
        self.kind = transformers.AutoModelForCausalLM
        torch.manual_seed(3)
        self.one = self.kind.from_config(its_config, dtype=dtype).eval()
        with torch.no_grad():  # biases, too, or nobody would miss them
            for p in self.one.parameters():
                p.add_(0.1 * torch.randn(p.shape, dtype=p.dtype))
        if w.rank == 0:
            self.one.save_pretrained(self.folder)
        dist.barrier(w.group)

    def load(self):
        ours = self.distributed(tp_size=self.w.ranks, tp_plan="auto")
        dtype = next(self.one.parameters()).dtype
        return self.kind.from_pretrained(self.folder, distributed_config=ours, dtype=dtype).eval()


@contextlib.contextmanager
def models(w, its_config, dtype=torch.float32):
    """Models with the switch on; what joined leaves at the end."""
    with tempfile.TemporaryDirectory() as folder:
        made = Models(w, folder, its_config, dtype)
        switch.enable()
        try:
            yield made
        finally:
            switch.disable()
            tilelace.leave(dist.group.WORLD)
            dist.barrier(w.group)


def prompt(rows=2):
    return torch.arange(2, 2 + 5 * rows).view(rows, 5) % SIZES["vocab_size"]


def text(model, ids):
    return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS,
                          do_sample=False)


@case(2, 3)
def text_is_one_ranks(w):
    """With its KV cache; switched off it is transformers' own, bit for bit, in the same model."""
    with models(w, config(attention_bias=True, mlp_bias=True)) as made, told() as lines:
        model, ids = made.load(), prompt()
        switch.enable()
        tokens = text(model, ids)
        assert switch.calls() == (2 * LAYERS * TOKENS, 0, 0), switch.calls()
        assert torch.equal(tokens, text(made.one, ids))
        with torch.no_grad():
            ours, one = model(ids).logits, made.one(ids).logits
        torch.testing.assert_close(ours, one, rtol=1e-5, atol=1e-5)
        switch.disable()
        before = switch.calls()
        stock = made.load()
        with torch.no_grad():
            assert torch.equal(model(ids).logits, stock(ids).logits)
            switch.enable()
            assert torch.equal(model(ids).logits, ours)
            stock(ids)
        assert before.forward > 0 and switch.calls() == (2 * LAYERS, 0, 0)
        assert not lines, lines
    tell(w, "Llama of random weights, generate", "2 gemm_ar a layer and forward", "fp32 text equal to one rank's")


@case(2)
def known_columns_are_one_product(w):
    """From a layer's second call on, with the same bits; with other parameters transformers looks again."""
    with models(w, config(attention_bias=True)) as made, torch.no_grad():
        from transformers.distributed.tensor_parallel import ColwiseParallel

        model, ids = made.load(), prompt()
        column, stock, seen = model.model.layers[0].self_attn.q_proj, ColwiseParallel.transform_inputs_pre_forward, []

        def looked(style, module, *rest):
            seen.append(module)
            return stock(style, module, *rest)

        def looks():
            seen.clear()
            assert torch.equal(model(ids).logits, expected)
            return any(module is column for module in seen)

        with patch.object(ColwiseParallel, "transform_inputs_pre_forward", looked):
            expected = model(ids).logits
            assert any(module is column for module in seen) and not looks()
            column.weight = torch.nn.Parameter(column.weight.detach(), requires_grad=False)
            assert looks() and not looks()
            column._hf_quantized_needs_local_tp = False  # transformers' mark, whatever it says
            assert looks() and looks()


def tell(w, what, fused, result):
    w.tell(stack="transformers", version=packages()[0].__version__, switch="tilelace.transformers.enable()",
           what=what, fused=fused, left=0, result=result)


@case(2)
def bf16_is_as_near_to_one_rank(w):
    with models(w, config(), torch.bfloat16) as made:
        model, ids = made.load(), prompt(8)
        with torch.no_grad():
            one, ours = made.one(ids).logits, model(ids).logits
            switch.disable()
            stock = model(ids).logits
        distances = [(y.float() - one.float()).abs().mean().item() for y in (ours, stock)]
        assert distances[0] <= 1.1 * distances[1], distances


@case(2, 3)
def long_prompts_are_split(w):
    """Tokens that the ranks do not divide, too; a short prompt and decoding are not."""
    for kind, more in (("Llama", dict(attention_bias=True)), ("Qwen3", {})):
        with models(w, config(kind, **more)) as made, told() as lines:
            model, ids = made.load(), prompt()
            switch.enable(split_tokens=10)
            assert torch.equal(text(model, ids), text(made.one, ids)), kind
            assert switch.calls() == ((4 + 2 * (TOKENS - 1)) * LAYERS, 0, 0), switch.calls()
            with torch.no_grad():
                for rows in (prompt(5), prompt(5).view(1, 25), prompt(1)):
                    switch.enable(split_tokens=10)
                    torch.testing.assert_close(model(rows).logits, made.one(rows).logits, rtol=1e-5, atol=1e-5)
                    assert switch.calls().forward == (4 if rows.numel() >= 10 else 2) * LAYERS
                states = model(ids, output_hidden_states=True).hidden_states
                assert switch.calls().forward == 4 * LAYERS and states[1].shape == (2, 5, SIZES["hidden_size"])
            switch.enable(split_tokens=10)
            gradients(model, ids)
            assert switch.calls().forward == 2 * LAYERS
            assert not lines, lines
    tell(w, "Llama and Qwen3, prompts split by tokens", "2 ag_gemm and 2 gemm_rs a layer",
         "fp32 text equal to one rank's")


@case(2)
def a_split_prompt_rotates_in_place(w):
    """By Triton's interpreter."""
    turned, stock_rotate = [], _rotary.rotate

    def rotate(x, cos, sin):
        turned.append(x.shape)
        stock_rotate(x, cos, sin)

    wanted = config(num_attention_heads=6, num_key_value_heads=2, head_dim=16)
    with (models(w, wanted) as made, told() as lines, torch.no_grad(), rotary.kernel_for(w),
          patch.object(_rotary, "_DEVICES", {"cpu"}), patch.object(_rotary, "rotate", rotate),
          patch.object(_rotary, "_compiled", set())):
        from transformers.models.llama import modeling_llama as modeling

        model, ids = made.load(), prompt()
        stock = modeling.apply_rotary_pos_emb
        switch.enable(split_tokens=10)
        expected = made.one(ids).logits
        for calls in (2 * LAYERS + 2, 2 * LAYERS):  # a first one of nothing, for q and k
            turned.clear()
            torch.testing.assert_close(model(ids).logits, expected, rtol=1e-5, atol=1e-5)
            assert len(turned) == calls, (turned, lines)
        turned.clear()
        torch.testing.assert_close(made.one(ids).logits, expected)
        model(ids[:, :2])
        hook = model.model.layers[0].self_attn.v_proj.register_forward_hook(lambda m, x, y: None)
        model(ids)
        hook.remove()
        assert not turned and not lines, (turned, lines)
        with (patch.object(_rotary, "rotate", side_effect=ImportError("no Triton")),
              patch.object(_rotary, "_compiled", set()), patch.object(_rotary, "_broken", [])):
            for _ in range(2):
                torch.testing.assert_close(model(ids).logits, expected, rtol=1e-5, atol=1e-5)
        assert len(lines) == 1 and "a C compiler, but failed with ImportError: no Triton" in lines[0], lines
        assert modeling.apply_rotary_pos_emb is not stock
        switch.disable()
        assert modeling.apply_rotary_pos_emb is stock


@case(2)
def what_a_split_does_not_know_is_left(w):
    """Layers that something was put into, and hooks that look at products."""
    with models(w, config()) as made, torch.no_grad():
        model, ids = made.load(), prompt()
        switch.enable(split_tokens=10)
        expected, before = model(ids).logits, switch.calls().forward
        seen = []
        hook = model.model.layers[1].mlp.up_proj.register_forward_hook(lambda m, x, y: seen.append(y.shape))
        switch.enable(split_tokens=10)
        torch.testing.assert_close(model(ids).logits, expected)
        assert (before, switch.calls().forward) == (4 * LAYERS, 2 * LAYERS) and seen[0][:2] == (2, 5), seen
        hook.remove()
        norm = model.model.layers[1].input_layernorm
        with contextlib.suppress(ZeroDivisionError), patch.object(norm, "forward", lambda x: 1 // 0):
            model(ids)  # ends between the layers, on every rank
        torch.testing.assert_close(model(ids[:, :2]).logits, made.one(ids[:, :2]).logits, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model(ids).logits, expected)
        switch.disable()
        torch.testing.assert_close(model(ids).logits, expected)
    expect_raises("usage", "split_tokens: got -1", lambda: switch.enable(split_tokens=-1))


def gradients(model, ids):
    model.train()
    model(input_ids=ids, labels=ids).loss.backward()
    found = {name: getattr(p.grad, "full_tensor", lambda g=p.grad: g)()
             for name, p in model.named_parameters()}
    model.zero_grad()
    return found


@case(2, 3)
def gradients_are_one_ranks(w):
    with models(w, config(attention_bias=True, mlp_bias=True)) as made:
        model, ids = made.load(), prompt()
        found, expected = gradients(model, ids), gradients(made.one, ids)
        # Of the first layer's q, k and v the input's gradient is wanted, too: the embedding's.
        assert switch.calls() == (2 * LAYERS, 5 * LAYERS, 0), switch.calls()
        switch.disable()
        stock = gradients(model, ids)
    for name, grad in expected.items():
        scale = grad.abs().max().item()
        for other in (found, stock):
            torch.testing.assert_close(other[name], grad, rtol=1e-4, atol=1e-5 * scale, msg=name)
    tell(w, "the same, training", "2 gemm_ar a layer forward, 5 backward", "fp32 gradients one rank's")


@case(2)
def what_is_not_ours_is_left_alone(w):
    """Quantised layers, layers with another forward, DTensors, experts; each said once."""
    class Adapted(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    with models(w, config(intermediate_size=193)) as made, told() as lines, torch.no_grad():
        model, ids = made.load(), prompt()
        switch.enable()
        model(ids)
        # down of every layer: 193 features.
        assert switch.calls() == (LAYERS, 0, LAYERS) and len(lines) == 1, (switch.calls(), lines)
        assert all("got 193 features to split" in line for line in lines)
        first, second = (layer.self_attn.o_proj for layer in model.model.layers)
        expected = model(ids).logits
        first._hf_quantized_needs_local_tp = True
        switch.enable()
        torch.testing.assert_close(model(ids).logits, expected)
        second.__class__ = Adapted
        for _ in range(2):
            model(ids)
        # One call with an o_proj quantised, two with the other adapted, too; the MLPs' beside them.
        assert switch.calls() == (1, 0, (1 + 2 * 2) + 3 * LAYERS), switch.calls()
        assert len(lines) == 3 and "quantised" in lines[1] and "Adapted" in lines[2], lines


@case(2)
def experts_are_left_alone(w):
    moe = config("Mixtral", num_local_experts=4, num_experts_per_tok=2)
    with models(w, moe) as made, told() as lines, torch.no_grad():
        model, ids = made.load(), prompt()
        switch.enable()
        ours = model(ids).logits
        assert switch.calls() == (LAYERS, 0, 0) and not lines, (switch.calls(), lines)
        torch.testing.assert_close(ours, made.one(ids).logits, rtol=1e-4, atol=1e-5)


@case(2)
def its_products_can_be_tuned(w):
    with models(w, config()) as made:
        model = made.load()
        name = model.model.layers[0].mlp.down_proj.forward.problem(4)[0]
        asked = set(_tuning._of_model(model, name, (4,)))
        split = {p.op: p for p in _tuning._of_model(model, name, (4096,)) if p.swiglu or p.op == "gemm_rs"}
    width, wide = SIZES["hidden_size"], SIZES["intermediate_size"]
    assert asked == {("gemm_ar", 4, width, k // w.ranks, torch.float32, False) for k in (width, wide)}, asked
    half = wide // w.ranks
    assert split == {"ag_gemm": ("ag_gemm", 4096, [half, half], width, torch.float32, True),
                     "gemm_rs": ("gemm_rs", 4096, width, half, torch.float32, False)}, split


@case(2)
def a_model_is_one_graph(w):
    with models(w, config(num_hidden_layers=1)) as made, torch.no_grad():
        model, ids = made.load(), prompt()
        torch._dynamo.reset()
        eager = model(ids, use_cache=False).logits
        seen = []

        def backend(graph, _):
            seen.append(graph)
            return graph.forward

        compiled = torch.compile(model, fullgraph=True, backend=backend)
        ops = torch.ops.tilelace
        for tokens, ours in ((0, {ops.gemm_ar.default: 2}),
                             (10, {ops.ag_gemm.default: 2, ops.gemm_rs.default: 2, ops.all_gather.default: 1})):
            switch.enable(split_tokens=tokens)
            seen.clear()
            torch.testing.assert_close(compiled(ids, use_cache=False).logits, eager)
            targets = [node.target for graph in seen for node in graph.graph.nodes]
            found = {op: targets.count(op) for op in targets if str(op).startswith("tilelace.")}
            assert len(seen) == 1 and found == ours and switch.calls() == (0, 0, 0), found
        switch.disable()
        assert not any("gemm_ar" in str(node.target) for node in _graph_of(model, ids).nodes)


def _graph_of(model, ids):
    """What is compiled of a model that was compiled with the switch on, once it is off."""
    seen = []

    def backend(graph, _):
        seen.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(model, backend=backend)(ids, use_cache=False)
    return seen[0].graph


@case(2)
def versions_that_were_not_tested_are_named(w):
    packages()
    for found, wanted in (("5.17.3", 0), ("5.24.0", 0), ("5.16.9", 1), ("6.0.0.dev0", 1)):
        with told() as lines, patch.object(_versions, "version", lambda package: found):
            for _ in range(2):
                switch.enable()
                switch.disable()
        assert len(lines) == wanted and all(f"got {found}" in line for line in lines), lines
    with patch.dict(_versions.TESTED, {"no-such-package": ("1", "2")}):
        expect_raises("usage", "no-such-package: got none, expected 1 to 2",
                      lambda: _versions.check("no-such-package", "here"))
