// SPDX-License-Identifier: Apache-2.0
#include "collectives/measure.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "collectives/peers.h"
#include "collectives/values.h"
#include "machine.h"
#include "op/run_plan.h"

namespace tilelace::cli {
namespace {

constexpr int kGpuSamples = 10;
/// CPU ranks: what timing a row may take, a sample of it, and how many samples it then has.
constexpr double kRowSeconds = 0.1, kSampleSeconds = 2e-3;
constexpr int kFewestSamples = 5, kMostSamples = 40;

/// Memory of one tensor, of the kind that is asked for.
class Room {
 public:
  Room(Communicator& member, const CollectiveWork& work, std::size_t bytes)
      : gpu_(work.device == Device::cuda) {
    if (work.symmetric)
      shared_.emplace(member, bytes);
    else
      own_.emplace(member, bytes);
  }
  [[nodiscard]] std::byte* data() const {
    return static_cast<std::byte*>(shared_ ? shared_->local() : own_->data());
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (gpu_)
      copy_bytes(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }

 private:
  bool gpu_;
  std::optional<SymmetricBuffer> shared_;
  std::optional<DeviceBuffer> own_;
};

class RankCollectives {
 public:
  RankCollectives(const CollectiveWork& work, Communicator& member, const Send& send)
      : work_(work), member_(member), send_(send), values_(work.dtype, work.ranks) {
    const auto most = static_cast<std::size_t>(*std::ranges::max_element(work.sizes));
    first_.emplace(member, work, most);
    if (!work.in_place) second_.emplace(member, work, most);
    if (work.device == Device::cuda) {
      times_.emplace(
          member, [&send] { send(""); }, kCallsOfGraph);
      if (!work.baselines.empty()) peers_.emplace(member, work, most, *times_);
    }
    prepare_collectives(member);  // nothing that is captured could
  }

  void run_row(Collective op, std::int64_t bytes) {
    const CollectiveShape s = shape_of(op, bytes, work_.dtype, work_.ranks, member_.rank());
    const CollectiveOptions options = options_for(work_, op);
    const Item item = item_of(work_.dtype);
    const auto step = static_cast<std::int64_t>(size_of(work_.dtype));
    std::byte* const in = first_->data() + (work_.in_place ? s.in_at * step : 0);
    std::byte* const out = work_.in_place ? first_->data() + s.out_at * step : second_->data();
    const CollectiveArgs args{in, out, item, Reduction::sum, {&s.count, 1}, takes_of(s), stream()};
    const auto call = [&](int /*turn*/) { collect(member_, op, args, options); };
    std::vector<CollectivePeer> peers;
    if (peers_) peers = peers_->peers(s);
    CollectiveTimes row{op, work_.ranks, s.bytes, {}, {}, {}, {}};
    row.plan = describe_collective(member_, op, args, options);
    if (work_.check) row.complaint = check(s, {"", in, out, call}, peers);
    time(call, peers, row);
    if (member_.rank() == 0) send_(to_text(row));
  }

 private:
  [[nodiscard]] void* stream() const { return times_ ? times_->stream() : nullptr; }
  static std::span<const std::int64_t> takes_of(const CollectiveShape& s) {
    if (s.op != Collective::all_to_all) return {};
    return {&s.count, 1};
  }

  /// Collective: the first complaint of any rank, on each.
  std::string check(const CollectiveShape& s, const CollectivePeer& ours,
                    const std::vector<CollectivePeer>& peers) {
    std::string found = values_.wrong(s, member_.rank(), result_of(s, ours));
    for (const CollectivePeer& peer : peers) {
      const std::string theirs = values_.far_off(s, member_.rank(), result_of(s, peer));
      if (found.empty() && !theirs.empty()) found = peer.name + ": " + theirs;
    }
    for (const std::string& text : op::group_of(member_).all_gather(found, kMeetSeconds))
      if (!text.empty()) return text;
    return {};
  }

  /// Collective.
  std::vector<std::byte> result_of(const CollectiveShape& s, const CollectivePeer& call) {
    const std::size_t item = size_of(work_.dtype);
    const std::vector<std::byte> input = values_.input(s, member_.rank());
    std::vector<std::byte> out(static_cast<std::size_t>(s.out) * item, std::byte{0xA5});
    first_->copy(call.out, out.data(), out.size());
    first_->copy(call.in, input.data(), input.size());
    member_.synchronize();  // copies from the host may end after they return
    send_("");
    member_.barrier();
    call.call(0);
    member_.synchronize(stream());
    first_->copy(out.data(), call.out, out.size());
    return out;
  }

  void time(const GpuCall& call, const std::vector<CollectivePeer>& peers, CollectiveTimes& row) {
    if (!times_) return time_on_cpu(call, row);
    for (const std::string& name : work_.baselines) row.baselines[name] = {};
    std::vector<GpuCall> calls{call};
    for (const CollectivePeer& peer : peers) calls.push_back(peer.call);
    auto all =
        times_->samples(calls, work_.iterations > 0 ? work_.iterations : kGpuSamples, work_.warmup);
    row.us = std::move(all[0]);
    for (std::size_t p = 0; p < peers.size(); ++p)
      row.baselines[peers[p].name] = std::move(all[p + 1]);
  }

  /// What a call takes in us, the slowest rank's.
  double sample(const GpuCall& call, int calls) {
    member_.barrier();
    const double begin = seconds_now();
    for (int i = 0; i < calls; ++i) call(i);
    return most_of(member_, (seconds_now() - begin) / calls) * 1e6;
  }

  void time_on_cpu(const GpuCall& call, CollectiveTimes& row) {
    double about_us = 0;
    for (int i = 0; i < std::max(1, work_.warmup); ++i) about_us = sample(call, 1);
    const auto fit = [about_us](double seconds, int least, int most) {
      return static_cast<int>(std::clamp<double>(seconds * 1e6 / about_us, least, most));
    };
    const int calls = fit(kSampleSeconds, 1, kCallsOfGraph);
    const int count = work_.iterations > 0 ? work_.iterations
                                           : fit(kRowSeconds / calls, kFewestSamples, kMostSamples);
    for (int i = 0; i < count; ++i) {
      row.us.push_back(sample(call, calls));
      send_("");
    }
  }

  const CollectiveWork& work_;
  Communicator& member_;
  const Send& send_;
  CollectiveValues values_;
  std::optional<Room> first_, second_;  ///< in and out, or all in the first
  std::optional<GpuTimes> times_;
  std::optional<CollectivePeers> peers_;
};

}  // namespace

void measure_collectives(const CollectiveWork& work, Communicator& member, const Send& send) {
  RankCollectives rank(work, member, send);
  for (const Collective op : work.ops)
    for (const std::int64_t bytes : work.sizes) rank.run_row(op, bytes);
  member.barrier();  // nobody's memory goes while a peer may still use it
}

}  // namespace tilelace::cli
