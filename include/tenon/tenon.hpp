/*
 * tenon/tenon.hpp: compile and run models from C++17. Classes over tenon/tenon.h, in this header alone.
 *
 *     #include <tenon/tenon.hpp>
 *
 *     tenon::Model model = tenon::load("model.neff");
 *     tenon::Tensor image(tenon::Type::f32, {1, 1, 8, 8});
 *     read_pixels(image.data<float>());
 *     tenon::Outputs outputs = model.run({{"image", image}});
 *     const float *scores = outputs["scores"].data<float>();
 *
 * Failures are exceptions: tenon::Error has the code and the parts of each problem. Objects are moved, not copied; a
 * moved-from or default object is empty, and calls on it throw. Classes may be used from several threads as
 * tenon/tenon.h says of their handles. Link with -ltenon.
 */
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <tenon/tenon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

/* --------------------------------------------------------------------------------------------------- failures */

/* One problem of an input; parts that it does not have are empty. */
struct Problem {
    std::string place, message, expected, found, help;
};

/* A failed call. what() has all problems. */
class Error : public std::runtime_error {
public:
    Error(tenon_code code, const std::string &text, std::vector<Problem> problems = {})
        : std::runtime_error(text), code_(code), problems_(std::move(problems)) {}

    tenon_code code() const noexcept { return code_; }
    const std::vector<Problem> &problems() const noexcept { return problems_; }

private:
    tenon_code code_;
    std::vector<Problem> problems_;
};

/* The functions of the C interface. */
inline const tenon_functions &functions() {
    static const tenon_functions *const found = tenon_api(TENON_API_MAJOR, TENON_API_MINOR);
    if (found == nullptr) {
        throw Error(TENON_UNSUPPORTED_VERSION,
                    "libtenon has another version of its interface: install the library of this header, or a newer one");
    }
    return *found;
}

/* Throws the error of a status. */
inline void check(tenon_status status) {
    if (status == nullptr) {
        return;
    }
    const tenon_functions &api = functions();
    std::vector<Problem> problems(api.status_problem_count(status));
    for (std::size_t at = 0; at < problems.size(); ++at) {
        const auto part = [&](tenon_status_part part) {
            const char *text = api.status_part(status, at, part);
            return std::string(text == nullptr ? "" : text);
        };
        problems[at] = {part(TENON_PART_PLACE), part(TENON_PART_MESSAGE), part(TENON_PART_EXPECTED),
                        part(TENON_PART_FOUND), part(TENON_PART_HELP)};
    }
    Error error(static_cast<tenon_code>(api.status_code(status)), api.status_text(status), std::move(problems));
    api.status_free(status);
    throw error;
}

/* The version of the library. */
inline std::string version() { return functions().version(); }

