/* fake_throughput.h: a throughput device in host memory. The CPU's kernels run the plans that are
 * made for such devices. It detects what real ones do not survive: buffers larger than its limit,
 * reads of memory that was never written, writes past a buffer's end.
 */
#ifndef FOVEA_TESTS_FAKE_THROUGHPUT_H
#define FOVEA_TESTS_FAKE_THROUGHPUT_H

#include "device/backend.h"

typedef struct fake_options {
    uint64_t largest; /* bytes of a buffer; 0: no limit */
    uint64_t memory;  /* bytes of the device; 0: not told */
    bool *closed;     /* is set when it is; or NULL */
    const bool *lost; /* while it is set, nothing is written to its memory; or NULL */
} fake_options;

/* To be closed as any other, when it must hold nothing any more. */
fovea_device *fake_open(const fake_options *options);

/* What happened since it was opened: the largest buffer, calls of REDUCE steps that served several
 * partial states, calls that did not have all rows of their step. */
typedef struct fake_account {
    uint64_t largest;
    uint32_t buffers, parted, cut;
} fake_account;
fake_account fake_seen(const fovea_device *device);

#endif
