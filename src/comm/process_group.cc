// SPDX-License-Identifier: Apache-2.0
// Ranks as processes of one host, over sockets that pass memfds.
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <tuple>

#include "comm/allocation.h"
#include "comm/control.h"
#include "comm/directory.h"
#include "comm/failure.h"
#include "comm/group.h"
#include "comm/members.h"
#include "comm/socket_mesh.h"
#include "comm/watcher.h"

namespace tilelace::comm {
namespace {

class ProcessGroup final : public Group {
 public:
  ProcessGroup(SocketMesh mesh, std::shared_ptr<SymmetricMemory> control,
               const std::vector<pid_t>& pids)
      : Group(mesh.rank(), mesh.ranks(), std::move(control)), mesh_(std::move(mesh)) {
    std::vector<WatchedPeer> peers;
    for (const Post& post : mesh_.everyone())
      peers.push_back({post.peer, mesh_.socket(post.peer),
                       open_pidfd(pids[static_cast<std::size_t>(post.peer)])});
    if (!peers.empty()) watcher_.emplace(std::move(peers), [this](int peer) { see_gone(peer); });
  }

  /// The word goes first: when peers see the sockets close they shall know why.
  ~ProcessGroup() override {
    mark_leaving();
    watcher_.reset();
    mesh_.hang_up();
  }

  std::vector<std::string> all_gather(std::string_view mine, double timeout_s) override {
    require_payload(mine);
    std::vector<std::string> all(static_cast<std::size_t>(ranks()));
    collective("all_gather", timeout_s, [&](const Deadline& deadline, const auto& check) {
      const std::vector<Post> posts = mesh_.everyone();
      std::vector<Frame> frames =
          mesh_.exchange(FrameType::all_gather, mine, posts, deadline, check);
      for (std::size_t i = 0; i < posts.size(); ++i)
        all[static_cast<std::size_t>(posts[i].peer)] = std::move(frames[i].bytes);
    });
    all[static_cast<std::size_t>(rank())] = mine;
    return all;
  }

  std::shared_ptr<SymmetricMemory> allocate(std::size_t bytes, double timeout_s) override {
    std::shared_ptr<SymmetricMemory> memory;
    collective("allocate", timeout_s, [&](const Deadline& deadline, const auto& check) {
      memory = allocate_over(mesh_, bytes, deadline, check);
    });
    return memory;
  }

  [[nodiscard]] bool one_process() const override { return false; }

  std::vector<UniqueFd> exchange_descriptor(int mine, double timeout_s) override {
    require(mine >= 0, "exchange_descriptor: got descriptor {}, expected an open one", mine);
    std::vector<UniqueFd> all(static_cast<std::size_t>(ranks()));
    collective("exchange_descriptor", timeout_s, [&](const Deadline& deadline, const auto& check) {
      const std::vector<Post> posts = mesh_.everyone(mine, true);
      std::vector<Frame> frames = mesh_.exchange(FrameType::descriptor, {}, posts, deadline, check);
      for (std::size_t i = 0; i < posts.size(); ++i) {
        if (frames[i].fds.empty())
          throw Failure(
              ErrorKind::peer, posts[i].peer,
              fmt::format("exchange_descriptor: rank {} sent no descriptor", posts[i].peer));
        all[static_cast<std::size_t>(posts[i].peer)] = std::move(frames[i].fds[0]);
      }
    });
    return all;
  }

  std::shared_ptr<void> make_together(const Make&, double) override {
    raise(ErrorKind::usage, "make_together: got ranks that are processes, expected threads");
  }

  std::unique_ptr<Group> subgroup(std::span<const int> members, double timeout_s) override {
    const int place = require_members(members, rank(), ranks());
    std::unique_ptr<Group> made;
    collective("subgroup", timeout_s, [&](const Deadline& deadline, const auto& check) {
      made = connect_members(members, place, deadline, check);
    });
    return made;
  }

 private:
  using Check = SocketMesh::Check;

  template <class Work>
  void collective(std::string_view op, double timeout_s, const Work& work) {
    const Deadline deadline(op, timeout_s);
    throw_if_aborted(op);
    try {
      work(deadline, Check([&] { throw_if_aborted(op); }));
    } catch (const Failure& f) {
      give_up(f);
    }
  }

  /// On the watcher's thread.
  void see_gone(int peer) noexcept {
    if (!has_left(peer))
      abort_own({static_cast<std::uint8_t>(ErrorKind::peer), static_cast<std::uint16_t>(rank()),
                 static_cast<std::uint16_t>(peer)});
  }

  std::unique_ptr<Group> connect_members(std::span<const int> members, int place,
                                         const Deadline& deadline, const Check& check);

