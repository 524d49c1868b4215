// A YAML document as plain values that remember where they stand, so that every error can name file, line and column.
// Duplicate keys are refused (yaml-cpp keeps the first and says nothing).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "async/result.h"

namespace anneal::agents {

struct YamlEntry;

struct YamlValue {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar;
  bool quoted = false;  // "3" is a string, 3 a number
  std::vector<YamlValue> list;
  std::vector<YamlEntry> map;  // in the order written
  std::string place;           // "file:line:column", or "--set KEY"

  const YamlValue* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  std::string place;  // of the key
  YamlValue value;
};

// `line_offset` lines stand before the text in its file (front matter). Text that is no UTF-8 is an error.
Result<YamlValue> parse_yaml(const std::string& text, const std::string& file, int line_offset = 0);

// "a.b=value": sets or adds a key; value is YAML; list elements by index or by their `name`.
Result<void> set_yaml(YamlValue& root, const std::string& assignment);

// Readers. Errors name the place, the key and what was expected.
Result<std::string> yaml_string(const YamlValue& value, std::string_view key);
Result<long long> yaml_integer(const YamlValue& value, std::string_view key, long long lowest, long long highest);
Result<double> yaml_number(const YamlValue& value, std::string_view key, double lowest, double highest);
Result<bool> yaml_bool(const YamlValue& value, std::string_view key);
// A list of strings; one string stands for a list of one.
Result<std::vector<std::string>> yaml_strings(const YamlValue& value, std::string_view key);
// An error unless `value` is a map whose keys are all among `keys`.
Result<void> yaml_keys(const YamlValue& value, std::string_view what, const std::vector<std::string>& keys);

// The value as JSON, plain scalars typed as YAML's core schema does.
nlohmann::json yaml_to_json(const YamlValue& value);

}  // namespace anneal::agents