namespace detail {

/* A handle that is freed with its object. */
template <typename Raw, tenon_status (*tenon_functions::*Free)(Raw)> class Handle {
public:
    Handle() noexcept = default;
    explicit Handle(Raw raw) noexcept : raw_(raw) {}
    Handle(Handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~Handle() {
        if (raw_ != nullptr) {
            const tenon_functions &api = functions();
            api.status_free((api.*Free)(raw_));
        }
    }

    Raw get() const noexcept { return raw_; }
    Raw *out() noexcept { return &raw_; }

private:
    Raw raw_ = nullptr;
};

/* Calls a function with a place for the handle that it returns. */
template <typename Result, typename Function> Result made(Function function) {
    Result result;
    check(function(result.out()));
    return result;
}

inline std::string blob_text(Handle<tenon_blob, &tenon_functions::blob_free> blob) {
    const void *start = nullptr;
    std::size_t length = 0;
    check(functions().blob_get(blob.get(), &start, &length));
    return std::string(static_cast<const char *>(start), length);
}

using Blob = Handle<tenon_blob, &tenon_functions::blob_free>;

} // namespace detail

/* ---------------------------------------------------------------------------------------------------- tensors */

enum class Type : std::int32_t {
    f32 = TENON_F32, f64 = TENON_F64, f16 = TENON_F16, bf16 = TENON_BF16,
    f8e3m4 = TENON_F8E3M4, f8e4m3 = TENON_F8E4M3, f8e4m3fn = TENON_F8E4M3FN, f8e4m3fnuz = TENON_F8E4M3FNUZ,
    f8e5m2 = TENON_F8E5M2, f8e5m2fnuz = TENON_F8E5M2FNUZ, f8e8m0fnu = TENON_F8E8M0FNU,
    f4e2m1fn = TENON_F4E2M1FN, i2 = TENON_I2, u2 = TENON_U2, i4 = TENON_I4, u4 = TENON_U4,
    i8 = TENON_I8, i16 = TENON_I16, i32 = TENON_I32, i64 = TENON_I64,
    u8 = TENON_U8, u16 = TENON_U16, u32 = TENON_U32, u64 = TENON_U64,
    boolean = TENON_BOOL, c64 = TENON_C64, c128 = TENON_C128, string = TENON_STRING
};

/* The bits of an element; 0 for strings. */
inline std::size_t bits(Type type) {
    switch (type) {
    case Type::i2: case Type::u2: return 2;
    case Type::i4: case Type::u4: case Type::f4e2m1fn: return 4;
    case Type::f8e3m4: case Type::f8e4m3: case Type::f8e4m3fn: case Type::f8e4m3fnuz: case Type::f8e5m2:
    case Type::f8e5m2fnuz: case Type::f8e8m0fnu: case Type::i8: case Type::u8: case Type::boolean: return 8;
    case Type::f16: case Type::bf16: case Type::i16: case Type::u16: return 16;
    case Type::f32: case Type::i32: case Type::u32: return 32;
    case Type::f64: case Type::i64: case Type::u64: case Type::c64: return 64;
    case Type::c128: return 128;
    case Type::string: return 0;
    }
    return 0;
}

/* The element type of a C++ type. */
template <typename Element> constexpr Type type_of();
template <> constexpr Type type_of<float>() { return Type::f32; }
template <> constexpr Type type_of<double>() { return Type::f64; }
template <> constexpr Type type_of<std::int8_t>() { return Type::i8; }
template <> constexpr Type type_of<std::int16_t>() { return Type::i16; }
template <> constexpr Type type_of<std::int32_t>() { return Type::i32; }
template <> constexpr Type type_of<std::int64_t>() { return Type::i64; }
template <> constexpr Type type_of<std::uint8_t>() { return Type::u8; }
template <> constexpr Type type_of<std::uint16_t>() { return Type::u16; }
template <> constexpr Type type_of<std::uint32_t>() { return Type::u32; }
template <> constexpr Type type_of<std::uint64_t>() { return Type::u64; }
template <> constexpr Type type_of<bool>() { return Type::boolean; }

/* A tensor in memory that belongs to others: contiguous, in row-major order. */
class View {
public:
    View() = default;
    explicit View(const tenon_array &array) : array_(array) {}

    std::string_view name() const { return array_.name == nullptr ? "" : array_.name; }
    Type type() const noexcept { return static_cast<Type>(array_.type); }
    std::vector<std::int64_t> shape() const { return {array_.extents, array_.extents + array_.rank}; }
    std::size_t bytes() const noexcept { return array_.bytes; }
    void *data() const noexcept { return array_.data; }
    const tenon_array &raw() const noexcept { return array_; }

