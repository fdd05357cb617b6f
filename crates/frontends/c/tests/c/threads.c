/* Handles that one thread frees while others use them: threads MODEL.onnx (the digits model). */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 50 };

static float image[64];
static const int64_t extents[4] = {1, 1, 8, 8};
static tenon_model model;
static tenon_bindings bindings;

/* Calls until the handles are freed; every status is one of the expected. */
static void *use(void *count) {
    tenon_array input = floats(NULL, extents, 4, image);
    for (;;) {
        tenon_outputs outputs;
        tenon_run run;
        tenon_status status = api->model_run(model, &input, 1, NULL, &outputs);
        if (status == NULL) {
            OK(api->outputs_free(outputs));
            ++*(int *)count;
        }
        int32_t code = api->status_code(status);
        api->status_free(status);
        status = api->bindings_run(bindings, NULL);
        int32_t bound = api->status_code(status);
        api->status_free(status);
        CHECK(bound == TENON_OK || bound == TENON_USAGE || bound == TENON_INVALID_HANDLE);
        status = api->model_submit(model, &input, 1, NULL, &run);
        if (status == NULL) {
            OK(api->run_free(run));
        }
        api->status_free(status);
        if (code == TENON_INVALID_HANDLE && bound == TENON_INVALID_HANDLE) {
            return NULL;
        }
        CHECK(code == TENON_OK || code == TENON_INVALID_HANDLE);
    }
}

int main(int argc, char **argv) {
    start();
    CHECK(argc == 2);
    tenon_package package;
    OK(api->compile_file(argv[1], NULL, &package));
    for (int round = 0; round < ROUNDS; ++round) {
        pthread_t threads[THREADS];
        int counts[THREADS] = {0};
        OK(api->package_load(package, NULL, &model));
        OK(api->model_bind(model, NULL, 0, &bindings));
        for (int at = 0; at < THREADS; ++at) {
            CHECK(pthread_create(&threads[at], NULL, use, &counts[at]) == 0);
        }
        tenon_outputs outputs;
        tenon_array input = floats(NULL, extents, 4, image);
        OK(api->model_run(model, &input, 1, NULL, &outputs));
        OK(api->outputs_free(outputs));
        OK(api->model_free(model));
        OK(api->bindings_free(bindings));
        for (int at = 0; at < THREADS; ++at) {
            CHECK(pthread_join(threads[at], NULL) == 0);
        }
    }
    OK(api->package_free(package));
    puts("done");
    return 0;
}
