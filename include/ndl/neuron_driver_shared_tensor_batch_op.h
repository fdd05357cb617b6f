/* One read or write of a batch. */
#ifndef NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H
#define NEURON_DRIVER_SHARED_TENSOR_BATCH_OP_H

#include <stdint.h>

typedef struct nrt_tensor_batch_op {
    uint64_t offset; /* first byte of the tensor */
    uint64_t size;   /* bytes */
    void *buffer;    /* the caller's memory, `size` bytes */
} nrt_tensor_batch_op_t;

#endif
