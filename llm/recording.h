// Recorded replies (`api: replay`): the whole experiment without a network, and only as recorded.
//
// A recording is JSONL, one reply a line:
//   {"task": "gelu_bf16", "method": "geak", "role": "generator", "iteration": 1, "slot": 0, "sample": 0,
//    "must_contain": ["call failed: compile_error"], "prompt_sha256": "…",
//    "reply": {"text": "…", "finish_reason": "stop", "reasoning": "…", "model": "…",
//              "usage": {"prompt_tokens": 900, "completion_tokens": 400, "reasoning_tokens": 0, "cached_tokens": 0}}}
// must_contain, prompt_sha256, sample and, in the reply, all but text may be left out. Blank lines are skipped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "async/result.h"
#include "llm/exchange.h"

namespace anneal::llm {

// "task gelu_bf16, method geak, role generator, iteration 1, slot 0, sample 0".
std::string describe(const CallPlace& place);

// "gelu_bf16|geak|generator|1|0|0": the key of a recording, and the X-Anneal-Place header.
std::string place_key(const CallPlace& place);

// The contents of all messages, a blank line between two: what must_contain and prompt_sha256 look at.
std::string prompt_text(const std::vector<Message>& messages);

class Recording {
 public:
  struct Entry {
    std::size_t line = 0;
    std::vector<std::string> must_contain;
    std::string prompt_sha256;  // empty: not given
    Reply reply;
  };

  // Reads the file. ErrorKind::bad_input with FILE:LINE for bad JSON, a missing, mistyped or unknown key or a key that
  // occurs twice; ErrorKind::missing when the file cannot be read.
  static Result<Recording> load(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_; }

  // By place_key(); null when there is none.
  const Entry* find(const std::string& key) const;

  // The reply recorded for `place`. ErrorKind::internal, naming file, line and place, when there is none or when the
  // prompt lacks a required text. `changed_prompt` (may be null) is set when the prompt has another hash.
  Result<Reply> reply_to(const CallPlace& place, const std::vector<Message>& messages, bool* changed_prompt) const;

 private:
  std::filesystem::path file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace anneal::llm
