#include "agents/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "agents/suggest.h"
#include "agents/text.h"

namespace anneal::agents {
namespace {

constexpr size_t most_values = 100'000;

std::string place_of(const std::string& file, const YAML::Mark& mark, int line_offset) {
  // An empty document has no mark.
  return file + ":" + std::to_string(std::max(mark.line, 0) + 1 + line_offset) + ":" +
         std::to_string(std::max(mark.column, 0) + 1);
}

// The first line, up to `last`, that is indented with a tab: yaml-cpp stops somewhere behind it and says something
// else.
std::optional<int> tab_indented_line(const std::string& text, int last) {
  size_t begin = 0;
  for (int line = 0; line <= last && begin < text.size(); ++line) {
    const size_t indent = text.find_first_not_of(' ', begin);
    if (indent != std::string::npos && text[indent] == '\t') {
      const size_t word = text.find_first_not_of(" \t\r", indent);
      if (word != std::string::npos && text[word] != '\n') return line;
    }
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return std::nullopt;
}

// `values` counts them as they come out: an alias costs what it stands for, so a few nested ones can stand for
// billions.
Result<YamlValue> convert(const YAML::Node& node, const std::string& file, int line_offset, int depth, size_t& values) {
  YamlValue value;
  value.place = place_of(file, node.Mark(), line_offset);
  if (++values > most_values) {
    return fail(ErrorKind::bad_input, value.place + ": more than " + std::to_string(most_values) +
                                          " values, those counted that aliases (*name) stand for.");
  }
  if (depth > 32) return fail(ErrorKind::bad_input, value.place + ": nested too deeply.");
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      break;
    case YAML::NodeType::Scalar:
      value.kind = YamlValue::Kind::scalar;
      value.scalar = node.Scalar();
      value.quoted = node.Tag() == "!";
      break;
    case YAML::NodeType::Sequence:
      value.kind = YamlValue::Kind::list;
      for (const auto& element : node) {
        auto converted = convert(element, file, line_offset, depth + 1, values);
        if (!converted) return tl::unexpected(converted.error());
        value.list.push_back(std::move(*converted));
      }
      break;
    case YAML::NodeType::Map:
      value.kind = YamlValue::Kind::map;
      for (std::set<std::string> keys; const auto& entry : node) {
        const std::string place = place_of(file, entry.first.Mark(), line_offset);
        if (!entry.first.IsScalar()) return fail(ErrorKind::bad_input, place + ": a key must be a plain word.");
        const std::string key = entry.first.Scalar();
        if (!keys.insert(key).second)
          return fail(ErrorKind::bad_input, place + ": key " + in_quotes(key) + " is given twice.");
        auto converted = convert(entry.second, file, line_offset, depth + 1, values);
        if (!converted) return tl::unexpected(converted.error());
        value.map.push_back(YamlEntry{key, place, std::move(*converted)});
      }
      break;
  }
  return value;
}

tl::unexpected<Error> wrong_type(const YamlValue& value, std::string_view key, const std::string& expected) {
  const char* got = "nothing";
  if (value.kind == YamlValue::Kind::list) got = "a list";
  if (value.kind == YamlValue::Kind::map) got = "a map";
  const std::string shown = value.kind == YamlValue::Kind::scalar ? in_quotes(value.scalar) : std::string(got);
  return fail(ErrorKind::bad_input,
              value.place + ": " + in_quotes(key) + " must be " + expected + ", not " + shown + ".");
}

void replace_places(YamlValue& value, const std::string& place) {
  value.place = place;
  for (auto& element : value.list) replace_places(element, place);
  for (auto& entry : value.map) {
    entry.place = place;
    replace_places(entry.value, place);
  }
}

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* begin = text.data();
  if (!text.empty() && *begin == '+') ++begin;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

const YamlValue* YamlValue::find(std::string_view key) const {
  for (const auto& entry : map) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Result<YamlValue> parse_yaml(const std::string& text, const std::string& file, int line_offset) {
  if (const auto bad = first_bad_byte(text)) {  // what is stored as JSON must be UTF-8
    YAML::Mark mark;
    mark.line = static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n'));
    mark.column = static_cast<int>(*bad - (text.rfind('\n', *bad) + 1));  // npos + 1 is 0
    return fail(ErrorKind::bad_input, place_of(file, mark, line_offset) + ": this is not UTF-8 text.");
  }
  try {
    size_t values = 0;
    return convert(YAML::Load(text), file, line_offset, 0, values);
  } catch (const YAML::Exception& error) {
    if (const auto line = tab_indented_line(text, error.mark.line)) {
      return fail(ErrorKind::bad_input, file + ":" + std::to_string(*line + 1 + line_offset) +
                                            ":1: a tab in the indentation; YAML takes spaces only.");
    }
    // "bad file" is what yaml-cpp calls nesting that is too deep for it.
    const std::string said = error.msg == "bad file" ? "nested too deeply" : clean_text(error.msg, 200);
    return fail(ErrorKind::bad_input, place_of(file, error.mark, line_offset) + ": " + said + ".");
  }
}

Result<void> set_yaml(YamlValue& root, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorKind::bad_input,
                "--set " + in_quotes(assignment) + ": must have the form KEY=VALUE, e.g. device=cuda:0.");
  }
  if (first_bad_byte(assignment)) {
    return fail(ErrorKind::bad_input, "--set " + in_quotes(assignment) + ": this is not UTF-8 text.");
  }
  const std::string path = assignment.substr(0, equals);
  const std::string place = "--set " + path;
  auto parsed = parse_yaml(assignment.substr(equals + 1), place);
  if (!parsed) return tl::unexpected(parsed.error());
  replace_places(*parsed, place);

