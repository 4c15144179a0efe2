/* freeze_tune: checks its arguments and tunes method `forward`. */
#include <math.h>

#include "freeze/freeze_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/context_impl.h"

static status_t check(context_t *ctx, const char *caller, const module_t *frozen, int n_in,
                      const void *inputs, double seconds)
{
    if (frozen == NULL) return context_null(ctx, caller, "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "%s: %s is not frozen, freeze it first", caller,
            module_type(frozen));
    REQUIRE(ctx, isfinite(seconds) && seconds > 0.0 && seconds <= 1e6,
            "%s: %g seconds, must be more than 0 and at most 1e6", caller, seconds);
    REQUIRE(ctx, n_in >= 0, "%s: %d inputs, must be at least 0", caller, n_in);
    return n_in > 0 && inputs == NULL ? context_null(ctx, caller, "inputs") : STATUS_OK;
}

/* inputs: NULL if only their infos are known. */
static status_t tune(context_t *ctx, module_t *frozen, int n_in, const tensor_info_t *const *infos,
                     const tensor_t *const *inputs, double seconds, freeze_tuned_t *out_tuned)
{
    plan_tuned_t tuned = {0};
    TRY(plan_tune(ctx, frozen, "forward", n_in, infos, inputs, seconds, &tuned));
    if (out_tuned != NULL)
        *out_tuned = (freeze_tuned_t){tuned.n_measured, tuned.ratio, tuned.is_kept};
    return STATUS_OK;
}

status_t freeze_tune(context_t *ctx, module_t *frozen, int n_in, const tensor_t *const *inputs,
                     double seconds, freeze_tuned_t *out_tuned)
{
    const tensor_info_t *infos[METHOD_MAX_OUTPUTS];
    TRY(check(ctx, "freeze_tune", frozen, n_in, inputs, seconds));
    for (int i = 0; i < n_in; i++) {
        if (inputs[i] == NULL) return context_null(ctx, "freeze_tune", "an input");
        if (i < METHOD_MAX_OUTPUTS) infos[i] = tensor_info(inputs[i]);
    }
    return tune(ctx, frozen, n_in, infos, inputs, seconds, out_tuned);
}

status_t freeze_tune_for(context_t *ctx, module_t *frozen, int n_in,
                         const tensor_info_t *const *infos, double seconds,
                         freeze_tuned_t *out_tuned)
{
    TRY(check(ctx, "freeze_tune_for", frozen, n_in, infos, seconds));
    for (int i = 0; i < n_in; i++)
        if (infos[i] == NULL) return context_null(ctx, "freeze_tune_for", "an info");
    return tune(ctx, frozen, n_in, infos, NULL, seconds, out_tuned);
}
