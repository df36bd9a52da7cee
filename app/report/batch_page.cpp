#include "app/report/batch_page.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <ostream>

#include "app/report/page.h"
#include "app/report/page_assets.h"
#include "io/files/atomic_file.h"

namespace vggt {
namespace {

using Json = nlohmann::ordered_json;

/// A picture is a luxury: a page that cannot be read has none.
std::string preview_of(const std::filesystem::path& page) {
  if (page.empty()) return {};
  try {
    return page_preview(page);
  } catch (const std::exception&) {
    return {};
  }
}

/// The bytes of a path as a browser takes them in a link, so that no name becomes a scheme, a query or a
/// fragment.
std::string link_text(const std::string& link) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  if (link.empty()) return {};
  std::string text = "./";
  for (const char c : link) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos) {
      text += c;
    } else {
      text += {'%', kHex[byte >> 4], kHex[byte & 15U]};
    }
  }
  return text;
}

}  // namespace

void write_batch_page(const std::filesystem::path& path, const std::string& title,
                      const std::vector<BatchRow>& rows) {
  Json scenes = Json::array();
  for (const BatchRow& row : rows) {
    scenes.push_back({{"name", row.name},
                      {"state", row.state},
                      {"points", row.points},
                      {"frames", row.frames},
                      {"seconds", row.seconds},
                      {"warnings", row.warnings},
                      {"error", row.error},
                      {"link", link_text(row.link)},
                      {"picture", preview_of(row.page)}});
  }
  const Json data = {{"title", title}, {"scenes", scenes}};
  const std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string text =
      filled_page(page_asset("batch.html"), {{"style", std::string(page_asset("page.css"))},
                                             {"data", script_json(json)},
                                             {"script", std::string(page_asset("batch.js"))}});
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

}  // namespace vggt
