#include "llm/exchange.h"

#include <nlohmann/json.hpp>

#include "async/sha256.h"

namespace anneal::llm {

namespace {

template <class T>
nlohmann::json optional_json(const std::optional<T>& value) {
  if (value) return *value;
  return nullptr;
}

}  // namespace

std::string request_sha256(const Request& request, const std::string& served_model) {
  using nlohmann::json;
  json messages = json::array();
  for (const Message& message : request.messages) {
    json pair = json::array();
    pair.push_back(message.role);
    pair.push_back(message.content);
    messages.push_back(std::move(pair));
  }
  json sampling = json::object();
  sampling["temperature"] = optional_json(request.sampling.temperature);
  sampling["top_p"] = optional_json(request.sampling.top_p);
  sampling["max_tokens"] = optional_json(request.sampling.max_tokens);
  sampling["seed"] = optional_json(request.sampling.seed);
  json all = json::object();
  all["model"] = served_model;
  all["messages"] = std::move(messages);
  all["sampling"] = std::move(sampling);
  // Keys are sorted by nlohmann::json. Text from a kernel's stderr need not be UTF-8.
  return sha256_hex(all.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace anneal::llm
