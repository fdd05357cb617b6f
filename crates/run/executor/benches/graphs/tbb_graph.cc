// The graphs of graphs.rs on oneTBB's flow graph: measured beside the executor, in the same run.
//
// Usage: tbb_graph GRAPH THREADS WORK RUNS
// GRAPH is a file of little-endian u32: the number of nodes, then for each node the number of the
// nodes that it takes values from, and these. A node makes the value of its first one, after WORK
// rounds of arithmetic; a node without any makes 7. Values are kept. Prints the best of RUNS in
// nanoseconds a node.

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <vector>

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
using Message = tbb::flow::continue_msg;

// The same rounds as `work` in graphs.rs.
static uint64_t work(uint64_t rounds, uint64_t seed) {
  uint64_t x = seed | 1;
  for (uint64_t i = 0; i < rounds; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  std::ifstream file(arguments[1], std::ios::binary);
  auto number = [&file] {
    uint32_t value = 0;
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  };
  const size_t threads = std::strtoul(arguments[2], nullptr, 10);
  const uint64_t rounds = std::strtoull(arguments[3], nullptr, 10);
  const int runs = std::atoi(arguments[4]);
  tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);

  const uint32_t nodes = number();
  std::vector<int32_t> values(nodes);
  std::vector<std::vector<uint32_t>> sources(nodes);
  for (auto& from : sources) {
    from.resize(number());
    for (auto& source : from) source = number();
  }
  if (!file) return 2;

  tbb::flow::graph graph;
  std::deque<Node> all;
  std::vector<uint32_t> first;
  volatile uint64_t sink = 0;
  for (uint32_t node = 0; node < nodes; node++) {
    all.emplace_back(graph, [&, node](const Message&) {
      if (rounds != 0) sink = work(rounds, node);
      values[node] = sources[node].empty() ? 7 : values[sources[node][0]];
      return Message();
    });
    if (sources[node].empty()) first.push_back(node);
    for (uint32_t source : sources[node]) tbb::flow::make_edge(all[source], all[node]);
  }

  double best = 1e300;
  for (int run = 0; run < runs; run++) {
    std::fill(values.begin(), values.end(), 0);
    auto start = std::chrono::steady_clock::now();
    for (uint32_t node : first) all[node].try_put(Message());
    graph.wait_for_all();
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    if (time.count() / nodes < best) best = time.count() / nodes;
    for (int32_t value : values) {
      if (value != 7) return 1;
    }
  }
  std::printf("%.3f\n", best);
  return 0;
}