    /* The elements. Types without one in C++ (f16, bf16, ...) are read as integers of their size. */
    template <typename Element> Element *data() const {
        const bool plain = type_of<Element>() == type();
        if (!plain && (std::is_floating_point_v<Element> || bits(type()) != 8 * sizeof(Element))) {
            throw Error(TENON_INVALID_ARGUMENT, "the tensor has elements of another type");
        }
        return static_cast<Element *>(array_.data);
    }
    template <typename Element> std::size_t size() const { return array_.bytes / sizeof(Element); }

private:
    tenon_array array_ = {};
};

/* A tensor with its own memory, aligned to 64 bytes, at first zero. */
class Tensor {
public:
    Tensor(Type type, std::vector<std::int64_t> shape) : type_(type), shape_(std::move(shape)) {
        std::uint64_t elements = 1;
        for (const std::int64_t extent : shape_) {
            const auto factor = static_cast<std::uint64_t>(extent);
            if (extent < 0 || (factor != 0 && elements > std::numeric_limits<std::uint64_t>::max() / 128 / factor)) {
                throw Error(TENON_INVALID_ARGUMENT, "a shape has a negative extent or is too large");
            }
            elements *= factor;
        }
        bytes_ = static_cast<std::size_t>((elements * bits(type) + 7) / 8);
        data_.reset(static_cast<std::byte *>(::operator new(bytes_, alignment)));
        std::memset(data_.get(), 0, bytes_);
    }
    /* A copy of elements: Tensor::of<float>({2, 2}, {1, 2, 3, 4}). */
    template <typename Element>
    static Tensor of(std::vector<std::int64_t> shape, std::initializer_list<Element> elements) {
        Tensor tensor(type_of<Element>(), std::move(shape));
        if (elements.size() * sizeof(Element) != tensor.bytes_) {
            throw Error(TENON_INVALID_ARGUMENT, "the elements are not as many as the shape has");
        }
        std::memcpy(tensor.data_.get(), elements.begin(), tensor.bytes_);
        return tensor;
    }

    View view() const noexcept {
        return View({nullptr, static_cast<std::int32_t>(type_), static_cast<std::uint32_t>(shape_.size()),
                     shape_.data(), data_.get(), bytes_});
    }
    Type type() const noexcept { return type_; }
    const std::vector<std::int64_t> &shape() const noexcept { return shape_; }
    std::size_t bytes() const noexcept { return bytes_; }
    void *data() noexcept { return data_.get(); }
    template <typename Element> Element *data() { return view().data<Element>(); }
    template <typename Element> std::size_t size() const { return bytes_ / sizeof(Element); }

private:
    static constexpr std::align_val_t alignment{64};
    struct Free {
        void operator()(std::byte *start) const { ::operator delete(start, alignment); }
    };
    Type type_;
    std::vector<std::int64_t> shape_;
    std::size_t bytes_ = 0;
    std::unique_ptr<std::byte, Free> data_;
};

/* A tensor under a name, for calls: {"image", tensor} or {"image", view}. */
struct Named {
    Named(std::string name, const Tensor &tensor) : name(std::move(name)), view(tensor.view()) {}
    Named(std::string name, View view) : name(std::move(name)), view(view) {}

    tenon_array raw() const noexcept {
        tenon_array array = view.raw();
        array.name = name.c_str();
        return array;
    }

    std::string name;
    View view;
};

using Inputs = std::vector<Named>;

/* An input or output of a model. */
struct Port {
    std::string name;
    bool is_tensor = true;
    Type type = Type::f32;
    std::vector<std::int64_t> shape;   /* -1: known when the model runs */
    std::vector<std::string> symbols;  /* for each dimension its name or expression, or empty */
    std::uint64_t bytes = 0;           /* 0 if the size is not fixed */
};

/* A state of a session. */
struct State {
    std::string output, input;
};

/* ---------------------------------------------------------------------------------------------------- task */

/* Progress of one step; `total` is 0 when it is unknown. */
struct Progress {
    std::string_view step;
    std::uint64_t done, total;
};

/* Progress, cancellation and deadline of calls. */
class Task {
public:
    /* `progress` may be called from several threads at the same time, and must not throw. The task lives until the
     * work that uses it has ended. */
    explicit Task(double timeout_seconds = 0, std::function<void(Progress)> progress = {})
        : progress_(std::make_unique<std::function<void(Progress)>>(std::move(progress))) {
        auto options = TENON_INIT(tenon_task_options);
        options.timeout_seconds = timeout_seconds;
        if (*progress_) {
            options.progress = [](void *context, const char *step, std::uint64_t done, std::uint64_t total) {
                (*static_cast<std::function<void(Progress)> *>(context))({step, done, total});
            };
            options.context = progress_.get();
        }
        check(functions().task_create(&options, handle_.out()));
    }

