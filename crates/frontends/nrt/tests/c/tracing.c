/* System traces, profiles and inspection: the recorded events and the files. */
#include "check.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static nrt_model_t *model;
static nrt_tensor_set_t *inputs, *outputs;

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) {
        count++;
        text += strlen(part);
    }
    return count;
}

static size_t in_file(const char *path, const char *part) {
    size_t size;
    char *bytes = file_bytes(path, &size);
    bytes = realloc(bytes, size + 1);
    bytes[size] = 0;
    size_t count = count_of(bytes, part);
    free(bytes);
    return count;
}

static char *fetch(nrt_sys_trace_fetch_options_t *options) {
    char *text = NULL;
    size_t size = 0;
    OK(nrt_sys_trace_fetch_events(&text, &size, options));
    CHECK(strlen(text) == size);
    return text;
}

static void some_work(void) {
    char bytes[40];
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    OK(nrt_execute(model, inputs, outputs));
    OK(nrt_tensor_read(output, bytes, 0, 40));
    OK(nrt_tensor_write(output, bytes, 0, 40));
    OK(nrt_tensor_copy(output, 0, output, 0, 40));
}

/* Each execution has a start and a stop record with one tracking id. */
static void running(const char *text, size_t executions) {
    CHECK(count_of(text, "\"nc_exec_running\"") == 2 * executions);
    CHECK(count_of(text, "\"phase\":\"start\"") == executions);
    CHECK(count_of(text, "\"phase\":\"stop\"") == executions);
    CHECK(count_of(text, "\"nc_timestamp_ns\"") == 2 * executions);
    unsigned long long id = 0, stamp = 0, last = 0;
    for (const char *at = text; (at = strstr(at, "\"nc_timestamp_ns\":")) != NULL; at++) {
        CHECK(sscanf(at, "\"nc_timestamp_ns\":%llu", &stamp) == 1 && stamp >= last);
        last = stamp;
    }
    for (const char *at = text; (at = strstr(at, "\"tracking_id\":")) != NULL; at++) {
        unsigned long long start, stop;
        CHECK(sscanf(at, "\"tracking_id\":%llu", &start) == 1 && start > id);
        at = strstr(at + 1, "\"tracking_id\":");
        CHECK(at != NULL && sscanf(at, "\"tracking_id\":%llu", &stop) == 1 && stop == start);
        id = start;
    }
}

static void system_trace(void) {
    const char **types = NULL;
    size_t count = 0;
    nrt_sys_trace_config_t *config;
    nrt_sys_trace_fetch_options_t *options;
    OK(nrt_sys_trace_get_event_types(&types, &count));
    CHECK(count > 5);
    size_t all = count;
    /* A second call and a wrong count have no effect. */
    nrt_sys_trace_free_event_types(types, count + 1000);
    nrt_sys_trace_free_event_types(types, count);
    OK(nrt_sys_trace_config_allocate(&config));
    nrt_sys_trace_config_set_defaults(config);
    nrt_sys_trace_config_set_max_events_per_nc(config, 1000);
    const char *inside[] = {"function", "kernel", "dma", "cpu_node", "loop", "queue", "counter"};
    enum { INSIDE = sizeof inside / sizeof inside[0] };
    for (int i = 0; i < INSIDE; i++) {
        OK(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, inside[i], false));
    }
    IS(NRT_INVALID, nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "none", true));
    OK(nrt_sys_trace_config_get_enabled_event_types(config, &types, &count));
    CHECK(count == all - INSIDE);
    nrt_sys_trace_free_event_types(types, count);
    char *text = NULL;
    size_t size;
    IS(NRT_INVALID, nrt_sys_trace_fetch_events(&text, &size, NULL));
    OK(nrt_sys_trace_start(config));
    IS(NRT_INVALID, nrt_sys_trace_start(NULL));
    some_work();
    some_work();
    OK(nrt_sys_trace_fetch_options_allocate(&options));
    nrt_sys_trace_fetch_options_set_defaults(options);
    nrt_sys_trace_fetch_options_set_max_events_per_nc(options, 1);
    text = fetch(options);
    CHECK(count_of(text, "\"event_type\"") == 1 && count_of(text, "\"nrt_execute\"") == 1);
    nrt_sys_trace_buffer_free(text);
    nrt_sys_trace_fetch_options_set_nc_idx(options, 3);
    text = fetch(options);
    CHECK(count_of(text, "\"event_type\"") == 0);
    nrt_sys_trace_buffer_free(text);
    text = fetch(NULL);
    CHECK(count_of(text, "\"event_type\"") == 11 && count_of(text, "\"nrt_execute\"") == 1);
    running(text, 2);
    CHECK(count_of(text, "\"nrt_tensor_read\"") == 2 && count_of(text, "\"kernel\"") == 0);
    nrt_sys_trace_buffer_free(text);
    text = fetch(NULL);
    CHECK(strcmp(text, "{\"events\":[]}") == 0);
    nrt_sys_trace_buffer_free(text);
    nrt_sys_trace_buffer_free(text);
    nrt_sys_trace_buffer_free(NULL);
    OK(nrt_sys_trace_stop());
    IS(NRT_INVALID, nrt_sys_trace_stop());
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, 0, false);
    OK(nrt_sys_trace_start(config));
    some_work();
    text = fetch(NULL);
    CHECK(count_of(text, "\"event_type\"") == 0);
    nrt_sys_trace_buffer_free(text);
    OK(nrt_sys_trace_stop());
    nrt_sys_trace_fetch_options_free(options);
    nrt_sys_trace_config_free(config);
    IS(NRT_INVALID_HANDLE, nrt_sys_trace_start(config));
}

