#include "app/batch/batch_index.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/report/batch_page.h"

namespace vggt {

void write_batch_index(const std::filesystem::path& results, const std::vector<SceneRow>& rows) {
  std::vector<BatchRow> listed;
  for (const SceneRow& row : rows) {
    const SceneRecord& record = row.record;
    BatchRow entry{
        row.scene, row.state, record.points, record.frames, record.seconds, record.warnings, record.error,
        "",        {}};
    if (row.state == "interrupted" || row.state == "stopped") entry.state = "waiting";
    if (row.state == "done" &&
        std::ranges::count(record.files, std::string("scene.html"), &OutputFile::path) > 0) {
      entry.link = row.scene + "/scene.html";
      entry.page = results / row.scene / "scene.html";
    }
    listed.push_back(std::move(entry));
  }
  const std::string title =
      std::filesystem::absolute(results / "").lexically_normal().parent_path().filename().string();
  write_batch_page(results / "index.html", title, listed);
}

}  // namespace vggt
