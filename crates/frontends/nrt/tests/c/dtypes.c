/* The type of a model's first input in the numbering since 2026, in the older one, and in the
 * numbering that the environment selects for programs compiled with older headers. */
#include "check.h"

NRT_STATUS tenon_nrt_get_model_tensor_info_old_dtypes(nrt_model_t *, nrt_tensor_info_array_t **);

static int first(NRT_STATUS (*infos_of)(nrt_model_t *, nrt_tensor_info_array_t **),
                 nrt_model_t *model) {
    nrt_tensor_info_array_t *infos;
    OK(infos_of(model, &infos));
    int dtype = (int)infos->tensor_array[0].dtype;
    OK(nrt_free_model_tensor_info(infos));
    return dtype;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = load_at(argv[1], -1, -1);
    CHECK(NRT_DTYPE_FLOAT32 == 10);
    CHECK(first(nrt_get_model_tensor_info, model) == atoi(argv[2]));
    CHECK(first(tenon_nrt_get_model_tensor_info_old_dtypes, model) == 1);
    nrt_close();
    return 0;
}
