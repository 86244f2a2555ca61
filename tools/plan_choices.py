#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plans that the planner takes for 2,592 problems of GPU ranks: every product of a layer of 6
models, on 2, 4 and 8 ranks, for 24 numbers of tokens. A change that is not to touch the planner
shows that it does not; another one shows what it changes.

usage: plan_choices.py [TILELACE]                 a line a problem, about 20 s
       plan_choices.py --compare OLD [TILELACE]   what differs from such a file; exit 1 if anything does
"""
import re
import subprocess
import sys

MODELS = ("gpt3-175b", "llama3.1-70b", "llama3.1-8b", "mistral-7b", "qwen2.5-72b", "qwen3-32b")
RANKS = (2, 4, 8)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 100, 128, 200, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3001,
          4096, 6000, 8192, 12000, 16384)


def choices(program):
    for model in MODELS:
        for ranks in RANKS:
            done = subprocess.run(
                [program, "plan", "--model", model, "--tp", str(ranks), "--backend", "cuda", "--wide", "--m",
                 ",".join(map(str, TOKENS))], text=True, capture_output=True, check=True)
            problem = ""
            for line in done.stdout.splitlines():
                if match := re.match(r"(\w+): (\w+) ranks \d+ m (\d+) ", line):
                    problem = f"{model} tp{ranks} {match[1]} {match[2]} m {match[3]}"
                elif line.startswith("  plan     "):
                    yield problem, line.split(maxsplit=2)[2]


def main():
    arguments = sys.argv[1:]
    old = None
    if arguments[:1] == ["--compare"] and len(arguments) > 1:
        with open(arguments[1], encoding="utf-8") as file:
            old = dict(line.rstrip("\n").split(": ", 1) for line in file)
        arguments = arguments[2:]
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        sys.exit(__doc__)
    new = dict(choices(arguments[0] if arguments else "build/cpu/bin/tilelace"))
    if old is None:
        print("\n".join(f"{problem}: {plan}" for problem, plan in new.items()))
        return 0
    different = [p for p in {**old, **new} if old.get(p) != new.get(p)]
    for problem in different:
        print(f"{problem}\n  was {old.get(problem, 'no plan')}\n  is  {new.get(problem, 'no plan')}")
    print(f"{len(new)} problems, {len(different)} plans differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
