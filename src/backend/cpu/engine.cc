// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/engine.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "backend/cpu/checked.h"
#include "backend/cpu/gather_verbs.h"
#include "backend/cpu/reduce_verbs.h"
#include "comm/std_atomics.h"
#include "core/check.h"
#include "core/env.h"
#include "core/points.h"
#include "plan/words/agreement.h"
#include "schedule/gather_tiles.h"
#include "schedule/reduce_tiles.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cpu {

using comm::StdAtomics;
namespace {

/// The product of operands that are all there, as one rank makes it.
Problem of_one_rank(Problem p) {
  p.ranks = 1;
  p.rows.clear();
  return p;
}

}  // namespace

Engine::Engine(comm::Group& group, const CommunicatorOptions& options,
               std::shared_ptr<CheckedGroup> checked)
    : group_(group),
      options_(options),
      machine_(cpu_machine(group.ranks(), options.workers, options.link_bytes_per_s,
                           options.link_latency_s)),
      checked_(std::move(checked)),
      links_(join_links(group.rank(), group.ranks(), options)),
      collectives_(group.ranks(), machine_.workers),
      epoch_(env::first_epoch()),
      pool_(options.workers),
      moe_(machine_.workers, [this](const std::function<void(int)>& job) { pool_.run(job); }) {}

Engine::~Engine() = default;

std::vector<std::string> Engine::findings() const {
  return checked_ ? checked_->findings() : std::vector<std::string>{};
}

template <class Schedule, class Verbs, class Role>
void Engine::act(const Call& call, const Schedule& s, Actor actor, Verbs& verbs, Role role) {
  if (!checked_ || checked_->stopped()) {
    role(verbs);
    return;
  }
  const std::int64_t number = call.epoch - env::first_epoch() - 1 - unwatched_;
  checked_->act(s, call.rank(), actor.worker + 1, number, verbs, role);
}

void Engine::ensure_control() {
  if (!control_) {
    control_ = group_.allocate(sizeof(Control), options_.timeout_s);
    for (auto& slot : reinterpret_cast<Control*>(control_->peer(group_.rank()))->headers) {
      slot.fill(comm::make_header(epoch_, 1));
    }
    group_.all_gather("", options_.timeout_s);  // no header may arrive before this
  }
}

void Engine::begin(Call& call, std::string_view card, std::uint32_t hash) {
  ensure_control();
  call.group = &group_;
  call.control = control_->peer(0);
  call.control_stride = control_->stride();
  call.epoch = ++epoch_;
  call.hash = hash;
  call.timeout_s = options_.timeout_s;
  call.links = links_;
  if (slots_) {
    const auto offset = static_cast<std::size_t>(slot_bytes_ * (call.epoch & 1U));
    call.slot = {slots_->peer(0) + offset, slots_->stride(), flag_bytes_};
  }
  auto& own = call.control_of(group_.rank()).cards[call.epoch & 1U];
  const std::size_t length = std::min(card.size(), own.size() - 1);
  std::memcpy(own.data(), card.data(), length);
  own[length] = '\0';
}

void Engine::tell_peers(const Call& call) const {
  for (int i = 1; i < group_.ranks(); ++i) call.send_header((group_.rank() + i) % group_.ranks());
}

void Engine::await_headers(Call& call) {
  const std::int64_t deadline = call.deadline_ns();
  for (int p = 0; p < group_.ranks(); ++p) {
    if (p == group_.rank()) continue;
    comm::Header seen = 0;
    const comm::Header* word = call.header(group_.rank(), p);
    const auto status = comm::wait_until<StdAtomics>(word, call.here_or_gone(p),
                                                     group_.abort_word(), deadline, seen);
    if (status == comm::WaitStatus::reached) {
      call.require_here(p, word);
      continue;
    }
    if (status == comm::WaitStatus::expired) {
      group_.abort({static_cast<std::uint8_t>(ErrorKind::timeout),
                    static_cast<std::uint16_t>(group_.rank()), static_cast<std::uint16_t>(p)});
    }
    group_.throw_if_aborted(call.name);
  }
}

