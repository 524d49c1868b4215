#include "agents/suite.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "agents/suggest.h"
#include "agents/text.h"
#include "agents/yaml.h"
#include "async/sha256.h"

namespace anneal::agents {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> front_matter_keys = {
    "category",       "signature",        "precisions",     "extra_precisions", "difficulty",
    "policy",         "comparison",       "integrity",      "thresholds",       "in_place",
    "dynamic_shapes", "reduction_length", "host_operators", "error_growth",     "moves_values"};
// Make.DTYPES of evaluator/python/anneal_eval/make.py has an element type for each.
const std::vector<std::string> known_precisions = {"fp64", "fp32", "fp16", "bf16", "int8", "w8a8", "w4a16"};
const std::vector<std::string> known_comparisons = {"tolerance", "quantization", "exact"};

// A file or folder of that name holds no task.
bool is_set_aside(const std::string& name) { return name.starts_with('.') || name.starts_with('_'); }

struct FrontMatter {
  std::string yaml;
  int line_offset = 0;  // lines of the file before the first line of `yaml`
  std::string description;
};

Result<FrontMatter> split(const std::string& text, const std::string& file) {
  std::istringstream stream(text);
  std::string line;
  int number = 0;
  std::string quotes;
  FrontMatter front;
  int state = 0;  // 0 before the docstring, 1 before ---, 2 front matter, 3 description
  while (std::getline(stream, line)) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::string rest = line;
    if (state == 0) {
      const std::string head = trim(line);
      if (head.empty() || head[0] == '#') continue;
      size_t at = 0;
      while (at < head.size() && (head[at] == 'r' || head[at] == 'R')) ++at;
      quotes = head.substr(at, 3);
      if (quotes != "\"\"\"" && quotes != "'''") break;
      state = 1;
      rest = head.substr(at + 3);
    }
    const size_t end = rest.find(quotes);
    if (end != std::string::npos) {
      if (state != 3) break;
      front.description += rest.substr(0, end);
      front.description = trim(front.description);
      if (front.description.empty()) {
        return fail(ErrorKind::bad_input, file + ":" + std::to_string(number) + ": the description is empty.");
      }
      return front;
    }
    const bool rule = trim(rest) == "---";
    if (state == 1) {
      if (rule) {
        state = 2;
        front.line_offset = number;
      } else if (!trim(rest).empty()) {
        break;
      }
    } else if (state == 2) {
      if (rule) {
        state = 3;
      } else {
        front.yaml += rest + "\n";
      }
    } else {
      front.description += rest + "\n";
    }
  }
  return fail(
      ErrorKind::bad_input,
      file + ":" + std::to_string(std::max(number, 1)) +
          ": a task file starts with a docstring that holds YAML between two '---' lines, then the description.");
}

template <class T>
Result<T> required(const YamlValue& yaml, const std::string& file, int line, const char* key,
                   Result<T> (*read)(const YamlValue&, std::string_view)) {
  const YamlValue* value = yaml.find(key);
  if (value == nullptr) {
    return fail(ErrorKind::bad_input, file + ":" + std::to_string(line) + ": key '" + key + "' is missing.");
  }
  return read(*value, key);
}

Result<void> one_of(const YamlValue& yaml, const char* key, const std::vector<std::string>& words,
                    const std::vector<std::string>& valid) {
  for (const std::string& word : words) {
    if (std::find(valid.begin(), valid.end(), word) != valid.end()) continue;
    return fail(ErrorKind::bad_input, yaml.find(key)->place + ": unknown value " + in_quotes(word) + " of '" + key +
                                          "'" + suggestion(word, valid));
  }
  return {};
}

