/* Every way of executing a model gives the outputs of model_run: executions MODEL.onnx (the digits model). */
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "check.h"

static float image[64];
static const int64_t extents[4] = {1, 1, 8, 8};
static float scores[10];

static void compare(const tenon_array *array) {
    CHECK(array->type == TENON_F32 && array->rank == 2);
    CHECK(array->extents[0] == 1 && array->extents[1] == 10);
    CHECK(array->bytes == sizeof scores);
    CHECK(memcmp(array->data, scores, sizeof scores) == 0);
}

static void compare_and_free(tenon_outputs outputs) {
    tenon_array array;
    size_t count;
    OK(api->outputs_count(outputs, &count));
    CHECK(count == 1);
    OK(api->outputs_get(outputs, 0, &array));
    compare(&array);
    OK(api->outputs_free(outputs));
}

static void ports(tenon_model model) {
    tenon_port port = TENON_INIT(tenon_port);
    size_t count, index;
    const char *name;
    OK(api->model_name(model, &name));
    CHECK(strlen(name) > 0);
    OK(api->model_input_count(model, &count));
    CHECK(count == 1);
    OK(api->model_input(model, 0, &port));
    CHECK(strcmp(port.name, "image") == 0 && port.kind == TENON_TENSOR && port.type == TENON_F32);
    CHECK(port.rank == 4 && port.bytes == sizeof image);
    for (int axis = 0; axis < 4; ++axis) {
        CHECK(port.extents[axis] == extents[axis] && port.symbols[axis] == NULL);
    }
    OK(api->model_find_input(model, "image", &index));
    CHECK(index == 0);
    FAILS(TENON_NOT_FOUND, "no input has this name: expected one of image, found picture",
          api->model_find_input(model, "picture", &index));
    OK(api->model_output_count(model, &count));
    CHECK(count == 1);
    OK(api->model_output(model, 0, &port));
    CHECK(port.rank == 2 && port.extents[1] == 10);
    FAILS(TENON_NOT_FOUND, "no outputs at this index: expected an index below 1, found 1",
          api->model_output(model, 1, &port));
}

static void texts(tenon_model model) {
    tenon_blob json;
    const void *start_of;
    size_t length;
    OK(api->model_placement(model, &json));
    OK(api->blob_get(json, &start_of, &length));
    CHECK(strlen(start_of) == length && strstr(start_of, "\"CpuAcc\"") != NULL);
    OK(api->blob_free(json));
    OK(api->model_metadata(model, &json));
    OK(api->blob_get(json, &start_of, &length));
    CHECK(((const char *)start_of)[0] == '{');
    OK(api->blob_free(json));
    tenon_array input = floats("image", extents, 4, image);
    OK(api->model_profile(model, &input, 1, 3, 0, NULL, &json));
    OK(api->blob_get(json, &start_of, &length));
    CHECK(strstr(start_of, "\"executions\":3") != NULL && strstr(start_of, "\"ceiling\":null") != NULL);
    OK(api->blob_free(json));
}

static atomic_int ended;

static void count_end(void *context) {
    CHECK(context == &ended);
    atomic_fetch_add(&ended, 1);
}

