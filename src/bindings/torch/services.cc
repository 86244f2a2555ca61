// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/services.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "bindings/torch/buffers.h"
#include "bindings/torch/members.h"
#include "bindings/torch/places.h"
#include "bindings/torch/pools.h"
#include "core/architecture.h"

namespace tilelace::torch_binding {
namespace {

/// Of "gemm_ar path=unfused,transport=pull", a line an op. Errors: usage.
PlanChoices choices_of(const std::vector<std::string>& plans) {
  PlanChoices choices;
  for (const std::string& line : plans) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, blank);
    const auto op = op_of(name);
    if (!op) {
      std::ostringstream text;
      text << "join: plans: got \"" << name << "\", expected ";
      for (const OpRow& row : op_table()) text << (row.op == Op{} ? "" : ", ") << row.name;
      throw Error(ErrorKind::usage, text.str());
    }
    choices[*op] =
        parse_plan_options("join: plans: " + name, line.substr(std::min(blank + 1, line.size())));
  }
  return choices;
}

/// Collective over the group's ranks: `sockets` lead to them, as Communicator::from_sockets has it.
/// A rank is a member once all have got as far: where one cannot, none is.
void join(std::string group, std::string device, int64_t rank, std::vector<int64_t> sockets,
          double timeout_s, int64_t workers, int64_t max_workers, int64_t device_index,
          std::string tuning, double autotune, bool deterministic, std::string cache,
          std::vector<std::string> plans) {
  remembered([&] {
    CommunicatorOptions options;
    options.device = device_named(device);
    options.timeout_s = timeout_s;
    // What no int holds is as wrong as its largest.
    const auto count = [](int64_t n) {
      return static_cast<int>(std::clamp<int64_t>(n, -1, std::numeric_limits<int>::max()));
    };
    options.workers = count(workers);
    options.max_workers = count(max_workers);
    options.device_index = static_cast<int>(device_index);
    options.tuning_file = tuning;
    options.autotune = autotune;
    options.deterministic = deterministic;
    options.cache = cache;
    auto communicator = Communicator::from_sockets(
        static_cast<int>(rank), std::vector<int>(sockets.begin(), sockets.end()), options);
    PlanChoices choices = choices_of(plans);  // not earlier: the communicator owns the sockets
    communicator.barrier();
    add_member(group, options, std::move(communicator), std::move(choices));
  });
}

/// `address`: of a Joiner; 0 takes it away.
void set_joiner_at(int64_t address) {
  set_joiner(reinterpret_cast<Joiner>(address));  // NOLINT(performance-no-int-to-ptr)
}

void leave(std::string group, std::string device) {
  remembered([&] { remove_member(group, device_named(device)); });
}

void retire(std::string group, std::string device) {
  remembered([&] { retire_member(group, device_named(device)); });
}

void leave_retired() { remove_retired_members(); }

void leave_all() { remove_all_members(); }

void abort_group(std::string group, std::string device) {
  remembered([&] { member_of("abort", group, device_named(device))->communicator().abort(); });
}

void prepare_again(std::string group, std::string device) {
  remembered([&] { member_of("prepare", group, device_named(device))->prepare_again(); });
}

void synchronize(std::string group, std::string device, int64_t stream) {
  remembered([&] {
    member_of("synchronize", group, device_named(device))
        ->communicator()
        .synchronize(reinterpret_cast<void*>(stream));  // NOLINT(performance-no-int-to-ptr)
  });
}

/// What the package finds wrong before a tensor gets here; the peers are in the call.
void refuse_here(std::string group, std::string device, std::string reason, int64_t stream,
                 bool collects) {
  remembered([&] {
    refuse_call(group, device_named(device), reason,
                reinterpret_cast<void*>(stream),  // NOLINT(performance-no-int-to-ptr)
                collects);
  });
}

