// What anneal reads of anneal-evald: a frame's body, its hello, its head, verdicts and lint reports.
#include "evaluator/daemon_message.h"

#include <nlohmann/json.hpp>

#include "evaluator/lint_report.h"
#include "evaluator/protocol.h"
#include "evaluator/verdict.h"
#include "tests/fuzz/fuzz.h"

using namespace anneal;
using nlohmann::json;

namespace {

// Reads `object`, and what was written of it once more.
template <class Read, class Write>
void read_twice(const json& object, Read read, Write write) {
  json once;
  try {
    once = write(read(object));
  } catch (const json::exception&) {
    return;  // refused, as the header says
  }
  const json again = write(read(json::parse(once.dump())));  // must not be refused
  fuzz::require(again.dump() == once.dump(), "what was written reads back as it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = evaluator::message_of_frame(fuzz::view_of(data, size));
  if (!message) return 0;
  const std::string frame = evaluator::encode_frame(*message);
  fuzz::require(evaluator::decode_frame_length(frame.data()) + evaluator::frame_header_bytes == frame.size(),
                "a frame's length is that of its body");
  const auto facts = evaluator::facts_of_hello(*message);
  if (facts) fuzz::require(facts->jobs >= 1 && facts->jobs <= 1024, "jobs from 1 to 1024");
  if (!facts) fuzz::require(!facts.error().message.empty() || message->contains("type"), "a refused hello says why");
  const auto head = evaluator::head_of(*message);
  if (!head) return 0;
  if (const auto verdict = message->find("verdict"); verdict != message->end()) {
    read_twice(*verdict, evaluator::verdict_from_json, evaluator::verdict_to_json);
  }
  if (const auto report = message->find("report"); report != message->end()) {
    read_twice(*report, evaluator::lint_report_from_json, evaluator::lint_report_to_json);
  }
  return 0;
}
