#include "agents/config.h"

#include <gmock/gmock.h>

#include "agents/suggest.h"
#include "fakes.h"

namespace anneal::agents {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

const char* const good = R"(experiment: geak-vs-single
suite: anneal
tasks: {categories: [Activation], names: [], limit: 2}
device: cpu
models:
  deepseek: {api: openai, base_url: "https://api.example.com/v1", model: chat, key_env: KEY, limits: {concurrency: 32}, sampling: {temperature: 0.5}}
  recorded: {api: replay, from: ../recordings/q.jsonl}
methods:
  - {name: single-shot, model: deepseek, seeds: 3}
  - {name: geak, model: recorded, iterations: 4, candidates: 2}
budget: {tokens: 1000, hours: 8}
primary: {outcome: correct, compare: [geak, single-shot], at: calls, budget: 12}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class ConfigFile : public ::testing::Test {
 protected:
  Result<ExperimentConfig> read(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return read_config(folder.write("configs/c.yaml", text), overrides);
  }
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    const auto config = read(text, overrides);
    EXPECT_FALSE(config.has_value());
    if (config) return "";
    EXPECT_EQ(config.error().kind, ErrorKind::bad_input);
    return config.error().message;
  }
  TemporaryFolder folder;
};

TEST_F(ConfigFile, ReadsEveryKey) {
  const auto config = read(good);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->experiment, "geak-vs-single");
  EXPECT_EQ(config->limit, 2);
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->find_model("deepseek")->limits.concurrency, 32);
  EXPECT_EQ(config->find_model("deepseek")->sampling.temperature, 0.5);
  EXPECT_EQ(config->find_model("recorded")->from, (folder.path() / "recordings/q.jsonl").string());
  ASSERT_EQ(config->methods.size(), 2u);
  EXPECT_EQ(config->methods[0].seeds, 3);
  EXPECT_EQ(config->methods[0].iterations, 1);
  EXPECT_EQ(config->methods[1].iterations, 4);
  EXPECT_EQ(config->methods[1].candidates, 2);
  EXPECT_EQ(config->budget.tokens, 1000);
  EXPECT_EQ(config->primary.at("at"), "calls");
  EXPECT_EQ(config->resolved.at("methods").at(1).at("iterations"), 4);
  EXPECT_EQ(config->config_text, good);
}

TEST_F(ConfigFile, UnknownKeysNameFileLineColumnAndTheNearestKey) {
  const std::string message = error(replaced(good, "device:", "devise:"));
  EXPECT_THAT(message, HasSubstr("c.yaml:4:1: unknown key 'devise'"));
  EXPECT_THAT(message, HasSubstr("did you mean 'device'?"));
  EXPECT_THAT(error(replaced(good, "seeds: 3", "seed: 3")),
              HasSubstr("c.yaml:9:42: unknown key 'seed' in a method; did you mean 'seeds'?"));
}

TEST_F(ConfigFile, WrongTypesAndNamesAreErrors) {
  EXPECT_THAT(error(replaced(good, "iterations: 4", "iterations: four")),
              HasSubstr("'iterations' must be a whole number from 1 to 100, not 'four'"));
  EXPECT_THAT(error(replaced(good, "iterations: 4", "iterations: \"4\"")), HasSubstr("c.yaml:10:47"));
  EXPECT_THAT(error(replaced(good, "seeds: 3", "seeds: 0")), HasSubstr("must be a whole number from 1"));
  EXPECT_THAT(error(replaced(good, "name: geak,", "name: geck,")),
              HasSubstr("unknown method 'geck'; did you mean 'geak'?"));
  EXPECT_THAT(error(replaced(good, "model: recorded", "model: record")),
              HasSubstr("unknown model 'record'; did you mean 'recorded'?"));
  EXPECT_THAT(error(replaced(good, "device: cpu", "device: gpu")),
              HasSubstr("unknown device 'gpu'; did you mean 'cpu'?"));
  EXPECT_THAT(error(replaced(good, "seeds: 3", "seeds: 3, iterations: 2")),
              HasSubstr("method 'single-shot' has no 'iterations'"));
  EXPECT_THAT(error(replaced(good, "compare: [geak", "compare: [geek")),
              HasSubstr("no method of this experiment; did you mean 'geak'?"));
}

