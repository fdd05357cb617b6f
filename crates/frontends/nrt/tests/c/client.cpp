// The headers in C++, and a client that owns handles by unique_ptr.
#include <nrt/ndebug_stream.h>
#include <nrt/nec.h>
#include <nrt/nrt.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <tenon/nrt.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

static_assert(sizeof(nrt_tensor_info_t) == 296, "as in C");
static_assert(sizeof(nrt_version_t) == 224, "as in C");

struct Free {
    void operator()(nrt_tensor_t *tensor) const { nrt_tensor_free(&tensor); }
    void operator()(nrt_model_t *model) const { nrt_unload(model); }
};

int main() {
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return 1;
    std::vector<std::thread> threads;
    bool good[4] = {};
    for (int core = 0; core < 4; core++) {
        threads.emplace_back([core, &good] {
            nrt_tensor_t *raw = nullptr;
            if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, 5, "t", &raw) != NRT_SUCCESS) return;
            std::unique_ptr<nrt_tensor_t, Free> tensor(raw);
            char text[6] = "";
            good[core] = nrt_tensor_write(tensor.get(), "hello", 0, 5) == NRT_SUCCESS &&
                         nrt_tensor_read(tensor.get(), text, 0, 5) == NRT_SUCCESS &&
                         std::strcmp(text, "hello") == 0;
        });
    }
    for (auto &thread : threads) thread.join();
    nrt_close();
    return good[0] && good[1] && good[2] && good[3] ? 0 : 1;
}
