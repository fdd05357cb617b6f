/* Loading, querying, executing in threads, unloading during executions. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <tenon/nrt.h>

static void describes(nrt_model_t *model) {
    nrt_tensor_info_array_t *infos;
    uint32_t count;
    OK(nrt_get_model_tensor_info(model, &infos));
    CHECK(infos->tensor_count == 2);
    nrt_tensor_info_t *input = &infos->tensor_array[0], *output = &infos->tensor_array[1];
    CHECK(input->usage == NRT_TENSOR_USAGE_INPUT && output->usage == NRT_TENSOR_USAGE_OUTPUT);
    CHECK(input->dtype == NRT_DTYPE_FLOAT32 && input->name[0] != 0);
    size_t size = 4;
    for (uint32_t i = 0; i < input->ndim; i++) size *= input->shape[i];
    CHECK(input->size == size);
    CHECK(output->ndim == 2 && output->shape[0] == 1 && output->shape[1] == 10);
    CHECK(output->size == 40);
    OK(nrt_free_model_tensor_info(infos));
    IS(NRT_INVALID_HANDLE, nrt_free_model_tensor_info(infos));
    IS(NRT_INVALID_HANDLE, nrt_free_model_tensor_info((nrt_tensor_info_array_t *)&infos));
    OK(nrt_free_model_tensor_info(NULL));
    OK(nrt_get_model_nc_count(model, &count));
    OK(nrt_get_model_vnc_count(model, &count));
    nrt_model_info_t info;
    OK(nrt_get_model_info(model, &info, sizeof info, &size));
    CHECK(size == sizeof info && info.vnc < 4);
    IS(NRT_INVALID, nrt_get_model_info(model, &info, 2, &size));
    IS(NRT_INVALID, nrt_get_model_tensor_info(model, NULL));
    IS(NRT_INVALID, nrt_get_model_vnc_count(model, NULL));
}

static void places(const char *path) {
    size_t size;
    void *bytes = file_bytes(path, &size);
    nrt_model_t *model = NULL;
    uint32_t count;
    size_t size_out;
    nrt_model_info_t info;
    const int good[][4] = {{-1, -1, 1, 1}, {0, 1, 1, 1}, {0, -1, 1, 1}, {3, 1, 1, 1}, {1, 3, 3, 3},
                           {-1, 4, 4, 4}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        OK(nrt_load(bytes, size, good[i][0], good[i][1], &model));
        OK(nrt_get_model_vnc_count(model, &count));
        CHECK((int)count == good[i][2]);
        OK(nrt_get_model_instance_count(model, &count));
        CHECK((int)count == good[i][3]);
        OK(nrt_get_model_info(model, &info, sizeof info, &size_out));
        CHECK(good[i][0] < 0 || (int)info.vnc == good[i][0]);
        OK(nrt_unload(model));
    }
    nrt_model_t *unset = NULL;
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_load(bytes, size, 4, 1, &unset));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_load(bytes, size, 2, 3, &unset));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_load(bytes, size, -1, 5, &unset));
    IS(NRT_INVALID, nrt_load(bytes, size, -2, 1, &unset));
    IS(NRT_INVALID, nrt_load(bytes, size, 0, 0, &unset));
    IS(NRT_INVALID, nrt_load(NULL, size, 0, 1, &unset));
    IS(NRT_INVALID, nrt_load(bytes, size, 0, 1, NULL));
    IS(NRT_INVALID, nrt_load(bytes, 100, 0, 1, &unset));
    IS(NRT_INVALID, nrt_load(bytes, size / 2, 0, 1, &unset));
    IS(NRT_INVALID, nrt_load(bytes, 0, 0, 1, &unset));
    ((uint64_t *)bytes)[0] = 9; /* the version of the container */
    IS(NRT_UNSUPPORTED_NEFF_VERSION, nrt_load(bytes, size, 0, 1, &unset));
    CHECK(unset == NULL);
    free(bytes);
    OK(nrt_load_collectives(bytes = file_bytes(path, &size), size, -1, -1, 0, 1, &model));
    IS(NRT_INVALID, nrt_load_collectives(bytes, size, -1, -1, 0, 2, &unset));
    IS(NRT_INVALID, nrt_load_collectives(bytes, size, -1, -1, 1, 1, &unset));
    free(bytes);
    OK(nrt_unload(model));
    OK(tenon_nrt_load_file(path, -1, -1, &model));
    describes(model);
    OK(nrt_unload(model));
    IS(NRT_INVALID, tenon_nrt_load_file("/not/there", -1, -1, &unset));
    IS(NRT_INVALID, tenon_nrt_load_file("", -1, -1, &unset));
}