TEST_F(ConfigFile, DuplicateKeysAreRefused) {
  EXPECT_THAT(error(std::string(good) + "device: cpu\n"), HasSubstr("c.yaml:13:1: key 'device' is given twice."));
}

TEST_F(ConfigFile, BrokenYamlNamesLineAndColumn) {
  EXPECT_THAT(error("experiment: [a\nmodels: {"), HasSubstr("c.yaml:2:"));
}

TEST_F(ConfigFile, ATabInTheIndentationIsNamedWithItsLine) {
  EXPECT_THAT(error("experiment: a\ntasks:\n\tnames: [mul]\n"),
              HasSubstr("c.yaml:3:1: a tab in the indentation; YAML takes spaces only."));
  EXPECT_THAT(error("models:\n  m:\n  \tapi: replay\n  \tfrom: x\n"), HasSubstr("c.yaml:3:1: a tab"));
}

TEST_F(ConfigFile, AnEmptyFileSaysSo) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n"}) {
    EXPECT_THAT(error(text), HasSubstr("the configuration is empty")) << text;
    EXPECT_THAT(error(text), HasSubstr("c.yaml:")) << text;
    EXPECT_THAT(error(text), Not(HasSubstr(":0:"))) << text;
  }
}

TEST_F(ConfigFile, WhatIsQuotedOfABinaryFileIsShortAndPlain) {
  std::string binary =
      "\x7f"
      "ELF";
  for (int i = 0; i < 100'000; ++i) binary += static_cast<char>('A' + i % 26);
  for (const std::string& text : {binary, "experiment: a\ndevice: \"\\e[31m" + std::string(50'000, 'x') + "\"\n" + good,
                                  std::string(60'000, 'k') + ": 1\n"}) {
    const std::string message = error(text);
    EXPECT_LT(message.size(), 500u) << message.substr(0, 500);
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
  }
}

TEST_F(ConfigFile, TextThatIsNoUtf8IsRefusedWithItsPlace) {
  EXPECT_THAT(error(replaced(good, "model: chat", "model: \x94")), HasSubstr("c.yaml:6:"));
  EXPECT_THAT(error("\xff"), HasSubstr("c.yaml:1:1: this is not UTF-8 text."));
  EXPECT_THAT(error(good, {"models.deepseek.model=\x94"}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error(good, {"models.\x94.api=openai"}), HasSubstr("not UTF-8"));
  EXPECT_TRUE(read(replaced(good, "model: chat", "model: gr\u00fcn")));
  const auto below = read_config(folder.write("\xff/configs/c.yaml", good), {});
  ASSERT_FALSE(below) << "the recording's path would hold the folder's name";
  EXPECT_THAT(below.error().message, HasSubstr("not UTF-8"));
}

TEST_F(ConfigFile, AliasesThatGrowWithoutBoundAreRefusedSoon) {
  std::string bomb = "experiment: a\na0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 1; k < 9; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_THAT(error(bomb), HasSubstr("more than 100000 values, those counted that aliases (*name) stand for."));
  EXPECT_THAT(error(bomb), HasSubstr("c.yaml:2:"));
  EXPECT_THAT(error("experiment: &a [*a, *a]\n"), HasSubstr("c.yaml:1:"));
  EXPECT_TRUE(read(replaced(replaced(good, "seeds: 3", "seeds: &n 3"), "iterations: 4", "iterations: *n")));
}

TEST_F(ConfigFile, AnExperimentsNameIsThatOfAFile) {
  EXPECT_TRUE(read(replaced(good, "geak-vs-single", std::string(100, 'e'))));
  EXPECT_THAT(error(replaced(good, "geak-vs-single", std::string(101, 'e'))),
              HasSubstr("c.yaml:1:13: 'experiment' names a file: at most 100 characters, not 101."));
  for (const char* name : {"a/b", "../a", ".hidden", "/a", "\"a\\0b\"", "\"a b\""}) {
    EXPECT_THAT(error(replaced(good, "geak-vs-single", name)),
                HasSubstr("c.yaml:1:13: 'experiment' names a file: use letters"))
        << name;
  }
}

TEST_F(ConfigFile, MissingKeysAreNamed) {
  EXPECT_THAT(error("experiment: a\nmodels: {m: {api: replay, from: x}}\n"), HasSubstr("lacks the key 'methods'"));
  EXPECT_THAT(error(replaced(good, "base_url: \"https://api.example.com/v1\", ", "")),
              HasSubstr("lacks the key 'base_url'"));
}

TEST_F(ConfigFile, WhatIsNotSupportedYetSaysSo) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"api: openai", "api: anthropic"},
           {"budget: {tokens: 1000", "budget: {usd: 20, tokens: 1000"},
           {"device: cpu", "device: [cuda:0, cuda:1]"},
           {"suite: anneal", "suite: \"kernelbench-x:/data\""},
           {"name: geak,", "name: best-of-n,"},
           {"limits: {concurrency: 32}", "limits: {requests_per_minute: 3}"},
           {"device: cpu", "device: cpu\nbaseline: [eager, compile]"}}) {
    EXPECT_THAT(error(replaced(good, from, to)), HasSubstr("not supported yet")) << to;
  }
}

TEST_F(ConfigFile, SetOverridesKeysListsByIndexOrName) {
  const auto config = read(good, {"device=cuda:0", "methods.geak.iterations=2", "methods.0.seeds=1",
                                  "tasks.names=[a, b]", "models.recorded.from=here.jsonl", "budget.hours=1.5"});
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->device, "cuda:0");
  EXPECT_EQ(config->methods[1].iterations, 2);
  EXPECT_EQ(config->methods[0].seeds, 1);
  EXPECT_EQ(config->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config->find_model("recorded")->from, "here.jsonl");
  EXPECT_EQ(config->budget.hours, 1.5);
}

