/* Sizes and offsets of structs, values of enums (nrt 1.2, 1.3, 1.4), checked at compile time. */
#include <assert.h>

#include "check.h"

#define SIZE(type, size) static_assert(sizeof(type) == (size), #type)
#define AT(type, field, offset) static_assert(offsetof(type, field) == (offset), #type "." #field)
#define IS_VALUE(name, value) static_assert((int)(name) == (value), #name)

SIZE(nrt_instance_info_t, 32);
AT(nrt_instance_info_t, size, 4);
AT(nrt_instance_info_t, arch_name, 8);
AT(nrt_instance_info_t, device_revision, 24);
SIZE(nrt_tensor_info_t, 296);
AT(nrt_tensor_info_t, usage, 256);
AT(nrt_tensor_info_t, size, 264);
AT(nrt_tensor_info_t, dtype, 272);
AT(nrt_tensor_info_t, shape, 280);
AT(nrt_tensor_info_t, ndim, 288);
SIZE(nrt_tensor_info_array_t, 8);
AT(nrt_tensor_info_array_t, tensor_array, 8);
SIZE(nrt_version_t, 224);
AT(nrt_version_t, rt_maintenance, 24);
AT(nrt_version_t, rt_detail, 32);
AT(nrt_version_t, git_hash, 160);
SIZE(nrt_tensor_batch_t, 24);
AT(nrt_tensor_batch_t, ops, 8);
AT(nrt_tensor_batch_t, num_ops, 16);
SIZE(nrt_tensor_batch_op_t, 24);
AT(nrt_tensor_batch_op_t, size, 8);
AT(nrt_tensor_batch_op_t, buffer, 16);
SIZE(nrt_tensor_device_allocation_info_t, 24);
AT(nrt_tensor_device_allocation_info_t, hbm_index, 16);
SIZE(nrt_vnc_memory_stats_t, 16);
AT(nrt_vnc_memory_stats_t, bytes_limit, 8);
SIZE(nrt_cc_comm_t, 32);
AT(nrt_cc_comm_t, rank, 8);
AT(nrt_cc_comm_t, rank_n, 12);
AT(nrt_cc_comm_t, ctx_device_id, 16);
AT(nrt_cc_comm_t, ctx_device_count, 20);
AT(nrt_cc_comm_t, vnc, 24);
SIZE(nrt_tensor_list_t, 16);
SIZE(nrt_ucode_img, 16);
SIZE(nrt_ucode_info, 32);
SIZE(nrt_model_info_t, 4);
#ifdef TENON_NRT_ASYNC_2
SIZE(nrta_error_t, 16);
AT(nrta_error_t, error_code, 8);
#endif
SIZE(ndebug_stream_event_header_t, 64);
AT(ndebug_stream_event_header_t, type, 8);
AT(ndebug_stream_event_header_t, reserved, 12);
SIZE(ndebug_stream_payload_debug_tensor_read_t, 1024);
AT(ndebug_stream_payload_debug_tensor_read_t, logical_nc_id, 512);
AT(ndebug_stream_payload_debug_tensor_read_t, pipe, 516);
AT(ndebug_stream_payload_debug_tensor_read_t, tensor_dtype, 520);
AT(ndebug_stream_payload_debug_tensor_read_t, tensor_shape, 536);
AT(ndebug_stream_payload_debug_tensor_read_t, tensor_data_size, 600);
AT(ndebug_stream_payload_debug_tensor_read_t, tensor_data, 1024);

