#include <ATen/Parallel.h>

#include "weights/scenes/damage.h"
#include "weights/scenes/launch.h"

namespace vggt::scenes {

void damage_cpu(const DamageParams<float>& p) {
  const int columns = (p.width + kDamageColumns - 1) / kDamageColumns;
  const int rows = (p.height + kDamageRows - 1) / kDamageRows;
  at::parallel_for(0, static_cast<int64_t>(p.frames) * rows, 1, [&](int64_t begin, int64_t end) {
    DamageTile tile;
    for (int64_t k = begin; k < end; ++k) {
      const int frame = static_cast<int>(k / rows), top = static_cast<int>(k % rows) * kDamageRows;
      for (int column = 0; column < columns; ++column) {
        damage_tile(p, frame, column * kDamageColumns, top, tile);
      }
    }
  });
}

}  // namespace vggt::scenes
