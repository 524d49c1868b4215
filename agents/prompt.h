// Prompts: Mustache templates from prompts/<method>/<role>.mustache. Escaping is off, and a key that the data lacks is
// an error, so that no prompt goes out with a hole in it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "async/result.h"

namespace anneal::agents {

class Prompts {
 public:
  // Parses every template below `folder`; an error names the file.
  static Result<Prompts> load(const std::filesystem::path& folder);
  Prompts(Prompts&&) noexcept;
  Prompts& operator=(Prompts&&) noexcept;
  ~Prompts();

  // Of the names and texts of all templates.
  const std::string& sha256() const { return sha256_; }

  // `name` is "geak/debug". `data` is a JSON object: strings and numbers are placed as they are, lists and booleans
  // steer sections. Errors name the template and the missing key.
  Result<std::string> render(const std::string& name, const nlohmann::json& data) const;

 private:
  struct Template;
  Prompts();
  std::map<std::string, std::unique_ptr<Template>> templates_;
  std::string sha256_;
};

}  // namespace anneal::agents
