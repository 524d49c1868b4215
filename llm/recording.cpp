#include "llm/recording.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "async/sha256.h"

namespace anneal::llm {

using nlohmann::json;

namespace {

// Thrown while one line is read and caught in load(), which knows file and line.
struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void only_keys(const json& object, const std::string& where, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) throw BadLine(where + " must be an object");
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      throw BadLine("unknown key \"" + item.key() + "\" in " + where);
    }
  }
}

std::string text_of(const json& object, const char* key, bool required) {
  const auto found = object.find(key);
  if (found == object.end() || (found->is_null() && !required)) {
    if (required) throw BadLine(std::string("\"") + key + "\" is missing");
    return {};
  }
  if (!found->is_string()) throw BadLine(std::string("\"") + key + "\" must be a string");
  return found->get<std::string>();
}

int index_of(const json& object, const char* key, bool required) {
  const auto found = object.find(key);
  if (found == object.end()) {
    if (required) throw BadLine(std::string("\"") + key + "\" is missing");
    return 0;
  }
  if (!found->is_number_integer() || found->get<std::int64_t>() < 0 || found->get<std::int64_t>() > 1'000'000) {
    throw BadLine(std::string("\"") + key + "\" must be an integer from 0");
  }
  return found->get<int>();
}

std::optional<std::int64_t> count_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  const bool small = !found->is_number_unsigned() || found->get<std::uint64_t>() <= 1'000'000'000'000u;
  if (!found->is_number_integer() || !small || found->get<std::int64_t>() < 0) {
    throw BadLine(std::string("\"") + key + "\" must be an integer from 0 to 10^12");
  }
  return found->get<std::int64_t>();
}

Reply reply_of(const json& object) {
  only_keys(object, "\"reply\"", {"text", "finish_reason", "reasoning", "model", "usage"});
  Reply reply;
  reply.ok = true;
  reply.attempts = 0;
  reply.text = text_of(object, "text", true);
  reply.finish_reason = text_of(object, "finish_reason", false);
  if (reply.finish_reason.empty()) reply.finish_reason = "stop";
  reply.reasoning = text_of(object, "reasoning", false);
  reply.served_model = text_of(object, "model", false);
  if (const auto usage = object.find("usage"); usage != object.end() && !usage->is_null()) {
    only_keys(*usage, "\"usage\"",
              {"prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "total_tokens"});
    reply.usage.prompt_tokens = count_of(*usage, "prompt_tokens");
    reply.usage.completion_tokens = count_of(*usage, "completion_tokens");
    reply.usage.reasoning_tokens = count_of(*usage, "reasoning_tokens");
    reply.usage.cached_tokens = count_of(*usage, "cached_tokens");
  }
  return reply;
}

std::pair<CallPlace, Recording::Entry> entry_of(const std::string& line) {
  json object;
  try {
    object = json::parse(line);
  } catch (const json::parse_error& error) {
    throw BadLine("not JSON, or cut off, at character " + std::to_string(error.byte));
  } catch (const json::out_of_range&) {
    throw BadLine("a number out of range");
  }
  only_keys(object, "the line",
            {"task", "method", "role", "iteration", "slot", "sample", "must_contain", "prompt_sha256", "reply"});
  CallPlace place;
  place.task = text_of(object, "task", true);
  place.method = text_of(object, "method", true);
  place.role = text_of(object, "role", true);
  place.iteration = index_of(object, "iteration", true);
  place.slot = index_of(object, "slot", true);
  place.sample = index_of(object, "sample", false);
  Recording::Entry entry;
  entry.prompt_sha256 = text_of(object, "prompt_sha256", false);
  if (const auto texts = object.find("must_contain"); texts != object.end()) {
    if (!texts->is_array()) throw BadLine("\"must_contain\" must be a list of strings");
    for (const json& text : *texts) {
      if (!text.is_string()) throw BadLine("\"must_contain\" must be a list of strings");
      entry.must_contain.push_back(text.get<std::string>());
    }
  }
  if (!object.contains("reply")) throw BadLine("\"reply\" is missing");
  entry.reply = reply_of(object["reply"]);
  return {std::move(place), std::move(entry)};
}

std::string excerpt(const std::string& text) {
  constexpr std::size_t most = 120;
  std::string line = text.substr(0, most);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return text.size() > most ? line + "…" : line;
}

}  // namespace

std::string describe(const CallPlace& place) {
  return "task " + place.task + ", method " + place.method + ", role " + place.role + ", iteration " +
         std::to_string(place.iteration) + ", slot " + std::to_string(place.slot) + ", sample " +
         std::to_string(place.sample);
}

std::string place_key(const CallPlace& place) {
  return place.task + "|" + place.method + "|" + place.role + "|" + std::to_string(place.iteration) + "|" +
         std::to_string(place.slot) + "|" + std::to_string(place.sample);
}

std::string prompt_text(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) {
    if (!text.empty()) text += "\n\n";
    text += message.content;
  }
  return text;
}

Result<Recording> Recording::load(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) {
    return fail(ErrorKind::missing, "Cannot read the recording " + file.string() + ".");
  }
  Recording recording;
  recording.file_ = file;
  std::string line;
  std::size_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      auto read = entry_of(line);
      read.second.line = number;
      const std::string key = place_key(read.first);
      const auto inserted = recording.entries_.emplace(key, std::move(read.second));
      if (!inserted.second) {
        throw BadLine("a second reply for " + describe(read.first) + " (the first is in line " +
                      std::to_string(inserted.first->second.line) + ")");
      }
    } catch (const BadLine& error) {
      return fail(ErrorKind::bad_input, file.string() + ":" + std::to_string(number) + ": " + error.what() + ".");
    }
  }
  if (in.bad()) return fail(ErrorKind::io, "Reading the recording " + file.string() + " failed.");
  return recording;
}

const Recording::Entry* Recording::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<Reply> Recording::reply_to(const CallPlace& place, const std::vector<Message>& messages,
                                  bool* changed_prompt) const {
  const Entry* entry = find(place_key(place));
  if (entry == nullptr) {
    return fail(ErrorKind::internal, file_.string() + " has no reply for " + describe(place) +
                                         ": the experiment asked for what was never recorded.");
  }
  const std::string prompt = prompt_text(messages);
  for (const std::string& text : entry->must_contain) {
    if (prompt.find(text) != std::string::npos) continue;
    return fail(ErrorKind::internal, file_.string() + ":" + std::to_string(entry->line) + ": the prompt for " +
                                         describe(place) + " lacks the text that this reply answers: \"" +
                                         excerpt(text) + "\".");
  }
  if (changed_prompt != nullptr) {
    *changed_prompt = !entry->prompt_sha256.empty() && entry->prompt_sha256 != sha256_hex(prompt);
  }
  return entry->reply;
}

}  // namespace anneal::llm
