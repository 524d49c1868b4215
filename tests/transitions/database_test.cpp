#include "transitions/database.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <functional>

#include "tests/temporary_folder.h"

namespace anneal::transitions {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::HasSubstr;

// Leaves with 0 if `check` holds for a user who may write nothing here: root may always.
void exit_as_nobody(const std::function<bool()>& check) {
  constexpr uid_t nobody = 65534;
  if (geteuid() == 0 && ::setresuid(nobody, nobody, nobody) != 0) _exit(2);
  _exit(check() ? 0 : 1);
}

class UnwritableFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Database::open(file_, Database::Mode::create_or_open));
    ASSERT_FALSE(fs::exists(file_.string() + "-wal"));
  }
  void close_folder() const { fs::permissions(folder_.path(), fs::perms(0555)); }
  ~UnwritableFolder() override { fs::permissions(folder_.path(), fs::perms(0755)); }

  TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "x # 100%?.db";
};

TEST_F(UnwritableFolder, ADatabaseIsReadThere) {
  close_folder();
  const auto reads = [this] {
    const auto database = Database::open(file_, Database::Mode::read_only);
    return database && (*database)->sql().execAndGet("SELECT count(*) FROM text").getInt() == 0;
  };
  EXPECT_EXIT(exit_as_nobody(reads), ::testing::ExitedWithCode(0), "");
}

TEST_F(UnwritableFolder, ChangesThatWaitBesideTheDatabaseAreNotPassedOver) {
  folder_.write(file_.filename().string() + "-wal", "changes");
  close_folder();
  const auto refuses = [this] {
    const auto database = Database::open(file_, Database::Mode::read_only);
    return !database && database.error().message.find("changes wait in ") != std::string::npos;
  };
  EXPECT_EXIT(exit_as_nobody(refuses), ::testing::ExitedWithCode(0), "");
}

TEST_F(UnwritableFolder, AFileThatMayNotBeReadSaysSo) {
  fs::permissions(file_, fs::perms::none);
  close_folder();
  const auto refuses = [this] {
    const auto database = Database::open(file_, Database::Mode::read_only);
    return !database && database.error().message == "Cannot open " + file_.string() + ": Permission denied.";
  };
  EXPECT_EXIT(exit_as_nobody(refuses), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace anneal::transitions
