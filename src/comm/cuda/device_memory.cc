// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/device_memory.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "comm/cuda/address_range.h"
#include "comm/cuda/agreement.h"
#include "comm/cuda/multicast.h"
#include "comm/cuda/peer_access.h"
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
  std::int32_t multicast = 0;
  std::array<char, 16> uuid{};
};
static_assert(std::is_trivially_copyable_v<Offer>);

class MappedMemory final : public DeviceMemory {
 public:
  MappedMemory(std::shared_ptr<AddressRange> range, std::unique_ptr<MulticastMapping> multicast,
               const Layout& layout, SetupFacts facts)
      : DeviceMemory(layout, std::move(facts)),
        range_(std::move(range)),
        multicast_(std::move(multicast)) {}
  using DeviceMemory::Layout;

 private:
  std::shared_ptr<AddressRange> range_;          ///< of all ranks where they are threads
  std::unique_ptr<MulticastMapping> multicast_;  ///< goes before the memory in it
};

/// What one rank asks for.
struct Request {
  int ranks = 1;
  int device = 0;
  std::size_t bytes = 0;
  bool multicast = false;
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

Offer make_offer(const Request& request) {
  const int device = request.device;
  const CUdevice handle = device_handle(device, kOp);
  CUuuid uuid{};
  require_driver(driver(kOp).device_uuid(&uuid, handle), kOp, "cuDeviceGetUuid");
  const bool able =
      device_attribute(handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, kOp) != 0;
  if (!able)
    raise(ErrorKind::system,
          "{}: device {} has no virtual memory management, which symmetric memory needs", kOp,
          device);
  const DeviceScope scope(device, kOp);  // peers may open their memory to it once it has a context
  Offer offer{request.bytes, recommended_granularity(handle, kOp), device, 0, {}};
  if (request.multicast) {
    offer.multicast = 1;
    offer.granularity = std::max<std::uint64_t>(
        offer.granularity,
        multicast_granularity(MulticastPermit::ask(true, kOp), handle, request.ranks,
                              std::max<std::size_t>(request.bytes, 1), kOp));
  }
  std::memcpy(offer.uuid.data(), uuid.bytes, offer.uuid.size());
  return offer;
}

/// Every rank asks for the same; with multicast none shares its device.
void require_same_multicast(const std::vector<Offer>& offers) {
  for (std::size_t r = 0; r < offers.size(); ++r) {
    require(offers[r].multicast == offers[0].multicast,
            "{}: rank {} passed multicast {}, rank 0 passed {}: pass the same on every rank", kOp,
            r, offers[r].multicast, offers[0].multicast);
    for (std::size_t q = 0; q < r && offers[0].multicast != 0; ++q)
      require(offers[r].uuid != offers[q].uuid,
              "{}: multicast needs a device for every rank, but ranks {} and {} share one", kOp, q,
              r);
  }
}

std::vector<Offer> exchange_offers(const Agreement& agreement, const Request& request) {
  const std::vector<std::string> said = agreement.round([&] {
    const Offer offer = make_offer(request);
    return std::string(reinterpret_cast<const char*>(&offer), sizeof offer);
  });
  std::vector<Offer> offers(said.size());
  std::vector<std::uint64_t> sizes;
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].size() != sizeof(Offer))
      raise(
          ErrorKind::peer,
          "{}: rank {} sent {} bytes of setup data, expected {}: all ranks must run the same build",
          kOp, r, said[r].size(), sizeof(Offer));
    std::memcpy(&offers[r], said[r].data(), sizeof(Offer));
    sizes.push_back(offers[r].bytes);
  }
  require_same_bytes(sizes);
  require_same_multicast(offers);
  return offers;
}

/// The same on every rank. Error: usage, if the addresses do not suffice.
std::size_t stride_for(const std::vector<Offer>& offers) {
  std::size_t granularity = 1;
  for (const Offer& offer : offers) granularity = std::max(granularity, offer.granularity);
  const std::size_t bytes = std::max<std::size_t>(offers[0].bytes, 1);
  const std::size_t most = (std::size_t{1} << 46) / offers.size();
  require(bytes <= most, "{}: got {} bytes on each of {} ranks, expected at most {}", kOp, bytes,
          offers.size(), most);
  return (bytes + granularity - 1) / granularity * granularity;
}

void require_peer_access(const std::vector<Offer>& offers, int rank) {
  const Offer& own = offers[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].uuid == own.uuid) continue;
    const PeerAccess access = peer_access(own.device, uuid_text(offers[r].uuid));
    if (!access.granted)
      raise(ErrorKind::system,
            "{}: rank {} (device {}) has no peer access to rank {} (device {}): see the links in "
            "`tilelace doctor`",
            kOp, rank, own.device, r, access.device);
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
  std::unique_ptr<MulticastMapping> multicast{};

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

  /// The object is one rank's, joined by all, then tied to each one's memory.
  void map_multicast() {
    if (offers[0].multicast == 0) return;
    const MulticastPermit permit = MulticastPermit::ask(true, kOp);
    const auto object = share_object(permit);
    const CUdevice device = device_handle(mine().device, kOp);
    agreement.round([&] {
      object->join(permit, device, kOp);
      return std::string();
    });
    agreement.round([&] {
      multicast = std::make_unique<MulticastMapping>(permit, object, device, own.handle, stride,
                                                     mine().granularity, kOp);
      return std::string();
    });
  }

  std::shared_ptr<MulticastObject> share_object(const MulticastPermit& permit) {
    const auto make = [&] {
      return std::make_shared<MulticastObject>(permit, group.ranks(), stride, kOp);
    };
    if (group.one_process())
      return std::static_pointer_cast<MulticastObject>(
          group.make_together(make, agreement.left_s()));
    std::shared_ptr<MulticastObject> object;
    UniqueFd shared;
    agreement.round([&] {
      if (group.rank() == 0) {
        object = make();
        shared = object->share(kOp);
      }
      return std::string();
    });
    // Everyone passes a descriptor; that of rank 0 counts.
    const auto all = group.exchange_descriptor(group.rank() == 0 ? shared.get() : exported.get(),
                                               agreement.left_s());
    agreement.round([&] {
      if (group.rank() != 0) object = std::make_shared<MulticastObject>(permit, all[0].get(), kOp);
      return std::string();
    });
    return object;
  }
};

}  // namespace

DeviceMemory::~DeviceMemory() = default;

std::shared_ptr<DeviceMemory> allocate_device(Group& group, int device, std::size_t bytes,
                                              double timeout_s, bool multicast) {
  const Agreement agreement(group, kOp, timeout_s);
  const std::vector<Offer> offers =
      exchange_offers(agreement, {group.ranks(), device, bytes, multicast});
  Setup setup{group, agreement, offers, stride_for(offers)};
  setup.create();
  setup.exchange();
  setup.map();
  setup.map_multicast();
  const MappedMemory::Layout layout{setup.range->at(0),
                                    bytes,
                                    setup.stride,
                                    group.rank(),
                                    group.ranks(),
                                    device,
                                    setup.multicast != nullptr ? setup.multicast->base() : nullptr};
  return std::make_shared<MappedMemory>(std::move(setup.range), std::move(setup.multicast), layout,
                                        std::move(setup.facts));
}

}  // namespace tilelace::comm
