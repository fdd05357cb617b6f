/* What only an accelerator has is answered; nothing of the caller is touched. */
#include "check.h"

int main(void) {
    int number = 7;
    uint32_t count = 7, ids[4] = {7, 7, 7, 7};
    void *address = &number;
    size_t size = 7;
    char text[16] = "unchanged";
    bool done = false;
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    IS(NRT_INVALID, nrt_get_dmabuf_fd(0, 4096, &number));
    uint64_t offset = 7;
    IS(NRT_INVALID, nrt_get_dmabuf_fd_v2((uintptr_t)text, sizeof text, &number, &offset));
    IS(NRT_INVALID, nrt_get_dmabuf_fd_v2(0, 4096, &number, NULL));
    CHECK(offset == 7);
    IS(NRT_INVALID, nrt_host_device_id_rid_map_get(&count, ids));
    IS(NRT_INVALID, nrt_get_hbm_mmap_va(0, 0, &address, &size));
    IS(NRT_INVALID, nrt_get_attached_efa_bdf(text, text, &size));
    uint8_t code[1] = {0};
    nrt_ucode_info ucode = {{code, 1}, {code, 1}};
    IS(NRT_INVALID, nrt_set_pool_eng_ucode(&ucode));
    IS(NRT_INVALID, nrt_set_pool_eng_ucode(NULL));
    CHECK(number == 7 && count == 7 && ids[0] == 7 && address == &number && size == 7);
    OK(nrt_host_device_id_get(0, &count));
    CHECK(count == 0);
    IS(NRT_INVALID, nrt_host_device_id_get(1, &count));
    OK(nrt_memcpy_to_device(text + 2, text, 4));
    CHECK(strcmp(text, "ununchged") == 0);
    IS(NRT_INVALID, nrt_memcpy_to_device(NULL, text, 4));

    nrt_async_sendrecv_comm_t *comm = NULL;
    nrt_async_sendrecv_request_t *request = NULL;
    OK(nrt_async_sendrecv_get_max_num_communicators_per_lnc(&number));
    CHECK(number == 0);
    OK(nrt_async_sendrecv_get_max_num_pending_request(&number));
    CHECK(number == 0);
    IS(NRT_INVALID, nrt_async_sendrecv_init(0));
    IS(NRT_INVALID, nrt_async_sendrecv_close(0));
    IS(NRT_INVALID, nrt_async_sendrecv_connect("10.0.0.1", 0, 0, &comm));
    IS(NRT_INVALID, nrt_async_sendrecv_accept("10.0.0.1", 0, 0, &comm));
    IS(NRT_INVALID_HANDLE, nrt_async_sendrecv_test_comm(comm, &done));
    IS(NRT_INVALID_HANDLE, nrt_async_sendrecv_send_tensor(NULL, 0, 1, comm, &request));
    IS(NRT_INVALID_HANDLE, nrt_async_sendrecv_recv_tensor(NULL, 0, 1, comm, &request));
    IS(NRT_INVALID_HANDLE, nrt_async_sendrecv_test_request(request, &done, &size));
    IS(NRT_INVALID, nrt_async_sendrecv_flush(0));

    uint32_t semaphore = 1;
    nec_inc_semaphore(&semaphore, 4);
    CHECK(semaphore == 1);
    CHECK(nec_get_dynamic_send_size_bytes(NULL, 4, 0, 1) == 0);
    CHECK(nec_get_dynamic_send_offset_bytes(NULL, 4, 0, 1) == 0);
    CHECK(nec_get_dynamic_recv_offset_bytes(NULL, 4, 0, 1) == 0);
    nec_set_recv_size_bytes(NULL, 4, 4, 0, 1);
    CHECK(nec_get_device_count(&number, 1) == 0);
    CHECK(nec_get_device_pci_bdf(0, &count, &count, (uint8_t *)text, (uint8_t *)text) == -1);
    OK(nec_get_virtual_core_size(&count));
    CHECK(count == 1);
    IS(NRT_INVALID, nec_get_version_info((nec_version_info_t *)text));
    IS(NRT_INVALID, nec_build_port_and_rid_map(0, &number, &number, 1));
    CHECK(!nec_is_mla_available(0, 0));
    CHECK(nec_mla_idx_to_rid(0, 0) == -1 && nec_rid_to_mla_idx(0, 0) == -1);
    CHECK(nec_get_peer_mla_idx(0, 0, 0) == -1);
    CHECK(nec_get_p2p_pod_peer_node(0, 0, 0, &number) == -1);
    IS(NRT_INVALID, nec_pod_node_can_access_peer_node(0, 0, 0, 0, 0, &number));
    nec_ndl_printk(text, sizeof text, 0);
    nrt_close();
    return 0;
}
