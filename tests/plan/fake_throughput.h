/* fake_throughput.h: a throughput device in host memory, which runs plans for such devices with the
 * CPU's kernels. It detects errors that real devices may hide: buffers larger than the limit, reads
 * of memory that was never written, and writes past a buffer's end.
 */
#ifndef FOVEA_TESTS_FAKE_THROUGHPUT_H
#define FOVEA_TESTS_FAKE_THROUGHPUT_H

#include "device/backend.h"

typedef struct fake_options {
    uint64_t largest; /* bytes of a buffer; 0: no limit */
    uint64_t memory;  /* bytes of the device; 0: unknown */
    bool *closed;     /* set to true when the device is closed; or NULL */
    const bool *lost; /* while *lost is true, writes to device memory are ignored; or NULL */
} fake_options;

/* Opens a fake device. fovea_device_close() checks that nothing is allocated on the device any
 * more. */
fovea_device *fake_open(const fake_options *options);

/* Counts since the device was opened: the largest buffer, calls of REDUCE steps with several
 * partial states, and calls with only some of their step's rows. */
typedef struct fake_account {
    uint64_t largest;
    uint32_t buffers, parted, cut;
} fake_account;
fake_account fake_seen(const fovea_device *device);

#endif
