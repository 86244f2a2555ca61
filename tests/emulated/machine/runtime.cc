// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA runtime that the library uses, on the machine: memory, streams, events,
// graphs, launches. Streams and graphs are chains of Ops.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "machine/driver.h"
#include "machine/machine.h"

using namespace tilelace::emulated;

namespace {

struct Kernel {
  std::size_t bytes;
  Call call;
};
std::mutex tables;
std::unordered_map<const void*, Kernel>& kernels() {
  static auto* const all = new std::unordered_map<const void*, Kernel>;
  return *all;
}

thread_local int current = 0;

using Step = std::function<void(Op&)>;  ///< makes what an Op does

/// A recorded operation, and those it follows.
struct Node {
  Step make;
  std::vector<int> after;
  bool early = false;
};

struct Capture {
  unsigned long long id = 0;
  std::vector<Node> nodes;
};

}  // namespace

struct CUstream_st {
  int device = 0;
  unsigned long long id = 0;
  std::shared_ptr<Op> last;
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier;  ///< of the capture
};
struct CUevent_st {
  std::shared_ptr<Op> op;
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier;
  std::chrono::steady_clock::time_point when;
};
struct CUgraph_st {
  std::shared_ptr<Capture> capture;
};
struct CUgraphExec_st {
  std::shared_ptr<Capture> capture;
};

namespace {

CUstream_st& of(cudaStream_t stream) {
  static auto* const nulls = new std::map<int, CUstream_st>;
  if (stream != nullptr) {
    if (stream->capture && stream->capture->id == 0) {  // it joined one that has ended
      stream->capture.reset();
      stream->frontier.clear();
    }
    return *stream;
  }
  const std::scoped_lock lock(tables);
  auto& s = (*nulls)[current];
  s.device = current;
  return s;
}

/// Behind all that the stream has; `early`: from when that has nothing against it.
void enqueue(cudaStream_t stream, const Step& make, bool early = false) {
  CUstream_st& s = of(stream);
  if (s.capture) {
    s.capture->nodes.push_back({make, s.frontier, early && s.frontier.size() == 1});
    s.frontier = {static_cast<int>(s.capture->nodes.size()) - 1};
    return;
  }
  auto op = std::make_shared<Op>();
  op->device = s.device;
  if (s.last) {
    op->after = {s.last};
    if (early) op->early = s.last;
  }
  make(*op);
  s.last = op;
  Machine::get().enqueue(op);
}

void enqueue_action(cudaStream_t stream, std::function<void()> action) {
  enqueue(stream, [action = std::move(action)](Op& op) { op.action = action; });
}

/// Pieces come in any order, as far as others can tell.
void copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
          std::size_t width, std::size_t rows) {
  Machine& m = Machine::get();
  // A flag that comes behind its data on the same stream: copy engines keep that order.
  const bool is_flag = order::is_on() && rows == 1 && width <= sizeof(std::uint64_t);
  if (is_flag) order::release(m.knower(), to, Machine::scope(true), false);
  for (std::size_t r = 0; r < rows && order::is_on(); ++r) {
    const auto* const source = static_cast<const std::byte*>(from) + r * from_pitch;
    order::touch(m.knower(), order::Access::read, source, width, nullptr);
    if (!is_flag)
      order::touch(m.knower(), order::Access::write, static_cast<std::byte*>(to) + r * to_pitch,
                   width, nullptr);
  }
  for (std::size_t r = 0; r < rows; ++r)
    std::memmove(static_cast<std::byte*>(to) + r * to_pitch,
                 static_cast<const std::byte*>(from) + r * from_pitch, width);
}

}  // namespace

namespace tilelace::emulated {

const void* add_kernel(const void* kernel, std::size_t bytes, Call call) {
  const std::scoped_lock lock(tables);
  kernels()[kernel] = {bytes, call};
  return kernel;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const std::function<void()>& body) {
  bool early = false;
  unsigned cluster = 1;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& a = config.attrs[i];
    if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      early = a.val.programmaticStreamSerializationAllowed != 0;
    if (a.id == cudaLaunchAttributeClusterDimension) cluster = a.val.clusterDim.x;
  }
  const auto make = [=](Op& op) {
    op.launch = std::make_unique<Launch>();
    op.launch->grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
    op.launch->block = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
    op.launch->cluster = static_cast<int>(cluster);
    op.launch->shared = config.dynamicSmemBytes;
    op.launch->body = body;
  };
  enqueue(config.stream, make, early);
  return cudaSuccess;
}

