// Peers that are opened when a program runs, since they need not be there when it is built.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace tessera::bench {

/// A library that stays open. Without a name, or where it cannot be opened, it has no functions.
class OpenedLibrary {
 public:
  explicit OpenedLibrary(const std::string& name) : name_(name) {
    if (name.empty()) {
      why_not_ = "not asked for";
    } else if (library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library_ == nullptr) {
      why_not_ = dlerror();
    }
  }

  bool is_open() const { return library_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& why_not() const { return why_not_; }

  /// @throws std::runtime_error if the library has no such function
  template <class Function>
  Function get(const std::string& function) const {
    if (!is_open()) throw std::runtime_error(why_not_);
    void* const address = dlsym(library_, function.c_str());
    if (address == nullptr) throw std::runtime_error(name_ + " has no " + function);
    return reinterpret_cast<Function>(address);
  }

 private:
  std::string name_, why_not_;
  void* library_ = nullptr;
};

}  // namespace tessera::bench
