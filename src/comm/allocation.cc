// SPDX-License-Identifier: Apache-2.0
#include "comm/allocation.h"

#include <fmt/format.h>

#include <cstring>

#include "comm/failure.h"
#include "comm/members.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

/// The first words of an allocate and a confirm frame; an error text may follow.
struct Offer {
  std::uint64_t bytes = 0;
  std::uint64_t kind = 0;  ///< an ErrorKind; 0: all is well
};

struct Said {
  Offer offer;
  std::string text;
};

std::string encode(const Said& said) {
  std::string bytes(reinterpret_cast<const char*>(&said.offer), sizeof said.offer);
  return bytes + said.text.substr(0, 1024);
}

Said decode(const Frame& frame, int peer) {
  Said said;
  if (frame.bytes.size() < sizeof said.offer)
    throw Failure(
        ErrorKind::peer, peer,
        fmt::format("allocate: rank {} sent {} bytes about its memory, expected at least {}", peer,
                    frame.bytes.size(), sizeof said.offer));
  std::memcpy(&said.offer, frame.bytes.data(), sizeof said.offer);
  said.text = frame.bytes.substr(sizeof said.offer);
  return said;
}

/// Runs `work` and keeps its error as something that can be told to the others.
template <class Work>
Said attempt(std::size_t bytes, const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return {{bytes, static_cast<std::uint64_t>(e.kind())}, e.what()};
  } catch (const std::exception& e) {
    return {{bytes, static_cast<std::uint64_t>(ErrorKind::system)}, e.what()};
  }
  return {{bytes, 0}, {}};
}

/// All ranks throw the error of the lowest rank that has one.
void require_all_well(const std::vector<Said>& said) {
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].offer.kind == 0) continue;
    const bool known = said[r].offer.kind <= static_cast<std::uint64_t>(ErrorKind::timeout);
    raise(known ? static_cast<ErrorKind>(said[r].offer.kind) : ErrorKind::system, "{} (on rank {})",
          said[r].text, r);
  }
}

std::vector<Said> by_rank(const SocketMesh& mesh, const Said& mine, std::span<const Post> posts,
                          const std::vector<Frame>& frames) {
  std::vector<Said> all(static_cast<std::size_t>(mesh.ranks()));
  all[static_cast<std::size_t>(mesh.rank())] = mine;
  for (std::size_t i = 0; i < posts.size(); ++i)
    all[static_cast<std::size_t>(posts[i].peer)] = decode(frames[i], posts[i].peer);
  return all;
}

}  // namespace

std::shared_ptr<SymmetricMemory> allocate_over(SocketMesh& mesh, std::size_t bytes,
                                               const Deadline& deadline,
                                               const SocketMesh::Check& check) {
  UniqueFd own;
  const Said offer =
      attempt(bytes, [&] { own = make_sealed_memfd(stride_of(bytes, mesh.ranks())); });
  const std::vector<Post> posts = mesh.everyone(own.get(), true);
  const std::vector<Frame> frames =
      mesh.exchange(FrameType::allocate, encode(offer), posts, deadline, check);
  const std::vector<Said> offers = by_rank(mesh, offer, posts, frames);
  std::vector<std::uint64_t> sizes;
  for (const Said& said : offers) sizes.push_back(said.offer.bytes);
  require_same_bytes(sizes);
  require_all_well(offers);

  std::shared_ptr<SymmetricMemory> memory;
  const Said mapped = attempt(bytes, [&] {
    memory = reserve(bytes, mesh.ranks());
    map_into(*memory, mesh.rank(), own.get());
    for (std::size_t i = 0; i < posts.size(); ++i) {
      const int fd = frames[i].fds.empty() ? -1 : frames[i].fds[0].get();
      check_sealed_memfd(fd, memory->stride(), posts[i].peer);
      map_into(*memory, posts[i].peer, fd);
    }
  });
  // Nobody goes on before all have mapped: either everyone has the memory or everyone an error.
  const std::vector<Post> plain = mesh.everyone();
  const std::vector<Frame> confirms =
      mesh.exchange(FrameType::confirm, encode(mapped), plain, deadline, check);
  require_all_well(by_rank(mesh, mapped, plain, confirms));
  return memory;
}

}  // namespace tilelace::comm