  SocketMesh mesh_;
  std::optional<Watcher> watcher_;
};

std::unique_ptr<Group> make_over(int rank, std::vector<UniqueFd> sockets, const Deadline& deadline,
                                 const SocketMesh::Check& check) {
  SocketMesh mesh(rank, std::move(sockets));
  const std::vector<pid_t> pids = mesh.hello(deadline, check);
  auto control = allocate_over(mesh, sizeof(ControlPage), deadline, check);
  return std::make_unique<ProcessGroup>(std::move(mesh), std::move(control), pids);
}

/// Each pair of members gets a socket pair of its own: the earlier in the list makes it.
std::unique_ptr<Group> ProcessGroup::connect_members(std::span<const int> members, int place,
                                                     const Deadline& deadline, const Check& check) {
  std::vector<UniqueFd> sockets(members.size());
  std::vector<UniqueFd> far(members.size());
  std::vector<Post> posts;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const bool make = static_cast<int>(m) > place;
    if (make) std::tie(sockets[m], far[m]) = make_socket_pair();
    if (static_cast<int>(m) != place) posts.push_back({members[m], far[m].get(), true});
  }
  const std::string_view list(reinterpret_cast<const char*>(members.data()), members.size_bytes());
  std::vector<Frame> frames = mesh_.exchange(FrameType::subgroup, list, posts, deadline, check);
  far.clear();
  for (std::size_t i = 0; i < posts.size(); ++i) {
    require(frames[i].bytes == list,
            "subgroup: the members that rank {} lists differ from those of rank {} ({})",
            posts[i].peer, rank(), fmt::join(members, ", "));
    // Posts leave out the own place, so those before it have the index of their place.
    const std::size_t wanted = static_cast<int>(i) < place ? 1 : 0;
    if (frames[i].fds.size() != wanted)
      throw Failure(ErrorKind::peer, posts[i].peer,
                    fmt::format("subgroup: rank {} sent {} descriptors, expected {}", posts[i].peer,
                                frames[i].fds.size(), wanted));
    if (wanted == 1) sockets[i] = std::move(frames[i].fds[0]);
  }
  try {
    return make_over(place, std::move(sockets), deadline, check);
  } catch (const Failure& f) {  // its rank is a place in the list
    throw Failure(
        f.kind(), members[static_cast<std::size_t>(f.about())],
        fmt::format("subgroup: {} (a rank in this text is a position, from 0, in the list {})",
                    f.what(), fmt::join(members, ", ")));
  }
}

}  // namespace

std::unique_ptr<Group> make_process_group(int rank, int ranks, const std::string& directory,
                                          double timeout_s) {
  require_ranks(ranks);
  require_rank(rank, ranks);
  const Deadline deadline("communicator", timeout_s);
  try {
    return make_over(rank, meet_in_directory(rank, ranks, directory, deadline), deadline, [] {});
  } catch (const Failure& f) {
    throw Error(f.kind(), f.what());
  }
}

std::unique_ptr<Group> make_socket_group(int rank, std::vector<int> sockets, double timeout_s) {
  std::vector<UniqueFd> owned;
  owned.reserve(sockets.size());
  for (const int fd : sockets) owned.emplace_back(fd);
  const int ranks = static_cast<int>(owned.size());
  require_ranks(ranks);
  require_rank(rank, ranks);
  const int own = sockets[static_cast<std::size_t>(rank)];
  require(own == -1, "communicator: sockets: got {} for rank {}, which is this rank, expected -1",
          own, rank);
  const Deadline deadline("communicator", timeout_s);
  try {
    return make_over(rank, std::move(owned), deadline, [] {});
  } catch (const Failure& f) {
    throw Error(f.kind(), f.what());
  }
}

std::vector<std::vector<int>> make_socket_mesh(int ranks) {
  require_ranks(ranks);
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::vector<UniqueFd>> ends(size);
  for (auto& row : ends) row.resize(size);
  for (std::size_t r = 0; r < size; ++r)
    for (std::size_t p = r + 1; p < size; ++p)
      std::tie(ends[r][p], ends[p][r]) = make_socket_pair();
  std::vector<std::vector<int>> mesh(size, std::vector<int>(size, -1));
  for (std::size_t r = 0; r < size; ++r)
    for (std::size_t p = 0; p < size; ++p) mesh[r][p] = ends[r][p].release();
  return mesh;
}

std::vector<int> take_row(std::vector<std::vector<int>>& mesh, int rank) {
  std::vector<int> row;
  for (std::size_t r = 0; r < mesh.size(); ++r) {
    if (static_cast<int>(r) == rank) {
      row = std::move(mesh[r]);
      continue;
    }
    for (const int fd : mesh[r])
      if (fd >= 0) close(fd);
  }
  mesh.clear();
  return row;
}

}  // namespace tilelace::comm
