#include "evaluator/nesting.h"

#include <algorithm>
#include <cstddef>

namespace anneal::evaluator {

int nesting(std::string_view json) {
  int now = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++now);
    } else if (c == ']' || c == '}') {
      --now;
    }
  }
  return most;
}

}  // namespace anneal::evaluator
