/* hostile_cl.h: an OpenCL library that lies and fails on demand, over the real one.
 *
 * Opened in the real one's place: FOVEA_OPENCL=path/to/libhostile_cl.so. It takes its lies from
 * HOSTILE_CL of the environment, "name=value,name=value", and from hostile_set, which a test finds
 * with dlsym.
 *
 *   largest   bytes of a buffer at most
 *   group     work-items of a work-group at most
 *   compiled  the same for every compiled kernel
 *   local     bytes of local memory
 *   own       1: says that local memory is not main memory, 0: that it is
 *   vectors   floats of a work-item's vectors
 *   unified   1: says that it shares the host's memory, 0: that it does not
 *   half      0: no float16 arithmetic
 *   claims    1: says that it has extensions which its compiler does not know
 *   build     0: no program compiles
 *   barrier   0: programs compile without their barriers, so that their work-items race
 *   hang      1: no command is ever done; 2: no kernel, and nothing that stands behind one
 *   fail      n: the n-th call from now on fails with `error`
 *   lasting   1: and so do all calls after it
 *   error     an OpenCL error code, negative
 */
#ifndef FOVEA_TESTS_HOSTILE_CL_H
#define FOVEA_TESTS_HOSTILE_CL_H

/* `value` LONG_MIN: the truth. */
typedef void hostile_set_fn(const char *name, long value);
/* Only calls of this function count from now on; NULL: all. */
typedef void hostile_only_fn(const char *name);
/* Calls that count since the last hostile_set("fail"); releases do not. */
typedef long hostile_calls_fn(void);
/* The call that was made to fail, or NULL. */
typedef const char *hostile_failed_fn(void);
/* Objects that were created and not released: of one kind ("context", "queue", "buffer",
 * "program", "kernel", "event"), or of all with NULL. */
typedef long hostile_live_fn(const char *kind);
/* Releases of what is not alive, and waits without bound for what does not end. */
typedef long hostile_misuse_fn(void);

#endif
