// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/vendor/nccl.h"

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/vendor/nccl_library.h"
#include "comm/deadline.h"
#include "core/check.h"
#include "core/env.h"

namespace tilelace::cuda {
namespace {

constexpr double kCloseSeconds = 10;

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

/// What the environment would make of a communicator whose kernels were promised so many places.
std::string override_of(int most_ctas) {
  for (const char* name : {"NCCL_CGA_CLUSTER_SIZE", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
                           "NCCL_MIN_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS"})
    if (const auto value = env::launch_variable(name))
      return fmt::format(
          "{}: got {}, expected none: unset it; NCCL may take at most {} CTAs here, no clusters",
          name, *value, most_ctas);
  return {};
}

/// What keeps this rank from NCCL; empty: nothing.
std::string obstacle(const NcclOptions& options) {
  const auto nvls = env::launch_variable("NCCL_NVLS_ENABLE");
  if (nvls != "0")
    return fmt::format("NCCL_NVLS_ENABLE: got {}, expected 0: multicast is not used here",
                       nvls ? "\"" + *nvls + "\"" : "none");
  if (options.most_ctas > 0)
    if (std::string found = override_of(options.most_ctas); !found.empty()) return found;
  if (!nccl_library().problem.empty())
    return fmt::format("libnccl.so.2 could not be loaded: {}", nccl_library().problem);
  return {};
}

/// Runs `work` on a thread of its own, which is left alone if it takes longer.
bool within(double seconds, int device, std::function<bool()> work) noexcept {
  try {
    std::packaged_task<bool()> task([device, w = std::move(work)] {
      cudaSetDevice(device);
      return w();
    });
    auto done = task.get_future();
    std::thread(std::move(task)).detach();
    return done.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready &&
           done.get();
  } catch (...) {
    return false;
  }
}

/// Whether the communicator's work is done and its peers know.
bool finalized(ncclComm_t comm) {
  const NcclLibrary& lib = nccl_library();
  const comm::Deadline deadline("nccl", kCloseSeconds);
  ncclResult_t state = lib.finalize(comm);
  while (state == ncclInProgress && !deadline.passed()) {
    pause();
    if (lib.async_error(comm, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

/// What NCCL calls a type.
struct NcclType {
  DType type;
  ncclDataType_t as;
};
constexpr NcclType kNcclTypes[] = {
    {DType::bf16, ncclBfloat16}, {DType::fp16, ncclFloat16}, {DType::fp32, ncclFloat32}};

ncclDataType_t type_of(DType t) {
  for (const NcclType& row : kNcclTypes)
    if (row.type == t) return row.as;
  raise(ErrorKind::usage, "nccl: NCCL has no dtype {}", name_of(t));
}

}  // namespace

int nccl_version() {
  int version = 0;
  if (nccl_library().problem.empty() && nccl_library().version(&version) != ncclSuccess)
    version = 0;
  return version;
}

struct NcclGroup::State {
  comm::Group& group;
  int device;
  NcclOptions options;
  int exceptions = std::uncaught_exceptions();
  ncclComm_t comm = nullptr;

  State(comm::Group& g, int d, const NcclOptions& o) : group(g), device(d), options(o) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (comm == nullptr) return;
    const ncclComm_t c = comm;
    // Nobody waits for peers that this rank is about to leave.
    if (!unwinding() && !aborted() &&
        within(kCloseSeconds + 1, device, [c] { return finalized(c); }))
      within(kCloseSeconds, device, [c] { return nccl_library().destroy(c) == ncclSuccess; });
    else
      abort();
  }

  [[nodiscard]] bool unwinding() const { return std::uncaught_exceptions() > exceptions; }

  [[nodiscard]] bool aborted() const {
    try {
      group.throw_if_aborted("nccl");
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  void abort() noexcept {
    if (comm == nullptr) return;
    const ncclComm_t c = comm;
    comm = nullptr;
    if (options.before_abort) options.before_abort();
    within(kCloseSeconds, device, [c] { return nccl_library().abort(c) == ncclSuccess; });
  }

  [[noreturn]] void fail(ErrorKind kind, std::string_view what, const std::string& got) {
    abort();
    raise(kind, "nccl: {}: {}", what, got);
  }

  void require_alive(std::string_view what) const {
    if (comm == nullptr) raise(ErrorKind::system, "nccl: {}: the communicator was aborted", what);
  }

  void throw_if_aborted() {
    try {
      group.throw_if_aborted("nccl");
    } catch (const Error&) {
      abort();
      throw;
    }
  }

  /// NCCL does not wait in calls: what it returned is final once it is no longer in progress.
  void settle(ncclResult_t result, std::string_view what) {
    const NcclLibrary& lib = nccl_library();
    const comm::Deadline deadline("nccl", options.timeout_s);
    while (result == ncclInProgress) {
      throw_if_aborted();
      if (deadline.passed())
        fail(ErrorKind::timeout, what,
             fmt::format("did not finish within {:.3g} s", deadline.waited_s()));
      pause();
      ncclResult_t state = ncclSuccess;
      result = lib.async_error(comm, &state);
      if (result == ncclSuccess) result = state;
    }
    if (result == ncclSuccess) return;
    const char* detail = lib.last_error(comm);
    fail(result == ncclRemoteError ? ErrorKind::peer : ErrorKind::system, what,
         fmt::format("{} ({})", lib.error_string(result), detail == nullptr ? "" : detail));
  }

  void join(const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = options.blocking ? 1 : 0;
    if (options.most_ctas > 0) {
      config.minCTAs = 1;
      config.maxCTAs = options.most_ctas;
      // NCCL's own choice is clusters of four, for which the places that are left need not do: they
      // would have to lie in one group of multiprocessors.
      config.cgaClusterSize = 1;
    }
    settle(nccl_library().init(&comm, group.ranks(), id, group.rank(), &config),
           "ncclCommInitRank");
  }
};

NcclGroup::NcclGroup(comm::Group& group, int device, const NcclOptions& options)
    : state_(std::make_shared<State>(group, device, options)) {
  // A rank that cannot take part says so instead of staying away: first byte '!', then why.
  std::string mine = obstacle(options);
  ncclUniqueId id{};
  if (mine.empty() && group.rank() == 0) {
    const ncclResult_t got = nccl_library().unique_id(&id);
    if (got != ncclSuccess)
      mine = fmt::format("ncclGetUniqueId failed: {}", nccl_library().error_string(got));
  }
  mine = mine.empty() ? "+" + std::string(id.internal, sizeof id.internal) : "!" + mine;
  const auto all = group.all_gather(mine, options.timeout_s);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].at(0) == '!')
      raise(ErrorKind::system, "nccl: rank {}: {}", r, std::string_view(all[r]).substr(1));
  all[0].copy(id.internal, sizeof id.internal, 1);
  check(cudaSetDevice(device), "selecting the rank's device");
  state_->join(id);
}

NcclGroup::~NcclGroup() = default;

void NcclGroup::all_gather(const void* from, void* to, std::size_t count, DType type,
                           cudaStream_t stream) {
  State& s = *state_;
  s.require_alive("all_gather");
  s.settle(nccl_library().all_gather(from, to, count, type_of(type), s.comm, stream), "all_gather");
}

void NcclGroup::reduce_scatter(const void* from, void* to, std::size_t count, DType type,
                               cudaStream_t stream) {
  State& s = *state_;
  s.require_alive("reduce_scatter");
  s.settle(nccl_library().reduce_scatter(from, to, count, type_of(type), ncclSum, s.comm, stream),
           "reduce_scatter");
}

void NcclGroup::all_reduce(const void* from, void* to, std::size_t count, DType type,
                           cudaStream_t stream) {
  State& s = *state_;
  s.require_alive("all_reduce");
  s.settle(nccl_library().all_reduce(from, to, count, type_of(type), ncclSum, s.comm, stream),
           "all_reduce");
}

void NcclGroup::all_to_all(const void* from, void* to, std::size_t count, DType type,
                           cudaStream_t stream) {
  const NcclLibrary& lib = nccl_library();
  State& s = *state_;
  s.require_alive("all_to_all");
  if (lib.all_to_all != nullptr)
    return s.settle(lib.all_to_all(from, to, count, type_of(type), s.comm, stream), "all_to_all");
  s.settle(lib.group_start(), "ncclGroupStart");
  ncclResult_t first = ncclSuccess;  // what goes wrong; the group has to end all the same
  for (int r = 0; r < s.group.ranks(); ++r) {
    const std::size_t at = static_cast<std::size_t>(r) * count * size_of(type);
    const ncclResult_t sent =
        lib.send(static_cast<const std::byte*>(from) + at, count, type_of(type), r, s.comm, stream);
    const ncclResult_t received =
        lib.receive(static_cast<std::byte*>(to) + at, count, type_of(type), r, s.comm, stream);
    for (const ncclResult_t got : {sent, received})
      if (first == ncclSuccess && got != ncclInProgress) first = got;
  }
  const ncclResult_t ended = lib.group_end();
  s.settle(first, "all_to_all");
  s.settle(ended, "ncclGroupEnd");
}

void NcclGroup::exchange(const NcclExchange& e, cudaStream_t stream) {
  const NcclLibrary& lib = nccl_library();
  State& s = *state_;
  s.require_alive("exchange");
  s.settle(lib.group_start(), "ncclGroupStart");
  ncclResult_t sent = ncclSuccess;
  ncclResult_t received = ncclSuccess;
  if (e.sent > 0) sent = lib.send(e.from, e.sent, ncclInt8, e.to_rank, s.comm, stream);
  if (e.received > 0)
    received = lib.receive(e.to, e.received, ncclInt8, e.from_rank, s.comm, stream);
  const ncclResult_t ended = lib.group_end();  // also of a group that holds a mistake
  const auto bad = [](ncclResult_t r) { return r != ncclSuccess && r != ncclInProgress; };
  s.settle(bad(sent) ? sent : bad(received) ? received : ended, "ncclSend and ncclRecv");
}

std::string NcclGroup::trouble() const {
  const NcclLibrary& lib = nccl_library();
  const ncclComm_t comm = state_->comm;
  if (comm == nullptr) return "the communicator was aborted";
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = lib.async_error(comm, &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return {};
  const char* detail = lib.last_error(comm);
  return fmt::format("{} ({})", lib.error_string(state), detail == nullptr ? "" : detail);
}

void NcclGroup::throw_if_failed(std::string_view what) {
  State& s = *state_;
  s.throw_if_aborted();
  s.require_alive(what);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_library().async_error(s.comm, &state);
  s.settle(asked == ncclSuccess ? state : asked, what);
}

void NcclGroup::finish(cudaStream_t stream, std::string_view what, double timeout_s) {
  const comm::Deadline deadline("nccl", timeout_s);
  cudaError_t done = cudaStreamQuery(stream);
  for (; done == cudaErrorNotReady; done = cudaStreamQuery(stream)) {
    throw_if_failed(what);
    if (deadline.passed())
      state_->fail(ErrorKind::timeout, what,
                   fmt::format("the device did not finish within {} s (rank {})", timeout_s,
                               state_->group.rank()));
    pause();
  }
  check(done, std::string(what).c_str());
}

void NcclGroup::abort() noexcept { state_->abort(); }

struct NcclMemory::Impl {
  std::shared_ptr<NcclGroup::State> state;
  std::size_t bytes = 0;
  NcclBuffer kind = NcclBuffer::plain;
  void* data = nullptr;
  void* handle = nullptr;  // of a registration
  ncclWindow_t window = nullptr;
  bool ours = true;  // cudaMalloc's

  ~Impl() {
    const NcclLibrary& lib = nccl_library();
    // Freeing waits for the device, where a collective may wait for a peer.
    if (state->unwinding()) state->abort();
    if (state->comm != nullptr && window != nullptr) lib.window_withdraw(state->comm, window);
    if (state->comm != nullptr && handle != nullptr) lib.withdraw(state->comm, handle);
    if (data == nullptr) return;
    if (ours)
      cudaFree(data);
    else
      lib.mem_free(data);
  }

  /// Where windows are not supported NCCL says success, and returns no window on the device.
  [[nodiscard]] bool is_window() const {
    cudaPointerAttributes attributes{};
    if (window == nullptr || cudaPointerGetAttributes(&attributes, window) != cudaSuccess)
      return false;
    return attributes.type == cudaMemoryTypeDevice;
  }
};

NcclMemory::NcclMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NcclMemory::~NcclMemory() = default;
std::byte* NcclMemory::data() const { return static_cast<std::byte*>(impl_->data); }
std::size_t NcclMemory::bytes() const { return impl_->bytes; }
NcclBuffer NcclMemory::kind() const { return impl_->kind; }

std::unique_ptr<NcclMemory> NcclGroup::allocate(std::size_t bytes, NcclBuffer kind) {
  const NcclLibrary& lib = nccl_library();
  State& s = *state_;
  s.require_alive("memory");
  auto impl = std::make_unique<NcclMemory::Impl>();
  impl->state = state_;
  impl->bytes = bytes;
  impl->ours = kind == NcclBuffer::plain;
  if (impl->ours) {
    check(cudaMalloc(&impl->data, bytes), "memory for NCCL");
    return std::unique_ptr<NcclMemory>(new NcclMemory(std::move(impl)));
  }
  s.settle(lib.mem_alloc(&impl->data, bytes), "ncclMemAlloc");
  impl->kind = NcclBuffer::registered;
  if (kind == NcclBuffer::window && lib.window_enroll != nullptr &&
      lib.window_withdraw != nullptr) {
    const ncclResult_t begun =
        lib.window_enroll(s.comm, impl->data, bytes, &impl->window, NCCL_WIN_COLL_SYMMETRIC);
    // NCCL 2.28 returns success while a thread of its own still registers: until the communicator
    // says so, too, there is no window to look at, and the memory has to stay.
    s.settle(begun == ncclSuccess ? ncclInProgress : begun, "ncclCommWindowRegister");
  }
  if (impl->window == nullptr)
    s.settle(lib.enroll(s.comm, impl->data, bytes, &impl->handle), "ncclCommRegister");
  else if (impl->is_window())
    impl->kind = NcclBuffer::window;
  return std::unique_ptr<NcclMemory>(new NcclMemory(std::move(impl)));
}

}  // namespace tilelace::cuda
