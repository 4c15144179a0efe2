/* Training in several processes: detects mpirun, and handles the signal by which it ends
 * processes. */
#include "tools/train/train_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/support/command.h"

/* Environment variables that Open MPI's mpirun sets for its processes. */
#define SIZE_VARIABLE "OMPI_COMM_WORLD_SIZE"
#define RANK_VARIABLE "OMPI_COMM_WORLD_RANK"

static char ending[160];

static void end_at_signal(int number)
{
    (void)number;
    ssize_t written = write(STDERR_FILENO, ending, strlen(ending));
    (void)written;
    _exit(EXIT_FAILED);
}

void train_expect_end(void)
{
    const char *rank = getenv(RANK_VARIABLE);
    struct sigaction action = {.sa_handler = end_at_signal};
    if (rank == NULL) return;
    snprintf(
        ending, sizeof ending,
        "tessera train: rank %.20s is told to end (SIGTERM), as where another rank has ended\n",
        rank);
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

status_t train_join(context_t *ctx, bool bf16_gradients, parallel_t **out_parallel)
{
    const parallel_options_t options = {.bf16_gradients = bf16_gradients};
    *out_parallel = NULL;
    if (getenv(SIZE_VARIABLE) == NULL) {
        if (!bf16_gradients) return STATUS_OK;
        return context_fail(ctx, STATUS_INVALID_ARGUMENT,
                            "--bf16-gradients needs several processes, started by mpirun");
    }
    return parallel_create(ctx, &options, out_parallel);
}
