// Language models: a generator of the C API, and the loop that yields pieces of text.
#include "native.h"

#include <map>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace
{

struct Destroy {
    void operator()(generator_t *generator) const { generator_destroy(generator); }
};

// A language model: one sequence for generate, and others that step together. One thread at a time
// uses it.
class LanguageModel
{
  public:
    LanguageModel(const std::string &path, const Settings &settings, int64_t capacity,
                  int n_sequences)
        : settings_(settings)
    {
        context_t *ctx = context_of_thread(settings_);
        generator_t *made = nullptr;
        generator_options_t options = {};
        options.capacity = capacity;
        options.n_sequences = n_sequences > 1 ? n_sequences + 1 : 1;
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
        std::optional<std::string> piece;
        if (generator_length(generator_.get()) == generator_capacity(generator_.get()))
            return nb::none();
        run([&](context_t *ctx) {
            int64_t token = 0;
            const status_t status = generator_step(ctx, generator_.get(), &token);
            return status == STATUS_OK ? take_piece(ctx, generator_.get(), token, &piece) : status;
        });
        return piece ? nb::object(nb::str(piece->c_str(), piece->size())) : nb::none();
    }

    // Adds a sequence with a prompt, and returns its number.
    int join(const std::string &prompt, bool is_chat, const sampling_t &sampling)
    {
        generator_t *made = nullptr;
        run([&](context_t *ctx) {
            status_t status = generator_add(ctx, generator_.get(), &sampling, &made);
            if (status == STATUS_OK) status = generator_prompt(ctx, made, prompt.c_str(), is_chat);
            if (status != STATUS_OK) generator_destroy(made);
            return status;
        });
        members_[++last_].reset(made);
        return last_;
    }

    void leave(int number)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        members_.erase(number);
    }

    // The texts of the next tokens of all sequences, or None at the end of one, with their numbers.
    std::vector<std::pair<int, std::optional<std::string>>> step_all()
    {
        std::vector<std::pair<int, std::optional<std::string>>> pieces;
        run([&](context_t *ctx) {
            std::vector<generator_t *> running;
            for (const auto &member : members_) {
                generator_t *g = member.second.get();
                const bool is_full = generator_length(g) == generator_capacity(g);
                if (!is_full) running.push_back(g);
                pieces.push_back({member.first, is_full ? std::nullopt : std::optional("")});
            }
            std::vector<int64_t> tokens(running.size());
            status_t status = running.empty()
                                  ? STATUS_OK
                                  : generator_step_all(ctx, static_cast<int>(running.size()),
                                                       running.data(), tokens.data());
            size_t at = 0;
            for (auto &piece : pieces) {
                if (status != STATUS_OK || !piece.second) continue;
                status = take_piece(ctx, running[at], tokens[at], &piece.second);
                at++;
            }
            return status;
        });
        return pieces;
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
    // Sets the text of a token that was chosen, or none if it ends the answer.
    static status_t take_piece(context_t *ctx, generator_t *generator, int64_t token,
                               std::optional<std::string> *piece)
    {
        piece->reset();
        if (tokenizer_is_end(generator_tokenizer(generator), token)) return STATUS_OK;
        text_t text = text_begin(ctx);
        const status_t status = generator_text(ctx, generator, &text);
        if (status == STATUS_OK) *piece = text_string(&text);
        text_clear(&text);
        return status;
    }

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
    std::map<int, std::unique_ptr<generator_t, Destroy>> members_;
    int last_ = 0; // number of the newest member
};

} // namespace

void add_language_model(nb::module_ &m)
{
    nb::class_<LanguageModel>(m, "NativeLanguageModel",
                              "A language model of a GGUF file, which tessera.load returns.")
        .def(nb::init<const std::string &, const Settings &, int64_t, int>(), nb::arg("path"),
             nb::arg("settings"), nb::arg("capacity"), nb::arg("sequences"))
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
        .def(
            "join",
            [](LanguageModel &model, const std::string &prompt, bool is_chat, double temperature,
               int64_t top_k, double top_p, double min_p, double repeat_penalty, int64_t seed) {
                return model.join(prompt, is_chat,
                                  {repeat_penalty, top_k, top_p, min_p, temperature, seed});
            },
            nb::arg("prompt"), nb::arg("is_chat"), nb::arg("temperature"), nb::arg("top_k"),
            nb::arg("top_p"), nb::arg("min_p"), nb::arg("repeat_penalty"), nb::arg("seed"),
            "Adds a sequence with a prompt, and returns its number.")
        .def("leave", &LanguageModel::leave, nb::arg("number"), "Removes a sequence.")
        .def("step_all", &LanguageModel::step_all,
             "The texts of the next tokens of all sequences, None at an end, with their numbers.")
        .def("step", &LanguageModel::step, nb::sig("def step(self) -> str | None"),
             "The text of the next token, or None at the end.")
        .def("chat", &LanguageModel::chat, nb::arg("messages"),
             "The prompt of a conversation: pairs of role and content.")
        .def("cancel", &LanguageModel::cancel, "Ends the running calls in all threads.");
}
