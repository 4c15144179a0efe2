// Calls without the GIL, and Ctrl-C during such a call.
#include "native.h"

#include <atomic>
#include <csignal>

namespace
{

// Context of the call in the main thread. The SIGINT handler cancels it, then calls the previous
// handler.
std::atomic<context_t *> interruptible{nullptr};
struct sigaction chained;

void on_interrupt(int number)
{
    context_cancel(interruptible.load());
    if (chained.sa_handler != SIG_DFL && chained.sa_handler != SIG_IGN) chained.sa_handler(number);
}

// Ctrl-C raises KeyboardInterrupt only in the main thread and with Python's default handler. Any
// other handler runs after the call has ended.
bool raises_here()
{
    static const nb::object *const parts = [] {
        nb::module_ signals = nb::module_::import_("signal");
        nb::module_ threads = nb::module_::import_("threading");
        return new nb::object[3]{signals.attr("getsignal"), signals.attr("default_int_handler"),
                                 threads.attr("main_thread")};
    }();
    if (nb::cast<unsigned long>(parts[2]().attr("ident")) != PyThread_get_thread_ident())
        return false;
    return parts[0](SIGINT).is(parts[1]);
}

} // namespace

Unlocked::Unlocked(context_t *ctx, Running *running) : ctx_(ctx), running_(running)
{
    if (interruptible.load() == nullptr && raises_here()) {
        struct sigaction action = {};
        action.sa_handler = on_interrupt;
        action.sa_flags = SA_RESTART;
        sigemptyset(&action.sa_mask);
        is_interruptible_ = sigaction(SIGINT, nullptr, &chained) == 0 &&
                            (chained.sa_flags & SA_SIGINFO) == 0;
        if (is_interruptible_) interruptible.store(ctx);
        if (is_interruptible_) sigaction(SIGINT, &action, nullptr);
    }
    if (running_ != nullptr) running_->add(ctx);
    state_ = PyEval_SaveThread();
}

Unlocked::~Unlocked()
{
    if (running_ != nullptr) running_->remove(ctx_);
    if (is_interruptible_) {
        struct sigaction now;
        const bool is_ours = sigaction(SIGINT, nullptr, &now) == 0 &&
                             now.sa_handler == on_interrupt;
        if (is_ours) sigaction(SIGINT, &chained, nullptr);
        interruptible.store(nullptr);
    }
    context_withdraw_cancel(ctx_); // drops a cancel that came after the last step
    PyEval_RestoreThread(state_);
}

void Running::add(context_t *ctx)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    contexts_.push_back(ctx);
}

void Running::remove(context_t *ctx)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = contexts_.begin(); at != contexts_.end(); ++at) {
        if (*at != ctx) continue;
        contexts_.erase(at);
        return;
    }
}

void Running::cancel()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (context_t *ctx : contexts_) context_cancel(ctx);
}