void launch_plain(dim3 grid, dim3 block, cudaStream_t stream, const std::function<void()>& body) {
  enqueue_action(stream, [=] {
    Machine::get().run_plain({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, body);
  });
}

}  // namespace tilelace::emulated

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine::get().devices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Machine::get().await_device(current);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = device_attribute(static_cast<int>(attribute));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->major = Machine::get().capability() / 10;
  properties->minor = Machine::get().capability() % 10;
  cudaDeviceGetAttribute(&properties->multiProcessorCount, cudaDevAttrMultiProcessorCount, device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulation"; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* how) {
  *function = driver_function(name);
  if (how != nullptr)
    *how = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// ---- memory ----
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = take_memory(bytes, current, cudaMemoryTypeDevice);
  return *p == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  Machine::get().await_device(current);
  give_memory(p);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  *p = take_memory(bytes, current, cudaMemoryTypeHost);
  return *p == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
cudaError_t cudaFreeHost(void* p) {
  give_memory(p);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, std::size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  *a = {};
  const Memory memory = find_memory(p);
  a->type = static_cast<cudaMemoryType>(memory.type);
  a->device = memory.device;
  a->devicePointer = a->hostPointer = const_cast<void*>(p);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) {
    const auto* const begin = static_cast<const std::byte*>(from);
    enqueue_action(stream, [to, bytes, held = std::vector<std::byte>(begin, begin + bytes)] {
      copy(to, bytes, held.data(), bytes, bytes, 1);
    });
  } else {
    // To the host: whether that is too soon is for whoever asked, as the watch of stalls does.
    enqueue_action(stream, [=] {
      if (kind == cudaMemcpyDeviceToHost)
        std::memcpy(to, from, bytes);
      else
        copy(to, bytes, from, bytes, bytes, 1);
    });
  }
  const bool waits = kind == cudaMemcpyDeviceToHost && find_memory(to).type == 0;
  return waits ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t rows,
                              cudaMemcpyKind, cudaStream_t stream) {
  enqueue_action(stream, [=] { copy(to, to_pitch, from, from_pitch, width, rows); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue_action(stream, [=] {
    if (order::is_on() && bytes > 0)
      order::touch(Machine::get().knower(), order::Access::write, to, bytes, nullptr);
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

// ---- streams and events ----
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static std::atomic<unsigned long long> streams{0};
  *stream = new CUstream_st{current, ++streams, {}, {}, {}};
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Machine::get().await(stream->last);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine::get().await(of(stream).last);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Machine::get().is_done(of(stream).last) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = of(stream).id;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  *device = of(stream).device;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CUstream_st& s = of(stream);
  event->capture = s.capture;
  event->frontier = s.frontier;
  if (s.capture) return cudaSuccess;
  enqueue_action(stream, [=] { event->when = std::chrono::steady_clock::now(); });
  event->op = s.last;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CUstream_st& s = of(stream);
  if (event->capture) {
    if (!s.capture) {
      s.capture = event->capture;
      s.frontier.clear();
    }
    for (const int node : event->frontier)
      if (std::find(s.frontier.begin(), s.frontier.end(), node) == s.frontier.end())
        s.frontier.push_back(node);
    return cudaSuccess;
  }
  if (event->op) enqueue(stream, [event](Op& op) { op.after.push_back(event->op); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Machine::get().await(event->op);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->when - begin->when).count();
  return cudaSuccess;
}

// ---- captures and graphs ----
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  static std::atomic<unsigned long long> captures{0};
  stream->capture = std::make_shared<Capture>();
  stream->capture->id = ++captures;
  stream->frontier.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = new CUgraph_st{stream->capture};
  stream->capture->id = 0;
  stream->capture.reset();
  stream->frontier.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, std::size_t*) {
  const CUstream_st& s = of(stream);
  *status = s.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id != nullptr) *id = s.capture ? s.capture->id : 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = new CUgraphExec_st{graph->capture};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  CUstream_st& s = of(stream);
  std::vector<std::shared_ptr<Op>> ops;
  auto sink = std::make_shared<Op>();
  sink->device = s.device;
  if (s.last) sink->after.push_back(s.last);
  for (const Node& node : graph->capture->nodes) {
    auto op = std::make_shared<Op>();
    op->device = s.device;
    node.make(*op);
    if (s.last) op->after.push_back(s.last);
    for (const int before : node.after)
      op->after.push_back(ops.at(static_cast<std::size_t>(before)));
    if (node.early) op->early = op->after.back();
    sink->after.push_back(op);
    ops.push_back(std::move(op));
  }
  ops.push_back(sink);
  s.last = sink;
  for (const auto& op : ops) Machine::get().enqueue(op);
  return cudaSuccess;
}

// ---- kernels ----
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  Kernel kernel{};
  {
    const std::scoped_lock lock(tables);
    kernel = kernels().at(function);
  }
  // As aligned as the strictest parameters are.
  const std::shared_ptr<void> params(std::aligned_alloc(128, (kernel.bytes + 127) / 128 * 128),
                                     std::free);
  std::memcpy(params.get(), arguments[0], kernel.bytes);
  return launch(*config, [=] { kernel.call(function, params.get()); });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = const_cast<void*>(symbol);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*,
                                           const cudaLaunchConfig_t* config) {
  int size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      size = static_cast<int>(config->attrs[i].val.clusterDim.x);
  *clusters = size > 8 ? 0 : Machine::get().multiprocessors() / size;
  return cudaSuccess;
}

}  // extern "C"