static void asynchronous(tenon_model model) {
    tenon_array input = floats(NULL, extents, 4, image);
    tenon_submit_options options = TENON_INIT(tenon_submit_options);
    options.priority = TENON_PRIORITY_HIGH;
    options.ended = count_end;
    options.context = &ended;
    tenon_run runs[8];
    tenon_outputs outputs;
    int32_t is_ended;
    for (int at = 0; at < 8; ++at) {
        OK(api->model_submit(model, &input, 1, &options, &runs[at]));
    }
    for (int at = 0; at < 8; ++at) {
        if (at % 2 == 0) {
            struct pollfd waiting = {.events = POLLIN};
            OK(api->run_descriptor(runs[at], &waiting.fd));
            CHECK(poll(&waiting, 1, 60000) == 1);
            OK(api->run_wait(runs[at], 0, &is_ended));
            CHECK(is_ended == 1);
        } else {
            OK(api->run_wait(runs[at], 60, &is_ended));
            CHECK(is_ended == 1);
        }
        OK(api->run_outputs(runs[at], &outputs));
        compare_and_free(outputs);
        FAILS(TENON_USAGE, "taken before", api->run_outputs(runs[at], &outputs));
        OK(api->run_free(runs[at]));
    }
    /* Another thread calls the function, after it has ended the waits. */
    for (int waited = 0; atomic_load(&ended) < 8; ++waited) {
        CHECK(waited < 10000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK(atomic_load(&ended) == 8);
    OK(api->model_submit(model, &input, 1, NULL, &runs[0]));
    OK(api->run_cancel(runs[0]));
    tenon_status status = api->run_outputs(runs[0], &outputs);
    /* It may have ended before. */
    CHECK(status == NULL || api->status_code(status) == TENON_CANCELLED);
    if (status == NULL) {
        OK(api->outputs_free(outputs));
    }
    api->status_free(status);
    OK(api->run_free(runs[0]));
}

/* Calibrates with a batch of samples, and runs the quantised model. */
static void quantise(const char *onnx) {
    static float images[16 * 64];
    for (int at = 0; at < 16 * 64; ++at) {
        images[at] = (float)(at * 5 % 17) / 16;
    }
    const int64_t batch[4] = {16, 1, 8, 8}, labels[16] = {0};
    tenon_array samples = floats("image", batch, 4, images), input = floats(NULL, extents, 4, image);
    tenon_quantize_options options = TENON_INIT(tenon_quantize_options);
    options.samples = &samples;
    options.sample_count = 1;
    options.calibration = TENON_CALIBRATION_PERCENTILE;
    options.labels = labels;
    options.label_count = 16;
    tenon_blob quantized, report;
    const void *bytes, *text;
    size_t length, text_length;
    OK(api->quantize_file(onnx, &options, &quantized, &report));
    OK(api->blob_get(quantized, &bytes, &length));
    OK(api->blob_get(report, &text, &text_length));
    CHECK(strstr(text, "\"samples\":16") != NULL && strstr(text, "\"accuracy\":{\"f32\":") != NULL);
    CHECK(length > 10000 && length < 50000);
    tenon_package package;
    tenon_model model;
    tenon_outputs outputs;
    OK(api->compile_bytes(bytes, length, NULL, &package));
    OK(api->package_load(package, NULL, &model));
    OK(api->model_run(model, &input, 1, NULL, &outputs));
    OK(api->outputs_free(outputs));
    OK(api->model_free(model));
    OK(api->package_free(package));
    OK(api->blob_free(quantized));
    OK(api->blob_free(report));
    /* Weights of 4 bits of bytes, without data and report. */
    tenon_quantize_options four = TENON_INIT(tenon_quantize_options);
    four.bits = 4;
    OK(api->quantize_file(onnx, &four, &quantized, NULL));
    OK(api->blob_free(quantized));
}

int main(int argc, char **argv) {
    start();
    CHECK(argc == 2);
    for (int at = 0; at < 64; ++at) {
        image[at] = (float)(at % 17);
    }
    tenon_package package;
    tenon_model model, again;
    tenon_outputs outputs;
    tenon_array input = floats(NULL, extents, 4, image), found;
    OK(api->compile_file(argv[1], NULL, &package));
    OK(api->package_load(package, NULL, &model));
    OK(api->model_run(model, &input, 1, NULL, &outputs));
    OK(api->outputs_get(outputs, 0, &found));
    memcpy(scores, found.data, sizeof scores);
    int differ = 0;
    for (int at = 1; at < 10; ++at) {
        differ |= scores[at] != scores[0];
    }
    CHECK(differ);
    compare_and_free(outputs);
    quantise(argv[1]);

    /* Memory of the caller, aligned and not. */
    for (size_t offset = 0; offset < 3; ++offset) {
        static _Alignas(64) float memory[64 + 2], results[10 + 2];
        memcpy(memory + offset, image, sizeof image);
        tenon_array from = floats("image", extents, 4, memory + offset);
        const int64_t shape[2] = {1, 10};
        tenon_array to = floats(NULL, shape, 2, results + offset);
        OK(api->model_execute(model, &from, 1, &to, 1, NULL));
        compare(&to);
        /* The output would be part of the input. */
        to.data = memory + offset;
        FAILS(TENON_INVALID_ARGUMENT, "overlaps", api->model_execute(model, &from, 1, &to, 1, NULL));
    }

    tenon_bindings bindings;
    OK(api->model_bind(model, NULL, 0, &bindings));
    OK(api->bindings_input(bindings, 0, &found));
    CHECK(strcmp(found.name, "image") == 0 && found.bytes == sizeof image && (uintptr_t)found.data % 64 == 0);
    memcpy(found.data, image, sizeof image);
    OK(api->bindings_run(bindings, NULL));
    OK(api->bindings_output(bindings, 0, &found));
    compare(&found);
    OK(api->bindings_free(bindings));

    ports(model);
    texts(model);
    asynchronous(model);

    /* The package from its bytes and from a file. */
    tenon_blob bytes;
    const void *start_of;
    size_t length;
    OK(api->package_bytes(package, NULL, &bytes));
    OK(api->blob_get(bytes, &start_of, &length));
    OK(api->model_load_bytes(start_of, length, NULL, &again));
    OK(api->blob_free(bytes));
    OK(api->model_run(again, &input, 1, NULL, &outputs));
    compare_and_free(outputs);
    OK(api->model_free(again));
    OK(api->package_write(package, "digits.neff", NULL));
    tenon_load_options options = TENON_INIT(tenon_load_options);
    options.threads = 1;
    options.nan_check = 1;
    options.check_digests = 1;
    OK(api->model_load_file("digits.neff", &options, &again));
    OK(api->model_run(again, &input, 1, NULL, &outputs));
    compare_and_free(outputs);
    OK(api->model_free(again));

    OK(api->package_free(package));
    OK(api->model_free(model));
    puts("done");
    return 0;
}
