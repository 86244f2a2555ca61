// SPDX-License-Identifier: Apache-2.0
// A build with CUDA and NCCL's header.
#include <fmt/core.h>

#include <algorithm>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/measure/swiglu.h"
#include "baselines.h"
#include "blas_product.h"
#include "op/run_plan.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

using cuda::check;
using cuda::NcclBuffer;

/// NCCL's start reads a large library, maybe from a cold disk.
constexpr double kNcclSeconds = 35;

}  // namespace

/// Copies of as many bytes as the op moves, while a product runs that does not wait for them: what
/// the traffic costs the product on this machine (power, memory, links), and so what no way that
/// hides it behind this product will fall below.
class Beside {
 public:
  Beside(Communicator& member, cudaStream_t stream, std::size_t shard_bytes)
      : member_(member),
        stream_(stream),
        bytes_(shard_bytes),
        landing_(member, shard_bytes * static_cast<std::size_t>(member.size())) {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
    check(cudaStreamCreateWithPriority(&copies_, cudaStreamNonBlocking, greatest), "a stream");
    check(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming), "an event");
    check(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming), "an event");
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() {
    cudaEventDestroy(joined_);
    cudaEventDestroy(forked_);
    cudaStreamDestroy(copies_);
  }

  /// `phases`: of gemm_ar two, partial sums, then sums.
  void run(const std::byte* own, int phases, const std::function<void()>& product) {
    check(cudaEventRecord(forked_, stream_), "an event");
    check(cudaStreamWaitEvent(copies_, forked_), "an event");
    const int ranks = member_.size();
    for (int i = 0; i < phases * ranks; ++i) {
      const int to = (member_.rank() + i) % ranks;
      if (to == member_.rank()) continue;
      check(cudaMemcpyAsync(static_cast<std::byte*>(landing_.peer(to)) +
                                static_cast<std::size_t>(member_.rank()) * bytes_,
                            own, bytes_, cudaMemcpyDefault, copies_),
            "a copy to a peer");
    }
    product();
    check(cudaEventRecord(joined_, copies_), "an event");
    check(cudaStreamWaitEvent(stream_, joined_), "an event");
  }

 private:
  Communicator& member_;
  cudaStream_t stream_;
  std::size_t bytes_;
  SymmetricBuffer landing_;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
};

struct Baselines::Impl {
  BaselineContext context;
  std::unique_ptr<BlasProduct> first = {}, then = {};
  std::unique_ptr<Beside> beside = {};

  [[nodiscard]] bool wants(std::string_view name) const {
    const auto& names = context.work.baselines;
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  /// Nobody's memory goes while a peer may still use it.
  void begin_row() {
    context.member.synchronize(context.stream);
    context.member.barrier();
    beside.reset();
    first.reset();
    then.reset();
  }

  void add_beside(const Job& job, CallTensors& tensors, const RankWeights& weights,
                  std::vector<Peer>& peers) {
    beside = std::make_unique<Beside>(context.member, context.stream, first->shard_bytes());
    const int phases = row_of(job.gemm.op).phases();
    const auto add = [&](const char* name, std::function<void(int)> product) {
      peers.push_back({name, Way::beside, [this, phases, product = std::move(product)](int i) {
                         beside->run(first->own_shard(NcclBuffer::plain, i), phases,
                                     [&] { product(i); });
                       }});
    };
    add("beside_cublas", [this](int i) { first->multiply(NcclBuffer::plain, i); });
    add("beside_tilelace", [this, &tensors, &weights](int i) {
      tensors.turn(i);
      tensors.call_gemm(context.member, weights);
    });
  }

  /// The activation between an MLP's halves.
  void activate(const Job& mlp, std::int64_t m, int i) {
    check(cuda::measure::enqueue_swiglu(first->kept(i), then->kept(i), m, mlp.then->k,
                                        context.stream),
          "swiglu");
  }
};

Baselines::Baselines(Communicator& member, const Workload& work, GpuTimes& times)
    : impl_(new Impl{
          .context = {member, work, times, {}, {}, static_cast<cudaStream_t>(times.stream())}}) {
  BaselineContext& c = impl_->context;
  for (const NcclBuffer kind : kBuffers)
    if (impl_->wants(cuda::name_of(kind))) c.kinds.push_back(kind);
  if (!c.kinds.empty())
    c.nccl = std::make_unique<cuda::NcclGroup>(op::group_of(member), member.rank(),
                                               cuda::NcclOptions{kNcclSeconds, true});
}

Baselines::~Baselines() = default;

std::vector<Peer> Baselines::peers(const Job& job, CallTensors& tensors,
                                   const RankWeights& weights) {
  Impl& x = *impl_;
  x.begin_row();
  if (tensors.m() == 0) return {};
  x.first = std::make_unique<BlasProduct>(x.context, job.gemm, tensors.m());
  if (x.first->gathers()) tensors.call_collective(x.context.member);
  const TensorView operand = tensors.operand();
  x.first->lay(weights, &operand);
  x.first->find_algorithm();
  BlasProduct& p = *x.first;
  std::vector<Peer> peers{{"cublas", Way::gemm, [&p](int i) { p.multiply(NcclBuffer::plain, i); }}};
  for (const NcclBuffer kind : x.context.kinds) {
    if (!p.has(kind)) continue;
    const std::string name(cuda::name_of(kind));
    peers.push_back({name, Way::collective, [&p, kind](int i) { p.collect(kind, i); }});
    peers.push_back({"unfused_" + name, Way::unfused, [&p, kind](int i) { p.unfused(kind, i); },
                     [&p, kind, &tensors] {
                       p.clear(kind);
                       p.unfused(kind, 0);
                       p.deliver(kind, tensors.outputs());
                     }});
  }
  if (x.wants("beside")) x.add_beside(job, tensors, weights, peers);
  return peers;
}

std::vector<Peer> Baselines::peers(const Job& mlp, CallTensors& tensors,
                                   const RankWeights& first_weights, CallTensors& then,
                                   const RankWeights& then_weights) {
  Impl& x = *impl_;
  const std::int64_t m = tensors.m();
  x.begin_row();
  x.first = std::make_unique<BlasProduct>(x.context, mlp.gemm, m);
  x.then = std::make_unique<BlasProduct>(x.context, *mlp.then, m);
  const TensorView operand = tensors.operand();
  x.first->lay(first_weights, &operand);
  x.then->lay(then_weights, nullptr);
  x.first->find_algorithm();
  for (int i = 0; i < kGraphCalls; ++i) {
    x.first->multiply(NcclBuffer::plain, i);
    x.activate(mlp, m, i);
  }
  x.then->find_algorithm();
  std::vector<Peer> peers{{"cublas", Way::gemm, [&x](int i) {
                             x.first->multiply(NcclBuffer::plain, i);
                             x.then->multiply(NcclBuffer::plain, i);
                           }}};
  for (const NcclBuffer kind : x.context.kinds) {
    if (!x.first->has(kind) || !x.then->has(kind)) continue;
    const auto call = [&x, &mlp, m, kind](int i) {
      if (row_of(mlp.then->op).scatters()) x.first->collect(kind, i);
      x.first->multiply(kind, i);
      x.activate(mlp, m, i);
      x.then->unfused(kind, i);
    };
    peers.push_back({fmt::format("unfused_{}", cuda::name_of(kind)), Way::unfused, call,
                     [&x, &mlp, call, kind, &then] {
                       if (row_of(mlp.then->op).scatters()) x.first->clear(kind);
                       x.then->clear(kind);
                       call(0);
                       x.then->deliver(kind, then.outputs());
                     }});
  }
  return peers;
}

}  // namespace tilelace::cli
