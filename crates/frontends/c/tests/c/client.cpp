// The classes of tenon.hpp: client DIGITS.onnx DYNAMIC.onnx
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include <tenon/tenon.hpp>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

template <typename Function> static tenon::Error failure(Function function) {
    try {
        function();
    } catch (const tenon::Error &error) {
        return error;
    }
    std::fprintf(stderr, "no exception\n");
    std::exit(1);
}

static void digits(const char *path) {
    std::atomic<int> steps{0};
    const tenon::Task task(60, [&](tenon::Progress) { ++steps; });
    tenon::CompileOptions options;
    options.task = &task;
    options.backends = {"CpuAcc", "CpuRef"};
    const tenon::Package package = tenon::compile(path, options);
    CHECK(steps > 0);
    CHECK(package.placement().find("CpuAcc") != std::string::npos);
    const tenon::Model model = package.load();

    tenon::Tensor image(tenon::Type::f32, {1, 1, 8, 8});
    for (std::size_t at = 0; at < image.size<float>(); ++at) {
        image.data<float>()[at] = static_cast<float>(at % 17);
    }
    const tenon::Outputs outputs = model.run({{"image", image}});
    CHECK(outputs.size() == 1);
    const tenon::View scores = outputs[0];
    CHECK(scores.type() == tenon::Type::f32 && scores.shape() == (std::vector<std::int64_t>{1, 10}));
    CHECK(outputs[std::string(scores.name())].data() == scores.data());
    const auto same = [&](const tenon::View &other) {
        return std::memcmp(other.data(), scores.data(), scores.bytes()) == 0;
    };

    tenon::Tensor results(tenon::Type::f32, {1, 10});
    model.execute({image.view()}, {results.view()});
    CHECK(same(results.view()));
    const tenon::Bindings bindings = model.bind();
    std::memcpy(bindings.input(0).data(), image.data(), image.bytes());
    bindings.run(&task);
    CHECK(same(bindings.output(0)));
    tenon::Run run = model.submit({{"image", image}}, TENON_PRIORITY_LOW);
    CHECK(run.descriptor() >= 0 && run.wait(60));
    CHECK(same(run.outputs()[0]));
    CHECK(model.profile({{"image", image}}).find("\"executions\":10") != std::string::npos);

    const std::string bytes = package.bytes();
    CHECK(same(tenon::load(bytes.data(), bytes.size()).run({{"image", image}})[0]));
    package.write("client.neff");
    tenon::LoadOptions loading;
    loading.threads = 1;
    CHECK(same(tenon::load("client.neff", loading).run({{"image", image}})[0]));

    const tenon::Error error = failure([&] { model.run({{"picture", image}}); });
    CHECK(error.code() == TENON_INVALID_ARGUMENT && !error.problems().empty());
    const tenon::Error absent = failure([] { tenon::load("absent.neff"); });
    CHECK(absent.code() == TENON_NOT_FOUND && absent.problems()[0].place == "absent.neff");
    CHECK(std::string(absent.what()).find("absent.neff") == 0);
    CHECK(failure([&] { tenon::Model().name(); }).code() == TENON_INVALID_HANDLE);
    CHECK(failure([&] { scores.data<std::int64_t>(); }).code() == TENON_INVALID_ARGUMENT);
    CHECK(failure([&] { tenon::Tensor(tenon::Type::f32, {-1}); }).code() == TENON_INVALID_ARGUMENT);
    CHECK(failure([&] { tenon::Tensor(tenon::Type::f32, {1ll << 62, 1ll << 62}); }).code() ==
          TENON_INVALID_ARGUMENT);
    task.cancel();
    CHECK(failure([&] { model.run({{"image", image}}, &task); }).code() == TENON_CANCELLED);
}

