# SPDX-License-Identifier: Apache-2.0
"""Times of functions that every rank calls alike."""
import math
import random
import statistics
import time

import torch
import torch.distributed as dist

LOAD_US, SAMPLE_US, GRAPH_US, EAGER_ROUNDS = 40e3, 8e3, 1e3, 5
GPUS = torch.cuda.is_available()  # else a dry run: eager calls by the host's clock


def largest(value):
    """Over ranks."""
    t = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def each_largest(values):
    """Over ranks, of each of them."""
    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.tolist()


def meet():
    """A barrier of the hosts: nothing of it is on the GPUs."""
    largest(0.0)


def settle():
    if GPUS:
        torch.cuda.synchronize()


def elapsed_us(run, times):
    if not GPUS:
        start = time.perf_counter()
        for _ in range(times):
            run()
        return (time.perf_counter() - start) * 1e6
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


class Way:
    """One way to compute something: `fn(i)` with the i-th set of tensors.

    result: of fn(0) once a graph ran. None: it could not be captured (`why`). `calls`: of the graph;
    None: what `graph_us` has room for.
    """

    def __init__(self, name, fn, sets, graph_us=GRAPH_US, calls=None):
        self.name, self.fn, self.sets, self.why = name, fn, sets, ""
        self.graph, self.result, self.calls = None, None, 1
        self.side = torch.cuda.Stream() if GPUS else None
        for i in range(sets):  # makes all buffers
            self.result = fn(i)
        settle()
        meet()
        self.us = largest(elapsed_us(self.eager, 1 if calls else 3) / (1 if calls else 3) / sets)
        wanted = min(32, max(1, graph_us / max(1.0, self.us)))
        self.calls = calls or max(1, round(wanted / sets)) * sets
        if GPUS:
            self.capture()
            if calls and self.graph is not None:  # eager calls are the host's time
                self.us = largest(elapsed_us(self.graph.replay, 1) / self.calls)

    def eager(self):
        for i in range(self.sets):
            self.fn(i)

    def capture(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.eager()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.side, capture_error_mode="thread_local"):
                self.result = self.fn(0)
                for i in range(1, self.calls):
                    self.fn(i % self.sets)
        except Exception as error:
            self.why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        torch.cuda.synchronize()
        if largest(1.0 if self.why else 0.0) > 0:
            self.result = self.fn(0)
            return
        graph.replay()
        torch.cuda.synchronize()
        self.graph = graph

    def replay(self):
        """All calls of its graph; of a dry run, one."""
        if self.graph is not None:
            return self.graph.replay()
        self.result = self.fn(0)


class Timer:
    def __init__(self, rounds):
        self.rounds = rounds

    @staticmethod
    def _sample(run, calls, us, load_us=LOAD_US, sample_us=SAMPLE_US):
        """Of `calls` calls a run, of about `us` each."""
        meet()
        for _ in range(max(1, math.ceil(load_us / (us * calls)))):
            run()
        times = max(1, math.ceil(sample_us / (us * calls)))
        return elapsed_us(run, times) / (times * calls)

    def look(self, way, load_us=LOAD_US, sample_us=SAMPLE_US):
        """One sample, this rank's."""
        if not GPUS:
            load_us, sample_us = load_us / 40, sample_us / 8
        return self._sample(way.replay, way.calls if way.graph is not None else 1, max(0.5, way.us),
                            load_us, sample_us)

    def race(self, ways, kept, factor, first_rounds=2):
        """{name: samples of this rank}, in shuffled rounds. Of `ways` that are not `kept` those go on
        after `first_rounds` rounds that are within `factor` of the fastest of them."""
        order, going = random.Random(5), list(ways)
        samples = {w.name: [] for w in ways}
        for number in range(self.rounds):
            if number == first_rounds:
                others = [w for w in going if w.name not in kept]
                took = each_largest([statistics.median(samples[w.name]) for w in others] + [0.0])[:-1]
                slow = {w.name for w, us in zip(others, took) if us > factor * min(took)}
                going = [w for w in going if w.name not in slow]
            order.shuffle(going)
            for w in going:
                samples[w.name].append(self.look(w))
        return samples

    def _figures(self, samples):
        """Median and p90 / p10, of the slowest rank."""
        median = largest(statistics.median(samples))
        low, high = (statistics.quantiles(samples, n=10)[i] for i in (0, 8))
        return median, largest(high / low)

    def graphs(self, ways):
        """{name: us} of those that have one, and the largest spread."""
        some = [w for w in ways if w.graph is not None]
        samples = {w.name: [] for w in some}
        for _ in range(self.rounds):
            for w in some:
                samples[w.name].append(self._sample(w.graph.replay, w.calls, w.us))
        figures = {name: self._figures(s) for name, s in samples.items()}
        return {n: f[0] for n, f in figures.items()}, max([f[1] for f in figures.values()] or [1.0])

    def eager(self, ways):
        samples = {w.name: [] for w in ways}
        for _ in range(EAGER_ROUNDS):
            for w in ways:
                samples[w.name].append(self._sample(w.eager, w.sets, w.us))
        return {name: self._figures(s)[0] for name, s in samples.items()}


def make_way(name, fn, sets, notes, **more):
    """None where the ranks cannot do it: `notes` says why."""
    why = ""
    try:
        return Way(name, fn, sets, **more)
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    notes[name] = why
    return None


def short(notes):
    """For a line of a table; the record has all of it."""
    return " ".join(f"{name}: {why[:90]};" for name, why in notes.items())


def relative_error(y, y64):
    error = ((y.double() - y64).norm() / y64.norm()).item() if y.numel() else 0.0
    return largest(error if error >= 0 else math.inf)  # a maximum may lose NaN