/// Whether a call of m rows has nothing left to prepare; false, too, where the group has not
/// joined.
bool has_room(std::string group, std::string device, std::string op, int64_t m,
              std::vector<int64_t> n, int64_t k, std::string dtype, bool bias,
              std::string activation, bool return_gathered) {
  return remembered([&] {
    const auto kind = device_named(device);
    if (!has_member(group, kind)) return false;
    const auto member = member_of(op, group, kind);
    Problem p;
    p.op = op_of(op).value_or(p.op);
    if (const auto named = dtype_named(dtype)) p.dtype = *named;
    p.ranks = member->communicator().size();
    p.m = m;
    p.n = n;
    p.k = k;
    p.bias = bias;
    p.activation = activation_of(op, activation);
    p.return_gathered = return_gathered;
    return member->has_room(p, member->choices_of(p.op));
  });
}

/// Every problem that was prepared, with its plan, a line each.
std::vector<std::string> plans(std::string group, std::string device) {
  return remembered([&] {
    const auto member = member_of("plans", group, device_named(device));
    std::vector<std::string> lines;
    for (const auto& p : member->prepared()) {
      const Plan plan = query_plan(member->communicator(), p.problem, p.options);
      std::ostringstream line;
      line << p.problem << ": " << plan << " (" << plan.reason << ")";
      lines.push_back(line.str());
    }
    return lines;
  });
}

/// "gemm_rs bf16 0 4096 28672 8192": op, type, SwiGLU or not, m, k, then n of each weight.
Problem problem_of(const std::string& line, int ranks) {
  std::istringstream words(line);
  std::string op, dtype;
  Problem p;
  bool swiglu = false;
  words >> op >> dtype >> swiglu >> p.m >> p.k;
  for (std::int64_t n = 0; words >> n;) p.n.push_back(n);
  const auto known = op_of(op);
  const auto type = dtype_named(dtype);
  if (!known || !type) {
    throw Error(ErrorKind::usage,
                "tune: problem: got \"" + line + "\", expected a known op and dtype");
  }
  p.op = *known;
  p.dtype = *type;
  p.ranks = ranks;
  if (swiglu) p.activation = Activation::swiglu;
  return p;
}

/// `refusal`: why this rank cannot tune, which its peers are told; else empty.
/// Returns a line a problem that was tuned: microseconds, those of the prediction's choice, plans
/// that were timed, then the problem and the plan.
std::vector<std::string> tune_problems(std::string group, std::string device, std::string problems,
                                       std::string refusal, double seconds, int64_t candidates,
                                       bool again, bool force, std::string out) {
  return remembered([&] {
    const auto member = member_of("tune", group, device_named(device));
    Communicator& communicator = member->communicator();
    std::vector<Problem> list;
    std::istringstream lines(problems);
    try {
      for (std::string line; std::getline(lines, line);) {
        list.push_back(problem_of(line, communicator.size()));
      }
    } catch (const Error& e) {
      refusal = e.what();
    }
    if (!refusal.empty()) refuse_tune(communicator, refusal);
    TuneOptions options;
    options.seconds = seconds;
    options.candidates = static_cast<int>(std::clamp<int64_t>(candidates, -1, 1 << 20));
    options.again = again;
    options.force = force;
    const TuneResult result = tune(communicator, list, options);
    if (communicator.rank() == 0 && !out.empty() && result.table != nullptr) {
      write_tuning(result, out);
    }
    std::vector<std::string> tuned;
    for (const TunedProblem& row : result.rows) {
      std::ostringstream text;
      text << row.us << " " << row.predicted_us << " " << row.plans << " " << row.problem << ": "
           << row.plan;
      tuned.push_back(text.str());
    }
    return tuned;
  });
}

/// A line an op: its name, its collective's, then what it does.
std::vector<std::string> op_lines() {
  std::vector<std::string> lines;
  for (const OpRow& row : op_table()) {
    auto& line = lines.emplace_back(std::string(row.name) + " " + std::string(row.collective));
    if (row.gathers) line += " gathers";
    if (row.sums) line += " sums";
    if (row.shares) line += " shares";
    if (row.multiplies()) line += " multiplies";
  }
  return lines;
}

