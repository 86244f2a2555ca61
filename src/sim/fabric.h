// SPDX-License-Identifier: Apache-2.0
// The wires of a machine. A transfer holds each wire on its way for a time of bytes / rate, in the
// wire's first free interval that is long enough. Transfers get intervals in the order of send()
// calls. Intervals of one transfer may overlap; the transfer ends when its last interval ends.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine.h"

namespace tilelace::sim {

/// Who moves the bytes.
enum class Mover : std::uint8_t {
  copy_push,  ///< a copy engine, to one peer
  copy_mesh,  ///< a copy engine, to several peers in turn
  copy_pull,
  worker
};

class Fabric {
 public:
  /// `local`: the ranks per node.
  Fabric(const MachineModel& machine, int ranks, int local);

  struct Passage {
    double begin_us = 0;
    double end_us = 0;
  };
  /// Sends bytes from `from` to `to`, not before `begin_us`. `mover` may be at either rank.
  /// `now_us` must not decrease between calls.
  Passage send(int from, int to, double bytes, Mover mover, double now_us, double begin_us);

  [[nodiscard]] bool remote(int a, int b) const { return a / local_ != b / local_; }
  /// Travel time of a flag or another small message.
  [[nodiscard]] double latency_us(int from, int to) const {
    return remote(from, to) ? machine_.network.latency_us : machine_.links.latency_us;
  }

  /// Time to raise a flag at a peer; `engine`: a copy engine raises it.
  [[nodiscard]] double flag_us(int from, int to, bool engine) const {
    return (engine ? machine_.links.flag_us : 0) +
           (across_sockets(from, to) ? machine_.links.socket_flag_us : 0);
  }

  struct Wire {
    std::string name;
    double gbps = 0;  ///< rate of the wire; 0: the Mover's rate
    double busy_us = 0;
    bool network = false;
    std::vector<std::pair<double, double>>
        held;  ///< busy intervals from now on, in order; adjacent ones are merged
  };
  [[nodiscard]] const std::vector<Wire>& wires() const { return wires_; }
  /// An interval in which the last transfer held a wire.
  struct Hold {
    int wire = 0;
    double begin_us = 0;
    double end_us = 0;
  };
  [[nodiscard]] const std::vector<Hold>& last() const { return last_; }
  /// Whether a second copy engine carries this transfer.
  [[nodiscard]] bool second_engine(int from, int to) const;
  /// Whether this path crosses the link between a node's sockets.
  [[nodiscard]] bool across_sockets(int from, int to) const;
  /// The node that a wire belongs to.
  [[nodiscard]] int node_of(int wire) const;
  [[nodiscard]] int egress(int rank) const { return 2 * rank; }
  [[nodiscard]] int ingress(int rank) const { return 2 * rank + 1; }

 private:
  int add(std::string name, double gbps, bool network);
  void find_path(int from, int to);
  [[nodiscard]] double mover_gbps(Mover) const;
  /// Takes the first free interval of length `us` on the wire, not before `from_us`. Returns its
  /// start.
  static double hold(Wire& wire, double now_us, double from_us, double us);

  const MachineModel& machine_;
  int local_;
  int uplinks_of_node_ = 1, nics_of_node_ = 1;
  int first_uplink_ = 0, first_socket_ = 0, first_nic_ = 0;
  std::vector<Wire> wires_;
  std::vector<int> path_;
  std::vector<Hold> last_;
};

}  // namespace tilelace::sim
