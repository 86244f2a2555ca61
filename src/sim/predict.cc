// SPDX-License-Identifier: Apache-2.0
#include "sim/predict.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "tilelace/op_table.h"

namespace tilelace::sim {
namespace {

/// Rows of the whole operand (all-gather) or result (reductions), in MB.
double whole_mb(const Problem& p) {
  const auto wide = static_cast<double>(row_of(p.op).gathers ? p.k : p.n[0]);
  return static_cast<double>(p.m) * wide * static_cast<double>(size_of(p.dtype)) * 1e-6;
}

const Collective& collective_of(const Collectives& c, const OpRow& op) {
  if (op.gathers) return c.all_gather;
  return op.shares ? c.all_reduce : c.reduce_scatter;
}

}  // namespace

double collective_us(const MachineModel& m, const Call& call) {
  const Problem& p = call.problem;
  if (p.ranks == 1) return 0;
  const OpRow& op = row_of(p.op);
  const Collective& c = collective_of(m.collectives, op);
  const double whole = whole_mb(p), ranks = p.ranks;
  const double wire = op.phases() * whole * (ranks - 1) / ranks;
  const double own = whole / ranks;
  const bool crosses =
      m.links.topology == Topology::tree && call.local > static_cast<int>(m.links.ranks_per_uplink);
  double us = wire * 1e3 / (crosses ? m.collectives.socket_gbps : m.collectives.wire_gbps);
  double fixed = c.fixed_us;
  if (call.local < p.ranks) {
    // Rings through every node: what enters it comes over all of its NICs.
    const double nodes = ranks / call.local;
    const double entering = op.phases() * whole * (nodes - 1) / nodes;
    const double nics = std::min(m.network.nics, static_cast<double>(call.local));
    us = std::max(us, entering * 1e3 / (nics * m.network.nic_gbps));
    fixed += op.phases() * (nodes - 1) * (m.network.latency_us + m.network.message_us);
  }
  const double plain = fixed + us + c.ramp_us * std::sqrt(wire) + own * 1e3 / m.links.local_gbps;
  const double window = m.collectives.window_fixed_us;
  if (!op.gathers || window <= 0 || call.local < p.ranks) return plain;
  return std::min(plain, window + wire * 1e3 / m.links.store_gbps);
}

double unfused_us(const MachineModel& m, const Call& call) {
  const GemmTime gemm = gemm_time(m.compute, product_of(call.problem));
  const double collective = collective_us(m, call);
  const double both = gemm.total_us() + collective;
  const double gain =
      clock_gain(m.compute, both, gemm.total_us(), m.collectives.power_share * collective);
  return m.method.unfused_call_us + collective + gemm.fixed_us +
         gemm.stretched(gemm.throttle() / gain).clock_us();
}

std::optional<double> Prediction::efficiency() const {
  if (unfused_us <= gemm_us) return std::nullopt;
  return 1 - ect_us() / (unfused_us - gemm_us);
}
std::optional<double> Prediction::medium_efficiency() const {
  if (unfused_us <= gemm_us) return std::nullopt;
  return 1 - medium_ect_us() / (unfused_us - gemm_us);
}

double Prediction::roof_us() const {
  return std::max({least_gemm_us, fused.wire_us, fused.network_us});
}

std::string Prediction::bound() const {
  const double most = std::max({gemm.busy_us(), fused.wire_us, fused.network_us});
  // Less than half of the time is any resource's: what is left is launches, flags and waiting.
  if (most < 0.5 * fused_us) return "latency";
  if (most == fused.network_us) return "network";
  if (most == fused.wire_us) return "links";
  return std::string(name_of(gemm.bound()));
}

Prediction predict(const MachineModel& m, const Call& call, const Candidates& candidates,
                   const Disturbance& disturbance, bool with_spans, const OnPlan& on_plan) {
  check_call(m, call);
  Prediction out;
  out.gemm = gemm_time(m.compute, product_of(call.problem));
  out.gemm_us = out.gemm.total_us();
  // A method's own products may be faster than the library's.
  out.least_gemm_us =
      least_us(m.compute, product_of(call.problem)) / std::max(1.0, m.method.product_rate);
  out.collective_us = collective_us(m, call);
  out.unfused_us = unfused_us(m, call);
  std::size_t number = 0;
  const auto run = [&](const Plan& plan, Plan& best, Outcome& outcome, double& us) {
    if (on_plan) on_plan(++number, candidates.medium.size() + candidates.fused.size());
    Outcome o = simulate(m, call, plan, disturbance);
    require(o.stuck.empty(), "simulate: the schedule never ends: {}", o.stuck);
    const double took = o.end_us;
    if (us > 0 && took >= us) return took;
    us = took;
    best = plan;
    outcome = std::move(o);
    return took;
  };
  for (const Plan& plan : candidates.medium) {
    run(plan, out.medium_plan, out.medium, out.medium_us);
  }
  for (const Plan& plan : candidates.fused) {
    out.tried.push_back({plan, run(plan, out.plan, out.fused, out.fused_us)});
  }
  if (with_spans) out.fused = simulate(m, call, out.plan, disturbance, true);
  return out;
}

Prediction predict(const MachineModel& m, const Call& call) {
  return predict(m, call, {fused_plans(m, call), medium_plans(m, call)});
}

}  // namespace tilelace::sim
