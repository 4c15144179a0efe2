/* freeze_tune: what may be asked, and of which method. */
#include <math.h>

#include "freeze/freeze_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/context_impl.h"

status_t freeze_tune(context_t *ctx, module_t *frozen, int n_in, const tensor_t *const *inputs,
                     double seconds, freeze_tuned_t *out_tuned)
{
    plan_tuned_t tuned = {0};
    if (frozen == NULL) return context_null(ctx, "freeze_tune", "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_tune: %s is not frozen, freeze it first",
            module_type(frozen));
    REQUIRE(ctx, isfinite(seconds) && seconds > 0.0 && seconds <= 1e6,
            "freeze_tune: %g seconds, more than 0 and at most 1e6 are needed", seconds);
    REQUIRE(ctx, n_in >= 0, "freeze_tune: %d inputs, at least 0 are needed", n_in);
    if (n_in > 0 && inputs == NULL) return context_null(ctx, "freeze_tune", "inputs");
    for (int i = 0; i < n_in; i++)
        if (inputs[i] == NULL) return context_null(ctx, "freeze_tune", "an input");
    TRY(plan_tune(ctx, frozen, "forward", n_in, inputs, seconds, &tuned));
    if (out_tuned != NULL)
        *out_tuned = (freeze_tuned_t){tuned.n_measured, tuned.ratio, tuned.is_kept};
    return STATUS_OK;
}
