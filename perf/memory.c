/* Resident memory after the first inference, in mode dense (weights plain, reordered at each call)
 * and in mode mkldnn (packed once; the plain ones are given up), each in a process of its own.
 *
 * usage: memory [NETWORK]...    (resnet50 and vgg16 if none is given) */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tessera.h>
#include <unistd.h>

#include "tensor/try_impl.h"

/* Of this process, MB. */
static double resident_mb(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static status_t run(context_t *ctx, const char *name, bool is_mkldnn, double *out_mb)
{
    module_t *net = NULL;
    tensor_t *image = NULL, *scores = NULL;
    int64_t size = 0;
    TRY(zoo_create(ctx, name, NULL, &net, &size));
    TRY(tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, size, size), &image));
    if (is_mkldnn)
        TRY(module_mkldnn(ctx, net, NULL));
    else
        TRY(dispatch_set_policy(ctx, POLICY_PER_OP));
    TRY(module_forward(ctx, net, image, &scores));
    *out_mb = resident_mb();
    tensor_release(scores);
    tensor_release(image);
    module_release(net);
    return STATUS_OK;
}

/* In a child, which writes the number into the pipe. */
static double measure(const char *name, bool is_mkldnn)
{
    int ends[2];
    double mb = -1;
    if (pipe(ends) != 0) return mb;
    pid_t child = fork();
    if (child == 0) {
        context_t *ctx = NULL;
        status_t status = context_create(NULL, &ctx);
        if (status == STATUS_OK) status = run(ctx, name, is_mkldnn, &mb);
        if (status != STATUS_OK) fprintf(stderr, "memory: %s\n", context_error(ctx));
        bool is_written = write(ends[1], &mb, sizeof mb) == sizeof mb;
        _exit(is_written && status == STATUS_OK ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &mb, sizeof mb) != sizeof mb) mb = -1;
    close(ends[0]);
    int code = 1;
    if (child < 0 || waitpid(child, &code, 0) != child || code != 0) mb = -1;
    return mb;
}

int main(int argc, char **argv)
{
    static const char *const networks[] = {"resnet50", "vgg16"};
    int n = argc > 1 ? argc - 1 : 2;
    printf("%-16s %10s %10s %7s\n", "resident, MB", "dense", "mkldnn", "ratio");
    for (int i = 0; i < n; i++) {
        const char *name = argc > 1 ? argv[i + 1] : networks[i];
        double dense = measure(name, false), mkldnn = measure(name, true);
        if (dense < 0 || mkldnn < 0) return 1;
        printf("%-16s %10.1f %10.1f %7.2f\n", name, dense, mkldnn, mkldnn / dense);
    }
    return 0;
}
