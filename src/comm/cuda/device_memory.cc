// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/device_memory.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "comm/cuda/address_range.h"
#include "comm/cuda/agreement.h"
#include "comm/members.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr std::string_view kOp = "allocate_device";

/// What every rank tells before anything is made.
struct Offer {
  std::uint64_t bytes = 0;
  std::uint64_t granularity = 0;
  std::int32_t device = 0;  ///< CUDA ordinal, in its own process
  std::array<char, 16> uuid{};
};
static_assert(std::is_trivially_copyable_v<Offer>);

class MappedMemory final : public DeviceMemory {
 public:
  MappedMemory(std::shared_ptr<AddressRange> range, const Layout& layout, SetupFacts facts)
      : DeviceMemory(layout, std::move(facts)), range_(std::move(range)) {}
  using DeviceMemory::Layout;

 private:
  std::shared_ptr<AddressRange> range_;  ///< of all ranks where they are threads
};

class Clock {
 public:
  double lap_us() {
    const auto now = std::chrono::steady_clock::now();
    const double us = std::chrono::duration<double, std::micro>(now - last_).count();
    last_ = now;
    return us;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Offer make_offer(int device, std::size_t bytes) {
  const CUdevice handle = device_handle(device, kOp);
  CUuuid uuid{};
  require_driver(driver(kOp).device_uuid(&uuid, handle), kOp, "cuDeviceGetUuid");
  const bool able =
      device_attribute(handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, kOp) != 0;
  if (!able)
    raise(ErrorKind::system, "{}: device {} without virtual memory management, expected it", kOp,
          device);
  const DeviceScope scope(device, kOp);  // peers may open their memory to it once it has a context
  Offer offer{bytes, recommended_granularity(handle, kOp), device, {}};
  std::memcpy(offer.uuid.data(), uuid.bytes, offer.uuid.size());
  return offer;
}

std::vector<Offer> exchange_offers(const Agreement& agreement, int device, std::size_t bytes) {
  const std::vector<std::string> said = agreement.round([&] {
    const Offer offer = make_offer(device, bytes);
    return std::string(reinterpret_cast<const char*>(&offer), sizeof offer);
  });
  std::vector<Offer> offers(said.size());
  std::vector<std::uint64_t> sizes;
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].size() != sizeof(Offer))
      raise(ErrorKind::peer, "{}: offer of rank {} has {} bytes, expected {}", kOp, r,
            said[r].size(), sizeof(Offer));
    std::memcpy(&offers[r], said[r].data(), sizeof(Offer));
    sizes.push_back(offers[r].bytes);
  }
  require_same_bytes(sizes);
  return offers;
}

/// The same on every rank. Error: usage, if the addresses do not suffice.
std::size_t stride_for(const std::vector<Offer>& offers) {
  std::size_t granularity = 1;
  for (const Offer& offer : offers) granularity = std::max(granularity, offer.granularity);
  const std::size_t bytes = std::max<std::size_t>(offers[0].bytes, 1);
  const std::size_t most = (std::size_t{1} << 46) / offers.size();
  require(bytes <= most, "{}: {} bytes on each of {} ranks, expected at most {}", kOp, bytes,
          offers.size(), most);
  return (bytes + granularity - 1) / granularity * granularity;
}

/// This process's ordinal of a rank's GPU; -1 where it cannot see it.
int visible_ordinal(const Offer& offer) {
  int count = 0;
  require_runtime(cudaGetDeviceCount(&count), kOp, "cudaGetDeviceCount");
  for (int i = 0; i < count; ++i) {
    CUuuid uuid{};
    require_driver(driver(kOp).device_uuid(&uuid, device_handle(i, kOp)), kOp, "cuDeviceGetUuid");
    if (std::memcmp(uuid.bytes, offer.uuid.data(), offer.uuid.size()) == 0) return i;
  }
  return -1;
}

/// A GPU that is hidden from this process cannot be asked about: mapping its memory will tell.
void require_peer_access(const std::vector<Offer>& offers, int rank) {
  const Offer& own = offers[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].uuid == own.uuid) continue;
    const int ordinal = visible_ordinal(offers[r]);
    if (ordinal < 0) continue;
    int can = 0;
    require_driver(driver(kOp).can_access_peer(&can, device_handle(own.device, kOp),
                                               device_handle(ordinal, kOp)),
                   kOp, "cuDeviceCanAccessPeer");
    if (can == 0)
      raise(ErrorKind::system,
            "{}: rank {} (device {}) has no peer access to rank {} (device {}), expected it", kOp,
            rank, own.device, r, ordinal);
  }
}