    void cancel() const { check(functions().task_cancel(handle_.get())); }
    tenon_task raw() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<std::function<void(Progress)>> progress_;
    detail::Handle<tenon_task, &tenon_functions::task_free> handle_;
};

namespace detail {
inline tenon_task raw(const Task *task) { return task == nullptr ? nullptr : task->raw(); }

inline std::vector<tenon_array> raw(const Inputs &inputs) {
    std::vector<tenon_array> arrays;
    arrays.reserve(inputs.size());
    for (const Named &input : inputs) {
        arrays.push_back(input.raw());
    }
    return arrays;
}

inline std::vector<const char *> raw(const std::vector<std::string> &texts) {
    std::vector<const char *> pointers;
    pointers.reserve(texts.size());
    for (const std::string &text : texts) {
        pointers.push_back(text.c_str());
    }
    return pointers;
}
} // namespace detail

/* ------------------------------------------------------------------------------------------------- executions */

/* The outputs of an execution. */
class Outputs {
public:
    std::size_t size() const {
        std::size_t count = 0;
        check(functions().outputs_count(handle_.get(), &count));
        return count;
    }
    /* The memory belongs to the outputs, and is not to be written. */
    View operator[](std::size_t index) const {
        tenon_array array = {};
        check(functions().outputs_get(handle_.get(), index, &array));
        return View(array);
    }
    View operator[](const std::string &name) const {
        std::size_t index = 0;
        check(functions().outputs_find(handle_.get(), name.c_str(), &index));
        return (*this)[index];
    }
    View operator[](const char *name) const { return (*this)[std::string(name)]; }
    View operator[](int index) const { return (*this)[static_cast<std::size_t>(index)]; }

    tenon_outputs *out() noexcept { return handle_.out(); }

private:
    detail::Handle<tenon_outputs, &tenon_functions::outputs_free> handle_;
};

/* Memory for inputs and outputs that executions use in place. */
class Bindings {
public:
    /* To be written between executions. */
    View input(std::size_t index) const { return view(functions().bindings_input, index); }
    /* To be read after an execution. */
    View output(std::size_t index) const { return view(functions().bindings_output, index); }
    void run(const Task *task = nullptr) const {
        check(functions().bindings_run(handle_.get(), detail::raw(task)));
    }

    tenon_bindings *out() noexcept { return handle_.out(); }

private:
    View view(tenon_status (*get)(tenon_bindings, std::size_t, tenon_array *), std::size_t index) const {
        tenon_array array = {};
        check(get(handle_.get(), index, &array));
        return View(array);
    }

    detail::Handle<tenon_bindings, &tenon_functions::bindings_free> handle_;
};

/* A model whose states are kept between executions. */
class Session {
public:
    Outputs run(const Inputs &inputs, const Task *task = nullptr) const {
        const auto arrays = detail::raw(inputs);
        return detail::made<Outputs>([&](tenon_outputs *outputs) {
            return functions().session_run(handle_.get(), arrays.data(), arrays.size(), detail::raw(task), outputs);
        });
    }
    std::vector<State> states() const {
        std::size_t count = 0;
        check(functions().session_state_count(handle_.get(), &count));
        std::vector<State> states;
        for (std::size_t at = 0; at < count; ++at) {
            tenon_state state = {};
            check(functions().session_state(handle_.get(), at, &state));
            states.push_back({state.output, state.input});
        }
        return states;
    }
    /* The value of a state: one tensor, or none before the first execution. */
    Outputs value(const std::string &state) const {
        return detail::made<Outputs>(
            [&](tenon_outputs *value) { return functions().session_value(handle_.get(), state.c_str(), value); });
    }
    void set_value(const std::string &state, View value) const {
        check(functions().session_set_value(handle_.get(), state.c_str(), &value.raw()));
    }
    /* The steps in states that grow; none if no state grows. */
    std::optional<std::uint64_t> steps() const {
        std::int64_t steps = 0;
        check(functions().session_steps(handle_.get(), &steps));
        return steps < 0 ? std::nullopt : std::optional<std::uint64_t>(static_cast<std::uint64_t>(steps));
    }
    void truncate(std::uint64_t steps) const { check(functions().session_truncate(handle_.get(), steps)); }
    void reset() const { check(functions().session_reset(handle_.get())); }
    Session fork() const {
        return detail::made<Session>(
            [&](tenon_session *fork) { return functions().session_fork(handle_.get(), fork); });
    }

