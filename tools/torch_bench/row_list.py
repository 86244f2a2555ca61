# SPDX-License-Identifier: Apache-2.0
"""Files of rows, the same that `tilelace bench --rows` takes; benchmarks/rows has some.

A line: OP N[,N...] K M[,M...] [NAME [swiglu]]; n (of each weight) and k are the unsharded product's,
NAME may be MODEL.LAYER. `#` begins a remark.
"""
import random
from typing import NamedTuple

OPS = ("ag_gemm", "gemm_rs", "gemm_ar")


class Asked(NamedTuple):
    op: str
    n: tuple
    k: int
    m: int
    name: str
    swiglu: bool

    @property
    def model(self):
        return self.name.rpartition(".")[0] or None

    @property
    def layer(self):
        return self.name.rpartition(".")[2] or None

    @property
    def key(self):
        return f"{self.op} {','.join(map(str, self.n))} {self.k} {self.m}{' swiglu' if self.swiglu else ''}"


def numbers(text):
    values = tuple(int(v) for v in text.split(","))
    if min(values) < 1:
        raise ValueError(text)
    return values


def rows_of(line):
    """Of a line without its remark. Errors: ValueError with what was expected."""
    words = line.split()
    if not 4 <= len(words) <= 6 or words[0] not in OPS or words[5:] not in ([], ["swiglu"]):
        raise ValueError(f'"{line}", expected {"|".join(OPS)} N K M [NAME [swiglu]]')
    op, name, swiglu = words[0], words[4] if len(words) > 4 else "", len(words) == 6
    try:
        n, (k,), tokens = (numbers(word) for word in words[1:4])
    except ValueError:
        raise ValueError(f'"{line}", expected whole numbers from 1 behind the op') from None
    if len(n) != 1 and op != "ag_gemm" or swiglu and len(n) != 2:
        raise ValueError(f'"{line}", expected one n, of ag_gemm one or more, of swiglu two')
    return [Asked(op, n, k, m, name, swiglu) for m in tokens]


def read(path):
    """All rows of a file in its order, each once. Errors: ValueError, OSError."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            line = text.partition("#")[0].strip()
            try:
                rows.update((row.key, row) for row in (rows_of(line) if line else ()))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: got {error}") from None
    return list(rows.values())


def mixed(rows):
    """In an order of chance, the same in every run: what a budget leaves out is of all kinds."""
    rows = list(rows)
    random.Random(7).shuffle(rows)
    return rows
