/* Tenon's extensions in libnrt.so.1. */
#ifndef TENON_NRT_H
#define TENON_NRT_H

#include <stdint.h>

#include <nrt/nrt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As nrt_load, for a file, which is mapped without a copy: it must not be modified while the
 * model is loaded. Replace packages by rename(2). */
NRT_STATUS tenon_nrt_load_file(const char *file, int32_t vnc, int32_t vnc_count,
                               nrt_model_t **model);

/* The shape of an output of an execution on `input_set`, before it or after it: for models whose
 * sizes follow from the byte counts of the input tensors. The tensors need memory, but no values.
 * `ndim` has the capacity of `shape`, and receives the number of dimensions; NRT_INVALID if the
 * capacity is less. `output_name` is a name of nrt_get_model_tensor_info. */
NRT_STATUS tenon_nrt_get_output_shape(nrt_model_t *model, const nrt_tensor_set_t *input_set,
                                      const char *output_name, uint32_t *shape, uint32_t *ndim);

#ifdef __cplusplus
}
#endif

#endif
