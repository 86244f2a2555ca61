# SPDX-License-Identifier: Apache-2.0
"""From Hugging Face transformers: one line, then text as before.

    torchrun --nproc-per-node 2 examples/python/from_transformers.py [MODEL [PROMPT]]

MODEL: a folder or a name; without one a small Llama of random weights is made.
"""
import sys
import tempfile
import time

import tilelace.transformers
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig
from transformers.distributed import DistributedConfig

TOKENS = 32
dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


def random_llama():
    """Its folder, the same on every rank."""
    folder = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(folder)
    if rank == 0:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=512, hidden_size=128 * ranks, intermediate_size=256 * ranks, num_hidden_layers=4,
            num_attention_heads=2 * ranks, num_key_value_heads=ranks, eos_token_id=None, pad_token_id=0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder[0])
    dist.barrier()
    return folder[0]


path = sys.argv[1] if len(sys.argv) > 1 else random_llama()
dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
tilelace.transformers.enable()
model = AutoModelForCausalLM.from_pretrained(
    path, dtype=dtype, distributed_config=DistributedConfig(tp_size=ranks, tp_plan="auto"))
ids = torch.arange(1, 9)[None]
if len(sys.argv) > 1:
    tokenizer = AutoTokenizer.from_pretrained(path)
    words = sys.argv[2] if len(sys.argv) > 2 else "The capital of France is"
    ids = tokenizer(words, return_tensors="pt").input_ids
ids = ids.to(model.device)


def generate():
    start = time.perf_counter()
    tokens = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS,
                            do_sample=False)
    return tokens[0].tolist(), (tokens.shape[1] - ids.shape[1]) / (time.perf_counter() - start)


generate()  # joins, prepares
tilelace.transformers.enable()  # counts from 0
tokens, rate = generate()
calls = tilelace.transformers.calls()
assert calls.forward > 0, "nothing was fused: the log says why"
tilelace.transformers.disable()
generate()
stock, stock_rate = generate()
if rank == 0:
    if len(sys.argv) > 1:
        print(tokenizer.decode(tokens))
    print(f"ok: {ranks} ranks, {calls.forward} fused calls, {calls.stock} left to transformers; "
          f"tokens {'equal' if tokens == stock else 'differ'}; {rate:.1f} tokens/s, transformers' own "
          f"{stock_rate:.1f}")
dist.barrier()
dist.destroy_process_group()