IS_VALUE(NRT_TENSOR_PLACEMENT_DEVICE, 0); IS_VALUE(NRT_TENSOR_PLACEMENT_HOST, 1);
IS_VALUE(NRT_TENSOR_PLACEMENT_VIRTUAL, 2);
IS_VALUE(NRT_FRAMEWORK_TYPE_INVALID, 0); IS_VALUE(NRT_FRAMEWORK_TYPE_NO_FW, 1);
IS_VALUE(NRT_FRAMEWORK_TYPE_TENSORFLOW, 2); IS_VALUE(NRT_FRAMEWORK_TYPE_PYTORCH, 3);
IS_VALUE(NRT_FRAMEWORK_TYPE_MXNET, 4); IS_VALUE(NRT_FRAMEWORK_TYPE_PRECHECK, 5);
IS_VALUE(NRT_INSTANCE_UNKNOWN, 0); IS_VALUE(NRT_INSTANCE_INF1, 1); IS_VALUE(NRT_INSTANCE_TRN1, 2);
IS_VALUE(NRT_INSTANCE_TRN1N, 3); IS_VALUE(NRT_INSTANCE_INF2, 4); IS_VALUE(NRT_INSTANCE_TRN2, 5);
IS_VALUE(NRT_INSTANCE_TRN2N, 6); IS_VALUE(NRT_INSTANCE_INF2E, 7); IS_VALUE(NRT_INSTANCE_TRN2P, 8);
IS_VALUE(NRT_INSTANCE_TRN2U, 9); IS_VALUE(NRT_INSTANCE_TRN2E, 10);
IS_VALUE(NRT_INSTANCE_TRN2EU, 11); IS_VALUE(NRT_INSTANCE_TRN2AC, 12);
IS_VALUE(NRT_INSTANCE_TRN2UAC, 13); IS_VALUE(NRT_INSTANCE_TRN3, 14);
IS_VALUE(NRT_INSTANCE_TRN3PDS98, 15);
IS_VALUE(NRT_INSTANCE_SIZE_1XL, 0); IS_VALUE(NRT_INSTANCE_SIZE_2XL, 1);
IS_VALUE(NRT_INSTANCE_SIZE_4XL, 2); IS_VALUE(NRT_INSTANCE_SIZE_6XL, 3);
IS_VALUE(NRT_INSTANCE_SIZE_8XL, 4); IS_VALUE(NRT_INSTANCE_SIZE_24XL, 5);
IS_VALUE(NRT_INSTANCE_SIZE_32XL, 6); IS_VALUE(NRT_INSTANCE_SIZE_48XL, 7);
IS_VALUE(NRT_INSTANCE_SIZE_3XL, 8); IS_VALUE(NRT_INSTANCE_SIZE_UNKNOWN, 9);
IS_VALUE(NRT_TENSOR_USAGE_INPUT, 0); IS_VALUE(NRT_TENSOR_USAGE_OUTPUT, 1);
IS_VALUE(NRT_OP_ADD, 0); IS_VALUE(NRT_OP_FMA, 1); IS_VALUE(NRT_OP_MAX, 2);
IS_VALUE(NRT_OP_MIN, 3); IS_VALUE(NRT_OP_INVALID, 15);
IS_VALUE(NRT_CC_ALLGATHER, 0); IS_VALUE(NRT_CC_ALLREDUCE, 1); IS_VALUE(NRT_CC_REDUCESCATTER, 2);
#ifdef TENON_NRT_ASYNC_2
IS_VALUE(NRTA_XU_TENSOR_READ, 0); IS_VALUE(NRTA_XU_TENSOR_WRITE, 1);
IS_VALUE(NRTA_XU_TENSOR_OP, 2); IS_VALUE(NRTA_XU_COMPUTE, 3); IS_VALUE(NRTA_XU_COLLECTIVES, 4);
IS_VALUE(NRTA_XU_NUM, 5); IS_VALUE(NRTA_XU_TYPE_NUM, 5);
#else
IS_VALUE(NRTA_XU_TENSOR_OP, 0); IS_VALUE(NRTA_XU_COMPUTE, 1); IS_VALUE(NRTA_XU_COLLECTIVES, 2);
IS_VALUE(NRTA_XU_TYPE_NUM, 3);
#endif
IS_VALUE(NDEBUG_STREAM_EVENT_TYPE_INVALID, 0);
IS_VALUE(NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ, 1);
IS_VALUE(NRT_TENSOR_NAME_MAX, 256);
IS_VALUE(RT_VERSION_DETAIL_LEN, 128);
IS_VALUE(GIT_HASH_LEN, 64);
IS_VALUE(NRT_MAJOR_VERSION, 2);
IS_VALUE(NRT_MINOR_VERSION, 0);
static_assert(NRTA_SEQ_NUM_MAX == 0xFFFFFFFFFFFF, "48 bits");
static_assert(NRTA_SEQ_GET_SEQ_NUM(UINT64_C(0x1234000000000005)) == 5, "low bits");
static_assert(NRTA_SEQ_GET_XU_ID(UINT64_C(0x1234000000000005)) == 0x1234, "high bits");
IS_VALUE(NRT_DTYPE_INVALID, 0);
#ifndef TENON_NRT_OLD_DTYPES
IS_VALUE(NRT_DTYPE_UNKNOWN, 0); IS_VALUE(NRT_DTYPE_UINT64, 1); IS_VALUE(NRT_DTYPE_INT8, 2);
IS_VALUE(NRT_DTYPE_UINT8, 3); IS_VALUE(NRT_DTYPE_INT16, 4); IS_VALUE(NRT_DTYPE_UINT16, 5);
IS_VALUE(NRT_DTYPE_BFLOAT16, 6); IS_VALUE(NRT_DTYPE_FLOAT16, 7); IS_VALUE(NRT_DTYPE_INT32, 8);
IS_VALUE(NRT_DTYPE_UINT32, 9); IS_VALUE(NRT_DTYPE_FLOAT32, 10); IS_VALUE(NRT_DTYPE_FP32R, 11);
IS_VALUE(NRT_DTYPE_INT64, 12); IS_VALUE(NRT_DTYPE_FP8_E3, 13); IS_VALUE(NRT_DTYPE_FP8_E4, 14);
IS_VALUE(NRT_DTYPE_FP8_E5, 15);
#else
IS_VALUE(NRT_DTYPE_UNKNOWN, 0); IS_VALUE(NRT_DTYPE_FLOAT32, 1); IS_VALUE(NRT_DTYPE_FLOAT16, 2);
IS_VALUE(NRT_DTYPE_BFLOAT16, 3); IS_VALUE(NRT_DTYPE_INT8, 4); IS_VALUE(NRT_DTYPE_UINT8, 5);
IS_VALUE(NRT_DTYPE_INT16, 6); IS_VALUE(NRT_DTYPE_UINT16, 7); IS_VALUE(NRT_DTYPE_INT32, 8);
IS_VALUE(NRT_DTYPE_UINT32, 9); IS_VALUE(NRT_DTYPE_INT64, 10); IS_VALUE(NRT_DTYPE_UINT64, 11);
#endif

