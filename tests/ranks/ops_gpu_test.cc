// SPDX-License-Identifier: Apache-2.0
// GPU ranks where there is no GPU, and what their part of the API does on CPU ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "backend/cuda_support.h"
#include "tilelace/c.h"
#include "tilelace/tilelace.h"

namespace tilelace {
namespace {

CommunicatorOptions on_gpus() {
  CommunicatorOptions o;
  o.device = Device::cuda;
  return o;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return {ErrorKind::peer, "no error"};
}

void expect_error(const std::function<void()>& call, ErrorKind kind, const std::string& text) {
  const Error e = error_of(call);
  EXPECT_EQ(e.kind(), kind) << e.what();
  EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
}

TEST(GpuRanks, SayWhyThereAreNone) {
  const std::string why = cuda_missing();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  const bool built = why.find("built without CUDA") == std::string::npos;
  const Error e = error_of([] { Communicator::threads(2, on_gpus()); });
  // A build without CUDA is a wrong wish; a machine without a driver is the system's fault.
  EXPECT_EQ(e.kind(), built ? ErrorKind::system : ErrorKind::usage) << e.what();
  EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what() << "\n" << why;
}

TEST(GpuRanks, RefuseOptionsOfCpuRanks) {
  auto o = on_gpus();
  o.workers = 2;
  expect_error([&] { Communicator::threads(1, o); }, ErrorKind::usage, "workers on GPUs: got 2");
  o = on_gpus();
  o.link_bytes_per_s = 1e9;
  expect_error([&] { Communicator::threads(1, o); }, ErrorKind::usage,
               "emulated links are for CPU ranks");
  o = on_gpus();
  o.checked = true;
  expect_error([&] { Communicator::threads(1, o); }, ErrorKind::usage,
               "checked mode is for CPU ranks");
  o = on_gpus();
  o.device_index = 0;
  expect_error([&] { Communicator::threads(2, o); }, ErrorKind::usage,
               "each thread takes the GPU of its rank");
  o = {};
  o.device_index = 0;
  expect_error([&] { Communicator::threads(1, o); }, ErrorKind::usage, "got 0 for CPU ranks");
  o.device = static_cast<Device>(7);
  expect_error([&] { Communicator::threads(1, o); }, ErrorKind::usage, "device: got the unknown");
}

TEST(CpuRanks, SynchronizeAtOnce) {
  auto comms = Communicator::threads(1);
  comms[0].synchronize();
  comms[0].synchronize(nullptr, 1);
  expect_error([&] { comms[0].synchronize(nullptr, 0); }, ErrorKind::usage, "bound: got 0 s");
}

TEST(CpuRanks, HaveDeviceBuffersOnTheHost) {
  auto comms = Communicator::threads(1);
  DeviceBuffer buffer(comms[0], 10);
  EXPECT_EQ(buffer.bytes(), 10U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
  std::vector<char> got(10, 'x');
  buffer.download(got.data(), 10);
  EXPECT_EQ(got, std::vector<char>(10, 0));
  buffer.upload("abc", 3, 7);
  buffer.download(got.data(), 4, 6);
  EXPECT_EQ(std::memcmp(got.data(), "\0abc", 4), 0);
  expect_error([&] { buffer.upload("abc", 3, 8); }, ErrorKind::usage,
               "3 bytes from byte 8 on exceed the buffer's 10 bytes");
  expect_error([&] { buffer.download(got.data(), 1, 11); }, ErrorKind::usage,
               "exceed the buffer's 10 bytes");
  DeviceBuffer none(comms[0], 0);
  none.upload(nullptr, 0);
}

class Launched : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : kNames) unsetenv(name);
  }
  static constexpr const char* kNames[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
                                           "MASTER_PORT"};
};

TEST_F(Launched, NeedsALauncher) {
  for (const char* name : kNames) unsetenv(name);
  expect_error([] { Communicator::launched(); }, ErrorKind::usage, "RANK is not set");
}

TEST_F(Launched, IsTheRankThatTheLauncherSays) {
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "1", 1);
  setenv("LOCAL_RANK", "0", 1);
  setenv("MASTER_PORT", "29517", 1);
  Communicator alone = Communicator::launched();
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  alone.barrier();
}

TEST(CApi, HasDeviceBuffersAndSynchronize) {
  tilelace_communicator* comm = nullptr;
  ASSERT_EQ(tilelace_communicator_threads(1, nullptr, &comm), TILELACE_OK);
  tilelace_device_buffer* buffer = nullptr;
  ASSERT_EQ(tilelace_device_buffer_create(comm, 4, &buffer), TILELACE_OK);
  EXPECT_NE(tilelace_device_buffer_data(buffer), nullptr);
  EXPECT_EQ(tilelace_device_buffer_upload(buffer, "wxyz", 4, 0), TILELACE_OK);
  char got[2];
  EXPECT_EQ(tilelace_device_buffer_download(buffer, got, 2, 2), TILELACE_OK);
  EXPECT_EQ(std::memcmp(got, "yz", 2), 0);
  EXPECT_EQ(tilelace_device_buffer_download(buffer, got, 2, 3), TILELACE_USAGE);
  EXPECT_EQ(tilelace_synchronize(comm, nullptr), TILELACE_OK);
  EXPECT_EQ(tilelace_synchronize(nullptr, nullptr), TILELACE_USAGE);
  tilelace_device_buffer_destroy(buffer);
  tilelace_communicator_destroy(comm);
  tilelace_options options{};
  options.struct_size = sizeof options;
  options.device = 9;
  EXPECT_EQ(tilelace_communicator_threads(1, &options, &comm), TILELACE_USAGE);
  options.device = TILELACE_CPU;
  options.gpu = 1;  // of CPU ranks
  EXPECT_EQ(tilelace_communicator_threads(1, &options, &comm), TILELACE_USAGE);
}

}  // namespace
}  // namespace tilelace