    tenon_session *out() noexcept { return handle_.out(); }

private:
    detail::Handle<tenon_session, &tenon_functions::session_free> handle_;
};

/* An asynchronous execution; one that has not ended is cancelled with its object. */
class Run {
public:
    /* Waits at most this time in seconds (negative: no limit). Returns whether the execution has ended. */
    bool wait(double seconds = -1) const {
        std::int32_t ended = 0;
        check(functions().run_wait(handle_.get(), seconds, &ended));
        return ended != 0;
    }
    /* Waits, and returns the outputs or throws the failure; once. */
    Outputs outputs() const {
        return detail::made<Outputs>(
            [&](tenon_outputs *outputs) { return functions().run_outputs(handle_.get(), outputs); });
    }
    void cancel() const { check(functions().run_cancel(handle_.get())); }
    /* Becomes readable at the end; of the run, not to be closed. */
    int descriptor() const {
        int descriptor = -1;
        check(functions().run_descriptor(handle_.get(), &descriptor));
        return descriptor;
    }

    tenon_run *out() noexcept { return handle_.out(); }

private:
    detail::Handle<tenon_run, &tenon_functions::run_free> handle_;
};

/* ----------------------------------------------------------------------------------------------------- models */

struct LoadOptions {
    const Task *task = nullptr;
    std::uint32_t threads = 0;       /* of one execution at most; 0: one for each CPU */
    std::uint32_t max_in_flight = 0; /* concurrent executions; 0: one for each CPU */
    bool nan_check = false, check_digests = false, native_nodes = false;
    std::string backend_folder;      /* empty: those of TENON_BACKEND_PATH */
    std::vector<std::string> backend_options;
};

namespace detail {
/* Calls a function with the options in C. */
template <typename Function> tenon_status with_options(const LoadOptions &given, Function function) {
    auto options = TENON_INIT(tenon_load_options);
    const auto assignments = raw(given.backend_options);
    options.task = raw(given.task);
    options.threads = given.threads;
    options.max_in_flight = given.max_in_flight;
    options.nan_check = given.nan_check;
    options.check_digests = given.check_digests;
    options.native_nodes = given.native_nodes;
    options.backend_folder = given.backend_folder.empty() ? nullptr : given.backend_folder.c_str();
    options.backend_options = assignments.data();
    options.backend_option_count = assignments.size();
    return function(&options);
}
} // namespace detail

/* A loaded package; threads may run it at the same time. */
class Model {
public:
    std::string name() const {
        const char *name = nullptr;
        check(functions().model_name(handle_.get(), &name));
        return name;
    }
    std::vector<Port> inputs() const { return ports(functions().model_input_count, functions().model_input); }
    std::vector<Port> outputs() const { return ports(functions().model_output_count, functions().model_output); }
    /* JSON: an object of texts. */
    std::string metadata() const { return text(functions().model_metadata); }
    /* JSON: the backend of each node. */
    std::string placement() const { return text(functions().model_placement); }