  YamlValue* node = &root;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, dot - begin);
    begin = dot + 1;
    if (part.empty()) return fail(ErrorKind::bad_input, place + ": an empty part in the key.");
    if (node->kind == YamlValue::Kind::list) {
      YamlValue* found = nullptr;
      const auto index = parse_number<size_t>(part);
      if (index && *index < node->list.size()) found = &node->list[*index];
      std::vector<std::string> names;
      for (auto& element : node->list) {
        const YamlValue* name = element.find("name");
        if (name == nullptr) continue;
        names.push_back(name->scalar);
        if (found == nullptr && name->scalar == part) found = &element;
      }
      if (found == nullptr) {
        return fail(ErrorKind::bad_input,
                    place + ": the list has no element " + in_quotes(part) + suggestion(part, names));
      }
      node = found;
      continue;
    }
    if (node->kind == YamlValue::Kind::scalar) {
      return fail(ErrorKind::bad_input, place + ": " + in_quotes(part) + " stands below a plain value.");
    }
    node->kind = YamlValue::Kind::map;
    YamlValue* found = nullptr;
    for (auto& entry : node->map) {
      if (entry.key == part) found = &entry.value;
    }
    if (found == nullptr) {
      YamlValue added;
      added.place = place;
      node->map.push_back(YamlEntry{part, place, std::move(added)});
      found = &node->map.back().value;
    }
    node = found;
  }
  *node = std::move(*parsed);
  return {};
}

Result<std::string> yaml_string(const YamlValue& value, std::string_view key) {
  if (value.kind != YamlValue::Kind::scalar || value.scalar.empty()) return wrong_type(value, key, "a string");
  return value.scalar;
}

Result<long long> yaml_integer(const YamlValue& value, std::string_view key, long long lowest, long long highest) {
  const std::string expected = "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (value.kind != YamlValue::Kind::scalar || value.quoted) return wrong_type(value, key, expected);
  const auto number = parse_number<long long>(value.scalar);
  if (!number || *number < lowest || *number > highest) return wrong_type(value, key, expected);
  return *number;
}

Result<double> yaml_number(const YamlValue& value, std::string_view key, double lowest, double highest) {
  std::string low = nlohmann::json(lowest).dump();
  const std::string expected = "a number from " + low + " to " + nlohmann::json(highest).dump();
  if (value.kind != YamlValue::Kind::scalar || value.quoted) return wrong_type(value, key, expected);
  const auto number = parse_number<double>(value.scalar);
  if (!number || !(*number >= lowest && *number <= highest)) return wrong_type(value, key, expected);
  return *number;
}

Result<bool> yaml_bool(const YamlValue& value, std::string_view key) {
  if (value.kind == YamlValue::Kind::scalar && !value.quoted) {
    if (value.scalar == "true") return true;
    if (value.scalar == "false") return false;
  }
  return wrong_type(value, key, "true or false");
}

Result<std::vector<std::string>> yaml_strings(const YamlValue& value, std::string_view key) {
  std::vector<std::string> strings;
  if (value.kind == YamlValue::Kind::null) return strings;
  if (value.kind == YamlValue::Kind::scalar) {
    strings.push_back(value.scalar);
    return strings;
  }
  if (value.kind != YamlValue::Kind::list) return wrong_type(value, key, "a list of strings");
  for (const YamlValue& element : value.list) {
    auto string = yaml_string(element, key);
    if (!string) return tl::unexpected(string.error());
    strings.push_back(std::move(*string));
  }
  return strings;
}

Result<void> yaml_keys(const YamlValue& value, std::string_view what, const std::vector<std::string>& keys) {
  if (value.kind != YamlValue::Kind::map) return wrong_type(value, what, "a map of keys and values");
  for (const YamlEntry& entry : value.map) {
    if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
    return fail(ErrorKind::bad_input, entry.place + ": unknown key " + in_quotes(entry.key) + " in " +
                                          std::string(what) + suggestion(entry.key, keys));
  }
  return {};
}

nlohmann::json yaml_to_json(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::null:
      return nullptr;
    case YamlValue::Kind::scalar: {
      if (value.quoted) return value.scalar;
      if (value.scalar == "true") return true;
      if (value.scalar == "false") return false;
      if (value.scalar == "null" || value.scalar == "~") return nullptr;
      if (const auto integer = parse_number<long long>(value.scalar)) return *integer;
      if (const auto number = parse_number<double>(value.scalar); number && std::isfinite(*number)) return *number;
      return value.scalar;
    }
    case YamlValue::Kind::list: {
      auto list = nlohmann::json::array();
      for (const auto& element : value.list) list.push_back(yaml_to_json(element));
      return list;
    }
    case YamlValue::Kind::map: {
      auto map = nlohmann::json::object();
      for (const auto& entry : value.map) map[entry.key] = yaml_to_json(entry.value);
      return map;
    }
  }
  return nullptr;
}

}  // namespace anneal::agents
