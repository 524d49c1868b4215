#include "evaluator/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluator/lint_report.h"
#include "evaluator/protocol.h"

namespace anneal::evaluator {
namespace {

TEST(Verdict, SurvivesJsonFieldByField) {
  Verdict verdict;
  verdict.task = "gelu";
  verdict.call = {true, "ok", "", 0.5};
  verdict.exe.failure_class = "tail";
  CaseVerdict one;
  one.name = "n1023";
  one.max_abs = std::nan("");
  one.rmse = HUGE_VAL;
  one.scheme_distance = 0.25;
  one.worst.push_back({{1, 2}, -HUGE_VAL, 3.5});
  verdict.exe.cases.push_back(one);
  verdict.exe.deterministic = false;
  verdict.perf.status = "measured";
  verdict.perf.speedup = 1.25;
  verdict.perf.ci = Interval{1.2, 1.3};
  verdict.perf.cases.push_back({"big", 100, 80, 1.25, {1.2, 1.3}, 16, 0, 1024.0, std::nullopt});
  verdict.kernel.kernels.push_back({"k", 32, std::nullopt, 0});
  verdict.flags = {"needs_sync"};
  const Verdict back = verdict_from_json(nlohmann::json::parse(verdict_to_json(verdict).dump()));
  EXPECT_EQ(verdict_to_json(back), verdict_to_json(verdict));
  EXPECT_TRUE(std::isnan(*back.exe.cases[0].max_abs));
  EXPECT_EQ(back.exe.cases[0].worst[0].expected, -HUGE_VAL);
  EXPECT_FALSE(back.perf.cases[0].flops.has_value());
  EXPECT_EQ(back.exe.deterministic, std::optional(false));
}

TEST(Verdict, RefusesAnotherShape) {
  EXPECT_THROW(verdict_from_json(nlohmann::json::object()), nlohmann::json::exception);
}

TEST(Protocol, LengthIsLittleEndianAndBadUtf8IsReplaced) {
  const std::string frame = encode_frame({{"text", "a\xff"}});
  ASSERT_GE(frame.size(), 4u);
  EXPECT_EQ(decode_frame_length(frame.data()), frame.size() - 4);
  const char header[4] = {1, 2, 0, 0};
  EXPECT_EQ(decode_frame_length(header), 513u);
  EXPECT_TRUE(nlohmann::json::accept(frame.substr(4)));
}

TEST(Verdict, RefusesNumbersThatTheFieldCannotHold) {
  Verdict whole;
  whole.perf.cases.push_back({"big", 100, 80, 1.25, {1.2, 1.3}, 16, 0, std::nullopt, std::nullopt});
  whole.kernel.kernels.push_back({"k", 32, std::nullopt, 0});
  CaseVerdict one;
  one.worst.push_back({{1, 2}, 0, 1});
  whole.exe.cases.push_back(one);
  const nlohmann::json good = verdict_to_json(whole);
  EXPECT_NO_THROW(verdict_from_json(good));
  for (const char* field : {"/perf/cases/0/quads", "/perf/cases/0/discarded", "/kernel/launches",
                            "/kernel/kernels/0/registers", "/exe/cases/0/worst/0/index/1"}) {
    for (const char* number : {"1e300", "18446744073709551615", "1.5", "true"}) {
      nlohmann::json bad = good;
      bad[nlohmann::json::json_pointer(field)] = nlohmann::json::parse(number);
      EXPECT_THROW(verdict_from_json(bad), nlohmann::json::exception) << field << " " << number;
    }
  }
}

TEST(LintReport, RefusesNumbersThatTheFieldCannotHold) {
  nlohmann::json report = lint_report_to_json({});
  EXPECT_NO_THROW(lint_report_from_json(report));
  report["refused"] = 4294967297;
  EXPECT_THROW(lint_report_from_json(report), nlohmann::json::exception);
}

}  // namespace
}  // namespace anneal::evaluator
