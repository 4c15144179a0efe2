/* The loops of lrn_loops.c for the type NUMBER. There is no include guard, because lrn_loops.c
 * includes this file once for each type. */

void KERNEL_NAME(NUMBER_NAME(lrn_gradient))(const lrn_t *lrn, int64_t n_channels, void *x_channels,
                                            const void *grad_channels, void *scales, void *terms)
{
    const NUMBER share = (NUMBER)(lrn->alpha / (double)lrn->size), k = (NUMBER)lrn->k;
    const NUMBER beta = (NUMBER)lrn->beta, factor = 2 * share * beta;
    const NUMBER *grad = grad_channels;
    NUMBER *x = x_channels, *scale = scales, *term = terms;
    int64_t first, end;
    for (int64_t c = 0; c < n_channels; c++) {
        NUMBER sum[POSITIONS] = {0};
        const int64_t row = c * POSITIONS;
        for (lrn_window(lrn, c, n_channels, &first, &end); first < end; first++)
            for (int i = 0; i < POSITIONS; i++)
                sum[i] += x[first * POSITIONS + i] * x[first * POSITIONS + i];
        for (int i = 0; i < POSITIONS; i++) sum[i] = k + share * sum[i];
        if (lrn->beta == 0.75)
            for (int i = 0; i < POSITIONS; i++)
                scale[row + i] = 1 / (sqrt(sum[i]) * sqrt(sqrt(sum[i])));
        else
            for (int i = 0; i < POSITIONS; i++) scale[row + i] = pow(sum[i], -beta);
        for (int i = 0; i < POSITIONS; i++)
            term[row + i] = grad[row + i] * x[row + i] * scale[row + i] / sum[i];
    }
    for (int64_t c = 0; c < n_channels; c++) {
        NUMBER sum[POSITIONS] = {0};
        const int64_t row = c * POSITIONS;
        for (lrn_reached(lrn, c, n_channels, &first, &end); first < end; first++)
            for (int i = 0; i < POSITIONS; i++) sum[i] += term[first * POSITIONS + i];
        for (int i = 0; i < POSITIONS; i++)
            x[row + i] = grad[row + i] * scale[row + i] - factor * x[row + i] * sum[i];
    }
}
