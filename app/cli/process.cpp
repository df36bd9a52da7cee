#include "app/cli/process.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <opencv2/core/utility.hpp>

namespace vggt {

void set_process_threads(int64_t threads) {
  if (threads <= 0) return;
  at::set_num_threads(static_cast<int>(threads));
  cv::setNumThreads(static_cast<int>(threads));
}

void set_process_precision(Precision precision) {
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::tf32);
}

}  // namespace vggt
