// The quickstart experiment with the real judge on the cpu device: the report's numbers follow from the recording.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace anneal::tools::testing {
namespace {

using nlohmann::json;

TEST(Quickstart, ReportsWhatItsRecordingTells) {
  const fs::path bin = ANNEAL_BIN_DIR;
  if (!fs::exists(bin / "anneal-evald")) GTEST_SKIP() << "anneal-evald is not built here";
  const TemporaryFolder folder;
  const fs::path db = folder.path() / "quickstart.db";
  const std::string config = (fs::path(ANNEAL_SOURCE_DIR) / "configs/quickstart.yaml").string();

  const std::map<std::string, std::string> real = {{"ANNEAL_EVALD", (bin / "anneal-evald").string()}};
  const Outcome first = run(folder.path(), {"run", config, "--db", db.string(), "--display", "none"}, real);
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome again = run(folder.path(), {"run", config, "--db", db.string(), "--display", "none"}, real);
  EXPECT_EQ(again.code, 0) << again.err;

  const Outcome reported = run(folder.path(), {"report", db.string(), "--json", "-"});
  ASSERT_EQ(reported.code, 0) << reported.err;
  const json report = json::parse(reported.out);
  const json& geak = report.at("methods").at(0);
  ASSERT_EQ(geak.at("method"), "geak");
  EXPECT_EQ(geak.at("attempts"), 72);
  std::vector<int> called, correct;
  for (const json& one : geak.at("iterations")) {
    called.push_back(one.at("call").at("count").get<int>());
    correct.push_back(one.at("correct").at("count").get<int>());
    EXPECT_TRUE(one.at("speedup_mean").is_null()) << "the cpu device must not report a speed";
  }
  EXPECT_EQ(called, (std::vector<int>{10, 10, 12}));
  EXPECT_EQ(correct, (std::vector<int>{3, 8, 11}));
  const json expected = {{"call_exe_fix", 5.0}, {"call_fix", 4.0},   {"exe_fix", 7.0},
                         {"neutral", 26.0},     {"regression", 3.0}, {"still_failing", 9.0}};
  EXPECT_EQ(geak.at("transitions"), expected);
  const json& single = report.at("methods").at(1);
  EXPECT_EQ(single.at("attempts"), 12);
  EXPECT_EQ(single.at("iterations").at(0).at("correct").at("count"), 4);
}

}  // namespace
}  // namespace anneal::tools::testing