TEST_F(ConfigFile, BadOverridesNameTheOption) {
  EXPECT_THAT(error(good, {"devise=cpu"}), HasSubstr("--set devise: unknown key 'devise'"));
  EXPECT_THAT(error(good, {"device"}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(error(good, {"methods.geck.seeds=1"}), HasSubstr("no element 'geck'; did you mean 'geak'?"));
  EXPECT_THAT(error(good, {"methods.geak.seeds=x"}),
              HasSubstr("--set methods.geak.seeds: 'seeds' must be a whole number"));
}

TEST_F(ConfigFile, TasksAreSelectedByCategoryNameAndLimit) {
  Suite suite;
  suite.tasks = {testing::make_task("gelu"), testing::make_task("relu"), testing::make_task("silu"),
                 testing::make_task("sum", "Reduce")};
  suite.tasks[2].extra = true;
  auto config = *read(good);
  config.limit = 0;
  const auto ids = [&] {
    std::string all;
    const auto tasks = select_tasks(config, suite);
    if (!tasks) return tasks.error().message;
    for (const Task& task : *tasks) all += task.id + " ";
    return all;
  };
  EXPECT_EQ(ids(), "gelu relu ");
  config.names = {"silu", "gelu"};
  EXPECT_EQ(ids(), "gelu silu ");
  config.limit = 1;
  EXPECT_EQ(ids(), "gelu ");
  config.names = {"gelo"};
  config.name_places = {"c.yaml:3:50"};
  EXPECT_EQ(ids(), "c.yaml:3:50: unknown task 'gelo'; did you mean 'gelu'?");
  config.names.clear();
  config.categories = {"Activations"};
  EXPECT_THAT(ids(), HasSubstr("unknown category 'Activations'; did you mean 'Activation'?"));
}

TEST(Suggestion, IsTheNearestWithinReason) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(suggestion("gelo", {"relu", "gelu"}), "; did you mean 'gelu'?");
  EXPECT_EQ(suggestion("zzzzzz", {"a", "b"}), "; valid: a, b");
}

}  // namespace
}  // namespace anneal::agents