    Outputs run(const Inputs &inputs, const Task *task = nullptr) const {
        const auto arrays = detail::raw(inputs);
        return detail::made<Outputs>([&](tenon_outputs *outputs) {
            return functions().model_run(handle_.get(), arrays.data(), arrays.size(), detail::raw(task), outputs);
        });
    }
    /* Executes on the memory of the views itself, in the order of the ports. */
    void execute(const std::vector<View> &inputs, const std::vector<View> &outputs,
                 const Task *task = nullptr) const {
        const auto raw = [](const std::vector<View> &views) {
            std::vector<tenon_array> arrays;
            for (const View &view : views) {
                arrays.push_back(view.raw());
            }
            return arrays;
        };
        const auto from = raw(inputs);
        auto to = raw(outputs);
        check(functions().model_execute(handle_.get(), from.data(), from.size(), to.data(), to.size(),
                                        detail::raw(task)));
    }
    /* JSON: mean times of the kernels. */
    std::string profile(const Inputs &inputs, std::size_t runs = 10, bool measure_peaks = false,
                        const Task *task = nullptr) const {
        const auto arrays = detail::raw(inputs);
        detail::Blob json;
        check(functions().model_profile(handle_.get(), arrays.data(), arrays.size(), runs, measure_peaks,
                                        detail::raw(task), json.out()));
        return detail::blob_text(std::move(json));
    }
    /* With the sizes of all symbolic dimensions. */
    Bindings bind(const std::vector<std::pair<std::string, std::uint64_t>> &sizes = {}) const {
        std::vector<tenon_extent> extents;
        for (const auto &[symbol, extent] : sizes) {
            extents.push_back({symbol.c_str(), extent});
        }
        return detail::made<Bindings>([&](tenon_bindings *bindings) {
            return functions().model_bind(handle_.get(), extents.data(), extents.size(), bindings);
        });
    }
    /* Without states: those of the package, or those found by name. */
    Session session(const std::vector<State> &states = {}) const {
        std::vector<tenon_state> pairs;
        for (const State &state : states) {
            pairs.push_back({state.output.c_str(), state.input.c_str()});
        }
        return detail::made<Session>([&](tenon_session *session) {
            return functions().model_session(handle_.get(), pairs.data(), pairs.size(), session);
        });
    }
    Run submit(const Inputs &inputs, tenon_priority priority = TENON_PRIORITY_NORMAL,
               const Task *task = nullptr) const {
        const auto arrays = detail::raw(inputs);
        auto options = TENON_INIT(tenon_submit_options);
        options.task = detail::raw(task);
        options.priority = priority;
        return detail::made<Run>([&](tenon_run *run) {
            return functions().model_submit(handle_.get(), arrays.data(), arrays.size(), &options, run);
        });
    }

    tenon_model raw() const noexcept { return handle_.get(); }
    tenon_model *out() noexcept { return handle_.out(); }

private:
    std::vector<Port> ports(tenon_status (*count)(tenon_model, std::size_t *),
                            tenon_status (*get)(tenon_model, std::size_t, tenon_port *)) const {
        std::size_t number = 0;
        check(count(handle_.get(), &number));
        std::vector<Port> ports(number);
        for (std::size_t at = 0; at < number; ++at) {
            auto port = TENON_INIT(tenon_port);
            check(get(handle_.get(), at, &port));
            ports[at].name = port.name;
            ports[at].is_tensor = port.kind == TENON_TENSOR;
            ports[at].type = static_cast<Type>(port.type);
            ports[at].shape.assign(port.extents, port.extents + port.rank);
            for (std::uint32_t axis = 0; axis < port.rank; ++axis) {
                ports[at].symbols.emplace_back(port.symbols[axis] == nullptr ? "" : port.symbols[axis]);
            }
            ports[at].bytes = port.bytes;
        }
        return ports;
    }
    std::string text(tenon_status (*get)(tenon_model, tenon_blob *)) const {
        detail::Blob json;
        check(get(handle_.get(), json.out()));
        return detail::blob_text(std::move(json));
    }