// The inputs of a decoder for tokens that follow `past` others.
struct Tokens {
    Tokens(const std::vector<std::int64_t> &tokens, std::int64_t past)
        : ids(tenon::Type::i64, {1, static_cast<std::int64_t>(tokens.size())}),
          mask(tenon::Type::i64, {1, past + ids.shape()[1]}), positions(tenon::Type::i64, ids.shape()) {
        for (std::size_t at = 0; at < tokens.size(); ++at) {
            ids.data<std::int64_t>()[at] = tokens[at];
            positions.data<std::int64_t>()[at] = past + static_cast<std::int64_t>(at);
        }
        for (std::size_t at = 0; at < mask.size<std::int64_t>(); ++at) {
            mask.data<std::int64_t>()[at] = 1;
        }
    }
    tenon::Inputs inputs() const {
        return {{"input_ids", ids}, {"attention_mask", mask}, {"position_ids", positions}};
    }

    tenon::Tensor ids, mask, positions;
};

// Two steps in a session are one execution on two tokens.
static void session(const char *path) {
    tenon::CompileOptions options;
    options.states = TENON_STATES_AUTOMATIC;
    const tenon::Model model = tenon::compile(path, options).load();
    const Tokens first({5}, 0), second({9}, 1), both({5, 9}, 0);
    const tenon::Session session = model.session();
    CHECK(session.states().size() == 4 && session.steps() == 0);
    session.run(first.inputs());
    const tenon::Session fork = session.fork();
    const tenon::Outputs logits = session.run(second.inputs());
    CHECK(session.steps() == 2 && fork.steps() == 1);
    const auto same = [&](const tenon::Outputs &other) {
        return std::memcmp(logits[0].data(), other[0].data(), logits[0].bytes()) == 0;
    };
    CHECK(same(fork.run(second.inputs())));
    const tenon::State state = session.states()[0];
    CHECK(session.value(state.output)[0].bytes() == 2 * 2 * 16 * sizeof(float));
    session.truncate(1);
    CHECK(session.steps() == 1 && same(session.run(second.inputs())));

    tenon::Inputs inputs = both.inputs();
    std::deque<tenon::Tensor> empty;
    for (const tenon::Port &port : model.inputs()) {
        if (port.type == tenon::Type::f32) {
            std::vector<std::int64_t> shape = port.shape;
            std::replace(shape.begin(), shape.end(), std::int64_t{-1}, std::int64_t{0});
            inputs.emplace_back(port.name, empty.emplace_back(port.type, shape));
        }
    }
    const tenon::Outputs whole = model.run(inputs);
    const std::size_t count = logits["logits"].size<float>();
    CHECK(whole["logits"].size<float>() == 2 * count);
    for (std::size_t at = 0; at < count; ++at) {
        const float expected = whole["logits"].data<float>()[count + at], found = logits["logits"].data<float>()[at];
        CHECK(std::abs(expected - found) < 1e-4f);
    }

    session.reset();
    CHECK(session.steps() == 0 && session.value(state.output).size() == 0);
    CHECK(failure([&] { session.truncate(7); }).code() == TENON_INVALID_ARGUMENT);
    CHECK(failure([&] { session.value("absent"); }).code() == TENON_INVALID_ARGUMENT);
    CHECK(failure([&] { model.session({{"logits", "input_ids"}}); }).code() == TENON_INVALID_ARGUMENT);
}

static void quantised(const char *path) {
    tenon::Tensor images(tenon::Type::f32, {8, 1, 8, 8});
    for (std::size_t at = 0; at < images.size<float>(); ++at) {
        images.data<float>()[at] = static_cast<float>(at * 5 % 17) / 16;
    }
    tenon::QuantizeOptions options;
    options.calibration = tenon::Calibration::entropy;
    options.excluded = {"conv1"};
    const tenon::QuantizedModel quantized = tenon::quantize(path, {{"image", images}}, options);
    CHECK(quantized.report.find("excluded by name") != std::string::npos);
    CHECK(tenon::compile(quantized.onnx.data(), quantized.onnx.size()).load().inputs().size() == 1);
    CHECK(failure([&] { tenon::quantize(path); }).code() == TENON_USAGE);
}

int main(int argc, char **argv) try {
    CHECK(argc == 3);
    CHECK(!tenon::version().empty());
    digits(argv[1]);
    quantised(argv[1]);
    session(argv[2]);
    std::puts("done");
    return 0;
} catch (const tenon::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