static void profiles(void) {
    IS(NRT_INVALID, nrt_profile_stop("one.json"));
    IS(NRT_INVALID, nrt_profile_start(model, "/not/there/x"));
    IS(NRT_FAILURE, nrt_profile_start(model, "/"));
    IS(NRT_INVALID, nrt_profile_start(model, ""));
    IS(NRT_INVALID_HANDLE, nrt_profile_start(NULL, "one.json"));
    OK(nrt_profile_start(model, "one.json"));
    some_work();
    IS(NRT_INVALID, nrt_profile_stop("other.json"));
    OK(nrt_profile_stop("one.json"));
    CHECK(in_file("one.json", "\"traceEvents\"") == 1);
    CHECK(in_file("one.json", "\"cat\":\"nrt_execute\"") == 1);
    CHECK(in_file("one.json", "\"cat\":\"function\"") == 1);
    CHECK(in_file("one.json", "\"cat\":\"kernel\"") > 0);
    CHECK(in_file("one.json", "\"cat\":\"queue\"") == 1);
    CHECK(in_file("one.json", "\"thread_name\"") > 0);
    CHECK(in_file("one.json", "\"name\":\"arena bytes alive\"") > 1);
    CHECK(in_file("one.json", "nrt_tensor_read") == 0);

    OK(nrt_trace_start(true));
    some_work();
    OK(nrt_trace_stop("whole.json"));
    CHECK(in_file("whole.json", "\"cat\":\"nrt_tensor_read\"") == 1);
    IS(NRT_INVALID, nrt_trace_stop("whole.json"));

    bool done = false;
    nrta_seq_t sequence;
    nrt_tensor_t *input = first_of(model, inputs, NRT_TENSOR_USAGE_INPUT);
    OK(nrt_trace_start(true));
    OK(nrta_tensor_write(input, "abcd", 0, 4, 0, 0, NULL, &sequence));
    while (!done) OK(nrta_is_completed(sequence, &done));
    OK(nrt_trace_stop("queued.json"));
    CHECK(in_file("queued.json", "\"name\":\"tensor operation, queue 0\"") == 1);
    CHECK(in_file("queued.json", "\"cat\":\"nrt_tensor_write\"") == 1);
    CHECK(in_file("queued.json", "\"args\":{\"name\":\"nrt 0.2.0\"}") == 1);

    nrt_profile_continuous_options_t *options;
    OK(nrt_profile_continuous_options_allocate(&options));
    OK(nrt_profile_continuous_options_set_output_dir(options, "continuous/deep"));
    IS(NRT_INVALID, nrt_profile_continuous_options_set_output_dir(options, ""));
    IS(NRT_INVALID, nrt_profile_continuous_save(0, options));
    OK(nrt_profile_continuous_start(options));
    some_work();
    OK(nrt_profile_continuous_save(0, options));
    OK(nrt_profile_continuous_save(0, options));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_profile_continuous_save(4, options));
    OK(nrt_profile_continuous_stop());
    OK(nrt_profile_continuous_options_free(options));
    IS(NRT_INVALID_HANDLE, nrt_profile_continuous_options_free(options));
    DIR *folder = opendir("continuous/deep");
    CHECK(folder != NULL);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) files += entry->d_name[0] == 'p';
    closedir(folder);
    CHECK(files == 2);
}

