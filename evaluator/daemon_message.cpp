#include "evaluator/daemon_message.h"

#include <algorithm>

#include "evaluator/nesting.h"
#include "evaluator/protocol.h"
#include "evaluator/whole_number.h"

namespace anneal::evaluator {

using nlohmann::json;

namespace {

Result<DeviceFacts> facts_from_json(const json& object) {
  DeviceFacts facts;
  facts.device = text_at(object, "device");
  facts.device_name = text_at(object, "device_name");
  facts.torch = text_at(object, "torch");
  facts.triton = text_at(object, "triton");
  facts.python = text_at(object, "python");
  facts.driver = text_at(object, "driver");
  facts.sandbox = text_at(object, "sandbox");
  facts.settings_sha256 = text_at(object, "settings_sha256");
  try {
    if (const auto jobs = object.find("jobs"); jobs != object.end()) {
      facts.jobs = static_cast<int>(std::clamp<std::int64_t>(whole_number<std::int64_t>(*jobs), 1, 1024));
    }
    if (const auto memory = object.find("candidate_memory_mib"); memory != object.end()) {
      facts.candidate_memory_mib = whole_number<long long>(*memory);
    }
  } catch (const json::exception& error) {
    return fail(ErrorKind::internal, std::string("anneal-evald sent malformed facts: ") + error.what());
  }
  return facts;
}

}  // namespace

std::optional<json> message_of_frame(std::string_view body) {
  if (nesting(body) > most_nesting) return std::nullopt;
  json message = json::parse(body, nullptr, false);
  if (!message.is_object()) return std::nullopt;
  return message;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

Result<DeviceFacts> facts_of_hello(const json& message) {
  const std::string type = text_at(message, "type");
  if (type == "fatal") {
    const std::string kind = text_at(message, "kind");
    ErrorKind error = ErrorKind::internal;
    if (kind == "missing") error = ErrorKind::missing;
    if (kind == "bad_input") error = ErrorKind::bad_input;
    return fail(error, text_at(message, "message"));
  }
  if (type != "hello") return fail(ErrorKind::internal, "anneal-evald began with \"" + type + "\" instead of a hello.");
  const auto version = message.find("protocol");
  if (version == message.end() || *version != protocol_version) {
    const std::string theirs = version == message.end() ? "none" : version->dump();
    return fail(ErrorKind::missing, "anneal-evald speaks protocol " + theirs + ", anneal speaks " +
                                        std::to_string(protocol_version) + ": build both from the same sources.");
  }
  const auto facts = message.find("facts");
  if (facts == message.end() || !facts->is_object()) {
    return fail(ErrorKind::internal, "anneal-evald said hello without its facts.");
  }
  return facts_from_json(*facts);
}

std::optional<MessageHead> head_of(const json& message) {
  MessageHead head;
  head.type = text_at(message, "type");
  if (head.type == "fatal") return head;
  const auto id = message.find("id");
  if ((head.type != "verdict" && head.type != "lint_report" && head.type != "fault") || id == message.end() ||
      !id->is_number_unsigned()) {
    return std::nullopt;
  }
  head.id = id->get<std::uint64_t>();
  return head;
}

}  // namespace anneal::evaluator
