#include "agents/prompt.h"

#include <fstream>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "agents/text.h"
#include "async/sha256.h"

namespace anneal::agents {
namespace {

namespace fs = std::filesystem;
namespace mustache = kainjow::mustache;

mustache::data to_mustache(const nlohmann::json& value) {
  if (value.is_object()) {
    mustache::data object{mustache::data::type::object};
    for (const auto& entry : value.items()) object.set(entry.key(), to_mustache(entry.value()));
    return object;
  }
  if (value.is_array()) {
    mustache::data list{mustache::data::type::list};
    for (const auto& element : value) list.push_back(to_mustache(element));
    return list;
  }
  if (value.is_boolean()) return mustache::data{value.get<bool>()};
  // Whatever a method passes on of models and kernels.
  if (value.is_string()) return mustache::data{clean_text(value.get<std::string>(), std::string::npos)};
  return mustache::data{value.dump()};
}

// Remembers the names that were asked for and not there.
class StrictContext : public mustache::context<std::string> {
 public:
  explicit StrictContext(const mustache::data* data) : mustache::context<std::string>(data) {}
  const mustache::data* get(const std::string& name) const override {
    const mustache::data* found = mustache::context<std::string>::get(name);
    if (found == nullptr) missing_.insert(name);
    return found;
  }
  const std::set<std::string>& missing() const { return missing_; }

 private:
  mutable std::set<std::string> missing_;
};

}  // namespace

struct Prompts::Template {
  explicit Template(const std::string& text) : parsed(text) {
    parsed.set_custom_escape([](const std::string& plain) { return plain; });
  }
  mustache::mustache parsed;
};

Prompts::Prompts() = default;
Prompts::Prompts(Prompts&&) noexcept = default;
Prompts& Prompts::operator=(Prompts&&) noexcept = default;
Prompts::~Prompts() = default;

Result<Prompts> Prompts::load(const fs::path& folder) {
  Prompts prompts;
  std::map<std::string, std::string> hashes;  // in the order of names, whatever the folder's
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".mustache") continue;
    std::ifstream in(at->path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!in) return fail(ErrorKind::io, at->path().string() + ": cannot be read.");
    auto parsed = std::make_unique<Template>(text.str());
    if (!parsed->parsed.is_valid()) {
      return fail(ErrorKind::bad_input, at->path().string() + ": " + parsed->parsed.error_message() + ".");
    }
    std::string name = fs::relative(at->path(), folder, error).replace_extension().generic_string();
    hashes[name] = sha256_hex(text.str());
    prompts.templates_.emplace(std::move(name), std::move(parsed));
  }
  if (error || prompts.templates_.empty()) {
    return fail(ErrorKind::missing, folder.string() + ": holds no prompt template; set ANNEAL_DATA_DIR to the folder " +
                                        "that has prompts/ and tasks/.");
  }
  prompts.sha256_ = sha256_hex(nlohmann::json(hashes).dump());
  return prompts;
}

Result<std::string> Prompts::render(const std::string& name, const nlohmann::json& data) const {
  const auto found = templates_.find(name);
  if (found == templates_.end()) {
    return fail(ErrorKind::bad_input, "There is no prompt template prompts/" + name + ".mustache.");
  }
  const mustache::data root = to_mustache(data);
  StrictContext context(&root);
  std::string text = found->second->parsed.render(context);
  if (!found->second->parsed.is_valid()) {
    return fail(ErrorKind::bad_input, "prompts/" + name + ".mustache: " + found->second->parsed.error_message() + ".");
  }
  if (!context.missing().empty()) {
    return fail(ErrorKind::bad_input, "prompts/" + name + ".mustache uses the key '" + *context.missing().begin() +
                                          "', which this prompt has not.");
  }
  return text;
}

}  // namespace anneal::agents
