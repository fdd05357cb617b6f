/* What a client of the second numbering is told. */
#define TENON_NRT_NEW_DTYPES
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    nrt_tensor_info_array_t *infos;
    OK(nrt_get_model_tensor_info(model, &infos));
    CHECK(infos->tensor_array[0].dtype == NRT_DTYPE_FLOAT32 && NRT_DTYPE_FLOAT32 == 10);
    OK(nrt_free_model_tensor_info(infos));
    nrt_close();
    return 0;
}
