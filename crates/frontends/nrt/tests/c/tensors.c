/* Tensors: placements, slices, attached buffers, bounds, copies, batches, sets, completion. */
#include "check.h"

static void bytes_are(nrt_tensor_t *tensor, const char *text) {
    char bytes[64] = {0};
    CHECK(nrt_tensor_get_size(tensor) == strlen(text));
    OK(nrt_tensor_read(tensor, bytes, 0, strlen(text)));
    if (memcmp(bytes, text, strlen(text)) != 0) {
        fprintf(stderr, "'%s' for '%s'\n", bytes, text);
        exit(1);
    }
}

static nrt_tensor_t *text(const char *text, nrt_tensor_placement_t placement, int core) {
    nrt_tensor_t *tensor;
    OK(nrt_tensor_allocate(placement, core, strlen(text), NULL, &tensor));
    OK(nrt_tensor_write(tensor, text, 0, strlen(text)));
    bytes_are(tensor, text);
    return tensor;
}

static void slices(void) {
    nrt_tensor_t *whole = text("0123456789", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    nrt_tensor_t *part, *inner, *none = NULL;
    OK(nrt_tensor_allocate_slice(whole, 2, 6, "part", &part));
    OK(nrt_tensor_allocate_slice(part, 1, 3, "inner", &inner));
    bytes_are(inner, "345");
    OK(nrt_tensor_write(inner, "abc", 0, 3));
    OK(nrt_tensor_memset(part, 4, 'x' + 256, 1));
    bytes_are(whole, "012abcx789");
    CHECK((char *)nrt_tensor_get_va(inner) == (char *)nrt_tensor_get_va(whole) + 3);
    IS(NRT_INVALID, nrt_tensor_allocate_slice(part, 4, 3, "", &none));
    IS(NRT_INVALID, nrt_tensor_allocate_slice(part, SIZE_MAX, 2, "", &none));
    IS(NRT_INVALID, nrt_tensor_allocate_slice(part, 0, 1, "", NULL));
    IS(NRT_INVALID, nrt_tensor_read(inner, bytes_are, 2, 2));
    IS(NRT_INVALID, nrt_tensor_write(inner, "abcd", 0, 4));
    IS(NRT_INVALID, nrt_tensor_write(inner, "abcd", SIZE_MAX, 4));
    IS(NRT_INVALID, nrt_tensor_memset(inner, 3, 0, 1));
    IS(NRT_INVALID, nrt_tensor_read(inner, NULL, 0, 1));
    IS(NRT_INVALID, nrt_tensor_write(inner, NULL, 0, 1));
    nrt_tensor_t *stale = whole;
    nrt_tensor_free(&whole);
    CHECK(whole == NULL);
    bytes_are(part, "2abcx7");
    nrt_tensor_free(&part);
    bytes_are(inner, "abc");
    IS(NRT_INVALID_HANDLE, nrt_tensor_read(stale, bytes_are, 0, 1));
    nrt_tensor_free(&inner);
    nrt_tensor_free(&inner);
    nrt_tensor_free(NULL);
    CHECK(none == NULL);
}

static void placements(void) {
    nrt_tensor_t *tensor = NULL, *other;
    uint64_t before;
    nrt_vnc_memory_stats_t stats = {0, 0};
    size_t size = 0;
    OK(nrt_get_vnc_memory_stats(1, &stats, sizeof stats, &size));
    CHECK(size == sizeof stats && stats.bytes_limit == 64 << 20);
    before = stats.bytes_used;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, 1 << 20, "d", &tensor));
    OK(nrt_get_vnc_memory_stats(1, &stats, 8, &size));
    CHECK(size == 8 && stats.bytes_used == before + (1 << 20));
    nrt_tensor_free(&tensor);
    OK(nrt_get_vnc_memory_stats(1, &stats, sizeof stats, &size));
    CHECK(stats.bytes_used == before);
    IS(NRT_INVALID, nrt_get_vnc_memory_stats(1, &stats, 4, &size));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_get_vnc_memory_stats(4, &stats, sizeof stats, &size));

    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, 0, 4 << 20, "h", &tensor));
    nrt_tensor_free(&tensor);
    IS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, 0, (4 << 20) + 1, "h", &tensor));
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, 0, 100 << 20, "v", &tensor));
    nrt_tensor_free(&tensor);
    IS(NRT_RESOURCE, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 65 << 20, "d", &tensor));
    IS(NRT_RESOURCE, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, 0, SIZE_MAX / 2, "v", &tensor));
    IS(NRT_INVALID, nrt_tensor_allocate((nrt_tensor_placement_t)3, 0, 1, "", &tensor));
    IS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, -1, 1, "", &tensor));
    IS(NRT_LOAD_NOT_ENOUGH_NC, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 4, 1, "", &tensor));
    IS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1, "", NULL));
    IS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1, "\xff", &tensor));
    CHECK(tensor == NULL);

    tensor = text("device 0", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    other = text("device 1", NRT_TENSOR_PLACEMENT_DEVICE, 1);
    IS(NRT_INVALID, nrt_tensor_copy(tensor, 0, other, 0, 8));
    nrt_tensor_t *host = text("........", NRT_TENSOR_PLACEMENT_VIRTUAL, 0);
    OK(nrt_tensor_copy(tensor, 0, host, 0, 8));
    OK(nrt_tensor_copy(host, 6, other, 5, 2));
    bytes_are(other, "devic 01");
    OK(nrt_tensor_copy(other, 0, other, 2, 6));
    bytes_are(other, "dedevic ");
    IS(NRT_INVALID, nrt_tensor_copy(host, 1, other, 0, 8));
    IS(NRT_INVALID, nrt_tensor_copy(host, 0, other, 1, 8));
    nrt_tensor_device_allocation_info_t info;
    IS(NRT_INVALID, nrt_tensor_get_device_allocation_info(tensor, &info));
    nrt_tensor_free(&tensor);
    nrt_tensor_free(&other);
    nrt_tensor_free(&host);
}

