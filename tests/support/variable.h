// A variable of the environment that a test sets.
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace vggt::test {

/// Sets a variable of the environment, or removes it, for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace vggt::test
