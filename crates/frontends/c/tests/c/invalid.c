/* Invalid arguments and handles give statuses: invalid MODEL.onnx (the digits model). */
#include "check.h"

static float image[64];
static const int64_t extents[4] = {1, 1, 8, 8};

static void handles(tenon_model model) {
    const char *name;
    tenon_model stale = model;
    tenon_package package = (tenon_package)(void *)model;
    int on_the_stack = 0;
    FAILS(TENON_INVALID_HANDLE, "the model is NULL", api->model_name(NULL, &name));
    FAILS(TENON_INVALID_HANDLE, "not a handle of a model", api->model_name((tenon_model)(void *)&on_the_stack, &name));
    FAILS(TENON_INVALID_HANDLE, "not a handle of a package", api->package_write(package, "never.neff", NULL));
    FAILS(TENON_INVALID_HANDLE, "not a handle of a task", api->task_cancel((tenon_task)(void *)model));
    OK(api->model_free(model));
    FAILS(TENON_INVALID_HANDLE, "the model was freed before", api->model_name(stale, &name));
    FAILS(TENON_INVALID_HANDLE, "the model was freed before", api->model_free(stale));
    OK(api->model_free(NULL));
    OK(api->package_free(NULL));
    OK(api->outputs_free(NULL));
    OK(api->bindings_free(NULL));
    OK(api->session_free(NULL));
    OK(api->run_free(NULL));
    OK(api->task_free(NULL));
    OK(api->blob_free(NULL));
    api->status_free(NULL);
}

static void statuses(void) {
    tenon_model model;
    tenon_status status = api->model_load_file("absent.neff", NULL, &model);
    CHECK(api->status_code(status) == TENON_NOT_FOUND);
    CHECK(api->status_problem_count(status) == 1);
    CHECK(strcmp(api->status_part(status, 0, TENON_PART_PLACE), "absent.neff") == 0);
    CHECK(strstr(api->status_part(status, 0, TENON_PART_MESSAGE), "cannot") != NULL);
    CHECK(api->status_part(status, 0, 0) == NULL && api->status_part(status, 0, 99) == NULL);
    CHECK(api->status_part(status, 7, TENON_PART_MESSAGE) == NULL);
    api->status_free(status);
    CHECK(api->status_code(status) == TENON_INVALID_HANDLE);
    CHECK(strstr(api->status_text(status), "freed before") != NULL);
    api->status_free(status);
    CHECK(api->status_code(NULL) == TENON_OK && strcmp(api->status_text(NULL), "success") == 0);
    CHECK(api->status_problem_count(NULL) == 0);
}

