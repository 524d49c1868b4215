#include "transitions/normalise.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace anneal::transitions {
namespace {

TEST(Normalise, IgnoresCommentsBlankLinesAndSpacing) {
  EXPECT_EQ(normalised_sha256("x=1\nif x:\n  y = x+2 # note\n"),
            normalised_sha256("# head\n\nx = 1\n\nif x :\n        y=x + 2\n\n\n"));
}

TEST(Normalise, KeepsBlockStructure) {
  EXPECT_NE(normalised_sha256("if a:\n  b()\n  c()\n"), normalised_sha256("if a:\n  b()\nc()\n"));
}

TEST(Normalise, TellsIndentationThatPythonRefusesFromItsRepair) {
  const std::string wrong = "def f(x):\n  if c:\n    a = 1\n   b = 2\n",
                    right = "def f(x):\n  if c:\n    a = 1\n  b = 2\n";
  EXPECT_NE(normalised_sha256(wrong), normalised_sha256(right));
  const std::string mixed = "if a:\n        b()\n\tc()\n", spaces = "if a:\n        b()\n        c()\n";
  EXPECT_NE(normalised_sha256(mixed), normalised_sha256(spaces));
  EXPECT_EQ(normalised_sha256("if a:\n\tb()\n\tc()\n"), normalised_sha256(spaces));
}

TEST(Normalise, KeepsACommentThatNamesTheEncoding) {
  EXPECT_NE(normalised_sha256("# -*- coding: utf-7 -*-\nx = 1\n"), normalised_sha256("x = 1\n"));
  EXPECT_NE(normalised_sha256("#!/usr/bin/python3\n# coding=latin-1\nx = 1\n"), normalised_sha256("x = 1\n"));
  EXPECT_EQ(normalised_sha256("\n\n# coding: utf-7\nx = 1\n"), normalised_sha256("x = 1\n"));
}

TEST(Normalise, JoinsLinesInsideBracketsAndAfterABackslash) {
  EXPECT_EQ(normalised_sha256("f(a, b)\n"), normalised_sha256("f(a,\n\n   # why\n  b)\n"));
  EXPECT_EQ(normalised_sha256("x = 1 + 2\n"), normalised_sha256("x = 1 + \\\n  2\n"));
}

TEST(Normalise, LeavesStringsAsWritten) {
  EXPECT_NE(normalised_sha256("s = 'a  # b'\n"), normalised_sha256("s = 'a'\n"));
  EXPECT_NE(normalised_sha256("s = \"\"\"a\n b\"\"\"\n"), normalised_sha256("s = \"\"\"a\n  b\"\"\"\n"));
  const std::vector<std::string> tokens = normalise("f'{x!r:>{w}} # no'");
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0], "f'{x!r:>{w}} # no'");
  EXPECT_EQ(normalise(R"(r'\'' + 1)").size(), 4u);
}

TEST(Normalise, ReadsNumbersAndOperatorsWhole) {
  EXPECT_EQ(normalise("1e-5**x").size(), 4u);
  EXPECT_EQ(normalise("0xe-5").size(), 4u);  // hexadecimal e is a digit, then minus
  EXPECT_NE(normalised_sha256("a<b"), normalised_sha256("a<<b"));
}

TEST(Normalise, SameForUnixAndWindowsLineEnds) {
  EXPECT_EQ(normalised_sha256("if a:\n  b()\n"), normalised_sha256("if a:\r\n  b()\r\n"));
}

TEST(Normalise, NeverFailsAndAddsNothingForTrailingBlankLines) {
  EXPECT_TRUE(rc::check("any bytes", [](std::string text) {
    normalise(text);
    RC_ASSERT(normalised_sha256("x = 1\n") == normalised_sha256("x = 1\n\n\n"));
  }));
  EXPECT_TRUE(rc::check("spaces between tokens do not matter", [](std::vector<bool> gaps) {
    std::string tight = "y", loose = "y";
    for (bool gap : gaps) {
      tight += "+x";
      loose += gap ? " + x " : "+ x";
    }
    RC_ASSERT(normalised_sha256(tight) == normalised_sha256(loose));
  }));
}

}  // namespace
}  // namespace anneal::transitions
