# SPDX-License-Identifier: Apache-2.0
"""Which GPU a group joins with: no GPU is needed to ask."""
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from tilelace import Error, _groups


def group(bound=None):
    return SimpleNamespace(bound_device_id=bound and torch.device(bound))


@pytest.mark.parametrize(("device", "asked", "bound", "expected"), [
    ("cpu", -1, None, -1),       # CPU ranks have none
    ("cuda", 1, None, 1),        # the tensors' own, whatever is current
    ("cuda", 0, "cuda:2", 0),
    ("cuda", -1, "cuda:2", 2),   # the group's
    ("cuda", -1, "cuda", 3),     # a group that is bound to none in particular
    ("cuda", -1, None, 3),       # the current one
])
def test_the_tensors_gpu_counts(device, asked, bound, expected):
    with patch("torch.cuda.current_device", lambda: 3):
        assert _groups._index_of(group(bound), device, asked) == expected


def test_tensors_of_a_gpu_never_ask_for_the_current_one():
    with patch("torch.cuda.current_device", lambda: pytest.fail("asked")):
        assert _groups._index_of(group(), "cuda", 1) == 1
        assert _groups._index_of(group(), "cpu", -1) == -1


def test_a_device_may_name_its_gpu():
    for device, expected in (("cuda:1", ("cuda", 1)), (torch.device("cuda", 0), ("cuda", 0)),
                             ("cuda", ("cuda", -1)), ("cpu", ("cpu", -1)), ("cpu:0", ("cpu", -1))):
        assert _groups._join_device(group(), device) == expected
    for device in ("xpu", "no such", 1.5):
        with pytest.raises(Error, match="join: device: got") as caught:
            _groups._join_device(group(), device)
        assert caught.value.kind == "usage"