    detail::Handle<tenon_model, &tenon_functions::model_free> handle_;
};

/* Loads the package of a file. */
inline Model load(const std::string &path, const LoadOptions &options = {}) {
    return detail::made<Model>([&](tenon_model *model) {
        return detail::with_options(options, [&](const tenon_load_options *options) {
            return functions().model_load_file(path.c_str(), options, model);
        });
    });
}

/* Loads the bytes of a package. */
inline Model load(const void *package, std::size_t length, const LoadOptions &options = {}) {
    return detail::made<Model>([&](tenon_model *model) {
        return detail::with_options(options, [&](const tenon_load_options *options) {
            return functions().model_load_bytes(package, length, options, model);
        });
    });
}

/* -------------------------------------------------------------------------------------------------- compiling */

/* The sizes of a symbolic dimension: one size, a range, or buckets. */
struct Dimension {
    Dimension(std::string name, std::uint64_t size) : name(std::move(name)), min(size), max(size) {}
    Dimension(std::string name, std::uint64_t min, std::uint64_t max) : name(std::move(name)), min(min), max(max) {}
    Dimension(std::string name, std::vector<std::uint64_t> buckets)
        : name(std::move(name)), buckets(std::move(buckets)) {}

    std::string name;
    std::uint64_t min = 0, max = 0;
    std::vector<std::uint64_t> buckets;
};

struct CompileOptions {
    const Task *task = nullptr;
    std::vector<Dimension> dimensions;
    std::vector<std::pair<std::string, std::string>> paddings; /* input and value */
    Inputs constants, known_inputs;
    std::vector<std::string> backends;                         /* none: the default ones */
    std::vector<std::pair<std::string, std::string>> hints;    /* pattern of node names, and backend */
    std::vector<std::string> linked_folders;
    std::string cpu_level;                                     /* "native", or empty for any machine */
    bool fixed_sizes = false;
    tenon_states states = TENON_STATES_NONE;
    std::vector<State> state_pairs;
    std::string backend_folder;
    std::vector<std::string> backend_options;
    std::vector<std::string> precisions;                       /* "bf16", or "PATTERN=bf16" */
    std::string signature;                                     /* of a LiteRT model; empty: its first one */
    std::vector<std::string> weights;                          /* files of weights: .safetensors, .npz, .json */
};

/* A compiled model in memory. */
class Package {
public:
    /* Replaces the file as a whole or not at all. */
    void write(const std::string &path, const Task *task = nullptr) const {
        check(functions().package_write(handle_.get(), path.c_str(), detail::raw(task)));
    }
    std::string bytes(const Task *task = nullptr) const {
        detail::Blob bytes;
        check(functions().package_bytes(handle_.get(), detail::raw(task), bytes.out()));
        return detail::blob_text(std::move(bytes));
    }
    /* JSON: the backend of each node. */
    std::string placement() const {
        detail::Blob json;
        check(functions().package_placement(handle_.get(), json.out()));
        return detail::blob_text(std::move(json));
    }
    Model load(const LoadOptions &options = {}) const {
        return detail::made<Model>([&](tenon_model *model) {
            return detail::with_options(options, [&](const tenon_load_options *options) {
                return functions().package_load(handle_.get(), options, model);
            });
        });
    }