static void arrays(tenon_model model) {
    tenon_outputs outputs = NULL;
    tenon_array input = floats("image", extents, 4, image), changed;
    FAILS(TENON_INVALID_ARGUMENT, "outputs is NULL", api->model_run(model, &input, 1, NULL, NULL));
    FAILS(TENON_INVALID_ARGUMENT, "inputs is NULL", api->model_run(model, NULL, 1, NULL, &outputs));
    FAILS(TENON_INVALID_ARGUMENT, "inputs is larger than the address space",
          api->model_run(model, &input, SIZE_MAX, NULL, &outputs));
    FAILS(TENON_INVALID_ARGUMENT, "image", api->model_run(model, NULL, 0, NULL, &outputs));
    changed = input;
    changed.name = "picture";
    FAILS(TENON_INVALID_ARGUMENT, "picture", api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.type = 99;
    FAILS(TENON_INVALID_ARGUMENT, "no element type has this code: expected a tenon_type, found 99",
          api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.type = TENON_STRING;
    FAILS(TENON_UNSUPPORTED, "not exchanged", api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.bytes -= 1;
    FAILS(TENON_INVALID_ARGUMENT, "expected 256 bytes of f32[1, 1, 8, 8], found 255",
          api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.data = NULL;
    FAILS(TENON_INVALID_ARGUMENT, "data is NULL", api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.extents = NULL;
    FAILS(TENON_INVALID_ARGUMENT, "extents is NULL", api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.rank = UINT32_MAX;
    FAILS(TENON_INVALID_ARGUMENT, "too many dimensions", api->model_run(model, &changed, 1, NULL, &outputs));
    const int64_t negative[1] = {-64}, huge[2] = {INT64_MAX, INT64_MAX};
    changed = input;
    changed.rank = 1;
    changed.extents = negative;
    FAILS(TENON_INVALID_ARGUMENT, "negative", api->model_run(model, &changed, 1, NULL, &outputs));
    changed.rank = 2;
    changed.extents = huge;
    FAILS(TENON_INVALID_ARGUMENT, "inputs 'image'", api->model_run(model, &changed, 1, NULL, &outputs));
    const int64_t other[1] = {64};
    changed = floats("image", other, 1, image);
    FAILS(TENON_INVALID_ARGUMENT, "f32[1, 1, 8, 8]", api->model_run(model, &changed, 1, NULL, &outputs));
    changed = input;
    changed.name = "\xff\xfe";
    FAILS(TENON_INVALID_ARGUMENT, "not UTF-8", api->model_run(model, &changed, 1, NULL, &outputs));
    /* All problems at once. */
    tenon_array two[2] = {input, input};
    two[0].type = 0;
    two[1].rank = 65;
    tenon_status status = api->model_run(model, two, 2, NULL, &outputs);
    CHECK(api->status_problem_count(status) == 2);
    CHECK(strstr(api->status_part(status, 1, TENON_PART_MESSAGE), "too many dimensions") != NULL);
    api->status_free(status);
    FAILS(TENON_INVALID_ARGUMENT, "outputs are not those of the model: expected 1",
          api->model_execute(model, &input, 1, NULL, 0, NULL));
    CHECK(outputs == NULL);
}

static void blobs(tenon_model model) {
    tenon_blob json;
    const void *start = NULL;
    size_t length = 7;
    OK(api->model_metadata(model, &json));
    FAILS(TENON_INVALID_ARGUMENT, "length is NULL", api->blob_get(json, &start, NULL));
    FAILS(TENON_INVALID_ARGUMENT, "start is NULL", api->blob_get(json, NULL, &length));
    CHECK(start == NULL && length == 7);
    OK(api->blob_free(json));
}

static void quantisation(const char *onnx) {
    tenon_blob model = NULL, report = NULL;
    FAILS(TENON_INVALID_ARGUMENT, "model is NULL", api->quantize_file(onnx, NULL, NULL, &report));
    FAILS(TENON_INVALID_ARGUMENT, "onnx is NULL", api->quantize_bytes(NULL, 4, NULL, &model, &report));
    FAILS(TENON_INVALID_MODEL, "", api->quantize_bytes("not a model", 11, NULL, &model, &report));
    FAILS(TENON_USAGE, "no samples", api->quantize_file(onnx, NULL, &model, &report));
    tenon_quantize_options options = TENON_INIT(tenon_quantize_options);
    options.bits = 3;
    FAILS(TENON_INVALID_ARGUMENT, "expected 8, 4 or 16, found 3", api->quantize_file(onnx, &options, &model, &report));
    options.bits = 4;
    options.calibration = 9;
    FAILS(TENON_INVALID_ARGUMENT, "tenon_calibration", api->quantize_file(onnx, &options, &model, &report));
    options.calibration = TENON_CALIBRATION_MINMAX;
    options.block_size = 40;
    FAILS(TENON_USAGE, "power of two", api->quantize_file(onnx, &options, &model, &report));
    options.block_size = 0;
    const char *const all[1] = {"*"};
    options.excluded = all;
    options.excluded_count = 1;
    FAILS(TENON_INVALID_ARGUMENT, "no node to quantise", api->quantize_file(onnx, &options, &model, &report));
    tenon_array sample = {0};
    options.samples = &sample;
    options.sample_count = 1;
    FAILS(TENON_INVALID_ARGUMENT, "samples[0]", api->quantize_file(onnx, &options, &model, &report));
    CHECK(model == NULL && report == NULL);
}

static void structs(const char *onnx, tenon_model model) {
    tenon_package package = NULL;
    tenon_model loaded = NULL;
    tenon_port port = {0};
    FAILS(TENON_INVALID_ARGUMENT, "has size 0", api->model_input(model, 0, &port));
    FAILS(TENON_INVALID_ARGUMENT, "port is null", api->model_input(model, 0, NULL));
    tenon_compile_options options = {0};
    FAILS(TENON_INVALID_ARGUMENT, "initialise it with TENON_INIT", api->compile_file(onnx, &options, &package));
    options.size = SIZE_MAX;
    FAILS(TENON_INVALID_ARGUMENT, "options has size", api->compile_file(onnx, &options, &package));
    options.size = sizeof options;
    options.states = 9;
    FAILS(TENON_INVALID_ARGUMENT, "tenon_states", api->compile_file(onnx, &options, &package));
    options.states = 0;
    options.cpu_level = "quantum";
    FAILS(TENON_INVALID_ARGUMENT, "no CPU level", api->compile_file(onnx, &options, &package));
    options.cpu_level = NULL;
    const char *none[1] = {NULL}, *unknown[1] = {"Abacus"};
    options.backends = none;
    options.backend_count = 1;
    FAILS(TENON_INVALID_ARGUMENT, "backends[0] is NULL", api->compile_file(onnx, &options, &package));
    options.backends = unknown;
    FAILS(TENON_NOT_FOUND, "Abacus", api->compile_file(onnx, &options, &package));
    options.backend_count = SIZE_MAX;
    FAILS(TENON_INVALID_ARGUMENT, "address space", api->compile_file(onnx, &options, &package));
    options.backend_count = 0;
    tenon_dimension dimension = TENON_INIT(tenon_dimension);
    options.dimensions = &dimension;
    options.dimension_count = 1;
    FAILS(TENON_INVALID_ARGUMENT, "dimension.name is NULL", api->compile_file(onnx, &options, &package));
    dimension.name = "batch";
    dimension.min = 2;
    dimension.max = 1;
    FAILS(TENON_INVALID_ARGUMENT, "min is above max", api->compile_file(onnx, &options, &package));
    options.dimension_count = SIZE_MAX;
    FAILS(TENON_INVALID_ARGUMENT, "too many elements", api->compile_file(onnx, &options, &package));
    FAILS(TENON_INVALID_ARGUMENT, "onnx is NULL", api->compile_file(NULL, NULL, &package));
    FAILS(TENON_INVALID_ARGUMENT, "onnx is empty", api->compile_file("", NULL, &package));
    FAILS(TENON_INVALID_ARGUMENT, "package is NULL", api->compile_file(onnx, NULL, NULL));
    FAILS(TENON_INVALID_MODEL, "", api->compile_bytes("not a model", 11, NULL, &package));
    FAILS(TENON_INVALID_PACKAGE, "", api->model_load_bytes("not a package", 13, NULL, &loaded));
    tenon_load_options loading = TENON_INIT(tenon_load_options);
    const char *assignment[1] = {"no assignment"};
    loading.backend_options = assignment;
    loading.backend_option_count = 1;
    FAILS(TENON_USAGE, "BACKEND.NAME=VALUE", api->model_load_file("absent.neff", &loading, &loaded));
    tenon_task task = NULL;
    tenon_task_options limits = TENON_INIT(tenon_task_options);
    limits.timeout_seconds = -1;
    FAILS(TENON_INVALID_ARGUMENT, "timeout_seconds", api->task_create(&limits, &task));
    CHECK(package == NULL && loaded == NULL && task == NULL);
}

static int steps;

static void cancel(void *context, const char *step, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    CHECK(strlen(step) > 0);
    ++steps;
    OK(api->task_cancel(*(tenon_task *)context));
}

static void tasks(const char *onnx, tenon_model model) {
    tenon_task task;
    tenon_package package;
    tenon_outputs outputs;
    tenon_array input = floats(NULL, extents, 4, image);
    tenon_task_options limits = TENON_INIT(tenon_task_options);
    tenon_compile_options options = TENON_INIT(tenon_compile_options);
    limits.timeout_seconds = 1e-9;
    OK(api->task_create(&limits, &task));
    options.task = task;
    FAILS(TENON_DEADLINE_EXCEEDED, "deadline", api->compile_file(onnx, &options, &package));
    FAILS(TENON_DEADLINE_EXCEEDED, "deadline", api->model_run(model, &input, 1, task, &outputs));
    OK(api->task_free(task));
    FAILS(TENON_INVALID_HANDLE, "freed before", api->compile_file(onnx, &options, &package));
    limits.timeout_seconds = 0;
    limits.progress = cancel;
    limits.context = &task;
    OK(api->task_create(&limits, &task));
    options.task = task;
    FAILS(TENON_CANCELLED, "cancelled", api->compile_file(onnx, &options, &package));
    CHECK(steps > 0);
    OK(api->task_free(task));
}

static void precisions(const char *onnx) {
    tenon_package package;
    tenon_compile_options options = TENON_INIT(tenon_compile_options);
    const char *const rules[] = {"bf16", "no such node=f32", "f17"};
    options.precisions = rules;
    options.precision_count = 2;
    FAILS(TENON_USAGE, "no such node", api->compile_file(onnx, &options, &package));
    options.precision_count = 3;
    FAILS(TENON_INVALID_ARGUMENT, "f17", api->compile_file(onnx, &options, &package));
    options.precision_count = 1;
    OK(api->compile_file(onnx, &options, &package));
    OK(api->package_free(package));
}

static void weights(const char *onnx) {
    tenon_package package;
    tenon_compile_options options = TENON_INIT(tenon_compile_options);
    const char *const files[] = {"no such file.npz"};
    options.weights = files;
    options.weight_count = 1;
    FAILS(TENON_NOT_FOUND, "no such file", api->compile_file(onnx, &options, &package));
    options.weight_count = 0;
    options.signature = "encode";
    FAILS(TENON_INVALID_ARGUMENT, "no signature 'encode'", api->compile_file(onnx, &options, &package));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(tenon_api(TENON_API_MAJOR + 1, 0) == NULL);
    CHECK(tenon_api(TENON_API_MAJOR, TENON_API_MINOR + 1) == NULL);
    CHECK(tenon_api(0, 0) == NULL);
    start();
    CHECK(api->size == sizeof *api && api->major == TENON_API_MAJOR && api->minor == TENON_API_MINOR);
    CHECK(strlen(api->version()) > 0);
    tenon_package package;
    tenon_model model;
    OK(api->compile_file(argv[1], NULL, &package));
    OK(api->package_load(package, NULL, &model));
    statuses();
    arrays(model);
    blobs(model);
    quantisation(argv[1]);
    structs(argv[1], model);
    tasks(argv[1], model);
    precisions(argv[1]);
    weights(argv[1]);
    handles(model);
    OK(api->package_free(package));
    puts("done");
    return 0;
}
