// The picture of a scene: what is in front covers what is behind, the view shows cameras and points the right
// way up, and nothing that a scene can lack is a problem.
#include <gtest/gtest.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <opencv2/core/utility.hpp>

#include "app/report/picture.h"
#include "app/report/picture_view.h"
#include "io/scene/image_view.h"

namespace vggt {
namespace {

using Color = Canvas::Color;
using Eigen::Vector3d, Eigen::Vector3f;

constexpr int kWidth = 1280, kHeight = 960;
const Color kBlack(0, 0, 0), kRed(200, 20, 20), kGreen(20, 200, 20), kBlue(20, 20, 200);

Color pixel(const Picture& picture, const Vector3d& at) {
  const int x = static_cast<int>(std::floor(at.x())), y = static_cast<int>(std::floor(at.y()));
  EXPECT_TRUE(x >= 0 && y >= 0 && x < picture.width && y < picture.height) << at.transpose();
  const auto i = static_cast<std::size_t>(std::clamp(y, 0, picture.height - 1) * picture.width +
                                          std::clamp(x, 0, picture.width - 1));
  return Color(picture.rgb[3 * i], picture.rgb[3 * i + 1], picture.rgb[3 * i + 2]);
}

bool is(const Color& color, const Color& expected, int off = 0) {
  return (color.cast<int>() - expected.cast<int>()).cwiseAbs().maxCoeff() <= off;
}

/// A camera at `centre` that looks along z, level.
Camera camera(const Vector3d& centre) {
  Camera camera;
  camera.width = 112;
  camera.height = 84;
  camera.k << 100, 0, 56, 0, 100, 42, 0, 0, 1;
  camera.cam_from_world.translation() = -centre;
  return camera;
}

/// A wall across z = 4, its left half red and its right half green.
PointCloud wall() {
  PointCloud cloud;
  for (float x = -2; x <= 2; x += 0.02F) {
    for (float y = -1; y <= 1; y += 0.02F) {
      cloud.points.emplace_back(x, y, 4.0F);
      cloud.colors.push_back(x < 0 ? kRed : kGreen);
    }
  }
  return cloud;
}

Vector3d project(const PictureView& view, const Vector3d& point, int width = kWidth, int height = kHeight) {
  const Vector3d p = view.view_from_world * point;
  return {width / 2.0 + view.focal * p.x() / p.z(), height / 2.0 + view.focal * p.y() / p.z(), p.z()};
}

PictureView view_of(const PointCloud& cloud, const std::vector<Camera>& cameras) {
  return picture_view(cloud.points, frustums_of(cameras, cloud.points), kWidth, kHeight);
}

Picture drawn(const PointCloud& cloud, const std::vector<Camera>& cameras) {
  Picture picture = draw_picture(cloud, cameras, kWidth, kHeight);
  EXPECT_EQ(picture.rgb.size(), static_cast<std::size_t>(3 * kWidth * kHeight));
  return picture;
}

std::size_t pixels_off_background(const Picture& picture) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < picture.rgb.size(); i += 3)
    count += std::equal(picture.rgb.begin(), picture.rgb.begin() + 3, &picture.rgb[i]) ? 0 : 1;
  return count;
}

TEST(Canvas, WhatIsNearerCovers) {
  for (const bool near_first : {true, false}) {
    Canvas canvas(20, 20, kBlack);
    if (near_first) canvas.draw({{{10.5F, 10.5F}, 3, 1, kRed}});
    canvas.draw({{{10.5F, 10.5F}, 6, 2, kGreen}});
    if (!near_first) canvas.draw({{{10.5F, 10.5F}, 3, 1, kRed}});
    const Picture picture = canvas.finish();
    EXPECT_TRUE(is(pixel(picture, {10, 10, 0}), kRed));
    EXPECT_TRUE(is(pixel(picture, {12, 10, 0}), kRed));
    EXPECT_TRUE(is(pixel(picture, {15, 10, 0}), kGreen));
    EXPECT_TRUE(is(pixel(picture, {10, 5, 0}), kGreen));
    EXPECT_TRUE(is(pixel(picture, {10, 3, 0}), kBlack));
    EXPECT_TRUE(is(pixel(picture, {15, 15, 0}), kBlack));  // a disc, no square
  }
}

