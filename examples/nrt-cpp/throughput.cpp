// Executes a package in several threads for some seconds and prints the rate.
//
//     c++ -std=c++17 throughput.cpp -o throughput -pthread $(pkg-config --cflags --libs nrt)
//     ./throughput digits.neff THREADS CORES SECONDS
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <tenon/nrt.h>

namespace {

void check(NRT_STATUS status, const char *what) {
    if (status != NRT_SUCCESS) {
        throw std::runtime_error(std::string(what) + ": " + nrt_get_status_as_str(status));
    }
}

// Starts the runtime; closes it after all other objects are destroyed.
struct Runtime {
    Runtime() { check(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init"); }
    ~Runtime() { nrt_close(); }
};

struct Release {
    void operator()(nrt_model_t *model) const { nrt_unload(model); }
    void operator()(nrt_tensor_t *tensor) const { nrt_tensor_free(&tensor); }
    void operator()(nrt_tensor_info_array_t *infos) const { nrt_free_model_tensor_info(infos); }
};
using Model = std::unique_ptr<nrt_model_t, Release>;
using Tensor = std::unique_ptr<nrt_tensor_t, Release>;
using Infos = std::unique_ptr<nrt_tensor_info_array_t, Release>;

// The tensors of one thread.
class Bindings {
  public:
    Bindings(nrt_model_t *model, const nrt_tensor_info_array_t &infos) : model_(model) {
        for (nrt_tensor_set_t *&set : sets_) {
            check(nrt_allocate_tensor_set(&set), "nrt_allocate_tensor_set");
        }
        for (uint64_t i = 0; i < infos.tensor_count; i++) {
            const nrt_tensor_info_t &info = infos.tensor_array[i];
            nrt_tensor_t *tensor = nullptr;
            check(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info.size, info.name, &tensor),
                 info.name);
            tensors_.emplace_back(tensor);
            check(nrt_add_tensor_to_tensor_set(sets_[info.usage], info.name, tensor), info.name);
        }
    }
    Bindings(const Bindings &) = delete;
    ~Bindings() {
        for (nrt_tensor_set_t *&set : sets_) nrt_destroy_tensor_set(&set);
    }
    void execute() {
        check(nrt_execute(model_, sets_[NRT_TENSOR_USAGE_INPUT], sets_[NRT_TENSOR_USAGE_OUTPUT]),
             "nrt_execute");
    }

  private:
    nrt_model_t *model_;
    nrt_tensor_set_t *sets_[2] = {};
    std::vector<Tensor> tensors_;
};

} // namespace

int main(int argc, char **argv) try {
    if (argc != 5) {
        std::fprintf(stderr, "usage: throughput PACKAGE THREADS CORES SECONDS\n");
        return 2;
    }
    const int threads = std::atoi(argv[2]), cores = std::atoi(argv[3]);
    const std::chrono::duration<double> time(std::atof(argv[4]));
    Runtime runtime;
    nrt_model_t *raw = nullptr;
    check(tenon_nrt_load_file(argv[1], 0, cores, &raw), argv[1]);
    Model model(raw);
    nrt_tensor_info_array_t *list = nullptr;
    check(nrt_get_model_tensor_info(model.get(), &list), "nrt_get_model_tensor_info");
    Infos infos(list);

    std::atomic<bool> done{false};
    std::atomic<long> executions{0};
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) {
        all.emplace_back([&] {
            Bindings bindings(model.get(), *infos);
            while (!done) {
                bindings.execute();
                executions++;
            }
        });
    }
    std::this_thread::sleep_for(time);
    done = true;
    for (std::thread &thread : all) thread.join();
    std::printf("%.0f executions a second\n", static_cast<double>(executions) / time.count());
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