bool has_cuda() { return TILELACE_TORCH_CUDA != 0; }
/// Compute capabilities that there are kernels for: major, minor, major, minor ...
std::vector<int64_t> capabilities() {
  std::vector<int64_t> all;
  for (const Architecture& a : kArchitectures) all.insert(all.end(), {a.major, a.minor});
  return all;
}
/// A line each: torch's name, ours, and "gpus" or "cpus", those alone.
std::vector<std::string> dtypes() {
  std::vector<std::string> all;
  for (const DTypeRow& row : kDTypes) {
    all.push_back(std::string(row.long_name) + " " + std::string(row.name) +
                  (row.on_gpus ? " gpus" : " cpus"));
  }
  return all;
}
int64_t last_kind() { return static_cast<int64_t>(last_error().first); }
std::string last_text() { return last_error().second; }

}  // namespace

const std::vector<OpEntry>& services() {
  static const std::vector<OpEntry> all = {
      {"_join",
       "(str group_name, str device, int rank, int[] sockets, float timeout_s, int workers, "
       "int max_workers, int device_index, str tuning, float autotune, bool deterministic, "
       "str cache, str[] plans) -> ()",
       TORCH_BOX(&join)},
      {"_set_joiner", "(int address) -> ()", TORCH_BOX(&set_joiner_at)},
      {"_leave", "(str group_name, str device) -> ()", TORCH_BOX(&leave)},
      {"_retire", "(str group_name, str device) -> ()", TORCH_BOX(&retire)},
      {"_leave_retired", "() -> ()", TORCH_BOX(&leave_retired)},
      {"_leave_all", "() -> ()", TORCH_BOX(&leave_all)},
      {"_abort", "(str group_name, str device) -> ()", TORCH_BOX(&abort_group)},
      {"_prepare_again", "(str group_name, str device) -> ()", TORCH_BOX(&prepare_again)},
      {"_synchronize", "(str group_name, str device, int stream) -> ()", TORCH_BOX(&synchronize)},
      {"_refuse", "(str group_name, str device, str reason, int stream, bool collects=False) -> ()",
       TORCH_BOX(&refuse_here)},
      {"_has_room",
       "(str group_name, str device, str op, int m, int[] n, int k, str dtype, bool bias, "
       "str activation, bool return_gathered) -> bool",
       TORCH_BOX(&has_room)},
      {"_make_buffer", "(str group_name, str device, int bytes) -> int[]", TORCH_BOX(&make_buffer)},
      {"_drop_buffer", "(int number) -> ()", TORCH_BOX(&drop_buffer)},
      {"_make_pool", "(str group_name, str device, int bytes) -> int[]", TORCH_BOX(&make_pool)},
      {"_drop_pool", "(int number) -> bool", TORCH_BOX(&drop_pool)},
      {"_plans", "(str group_name, str device) -> str[]", TORCH_BOX(&plans)},
      {"_tune",
       "(str group_name, str device, str problems, str refusal, float seconds, int candidates, "
       "bool again, bool force, str out) -> str[]",
       TORCH_BOX(&tune_problems)},
      {"_collective_names", "() -> str[]", TORCH_BOX(&collective_names)},
      {"_op_lines", "() -> str[]", TORCH_BOX(&op_lines)},
      {"_has_cuda", "() -> bool", TORCH_BOX(&has_cuda)},
      {"_capabilities", "() -> int[]", TORCH_BOX(&capabilities)},
      {"_dtypes", "() -> str[]", TORCH_BOX(&dtypes)},
      {"_last_kind", "() -> int", TORCH_BOX(&last_kind)},
      {"_last_text", "() -> str", TORCH_BOX(&last_text)},
  };
  return all;
}

}  // namespace tilelace::torch_binding
