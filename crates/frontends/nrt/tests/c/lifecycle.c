/* Calls before nrt_init, after nrt_close, after a second nrt_init, and in the child of a fork. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static void every_call_is(NRT_STATUS status, nrt_model_t *model, nrt_tensor_set_t *set,
                          nrt_tensor_t *tensor) {
    char byte = 0;
    uint32_t count;
    nrt_tensor_t *made = NULL;
    nrt_tensor_set_t *made_set = NULL;
    nrt_tensor_info_array_t *infos = NULL;
    size_t size;
    nrt_vnc_memory_stats_t stats;
    IS(status, nrt_load(&byte, 1, -1, -1, &model));
    IS(status, nrt_unload(model));
    IS(status, nrt_execute(model, set, set));
    IS(status, nrt_execute_repeat(model, set, set, 2));
    IS(status, nrt_get_model_tensor_info(model, &infos));
    IS(status, nrt_get_model_vnc_count(model, &count));
    IS(status, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1, "t", &made));
    IS(status, nrt_tensor_allocate_empty("t", &made));
    IS(status, nrt_tensor_allocate_slice(tensor, 0, 1, "t", &made));
    IS(status, nrt_tensor_read(tensor, &byte, 0, 1));
    IS(status, nrt_tensor_write(tensor, &byte, 0, 1));
    IS(status, nrt_tensor_check_output_completion(tensor, 0, 1));
    IS(status, nrt_allocate_tensor_set(&made_set));
    IS(status, nrt_add_tensor_to_tensor_set(set, "t", tensor));
    IS(status, nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &size));
    IS(status, nrt_barrier(0, 0, 1));
    IS(status, nrt_sys_trace_start(NULL));
    CHECK(nrt_tensor_get_size(tensor) == 0);
    CHECK(nrt_tensor_get_va(tensor) == NULL);
    CHECK(made == NULL && made_set == NULL && infos == NULL);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    uint32_t count = 0;
    OK(nrt_get_total_vnc_count(&count));
    CHECK(count == 4);
    OK(nrt_get_total_nc_count(&count));
    CHECK(count == 4);
    OK(nrt_get_visible_vnc_count(&count));
    CHECK(count == 2);
    nrt_version_t version;
    OK(nrt_get_version(&version, sizeof version));
    CHECK(version.rt_major == NRT_MAJOR_VERSION && strncmp(version.rt_detail, "tenon ", 6) == 0);
    CHECK(version.git_hash[0] != 0 && memchr(version.git_hash, 0, GIT_HASH_LEN) != NULL);
    printf("%s\n", version.git_hash);
    IS(NRT_INVALID, nrt_get_version(NULL, sizeof version));
    IS(NRT_INVALID, nrt_get_version(&version, 8));
    nrt_instance_info_t info;
    memset(&info, 0x55, sizeof info);
    OK(nrt_get_instance_info(&info, 8));
    CHECK(info.family == NRT_INSTANCE_UNKNOWN && info.size == NRT_INSTANCE_SIZE_UNKNOWN);
    CHECK(info.arch_name[0] == 0x55);
    OK(nrt_get_instance_info(&info, sizeof info));
    CHECK(info.arch_name[0] != 0x55 && info.arch_name[15] == 0);

    every_call_is(NRT_UNINITIALIZED, NULL, NULL, NULL);
    nrt_close();
    every_call_is(NRT_UNINITIALIZED, NULL, NULL, NULL);
    IS(NRT_INVALID, nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""));
    IS(NRT_INVALID, nrt_init((nrt_framework_type_t)6, "", ""));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, NULL, NULL));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_get_visible_nc_count(&count));
    CHECK(count == 2);

    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    OK(nrt_execute(model, inputs, outputs));

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        every_call_is(NRT_UNINITIALIZED, model, inputs, output);
        IS(NRT_FAILURE, nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        nrt_close();
        _exit(0);
    }
    int ended;
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    OK(nrt_execute(model, inputs, outputs));

    nrt_close();
    every_call_is(NRT_CLOSED, model, inputs, output);
    /* Core counts are available at any time. */
    count = 0;
    OK(nrt_get_visible_nc_count(&count));
    CHECK(count == 2);
    count = 0;
    OK(nrt_get_visible_vnc_count(&count));
    CHECK(count == 2);
    OK(nrt_get_total_vnc_count(&count));
    CHECK(count == 4);
    nrt_close();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.0", "1.0"));
    /* Handles of the first start are invalid. */
    IS(NRT_INVALID_HANDLE, nrt_execute(model, inputs, outputs));
    IS(NRT_INVALID_HANDLE, nrt_unload(model));
    CHECK(nrt_tensor_get_size(output) == 0);
    nrt_unload(load_at(argv[1], 1, 1));
    nrt_close();
    return 0;
}