    tenon_package *out() noexcept { return handle_.out(); }

private:
    detail::Handle<tenon_package, &tenon_functions::package_free> handle_;
};

namespace detail {
template <typename Function> tenon_status with_options(const CompileOptions &given, Function function) {
    auto options = TENON_INIT(tenon_compile_options);
    options.task = raw(given.task);
    std::vector<tenon_dimension> dimensions;
    for (const Dimension &dimension : given.dimensions) {
        dimensions.push_back({sizeof(tenon_dimension), dimension.name.c_str(), dimension.min, dimension.max,
                              dimension.buckets.data(), dimension.buckets.size()});
    }
    std::vector<tenon_padding> paddings;
    for (const auto &[input, value] : given.paddings) {
        paddings.push_back({input.c_str(), value.c_str()});
    }
    std::vector<tenon_hint> hints;
    for (const auto &[pattern, backend] : given.hints) {
        hints.push_back({pattern.c_str(), backend.c_str()});
    }
    std::vector<tenon_state> states;
    for (const State &state : given.state_pairs) {
        states.push_back({state.output.c_str(), state.input.c_str()});
    }
    const auto constants = raw(given.constants), known_inputs = raw(given.known_inputs);
    const auto backends = raw(given.backends), folders = raw(given.linked_folders);
    const auto assignments = raw(given.backend_options), precisions = raw(given.precisions);
    const auto weights = raw(given.weights);
    const auto set = [](auto &start, std::size_t &count, const auto &values) {
        start = values.data();
        count = values.size();
    };
    set(options.dimensions, options.dimension_count, dimensions);
    set(options.paddings, options.padding_count, paddings);
    set(options.constants, options.constant_count, constants);
    set(options.known_inputs, options.known_input_count, known_inputs);
    set(options.backends, options.backend_count, backends);
    set(options.hints, options.hint_count, hints);
    set(options.linked_folders, options.linked_folder_count, folders);
    set(options.state_pairs, options.state_pair_count, states);
    set(options.backend_options, options.backend_option_count, assignments);
    set(options.precisions, options.precision_count, precisions);
    set(options.weights, options.weight_count, weights);
    options.cpu_level = given.cpu_level.empty() ? nullptr : given.cpu_level.c_str();
    options.signature = given.signature.empty() ? nullptr : given.signature.c_str();
    options.fixed_sizes = given.fixed_sizes;
    options.states = given.states;
    options.backend_folder = given.backend_folder.empty() ? nullptr : given.backend_folder.c_str();
    return function(&options);
}
} // namespace detail

/* Compiles an ONNX file. */
inline Package compile(const std::string &onnx, const CompileOptions &options = {}) {
    return detail::made<Package>([&](tenon_package *package) {
        return detail::with_options(options, [&](const tenon_compile_options *options) {
            return functions().compile_file(onnx.c_str(), options, package);
        });
    });
}

/* Compiles the bytes of an ONNX model. */
inline Package compile(const void *onnx, std::size_t length, const CompileOptions &options = {}) {
    return detail::made<Package>([&](tenon_package *package) {
        return detail::with_options(options, [&](const tenon_compile_options *options) {
            return functions().compile_bytes(onnx, length, options, package);
        });
    });
}

/* How the ranges of activations follow from calibration data. */
enum class Calibration : std::int32_t {
    min_max = TENON_CALIBRATION_MINMAX,
    percentile = TENON_CALIBRATION_PERCENTILE,
    entropy = TENON_CALIBRATION_ENTROPY
};

struct QuantizeOptions {
    CompileOptions compiling;
    int bits = 8; /* 8: weights and activations; 4: weights of matrix products; 16: f16 */
    Calibration calibration = Calibration::min_max;
    double percentile = 99.99;
    double max_node_error = 0.1;
    std::uint64_t block_size = 32;
    std::vector<std::string> excluded;
    std::vector<std::int64_t> labels;
};

/* A quantised ONNX model and its report. */
struct QuantizedModel {
    std::string onnx;   /* the bytes of the file */
    std::string report; /* JSON */
};

/* Quantises an ONNX file for calibration data; 4 and 16 bits need none. */
inline QuantizedModel quantize(const std::string &onnx, const Inputs &samples = {},
                               const QuantizeOptions &given = {}) {
    detail::Blob model, report;
    check(detail::with_options(given.compiling, [&](const tenon_compile_options *compiling) {
        auto options = TENON_INIT(tenon_quantize_options);
        const auto arrays = detail::raw(samples);
        const auto excluded = detail::raw(given.excluded);
        options.compiling = compiling;
        options.samples = arrays.data();
        options.sample_count = arrays.size();
        options.bits = given.bits;
        options.calibration = static_cast<std::int32_t>(given.calibration);
        options.percentile = given.percentile;
        options.max_node_error = given.max_node_error;
        options.block_size = given.block_size;
        options.excluded = excluded.data();
        options.excluded_count = excluded.size();
        options.labels = given.labels.data();
        options.label_count = given.labels.size();
        return functions().quantize_file(onnx.c_str(), &options, model.out(), report.out());
    }));
    return {detail::blob_text(std::move(model)), detail::blob_text(std::move(report))};
}

} // namespace tenon

#endif /* TENON_TENON_HPP */
