// SPDX-License-Identifier: Apache-2.0
#include "litmus_cases.h"

#include <array>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/rank/wait_control.h"
#include "litmus.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr double kWaitSeconds = 5;
constexpr std::uint32_t kNapMask = 2047;
constexpr std::array<std::uint32_t, 2> kSizes = {256, kMaxLaneBytes};

struct Case {
  const char* name;
  Send send;
  Payload payload;
  Reader reader;
  Mutant mutant = Mutant::none;
  bool must_fail = false;
};

using enum Mutant;

// A mutant must fail where every machine shows it; elsewhere the table says what this one does.
constexpr Case kCases[] = {
    {"store", Send::threads, Payload::copy, Reader::loads},
    {"store/tma-read", Send::threads, Payload::copy, Reader::bulk},
    {"tma", Send::bulk, Payload::copy, Reader::loads},
    {"tma/tma-read", Send::bulk, Payload::copy, Reader::bulk},
    {"red-bf16", Send::threads, Payload::add_bf16, Reader::loads},
    {"red-fp16", Send::threads, Payload::add_fp16, Reader::loads},
    {"red-fp32", Send::threads, Payload::add_fp32, Reader::loads},
    {"tma-add-bf16", Send::bulk, Payload::add_bf16, Reader::loads},
    {"tma-add-fp16", Send::bulk, Payload::add_fp16, Reader::loads},
    {"tma-add-fp32", Send::bulk, Payload::add_fp32, Reader::loads},
    {"store", Send::threads, Payload::copy, Reader::loads, flag_first, true},
    {"store", Send::threads, Payload::copy, Reader::loads, relaxed_signal},
    {"store", Send::threads, Payload::copy, Reader::loads, no_barrier},
    {"store", Send::threads, Payload::copy, Reader::loads, relaxed_wait},
    {"store/tma-read", Send::threads, Payload::copy, Reader::bulk, relaxed_wait},
    {"store/tma-read", Send::threads, Payload::copy, Reader::bulk, no_proxy_fence},
    {"tma", Send::bulk, Payload::copy, Reader::loads, flag_first, true},
    {"tma", Send::bulk, Payload::copy, Reader::loads, read_wait},  // H200s do not show it
    {"tma", Send::bulk, Payload::copy, Reader::loads, no_bulk_wait},
    {"tma", Send::bulk, Payload::copy, Reader::loads, relaxed_signal},
    {"tma", Send::bulk, Payload::copy, Reader::loads, no_fill_fence},
    {"tma/tma-read", Send::bulk, Payload::copy, Reader::bulk, no_proxy_fence},
    {"red-bf16", Send::threads, Payload::add_bf16, Reader::loads, flag_first, true},
    {"red-bf16", Send::threads, Payload::add_bf16, Reader::loads, relaxed_signal},
    {"red-bf16", Send::threads, Payload::add_bf16, Reader::loads, no_barrier},
    {"tma-add-bf16", Send::bulk, Payload::add_bf16, Reader::loads, flag_first, true},
    {"tma-add-bf16", Send::bulk, Payload::add_bf16, Reader::loads, read_wait},
};

const char* name_of_mutant(Mutant m) {
  switch (m) {
    case none: return "";
    case flag_first: return "flag before data";
    case read_wait: return "wait_group.read before the flag";
    case no_bulk_wait: return "no wait for bulk stores";
    case relaxed_signal: return "flag without release";
    case no_barrier: return "no barrier before the flag";
    case relaxed_wait: return "wait without acquire";
    case no_proxy_fence: return "acquire without proxy fence";
    case no_fill_fence: return "TMA source without proxy fence";
  }
  return "?";
}

/// What a rank's litmus works with.
struct Bench {
  Bench(Rank& r, std::size_t symmetric_bytes)
      : rank(r),
        memory(comm::allocate_device(*r.group, r.device, symmetric_bytes, kMeetSeconds)),
        control(r.device, r.rank, r.group, kWaitSeconds) {
    void* own = nullptr;
    check(cudaMalloc(&own, kLanes * kMaxLaneBytes + sizeof(LitmusResult)), "staging");
    staging = static_cast<std::byte*>(own);
    check(prepare_litmus(), "loading the litmus kernel");
  }
  ~Bench() { cudaFree(staging); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] LitmusResult* result() const {
    return reinterpret_cast<LitmusResult*>(staging + kLanes * kMaxLaneBytes);
  }

  Rank& rank;
  std::shared_ptr<comm::DeviceMemory> memory;
  cuda::WaitControl control;
  std::byte* staging = nullptr;
};

std::string describe(const std::vector<double>& v, int rank, const Litmus& l) {
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(v.at(i)); };
  return fmt::format(
      "rank {}: call {} ({} after the first), from {}, lane {}, word {} of {}: got {:#010x}, "
      "expected {:#010x}",
      rank, number(3), static_cast<std::uint32_t>(number(3)) - l.first,
      number(4) < 0 ? "all" : fmt::format("rank {}", number(4)), number(5), number(6), l.bytes / 4,
      number(7), number(8));
}

