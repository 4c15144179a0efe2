/* Measures resident memory after the first inference in two modes, each in a separate process:
 * dense (row-major weights, reordered at each call) and mkldnn (packed once, row-major weights
 * freed).
 *
 * usage: memory [NETWORK]...    (default: resnet50 and vgg16) */
#include <stdio.h>
#include <tessera.h>

#include "support/resident.h"
#include "tensor/base/try_impl.h"

typedef struct subject {
    const char *name; /* name of the network */
    bool is_mkldnn;
} subject_t;

static status_t run(context_t *ctx, const subject_t *subject)
{
    module_t *net = NULL;
    tensor_t *image = NULL, *scores = NULL;
    int64_t size = 0;
    TRY(zoo_create(ctx, subject->name, NULL, &net, &size));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, size, size), &image));
    if (subject->is_mkldnn)
        TRY(module_mkldnn(ctx, net, NULL));
    else
        TRY(dispatch_set_policy(ctx, POLICY_PER_OP));
    return module_forward(ctx, net, image, &scores);
}

/* Frees nothing, because the process ends after the measurement. */
static bool measure(const void *subject, double *out_mb)
{
    context_t *ctx = NULL;
    status_t status = context_create(NULL, &ctx);
    if (status == STATUS_OK) status = run(ctx, subject);
    if (status != STATUS_OK) fprintf(stderr, "memory: %s\n", context_error(ctx));
    *out_mb = resident_mb();
    return status == STATUS_OK;
}

int main(int argc, char **argv)
{
    static const char *const networks[] = {"resnet50", "vgg16"};
    int n = argc > 1 ? argc - 1 : 2;
    printf("%-16s %10s %10s %7s\n", "resident, MB", "dense", "mkldnn", "ratio");
    for (int i = 0; i < n; i++) {
        const char *name = argc > 1 ? argv[i + 1] : networks[i];
        const subject_t subjects[] = {{name, false}, {name, true}};
        double dense = 0, mkldnn = 0;
        if (!resident_apart(measure, &subjects[0], 1, &dense) ||
            !resident_apart(measure, &subjects[1], 1, &mkldnn))
            return 1;
        printf("%-16s %10.1f %10.1f %7.2f\n", name, dense, mkldnn, mkldnn / dense);
    }
    return 0;
}