void Engine::settle(Call& call, int peer) {
  await_headers(call);
  const auto card = [&](int r) { return call.control_of(r).cards[call.epoch & 1U].data(); };
  const auto header = StdAtomics::load_acquire(call.header(group_.rank(), peer));
  if (comm::header_hash(header) == kRefused) {
    raise(ErrorKind::usage, "{}: rank {} refused its call: {}", call.name, peer, card(peer));
  }
  const std::uint32_t word = comm::header_hash(header);
  const bool told = word >= kUnfit && word < kUnfit + static_cast<std::uint32_t>(group_.ranks());
  const bool pairs = !call.hashes_to.empty();
  for (int p = 0; p < group_.ranks() && pairs && !told; ++p)
    if (p != group_.rank()) call.send_header(p, kUnfit + static_cast<std::uint32_t>(peer));
  const int other = told ? static_cast<int>(word - kUnfit) : group_.rank();
  const int low = std::min(peer, other);
  const int high = std::max(peer, other);
  raise(ErrorKind::usage, "{}: rank {} called [{}], rank {} called [{}]: {}", call.name, low,
        card(low), high, card(high),
        pairs ? "each must take what the other sends" : "all ranks must make the same call");
}

void Engine::refuse(std::string_view reason, void* /*stream*/) {
  Call call;
  Problem nothing;
  nothing.ranks = group_.ranks();
  if (checked_) checked_->stop(std::string(reason));
  call.name = "refused call";
  call.problem = &nothing;
  begin(call, reason, kRefused);
  tell_peers(call);
  await_headers(call);
}

void Engine::synchronize(void* /*stream*/, double /*bound_s*/) {}  // calls return when done

ReachableMemory Engine::allocate(std::size_t bytes) {
  auto memory = group_.allocate(bytes, options_.timeout_s);
  return {memory, memory->peer(0), memory->stride(), memory->bytes()};
}

