#include "kernels/conv/fold_impl.h"

#include "tensor/threads/threads_impl.h"

#define CHUNK 256

static void scale_row_f32(int64_t n, int64_t step, const double *factors, const float *restrict src,
                          float *restrict dst)
{
    for (int64_t first = 0; first < n; first += step) {
        double value = *factors++;
        for (int64_t i = first; i < first + step; i++) dst[i] = (float)(src[i] * value);
    }
}

static void scale_row(int64_t n, int64_t step, const double *factors, dtype_t dtype,
                      const char *src, char *dst)
{
    double value[CHUNK];
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t count = n - first < CHUNK ? n - first : CHUNK;
        dtype_cast(count, dtype, src + first * size, 1, DTYPE_F64, value, 1);
        if (step == n)
            for (int64_t i = 0; i < count; i++) value[i] *= factors[0];
        else
            for (int64_t i = 0; i < count; i++) value[i] *= factors[(first + i) / step];
        dtype_cast(count, DTYPE_F64, value, 1, dtype, dst + first * size, 1);
    }
}

static void run_rows(void *user, int64_t first, int64_t last)
{
    const fold_t *fold = user;
    const int64_t row_bytes = fold->n * (int64_t)dtype_size(fold->dtype);
    for (int64_t i = first; i < last; i++) {
        const double *factors = fold->factors + i / fold->rows_of_group * fold->factors_of_group;
        const void *src = (const char *)fold->weight + i * row_bytes;
        void *dst = (char *)fold->out + i * row_bytes;
        if (fold->dtype == DTYPE_F32)
            scale_row_f32(fold->n, fold->step, factors, src, dst);
        else
            scale_row(fold->n, fold->step, factors, fold->dtype, src, dst);
    }
}

void fold_run(const fold_t *fold, int n_threads)
{
    threads_share(n_threads, fold->n_rows, run_rows, (void *)(uintptr_t)fold);
}
