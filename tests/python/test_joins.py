# SPDX-License-Identifier: Apache-2.0
"""The cases of joins.py and a few histories, on CPU ranks, side by side, from the session's beginning
(conftest.py): most of it is waiting."""
import functools
import json
from pathlib import Path

import forked
import pytest
from joins import CASES

HERE = Path(__file__).resolve().parent

HALVES = (list(CASES)[::2], list(CASES)[1::2])
HISTORIES = ("histories.py", "--ranks", "3", "--histories", "5", "--seed", "5")


@functools.cache
def programs():
    return [forked.Programs(HERE / name, *arguments)
            for name, *arguments in (*(("joins.py", *half) for half in HALVES), HISTORIES)]


@functools.cache
def outputs():
    return [tuple(of_one for of_one, in program.finish()) for program in programs()]


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    code, results, errors = outputs()[name in HALVES[1]]
    assert results, f"exit code {code}\n{errors}"
    text = json.loads(results)[name]
    assert not text, text


def test_random_histories():
    code, results, errors = outputs()[2]
    assert code == 0 and "5 histories on 3 cpu ranks, seed 5: all right" in results, results + errors
