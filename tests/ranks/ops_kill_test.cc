// SPDX-License-Identifier: Apache-2.0
// A rank is killed or stopped at every named point of every op: the others learn of it in time, by
// a typed error that stays, and nothing is left behind.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm_helpers.h"
#include "core/points.h"
#include "tilelace/tilelace.h"

namespace tilelace {
namespace {

using comm::test::status_of;

constexpr int kRanks = 3;
constexpr std::int64_t kM = 48, kN = 64, kK = 32;
constexpr std::size_t kPoints = std::size(points::kNames);
constexpr int kSignalled = -1;  // Message::kind of the victim
constexpr int kGoodCalls = 2;   // the victim strikes in the next one
constexpr double kStopTimeout = 1.0, kSlack = 1.0;
#ifndef KILL_POINTS  // fewer where sanitizers make it slow
#define KILL_POINTS 12
#endif
constexpr std::size_t kTried = KILL_POINTS, kBatch = KILL_POINTS / 2;

struct Candidate {
  const char* name;
  RouteKind route;
  Transport transport;
};
constexpr std::array<Candidate, 4> kCandidates = {
    {{"push mesh", RouteKind::mesh, Transport::push},
     {"push ring", RouteKind::ring, Transport::push},
     {"pull mesh", RouteKind::mesh, Transport::pull},
     {"store mesh", RouteKind::mesh, Transport::store}}};

using Counts = std::array<int, kPoints>;

struct Message {  // from a child, in one write
  int rank = 0, calls = 0;
  int kind = 0;                        ///< an ErrorKind, 0 for no error, or kSignalled
  bool whole = true, refused = false;  ///< whole: calls that ended well had the right results
  double at = 0;
  Counts counts = {};
  std::array<char, 256> text = {};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void send(int fd, const Message& m) {
  if (write(fd, &m, sizeof m) != static_cast<ssize_t>(sizeof m)) _exit(3);
}

struct Case {
  Op op = Op::ag_gemm;
  std::size_t point = 0;
  int signal = SIGKILL;
  std::size_t candidate = 0;
  int victim = 0, pass = 0;  ///< strikes at the pass of this number, counted from 1

  [[nodiscard]] std::string text() const {
    return std::string(name_of(op)) + " " + points::kNames[point] +
           (signal == SIGKILL ? " SIGKILL" : " SIGSTOP") + " at pass " + std::to_string(pass) +
           " of rank " + std::to_string(victim) + " (" + kCandidates[candidate].name + ")";
  }
};

Case g_case;  // the hook's, set in a child before its threads start
int g_fd = -1;
std::array<std::atomic<int>, kPoints> g_passes;

int count_pass(const char* point) {
  for (std::size_t i = 0; i < kPoints; ++i)
    if (std::strcmp(points::kNames[i], point) == 0) return ++g_passes[i];
  return 0;
}

void strike_hook(const char* point, int rank) {
  const int pass = count_pass(point);
  if (pass != g_case.pass || std::strcmp(point, points::kNames[g_case.point]) != 0) return;
  Message m;
  m.rank = rank;
  m.kind = kSignalled;
  m.at = now();
  send(g_fd, m);
  raise(g_case.signal);
}

/// One rank's prepared calls. Every call has other values, so that rows of an earlier one show.
class Caller {
 public:
  Caller(Communicator& c, Op op, const Candidate& candidate)
      : communicator_(c),
        op_(op),
        in_rows_(op == Op::ag_gemm ? kM / kRanks : kM),
        out_rows_(op == Op::gemm_rs ? kM / kRanks : kM),
        in_(static_cast<std::size_t>(in_rows_ * kK)),
        weight_(kN * kK, 1.0F),
        out_(static_cast<std::size_t>(out_rows_ * kN)) {
    options_ = {Path::fused, candidate.route, candidate.transport, 8, 16, {}, 8, {}, {}, {}};
    const Problem p{op,    kRanks,           kM,    {kN}, kK,   DType::fp32,
                    false, Activation::none, false, {},   false};
    c.prepare(std::array{Preparation{p, {weight()}, options_}});
  }

  void call() {
    const auto value = static_cast<float>(++calls_ % 64 + 1);
    std::fill(in_.begin(), in_.end(), value);
    std::fill(out_.begin(), out_.end(), 0.0F);
    const TensorView in = dense(in_.data(), DType::fp32, in_rows_, kK);
    const TensorView w = weight();
    const TensorView out = dense(out_.data(), DType::fp32, out_rows_, kN);
    if (op_ == Op::ag_gemm) {
      ag_gemm(communicator_, {kM, in, {&w, 1}, {}, Activation::none, {&out, 1}, {}, {}}, options_);
    } else {
      const GemmReduceArgs args{kM, in, w, {}, Activation::none, out, {}};
      (op_ == Op::gemm_rs ? gemm_rs : gemm_ar)(communicator_, args, options_);
    }
    const float wanted = value * static_cast<float>(op_ == Op::ag_gemm ? kK : kK * kRanks);
    whole_ = whole_ && std::all_of(out_.begin(), out_.end(), [&](float x) { return x == wanted; });
  }

