// SPDX-License-Identifier: Apache-2.0
#include "wait_trial.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/rank/wait_control.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "harness.h"
#include "wait_kernels.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr const char* kOp = "wait_check";
constexpr double kHostSeconds = 30;
constexpr int kValues = 1 << 16;

/// A rank with its memory and its words, as a communicator would hold them.
class Member {
 public:
  Member(comm::Group& group, int device, double bound_s)
      : group_(group),
        memory_(comm::allocate_device(group, device, 1 << 16, kHostSeconds)),
        control_(device, group.rank(), &group, bound_s) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    void* own = nullptr;
    check(cudaMalloc(&own, kValues * sizeof(std::uint32_t)), "own memory");
    words_ = static_cast<std::uint32_t*>(own);
    const int sms = comm::query_capabilities(device).sm_count;
    ctas_ = std::max(1, sms / ((group.ranks() + comm::device_count() - 1) / comm::device_count()));
    check_values(1);  // loads both kernels before anybody waits
    check(enqueue_wait_call(
              {memory_->base(), memory_->stride(), 0, 1, 0, 0, words_, control_.context()}, 1,
              stream_),
          "loading the kernel");
    check(cudaStreamSynchronize(stream_), "loading the kernel");
    group.all_gather({}, kHostSeconds);
  }
  ~Member() {
    cudaFree(words_);
    cudaStreamDestroy(stream_);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  [[nodiscard]] cuda::WaitControl& control() { return control_; }

  void launch(std::uint32_t epoch, std::uint32_t awaited) {
    check(enqueue_wait_call({memory_->base(), memory_->stride(), group_.rank(), group_.ranks(),
                             epoch, awaited, words_, control_.context()},
                            ctas_, stream_),
          "launching a call");
  }
  void finish() { control_.finish(stream_, kOp, kHostSeconds); }

  void good_call(std::uint32_t epoch) {
    launch(epoch, epoch);
    finish();
    std::uint32_t done = 0;
    check(cudaMemcpy(&done, words_, sizeof done, cudaMemcpyDeviceToHost), "reading the result");
    require(done == epoch, "{}: a call without faults, got mark {}, expected {}", kOp, done, epoch);
  }

  /// Another kernel of the same process, checked.
  void check_values(std::uint32_t seed) {
    check(enqueue_values(words_, kValues, seed, stream_), "launching another kernel");
    std::vector<std::uint32_t> got(kValues);
    check(cudaMemcpyAsync(got.data(), words_, kValues * sizeof(std::uint32_t),
                          cudaMemcpyDeviceToHost, stream_),
          "reading another kernel's result");
    check(cudaStreamSynchronize(stream_), "another kernel");
    for (std::uint32_t i = 0; i < kValues; ++i)
      require(got[i] == i * 3 + seed,
              "{}: another kernel after the error, got {} at {}, expected {}", kOp, got[i], i,
              i * 3 + seed);
  }

 private:
  comm::Group& group_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  cuda::WaitControl control_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* words_ = nullptr;
  int ctas_ = 1;
};

/// The faulty call: its error, or none.
std::optional<Error> faulty_call(const Trial& t, comm::Group& group, Member& member, Report& r) {
  const double start = now_s();
  member.launch(2, t.fault == Fault::abort ? 3 : 2);
  if (t.fault == Fault::abort && t.rank == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    r.aborted_at = now_s();
    group.abort({static_cast<std::uint8_t>(ErrorKind::peer), 0, 0});
  }
  std::optional<Error> error;
  try {
    member.finish();
  } catch (const Error& e) {
    error = e;
  }
  r.ended_at = now_s();
  r.seconds = r.ended_at - start;
  return error;
}

void judge(const Trial& t, const std::optional<Error>& error, const Report& r) {
  require(error.has_value(), "{}: the call with a fault, got success, expected an error", kOp);
  const bool typed = error->kind() == ErrorKind::timeout || error->kind() == ErrorKind::peer;
  require(typed, "{}: got a {} error ({}), expected timeout or peer", kOp,
          tilelace::name_of(error->kind()), error->what());
  const int about = t.fault == Fault::abort ? 0 : t.victim;
  require(std::strstr(error->what(), fmt::format("rank {}", about).c_str()) != nullptr,
          "{}: got the text \"{}\", expected it to name rank {}", kOp, error->what(), about);
  require(t.fault == Fault::abort || r.seconds <= t.bound_s + kSlackSeconds,
          "{}: got the error after {:.3f} s, expected it within {:g} s (and {:g})", kOp, r.seconds,
          t.bound_s, kSlackSeconds);
}

void run_member(const Trial& t, std::unique_ptr<comm::Group> group, int device, Report& r) {
  {
    Member member(*group, device, t.bound_s);
    r.watches = member.control().watches_group();
    member.good_call(1);
    group->all_gather({}, kHostSeconds);
    if (t.fault != Fault::abort && t.rank == t.victim) {
      check(cudaDeviceSynchronize(), "the victim's streams");
      t.strike();
    } else {
      const std::optional<Error> error = faulty_call(t, *group, member, r);
      judge(t, error, r);
      r.say(fmt::format("{}: {}", tilelace::name_of(error->kind()), error->what()));
      member.check_values(7);
      member.control().reset();
      member.check_values(11);
    }
  }
  group.reset();
  const std::unique_ptr<comm::Group> next = t.regroup();
  Member member(*next, device, t.bound_s);
  member.good_call(1);
  next->all_gather({}, kHostSeconds);
  r.good = true;
}

}  // namespace

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::absent: return "a thread never launches";
    case Fault::exits: return "a process exits";
    case Fault::stops: return "a process stops";
    case Fault::abort: return "the host aborts";
  }
  return "?";
}

void Report::say(const std::string& words) {
  std::strncpy(text.data(), words.c_str(), text.size() - 1);
}

Report run_trial(const Trial& trial, std::unique_ptr<comm::Group> group) {
  Report r;
  r.rank = trial.rank;
  try {
    const int device = trial.rank % comm::device_count();
    check(cudaSetDevice(device), "the rank's device");
    run_member(trial, std::move(group), device, r);
  } catch (const std::exception& e) {
    r.good = false;
    r.say(fmt::format("FAILED {}", e.what()));
  }
  return r;
}

std::vector<Report> run_thread_trial(Fault fault, int ranks, int victim, double bound_s) {
  auto groups = comm::make_thread_groups(ranks);
  auto later = comm::make_thread_groups(ranks);
  // The victim waits for the others: a thread that left would be a peer that is gone.
  auto meeting = comm::make_thread_groups(ranks);
  std::vector<Report> reports(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      Trial t{fault, r, ranks, victim, bound_s, {}, {}};
      t.strike = [bound_s] {
        std::this_thread::sleep_for(std::chrono::duration<double>(bound_s + kSlackSeconds));
      };
      t.regroup = [&, i] {
        meeting[i]->all_gather({}, kHostSeconds);
        return std::move(later[i]);
      };
      reports[i] = run_trial(t, std::move(groups[i]));
      const auto self = static_cast<std::uint16_t>(r);
      if (!reports[i].good && meeting[i])
        meeting[i]->abort({static_cast<std::uint8_t>(ErrorKind::peer), self, self});
    });
  }
  for (auto& t : threads) t.join();
  return reports;
}

}  // namespace tilelace::gpu_test
