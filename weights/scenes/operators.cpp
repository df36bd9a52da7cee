// torch.ops.vggt_scenes.render
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

template <typename Value>
RenderParams<Value> make_params(const at::Tensor& surroundings, const at::Tensor& materials,
                                const at::Tensor& primitives, const at::Tensor& cameras,
                                const at::Tensor& images, int64_t samples) {
  RenderParams<Value> p{};
  p.surroundings = rows<Surroundings>(surroundings, "surroundings", cameras);
  p.materials = rows<Material>(materials, "materials", cameras);
  p.primitives = rows<Primitive>(primitives, "primitives", cameras);
  p.cameras = rows<Camera>(cameras, "cameras", cameras);
  p.frames = static_cast<int>(cameras.size(0) * cameras.size(1));
  p.frames_per_scene = static_cast<int>(cameras.size(1));
  p.material_rows = static_cast<int>(materials.size(1));
  p.primitive_rows = static_cast<int>(primitives.size(1));
  p.height = static_cast<int>(images.size(3));
  p.width = static_cast<int>(images.size(4));
  p.samples = static_cast<int>(samples);
  return p;
}

void run_cuda([[maybe_unused]] RenderParams<uint16_t> p, [[maybe_unused]] const at::Tensor& images) {
#ifdef VGGT_CUDA
  const c10::cuda::CUDAGuard guard(images.device());
  p.images = static_cast<uint16_t*>(images.data_ptr());
  C10_CUDA_CHECK(static_cast<cudaError_t>(render_cuda(p, c10::cuda::getCurrentCUDAStream().stream())));
#else
  TORCH_CHECK(false, "vggt_scenes::render: built without CUDA, got tensors on ", images.device());
#endif
}

// surroundings [B,32], materials [B,M,16], primitives [B,N,20], cameras [B,S,20], all fp32, rows as in
// scene.h. Returns images [B,S,3,H,W] (fp32; fp16 on a GPU), depth [B,S,H,W] fp32, valid [B,S,H,W] bool.
std::tuple<at::Tensor, at::Tensor, at::Tensor> render(const at::Tensor& surroundings,
                                                      const at::Tensor& materials,
                                                      const at::Tensor& primitives, const at::Tensor& cameras,
                                                      int64_t height, int64_t width, int64_t samples) {
  TORCH_CHECK(cameras.dim() == 3 && materials.dim() == 3 && primitives.dim() == 3 && surroundings.dim() == 2,
              "vggt_scenes::render: expected [B,32], [B,M,16], [B,N,20], [B,S,20], got ",
              surroundings.sizes(), materials.sizes(), primitives.sizes(), cameras.sizes());
  TORCH_CHECK(height > 0 && width > 0 && samples > 0,
              "vggt_scenes::render: expected a positive size and number of ", "samples, got ", height, "x",
              width, ", ", samples);
  TORCH_CHECK(primitives.size(1) <= kMaxPrimitives, "vggt_scenes::render: expected at most ", kMaxPrimitives,
              " primitives a scene, got ", primitives.size(1));
  const int64_t b = cameras.size(0), s = cameras.size(1);
  const bool gpu = cameras.is_cuda();
  at::Tensor images =
      at::empty({b, s, 3, height, width}, cameras.options().dtype(gpu ? at::kHalf : at::kFloat));
  at::Tensor depth = at::empty({b, s, height, width}, cameras.options());
  at::Tensor valid = at::empty({b, s, height, width}, cameras.options().dtype(at::kBool));
  const auto run = [&](auto p) {
    p.depth = depth.data_ptr<float>();
    p.valid = valid.data_ptr<bool>();
    return p;
  };
  if (images.numel() == 0) return {images, depth, valid};
  if (gpu) {
    run_cuda(run(make_params<uint16_t>(surroundings, materials, primitives, cameras, images, samples)),
             images);
  } else {
    auto p = run(make_params<float>(surroundings, materials, primitives, cameras, images, samples));
    p.images = images.data_ptr<float>();
    render_cpu(p);
  }
  return {images, depth, valid};
}

}  // namespace
}  // namespace vggt::scenes

TORCH_LIBRARY(vggt_scenes, library) {
  library.def(
      "render(Tensor surroundings, Tensor materials, Tensor primitives, Tensor cameras, int height, int "
      "width, "
      "int samples) -> (Tensor images, Tensor depth, Tensor valid)");
}

TORCH_LIBRARY_IMPL(vggt_scenes, CPU, library) {
  library.impl("render", vggt::scenes::render);
}
#ifdef VGGT_CUDA
TORCH_LIBRARY_IMPL(vggt_scenes, CUDA, library) {
  library.impl("render", vggt::scenes::render);
}
#endif