static void wrong_sets(nrt_model_t *model) {
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_set_t *empty;
    nrt_tensor_info_array_t *infos;
    OK(nrt_get_model_tensor_info(model, &infos));
    const char *input_name = infos->tensor_array[0].name;
    OK(nrt_allocate_tensor_set(&empty));
    IS(NRT_INVALID, nrt_execute(model, empty, outputs));
    IS(NRT_INVALID, nrt_execute(model, inputs, empty));
    IS(NRT_INVALID_HANDLE, nrt_execute(model, NULL, outputs));
    IS(NRT_INVALID_HANDLE, nrt_execute(NULL, inputs, outputs));
    IS(NRT_INVALID_HANDLE, nrt_execute((nrt_model_t *)inputs, inputs, outputs));
    IS(NRT_INVALID, nrt_execute_repeat(model, inputs, outputs, 0));
    IS(NRT_INVALID, nrt_execute_repeat(model, inputs, outputs, 2));
    OK(nrt_execute_repeat(model, inputs, outputs, 1));
    OK(nrt_tensor_check_output_completion(output, 0, 1));
    IS(NRT_TIMEOUT, nrt_tensor_check_output_completion(output, 0, 2));
    OK(nrt_tensor_reset_output_completion(output));
    IS(NRT_TIMEOUT, nrt_tensor_check_output_completion(output, 0, 1));
    /* A tensor of a wrong size, without memory, freed. */
    nrt_tensor_t *tensor;
    OK(nrt_add_tensor_to_tensor_set(empty, input_name, output));
    IS(NRT_INVALID, nrt_execute(model, empty, outputs));
    OK(nrt_tensor_allocate_empty("e", &tensor));
    OK(nrt_add_tensor_to_tensor_set(empty, input_name, tensor));
    IS(NRT_EXEC_BAD_INPUT, nrt_execute(model, empty, outputs));
    nrt_tensor_free(&tensor);
    IS(NRT_INVALID_HANDLE, nrt_execute(model, empty, outputs));
    OK(nrt_free_model_tensor_info(infos));
    nrt_destroy_tensor_set(&empty);
    nrt_destroy_tensor_set(&inputs);
    nrt_destroy_tensor_set(&outputs);
}

static nrt_model_t *shared;
static float expected[10];
static atomic_int ready, executed, refused;

static void *execute_until_unloaded(void *unused) {
    (void)unused;
    nrt_tensor_set_t *inputs = tensors_of(shared, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(shared, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *output = first_of(shared, outputs, NRT_TENSOR_USAGE_OUTPUT);
    atomic_fetch_add(&ready, 1);
    for (;;) {
        float found[10];
        NRT_STATUS status = nrt_execute(shared, inputs, outputs);
        if (status == NRT_INVALID_HANDLE || status == NRT_CLOSED) {
            atomic_fetch_add(&refused, 1);
            return NULL;
        }
        CHECK(status == NRT_SUCCESS);
        status = nrt_tensor_read(output, found, 0, sizeof found);
        if (status == NRT_CLOSED) {
            atomic_fetch_add(&refused, 1);
            return NULL;
        }
        CHECK(status == NRT_SUCCESS && memcmp(found, expected, sizeof found) == 0);
        atomic_fetch_add(&executed, 1);
    }
}

static void threads(const char *path, bool close) {
    enum { THREADS = 6 };
    pthread_t all[THREADS];
    shared = load_at(path, 0, 2);
    nrt_tensor_set_t *inputs = tensors_of(shared, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(shared, NRT_TENSOR_USAGE_OUTPUT);
    OK(nrt_execute(shared, inputs, outputs));
    OK(nrt_tensor_read(first_of(shared, outputs, NRT_TENSOR_USAGE_OUTPUT), expected, 0, 40));
    ready = executed = refused = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&all[i], NULL, execute_until_unloaded, NULL) == 0);
    }
    while (atomic_load(&ready) < THREADS || atomic_load(&executed) < 60) sched_yield();
    if (close) {
        nrt_close();
    } else {
        OK(nrt_unload(shared));
        IS(NRT_INVALID_HANDLE, nrt_unload(shared));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    CHECK(refused == THREADS);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    describes(model);
    wrong_sets(model);
    OK(nrt_unload(model));
    places(argv[1]);
    threads(argv[1], false);
    threads(argv[1], true);
    return 0;
}
