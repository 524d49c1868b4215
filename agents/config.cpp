#include "agents/config.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "agents/method.h"
#include "agents/suggest.h"
#include "agents/text.h"
#include "agents/yaml.h"

namespace anneal::agents {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

tl::unexpected<Error> not_yet(const std::string& place, const std::string& what) {
  return fail(ErrorKind::bad_input, place + ": " + what + " is not supported yet.");
}

// Reads an optional key into `out`; keeps the default when it is absent.
template <class T, class Read>
Result<void> optional_key(const YamlValue& map, const char* key, T& out, Read read) {
  const YamlValue* value = map.find(key);
  if (value == nullptr || value->kind == YamlValue::Kind::null) return {};
  auto parsed = read(*value, key);
  if (!parsed) return tl::unexpected(parsed.error());
  out = static_cast<T>(std::move(*parsed));
  return {};
}

auto integer(long long lowest, long long highest) {
  return [=](const YamlValue& value, std::string_view key) { return yaml_integer(value, key, lowest, highest); };
}

auto number(double lowest, double highest) {
  return [=](const YamlValue& value, std::string_view key) { return yaml_number(value, key, lowest, highest); };
}

Result<void> require(const YamlValue& map, const char* key, const std::string& what) {
  if (map.find(key) != nullptr) return {};
  return fail(ErrorKind::bad_input, map.place + ": " + what + " lacks the key " + in_quotes(key) + ".");
}

bool is_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

Result<llm::Sampling> read_sampling(const YamlValue& value) {
  if (auto ok = yaml_keys(value, "sampling", {"temperature", "top_p", "max_tokens", "seed"}); !ok) {
    return tl::unexpected(ok.error());
  }
  llm::Sampling sampling;
  if (auto ok = optional_key(value, "temperature", sampling.temperature, number(0, 2)); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = optional_key(value, "top_p", sampling.top_p, number(0, 1)); !ok) return tl::unexpected(ok.error());
  if (auto ok = optional_key(value, "seed", sampling.seed, integer(0, 1LL << 53)); !ok)
    return tl::unexpected(ok.error());
  if (const YamlValue* tokens = value.find("max_tokens")) {
    const auto parsed = yaml_integer(*tokens, "max_tokens", 1, 10'000'000);
    if (!parsed) return tl::unexpected(parsed.error());
    sampling.max_tokens = static_cast<int>(*parsed);
  }
  return sampling;
}

Result<llm::ModelConfig> read_model(const std::string& name, const YamlValue& value, const fs::path& folder) {
  const std::string what = "model " + in_quotes(name);
  if (auto ok = yaml_keys(value, what,
                          {"api", "base_url", "model", "key_env", "from", "sampling", "limits", "allow_plain_http"});
      !ok) {
    return tl::unexpected(ok.error());
  }
  llm::ModelConfig model;
  model.name = name;
  if (auto ok = require(value, "api", what); !ok) return tl::unexpected(ok.error());
  const YamlValue& api = *value.find("api");
  const auto api_name = yaml_string(api, "api");
  if (!api_name) return tl::unexpected(api_name.error());
  model.api = *api_name;
  const std::vector<std::string> later = {"anthropic", "gemini", "ollama"};
  if (std::find(later.begin(), later.end(), model.api) != later.end()) {
    return not_yet(api.place, "api " + in_quotes(model.api) + " (" + what +
                                  "; use api: openai with an OpenAI-compatible base_url)");
  }
  if (model.api != "openai" && model.api != "replay") {
    return fail(ErrorKind::bad_input, api.place + ": unknown api " + in_quotes(model.api) + " of " + what +
                                          suggestion(model.api, {"openai", "replay"}));
  }
  for (auto [key, out] : {std::pair<const char*, std::string*>{"base_url", &model.base_url},
                          {"model", &model.model},
                          {"key_env", &model.key_env},
                          {"from", &model.from}}) {
    if (auto ok = optional_key(value, key, *out, yaml_string); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = optional_key(value, "allow_plain_http", model.allow_plain_http, yaml_bool); !ok) {
    return tl::unexpected(ok.error());
  }
  const bool replay = model.api == "replay";
  const std::vector<const char*> needed =
      replay ? std::vector<const char*>{"from"} : std::vector<const char*>{"base_url", "model"};
  for (const char* key : needed) {
    if (auto ok = require(value, key, what + " (api: " + model.api + ")"); !ok) return tl::unexpected(ok.error());
  }
  for (const char* key : {"base_url", "key_env", "from"}) {
    const YamlValue* given = value.find(key);
    if (given == nullptr || replay == (std::string_view(key) == "from")) continue;
    return fail(ErrorKind::bad_input,
                given->place + ": " + in_quotes(key) + " has no meaning for api: " + model.api + ".");
  }
  if (!replay && !model.base_url.starts_with("https://") && !model.base_url.starts_with("http://")) {
    return fail(ErrorKind::bad_input,
                value.find("base_url")->place + ": 'base_url' must start with https:// or http://.");
  }
  for (auto [key, out] :
       {std::pair<const char*, std::string*>{"base_url", &model.base_url_place}, {"key_env", &model.key_env_place}}) {
    if (const YamlValue* given = value.find(key)) *out = given->place;
  }
  if (replay && model.model.empty()) model.model = "recording";
  // A path on the command line is meant from the working directory, one in the file from the file's folder.
  if (replay && !value.find("from")->place.starts_with("--set")) {
    model.from = (folder / model.from).lexically_normal().string();
  }
  if (first_bad_byte(model.from)) {  // the folder's name may not be
    return fail(ErrorKind::bad_input, value.find("from")->place + ": the path of the recording is not UTF-8 text.");
  }
  if (const YamlValue* sampling = value.find("sampling")) {
    auto read = read_sampling(*sampling);
    if (!read) return tl::unexpected(read.error());
    model.sampling = *read;
  }
  if (const YamlValue* limits = value.find("limits")) {
    if (auto ok = yaml_keys(*limits, "limits", {"concurrency", "requests_per_minute", "tokens_per_minute"}); !ok) {
      return tl::unexpected(ok.error());
    }
    for (const char* key : {"requests_per_minute", "tokens_per_minute"}) {
      if (const YamlValue* limit = limits->find(key)) {
        return not_yet(limit->place, std::string("'") + key + "' (429 replies are waited out; set concurrency)");
      }
    }
    if (auto ok = optional_key(*limits, "concurrency", model.limits.concurrency, integer(1, 10'000)); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return model;
}

Result<MethodConfig> read_method(const YamlValue& value, const ExperimentConfig& config) {
  if (auto ok = yaml_keys(value, "a method", {"name", "model", "seeds", "iterations", "candidates"}); !ok) {
    return tl::unexpected(ok.error());
  }
  if (auto ok = require(value, "name", "a method"); !ok) return tl::unexpected(ok.error());
  MethodConfig method;
  method.place = value.place;
  const auto name = yaml_string(*value.find("name"), "name");
  if (!name) return tl::unexpected(name.error());
  method.name = *name;
  const Method* known = find_method(method.name);
  if (known == nullptr) {
    const std::vector<std::string> later = {"best-of-n", "kernelagent", "autotriton", "kevin", "openevolve"};
    const std::string& place = value.find("name")->place;
    if (std::find(later.begin(), later.end(), method.name) != later.end()) {
      return not_yet(place, "method " + in_quotes(method.name));
    }
    return fail(ErrorKind::bad_input,
                place + ": unknown method " + in_quotes(method.name) + suggestion(method.name, method_names()));
  }
  method.iterations = known->default_iterations;
  method.candidates = known->default_candidates;
  if (auto ok = require(value, "model", "method " + in_quotes(method.name)); !ok) return tl::unexpected(ok.error());
  const auto model = yaml_string(*value.find("model"), "model");
  if (!model) return tl::unexpected(model.error());
  method.model = *model;
  if (config.find_model(method.model) == nullptr) {
    std::vector<std::string> names;
    for (const auto& one : config.models) names.push_back(one.name);
    return fail(ErrorKind::bad_input, value.find("model")->place + ": unknown model " + in_quotes(method.model) +
                                          suggestion(method.model, names));
  }
  if (auto ok = optional_key(value, "seeds", method.seeds, integer(1, 1000)); !ok) return tl::unexpected(ok.error());
  for (auto [key, out] :
       {std::pair<const char*, int*>{"iterations", &method.iterations}, {"candidates", &method.candidates}}) {
    const YamlValue* given = value.find(key);
    if (given == nullptr) continue;
    if (!known->iterative) {
      return fail(ErrorKind::bad_input, given->place + ": method " + in_quotes(method.name) + " has no '" + key + "'.");
    }
    if (auto ok = optional_key(value, key, *out, integer(1, 100)); !ok) return tl::unexpected(ok.error());
  }
  return method;
}

Result<std::string> read_device(const YamlValue& value) {
  const auto devices = yaml_strings(value, "device");
  if (!devices) return tl::unexpected(devices.error());
  if (devices->size() > 1) return not_yet(value.place, "more than one device in a run");
  const std::string device = devices->empty() ? "" : devices->front();
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 9 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device == "cpu" || device == "cuda" || numbered) return device;
  return fail(ErrorKind::bad_input,
              value.place + ": unknown device " + in_quotes(device) + suggestion(device, {"cpu", "cuda", "cuda:0"}));
}

template <class T>
json or_null(const std::optional<T>& value) {
  if (value) return json(*value);
  return json();
}

json resolved_json(const ExperimentConfig& config) {
  json models = json::object();
  for (const auto& model : config.models) {
    json one = {{"api", model.api}, {"model", model.model}, {"limits", {{"concurrency", model.limits.concurrency}}}};
    one["sampling"] = {{"temperature", or_null(model.sampling.temperature)},
                       {"top_p", or_null(model.sampling.top_p)},
                       {"max_tokens", or_null(model.sampling.max_tokens)},
                       {"seed", or_null(model.sampling.seed)}};
    if (model.api == "replay") {
      one["from"] = model.from;
    } else {
      one["base_url"] = model.base_url;
      one["key_env"] = model.key_env;
      one["allow_plain_http"] = model.allow_plain_http;
    }
    models[model.name] = one;
  }
  json methods = json::array();
  for (const auto& method : config.methods) {
    methods.push_back({{"name", method.name},
                       {"model", method.model},
                       {"seeds", method.seeds},
                       {"iterations", method.iterations},
                       {"candidates", method.candidates}});
  }
  return {{"experiment", config.experiment},
          {"suite", config.suite},
          {"tasks", {{"categories", config.categories}, {"names", config.names}, {"limit", config.limit}}},
          {"device", config.device},
          {"target", config.target},
          {"jobs", config.jobs},
          {"judge_refused", config.judge_refused},
          {"models", models},
          {"methods", methods},
          {"budget", {{"tokens", or_null(config.budget.tokens)}, {"hours", or_null(config.budget.hours)}}},
          {"primary", config.primary}};
}

Result<void> read_tasks(const YamlValue& value, ExperimentConfig& config) {
  if (auto ok = yaml_keys(value, "tasks", {"categories", "names", "limit"}); !ok) return ok;
  for (auto [key, out, places] : {std::tuple<const char*, std::vector<std::string>*, std::vector<std::string>*>{
                                      "categories", &config.categories, &config.category_places},
                                  {"names", &config.names, &config.name_places}}) {
    if (auto ok = optional_key(value, key, *out, yaml_strings); !ok) return ok;
    const YamlValue* list = value.find(key);
    if (list == nullptr) continue;
    for (size_t i = 0; i < out->size(); ++i) {
      places->push_back(list->kind == YamlValue::Kind::list ? list->list[i].place : list->place);
    }
  }
  return optional_key(value, "limit", config.limit, integer(0, 1'000'000));
}

Result<void> read_budget(const YamlValue& value, ExperimentConfig& config) {
  if (auto ok = yaml_keys(value, "budget", {"usd", "tokens", "hours"}); !ok) return ok;
  if (const YamlValue* usd = value.find("usd")) return not_yet(usd->place, "'budget.usd' (use budget.tokens)");
  if (auto ok = optional_key(value, "tokens", config.budget.tokens, integer(1, 1LL << 53)); !ok) return ok;
  return optional_key(value, "hours", config.budget.hours, number(0, 1e6));
}

Result<void> read_primary(const YamlValue& value, ExperimentConfig& config) {
  if (auto ok = yaml_keys(value, "primary", {"outcome", "compare", "at", "budget"}); !ok) return ok;
  const std::vector<std::string> outcomes = {"correct", "fast_1", "total_outcome"};
  const std::vector<std::string> spendings = {"calls", "tokens", "cost", "evaluations", "gpu", "wall"};
  for (auto [key, valid] :
       {std::pair<const char*, const std::vector<std::string>*>{"outcome", &outcomes}, {"at", &spendings}}) {
    const YamlValue* given = value.find(key);
    if (given == nullptr) continue;
    const auto word = yaml_string(*given, key);
    if (!word) return tl::unexpected(word.error());
    if (std::find(valid->begin(), valid->end(), *word) == valid->end()) {
      return fail(ErrorKind::bad_input,
                  given->place + ": unknown " + in_quotes(key) + " " + in_quotes(*word) + suggestion(*word, *valid));
    }
  }
  if (const YamlValue* compare = value.find("compare")) {
    const auto names = yaml_strings(*compare, "compare");
    if (!names) return tl::unexpected(names.error());
    std::vector<std::string> ours;
    for (const auto& method : config.methods) {
      ours.push_back(method.name);
      ours.push_back(method.name + "@" + method.model);
    }
    for (const std::string& name : *names) {
      if (std::find(ours.begin(), ours.end(), name) != ours.end()) continue;
      return fail(ErrorKind::bad_input, compare->place + ": 'compare' names " + in_quotes(name) +
                                            ", which is no method of this experiment" + suggestion(name, ours));
    }
  }
  if (const YamlValue* budget = value.find("budget")) {
    if (auto ok = yaml_number(*budget, "budget", 0, 1e18); !ok) return tl::unexpected(ok.error());
  }
  config.primary = yaml_to_json(value);
  return {};
}

}  // namespace

const llm::ModelConfig* ExperimentConfig::find_model(const std::string& name) const {
  for (const auto& model : models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

Result<ExperimentConfig> read_config(const fs::path& file, const std::vector<std::string>& overrides) {
  std::error_code error;
  if (fs::is_directory(file, error)) {
    return fail(ErrorKind::bad_input, file.string() + " is a folder; name a configuration file in it.");
  }
  if (!fs::is_regular_file(file, error)) {
    return fail(ErrorKind::bad_input, file.string() + ": there is no such configuration file.");
  }
  std::ifstream in(file, std::ios::binary);
  std::stringstream buffer;
  buffer << in.rdbuf();
  if (!in) return fail(ErrorKind::bad_input, file.string() + ": cannot be read.");

  ExperimentConfig config;
  config.file = file;
  config.config_text = buffer.str();
  if (config.config_text.find('\0') != std::string::npos) {
    return fail(ErrorKind::bad_input, file.string() + ": is no text; a configuration is YAML.");
  }
  auto root = parse_yaml(config.config_text, file.string());
  if (!root) return tl::unexpected(root.error());
  if (root->kind == YamlValue::Kind::null) {
    return fail(ErrorKind::bad_input, root->place +
                                          ": the configuration is empty; it needs experiment, models and "
                                          "methods, as in configs/quickstart.yaml.");
  }
  for (const std::string& assignment : overrides) {
    if (auto ok = set_yaml(*root, assignment); !ok) return tl::unexpected(ok.error());
  }
  const std::vector<std::string> keys = {"experiment",    "suite",  "tasks",   "device", "target",  "jobs",
                                         "judge_refused", "models", "methods", "budget", "primary", "baseline"};
  if (auto ok = yaml_keys(*root, "the configuration", keys); !ok) return tl::unexpected(ok.error());
  for (const char* key : {"experiment", "models", "methods"}) {
    if (auto ok = require(*root, key, "the configuration"); !ok) return tl::unexpected(ok.error());
  }

  const YamlValue& experiment = *root->find("experiment");
  const auto name = yaml_string(experiment, "experiment");
  if (!name) return tl::unexpected(name.error());
  config.experiment = *name;
  if (!is_file_name(config.experiment)) {
    return fail(ErrorKind::bad_input,
                experiment.place + ": 'experiment' names a file: use letters, digits, '-', '_' and '.'.");
  }
  if (constexpr size_t longest = 100; config.experiment.size() > longest) {
    return fail(ErrorKind::bad_input, experiment.place + ": 'experiment' names a file: at most " +
                                          std::to_string(longest) + " characters, not " +
                                          std::to_string(config.experiment.size()) + ".");
  }
  if (auto ok = optional_key(*root, "suite", config.suite, yaml_string); !ok) return tl::unexpected(ok.error());
  if (config.suite != "anneal") {
    const std::string& place = root->find("suite")->place;
    const std::string kind = config.suite.substr(0, config.suite.find(':'));
    if (kind == "kernelbench-x" || kind == "kernelbench" || kind == "tritonbench-t") {
      return not_yet(place, "suite '" + kind + ":DIR'");
    }
    return fail(ErrorKind::bad_input,
                place + ": unknown suite " + in_quotes(config.suite) +
                    suggestion(kind, {"anneal", "kernelbench-x", "kernelbench", "tritonbench-t"}));
  }
  if (const YamlValue* tasks = root->find("tasks")) {
    if (auto ok = read_tasks(*tasks, config); !ok) return tl::unexpected(ok.error());
  }
  if (const YamlValue* device = root->find("device")) {
    auto read = read_device(*device);
    if (!read) return tl::unexpected(read.error());
    config.device = *read;
  }
  if (auto ok = optional_key(*root, "target", config.target, yaml_string); !ok) return tl::unexpected(ok.error());
  if (!config.target.starts_with("sm_") || config.target.size() < 5 ||
      config.target.find_first_not_of("0123456789", 3) != std::string::npos) {
    return fail(ErrorKind::bad_input,
                root->find("target")->place + ": 'target' must be like sm_80, not " + in_quotes(config.target) + ".");
  }
  if (auto ok = optional_key(*root, "jobs", config.jobs, integer(0, 1024)); !ok) return tl::unexpected(ok.error());
  if (auto ok = optional_key(*root, "judge_refused", config.judge_refused, yaml_bool); !ok)
    return tl::unexpected(ok.error());
  if (const YamlValue* baseline = root->find("baseline")) {
    const auto names = yaml_strings(*baseline, "baseline");
    if (!names) return tl::unexpected(names.error());
    for (const std::string& one : *names) {
      if (one == "compile") return not_yet(baseline->place, "baseline 'compile'");
      if (one != "eager") {
        return fail(ErrorKind::bad_input,
                    baseline->place + ": unknown baseline " + in_quotes(one) + suggestion(one, {"eager"}));
      }
    }
  }

  const YamlValue& models = *root->find("models");
  if (models.kind != YamlValue::Kind::map || models.map.empty()) {
    return fail(ErrorKind::bad_input, models.place + ": 'models' must be a map with one model or more.");
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (const auto& entry : models.map) {
    auto model = read_model(entry.key, entry.value, folder);
    if (!model) return tl::unexpected(model.error());
    config.models.push_back(std::move(*model));
  }
  const YamlValue& methods = *root->find("methods");
  if (methods.kind != YamlValue::Kind::list || methods.list.empty()) {
    return fail(ErrorKind::bad_input, methods.place + ": 'methods' must be a list with one method or more.");
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const YamlValue& entry : methods.list) {
    auto method = read_method(entry, config);
    if (!method) return tl::unexpected(method.error());
    if (!seen.emplace(method->name, method->model).second) {
      return fail(ErrorKind::bad_input, entry.place + ": method " + in_quotes(method->name) + " with model " +
                                            in_quotes(method->model) + " is given twice; use seeds to repeat it.");
    }
    config.methods.push_back(std::move(*method));
  }
  if (const YamlValue* budget = root->find("budget")) {
    if (auto ok = read_budget(*budget, config); !ok) return tl::unexpected(ok.error());
  }
  if (const YamlValue* primary = root->find("primary")) {
    if (auto ok = read_primary(*primary, config); !ok) return tl::unexpected(ok.error());
  }
  config.resolved = resolved_json(config);
  return config;
}

Result<std::vector<Task>> select_tasks(const ExperimentConfig& config, const Suite& suite) {
  std::vector<std::string> ids;
  std::set<std::string> categories;
  for (const Task& task : suite.tasks) {
    ids.push_back(task.id);
    categories.insert(task.category);
  }
  const auto place = [&](const std::vector<std::string>& places, size_t i) {
    return i < places.size() ? places[i] : config.file.string();
  };
  for (size_t i = 0; i < config.names.size(); ++i) {
    if (suite.find(config.names[i]) != nullptr) continue;
    return fail(ErrorKind::bad_input, place(config.name_places, i) + ": unknown task " + in_quotes(config.names[i]) +
                                          suggestion(config.names[i], ids));
  }
  for (size_t i = 0; i < config.categories.size(); ++i) {
    if (categories.contains(config.categories[i])) continue;
    return fail(ErrorKind::bad_input,
                place(config.category_places, i) + ": unknown category " + in_quotes(config.categories[i]) +
                    suggestion(config.categories[i], std::vector<std::string>(categories.begin(), categories.end())));
  }
  const auto listed = [](const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  std::vector<Task> selected;
  for (const Task& task : suite.tasks) {
    const bool named = listed(config.names, task.id);
    const bool in_category = config.categories.empty() || listed(config.categories, task.category);
    if (!in_category) continue;
    if (config.names.empty() ? task.extra : !named) continue;
    if (config.limit > 0 && static_cast<int>(selected.size()) == config.limit) break;
    selected.push_back(task);
  }
  if (selected.empty()) {
    return fail(ErrorKind::bad_input, config.file.string() + ": no task is both in 'names' and in 'categories'.");
  }
  return selected;
}

}  // namespace anneal::agents