Result<std::vector<Task>> read_task_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream buffer;
  buffer << in.rdbuf();
  if (!in) return fail(ErrorKind::io, path.string() + ": cannot be read.");
  const std::string text = buffer.str();
  const std::string file = path.string();
  const auto front = split(text, file);
  if (!front) return tl::unexpected(front.error());
  const auto yaml = parse_yaml(front->yaml, file, front->line_offset);
  if (!yaml) return tl::unexpected(yaml.error());
  if (auto ok = yaml_keys(*yaml, "the front matter", front_matter_keys); !ok) return tl::unexpected(ok.error());

  const int line = front->line_offset;
  const auto category = required<std::string>(*yaml, file, line, "category", yaml_string);
  if (!category) return tl::unexpected(category.error());
  const auto signature = required<std::string>(*yaml, file, line, "signature", yaml_string);
  if (!signature) return tl::unexpected(signature.error());
  const auto precisions = required<std::vector<std::string>>(*yaml, file, line, "precisions", yaml_strings);
  if (!precisions) return tl::unexpected(precisions.error());
  const auto comparison = required<std::string>(*yaml, file, line, "comparison", yaml_string);
  if (!comparison) return tl::unexpected(comparison.error());
  std::vector<std::string> extras;
  if (const YamlValue* value = yaml->find("extra_precisions")) {
    auto read = yaml_strings(*value, "extra_precisions");
    if (!read) return tl::unexpected(read.error());
    extras = std::move(*read);
  }
  const YamlValue* difficulty_value = yaml->find("difficulty");
  if (difficulty_value == nullptr) {
    return fail(ErrorKind::bad_input, file + ":" + std::to_string(line) + ": key 'difficulty' is missing.");
  }
  const auto difficulty = yaml_integer(*difficulty_value, "difficulty", 1, 5);
  if (!difficulty) return tl::unexpected(difficulty.error());

  // Of the judge alone, which stops at a wrong type.
  if (const YamlValue* value = yaml->find("host_operators"); value != nullptr && value->kind != YamlValue::Kind::null) {
    if (value->kind != YamlValue::Kind::list) {
      return fail(ErrorKind::bad_input, value->place + ": 'host_operators' must be a list of names.");
    }
    if (const auto names = yaml_strings(*value, "host_operators"); !names) return tl::unexpected(names.error());
  }
  if (const YamlValue* value = yaml->find("error_growth")) {
    if (const auto growth = yaml_number(*value, "error_growth", 0, 1e6); !growth) return tl::unexpected(growth.error());
  }

  if (const YamlValue* value = yaml->find("moves_values")) {
    if (const auto moves = yaml_bool(*value, "moves_values"); !moves) return tl::unexpected(moves.error());
  }

  const std::string folder = path.parent_path().filename().string();
  if (*category != folder) {
    return fail(ErrorKind::bad_input, yaml->find("category")->place + ": category " + in_quotes(*category) +
                                          " is not the folder's name '" + folder + "'.");
  }
  if (auto ok = one_of(*yaml, "precisions", *precisions, known_precisions); !ok) return tl::unexpected(ok.error());
  if (auto ok = one_of(*yaml, "extra_precisions", extras, known_precisions); !ok) return tl::unexpected(ok.error());
  if (auto ok = one_of(*yaml, "comparison", {*comparison}, known_comparisons); !ok) return tl::unexpected(ok.error());
  if (precisions->empty()) {
    return fail(ErrorKind::bad_input, yaml->find("precisions")->place + ": 'precisions' must name one form or more.");
  }
  const std::string stem = path.stem().string();
  const size_t open = signature->find('(');
  if (open == std::string::npos || trim(signature->substr(0, open)) != stem) {
    return fail(ErrorKind::bad_input,
                yaml->find("signature")->place + ": the signature must start with the file's name, '" + stem + "('.");
  }

  std::vector<Task> tasks;
  const auto add = [&](const std::string& precision, bool first, bool extra) {
    Task task;
    task.stem = stem;
    task.id = first ? stem : stem + "_" + precision;
    task.category = *category;
    task.precision = precision;
    task.signature = task.id + signature->substr(open);
    task.description = front->description;
    task.comparison = *comparison;
    task.difficulty = static_cast<int>(*difficulty);
    task.extra = extra;
    task.file = path;
    task.file_sha256 = sha256_hex(text);
    tasks.push_back(std::move(task));
  };
  for (size_t i = 0; i < precisions->size(); ++i) add((*precisions)[i], i == 0, false);
  for (const std::string& precision : extras) add(precision, false, true);
  return tasks;
}

}  // namespace

const Task* Suite::find(const std::string& id) const {
  for (const Task& task : tasks) {
    if (task.id == id) return &task;
  }
  return nullptr;
}

Result<Suite> read_suite(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    return fail(ErrorKind::bad_input, root.string() + ": the folder of tasks does not exist.");
  }
  std::vector<fs::path> files;
  for (const auto& category : fs::directory_iterator(root, error)) {
    const std::string name = category.path().filename().string();
    if (!category.is_directory() || is_set_aside(name)) continue;
    for (const auto& entry : fs::directory_iterator(category.path(), error)) {
      if (entry.path().extension() != ".py" || is_set_aside(entry.path().filename().string())) continue;
      files.push_back(entry.path());
    }
  }
  if (error) return fail(ErrorKind::io, root.string() + ": cannot be listed: " + error.message() + ".");
  if (files.empty()) return fail(ErrorKind::bad_input, root.string() + ": holds no task file (<Category>/<stem>.py).");
  std::sort(files.begin(), files.end());

  Suite suite;
  suite.name = "anneal";
  suite.root = root;
  std::map<std::string, fs::path> seen;
  for (const fs::path& file : files) {
    auto tasks = read_task_file(file);
    if (!tasks) return tl::unexpected(tasks.error());
    for (Task& task : *tasks) {
      const auto [at, fresh] = seen.emplace(task.id, file);
      if (!fresh) {
        return fail(ErrorKind::bad_input,
                    file.string() + ": task '" + task.id + "' is also defined by " + at->second.string() + ".");
      }
      suite.tasks.push_back(std::move(task));
    }
  }
  std::sort(suite.tasks.begin(), suite.tasks.end(),
            [](const Task& a, const Task& b) { return std::tie(a.category, a.id) < std::tie(b.category, b.id); });
  return suite;
}

}  // namespace anneal::agents
