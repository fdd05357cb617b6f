/* Executes a model repeatedly until standard input ends, as the subject of a monitor. */
#include "check.h"

#include <poll.h>
#include <unistd.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], 1, 1);
    nrt_tensor_set_t *inputs = tensors_of(model, NRT_TENSOR_USAGE_INPUT);
    nrt_tensor_set_t *outputs = tensors_of(model, NRT_TENSOR_USAGE_OUTPUT);
    nrt_tensor_set_t *empty;
    OK(nrt_allocate_tensor_set(&empty));
    IS(NRT_INVALID, nrt_execute(model, empty, outputs));
    puts("ready");
    fflush(stdout);
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 1) == 0) OK(nrt_execute(model, inputs, outputs));
    nrt_close();
    return 0;
}
