/* Loops in plans: steps that run slice by slice. Either all threads share each step, or each worker
 * runs its own slices on one thread, with its own copies of intermediate buffers. */
#include "graph/program/plan_run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

static status_t run_together(plan_run_t *run, const plan_loop_t *loop)
{
    const step_t *steps = &run->plan->steps[loop->first_step];
    status_t status = STATUS_OK;
    for (run->slice = 0; status == STATUS_OK && run->slice < loop->n_slices; run->slice++)
        for (int s = 0; status == STATUS_OK && s < loop->n_steps; s++)
            status = plan_run_step(run, &steps[s]);
    run->slice = 0;
    return status;
}

/* ---- workers ---- */

/* A worker's run and status. */
typedef struct worker {
    plan_run_t run;
    const plan_loop_t *loop;
    const step_t *step; /* if steps are watched, the step that all workers run now */
    status_t status;
    void *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS];
    plan_watch_t watch;
} worker_t;

size_t plan_workers_bytes(const plan_t *plan)
{
    size_t most = 0;
    for (int l = 0; l < plan->n_loops; l++) {
        const int n = plan->loops[l].n_workers;
        if (n > 1 && (size_t)n * sizeof(worker_t) > most) most = (size_t)n * sizeof(worker_t);
    }
    return most;
}

static status_t make_workers(plan_run_t *run, const plan_loop_t *loop)
{
    worker_t *workers = run->frame->workers;
    for (int w = 0; w < loop->n_workers; w++) {
        context_t *ctx = NULL;
        TRY(context_worker(run->ctx, w, &ctx));
        failure_clear(context_last_failure(ctx));
        workers[w].run = *run;
        workers[w].run.ctx = ctx;
        workers[w].run.worker = w;
        workers[w].loop = loop;
        workers[w].status = STATUS_OK;
    }
    return STATUS_OK;
}

/* Adds the workers' counters to the context's, and reports the first failure. */
static status_t end_workers(plan_run_t *run, const plan_loop_t *loop, worker_t *workers)
{
    status_t status = STATUS_OK;
    for (int w = 0; w < loop->n_workers; w++) {
        counters_take(run->ctx, workers[w].run.ctx);
        if (status == STATUS_OK && workers[w].status != STATUS_OK)
            status = context_blame(run->ctx, workers[w].run.ctx, workers[w].status);
    }
    return status;
}

/* Worker w of n runs slices n_slices * w / n to n_slices * (w + 1) / n - 1. Other steps divide the
 * batch in the same way, so a thread finds the output of its previous step in its cache. */
static void run_slices(worker_t *worker)
{
    const plan_loop_t *loop = worker->loop;
    const step_t *steps = &worker->run.plan->steps[loop->first_step];
    const int first = loop->n_slices * worker->run.worker / loop->n_workers;
    const int last = loop->n_slices * (worker->run.worker + 1) / loop->n_workers;
    for (int i = first; worker->status == STATUS_OK && i < last; i++) {
        worker->run.slice = i;
        for (int s = 0; worker->status == STATUS_OK && s < loop->n_steps; s++) {
            plan_find_places(&worker->run, &steps[s], worker->in, worker->out);
            worker->status = plan_check_step(&worker->run, &steps[s]);
            if (worker->status != STATUS_OK) break;
            worker->status = plan_run_kernel(&worker->run, &steps[s], worker->in, worker->out);
            context_counters(worker->run.ctx)->operators++;
        }
    }
}

/* Runs workers first to last - 1. In a worker, oneDNN's primitives run on one thread, too. */
static void run_some(void *user, int64_t first, int64_t last)
{
    worker_t *workers = user;
    for (int64_t w = first; w < last; w++) {
        const threads_limit_t limit = threads_limit(workers[w].run.ctx, 1);
        run_slices(&workers[w]);
        threads_unlimit(workers[w].run.ctx, limit);
    }
}

/* ---- watched workers ---- */

static void run_step_of_some(void *user, int64_t first, int64_t last)
{
    worker_t *workers = user;
    for (int64_t w = first; w < last; w++) {
        const threads_limit_t limit = threads_limit(workers[w].run.ctx, 1);
        workers[w].status = plan_run_kernel(&workers[w].run, workers[w].step, workers[w].in,
                                            workers[w].out);
        threads_unlimit(workers[w].run.ctx, limit);
    }
}

/* Runs one step in parallel, one slice per worker, from slice `first` on. Then reports each slice
 * to observers, with an equal share of the time. */
static status_t watch_step(plan_run_t *run, const step_t *step, int first, int n, worker_t *workers)
{
    status_t status = STATUS_OK;
    int n_begun = 0;
    for (; status == STATUS_OK && n_begun < n; n_begun++) {
        worker_t *worker = &workers[n_begun];
        worker->step = step;
        worker->run.slice = first + n_begun;
        plan_find_places(&worker->run, step, worker->in, worker->out);
        status = plan_watch_begin(run, step, worker->in, worker->out, &worker->watch);
    }
    const uint64_t begin = context_now();
    if (status == STATUS_OK) threads_share(context_threads(run->ctx), n, run_step_of_some, workers);
    const uint64_t ns = (context_now() - begin) / (uint64_t)n;
    for (int w = 0; w < n_begun; w++) {
        run->slice = first + w;
        if (status == STATUS_OK && workers[w].status != STATUS_OK)
            status = context_blame(run->ctx, workers[w].run.ctx, workers[w].status);
        workers[w].status = STATUS_OK;
        status = plan_watch_end(run, step, status, begin + (uint64_t)w * ns, ns, &workers[w].watch);
    }
    run->slice = 0;
    context_counters(run->ctx)->operators += (uint64_t)n;
    return status;
}

static status_t watch_workers(plan_run_t *run, const plan_loop_t *loop, worker_t *workers)
{
    const step_t *steps = &run->plan->steps[loop->first_step];
    for (int first = 0; first < loop->n_slices; first += loop->n_workers) {
        const int left = loop->n_slices - first;
        for (int s = 0; s < loop->n_steps; s++)
            TRY(watch_step(run, &steps[s], first, left < loop->n_workers ? left : loop->n_workers,
                           workers));
    }
    return STATUS_OK;
}

status_t plan_run_loop(plan_run_t *run, const plan_loop_t *loop)
{
    worker_t *workers = run->frame->workers;
    status_t status = STATUS_OK;
    if (loop->n_workers == 1) return run_together(run, loop);
    TRY(make_workers(run, loop));
    if (run->is_watched)
        status = watch_workers(run, loop, workers);
    else
        threads_share(context_threads(run->ctx), loop->n_workers, run_some, workers);
    const status_t ended = end_workers(run, loop, workers);
    return status == STATUS_OK ? ended : status;
}
