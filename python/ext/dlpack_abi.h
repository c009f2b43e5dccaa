/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack_abi.h - the memory layout of DLPack's capsules, as far as we hand tensors out.
 *
 * DLPack is an agreement on struct layouts, not a library: field order and widths below are that
 * agreement (versions 1.0 and, for the older capsule, 0.x), the names are ours. */
#ifndef STOKER_DLPACK_ABI_H
#define STOKER_DLPACK_ABI_H

#include <stdint.h>

#define DL_MAJOR 1
#define DL_MINOR 0
#define DL_CPU 1 /* device type */
#define DL_CUDA 2
#define DL_FLAG_COPIED 2u /* bit 1 of flags: the consumer is the only holder */

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4 };

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed { /* capsule "dltensor" */
    dl_tensor tensor;
    void *owner;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned { /* capsule "dltensor_versioned" */
    uint32_t major, minor;
    void *owner;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

#endif
