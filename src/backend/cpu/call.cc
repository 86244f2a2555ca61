// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/call.h"

#include "core/check.h"
#include "core/points.h"

namespace tilelace::cpu {

using comm::StdAtomics;
using comm::WaitStatus;

void Call::fail(std::exception_ptr e) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = std::move(e);
}

void Call::rethrow_failure() {
  const std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Call::check_agreement() const {
  if (problem->ranks == 1) return;  // also the product alone, which no peer takes part in
  for (int p = 0; p < group->ranks(); ++p) {
    if (p == rank()) continue;
    const comm::Header h = StdAtomics::load_acquire(header(rank(), p));
    if (comm::header_epoch(h) == epoch && comm::header_hash(h) != expected_of(p))
      throw Disagreement{p};
  }
}

void Call::require_here(int peer, const comm::Header* word) const {
  // It may have raised its header just before it left.
  if (comm::epoch_reached(comm::header_epoch(StdAtomics::load_acquire(word)), epoch)) return;
  group->abort({static_cast<std::uint8_t>(ErrorKind::peer),
                static_cast<std::uint16_t>(group->rank()), static_cast<std::uint16_t>(peer)});
  raise(ErrorKind::peer, "{}: rank {} left the group before this call", name, peer);
}

void CallVerbs::point(const char* copy_point, const char* compute_point) const {
  points::pass(actor_.worker < 0 ? copy_point : compute_point, call_.rank());
}

void CallVerbs::signal_header(int peer) {
  points::pass("copy.before_header", call_.rank());
  call_.send_header(peer);
}

void CallVerbs::signal(int peer, Index flag) {
  ++steps_;
  point("copy.before_flag", "compute.before_flag");
  comm::Flag* const word = call_.slot.flags(peer) + flag;
  if (peer == call_.rank()) return comm::signal<StdAtomics>(word, call_.epoch);
  call_.link(peer).raise(word, call_.epoch);
}

void CallVerbs::wait(Index flag) {
  ++steps_;
  point("copy.before_wait", "compute.before_wait");
  const comm::Flag* word = call_.slot.flags(call_.rank()) + flag;
  const std::int64_t deadline = call_.deadline_ns();
  comm::Flag seen = 0;
  unsigned round = 0;
  const auto reached = [&](comm::Flag have) {
    if (comm::epoch_reached(have, call_.epoch)) return true;
    // A peer that is in another call will never raise this flag: its header tells.
    if ((++round & 63U) == 0) {
      call_.check_agreement();
      check_presence(flag);
    }
    return false;
  };
  switch (comm::wait_until<StdAtomics>(word, reached, call_.group->abort_word(), deadline, seen)) {
    case WaitStatus::reached: break;
    case WaitStatus::aborted: aborted();
    case WaitStatus::expired: expired(meaning(flag), seen);
  }
  point("copy.before_data", "compute.after_wait");
}

void CallVerbs::check_presence(Index flag) {
  const Meaning what = meaning(flag);
  if (!call_.group->has_left(what.writer)) return;
  // It may have raised the flag just before it left.
  const comm::Flag* word = call_.slot.flags(call_.rank()) + flag;
  if (comm::epoch_reached(StdAtomics::load_acquire(word), call_.epoch)) return;
  call_.group->abort({static_cast<std::uint8_t>(ErrorKind::peer),
                      static_cast<std::uint16_t>(call_.rank()),
                      static_cast<std::uint16_t>(what.writer)});
  raise(ErrorKind::peer, "{}: rank {} left the group during the call, before {} arrived",
        call_.name, what.writer, what.text);
}

void CallVerbs::admit() {
  ++steps_;
  point("copy.before_wait", "compute.before_admit");
  const std::int64_t deadline = call_.deadline_ns();
  const int ranks = call_.problem->ranks;
  for (int i = 1; i < ranks; ++i) {
    const int p = (call_.rank() + i) % ranks;
    const comm::Header* word = call_.header(call_.rank(), p);
    comm::Header seen = 0;
    switch (comm::wait_until<StdAtomics>(word, call_.here_or_gone(p), call_.group->abort_word(),
                                         deadline, seen)) {
      case WaitStatus::reached: call_.require_here(p, word); break;
      case WaitStatus::aborted: aborted();
      case WaitStatus::expired: expired({p, "the call header"}, comm::header_epoch(seen));
    }
  }
  call_.check_agreement();
  admitted_ = true;
}

void CallVerbs::expired(const Meaning& what, std::uint32_t have) {
  time_out(what.writer,
           fmt::format("{}: rank {} {} {} step {} waited {:g} s for {} from rank {}{}: got call "
                       "number {}, expected {}",
                       call_.name, call_.rank(), actor_.role(),
                       actor_.worker < 0 ? 0 : actor_.worker, steps_, call_.timeout_s, what.text,
                       what.writer, call_.group->has_left(what.writer) ? " (which has left)" : "",
                       have, call_.epoch));
}

void CallVerbs::finish(WaitStatus status, std::int64_t bytes) {
  if (status == WaitStatus::reached) return;
  if (status == WaitStatus::aborted) aborted();
  time_out(
      call_.rank(),
      fmt::format(
          "{}: rank {} {} {} step {} waited {:g} s for its link, which still has {} bytes to send",
          call_.name, call_.rank(), actor_.role(), actor_.worker < 0 ? 0 : actor_.worker, steps_,
          call_.timeout_s, bytes));
}

void CallVerbs::time_out(int about, const std::string& text) {
  const Error error(ErrorKind::timeout, text);
  call_.fail(std::make_exception_ptr(error));
  call_.group->abort({static_cast<std::uint8_t>(ErrorKind::timeout),
                      static_cast<std::uint16_t>(call_.rank()), static_cast<std::uint16_t>(about)});
  throw error;
}

void CallVerbs::aborted() {
  call_.group->throw_if_aborted(call_.name);
  raise(ErrorKind::peer, "{}: the group was stopped", call_.name);
}

}  // namespace tilelace::cpu
