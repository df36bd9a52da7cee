// torch.ops.vggt_scenes: render, damage
#include <ATen/ATen.h>
#include <torch/library.h>

#include "weights/scenes/launch.h"

#ifdef VGGT_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace vggt::scenes {
namespace {

template <typename Row>
const Row* rows(const at::Tensor& table, const char* name, const at::Tensor& like) {
  const int64_t columns = sizeof(Row) / sizeof(float);
  TORCH_CHECK(table.scalar_type() == at::kFloat && table.is_contiguous() && table.device() == like.device() &&
                  table.dim() >= 2 && table.size(-1) == columns && table.size(0) == like.size(0),
              name, ": expected contiguous fp32 of ", like.size(0), " scenes with rows of ", columns, " on ",
              like.device(), ", got ", table.sizes(), " ", table.scalar_type(), " on ", table.device());
  return reinterpret_cast<const Row*>(table.const_data_ptr<float>());
}

// fp32 on the CPU, half precision as its 16 bits on a GPU.
template <typename Value>
constexpr at::ScalarType kImageType = std::is_same_v<Value, float> ? at::kFloat : at::kHalf;

void run(const RenderParams<float>& p, const at::Tensor&) {
  render_cpu(p);
}
void run(const DamageParams<float>& p, const at::Tensor&) {
  damage_cpu(p);
}

#ifdef VGGT_CUDA
template <typename Params>
void launch(int (*kernel)(const Params&, void*), const Params& p, const at::Tensor& like) {
  const c10::cuda::CUDAGuard guard(like.device());
  C10_CUDA_CHECK(static_cast<cudaError_t>(kernel(p, c10::cuda::getCurrentCUDAStream().stream())));
}
void run(const RenderParams<uint16_t>& p, const at::Tensor& like) {
  launch(render_cuda, p, like);
}
void run(const DamageParams<uint16_t>& p, const at::Tensor& like) {
  launch(damage_cuda, p, like);
}
#endif

// surroundings [B,32], materials [B,M,16], primitives [B,N,20], cameras [B,S,20], all fp32, rows as in
// scene.h. Returns images [B,S,3,H,W] (fp32; fp16 on a GPU), depth [B,S,H,W] fp32, valid [B,S,H,W] bool.
template <typename Value>
std::tuple<at::Tensor, at::Tensor, at::Tensor> render(const at::Tensor& surroundings,
                                                      const at::Tensor& materials,
                                                      const at::Tensor& primitives, const at::Tensor& cameras,
                                                      int64_t height, int64_t width, int64_t samples) {
  TORCH_CHECK(cameras.dim() == 3 && materials.dim() == 3 && primitives.dim() == 3 && surroundings.dim() == 2,
              "vggt_scenes::render: expected [B,32], [B,M,16], [B,N,20], [B,S,20], got ",
              surroundings.sizes(), materials.sizes(), primitives.sizes(), cameras.sizes());
  TORCH_CHECK(height > 0 && width > 0 && samples > 0,
              "vggt_scenes::render: expected a positive size and number of samples, got ", height, "x", width,
              ", ", samples);
  TORCH_CHECK(primitives.size(1) <= kMaxPrimitives, "vggt_scenes::render: expected at most ", kMaxPrimitives,
              " primitives a scene, got ", primitives.size(1));
  const int64_t b = cameras.size(0), s = cameras.size(1);
  at::Tensor images = at::empty({b, s, 3, height, width}, cameras.options().dtype(kImageType<Value>));
  at::Tensor depth = at::empty({b, s, height, width}, cameras.options());
  at::Tensor valid = at::empty({b, s, height, width}, cameras.options().dtype(at::kBool));
  RenderParams<Value> p{};
  p.surroundings = rows<Surroundings>(surroundings, "surroundings", cameras);
  p.materials = rows<Material>(materials, "materials", cameras);
  p.primitives = rows<Primitive>(primitives, "primitives", cameras);
  p.cameras = rows<Camera>(cameras, "cameras", cameras);
  p.frames = static_cast<int>(b * s);
  p.frames_per_scene = static_cast<int>(s);
  p.material_rows = static_cast<int>(materials.size(1));
  p.primitive_rows = static_cast<int>(primitives.size(1));
  p.height = static_cast<int>(height);
  p.width = static_cast<int>(width);
  p.samples = static_cast<int>(samples);
  p.images = static_cast<Value*>(images.data_ptr());
  p.depth = depth.data_ptr<float>();
  p.valid = valid.data_ptr<bool>();
  if (images.numel() > 0) run(p, cameras);
  return {images, depth, valid};
}

// images [B,S,3,H,W] (fp32; fp16 on a GPU) in [0,1], amounts [B,S,3] fp32 as Damage in scene.h. Returns the
// images blurred and compressed; where the amounts are 0, equal.
template <typename Value>
at::Tensor damage(const at::Tensor& images, const at::Tensor& amounts) {
  TORCH_CHECK(images.dim() == 5 && images.size(2) == 3 && images.is_contiguous() &&
                  images.scalar_type() == kImageType<Value>,
              "vggt_scenes::damage: expected contiguous images [B,S,3,H,W] of ", kImageType<Value>, ", got ",
              images.sizes(), " ", images.scalar_type());
  TORCH_CHECK(amounts.dim() == 3 && amounts.size(1) == images.size(1),
              "vggt_scenes::damage: expected amounts [B,S,3] of ", images.size(1), " frames, got ",
              amounts.sizes());
  at::Tensor damaged = at::empty_like(images);
  const DamageParams<Value> p{rows<Damage>(amounts, "amounts", images),
                              static_cast<int>(images.size(0) * images.size(1)),
                              static_cast<int>(images.size(3)),
                              static_cast<int>(images.size(4)),
                              static_cast<const Value*>(images.const_data_ptr()),
                              static_cast<Value*>(damaged.data_ptr())};
  if (images.numel() > 0) run(p, images);
  return damaged;
}

}  // namespace
}  // namespace vggt::scenes

TORCH_LIBRARY(vggt_scenes, library) {
  library.def(
      "render(Tensor surroundings, Tensor materials, Tensor primitives, Tensor cameras, int height, int "
      "width, int samples) -> (Tensor images, Tensor depth, Tensor valid)");
  library.def("damage(Tensor images, Tensor amounts) -> Tensor");
}

TORCH_LIBRARY_IMPL(vggt_scenes, CPU, library) {
  library.impl("render", vggt::scenes::render<float>);
  library.impl("damage", vggt::scenes::damage<float>);
}
#ifdef VGGT_CUDA
TORCH_LIBRARY_IMPL(vggt_scenes, CUDA, library) {
  library.impl("render", vggt::scenes::render<uint16_t>);
  library.impl("damage", vggt::scenes::damage<uint16_t>);
}
#endif
