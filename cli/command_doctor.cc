// SPDX-License-Identifier: Apache-2.0
// Looks at the machine; what is missing is told, never an error.
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "backend/cpu/gemm/tile_gemm.h"
#include "backend/cuda_support.h"
#include "commands.h"
#include "doctor.h"
#include "machine.h"
#include "options.h"
#include "session.h"

namespace tilelace::cli {
namespace {

std::string isa() {
  const auto flags = cpu_flags();
  std::string text;
  for (const char* f : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile",
                        "amx_bf16", "asimd", "bf16", "sve"}) {
    if (std::find(flags.begin(), flags.end(), f) != flags.end())
      text += fmt::format("{}{}", text.empty() ? "" : " ", f);
  }
  return text.empty() ? "none of avx2, avx512f, amx, asimd" : text;
}

bool closes(int fd) {
  if (fd < 0) return false;
  close(fd);
  return true;
}

/// "onednn, in fp32": what multiplies, where the type is not the operands'.
std::string engine_text(DType dtype) {
  std::string name = cpu::gemm_engine_name(dtype);
  const std::size_t blank = name.find(' ');
  if (blank == std::string::npos) return name;
  const std::string type = name.substr(blank + 1);
  return name.substr(0, blank) + (type == name_of(dtype) ? "" : ", computed in " + type);
}

/// 22809 is 2.28.9; before 2.9 it had a digit less.
std::string nccl_text(int version) {
  const int major = version >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

void report_cpu(Report& report) {
  report.line("CPU", cpu_model());
  report.line("cores", fmt::format("{}", cpu_cores()));
  report.line("instructions", isa());
  const auto total = total_memory(), available = available_memory();
  report.line("memory", fmt::format("{}, {} available", total ? show_bytes(*total) : "unknown",
                                    available ? show_bytes(*available) : "unknown"));
  for (const DType t : {DType::fp32, DType::bf16, DType::fp16})
    report.line(fmt::format("GEMM {}", name_of(t)), engine_text(t));
}

void report_system(Report& report) {
  report.check("memfd", closes(memfd_create("tilelace-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
               "ranks as processes (shared memory without a name)");
#ifdef SYS_pidfd_open
  report.check("pidfd", closes(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))),
               "nothing: the death of a rank is seen by its socket");
#endif
  std::array<int, 2> pair{-1, -1};
  const bool sockets = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0;
  if (sockets) close(pair[0]), close(pair[1]);
  report.check("unix sockets", sockets, "ranks as processes");
}

void report_gpus(Report& report) {
  std::ifstream version("/proc/driver/nvidia/version");
  std::string driver;
  std::getline(version, driver);
  if (driver.empty()) {
    report.missing("NVIDIA driver", "GPU ranks");
  } else {
    report.line("NVIDIA driver", driver);
  }
  report_devices(report);
  report_links(report);
  const Library nccl({"libnccl.so.2", "libnccl.so"});
  int nccl_version = 0;
  const auto get_version = nccl.find<int(int*)>("ncclGetVersion");
  if (get_version != nullptr && get_version(&nccl_version) == 0) {
    report.line("NCCL", nccl_text(nccl_version));
  } else {
    report.missing("NCCL", "transport nccl of ag_gemm, and NCCL as a baseline");
  }
  const std::string why = cuda_missing();
  if (why.empty()) {
    report.line("GPU ranks", "yes: ag_gemm, gemm_rs, gemm_ar (bf16, fp16)");
  } else {
    report.line("GPU ranks", fmt::format("no: {}", why));
  }
}

void examine(bool for_report) {
  Report report = for_report ? Report(private_names()) : Report();
  report_build(report);
  report_host(report);
  report_cpu(report);
  report_system(report);
  report_gpus(report);
  if (for_report) report_environment(report);
  report.summary();
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "doctor", "Show what this machine has, what is missing and what that disables");
  command->footer(R"(What is missing is no error. Examples:
  tilelace doctor
  tilelace doctor --report
      The same and the environment, to be pasted into a bug report: names of the machine and
      of its users are left out.
  tilelace doctor --measure mine.json
      Measures GPUs (or cores) and links, for tilelace simulate --machine mine.json.
  tilelace doctor --measure mine.json --compare h200x4
      And shows where they differ from a known machine.
)");
  auto request = std::make_shared<MeasureRequest>();
  auto* measure = command->add_option("--measure", request->path,
                                      "Measure this machine and write a machine file");
  command
      ->add_option("--backend", request->backend,
                   "Measure cpu or cuda (default: GPUs where there are any)")
      ->needs(measure);
  command->add_option("--compare", request->compare, "A machine to compare with, a name or a file")
      ->needs(measure);
  auto for_report = std::make_shared<bool>(false);
  command->add_flag("--report", *for_report, "Print what a bug report should have, and no names")
      ->excludes(measure);
  add_wide_option(*command);
  command->callback([request, for_report, &exit_code] {
    if (!request->path.empty()) measure_machine(*request);
    exit_code = kDone;
    if (request->path.empty()) examine(*for_report);
  });
}

}  // namespace tilelace::cli
