// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/peer_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/cuda/driver.h"

namespace tilelace::comm {
namespace {

constexpr const char* kOp = "peer access";

}  // namespace

std::string uuid_text(const std::array<char, 16>& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", dash ? "-" : "", static_cast<unsigned char>(uuid[i]));
  }
  return text;
}

std::string uuid_of(int device) {
  CUuuid uuid{};
  require_driver(driver(kOp).device_uuid(&uuid, device_handle(device, kOp)), kOp,
                 "cuDeviceGetUuid");
  std::array<char, 16> bytes{};
  std::copy_n(uuid.bytes, bytes.size(), bytes.begin());
  return uuid_text(bytes);
}

PeerAccess peer_access(int device, std::string_view uuid) {
  int count = 0;
  require_runtime(cudaGetDeviceCount(&count), kOp, "cudaGetDeviceCount");
  for (int other = 0; other < count; ++other) {
    if (uuid_of(other) != uuid) continue;
    int can = 0;
    require_driver(
        driver(kOp).can_access_peer(&can, device_handle(device, kOp), device_handle(other, kOp)),
        kOp, "cuDeviceCanAccessPeer");
    return {other, can != 0};
  }
  return {};
}

}  // namespace tilelace::comm
