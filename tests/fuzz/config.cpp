// A configuration. What follows the input's first NUL is an override, as of --set.
#include "agents/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

using namespace anneal;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::view_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::vector<std::string> overrides;
  if (end < input.size()) overrides.emplace_back(input.substr(end + 1));
  const fuzz::MemoryFile file(input.substr(0, end));
  const auto config = agents::read_config(file.path(), overrides);
  if (!config) {
    fuzz::require(config.error().kind == ErrorKind::bad_input, "what is in a file is bad input at worst");
    fuzz::require(!config.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  fuzz::require(!config->models.empty() && !config->methods.empty(), "an experiment has models and methods");
  config->resolved.dump();  // as it is stored: throws for what is no UTF-8
  config->primary.dump();
  return 0;
}
