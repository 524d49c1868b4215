#include "transitions/whole_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/temporary_folder.h"
#include "transitions/database.h"

namespace anneal::transitions {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::HasSubstr;

Result<void> write(const fs::path& path, const std::string& text) {
  return write_whole_file(path, [&text](std::ostream& out) -> Result<void> {
    out << text;
    return {};
  });
}

TEST(WholeFile, ReplacesAFileAndLeavesNothingBesideIt) {
  TemporaryFolder folder;
  const fs::path file = folder.write("a.jsonl", "old");
  ASSERT_TRUE(write(file, "new"));
  EXPECT_EQ(folder.read("a.jsonl"), "new");
  EXPECT_FALSE(fs::exists(folder.path() / "a.jsonl.tmp"));
}

TEST(WholeFile, KeepsTheOldFileWhereTheWriterFails) {
  TemporaryFolder folder;
  const fs::path file = folder.write("a.jsonl", "old");
  const auto written = write_whole_file(file, [](std::ostream& out) -> Result<void> {
    out << "half";
    return fail(ErrorKind::missing, "a damaged text");
  });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "a damaged text");
  EXPECT_EQ(folder.read("a.jsonl"), "old");
  EXPECT_FALSE(fs::exists(folder.path() / "a.jsonl.tmp"));
}

TEST(WholeFile, WritesToAPipeAndThroughALinkAndReplacesNeither) {
  TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe", link = folder.path() / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(write(pipe, "new"));
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 3);
  EXPECT_STREQ(text, "new");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));

  folder.write("a.jsonl", "old");
  fs::create_symlink("a.jsonl", link);
  ASSERT_TRUE(write(link, "new"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(folder.read("a.jsonl"), "new");
}

TEST(WholeFile, GoesOverNoDatabase) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  ASSERT_TRUE(Database::open(file, Database::Mode::create_or_open));
  const std::string before = folder.read("x.db");
  const auto written = write(file, "new");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(folder.read("x.db"), before);
}

TEST(WholeFile, SaysWhyItCannotWrite) {
  TemporaryFolder folder;
  const auto nowhere = write(folder.path() / "no" / "a.jsonl", "new");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::missing);
  EXPECT_THAT(nowhere.error().message, HasSubstr("a.jsonl: cannot be written: No such file or directory."));

  // What a full disk does, done by a limit on the size of files.
  const auto on_a_full_disk = [&folder] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto written = write(folder.path() / "b.jsonl", std::string(100'000, 'x'));
    const bool told = !written && written.error().message.find("File too large") != std::string::npos;
    _exit(told && !fs::exists(folder.path() / "b.jsonl.tmp") && !fs::exists(folder.path() / "b.jsonl") ? 0 : 1);
  };
  EXPECT_EXIT(on_a_full_disk(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace anneal::transitions