static void attached(void) {
    char memory[] = "caller's";
    nrt_tensor_t *tensor, *none = NULL;
    OK(nrt_tensor_allocate_empty("e", &tensor));
    CHECK(nrt_tensor_get_size(tensor) == 0 && nrt_tensor_get_va(tensor) == NULL);
    IS(NRT_INVALID, nrt_tensor_read(tensor, memory, 0, 1));
    IS(NRT_INVALID, nrt_tensor_allocate_slice(tensor, 0, 0, "", &none));
    IS(NRT_INVALID, nrt_tensor_attach_buffer(tensor, NULL, 8));
    OK(nrt_tensor_attach_buffer(tensor, memory, 8));
    CHECK(nrt_tensor_get_va(tensor) == memory);
    bytes_are(tensor, "caller's");
    OK(nrt_tensor_write(tensor, "C", 0, 1));
    nrt_tensor_free(&tensor);
    CHECK(strcmp(memory, "Caller's") == 0);

    nrt_vnc_memory_stats_t stats;
    size_t size;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 2, 1 << 20, "d", &tensor));
    OK(nrt_tensor_attach_buffer(tensor, memory, 8));
    OK(nrt_get_vnc_memory_stats(2, &stats, sizeof stats, &size));
    CHECK(stats.bytes_used == 0);
    nrt_tensor_free(&tensor);
}

