#include "agents/suite.h"

#include <gmock/gmock.h>

#include "fakes.h"

namespace anneal::agents {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

const char* const gelu = R"py("""
---
category: Activation
signature: "gelu(input: Tensor, approximate: str = 'none') -> Tensor"
precisions: [fp32, bf16]
extra_precisions: [fp16]
difficulty: 2
policy: triton
comparison: tolerance
---
Gaussian error linear unit.

Any shape.
"""
import torch
)py";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string error(const std::string& text, const std::string& name = "Activation/gelu.py") {
  TemporaryFolder folder;
  folder.write("tasks/" + name, text);
  const auto suite = read_suite(folder.path() / "tasks");
  EXPECT_FALSE(suite.has_value());
  return suite ? "" : suite.error().message;
}

TEST(Suite, EachPrecisionIsATask) {
  TemporaryFolder folder;
  folder.write("tasks/Activation/gelu.py", gelu);
  const auto suite = read_suite(folder.path() / "tasks");
  ASSERT_TRUE(suite.has_value()) << suite.error().message;
  ASSERT_EQ(suite->tasks.size(), 3u);
  const Task* plain = suite->find("gelu");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->precision, "fp32");
  EXPECT_EQ(plain->description, "Gaussian error linear unit.\n\nAny shape.");
  const Task* bf16 = suite->find("gelu_bf16");
  ASSERT_NE(bf16, nullptr);
  EXPECT_EQ(bf16->stem, "gelu");
  EXPECT_EQ(bf16->signature, "gelu_bf16(input: Tensor, approximate: str = 'none') -> Tensor");
  EXPECT_EQ(bf16->difficulty, 2);
  EXPECT_FALSE(bf16->extra);
  EXPECT_TRUE(suite->find("gelu_fp16")->extra);
  EXPECT_EQ(bf16->file_sha256.size(), 64u);
}

TEST(Suite, WhatBeginsWithADotOrAnUnderscoreIsNoTask) {
  TemporaryFolder folder;
  folder.write("tasks/Activation/gelu.py", gelu);
  for (const char* other : {"Activation/_common.py", "Activation/.gelu.py", "_shared/gelu.py", ".git/gelu.py"}) {
    folder.write(std::string("tasks/") + other, "import torch\n");
  }
  const auto suite = read_suite(folder.path() / "tasks");
  ASSERT_TRUE(suite.has_value()) << suite.error().message;
  EXPECT_EQ(suite->tasks.size(), 3u);
}

TEST(Suite, ErrorsNameFileLineAndKey) {
  EXPECT_THAT(error(replaced(gelu, "difficulty: 2", "dificulty: 2")),
              HasSubstr("gelu.py:7:1: unknown key 'dificulty' in the front matter; did you mean 'difficulty'?"));
  EXPECT_THAT(error(replaced(gelu, "difficulty: 2", "difficulty: 9")), HasSubstr("gelu.py:7:13: 'difficulty' must be"));
  EXPECT_THAT(error(replaced(gelu, "difficulty: 2\n", "")), HasSubstr("key 'difficulty' is missing"));
  EXPECT_THAT(error(replaced(gelu, "[fp32, bf16]", "[fp32, bf61]")),
              HasSubstr("gelu.py:5:13: unknown value 'bf61' of 'precisions'; did you mean 'bf16'?"));
  EXPECT_THAT(error(replaced(gelu, "category: Activation", "category: Activations")),
              HasSubstr("is not the folder's name"));
  EXPECT_THAT(error(replaced(gelu, "\"gelu(", "\"gelo(")), HasSubstr("must start with the file's name, 'gelu('"));
  EXPECT_THAT(error("import torch\n"), HasSubstr("gelu.py:1: a task file starts with a docstring"));
  EXPECT_THAT(error(replaced(gelu, "Gaussian error linear unit.\n\nAny shape.\n", "")),
              HasSubstr("the description is empty"));
}

TEST(Suite, TheJudgesOwnKeysAreTakenAndTheirTypesChecked) {
  const auto with = [](const std::string& lines) {
    return replaced(gelu, "difficulty: 2\n", "difficulty: 2\n" + lines + "\n");
  };
  TemporaryFolder folder;
  folder.write("tasks/Activation/gelu.py",
               with("host_operators: [linalg_qr, cumsum]\nerror_growth: 16.5\nmoves_values: true"));
  const auto suite = read_suite(folder.path() / "tasks");
  EXPECT_TRUE(suite.has_value()) << suite.error().message;
  EXPECT_THAT(error(with("host_operators: linalg_qr")),
              HasSubstr("gelu.py:8:17: 'host_operators' must be a list of names."));
  EXPECT_THAT(error(with("host_operators: [[linalg_qr]]")), HasSubstr("'host_operators' must be"));
  EXPECT_THAT(error(with("error_growth: large")), HasSubstr("gelu.py:8:15: 'error_growth' must be a number"));
  EXPECT_THAT(error(with("moves_values: often")), HasSubstr("gelu.py:8:15: 'moves_values' must be"));
  EXPECT_THAT(error(with("error_growth: -1")), HasSubstr("'error_growth' must be a number"));
}

TEST(Suite, TheSuiteOfThisRepositoryReads) {
  const auto suite = read_suite(std::filesystem::path(ANNEAL_SOURCE_DIR) / "tasks");
  ASSERT_TRUE(suite.has_value()) << suite.error().message;
  for (const char* id : {"gelu_bf16", "softmax", "mul", "matmul_fp16", "sum", "argmax"}) {
    EXPECT_NE(suite->find(id), nullptr) << id;
  }
}

}  // namespace
}  // namespace anneal::agents
