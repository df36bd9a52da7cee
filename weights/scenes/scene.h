#pragma once
// What one scene is made of, as rows of float tables. Python writes the rows field after field (see
// tables.py); integers are stored as floats.
#include "weights/scenes/vec.h"

namespace vggt::scenes {

constexpr int kMaxPrimitives = 128;
constexpr float kFarthest = 60;  // scene units; what is beyond has no valid depth

// A box of size 2 half.x × 2 half.y × half.z, its floor at z = 0, z up. The cameras are inside.
struct Surroundings {
  Vec3 half;
  float open;         // 1: no ceiling, sky above the walls
  float wall_height;  // where open
  float primitives;   // how many rows of the primitive table are in use
  float clouds;       // 0 to 1
  float seed;
  Vec3 light;         // a position, or the direction towards it where light_range is 0
  float light_range;  // the distance of half intensity
  Vec3 light_colour;
  Vec3 ambient;
  Vec3 fill;  // direction towards a second light that throws no shadow
  Vec3 fill_colour;
  Vec3 horizon, zenith;
  float unused[2];
};
static_assert(sizeof(Surroundings) == 32 * sizeof(float));

enum class Texture { kCloudy, kStripes, kChecks, kCobbles, kBricks, kMosaic, kSpots, kWood, kPrint, kPlain };

struct Material {
  Vec3 first, second;  // colours
  float texture;       // a Texture
  float frequency;     // per scene unit
  float grain, grain_frequency;
  float seed;
  float variant;    // 0 to 1, the meaning depends on the texture
  float gloss;      // strength of the highlight
  float sharpness;  // its exponent
  float mirror;     // share of the reflected scene
  float unused;
};
static_assert(sizeof(Material) == 16 * sizeof(float));
constexpr int kRoomMaterials = 6;  // rows 0-5: floor, ceiling, +x, -x, +y, -y

// Sizes by shape, in the primitive's own axes, centred:
//   box, ellipsoid, foliage, rounded box: half extents; blob: radii of the lower and upper ball, their
//   distance frustum: radius at -z, radius at +z, half height; capsule: radius, half length without the caps
//   leaf: an ellipse in z = 0, half extents x, y; lattice: the same as a rectangle, z: share of bars
//   torus: radius of the ring, radius of the tube, half the elongation in x
enum class Shape { kBox, kEllipsoid, kFrustum, kCapsule, kLeaf, kLattice, kFoliage, kTorus, kRounded, kBlob };

struct alignas(16) Primitive {  // so that centre and bound are one load
  Vec3 centre;
  float bound;        // radius of the bounding ball
  float rotation[9];  // local from world, row-major
  Vec3 size;
  float shape;     // a Shape
  float material;  // a row of the material table
  float seed;
  float detail;  // lattice, foliage: cells per scene unit; rounded box: share of the smallest half extent
};
static_assert(sizeof(Primitive) == 20 * sizeof(float));

struct Camera {
  float rotation[9];  // cam_from_world, row-major; x right, y down, z forward
  Vec3 centre;        // in the world
  float focal;        // pixels; the principal point is the middle of the image
  Vec3 gain;
  float gamma;
  float noise;  // standard deviation
  float seed;
  float unused;
};
static_assert(sizeof(Camera) == 20 * sizeof(float));

struct Damage {
  float blur_x, blur_y;  // deviations in pixels
  float step;            // of the compression; 0: none
};
static_assert(sizeof(Damage) == 3 * sizeof(float));

// One scene in memory.
struct Scene {
  const Surroundings* surroundings;
  const Material* materials;
  const Primitive* primitives;
};

// A set of primitives, one bit each, so that a set is walked in the same order everywhere.
constexpr int kMaskWords = kMaxPrimitives / 32;
struct Mask {
  uint32_t words[kMaskWords];
};

// images: [B*S,3,H,W] in [0,1]; depth: [B*S,H,W], 0 where not valid; valid: [B*S,H,W].
template <typename Value>
struct RenderParams {
  const Surroundings* surroundings;  // [B]
  const Material* materials;         // [B,material_rows]
  const Primitive* primitives;       // [B,primitive_rows]
  const Camera* cameras;             // [B*S]
  int frames, frames_per_scene, material_rows, primitive_rows, height, width, samples;
  Value* images;
  float* depth;
  bool* valid;
};

// images: [B*S,3,H,W] in [0,1]; damaged: the same, other memory.
template <typename Value>
struct DamageParams {
  const Damage* amounts;  // [B*S]
  int frames, height, width;
  const Value* images;
  Value* damaged;
};

constexpr int kTile = 16;  // pixels; the primitives that a tile may see are found once for all of its rays

}  // namespace vggt::scenes