/// One size, with or without naps. Adds to the row (rank 0's counts all ranks).
void run_variant(Bench& bench, const Case& c, std::uint32_t bytes, bool delays,
                 std::uint32_t rounds, LitmusRow& row) {
  Rank& rank = bench.rank;
  Litmus l{bench.memory->base(),
           bench.memory->stride(),
           bench.staging,
           bench.result(),
           bench.control.context(),
           rank.rank,
           rank.ranks,
           bytes,
           0xffffffffU - rounds / 2,
           rounds,
           delays ? kNapMask : 0,
           c.send,
           c.payload,
           c.reader,
           c.mutant};
  check(cudaMemsetAsync(l.result, 0, sizeof(LitmusResult), rank.stream), "clearing the result");
  check(enqueue_litmus_reset(l, rank.stream), "resetting slots and flags");
  bench.control.finish(rank.stream, "litmus reset", kMeetSeconds);
  rank.meet();
  const double start = now_s();
  check(enqueue_litmus(l, rank.stream), "launching the litmus");
  const std::string what = fmt::format("litmus {} {} ({} bytes{})", c.name,
                                       name_of_mutant(c.mutant), bytes, delays ? ", delays" : "");
  bench.control.finish(rank.stream, what, kMeetSeconds);
  const double seconds = now_s() - start;
  const auto all = gather_result(rank, l.result, seconds);
  const double transfers = c.payload == Payload::copy ? rank.ranks - 1 : 1;
  const std::uint32_t words = bytes / 4;
  row.expected_checked += transfers * rank.ranks * kLanes * rounds * words;
  for (std::size_t p = 0; p < all.size(); ++p) {
    row.wrong += all[p].at(0);
    row.checked += all[p].at(1);
    if (row.first.empty() && all[p].at(0) > 0) row.first = describe(all[p], static_cast<int>(p), l);
  }
  row.us += seconds * 1e6 / rounds;  // of all variants together; the caller divides
  row.rounds += rounds;
}

LitmusRow run_case(Bench& bench, const Case& c, const LitmusOptions& options, JsonLines& json) {
  LitmusRow total(c.name, name_of_mutant(c.mutant), c.must_fail, 0);
  const std::uint32_t rounds =
      c.mutant == Mutant::none ? options.rounds : std::max(options.rounds / 4, 2U);
  int variants = 0;
  for (const std::uint32_t bytes : kSizes) {
    for (const bool delays : {false, true}) {
      LitmusRow row{c.name, name_of_mutant(c.mutant), c.must_fail, static_cast<double>(bytes)};
      run_variant(bench, c, bytes, delays, rounds, row);
      if (bench.rank.rank == 0) {
        Json line = litmus_record(row, bench.rank.ranks, options.connections);
        line["delays"] = delays;
        json.write(line);
      }
      total.rounds += row.rounds;
      total.wrong += row.wrong;
      total.checked += row.checked;
      total.expected_checked += row.expected_checked;
      total.us += row.us;
      if (total.first.empty()) total.first = row.first;
      ++variants;
    }
  }
  total.us /= variants;
  return total;
}

}  // namespace

std::vector<std::vector<double>> gather_result(const Rank& rank, const LitmusResult* result,
                                               double seconds) {
  LitmusResult r{};
  check(cudaMemcpy(&r, result, sizeof r, cudaMemcpyDeviceToHost), "reading the result");
  return rank.gather({static_cast<double>(r.wrong_words), static_cast<double>(r.checked_words),
                      seconds, static_cast<double>(r.epoch), static_cast<double>(r.source),
                      static_cast<double>(r.lane), static_cast<double>(r.word),
                      static_cast<double>(r.got), static_cast<double>(r.expected)});
}

std::string LitmusRow::verdict() const {
  if (checked != expected_checked)
    return fmt::format("FAILED: {:.0f} words checked, expected {:.0f}", checked, expected_checked);
  if (mutant.empty()) return wrong == 0 ? "ok" : fmt::format("FAILED: {:.0f} wrong words", wrong);
  if (wrong > 0) return fmt::format("seen: {:.0f} wrong words", wrong);
  return must_fail ? "FAILED: must show wrong words" : "not shown by this hardware";
}

bool selected(const LitmusOptions& options, const std::string& name) {
  return options.only.empty() || name.find(options.only) != std::string::npos;
}

Json litmus_record(const LitmusRow& row, int ranks, int connections) {
  Json r;
  r["schema"] = "tilelace.litmus/1";
  r["name"] = row.name;
  r["mutant"] = row.mutant.empty() ? Json(nullptr) : Json(row.mutant);
  r["ranks"] = ranks;
  r["bytes"] = row.bytes;
  r["rounds"] = row.rounds;
  r["wrong_words"] = row.wrong;
  r["checked_words"] = row.checked;
  r["us"] = row.us;
  r["good"] = row.good();
  r["verdict"] = row.verdict();
  r["first"] = row.first.empty() ? Json(nullptr) : Json(row.first);
  r["connections"] = connections > 0 ? Json(connections) : Json(nullptr);
  r["time"] = utc_now();
  return r;
}

std::vector<LitmusRow> run_litmus_cases(Rank& rank, const LitmusOptions& options, JsonLines& json) {
  std::vector<LitmusRow> rows;
  Bench bench(rank, litmus_bytes(rank.ranks));
  for (const Case& c : kCases)
    if (selected(options, c.name)) rows.push_back(run_case(bench, c, options, json));
  rank.meet();  // nobody's memory goes while a peer may still use it
  return rows;
}

}  // namespace tilelace::gpu_test
