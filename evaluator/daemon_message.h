// What anneal-evald says, as the bodies of its frames (docs/protocol.md). Hostile code runs below it, so nothing that
// it says is taken for well-formed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "async/result.h"
#include "evaluator/judge.h"

namespace anneal::evaluator {

// The JSON object that a frame's body is; nullopt for any other body, and for one nested deeper than any message.
std::optional<nlohmann::json> message_of_frame(std::string_view body);

// The string at `key` of an object; empty when there is none.
std::string text_at(const nlohmann::json& object, const char* key);

// What a hello says, or why the daemon cannot judge: what its fatal message says, or that it said something else.
Result<DeviceFacts> facts_of_hello(const nlohmann::json& message);

struct MessageHead {
  std::string type;      // verdict | lint_report | fault | fatal
  std::uint64_t id = 0;  // of the request that it answers; 0 for fatal
};

// Of a message after hello; nullopt for what the protocol does not know.
std::optional<MessageHead> head_of(const nlohmann::json& message);

}  // namespace anneal::evaluator
