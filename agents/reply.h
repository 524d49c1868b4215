// What a model's reply is, and the kernel in it.
#pragma once

#include <string>

#include "llm/exchange.h"

namespace anneal::agents {

// ok | empty | refusal | no_code | truncated | wrong_entry | api_error (docs/metrics.md, "Reply classes"). `code` is
// empty unless ok.
struct ParsedReply {
  std::string reply_class;
  std::string code;      // ends with a newline
  std::string strategy;  // the text before the code, capped
};

// Of the text after the last closed </think>, the fenced block (``` or ~~~; tag python, py, triton or none) that
// defines `entry` at top level, the last one if several do. Blocks but no such definition: wrong_entry. A fence that is
// never closed, or an answer cut by the token limit before a kernel: truncated. The whole reply is never taken as code.
ParsedReply parse_reply(const llm::Reply& reply, const std::string& entry);

// The visible answer: without reasoning in <think> tags, CRLF made LF.
std::string visible_answer(const llm::Reply& reply);

// The code of one submission for `entry`: reasoning is removed, and so is what follows a line of 146 '#' (TritonBench's
// form: test code). Then the fenced block that defines `entry`, else the last block, else the text itself, which here,
// and only here, may be bare code.
std::string submission_code(const std::string& text, const std::string& entry);

}  // namespace anneal::agents
