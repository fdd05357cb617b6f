/* Shared by the C tests: checks that print their place. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/tenon.h>

static const tenon_functions *api;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* Frees a status, whose code must be the expected one and whose text must have the given part. */
static inline void expect(tenon_status status, tenon_code code, const char *part, const char *file, int line) {
    const char *text = api->status_text(status);
    if (api->status_code(status) != (int32_t)code || strstr(text, part) == NULL) {
        fprintf(stderr, "%s:%d: expected code %d and \"%s\", found %d: %s\n", file, line, (int)code, part,
                (int)api->status_code(status), text);
        exit(1);
    }
    api->status_free(status);
}

#define OK(call) expect((call), TENON_OK, "", __FILE__, __LINE__)
#define FAILS(code, part, call) expect((call), (code), (part), __FILE__, __LINE__)

/* A tensor of f32. */
static inline tenon_array floats(const char *name, const int64_t *extents, uint32_t rank, float *data) {
    size_t count = 1;
    for (uint32_t axis = 0; axis < rank; ++axis) {
        count *= (size_t)extents[axis];
    }
    tenon_array array = {name, TENON_F32, rank, extents, data, count * sizeof(float)};
    return array;
}

static inline void start(void) {
    api = tenon_api(TENON_API_MAJOR, TENON_API_MINOR);
    CHECK(api != NULL);
}

#endif