TEST(Canvas, OfDiscsOfOneDepthTheFirstCoversOnAnyNumberOfThreads) {
  const int threads = cv::getNumThreads();
  std::vector<Canvas::Disc> discs;  // they overlap, over all rows
  for (int i = 0; i < 600; ++i) {
    const auto t = static_cast<float>(i);
    discs.push_back({{std::fmod(37.7F * t, 64.0F), std::fmod(23.9F * t, 96.0F)},
                     1 + std::fmod(0.37F * t, 5.0F),
                     1 + static_cast<float>(i % 3),
                     Color(static_cast<uint8_t>(i % 256), static_cast<uint8_t>(i / 3), 9)});
  }
  std::vector<uint8_t> expected;
  for (const int count : {1, 2, 7}) {
    cv::setNumThreads(count);
    Canvas canvas(64, 96, kBlack);
    if (count == 1) {
      for (const Canvas::Disc& disc : discs) canvas.draw({disc});
    } else {
      canvas.draw(discs);
    }
    canvas.shade(3);
    const Picture picture = canvas.finish();
    if (count == 1) expected = picture.rgb;
    EXPECT_EQ(picture.rgb, expected) << count;
  }
  cv::setNumThreads(threads);
  Canvas canvas(20, 20, kBlack);
  canvas.draw({{{10, 10}, 4, 2, kRed}, {{10, 10}, 6, 2, kGreen}});
  const Picture picture = canvas.finish();
  EXPECT_TRUE(is(pixel(picture, {10, 10, 0}), kRed));
  EXPECT_TRUE(is(pixel(picture, {15, 10, 0}), kGreen));
}

TEST(Canvas, LinesAreFaintWhereTheyAreHidden) {
  Canvas canvas(40, 20, kBlack);
  canvas.draw({{{30, 10}, 8, 2, kGreen}});
  canvas.line({2, 10, 3}, {38, 10, 3}, 2, kBlue);  // behind the disc
  canvas.line({30, 2, 1}, {30, 18, 1}, 2, kRed);   // in front of it
  const Picture picture = canvas.finish();
  EXPECT_TRUE(is(pixel(picture, {10, 10, 0}), kBlue));
  EXPECT_TRUE(is(pixel(picture, {10, 12, 0}), kBlack));
  const Color hidden = pixel(picture, {26, 10, 0});
  EXPECT_GT(hidden.y(), kBlue.y());
  EXPECT_LT(hidden.y(), kGreen.y());
  EXPECT_TRUE(is(pixel(picture, {30, 7, 0}), kRed));
}

TEST(Canvas, ALineIsAtItsDepthEverywhere) {
  // 1/z goes from 1 to 1/9: at a quarter of the way 7/9, at three quarters 1/3; the disc is at 1/2.
  Canvas canvas(40, 40, kBlack);
  canvas.draw({{{20, 20}, 19, 2, kGreen}});
  canvas.line({20, 0, 1}, {20, 40, 9}, 2, kRed);
  const Picture picture = canvas.finish();
  EXPECT_TRUE(is(pixel(picture, {20, 10, 0}), kRed));
  EXPECT_FALSE(is(pixel(picture, {20, 30, 0}), kRed, 60));
}

TEST(Canvas, ShadeDarkensWhatIsBehindAnEdge) {
  Canvas canvas(40, 20, kBlack);
  canvas.draw({{{20, 10}, 19, 4, kGreen}});
  canvas.draw({{{20, 10}, 5, 2, kGreen}});
  canvas.shade(3);
  const Picture picture = canvas.finish();
  EXPECT_TRUE(is(pixel(picture, {20, 10, 0}), kGreen));         // in front
  EXPECT_TRUE(is(pixel(picture, {32, 10, 0}), kGreen));         // far from the edge
  EXPECT_LT(pixel(picture, {25, 10, 0}).y(), kGreen.y() - 20);  // just behind it
}

