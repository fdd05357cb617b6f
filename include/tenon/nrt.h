/* What libnrt.so.1 has besides: Tenon's own. */
#ifndef TENON_NRT_H
#define TENON_NRT_H

#include <stdint.h>

#include <nrt/nrt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As nrt_load, of a file, which is mapped and not copied: it must not be changed while the model is
 * loaded. Replace packages by renaming. */
NRT_STATUS tenon_nrt_load_file(const char *file, int32_t vnc, int32_t vnc_count,
                               nrt_model_t **model);

#ifdef __cplusplus
}
#endif

#endif
