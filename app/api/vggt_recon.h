/* vggt-recon for C and for whatever calls C: frames in, cameras, depth and a cloud of points out, in memory
 * or in files.
 *
 * A context holds weights and options; a run of it gives a scene, which lives on its own. Handles and
 * pointers may be null wherever a function takes them: it then does nothing, returns null or 0, or fails with
 * VGGT_RECON_BAD_INPUT. Different contexts and scenes may be used at the same time on any threads, and so may
 * one context but for closing it, and one scene but for freeing it.
 *
 * No exception leaves these functions, no signal handler is installed, nothing is printed by them. Settings
 * that LibTorch and OpenCV keep for the whole process (threads, TF32 products, memory limits, what OpenCV and
 * FFmpeg write to stderr about damaged files) stay as the host has them; vggt_recon_process_... change them
 * at its wish. A thread that runs needs a stack of 1 MB. A process that was forked from one that had already
 * run something cannot run anything: the threads of the libraries below do not survive a fork. */
#ifndef VGGT_RECON_H
#define VGGT_RECON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VGGT_RECON_API __attribute__((visibility("default")))
#else
#define VGGT_RECON_API
#endif

/* What functions return: the exit status of the program vggt-recon. */
enum {
  VGGT_RECON_DONE = 0,
  VGGT_RECON_FAILED = 1,           /* anything else, such as a GPU that fails */
  VGGT_RECON_BAD_INPUT = 2,        /* arguments, options, files or images that cannot be used */
  VGGT_RECON_OUT_OF_RESOURCES = 3, /* memory, disk space, open files */
  VGGT_RECON_STOPPED = 130         /* a callback said so; nothing was written */
};

typedef struct vggt_recon_context vggt_recon_context;
typedef struct vggt_recon_scene vggt_recon_scene;

/* The version of the library, and of the LibTorch that it was built with and must run with, such as "2.11".
 */
VGGT_RECON_API const char* vggt_recon_version(void);
VGGT_RECON_API const char* vggt_recon_torch_version(void);

/* ---- Contexts ---- */

/* Opens a weight file (.ts, .safetensors, .pt; null: the small model that comes with the library) and checks
 * that it holds a network. Weights are loaded by the first run, and again where a run needs another device,
 * precision or other heads; runs in between share them. On an error *context is null, and
 * vggt_recon_error(NULL) says why. */
VGGT_RECON_API int vggt_recon_open(const char* weights, vggt_recon_context** context);
/* No run of the context may be going on. Scenes stay. */
VGGT_RECON_API void vggt_recon_close(vggt_recon_context* context);

/* Sets an option of all runs that begin afterwards, by its name on the command line without dashes and its
 * value as text: "conf-percentile", "20"; flags take "true" or "false", lists have commas. A null value sets
 * it back. */
VGGT_RECON_API int vggt_recon_set_option(vggt_recon_context* context, const char* name, const char* value);

/* Why the calling thread's last failing call of this context failed, in one line; "" if none did. Null: of
 * its last failing call that had no context. Valid until the thread's next failing call or its end, and while
 * the context lives. */
VGGT_RECON_API const char* vggt_recon_error(const vggt_recon_context* context);
/* The operating system's error number behind that failure; 0 if there is none. */
VGGT_RECON_API int vggt_recon_error_number(const vggt_recon_context* context);

/* What is known of an option. */
typedef struct {
  const char* name;
  const char* kind;    /* "flag", "whole number", "number", "text" or "list" */
  const char* choices; /* of a text or of a list's entries, with commas; "": any */
  const char* value;   /* the default as text; "": none */
  const char* help;    /* a line; "": it goes with the option before */
} vggt_recon_option_info;

/* The options that a run takes, and their number. */
VGGT_RECON_API const vggt_recon_option_info* vggt_recon_options(size_t* count);

/* ---- Runs ---- */

typedef struct {
  const char* name;
  const char* value;
} vggt_recon_option;

/* An 8-bit RGB image: channel c of pixel (x, y) is at pixels[y * row_stride + x * pixel_stride + c *
 * channel_stride]. Strides may be negative, as from the last row or pixel. 0 stands for what is packed: a
 * channel_stride of 1, a pixel_stride of 3, a row_stride of |pixel_stride| * width. Three planes, one behind
 * the other, have a pixel_stride of 1 and a channel_stride of width * height. Values may not overlap: each
 * stride steps over all that the smaller ones span, but those of a width or height of 1 do not matter.
 * Pixels are read during the run alone, by several threads. */
typedef struct {
  const uint8_t* pixels;
  int32_t width, height;
  ptrdiff_t row_stride, pixel_stride, channel_stride; /* bytes */
  const char* name;                                   /* null: image_000000 and so on */
} vggt_recon_image;

/* What a scene holds in memory beside cameras, tracks and report. Without them a run's memory does not grow
 * with them: depth and confidence take 8 bytes a pixel of the network's and frame, points 15 bytes each,
 * or 27. */
enum { VGGT_RECON_MAPS = 1, VGGT_RECON_POINTS = 2 };

/* What a run is given. Set all of it to 0, then `size` to sizeof(vggt_recon_run_input), then what is needed:
 * frames by one of three ways, and files to be written by the options "out", "export", "picture" and
 * "save-predictions". */