namespace {

class HostMemory : public RankMemory {
 public:
  explicit HostMemory(std::size_t bytes)
      : data_(bytes > kMost ? nullptr : allocated((bytes + 255) / 256 * 256), std::free) {
    if (data_ == nullptr)
      raise(ErrorKind::system, "out of memory: could not allocate {} bytes", bytes);
    std::memset(data_.get(), 0, bytes);
  }
  [[nodiscard]] std::byte* data() const override { return data_.get(); }
  void copy(void* to, const void* from, std::size_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

 private:
  /// More than this no address space has; rounded up, still larger sizes would wrap.
  static constexpr std::size_t kMost = std::size_t{1} << 62;
  static std::byte* allocated(std::size_t bytes) {
    return static_cast<std::byte*>(std::aligned_alloc(256, bytes));
  }

  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

}  // namespace

std::unique_ptr<RankMemory> Engine::make_memory(std::size_t bytes) {
  return std::make_unique<HostMemory>(std::max<std::size_t>(bytes, 1));
}

/// Nobody waits for a product alone, unless this rank will make no call any more. A reason that is
/// there already says more than this one.
void Engine::end_waits(const Call& call, ErrorKind kind) {
  if (call.control == nullptr && kind == ErrorKind::usage) return;
  if (comm::read_abort<StdAtomics>(group_.abort_word()).kind != 0) return;
  const auto rank = static_cast<std::uint16_t>(call.rank());
  group_.abort({static_cast<std::uint8_t>(kind), rank, rank});
}

void Engine::on_actors(Call& call, const std::function<void(int)>& job) {
  std::mutex mutex;
  std::optional<int> disagreeing;
  pool_.run([&](int index) {
    try {
      job(index);
    } catch (const Disagreement& d) {
      const std::scoped_lock lock(mutex);
      if (!disagreeing || d.peer < *disagreeing) disagreeing = d.peer;
    } catch (const Error& e) {
      call.fail(std::current_exception());
      end_waits(call, e.kind());
    } catch (const std::exception& e) {
      call.fail(std::make_exception_ptr(Error(
          ErrorKind::system, fmt::format("{}: rank {}: {}", call.name, call.rank(), e.what()))));
      end_waits(call, ErrorKind::system);
    }
  });
  call.rethrow_failure();
  if (disagreeing) settle(call, *disagreeing);
}

void Engine::run_product(Call& call, const Problem& problem, const Operands& operands,
                         const WeightColumns& columns) {
  Call local;
  local.group = &group_;
  local.control = call.control;
  local.name = call.name;
  local.problem = &problem;
  local.plan = call.plan;
  local.operands = &operands;
  const auto gather = plan::gather_schedule(problem, *call.plan, 0, {});
  schedule::with_tiles<comm::kMaxRanks>(gather, [&](const auto& s) {
    on_actors(local, [&](int index) {
      if (index >= call.plan->workers) return;
      GatherVerbs verbs(local, {index}, s, &workers_[index], &columns);
      schedule::run_compute(s, index, verbs);
    });
  });
}

void Engine::run_gather(Call& call, const WeightColumns& columns, Part part) {
  const auto borders = plan::borders_of(*call.problem);
  auto gather = plan::gather_schedule(*call.problem, *call.plan, group_.rank(), borders);
  if (part == Part::collective) gather.cols = 0;
  schedule::with_tiles<comm::kMaxRanks>(gather,
                                        [&](const auto& s) { gather_tiles(call, s, columns); });
}

template <class Tiles>
void Engine::gather_tiles(Call& call, const Tiles& s, const WeightColumns& columns) {
  const bool wait_first = call.plan->path == Path::unfused;
  on_actors(call, [&](int index) {
    const Actor actor{index == call.plan->workers ? -1 : index};
    const bool copy = actor.worker < 0;
    GatherVerbs verbs(call, actor, s, copy ? nullptr : &workers_[index], &columns);
    act(call, s, actor, verbs, [&](auto& v) {
      if (copy) return schedule::run_copy(s, v);
      schedule::run_sends(s, index, v);
      for (int q = 0; q < s.ranks() && wait_first; ++q) {
        schedule::detail::wait_for_rows(s, q, s.split.shard(q), v);
      }
      schedule::run_tiles(s, index, v);
    });
  });
}

void Engine::run_reduce(Call& call, const WeightColumns& columns, Part part) {
  const auto borders = plan::borders_of(*call.problem);
  const auto reduce = plan::reduce_schedule(*call.problem, *call.plan, group_.rank(), borders);
  TensorView partials = call.operands->input;
  const TensorView* given = part == Part::collective ? &partials : nullptr;
  if (part == Part::whole && call.plan->path == Path::unfused) {
    const DType dtype = call.plan->partials;
    partials = {call.slot.data(group_.rank()) + call.layout.outgoing, dtype, call.problem->m,
                call.problem->n[0],
                call.layout.partial_row_bytes / static_cast<std::int64_t>(size_of(dtype))};
    Problem product = of_one_rank(*call.problem);
    product.activation = Activation::none;
    product.residual = false;
    run_product(call, product, {call.operands->input, {}, {}, {&partials, 1}, {}}, columns);
    given = &partials;
  }
  schedule::with_tiles<comm::kMaxRanks>(
      reduce, [&](const auto& s) { reduce_tiles(call, s, columns, given); });
}

template <class Tiles>
void Engine::reduce_tiles(Call& call, const Tiles& s, const WeightColumns& columns,
                          const TensorView* given) {
  on_actors(call, [&](int index) {
    const Actor actor{index == call.plan->workers ? -1 : index};
    const bool copy = actor.worker < 0;
    ReduceVerbs verbs(call, actor, s, copy ? nullptr : &workers_[index],
                      columns.weights.empty() ? nullptr : columns.weights[0], call.plan->tile_n,
                      given);
    act(call, s, actor, verbs,
        [&](auto& v) { copy ? schedule::run_copy(s, v) : schedule::run_compute(s, index, v); });
  });
}

void Engine::run(const Problem& problem, const Plan& plan, const Operands& operands, Part part) {
  Call call;
  call.name = name_of(problem.op);
  call.problem = &problem;
  call.plan = &plan;
  call.operands = &operands;
  call.layout = plan::slot_layout(problem, plan);
  WeightColumns columns;
  try {
    columns = check_call(call, part);
  } catch (const Error& e) {
    if (part != Part::gemm) refuse(e.what(), nullptr);
    throw;
  }
  if (part == Part::gemm) {
    run_product(call, of_one_rank(problem), operands, columns);
    return;
  }
  points::pass("call.enter", group_.rank());
  begin(call,
        fmt::format("{}{}; {}", part == Part::collective ? "collective of " : "",
                    fmt::streamed(problem), fmt::streamed(plan)),
        plan::agreement_hash(problem, plan, {.collective = part == Part::collective}));
  try {
    row_of(problem.op).gathers ? run_gather(call, columns, part) : run_reduce(call, columns, part);
  } catch (const Error& e) {
    if (checked_) checked_->stop(e.what());
    throw;
  }
  if (points::poison_slots && !row_of(plan.transport).pulls) {
    std::memset(call.slot.data(group_.rank()), points::kPoison,
                static_cast<std::size_t>(slot_bytes_ - flag_bytes_));
  }
  points::pass("call.leave", group_.rank());
}

}  // namespace tilelace::cpu

namespace tilelace {

std::unique_ptr<Backend> make_cpu_backend(comm::Group& group, const CommunicatorOptions& options,
                                          std::shared_ptr<CheckedGroup> checked) {
  return std::make_unique<cpu::Engine>(group, options, std::move(checked));
}

}  // namespace tilelace
