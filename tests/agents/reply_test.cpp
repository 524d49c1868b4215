#include "agents/reply.h"

#include <gmock/gmock.h>

namespace anneal::agents {
namespace {

ParsedReply parse(const std::string& text, const std::string& finish = "stop", const std::string& entry = "relu") {
  llm::Reply reply;
  reply.ok = true;
  reply.text = text;
  reply.finish_reason = finish;
  return parse_reply(reply, entry);
}

struct Case {
  const char* name;
  std::string text;
  std::string finish;
  std::string reply_class;
  std::string code;
};

class ReplyClass : public ::testing::TestWithParam<Case> {};

TEST_P(ReplyClass, IsAsExpected) {
  const ParsedReply parsed = parse(GetParam().text, GetParam().finish);
  EXPECT_EQ(parsed.reply_class, GetParam().reply_class);
  EXPECT_EQ(parsed.code, GetParam().code);
}

const std::string relu = "def relu(x):\n    return x\n";
const std::string docstring_code =
    "def relu(x):\n    \"\"\"Use it so:\n    ```python\n    relu(x)\n    ```\n    \"\"\"\n    return x\n";

INSTANTIATE_TEST_SUITE_P(
    Table, ReplyClass,
    ::testing::Values(
        Case{"python_tag", "Plan.\n```python\n" + relu + "```\n", "stop", "ok", relu},
        Case{"py_tag", "```py\n" + relu + "```", "stop", "ok", relu},
        Case{"no_tag", "```\n" + relu + "```", "stop", "ok", relu},
        Case{"upper_tag", "```Python title=x\n" + relu + "```", "stop", "ok", relu},
        Case{"tildes", "~~~python\n" + relu + "~~~\n", "stop", "ok", relu},
        Case{"long_fence", "````python\n" + relu + "````\n", "stop", "ok", relu},
        Case{"crlf", "Plan.\r\n```python\r\ndef relu(x):\r\n    return x\r\n```\r\n", "stop", "ok", relu},
        Case{"indented_in_a_list", "1. This:\n   ```python\n   def relu(x):\n       return x\n   ```\n", "stop", "ok",
             relu},
        Case{"fence_in_docstring", "```python\n" + docstring_code + "```\nDone.", "stop", "ok", docstring_code},
        Case{"broken_quotes_still_close", "```python\n\"\"\"open\n" + relu + "```\nDone.", "stop", "wrong_entry", ""},
        Case{"entry_block_not_last", "```python\n" + relu + "```\nUse:\n```python\nrelu(y)\n```", "stop", "ok", relu},
        Case{"last_definition_wins", "```python\ndef relu(x): pass\n```\nBetter:\n```python\n" + relu + "```", "stop",
             "ok", relu},
        Case{"assigned_entry", "```python\nrelu = helper\n```", "stop", "ok", "relu = helper\n"},
        Case{"cut_after_the_block", "```python\n" + relu + "```\nIt is", "length", "ok", relu},
        Case{"after_think", "<think>```python\ndef relu(bad): 0\n```</think>```python\n" + relu + "```", "stop", "ok",
             relu},
        Case{"think_only_closed", "thoughts</think>\n```python\n" + relu + "```", "stop", "ok", relu},
        Case{"think_never_ends", "<think>hm", "length", "truncated", ""}, Case{"empty", "  \n", "stop", "empty", ""},
        Case{"empty_at_the_limit", "", "length", "truncated", ""},
        Case{"unclosed", "Plan.\n```python\n" + relu, "length", "truncated", ""},
        Case{"unclosed_though_stopped", "```python\n" + relu, "stop", "truncated", ""},
        Case{"prose", "One would write a kernel.", "stop", "no_code", ""},
        Case{"bare_code_is_no_code", relu, "stop", "no_code", ""},
        Case{"prose_cut", "One would", "length", "truncated", ""},
        Case{"other_language", "```cpp\nint relu();\n```", "stop", "no_code", ""},
        Case{"shell_then_kernel", "```bash\npip install\n```\n```python\n" + relu + "```", "stop", "ok", relu},
        Case{"empty_block", "```python\n\n```", "stop", "no_code", ""},
        Case{"other_name", "```python\ndef relu2(x): pass\n```", "stop", "wrong_entry", ""},
        Case{"nested_definition", "```python\nclass A:\n    def relu(x): pass\n```", "stop", "wrong_entry", ""},
        Case{"in_a_string", "```python\ns = \"\"\"\ndef relu(x): pass\n\"\"\"\n```", "stop", "wrong_entry", ""},
        Case{"refusal", "I'm sorry, but I can't help with that.", "stop", "refusal", ""},
        Case{"filtered", "Partial", "content_filter", "refusal", ""},
        Case{"inline_ticks", "Use ```x``` inline.\n```python\n" + relu + "```", "stop", "ok", relu}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Reply, ApiErrorHasNoCode) {
  llm::Reply reply;
  reply.error = "503";
  EXPECT_EQ(parse_reply(reply, "relu").reply_class, "api_error");
}

TEST(Reply, StrategyIsTheTextBeforeTheKernelCapped) {
  EXPECT_EQ(parse("One block a row.\n\n```python\n" + relu + "```\nMore.").strategy, "One block a row.");
  const ParsedReply parsed = parse(std::string(5000, 'x') + "\n```python\n" + relu + "```");
  EXPECT_LT(parsed.strategy.size(), 700u);
  EXPECT_EQ(parse("a\x1b[31mb\n```python\n" + relu + "```").strategy, "a[31mb");
}

TEST(Submission, TakesBareCodeFencesAndDropsTestsAfterTheLine) {
  EXPECT_EQ(submission_code(relu, "relu"), relu);
  EXPECT_EQ(submission_code("Here:\n```python\n" + relu + "```", "relu"), relu);
  EXPECT_EQ(submission_code(relu + std::string(146, '#') + "\ndef test(): pass\n", "relu"), relu);
  EXPECT_EQ(submission_code("<think>x</think>\n" + relu, "relu"), "\n" + relu);
}

// Each block's quotes stay open to the end; looking there for every block's end takes minutes.
TEST(Reply, ManyBlocksWithBrokenQuotesAreReadInTime) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "```python\n\\'''\n```\n";
  const ParsedReply parsed = parse(text + "```python\n" + relu + "```");
  EXPECT_EQ(parsed.reply_class, "ok");
  EXPECT_EQ(parsed.code, relu);
}

}  // namespace
}  // namespace anneal::agents
