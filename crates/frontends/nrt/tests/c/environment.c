/* Prints the statuses of nrt_init and nrt_load; the test sets the environment. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    size_t size;
    void *bytes = file_bytes(argv[1], &size);
    nrt_model_t *model = NULL;
    printf("%d ", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    printf("%d\n", nrt_load(bytes, size, -1, -1, &model));
    free(bytes);
    nrt_close();
    return 0;
}