typedef struct {
  size_t size;
  const char* frames;             /* a folder of images, a video, a list or a .safetensors file */
  const char* const* paths;       /* or paths of image files */
  const vggt_recon_image* images; /* or images */
  size_t count;                   /* of paths or images */

  const vggt_recon_option* options; /* of this run, over those of the context */
  size_t option_count;
  uint32_t results; /* VGGT_RECON_MAPS | VGGT_RECON_POINTS */

  /* May be null. The first two are called by the thread that runs; `cancel` by any, often, and what is not 0
   * ends the run with VGGT_RECON_STOPPED. They must not throw, and must not close the context. */
  void* user;
  /* done of total (0: not known) `unit`s of a stage, whose share never falls. */
  void (*progress)(void* user, const char* stage, const char* unit, int64_t done, int64_t total);
  /* kind 0: a detail, 1: what a person may want to know, 2: a warning. */
  void (*message)(void* user, int kind, const char* text);
  int (*cancel)(void* user);
} vggt_recon_run_input;

/* Reconstructs. On an error *scene is null and no file was written. scene may be null where files are all
 * that is wanted. Runs at the same time share the weights; each takes memory as if it were alone. Precision
 * tf32 needs vggt_recon_process_tf32(1), every other one vggt_recon_process_tf32(0), which is LibTorch's
 * default. */
VGGT_RECON_API int vggt_recon_run(vggt_recon_context* context, const vggt_recon_run_input* input,
                                  vggt_recon_scene** scene);

/* ---- Scenes: what they return stays valid and the same until vggt_recon_free() ---- */

VGGT_RECON_API void vggt_recon_free(vggt_recon_scene* scene);

/* Matrices are stored row by row. Pixel centres lie at whole numbers, the image's corner at (-0.5, -0.5). */
typedef struct {
  const char* name;                      /* of the frame */
  const char* model;                     /* COLMAP's: SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL or RADIAL */
  double time_s;                         /* in the video, else the number of the frame */
  int32_t valid;                         /* 0: the frame has no camera; then the rest means nothing */
  int32_t width, height;                 /* of the upright original */
  int32_t network_width, network_height; /* of the maps */
  double intrinsics[9];                  /* fx 0 cx, 0 fy cy, 0 0 1, of the original */
  double network_intrinsics[9];          /* of the maps */
  double distortion[2];                  /* k1, k2 */
  double cam_from_world[16];             /* OpenCV axes: x right, y down, z ahead */
  double mean_confidence;
} vggt_recon_camera;

/* A point that was found in several frames, and where: observations [first_observation, + observation_count).
 */
typedef struct {
  double point[3]; /* world */
  double error;    /* mean distance from where the cameras show it, pixels of the originals */
  int64_t first_observation, observation_count;
  uint8_t rgb[3];
  uint8_t unused[5];
} vggt_recon_track;

typedef struct {
  double x, y; /* pixels of the upright original */
  int64_t frame;
} vggt_recon_observation;

/* One for each frame in order; none where the camera head did not run. */
VGGT_RECON_API const vggt_recon_camera* vggt_recon_cameras(const vggt_recon_scene* scene, size_t* count);
/* Of the depth head, along the cameras' axes, and how sure it is: [frames, height, width], `shape` of the
 * three. Null without VGGT_RECON_MAPS, and where the depth head did not run. */
VGGT_RECON_API const float* vggt_recon_depth(const vggt_recon_scene* scene, size_t shape[3]);
VGGT_RECON_API const float* vggt_recon_confidence(const vggt_recon_scene* scene, size_t shape[3]);
/* The points of the cloud in world coordinates [count, 3], their colours [count, 3] and, with the option
 * "export" "normals", their normals [count, 3]. Null without VGGT_RECON_POINTS. */
VGGT_RECON_API const float* vggt_recon_points(const vggt_recon_scene* scene, size_t* count);
VGGT_RECON_API const uint8_t* vggt_recon_colors(const vggt_recon_scene* scene, size_t* count);
VGGT_RECON_API const float* vggt_recon_normals(const vggt_recon_scene* scene, size_t* count);
/* None where the scene was not adjusted to its images. */
VGGT_RECON_API const vggt_recon_track* vggt_recon_tracks(const vggt_recon_scene* scene, size_t* count);
VGGT_RECON_API const vggt_recon_observation* vggt_recon_observations(const vggt_recon_scene* scene,
                                                                     size_t* count);
/* What the program writes as scene.report.json. */
VGGT_RECON_API const char* vggt_recon_report(const vggt_recon_scene* scene);
/* The files and folders that the run wrote. */
VGGT_RECON_API const char* const* vggt_recon_written(const vggt_recon_scene* scene, size_t* count);

/* Writes cloud (where the scene holds its points), cameras, trajectory and report as the option "out" does:
 * x.ply and its siblings, or scene.ply and so on in a folder. All of them, or none. vggt_recon_error(NULL)
 * tells of errors. */
VGGT_RECON_API int vggt_recon_save(const vggt_recon_scene* scene, const char* out);

/* ---- Settings of the process: for hosts that have no other way to them. No run may be going on. ---- */

/* Threads that LibTorch and OpenCV compute with. */
VGGT_RECON_API int vggt_recon_process_threads(int threads);
/* Whether LibTorch's fp32 products may be TF32 on GPUs. */
VGGT_RECON_API int vggt_recon_process_tf32(int allowed);

#ifdef __cplusplus
}
#endif

#endif
