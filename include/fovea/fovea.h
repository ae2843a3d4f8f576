/* fovea.h: vision transformers with linear attention at high resolution on edge devices.
 *
 * This is the public interface. A *plan* is made from a *model* (immutable: configuration and
 * memory-mapped weights) for one device, one frame size and one attention. A plan *runs* frames. A
 * first program:
 *
 *     fovea_device *device;
 *     fovea_model *model;
 *     fovea_plan *plan;
 *     fovea_output_info features = FOVEA_OUTPUT_INFO_INIT;
 *     fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
 *     options.frame.width = 1920;
 *     options.frame.height = 1080;
 *     options.attention = "linear:elu1";
 *     if (fovea_device_open(&device, "cpu", NULL) || fovea_model_load(&model, "dinov2-base") ||
 *         fovea_plan_create(&plan, model, device, &options))
 *         return fprintf(stderr, "%s\n", fovea_error());
 *     fovea_plan_output(plan, 0, &features);
 *     size_t size = (size_t)features.rows * features.columns * sizeof(float);
 *     fovea_output out = {malloc(size), size};
 *     while (next(camera)) {
 *         fovea_frame frame = {.pixels = {camera->rgb}};
 *         fovea_run(plan, &frame, &out, 1);
 *     }
 *
 * This header includes the following headers, each of which can be included by itself:
 *
 *     errors.h           status codes, messages, version, memory in use
 *     tensors.h          element types, 16-bit floats, safetensors files
 *     devices.h          devices, their kernels and peak rates, the cache of compiled kernels
 *     models.h           models, preprocessing of pictures
 *     wisdom_store.h     tuning results as text
 *     plans.h            plans of models; running frames
 *     results.h          results from outputs: depth, classes, masks, boxes, key points
 *     crops.h            people in boxes, pictures that are run in parts
 *     prompts.h          masks of what points and boxes mark
 *     video.h            colours and layouts of frames of cameras and decoders
 *     mailbox.h          the newest frame of a camera, with deadlines
 *     external_images.h  frames in memory of cameras, decoders and other devices
 *     operations.h       one attention or matrix product; the state of causal attention
 *     sequences.h        language models and token mixers, token by token
 *     tuning.h           measuring the fastest kernels and schedules
 *     verification.h     comparing kernels and models with the reference
 *
 * adapt.h (training) and fovea.hpp (C++17) are included on their own.
 *
 * Rules that hold for every function
 *   - A function that can fail returns a fovea_status, 0 or negative. Its argument `out`
 *     receives the result, and is left untouched on failure; fovea_error() then returns one line
 *     that names what failed and how to remedy it. The headers name the status codes that are
 *     particular to a function, without FOVEA_. Every function that takes pointers may return
 *     EINVAL for NULL. Functions that return void cannot fail, and accept NULL. Functions that take
 *     an index return 0, or NULL, past the end.
 *   - fovea_plan_create decides everything that can be decided. After it nothing is allocated, no
 *     file is opened, and no lock is taken that another frame could hold. The library never prints,
 *     aborts or exits.
 *   - Threads. A function that is "thread-safe" may be called by any threads at the same time.
 *     Calls of functions with "one thread at a time" must not overlap on the same object; on
 *     different objects they may. A model may be used by many threads, and a device by many plans.
 *     An object is freed or closed once, when no thread uses it any more.
 *   - Processes. After fork() the CPU device, its plans and its models continue in the child, on
 *     the calling thread only, unless another thread was inside the library. Devices of OpenCL and
 *     CUDA work only in the process that opened them, as their drivers do.
 *   - Units are seconds, bytes and pixels. Activations are float32 rows of channels,
 *     [token][channel], with contiguous channels.
 *   - Structs that may grow begin with `struct_size`, their size when the caller was compiled.
 *     Initialise them with their _INIT macro, also those that the library fills. In a struct that a
 *     callback receives, `struct_size` is the library's. A program that was compiled with an older
 *     header keeps running: options that it does not know have their defaults, and results that it
 *     does not know are not written. A program that was compiled with a newer header runs as long
 *     as the options that this library does not know are zero; other values are EINVAL, and so is a
 *     `struct_size` that is not set, for which functions that take an index return 0. Structs that
 *     are elements of arrays, or that come with every frame, have no size and never grow:
 *     fovea_frame, fovea_output, fovea_acquire_fence, fovea_matrix, fovea_target, fovea_tensor,
 *     fovea_trace_event, fovea_model_file, fovea_mask, fovea_detection, fovea_keypoint, fovea_box,
 *     fovea_external_image_plane, fovea_linear_attention_params, fovea_accuracy, fovea_prompt,
 *     fovea_prompt_point.
 *   - Zero in an option means the default, unless the option says otherwise.
 *   - The comment on a function states the owner of a string that it returns. Static strings are
 *     always valid. */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include <fovea/crops.h>
#include <fovea/devices.h>
#include <fovea/errors.h>
#include <fovea/external_images.h>
#include <fovea/mailbox.h>
#include <fovea/models.h>
#include <fovea/operations.h>
#include <fovea/plans.h>
#include <fovea/prompts.h>
#include <fovea/results.h>
#include <fovea/sequences.h>
#include <fovea/tensors.h>
#include <fovea/tuning.h>
#include <fovea/verification.h>
#include <fovea/video.h>
#include <fovea/wisdom_store.h>

#endif
