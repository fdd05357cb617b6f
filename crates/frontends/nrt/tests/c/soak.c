/* Executions in threads, with loading and unloading: results are correct, memory does not grow. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, BETWEEN = 500 };

static const char *package;
static long rounds;
static float expected[10];

static void *work(void *unused) {
    (void)unused;
    for (long round = 0; round < rounds; round++) {
        nrt_model_t *model = load_at(package, -1, 2);
        nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
        nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
        nrt_tensor_t *input = first_of(model, inputs, NRT_TENSOR_USAGE_INPUT);
        nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
        float found[10];
        for (int i = 0; i < BETWEEN; i++) {
            nrt_tensor_t *slice;
            OK(nrt_tensor_memset(output, 0, 0xFF, sizeof found));
            OK(nrt_execute(model, inputs, outputs));
            OK(nrt_tensor_allocate_slice(output, 0, sizeof found, "s", &slice));
            OK(nrt_tensor_read(slice, found, 0, sizeof found));
            CHECK(memcmp(found, expected, sizeof found) == 0);
            nrt_tensor_free(&slice);
        }
        OK(nrt_tensor_check_output_completion(output, 0, BETWEEN));
        IS(NRT_TIMEOUT, nrt_tensor_check_output_completion(output, 0, BETWEEN + 1));
        OK(nrt_unload(model));
        nrt_tensor_free(&input);
        nrt_tensor_free(&output);
        nrt_destroy_tensor_set(&inputs);
        nrt_destroy_tensor_set(&outputs);
    }
    return NULL;
}

static void in_threads(long count) {
    pthread_t all[THREADS];
    rounds = count;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&all[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
}

static long resident(void) {
    long pages = 0, size;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    package = argv[1];
    long executions = atol(argv[2]);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(package, 0, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    OK(nrt_execute(model, inputs, outputs));
    OK(nrt_tensor_read(first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT), expected, 0, 40));
    long all = executions / (THREADS * BETWEEN);
    long warm = all / 4 > 0 ? all / 4 : 1;
    in_threads(warm);
    long before = resident();
    in_threads(all - warm > 0 ? all - warm : 1);
    long grown = resident() - before;
    nrt_vnc_memory_stats_t stats;
    size_t size;
    OK(nrt_get_vnc_memory_stats(3, &stats, sizeof stats, &size));
    CHECK(stats.bytes_used == 0);
    printf("%ld executions, %ld bytes more\n", all * THREADS * BETWEEN, grown);
    /* The allocator's pools grow; a leak of each of some hundred models would exceed this. */
    CHECK(grown < 8 << 20);
    nrt_close();
    return 0;
}
