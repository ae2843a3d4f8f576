/* hostile.h: drivers that lie and fail on demand: libhostile_cl.so over a real OpenCL library, and
 * libemulated_cuda.so, which is NVIDIA's driver and compiler on the CPU.
 *
 * Opened in the real one's place, see hostile_open(). They take their lies from HOSTILE_CL or
 * EMULATED_CUDA of the environment, "name=value,name=value", and from set(). Of both:
 *
 *   largest   bytes of a buffer at most; CUDA: of all memory
 *   holds     bytes of a buffer (CUDA: of all) that are really there, in spite of what is said
 *   group     work-items of a work-group at most; CUDA: that every kernel says it allows
 *   local     bytes of local memory
 *   unified   1: says that it shares the host's memory, 0: that it does not
 *   build     0: no program compiles
 *   barrier   0: kernels do not wait at barriers, so that their work-items race
 *   hang      1: no command is ever done; 2: no kernel, and no command queued after one
 *   fail      n: the n-th call from now on fails with `error`
 *   lasting   1: and so do all calls after it
 *   error     an error code of the driver's
 *
 * Of OpenCL alone:
 *
 *   compiled  the same as group for every compiled kernel
 *   own       1: says that local memory is not main memory, 0: that it is
 *   vectors   floats of a work-item's vectors
 *   half      0: no float16 arithmetic; 2: that of gemm_half.cl, emulated where there is none; 3:
 *             the same, said to be fast
 *   dots      1: multiplies int8 by fours with cl_khr_integer_dot_product, 2: with
 *             cl_arm_integer_dot_product_accumulate_int8, emulated; 3: the latter, and adds nothing
 *   subgroups of gemm_subgroup.cl, of 16 lanes, with `half` 2; 1: emulated over local memory; 2: a
 *             lane reads neighbours of a block; 3: lanes give nothing to others; 4: they are 8; 5:
 *             slower than what does without
 *   stalls    n: the n-th compilation of a text from now on does not end before this is set again;
 *             -1: none ends
 *   dies      n: the n-th compilation of a text from now on ends the process
 *   version   of the driver, added to the true one
 *   claims    1: says that it has extensions which its compiler does not know
 *   images    0: none; 2: read much faster than buffers; 3: do not see what their buffer has
 *   texels    of an image over a buffer at most
 *   gpu       1: says that it is one, no processor, so that what it does is measured
 *   hint      1: has cl_qcom_perf_hint; 2: says so, and takes no context with one
 *   records   1: has cl_khr_command_buffer; 2: cl_qcom_recordable_queues; 3: the first, but kernels
 *             get the arguments of the time when they run; 4: says so, and lacks its functions
 *   imports   a sum: 1 has cl_khr_external_memory_dma_buf, 2 cl_arm_import_memory of dma-bufs, 4
 *             cl_qcom_dmabuf_host_ptr, 8 cl_qcom_ion_host_ptr, 16 cl_arm_import_memory of the
 *             host's memory, 32 of AHardwareBuffers, 64 cl_qcom_android_ahardwarebuffer_host_ptr;
 *             over any memory with a file descriptor
 *   fences    1: has cl_khr_external_semaphore_sync_fd, over sockets; 2: says so, and lacks its
 *             functions
 *
 * Of CUDA alone:
 *
 *   sm        compute capability of its devices, 80 unless said otherwise
 *   devices   how many there are
 *   version   of the driver and the compiler, 13000 for 13.0
 *   free      bytes of memory that are said to be free, less what the process has taken
 *   graphs    0: nothing can be captured
 *   image     0: no module is taken
 *   ptx       0: no PTX is taken but that of CUDA 11.0
 *   order     1: threads run in the opposite order, and copies are made when they are begun
 *   streams   1: nothing runs before the host asks for an event or waits, and then the stream that
 *             was made first as far as it can; 2: the one that was made last
 *   imports   a sum: 1 takes file descriptors as external memory, 2 EGL images whose picture is at
 *             an address, 4 those in arrays, 8 pins no memory of the host's; 0 unless said
 *             otherwise
 *   unwaited  1: of the waits for events every other one is left out, beginning with the first; 2:
 *             with the second
 */
#ifndef FOVEA_TESTS_HOSTILE_H
#define FOVEA_TESTS_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>

/* The content of an AHardwareBuffer as the simulated OpenCL driver reads it. */
typedef struct hostile_ahardwarebuffer {
    int fd;
    size_t size;
} hostile_ahardwarebuffer;

/* Sets a property to `value`, or to its true value if `value` is LONG_MIN. If `name` is NULL,
 * resets all properties and counts all calls again. */
typedef void hostile_set_fn(const char *name, long value);
/* Restricts counting and failing to calls of one function, or lifts the restriction if `name` is
 * NULL. */
typedef void hostile_only_fn(const char *name);
/* Returns the number of counted calls since the last set("fail"), without releases. */
typedef long hostile_calls_fn(void);
/* Returns the number of all calls of a function so far. */
typedef long hostile_counted_fn(const char *name);
/* Returns the name of the call that failed on request, or NULL. */
typedef const char *hostile_failed_fn(void);
/* Returns the number of live objects of one kind, or of all kinds if `kind` is NULL.
 *
 * Kinds of OpenCL: "context", "queue", "buffer", "program", "kernel", "event", "recording",
 * "semaphore", and for contexts and queues also "hinted context", "timed queue" and "recordable
 * queue". Kinds of CUDA: "context", "memory", "pinned", "registered", "external", "resource",
 * "surface", "module", "stream", "event", "graph", "exec", "program". */
typedef long hostile_live_fn(const char *kind);
/* Returns the number of errors: releases of objects that are not alive, unbounded waits for
 * commands that never end, and writes beyond the end of memory. */
typedef long hostile_misuse_fn(void);
/* CUDA: returns the number of contexts that are current on the calling thread; it is larger if the
 * thread's contexts were not restored. */
typedef long hostile_depth_fn(void);

/* The driver that a test has opened. */
typedef struct hostile_driver {
    const char *device; /* "cl:0" or "cuda:0" */
    bool cuda;
    const char *const *functions; /* the driver's functions that the library calls, ending with
                                     NULL; without cuBLASLt's */
    hostile_set_fn *set;
    hostile_only_fn *only;
    hostile_calls_fn *calls;
    hostile_counted_fn *counted;
    hostile_failed_fn *failed;
    hostile_live_fn *live;
    hostile_misuse_fn *misuse;
    hostile_depth_fn *depth; /* NULL: OpenCL */
} hostile_driver;
extern hostile_driver hostile;

/* Makes the library open the driver at `path`. Must be called before the library looks for devices.
 * Prints the reason if it fails.
 */
bool hostile_open(const char *path);
/* Returns another symbol that the driver exports, or NULL if there is none. */
void *hostile_symbol(const char *name);

#endif