TEST(Canvas, NothingOutsideIsTouched) {
  Canvas canvas(16, 16, kBlack);
  for (const float x : {-100.0F, -1.0F, 0.0F, 16.0F, 17.0F, 1e30F}) {
    canvas.draw({{{x, 8}, 2, 1, kRed}});
    canvas.draw({{{8, x}, 2, 1, kRed}});
    canvas.line({x, -50, 1}, {8, 1e5F, 2}, 3, kBlue);
    canvas.line({-1e6F, x, 1}, {1e6F, 3, 2}, 3, kBlue);
    canvas.line({-1e30F, x, 1}, {x, 1e30F, 2}, 3, kBlue);
    canvas.line({NAN, x, 1}, {x, INFINITY, 2}, 3, kBlue);
  }
  canvas.line({5, 5, 1}, {5, 5, 1}, 3, kBlue);
  EXPECT_EQ(canvas.finish().rgb.size(), 16U * 16 * 3);
}

TEST(Picture, ShowsPointsAndCamerasWhereTheyAre) {
  const PointCloud cloud = wall();
  const std::vector<Camera> cameras = {camera({-1, 0, 0}), camera({0, 0, 0}), camera({1, 0, 0})};
  const PictureView view = view_of(cloud, cameras);
  const Picture picture = drawn(cloud, cameras);
  for (const double y : {-0.8, 0.0, 0.8}) {
    EXPECT_TRUE(is(pixel(picture, project(view, {-1.7, y, 4})), kRed)) << y;
    EXPECT_TRUE(is(pixel(picture, project(view, {1.7, y, 4})), kGreen)) << y;
  }
  for (const int x : {0, kWidth - 1})
    EXPECT_TRUE(is(pixel(picture, Vector3d(x, kHeight - 1, 0)), pixel(picture, {0, 0, 0})));
  const std::vector<Frustum> frustums = frustums_of(cameras, cloud.points);
  ASSERT_EQ(frustums.size(), 3U);
  for (std::size_t i = 0; i < frustums.size(); ++i) {
    const Vector3d middle = (frustums[i].corners[0] + frustums[i].corners[1]) / 2;
    EXPECT_TRUE(is(pixel(picture, project(view, middle)), camera_color(i, 3), 2)) << i;
  }
  EXPECT_FALSE(is(camera_color(0, 3), camera_color(1, 3), 60));
  EXPECT_FALSE(is(camera_color(1, 3), camera_color(2, 3), 60));
}

TEST(PictureView, IsBehindAndAboveTheCamerasAndUpright) {
  const PointCloud cloud = wall();
  // The world is turned: what is up in it is up in the picture.
  const Eigen::Matrix3d turn = Eigen::AngleAxisd(2, Vector3d(1, 2, 3).normalized()).toRotationMatrix();
  PointCloud turned = cloud;
  for (Vector3f& point : turned.points) point = turn.cast<float>() * point;
  std::vector<Camera> cameras = {camera({-1, 0.1, 0}), camera({1, 0, 0.2})};
  for (Camera& c : cameras) c.cam_from_world.linear() = turn.transpose();
  const PictureView view = view_of(turned, cameras);
  const Eigen::Matrix3d axes = view.view_from_world.linear() * turn;
  const Vector3d eye = -axes.transpose() * view.view_from_world.translation();
  EXPECT_TRUE((axes * axes.transpose()).isIdentity(1e-9));
  EXPECT_LT(eye.z(), -0.5);
  EXPECT_LT(eye.y(), -0.5);
  EXPECT_GT((axes * Vector3d::UnitX()).x(), 0.95);
  EXPECT_GT((axes * Vector3d::UnitY()).y(), 0.5);
}

