#include "agents/prompt.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "agents/text.h"
#include "fakes.h"

namespace anneal::agents {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(Prompts, PlacesTextWithoutEscapingAndRefusesMissingKeys) {
  TemporaryFolder folder;
  folder.write("m/a.mustache", "{{code}}|{{#list}}<{{x}}>{{/list}}|{{^none}}no{{/none}}|{{n}}");
  folder.write("m/b.mustache", "{{code}} {{absent}}");
  const auto prompts = Prompts::load(folder.path());
  ASSERT_TRUE(prompts.has_value());
  const json data = {{"code", "a < b && \"c\" {{x}}"}, {"list", {{{"x", 1}}, {{"x", "y"}}}}, {"none", false}, {"n", 3}};
  EXPECT_EQ(prompts->render("m/a", data).value(), "a < b && \"c\" {{x}}|<1><y>|no|3");
  const auto missing = prompts->render("m/b", data);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("m/b.mustache uses the key 'absent'"));
  EXPECT_FALSE(prompts->render("m/c", data).has_value());
}

TEST(Prompts, WhatIsPutInHasNoControlCharacters) {
  TemporaryFolder folder;
  folder.write("p.mustache", "{{feedback}}{{#list}}<{{x}}>{{/list}}");
  const auto prompts = Prompts::load(folder.path());
  ASSERT_TRUE(prompts.has_value());
  const auto text =
      prompts->render("p", {{"feedback", "a\x1b[31mb\x07\n\tc\xff"}, {"list", {{{"x", "\x1b]0;t\x07"}}}}});
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, "a[31mb\n\tc\xEF\xBF\xBD<]0;t>");
}

TEST(Prompts, BrokenTemplatesAndEmptyFoldersAreErrors) {
  TemporaryFolder folder;
  EXPECT_FALSE(Prompts::load(folder.path()).has_value());
  folder.write("a.mustache", "{{#open}}");
  const auto broken = Prompts::load(folder.path());
  ASSERT_FALSE(broken.has_value());
  EXPECT_THAT(broken.error().message, HasSubstr("a.mustache"));
}

TEST(CleanText, StripsControlsRepairsUtf8AndCaps) {
  EXPECT_EQ(clean_text("a\x1b[2Jb\tc\x7f", 100), "a[2Jb\tc");
  EXPECT_EQ(clean_text(std::string("a\0b\r\nc", 6), 100), "ab\nc");
  EXPECT_EQ(clean_text("\xC2\x9B"
                       "31m",
                       100),
            "31m");
  EXPECT_EQ(clean_text("a\xE2\x80\xAE"
                       "b\xE2\x81\xA7",
                       100),
            "ab");
  EXPECT_EQ(clean_text("\xff", 100), "\xEF\xBF\xBD");
  EXPECT_EQ(clean_text("\xE2\x82\xAC\xE2\x82\xAC", 4), "\xE2\x82\xAC\n... (3 bytes left out)");
}

}  // namespace
}  // namespace anneal::agents
