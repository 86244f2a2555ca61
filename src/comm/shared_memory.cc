// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

#include "comm/failure.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL, which older headers lack
/// More than this no address space has.
constexpr std::size_t kMaxRange = std::size_t{1} << 46;

std::shared_ptr<SymmetricMemory> map_range(std::size_t bytes, int ranks, int protection,
                                           int flags) {
  const std::size_t stride = stride_of(bytes, ranks);
  const std::size_t total = stride * static_cast<std::size_t>(ranks);
  void* base = mmap(nullptr, total, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (base == MAP_FAILED)
    raise(ErrorKind::system, "allocate: mmap of {} bytes failed: {}", total, errno_text(errno));
  return std::make_shared<SymmetricMemory>(static_cast<std::byte*>(base), ranks, bytes, stride);
}

}  // namespace

SymmetricMemory::~SymmetricMemory() { munmap(base_, stride_ * static_cast<std::size_t>(ranks_)); }

std::size_t stride_of(std::size_t bytes, int ranks) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  require(bytes <= kMaxRange / static_cast<std::size_t>(ranks),
          "allocate: bytes: got {} on each of {} ranks, expected at most {} on all ranks together",
          bytes, ranks, kMaxRange);
  return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

std::shared_ptr<SymmetricMemory> make_anonymous(std::size_t bytes, int ranks) {
  return map_range(bytes, ranks, PROT_READ | PROT_WRITE, 0);
}

std::shared_ptr<SymmetricMemory> reserve(std::size_t bytes, int ranks) {
  return map_range(bytes, ranks, PROT_NONE, MAP_NORESERVE);
}

UniqueFd make_sealed_memfd(std::size_t stride) {
  UniqueFd fd(memfd_create("tilelace", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd && errno == EINVAL) fd.reset(memfd_create("tilelace", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) raise(ErrorKind::system, "allocate: memfd_create failed: {}", errno_text(errno));
  if (fchmod(fd.get(), 0600) != 0)
    raise(ErrorKind::system, "allocate: fchmod of a memfd failed: {}", errno_text(errno));
  if (ftruncate(fd.get(), static_cast<off_t>(stride)) != 0)
    raise(ErrorKind::system, "allocate: ftruncate of a memfd failed ({}) for {} bytes",
          errno_text(errno), stride);
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    raise(ErrorKind::system, "allocate: sealing a memfd failed: {}", errno_text(errno));
  return fd;
}

void check_sealed_memfd(int fd, std::size_t stride, int owner) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    raise(ErrorKind::peer, "allocate: memory of rank {}: got seals {}, expected {}", owner, seals,
          kSeals);
  struct stat info {};
  if (fstat(fd, &info) != 0)
    raise(ErrorKind::system, "allocate: fstat of the memory of rank {} failed: {}", owner,
          errno_text(errno));
  if (static_cast<std::uint64_t>(info.st_size) != stride)
    raise(ErrorKind::peer, "allocate: memory of rank {}: got {} bytes, expected {}", owner,
          info.st_size, stride);
}

void map_into(const SymmetricMemory& range, int rank, int fd) {
  void* at =
      mmap(range.peer(rank), range.stride(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (at == MAP_FAILED)
    raise(ErrorKind::system, "allocate: mmap of {} bytes of rank {} failed: {}", range.stride(),
          rank, errno_text(errno));
}

}  // namespace tilelace::comm
