// SPDX-License-Identifier: Apache-2.0
// A library that is loaded at run time, so that a program also starts without it.
#pragma once
#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>
#include <string>
#include <type_traits>

namespace tilelace::cuda {

/// The first library of `names` that dlopen finds; it stays open. `problem` says why none is found.
class DynamicLibrary {
 public:
  DynamicLibrary(std::initializer_list<const char*> names, std::string& problem)
      : problem_(problem) {
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
    }
    problem_ = dlerror();
  }
  [[nodiscard]] bool open() const { return handle_ != nullptr; }

  /// Sets `function` to the library's function of this name, or to null if there is none.
  template <class Function>
  void look(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
  }
  /// As `look`, but if there is no such function, `problem` says so.
  template <class Function>
  void find(Function& function, const char* name) const {
    look(function, name);
    if (function == nullptr) problem_ = fmt::format("no function {}", name);
  }

 private:
  void* handle_ = nullptr;
  std::string& problem_;
};

}  // namespace tilelace::cuda
