// Language models: a generator of the C API, and the loop that yields pieces of text.
#include "native.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace
{

struct Destroy {
    void operator()(generator_t *generator) const { generator_destroy(generator); }
};

// A language model with one sequence. One thread at a time uses it.
class LanguageModel
{
  public:
    LanguageModel(const std::string &path, const Settings &settings, int64_t capacity)
        : settings_(settings)
    {
        context_t *ctx = context_of_thread(settings_);
        generator_t *made = nullptr;
        generator_options_t options = {};
        options.capacity = capacity;
        status_t status;
        {
            Unlocked unlocked(ctx, &running_);
            status = generator_create(ctx, path.c_str(), &options, &made);
        }
        check(ctx, status);
        generator_.reset(made);
    }

    // Starts a new sequence with a prompt.
    void begin(const std::string &prompt, bool is_chat, const sampling_t &sampling)
    {
        run([&](context_t *ctx) {
            status_t status = generator_reset(ctx, generator_.get(), &sampling);
            if (status == STATUS_OK)
                status = generator_prompt(ctx, generator_.get(), prompt.c_str(), is_chat);
            return status;
        });
    }

    // The text of the next token, or None at the end of the answer or of the sequence.
    nb::object step()
    {
        std::string piece;
        bool is_end = generator_length(generator_.get()) == generator_capacity(generator_.get());
        if (is_end) return nb::none();
        run([&](context_t *ctx) {
            int64_t token = 0;
            text_t text = text_begin(ctx);
            status_t status = generator_step(ctx, generator_.get(), &token);
            is_end = status == STATUS_OK &&
                     tokenizer_is_end(generator_tokenizer(generator_.get()), token);
            if (status == STATUS_OK && !is_end)
                status = generator_text(ctx, generator_.get(), &text);
            if (status == STATUS_OK) piece = text_string(&text);
            text_clear(&text);
            return status;
        });
        return is_end ? nb::none() : nb::object(nb::str(piece.c_str(), piece.size()));
    }

    // The text of a conversation: pairs of role and content.
    std::string chat(const std::vector<std::pair<std::string, std::string>> &messages)
    {
        std::vector<chat_message_t> parts;
        std::string prompt;
        for (const auto &message : messages)
            parts.push_back({message.first.c_str(), message.second.c_str()});
        run([&](context_t *ctx) {
            text_t text = text_begin(ctx);
            const status_t status = chat_text(ctx, generator_tokenizer(generator_.get()),
                                              static_cast<int>(parts.size()), parts.data(), &text);
            if (status == STATUS_OK) prompt = text_string(&text);
            text_clear(&text);
            return status;
        });
        return prompt;
    }

    void cancel() { running_.cancel(); }

  private:
    template <typename Body> void run(const Body &body)
    {
        context_t *ctx = context_of_thread(settings_);
        status_t status;
        {
            Unlocked unlocked(ctx, &running_);
            std::lock_guard<std::mutex> lock(mutex_);
            status = body(ctx);
        }
        check(ctx, status);
    }

    Settings settings_;
    Running running_;
    std::mutex mutex_;
    std::unique_ptr<generator_t, Destroy> generator_;
};

} // namespace

void add_language_model(nb::module_ &m)
{
    nb::class_<LanguageModel>(m, "NativeLanguageModel",
                              "A language model of a GGUF file, which tessera.load returns.")
        .def(nb::init<const std::string &, const Settings &, int64_t>(), nb::arg("path"),
             nb::arg("settings"), nb::arg("capacity"))
        .def(
            "begin",
            [](LanguageModel &model, const std::string &prompt, bool is_chat, double temperature,
               int64_t top_k, double top_p, double min_p, double repeat_penalty, int64_t seed) {
                model.begin(prompt, is_chat,
                            {repeat_penalty, top_k, top_p, min_p, temperature, seed});
            },
            nb::arg("prompt"), nb::arg("is_chat"), nb::arg("temperature"), nb::arg("top_k"),
            nb::arg("top_p"), nb::arg("min_p"), nb::arg("repeat_penalty"), nb::arg("seed"),
            "Starts a new sequence with a prompt.")
        .def("step", &LanguageModel::step, nb::sig("def step(self) -> str | None"),
             "The text of the next token, or None at the end.")
        .def("chat", &LanguageModel::chat, nb::arg("messages"),
             "The prompt of a conversation: pairs of role and content.")
        .def("cancel", &LanguageModel::cancel, "Ends the running calls in all threads.");
}