TEST(PictureView, ShowsAllCamerasAndIsNotLedAstrayByFewPoints) {
  PointCloud cloud = wall();
  std::vector<Camera> cameras;
  for (int i = 0; i < 12; ++i) cameras.push_back(camera({3 * std::sin(i), 0, 3 * std::cos(i) - 3}));
  const PictureView before = view_of(cloud, cameras);
  for (int i = 0; i < 100; ++i) {
    cloud.points.emplace_back(1000.0F * std::sin(static_cast<float>(i)), -700.0F,
                              1000.0F * std::cos(static_cast<float>(i)));
    cloud.colors.push_back(kRed);
  }
  const PictureView after = view_of(cloud, cameras);
  const auto eye = [](const PictureView& view) {
    return view.view_from_world.inverse().translation().eval();
  };
  EXPECT_LT((eye(before) - eye(after)).norm(), 0.5);
  for (const Frustum& f : frustums_of(cameras, cloud.points)) {
    for (const Vector3d& corner : f.corners) {
      const Vector3d at = project(after, corner);
      EXPECT_TRUE(at.z() > after.nearest && at.x() > 0 && at.y() > 0 && at.x() < kWidth && at.y() < kHeight)
          << at.transpose();
    }
  }
}

// A frustum is that of the photograph: its outer corners, as its lens shows them.
TEST(PictureView, FrustaAreThoseOfTheOriginals) {
  Camera seen = camera({0, 0, 0});
  seen.width = 280;
  seen.height = 280;
  seen.original_width = 300;
  seen.original_height = 400;
  seen.map = {280.0 / 400, 280.0 / 400, 35, 0};
  seen.k << 210, 0, 139, 0, 210, 140, 0, 0, 1;
  seen.distortion << -.1, .01;
  const Camera original = original_camera(seen);
  const Frustum frustum = frustums_of({seen}, wall().points).front();
  const double corners[4][2] = {{-.5, -.5}, {299.5, -.5}, {299.5, 399.5}, {-.5, 399.5}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Eigen::Vector2d shown = original.project(seen.cam_from_world * frustum.corners[i]);
    EXPECT_LT((shown - Eigen::Vector2d(corners[i][0], corners[i][1])).norm(), 1e-6) << i;
  }
}

TEST(Picture, WhatLiesBehindTheCamerasHidesNothing) {
  PointCloud cloud = wall();
  const std::size_t front = cloud.points.size();
  for (std::size_t i = 0; i < front; ++i) {
    const Vector3f point = cloud.points[i];
    cloud.points.emplace_back(point.x(), point.y(), -1.0F);
    cloud.colors.push_back(kBlue);
  }
  const std::vector<Camera> cameras = {camera({-1, 0, 0}), camera({1, 0, 0})};
  const PictureView view = view_of(cloud, cameras);
  EXPECT_TRUE(is(pixel(drawn(cloud, cameras), project(view, {-1.7, 0, 4})), kRed));
}

TEST(Picture, WhatASceneLacksIsNoProblem) {
  EXPECT_EQ(pixels_off_background(drawn({}, {})), 0U);
  const PointCloud one{{{1, 2, 3}}, {kGreen}};
  EXPECT_GT(pixels_off_background(drawn(one, {})), 0U);
  EXPECT_GT(pixels_off_background(drawn(one, {camera({1, 2, 3})})), 20U);
  EXPECT_GT(pixels_off_background(drawn({}, {camera({0, 0, 0})})), 20U);
  EXPECT_GT(pixels_off_background(drawn({}, {camera({5, 5, 5}), camera({5, 5, 5})})), 20U);
  EXPECT_GT(pixels_off_background(drawn(wall(), {})), 1000U);
  Camera lost = camera({0, 0, 0});
  lost.valid = false;
  lost.cam_from_world.matrix().setConstant(NAN);
  EXPECT_EQ(drawn(wall(), {lost}).rgb, drawn(wall(), {}).rgb);
  const PointCloud far{{{1e30F, 0, 0}, {-1e30F, 1e30F, 0}, {0, 0, 1}}, {kRed, kRed, kRed}};
  drawn(far, {camera({0, 0, 0})});
}

}  // namespace
}  // namespace vggt
