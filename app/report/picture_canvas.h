#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace vggt {

/// rgb bytes [H,W,3].
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// Draws discs and lines, what is nearer over what is farther, with several samples a pixel. Coordinates are
/// pixels, and the middle of the first pixel is (0.5, 0.5). Depths are positive. What lies outside of the
/// picture is left out.
class Canvas {
 public:
  using Color = Eigen::Matrix<uint8_t, 3, 1>;
  struct Disc {
    Eigen::Vector2f centre;
    float radius = 0, depth = 0;
    Color color;
  };

  Canvas(int width, int height, const Color& background);

  /// Of discs of one depth the first covers the others.
  void draw(const std::vector<Disc>& discs);
  /// Darkens what lies close behind something else, which makes edges and hollows visible.
  void shade(float strength);
  /// A line from a to b, each (x, y, depth), faint where it is hidden.
  void line(const Eigen::Vector3f& a, const Eigen::Vector3f& b, float width, const Color& color);
  Picture finish() const;

 private:
  std::size_t index(int x, int y) const;
  /// The part of a disc in rows [top, end).
  void draw(const Disc& disc, int top, int end);
  /// behind: what the row works with, kept for the next.
  void shade_row(int y, float strength, std::vector<float>& behind);
  void blend(int x, int y, float depth, const Color& color);

  int width_, height_;         // samples
  std::vector<float> depth_;   // [H,W], infinite: background
  std::vector<Color> colors_;  // [H,W]
};

}  // namespace vggt
