#include "evaluator/hide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Hide : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"repo/runs/deep", "repo/bin", "venv/lib/torch", "data"})
      fs::create_directories(folder / name);
    std::ofstream(folder / "repo/bin/anneal-evald") << "x";
    std::ofstream(folder / "repo/x.db") << "x";
  }

  test::TemporaryFolder temporary;
  fs::path folder = fs::canonical(temporary.path());
};

TEST_F(Hide, CoversFoldersAndSkipsWhatIsNoFolder) {
  EXPECT_THAT(coverable({folder / "data", folder / "absent", folder / "repo/x.db"}, {}, {}),
              ElementsAre(folder / "data"));
}

TEST_F(Hide, NeverCoversWhatTheJudgeNeeds) {
  std::vector<fs::path> open;
  const fs::path evald = folder / "repo/bin/anneal-evald", lib = folder / "venv/lib";
  EXPECT_THAT(
      coverable({folder, folder / "repo", folder / "repo/bin", folder / "venv", lib / "torch"}, {evald}, {lib}, &open),
      IsEmpty());
  EXPECT_EQ(open.size(), 5u);
  // Beside it can be covered.
  EXPECT_THAT(coverable({folder / "repo/runs"}, {evald}, {lib}), ElementsAre(folder / "repo/runs"));
}

TEST_F(Hide, ALinkIsWhereItLeads) {
  fs::create_directory_symlink(folder / "repo", folder / "link");
  EXPECT_THAT(coverable({folder / "link"}, {folder / "repo/bin/anneal-evald"}, {}), IsEmpty());
  EXPECT_THAT(coverable({folder / "link/runs"}, {}, {}), ElementsAre(folder / "repo/runs"));
}

TEST_F(Hide, LiesInAFolderOrIsIt) {
  fs::create_directory_symlink(folder / "venv/lib", folder / "link");
  EXPECT_TRUE(lies_in(folder / "link/torch", {folder / "venv"}));
  EXPECT_TRUE(lies_in(folder / "venv", {folder / "data", folder / "venv"}));
  EXPECT_FALSE(lies_in(folder, {folder / "venv"}));
  EXPECT_FALSE(lies_in(folder / "absent", {folder}));
}

TEST_F(Hide, AFolderInsideACoveredOneIsCoveredWithIt) {
  EXPECT_THAT(coverable({folder / "repo/runs/deep", folder / "repo/runs", folder / "repo/runs"}, {}, {}),
              ElementsAre(folder / "repo/runs"));
}

}  // namespace
}  // namespace anneal::evaluator
