/* Prints the names of the tensors that a debug stream sends for one execution. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int stream = -1;
    ndebug_stream_event_header_t header;
    void *payload = NULL;
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], 0, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    OK(nrt_debug_client_connect(0, &stream));
    OK(nrt_execute(model, inputs, outputs));
    while (nrt_debug_client_read_one_event(stream, &header, &payload) == NRT_SUCCESS) {
        printf("%s\n", ((ndebug_stream_payload_debug_tensor_read_t *)payload)->prefix);
        free(payload);
    }
    nrt_debug_client_connect_close(stream);
    nrt_close();
    return 0;
}
