/* Reconstructs a folder of images, or a moving pattern made here, and prints what came of it:
 *
 *   reconstruct [FOLDER [SCENE.ply]]
 *
 * cc -std=c99 reconstruct.c $(pkg-config --cflags --libs vggt_recon) -lm -o reconstruct */
#include <math.h>
#include <stdio.h>
#include <vggt_recon.h>

enum { WIDTH = 160, HEIGHT = 120, FRAMES = 3 };

static void say_progress(void* user, const char* stage, const char* unit, int64_t done, int64_t total) {
  (void)user;
  if (done == total) fprintf(stderr, "%s: %lld %s\n", stage, (long long)done, unit);
}

static void say_message(void* user, int kind, const char* text) {
  (void)user;
  if (kind > 0) fprintf(stderr, "%s%s\n", kind == 2 ? "warning: " : "", text);
}

/* A textured wall, seen from places further and further to the right. */
static void draw(uint8_t* rgb, int frame) {
  int x, y;
  for (y = 0; y < HEIGHT; ++y) {
    for (x = 0; x < WIDTH; ++x, rgb += 3) {
      const double u = (x + 4 * frame) / 9.0, v = y / 7.0;
      rgb[0] = (uint8_t)(127 + 120 * sin(u) * cos(v));
      rgb[1] = (uint8_t)(127 + 120 * sin(1.7 * u + v));
      rgb[2] = (uint8_t)(127 + 120 * cos(0.6 * u - 1.3 * v));
    }
  }
}

static void print_scene(const vggt_recon_scene* scene) {
  size_t frames, points, i, shape[3];
  const vggt_recon_camera* cameras = vggt_recon_cameras(scene, &frames);
  const float* depth = vggt_recon_depth(scene, shape);
  vggt_recon_points(scene, &points);
  for (i = 0; i < frames; ++i) {
    const float middle = depth[(i * shape[1] + shape[1] / 2) * shape[2] + shape[2] / 2];
    printf("%s: focal length %.1f pixels, depth in the middle %.3f\n", cameras[i].name, cameras[i].intrinsics[0],
           (double)middle);
  }
  printf("%lu points\n", (unsigned long)points);
}

int main(int argc, char** argv) {
  static uint8_t pixels[FRAMES][HEIGHT * WIDTH * 3];
  vggt_recon_image images[FRAMES] = {{0}};
  const vggt_recon_option options[] = {{"max-frames", "4"}, {"width", "126"}};
  vggt_recon_run_input input = {0};
  vggt_recon_context* context = NULL;
  vggt_recon_scene* scene = NULL;
  int i, code;

  code = vggt_recon_open(NULL, &context); /* the small model that comes with the library */
  if (code != VGGT_RECON_DONE) {
    fprintf(stderr, "error: %s\n", vggt_recon_error(NULL));
    return code;
  }
  for (i = 0; i < FRAMES; ++i) {
    draw(pixels[i], i);
    images[i].pixels = pixels[i];
    images[i].width = WIDTH;
    images[i].height = HEIGHT;
  }
  input.size = sizeof input;
  if (argc > 1) {
    input.frames = argv[1];
  } else {
    input.images = images;
    input.count = FRAMES;
  }
  input.options = options;
  input.option_count = sizeof options / sizeof *options;
  input.results = VGGT_RECON_MAPS | VGGT_RECON_POINTS;
  input.progress = say_progress;
  input.message = say_message;

  code = vggt_recon_run(context, &input, &scene);
  if (code != VGGT_RECON_DONE) fprintf(stderr, "error: %s\n", vggt_recon_error(context));
  if (code == VGGT_RECON_DONE) print_scene(scene);
  if (code == VGGT_RECON_DONE && argc > 2) {
    code = vggt_recon_save(scene, argv[2]);
    if (code != VGGT_RECON_DONE) fprintf(stderr, "error: %s\n", vggt_recon_error(NULL));
  }
  vggt_recon_free(scene);
  vggt_recon_close(context);
  return code;
}
