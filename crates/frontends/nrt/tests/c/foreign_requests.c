/* Clients compiled with other headers, of version 2 or 3.0 of asynchronous requests: they call the
 * same symbols. `foreign_requests MODEL tracker|none`: version 2 with an error tracker, or without
 * one, which requires the environment to select it; `three`: version 3.0 after a tracker was created.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <sched.h>

/* The types of the headers of version 2. */
typedef NRT_STATUS (*write_2)(nrt_tensor_t *, const void *, uint64_t, uint64_t, int, void *,
                              uint64_t *);
typedef NRT_STATUS (*read_2)(void *, nrt_tensor_t *, uint64_t, uint64_t, int, void *, uint64_t *);
typedef NRT_STATUS (*copy_2)(nrt_tensor_t *, uint64_t, nrt_tensor_t *, uint64_t, uint64_t, int,
                             void *, uint64_t *);
typedef NRT_STATUS (*execute_2)(nrt_model_t *, const void *, void *, int, void *, uint64_t *);
typedef NRT_STATUS (*schedule_2)(nrt_cc_context_t **, int, void *, uint64_t *);
typedef NRT_STATUS (*create_2)(uint32_t, void **);
typedef NRT_STATUS (*list_2)(void *, const uint64_t **, size_t *);

enum { READ_2, WRITE_2, OP_2, COMPUTE_2, COLLECTIVES_2 };

static void *symbol(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

/* A sequence number between guard words. */
typedef struct {
    uint64_t before, number, after;
} guarded_t;

static void wait_for(const guarded_t *place) {
    bool done = false;
    while (!done) {
        OK(nrta_is_completed(place->number, &done));
        sched_yield();
    }
    CHECK(place->before == UINT64_MAX && place->after == UINT64_MAX);
}

static void version_2(const char *path, bool tracked) {
    const guarded_t fresh = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    guarded_t sequences[5] = {fresh, fresh, fresh, fresh, fresh};
    void *tracker = NULL;
    if (tracked) OK(((create_2)symbol("nrta_error_tracker_create"))(0, &tracker));
    nrt_tensor_t *one, *two;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "one", &one));
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "two", &two));
    char found[8];
    OK(((write_2)symbol("nrta_tensor_write"))(one, "abcdefgh", 0, 8, 0, tracker,
                                              &sequences[0].number));
    wait_for(&sequences[0]);
    OK(((copy_2)symbol("nrta_tensor_copy"))(one, 0, two, 0, 8, 0, tracker, &sequences[1].number));
    wait_for(&sequences[1]);
    OK(((read_2)symbol("nrta_tensor_read"))(found, two, 0, 8, 0, tracker, &sequences[2].number));
    wait_for(&sequences[2]);
    CHECK(memcmp(found, "abcdefgh", 8) == 0);
    /* Each direction has a separate unit, numbered as in version 2. */
    const int units[3] = {WRITE_2, OP_2, READ_2};
    for (int i = 0; i < 3; i++) {
        uint64_t last = 0;
        OK(nrta_get_sequence(0, (nrta_xu_t)units[i], 0, &last));
        CHECK(last == sequences[i].number && NRTA_SEQ_GET_SEQ_NUM(last) == 1);
    }

    nrt_model_t *model = load_at(path, 0, 1);
    nrt_tensor_set_t *empty;
    OK(nrt_allocate_tensor_set(&empty));
    OK(((execute_2)symbol("nrta_execute_schedule"))(model, empty, empty, 0, tracker,
                                                    &sequences[3].number));
    wait_for(&sequences[3]);
    uint32_t group = 0;
    nrt_cc_comm_t comm = {&group, 0, 1, 0, 1, 0};
    nrt_tensor_list_t input = {&one, 1}, output = {&two, 1};
    nrt_cc_context_t *context = NULL;
    OK(nrta_cc_prepare(&comm, &input, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD, NRT_CC_ALLREDUCE,
                       &context));
    OK(((schedule_2)symbol("nrta_cc_schedule"))(&context, 0, tracker, &sequences[4].number));
    wait_for(&sequences[4]);
    if (tracked) {
        const uint64_t *list;
        size_t count = 0;
        OK(((list_2)symbol("nrta_error_tracker_get_list"))(tracker, &list, &count));
        CHECK(count == 1 && list[0] == sequences[3].number && list[1] == NRT_INVALID);
    }
}

/* A status of 4 bytes followed by a guard word. */
static void version_3(void) {
    struct { NRT_STATUS ret; uint32_t after; } place = {(NRT_STATUS)-1, 0x55555555};
    guarded_t sequence = {UINT64_MAX, 0, UINT64_MAX};
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "one", &tensor));
    OK(nrta_tensor_write(tensor, "abcdefgh", 0, 8, 0, 0, &place.ret, &sequence.number));
    wait_for(&sequence);
    CHECK(place.ret == NRT_SUCCESS && place.after == 0x55555555);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    if (strcmp(argv[2], "three") == 0) {
        void *tracker;
        OK(((create_2)symbol("nrta_error_tracker_create"))(0, &tracker));
        version_3();
    } else {
        version_2(argv[1], strcmp(argv[2], "tracker") == 0);
    }
    nrt_close();
    return 0;
}