  [[nodiscard]] bool whole() const { return whole_; }

 private:
  TensorView weight() { return dense(weight_.data(), DType::fp32, kN, kK); }

  Communicator& communicator_;
  Op op_;
  std::int64_t in_rows_, out_rows_;
  std::vector<float> in_, weight_, out_;
  PlanOptions options_;
  int calls_ = 0;
  bool whole_ = true;
};

struct Ranks {
  std::array<pid_t, kRanks> pids = {};
  int fd = -1;
};

/// Forks a group; each child has its sockets and may write to the parent.
Ranks fork_ranks(const auto& work) {  // work(rank, sockets, fd)
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  auto mesh = comm::make_socket_mesh(kRanks);
  Ranks ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.pids[r] = comm::test::fork_child([&] {
      close(ends[0]);
      work(r, comm::take_row(mesh, r), ends[1]);
    });
  }
  comm::take_row(mesh, -1);  // before the next group is forked: it must not inherit these
  close(ends[1]);
  ranks.fd = ends[0];
  return ranks;
}

/// All that the children wrote; they must have ended.
std::vector<Message> messages_of(const Ranks& ranks) {
  std::vector<Message> all;
  Message m;
  while (read(ranks.fd, &m, sizeof m) == static_cast<ssize_t>(sizeof m)) all.push_back(m);
  close(ranks.fd);
  return all;
}

/// Passes of each point in one call, by rank.
std::array<Counts, kRanks> count_passes(Op op, const Candidate& candidate) {
  const Ranks ranks = fork_ranks([&](int rank, std::vector<int> sockets, int fd) {
    points::hook = [](const char* point, int) { count_pass(point); };
    auto c = Communicator::from_sockets(rank, std::move(sockets), {.workers = 1, .timeout_s = 10});
    Caller caller(c, op, candidate);
    Message m;
    m.rank = rank;
    caller.call();
    for (std::size_t i = 0; i < kPoints; ++i) m.counts[i] = g_passes[i];
    caller.call();
    for (std::size_t i = 0; i < kPoints; ++i) CHILD_CHECK(g_passes[i] == 2 * m.counts[i]);
    CHILD_CHECK(caller.whole());
    send(fd, m);
  });
  for (const pid_t pid : ranks.pids)
    EXPECT_EQ(status_of(pid), 0) << "dry run of " << name_of(op) << ", " << candidate.name;
  std::array<Counts, kRanks> counts{};
  for (const Message& m : messages_of(ranks)) counts[m.rank] = m.counts;
  return counts;
}

/// A case for every point, each under the first candidate plan whose calls pass it. The victims
/// take turns; it strikes in the middle of its third call's passes.
std::vector<Case> cases_of(Op op, int signal) {
  std::vector<Case> cases;
  std::array<bool, kPoints> found{};
  for (std::size_t c = 0; c < kCandidates.size(); ++c) {
    if (std::find(found.begin(), found.end(), false) == found.end()) break;
    const auto counts = count_passes(op, kCandidates[c]);
    for (std::size_t i = 0; i < kPoints; ++i) {
      const int victim = static_cast<int>(i % kRanks);
      const int passes = counts[victim][i];
      if (found[i] || passes == 0) continue;
      found[i] = true;
      cases.push_back({op, i, signal, c, victim, kGoodCalls * passes + passes / 2 + 1});
    }
  }
  for (std::size_t i = 0; i < kPoints; ++i)
    EXPECT_TRUE(found[i]) << name_of(op) << ": no candidate plan passes " << points::kNames[i];
  const std::size_t tried = std::min(cases.size(), kTried);
  for (std::size_t i = 0; i < tried; ++i) cases[i] = cases[i * (cases.size() - 1) / (tried - 1)];
  cases.resize(tried);
  return cases;
}

void run_rank(const Case& c, int rank, std::vector<int> sockets, int fd) {
  if (rank == c.victim) {
    g_case = c;
    g_fd = fd;
    points::hook = strike_hook;
  }
  // A killed rank must be seen long before any wait ends by itself.
  auto communicator = Communicator::from_sockets(
      rank, std::move(sockets),
      {.workers = 1, .timeout_s = c.signal == SIGSTOP ? kStopTimeout : 10});
  Caller caller(communicator, c.op, kCandidates[c.candidate]);
  Message m;
  m.rank = rank;
  std::string first;
  const double end = now() + 4;
  try {
    for (; m.calls <= kGoodCalls || now() < end; ++m.calls) caller.call();
  } catch (const Error& e) {
    m.at = now();
    m.kind = static_cast<int>(e.kind());
    first = e.what();
    first.copy(m.text.data(), m.text.size() - 1);
  }
  const auto refused = [&](const auto& again) {
    const auto caught = comm::test::catch_error(again);
    return caught.kind == static_cast<ErrorKind>(m.kind) && caught.says("takes no more calls") &&
           caught.says(first);
  };
  m.refused = refused([&] { caller.call(); }) && refused([&] { communicator.barrier(); });
  m.whole = caller.whole();
  send(fd, m);
}

/// Waits for a child to end or stop, and adds to `stall` what the machine kept this process
/// waiting: bounds are in the time that ranks had, not in that of a machine at a standstill.
int wait_for(pid_t pid, double& stall) {
  int status = 0;
  for (double before = now(); waitpid(pid, &status, WUNTRACED | WNOHANG) == 0; before = now()) {
    usleep(2000);
    const double late = now() - before - 0.002;
    if (late > 0.05) stall += late;
  }
  return status;
}

/// False: the short timeout of the stop cases ended the group before the victim got there.
bool judge(const Case& c, const Ranks& ranks, double& stall) {
  SCOPED_TRACE(c.text());
  std::array<int, kRanks> ends = {};
  for (int r = 0; r < kRanks; ++r)
    if (r != c.victim) ends[r] = wait_for(ranks.pids[r], stall);
  int status = wait_for(ranks.pids[c.victim], stall);
  const bool stopped = WIFSTOPPED(status);
  if (stopped) {
    kill(ranks.pids[c.victim], SIGKILL);
    status = status_of(ranks.pids[c.victim]);
  }
  const std::vector<Message> all = messages_of(ranks);
  const auto is_victims = [](const Message& m) { return m.kind == kSignalled; };
  const auto struck = std::find_if(all.begin(), all.end(), is_victims);
  if (struck == all.end()) {
    if (c.signal == SIGSTOP) return false;
    ADD_FAILURE() << "the victim did not reach the point";
    return true;
  }
  EXPECT_EQ(stopped, c.signal == SIGSTOP);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "victim's status " << status;
  for (const int end : ends) EXPECT_EQ(end, 0) << "a survivor's status";
  EXPECT_EQ(all.size(), kRanks) << "survivors and the victim report once each";
  for (const Message& m : all) {
    if (is_victims(m)) continue;
    const double seconds = m.at - struck->at;
    const auto kind = static_cast<ErrorKind>(m.kind);
    const std::string got = "rank " + std::to_string(m.rank) + ": got " +
                            (m.kind == 0 ? "no error" : std::string(name_of(kind))) + " after " +
                            std::to_string(seconds) + " s in call " + std::to_string(m.calls + 1) +
                            ": " + m.text.data();
    const bool killed = c.signal == SIGKILL;
    EXPECT_TRUE(kind == ErrorKind::peer || (kind == ErrorKind::timeout && !killed)) << got;
    EXPECT_LE(seconds, (killed ? 0 : kStopTimeout) + kSlack + stall) << got;
    // The victim had begun its third call, so every rank its second.
    EXPECT_TRUE(seconds >= 0 && m.calls >= 1) << got;
    EXPECT_TRUE(m.whole) << got << "; a call ended well with wrong results";
    EXPECT_TRUE(m.refused) << got << "; the next calls were not refused with this reason";
  }
  return true;
}

void try_all(Op op, int signal) {
  const std::size_t shared_before = comm::test::count_entries("/dev/shm");
  const std::size_t fds_before = comm::test::open_fds();
  std::vector<Case> cases = cases_of(op, signal);
  const std::size_t most = 2 * cases.size();
  // A stopped rank costs its group's whole timeout: several groups at a time.
  const std::size_t batch = signal == SIGSTOP ? kBatch : 1;
  for (std::size_t i = 0, end = 0; i < cases.size(); i = end) {
    end = std::min(i + batch, cases.size());
    std::vector<Ranks> groups;
    for (std::size_t j = i; j < end; ++j)
      groups.push_back(fork_ranks([&](int rank, std::vector<int> sockets, int fd) {
        run_rank(cases[j], rank, std::move(sockets), fd);
      }));
    double stall = 0;
    for (std::size_t j = i; j < end; ++j)
      if (!judge(cases[j], groups[j - i], stall)) cases.push_back(Case(cases[j]));
    ASSERT_LE(cases.size(), most) << "victims do not reach their points";
  }
  EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a child is left";
  EXPECT_EQ(comm::test::count_entries("/dev/shm"), shared_before);
  EXPECT_EQ(comm::test::open_fds(), fds_before);
}

TEST(OpsKill, AgGemmSurvivorsLearnOfAKilledRank) { try_all(Op::ag_gemm, SIGKILL); }
TEST(OpsKill, AgGemmSurvivorsGiveUpOnAStoppedRank) { try_all(Op::ag_gemm, SIGSTOP); }
TEST(OpsKill, GemmRsSurvivorsLearnOfAKilledRank) { try_all(Op::gemm_rs, SIGKILL); }
TEST(OpsKill, GemmRsSurvivorsGiveUpOnAStoppedRank) { try_all(Op::gemm_rs, SIGSTOP); }
TEST(OpsKill, GemmArSurvivorsLearnOfAKilledRank) { try_all(Op::gemm_ar, SIGKILL); }
TEST(OpsKill, GemmArSurvivorsGiveUpOnAStoppedRank) { try_all(Op::gemm_ar, SIGSTOP); }

}  // namespace
}  // namespace tilelace
