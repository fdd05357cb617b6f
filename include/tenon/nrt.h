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

#ifdef __cplusplus
}
#endif

#endif