static void batches(void) {
    nrt_tensor_t *one = text("abcdef", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    nrt_tensor_t *two = text("ghijkl", NRT_TENSOR_PLACEMENT_VIRTUAL, 0);
    char buffers[3][4] = {"AB", "CD", "xyz"};
    nrt_tensor_batch_op_t first[] = {{0, 2, buffers[0]}, {4, 2, buffers[1]}};
    nrt_tensor_batch_op_t second[] = {{1, 3, buffers[2]}};
    nrt_tensor_batch_t all[] = {{one, first, 2}, {two, second, 1}};
    OK(nrt_tensor_write_batch(all, 2, false));
    bytes_are(one, "ABcdCD");
    bytes_are(two, "gxyzkl");
    OK(nrt_tensor_memset(two, 0, '-', 6));
    OK(nrt_tensor_read_batch(all, 2, true));
    CHECK(memcmp(buffers[2], "---", 3) == 0 && memcmp(buffers[1], "CD", 2) == 0);
    OK(nrt_tensor_read_batch(NULL, 0, false));
    IS(NRT_INVALID, nrt_tensor_read_batch(NULL, 1, false));
    second[0].size = 6;
    IS(NRT_INVALID, nrt_tensor_read_batch(all, 2, true));
    all[1].tensor = NULL;
    IS(NRT_INVALID_HANDLE, nrt_tensor_write_batch(all, 2, false));
    nrt_tensor_free(&one);
    nrt_tensor_free(&two);
}

static void sets(void) {
    nrt_tensor_set_t *set, *other;
    nrt_tensor_t *one = text("1", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    nrt_tensor_t *two = text("22", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    nrt_tensor_t *found = one;
    OK(nrt_allocate_tensor_set(&set));
    OK(nrt_allocate_tensor_set(&other));
    IS(NRT_FAILURE, nrt_get_tensor_from_tensor_set(set, "x", &found));
    CHECK(found == one);
    OK(nrt_add_tensor_to_tensor_set(set, "x", one));
    OK(nrt_add_tensor_to_tensor_set(set, "x", two));
    OK(nrt_add_tensor_to_tensor_set(other, "x", two));
    OK(nrt_get_tensor_from_tensor_set(set, "x", &found));
    CHECK(found == two);
    IS(NRT_INVALID_HANDLE, nrt_add_tensor_to_tensor_set(set, "y", (nrt_tensor_t *)set));
    IS(NRT_INVALID_HANDLE, nrt_add_tensor_to_tensor_set((nrt_tensor_set_t *)one, "y", one));
    IS(NRT_INVALID, nrt_add_tensor_to_tensor_set(set, NULL, one));
    IS(NRT_INVALID, nrt_allocate_tensor_set(NULL));
    nrt_tensor_free(&two);
    IS(NRT_INVALID_HANDLE, nrt_get_tensor_from_tensor_set(set, "x", &found));
    nrt_tensor_set_t *stale = set;
    nrt_destroy_tensor_set(&set);
    CHECK(set == NULL);
    IS(NRT_INVALID_HANDLE, nrt_add_tensor_to_tensor_set(stale, "x", one));
    bytes_are(one, "1");
    nrt_destroy_tensor_set(&other);
    nrt_destroy_tensor_set(&other);
    nrt_tensor_free(&one);
}

static void completion(void) {
    nrt_tensor_t *tensor = text("1", NRT_TENSOR_PLACEMENT_DEVICE, 0);
    OK(nrt_tensor_check_output_completion(tensor, 0, 0));
    OK(nrt_tensor_check_output_completion(tensor, -1, 0));
    IS(NRT_TIMEOUT, nrt_tensor_check_output_completion(tensor, 1000, 1));
    IS(NRT_INVALID, nrt_tensor_check_output_completion(NULL, 0, 1));
    OK(nrt_tensor_reset_output_completion(tensor));
    IS(NRT_INVALID, nrt_tensor_reset_output_completion(NULL));
    nrt_tensor_free(&tensor);
}

static void invented(void) {
    char local = 0;
    uint64_t words[64] = {0};
    void *wrong[] = {NULL, &local, words, (void *)(uintptr_t)0x10, (void *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        nrt_tensor_t *tensor = wrong[i];
        IS(NRT_INVALID_HANDLE, nrt_tensor_read(tensor, &local, 0, 1));
        IS(NRT_INVALID_HANDLE, nrt_tensor_copy(tensor, 0, tensor, 0, 1));
        CHECK(nrt_tensor_get_size(tensor) == 0 && nrt_tensor_get_va(tensor) == NULL);
        nrt_tensor_free(&tensor);
    }
}

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    slices();
    placements();
    attached();
    batches();
    sets();
    completion();
    invented();
    nrt_close();
    return 0;
}
