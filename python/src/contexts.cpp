// One context per thread and settings; errors become Python exceptions.
#include "native.h"

namespace
{

struct Contexts {
    std::map<Settings, context_t *> by_settings;

    ~Contexts()
    {
        for (auto &entry : by_settings) context_destroy(entry.second);
    }
};

Contexts &contexts()
{
    static thread_local Contexts mine;
    return mine;
}

// Returns the name of the subclass of tessera.Error, as in tessera/errors.py.
const char *class_of(status_t status)
{
    switch (status) {
    case STATUS_INVALID_ARGUMENT: return "InvalidArgument";
    case STATUS_UNSUPPORTED: return "Unsupported";
    case STATUS_OUT_OF_MEMORY: return "OutOfMemory";
    case STATUS_IO: return "FileError";
    case STATUS_CORRUPT: return "Corrupt";
    case STATUS_CANCELLED: return "Cancelled";
    case STATUS_LIMIT: return "LimitReached";
    default: return "Error";
    }
}

} // namespace

context_t *context_of_thread(const Settings &settings)
{
    auto &by_settings = contexts().by_settings;
    auto found = by_settings.find(settings);
    if (found != by_settings.end()) return found->second;
    context_options_t options = {};
    std::tie(options.n_threads, options.limit_bytes, options.limit_seconds,
             options.limit_iterations) = settings;
    context_t *ctx = nullptr;
    const status_t status = context_create(&options, &ctx);
    if (status != STATUS_OK) raise(status, context_error(nullptr));
    return by_settings[settings] = ctx;
}

counters_t counters_of_thread()
{
    counters_t sum = {};
    auto *sums = reinterpret_cast<uint64_t *>(&sum);
    static_assert(sizeof sum % sizeof *sums == 0, "counters are 64-bit numbers only");
    for (auto &entry : contexts().by_settings) {
        counters_t counters;
        counters_read(entry.second, &counters);
        const auto *numbers = reinterpret_cast<const uint64_t *>(&counters);
        for (size_t i = 0; i < sizeof sum / sizeof *sums; i++) sums[i] += numbers[i];
    }
    return sum;
}

void reset_counters_of_thread()
{
    for (auto &entry : contexts().by_settings) counters_reset(entry.second);
}

void raise(status_t status, const std::string &message)
{
    // After Ctrl-C, Python's handler has recorded the signal; this raises KeyboardInterrupt.
    if (status == STATUS_CANCELLED && PyErr_CheckSignals() != 0) throw nb::python_error();
    nb::object type = nb::module_::import_("tessera.errors").attr(class_of(status));
    PyErr_SetString(type.ptr(), message.c_str());
    throw nb::python_error();
}

void raise(context_t *ctx, status_t status)
{
    const std::string message = context_error(ctx);
    context_clear_error(ctx);
    raise(status, message);
}
