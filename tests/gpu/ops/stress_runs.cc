// SPDX-License-Identifier: Apache-2.0
// In which order a stress run enqueues its calls.
#include <fmt/format.h>

#include <optional>

#include "backend/cuda/base/cuda_check.h"
#include "ops/stress.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

// A multiple of the outs and of the inputs: a replay repeats them.
constexpr long kGraphCalls = 112;
constexpr long kGraphs = 50, kShortGraph = 14;  // of a mixed run
/// Even and odd numbers, so that ranks have to align.
long short_graph(long graph) { return kShortGraph - graph % 3; }
constexpr double kStressMargin = 5, kCallSeconds = 1e-3;  // generous

long whole_graphs(long calls) { return (calls + kGraphCalls - 1) / kGraphCalls * kGraphCalls; }

}  // namespace

Stress::Graph Stress::capture(long first, long calls) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (long c = first; c < first + calls; ++c) enqueue(c);
  join();
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t state = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(state, "the graph");
  Graph owner(made, cudaGraphExecDestroy);
  check(cudaGraphUpload(made, rank_.stream), "the graph");
  return owner;
}

void Stress::begin(const std::string& name, bool counts) {
  watching_.emplace(*stall_, std::vector{watched(name, counts)}, timeout_s_ / 2);
  check(cudaEventRecord(begin_, rank_.stream), "an event");
}

long Stress::enqueue_eager(long calls, bool delays) {
  begin("eager", true);
  const long burst = delays ? 1 : static_cast<long>(kOuts);
  for (long c = 0; c < calls; c += burst) {
    if (delays) delay();
    enqueue_burst(c, burst);
  }
  join();
  return calls;
}

long Stress::enqueue_graph(long calls) {
  graphs_.push_back(capture(0, kGraphCalls));
  check(cudaStreamSynchronize(rank_.stream), "the graph");
  rank_.meet();
  begin("graph", false);
  for (long c = 0; c < calls; c += kGraphCalls)
    check(cudaGraphLaunch(graphs_.back().get(), rank_.stream), "a replay");
  return calls;
}

/// Graphs that share one staging, in an order that is the same on every rank.
long Stress::enqueue_mixed(long calls) {
  for (long g = 0; g < kGraphs; ++g) graphs_.push_back(capture(g * kShortGraph, short_graph(g)));
  check(cudaStreamSynchronize(rank_.stream), "the graphs");
  rank_.meet();
  begin("graphs", false);
  std::mt19937_64 order(11);
  long done = 0;
  while (done < calls) {
    if (order() % 3 != 0) {
      const auto graph = order() % kGraphs;
      check(cudaGraphLaunch(graphs_[graph].get(), rank_.stream), "a replay");
      done += short_graph(static_cast<long>(graph));
      continue;
    }
    const auto eager = static_cast<long>(1 + order() % 8);
    const auto first = static_cast<long>(order() % 1000);
    for (long c = first; c < first + eager; ++c) enqueue(c);
    join();
    done += eager;
  }
  return done;
}

void Stress::start(const std::string& kind) {
  choose(kind);
  check(cudaMemsetAsync(totals_, 0, sizeof(StressTotals), rank_.stream), "totals");
  check(cudaMemcpyAsync(&started_, ops_->calls.next(0) - 2, sizeof started_, cudaMemcpyDeviceToHost,
                        rank_.stream),
        "the count of calls");
  check(cudaStreamSynchronize(rank_.stream), "totals");
  rank_.meet();
}

Watched Stress::watched(const std::string& name, bool counts) const {
  Watched w{name, &ops_->calls, {}};
  if (counts)
    w.text = [this](comm::Flag counted) { return text_of(static_cast<long>(counted - started_)); };
  return w;
}

StressResult Stress::stop(long calls) {
  ops_->calls.finish(rank_.stream,
                     timeout_s_ + kStressMargin + kCallSeconds * static_cast<double>(calls));
  StressResult r;
  r.graphs = graphs_.size();
  graphs_.clear();
  r.calls = calls;
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "an event");
  r.us = static_cast<double>(ms) * 1000 / static_cast<double>(calls);
  check(cudaMemcpy(&r.totals, totals_, sizeof(StressTotals), cudaMemcpyDeviceToHost), "totals");
  r.trouble = text_of(r.totals, calls);
  return r;
}

StressResult Stress::run(const std::string& kind, long calls, Pace pace) {
  calls = whole_graphs(calls);
  start(kind);
  long enqueued = 0;
  switch (pace) {
    case Pace::graph: enqueued = enqueue_graph(calls); break;
    case Pace::mixed: enqueued = enqueue_mixed(calls); break;
    case Pace::eager:
    case Pace::delays:
    case Pace::pair: enqueued = enqueue_eager(calls, pace == Pace::delays); break;
  }
  check(cudaEventRecord(end_, rank_.stream), "an event");
  const StressResult r = stop(enqueued);
  watching_.reset();
  rank_.meet();
  return r;
}

/// What went wrong on either communicator: the ranks' errors together say who waits for whom.
std::array<StressResult, 2> Stress::run_beside(Stress& other, const std::string& kind, long calls) {
  calls = whole_graphs(calls);
  const std::array<Stress*, 2> both{this, &other};
  for (Stress* s : both) {
    s->start(kind);
    check(cudaEventRecord(s->begin_, s->rank_.stream), "an event");
  }
  watching_.emplace(*stall_, std::vector{watched("first", true), other.watched("second", true)},
                    timeout_s_ / 2);
  const auto burst = static_cast<long>(kOuts);
  for (long c = 0; c < calls; c += burst)
    for (Stress* s : both) s->enqueue_burst(c, burst);
  for (Stress* s : both) {
    s->join();
    check(cudaEventRecord(s->end_, s->rank_.stream), "an event");
  }
  std::array<StressResult, 2> results;
  std::optional<Error> failed;
  for (std::size_t i = 0; i < both.size(); ++i) {
    try {
      results.at(i) = both.at(i)->stop(calls);
    } catch (const Error& e) {
      failed = failed ? Error(failed->kind(),
                              fmt::format("{}; second communicator: {}", failed->what(), e.what()))
                      : Error(e.kind(), fmt::format("communicator {}: {}", i, e.what()));
    }
  }
  watching_.reset();
  if (failed) throw Error(*failed);
  rank_.meet();
  return results;
}

}  // namespace tilelace::gpu_test
