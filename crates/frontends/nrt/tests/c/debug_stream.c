/* Debug streams: tensors of executions, one client for each core. The capacity is three events. */
#include "check.h"

#include <poll.h>

static bool readable(int fd) {
    struct pollfd polled = {fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int stream = -1, other = -1;
    ndebug_stream_event_header_t header;
    void *payload = NULL;
    IS(NRT_UNINITIALIZED, nrt_debug_client_connect(0, &stream));
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], 1, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_t *output = first_of(model, outputs, NRT_TENSOR_USAGE_OUTPUT);
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_debug_client_connect(4, &stream));
    IS(NRT_INVALID, nrt_debug_client_connect(-1, &stream));
    IS(NRT_INVALID, nrt_debug_client_connect(1, NULL));
    OK(nrt_debug_client_connect(1, &stream));
    IS(NRT_INVALID, nrt_debug_client_connect(1, &other));
    OK(nrt_debug_client_connect(0, &other));
    IS(NRT_QUEUE_EMPTY, nrt_debug_client_read_one_event(stream, &header, &payload));
    CHECK(!readable(stream));
    OK(nrt_execute(model, inputs, outputs));
    CHECK(readable(stream) && !readable(other));

    /* The last event of an execution is its output. */
    float expected[10], found[10] = {0};
    OK(nrt_tensor_read(output, expected, 0, sizeof expected));
    while (readable(stream)) {
        OK(nrt_debug_client_read_one_event(stream, &header, &payload));
        CHECK(header.type == NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ);
        ndebug_stream_payload_debug_tensor_read_t *tensor = payload;
        CHECK(header.data_size == sizeof *tensor + tensor->tensor_data_size);
        CHECK(tensor->logical_nc_id == 1 && tensor->prefix[0] != 0);
        if (tensor->tensor_data_size == sizeof found) {
            CHECK(strcmp(tensor->tensor_dtype, "f32") == 0);
            CHECK(tensor->tensor_shape[0] == 1 && tensor->tensor_shape[1] == 10);
            memcpy(found, tensor->tensor_data, sizeof found);
        }
        free(payload);
    }
    CHECK(memcmp(found, expected, sizeof found) == 0);
    IS(NRT_QUEUE_EMPTY, nrt_debug_client_read_one_event(stream, &header, &payload));

    for (int i = 0; i < 5; i++) OK(nrt_execute(model, inputs, outputs));
    int count = 0;
    while (nrt_debug_client_read_one_event(stream, &header, &payload) == NRT_SUCCESS) {
        free(payload);
        count++;
    }
    CHECK(count == 3);
    nrt_debug_client_connect_close(stream);
    nrt_debug_client_connect_close(stream);
    IS(NRT_INVALID_HANDLE, nrt_debug_client_read_one_event(stream, &header, &payload));
    OK(nrt_execute(model, inputs, outputs));
    OK(nrt_debug_client_connect(1, &stream));
    IS(NRT_QUEUE_EMPTY, nrt_debug_client_read_one_event(stream, &header, &payload));
    nrt_close();
    return 0;
}
