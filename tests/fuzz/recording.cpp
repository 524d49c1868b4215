// A file of recorded replies.
#include "llm/recording.h"

#include "tests/fuzz/fuzz.h"

using namespace anneal;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::view_of(data, size));
  const auto recording = llm::Recording::load(file.path());
  if (!recording) {
    fuzz::require(recording.error().kind == ErrorKind::bad_input, "what is in a file is bad input at worst");
    fuzz::require(recording.error().message.starts_with(file.path().string() + ":"), "an error names file and line");
    return 0;
  }
  llm::CallPlace place;
  place.task = "relu";
  place.method = "geak";
  place.role = "generator";
  place.iteration = 1;
  bool changed = false;
  const auto reply = recording->reply_to(place, {{"user", "call failed"}}, &changed);
  if (reply) fuzz::require(reply->ok && reply->attempts == 0, "a recorded reply is ok and was never sent for");
  return 0;
}
