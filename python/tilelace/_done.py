# SPDX-License-Identifier: Apache-2.0
"""The handle that torch.distributed's async calls return when this library runs them."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Done(dist._Work):
    """A torch.distributed.Work: enqueued on GPUs, already complete on CPU ranks."""

    def __init__(self, result: Tensor) -> None:
        super().__init__()
        self._result, self._event = result, None
        if result.is_cuda:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(result.device))

    def wait(self, timeout: Any = None) -> bool:
        """On GPUs the current stream does, as with torch's own."""
        if self._event is not None:
            torch.cuda.current_stream(self._result.device).wait_event(self._event)
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._event is None or self._event.query()

    def is_success(self) -> bool:
        return self.is_completed()

    def exception(self) -> None:
        return None

    def result(self) -> list[Tensor]:
        return [self._result]

    def get_future(self) -> Any:
        devices: Any = [self._result.device] if self._event is not None else []
        future: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
        self.wait()
        future.set_result([self._result])
        return future
