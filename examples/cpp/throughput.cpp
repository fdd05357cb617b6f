/*
 * Executes a model asynchronously, several executions at a time, and prints executions a second.
 *
 *     c++ -std=c++17 throughput.cpp -o throughput $(pkg-config --cflags --libs tenon)
 *     ./throughput digits.onnx 4 2.0
 *
 * Inputs are zeros; symbolic dimensions have the size 1.
 */
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include <tenon/tenon.hpp>

static tenon::Model open(const std::string &path) {
    const std::string onnx = ".onnx";
    const bool compiles = path.size() > onnx.size() && path.substr(path.size() - onnx.size()) == onnx;
    return compiles ? tenon::compile(path).load() : tenon::load(path);
}

static std::vector<tenon::Tensor> zeros(const tenon::Model &model) {
    std::vector<tenon::Tensor> tensors;
    for (const tenon::Port &port : model.inputs()) {
        std::vector<std::int64_t> shape = port.shape;
        for (std::int64_t &extent : shape) {
            extent = extent < 0 ? 1 : extent;
        }
        tensors.emplace_back(port.type, shape);
    }
    return tensors;
}

int main(int argc, char **argv) try {
    if (argc != 4) {
        std::cerr << "usage: throughput MODEL CONCURRENT SECONDS\n";
        return 2;
    }
    const auto concurrent = static_cast<std::size_t>(std::atoi(argv[2]));
    const std::chrono::duration<double> length(std::atof(argv[3]));
    const tenon::Model model = open(argv[1]);
    const std::vector<tenon::Tensor> tensors = zeros(model);
    const std::vector<tenon::Port> ports = model.inputs();
    tenon::Inputs inputs;
    for (std::size_t at = 0; at < ports.size(); ++at) {
        inputs.emplace_back(ports[at].name, tensors[at]);
    }

    const auto start = std::chrono::steady_clock::now();
    std::deque<tenon::Run> runs;
    std::size_t ended = 0;
    while (std::chrono::steady_clock::now() - start < length || ended == 0) {
        while (runs.size() < std::max<std::size_t>(concurrent, 1)) {
            runs.push_back(model.submit(inputs));
        }
        runs.front().outputs();
        runs.pop_front();
        ++ended;
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << static_cast<double>(ended) / elapsed.count() << " executions a second\n";
    return 0;
} catch (const tenon::Error &error) {
    std::cerr << "throughput: " << error.what() << "\n";
    return 1;
}