int main(void) {
    const struct { NRT_STATUS status; int value; const char *name; } all[] = {
#define STATUS(name, value) {name, value, #name}
        STATUS(NRT_SUCCESS, 0), STATUS(NRT_FAILURE, 1), STATUS(NRT_INVALID, 2),
        STATUS(NRT_INVALID_HANDLE, 3), STATUS(NRT_RESOURCE, 4), STATUS(NRT_TIMEOUT, 5),
        STATUS(NRT_HW_ERROR, 6), STATUS(NRT_QUEUE_FULL, 7), STATUS(NRT_LOAD_NOT_ENOUGH_NC, 9),
        STATUS(NRT_UNSUPPORTED_NEFF_VERSION, 10), STATUS(NRT_FAIL_HOST_MEM_ALLOC, 11),
        STATUS(NRT_UNINITIALIZED, 13), STATUS(NRT_CLOSED, 14), STATUS(NRT_QUEUE_EMPTY, 15),
        STATUS(NRT_EXEC_UNIT_UNRECOVERABLE, 101), STATUS(NRT_EXEC_BAD_INPUT, 1002),
        STATUS(NRT_EXEC_COMPLETED_WITH_NUM_ERR, 1003), STATUS(NRT_EXEC_COMPLETED_WITH_ERR, 1004),
        STATUS(NRT_EXEC_NC_BUSY, 1005), STATUS(NRT_EXEC_OOB, 1006), STATUS(NRT_COLL_PENDING, 1100),
        STATUS(NRT_EXEC_HW_ERR_COLLECTIVES, 1200), STATUS(NRT_EXEC_HW_ERR_HBM_UE, 1201),
        STATUS(NRT_EXEC_HW_ERR_NC_UE, 1202), STATUS(NRT_EXEC_HW_ERR_DMA_ABORT, 1203),
        STATUS(NRT_EXEC_SW_NQ_OVERFLOW, 1204), STATUS(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, 1205),
        STATUS(NRT_NETWORK_PROXY_FAILURE, 1206),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK((int)all[i].status == all[i].value);
        CHECK(strcmp(nrt_get_status_as_str(all[i].status), all[i].name) == 0);
    }
    CHECK(strcmp(nrt_get_status_as_str((NRT_STATUS)77), "NRT_UNKNOWN_STATUS") == 0);
    return 0;
}