static void inspection(void) {
    nrt_inspect_config_t *config;
    const char **types;
    size_t count;
    char path[256];
    OK(nrt_inspect_config_allocate(&config));
    OK(nrt_inspect_config_set_defaults(config));
    OK(nrt_inspect_config_get_all_activity_types(&types, &count));
    CHECK(count == 5 && strcmp(types[0], "system_profile") == 0 && strcmp(types[4], "all") == 0);
    nrt_inspect_config_free_activity_types(types, count);
    nrt_inspect_config_free_activity_types(types, count);
    OK(nrt_inspect_config_set_activity(config, "all", false));
    OK(nrt_inspect_config_get_enabled_activity_types(config, &types, &count));
    CHECK(count == 0);
    nrt_inspect_config_free_activity_types(types, count);
    OK(nrt_inspect_config_set_activity(config, "all", true));
    OK(nrt_inspect_config_set_activity(config, "host_memory", false));
    IS(NRT_INVALID, nrt_inspect_config_set_activity(config, "none", false));
    OK(nrt_inspect_config_set_session_id(config, 5));
    OK(nrt_inspect_config_set_output_dir(config, "inspected"));
    IS(NRT_INVALID, nrt_inspect_config_set_output_dir(config, ""));
    OK(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 100));
    IS(NRT_INVALID, nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 0));
    OK(nrt_inspect_config_set_capture_enabled_for_nc(config, 2, false));
    OK(nrt_inspect_config_set_capture_enabled_for_event_type_string(config, "nrt_tensor_copy", false));
    OK(nrt_inspect_config_set_enable_inspect(config, true));
    OK(nrt_inspect_config_set_enable_inspect_on_fail(config, true));
    IS(NRT_INVALID, nrt_inspect_stop());
    OK(nrt_inspect_begin_with_options(config));
    IS(NRT_INVALID, nrt_inspect_begin());
    some_work();
    OK(nrt_inspect_stop());
    OK(nrt_inspect_config_free(config));
    IS(NRT_INVALID_HANDLE, nrt_inspect_config_free(config));
    const char *files[] = {"system_profile", "device_profile", "cpu_util", "host_memory"};
    for (int i = 0; i < 4; i++) {
        struct stat status;
        snprintf(path, sizeof path, "inspected/session_5_pid_%d/%s.json", (int)getpid(), files[i]);
        CHECK((stat(path, &status) == 0) == (i < 3));
    }
    snprintf(path, sizeof path, "inspected/session_5_pid_%d/system_profile.json", (int)getpid());
    CHECK(in_file(path, "nrt_tensor_read") == 1 && in_file(path, "nrt_tensor_copy") == 0);
    snprintf(path, sizeof path, "inspected/session_5_pid_%d/device_profile.json", (int)getpid());
    CHECK(in_file(path, "\"cat\":\"kernel\"") > 0);
    OK(nrt_inspect_begin());
    some_work();
    OK(nrt_inspect_stop());
    snprintf(path, sizeof path, "output/session_1_pid_%d/system_profile.json", (int)getpid());
    CHECK(in_file(path, "nrt_tensor_copy") == 1);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    model = load_at(argv[1], 0, 1);
    inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    system_trace();
    profiles();
    inspection();
    nrt_close();
    return 0;
}