void fill_with_zeros(int device, std::byte* at, std::size_t bytes) {
  const DeviceScope scope(device, kOp);
  cudaStream_t stream = nullptr;
  require_runtime(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), kOp,
                  "cudaStreamCreate");
  cudaError_t result = cudaMemsetAsync(at, 0, bytes, stream);
  if (result == cudaSuccess) result = cudaStreamSynchronize(stream);
  const cudaError_t destroyed = cudaStreamDestroy(stream);
  require_runtime(result == cudaSuccess ? destroyed : result, kOp, "filling with zeros");
}

/// Local: maps everyone's memory into a range of this process.
std::shared_ptr<AddressRange> map_all(const std::vector<Offer>& offers, int rank,
                                      std::size_t stride, const MemoryHandle& own,
                                      const std::vector<UniqueFd>& fds) {
  const int ranks = static_cast<int>(offers.size());
  const Offer& mine = offers[static_cast<std::size_t>(rank)];
  const std::array<CUdevice, 1> device{device_handle(mine.device, kOp)};
  auto range = std::make_shared<AddressRange>(ranks, stride, mine.granularity, kOp);
  for (int r = 0; r < ranks; ++r) {
    if (r == rank) {
      range->map(r, own, device, kOp);
    } else {
      range->map(r, import_memory(fds[static_cast<std::size_t>(r)].get(), kOp), device, kOp);
    }
  }
  return range;
}

/// Each device once: the driver takes no list that names one twice.
std::vector<CUdevice> devices_of(const std::vector<Offer>& offers) {
  std::vector<CUdevice> devices;
  for (const Offer& offer : offers) devices.push_back(device_handle(offer.device, kOp));
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// One allocation on its way, from this rank's side.
struct Setup {
  Group& group;
  const Agreement& agreement;
  const std::vector<Offer>& offers;
  std::size_t stride;
  PhysicalMemory own{};
  std::shared_ptr<AddressRange> range{};
  SetupFacts facts{};
  Clock clock{};
  UniqueFd exported{};
  std::vector<UniqueFd> imported{};

  [[nodiscard]] const Offer& mine() const { return offers[static_cast<std::size_t>(group.rank())]; }

  void create() {
    agreement.round([&] {
      require_peer_access(offers, group.rank());
      clock.lap_us();
      own = create_memory(device_handle(mine().device, kOp), stride, kOp);
      facts.create_us = clock.lap_us();
      if (!group.one_process()) exported = export_memory(own.handle, kOp);
      return std::string();
    });
    facts.fabric = own.fabric;
    facts.fabric_reason = own.fabric_reason;
  }

  void exchange() {
    clock.lap_us();
    if (group.one_process()) {
      const auto reserve = [this] {
        return std::make_shared<AddressRange>(group.ranks(), stride, mine().granularity, kOp);
      };
      range =
          std::static_pointer_cast<AddressRange>(group.make_together(reserve, agreement.left_s()));
    } else {
      imported = group.exchange_descriptor(exported.get(), agreement.left_s());
    }
    facts.exchange_us = clock.lap_us();
  }

  /// Nobody goes on before all have mapped: either everyone has the memory or everyone an error.
  void map() {
    agreement.round([&] {
      clock.lap_us();
      if (group.one_process()) {
        range->map(group.rank(), own.handle, devices_of(offers), kOp);
      } else {
        range = map_all(offers, group.rank(), stride, own.handle, imported);
      }
      facts.map_us = clock.lap_us();
      fill_with_zeros(mine().device, range->at(group.rank()), stride);
      facts.zero_us = clock.lap_us();
      return std::string();
    });
  }
};

}  // namespace

DeviceMemory::~DeviceMemory() = default;

std::shared_ptr<DeviceMemory> allocate_device(Group& group, int device, std::size_t bytes,
                                              double timeout_s) {
  const Agreement agreement(group, kOp, timeout_s);
  const std::vector<Offer> offers = exchange_offers(agreement, device, bytes);
  Setup setup{group, agreement, offers, stride_for(offers)};
  setup.create();
  setup.exchange();
  setup.map();
  const MappedMemory::Layout layout{setup.range->at(0), bytes,         setup.stride,
                                    group.rank(),       group.ranks(), device};
  return std::make_shared<MappedMemory>(std::move(setup.range), layout, std::move(setup.facts));
}

}  // namespace tilelace::comm
