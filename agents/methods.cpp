#include "agents/method.h"

namespace anneal::agents {

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      single_shot_method(),
      geak_method(),
  };
  return all;
}

const Method* find_method(const std::string& name) {
  for (const Method& method : methods()) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.push_back(method.name);
  return names;
}

}  // namespace anneal::agents
