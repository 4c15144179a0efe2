#ifdef TESSERA_HAVE_MPI

#include "train/group_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_BYTES 256
#define PATH_TEMPLATE "/tmp/tessera-rank-XXXXXX"

/* Describes a rank's lock file to the other ranks. */
typedef struct card {
    char host[HOST_BYTES];
    char path[sizeof PATH_TEMPLATE];
    dev_t device;
    ino_t number;
} card_t;

/* ---- detection of ended ranks ---- */

/* Finds a rank that has ended: its lock is free. Returns -1 if there is none. */
static int find_ended(const group_t *group)
{
    for (int i = 0; group->peers != NULL && i < group->n_ranks; i++) {
        if (group->peers[i] < 0 || flock(group->peers[i], LOCK_SH | LOCK_NB) != 0) continue;
        flock(group->peers[i], LOCK_UN);
        return i;
    }
    return -1;
}

/* After a rank has ended, pending operations get this long to complete: the rank may have sent its
 * data before. */
#define GRACE_NS UINT64_C(300000000)
#define LOOK_NS UINT64_C(20000000)
/* group_wait tests without pause for this long, then sleeps between tests. */
#define SPIN_NS UINT64_C(200000)

typedef struct wait {
    uint64_t begin_ns, ended_ns; /* ended_ns: when an ended rank was found, or 0 */
    int ended;
} wait_t;

static status_t look(context_t *ctx, const char *op, group_t *group, wait_t *wait)
{
    const uint64_t now = context_now();
    if (now - group->looked_ns >= LOOK_NS) {
        group->looked_ns = now;
        const int ended = wait->ended_ns == 0 ? find_ended(group) : -1;
        if (ended >= 0) {
            wait->ended = ended;
            wait->ended_ns = now;
        }
    }
    if (wait->ended_ns != 0 && now - wait->ended_ns >= GRACE_NS) {
        group_leave(group);
        FAIL(ctx, STATUS_IO, "%s: rank %d has ended, rank %d cannot continue without it", op,
             wait->ended, group->rank);
    }
    if (now - wait->begin_ns >= SPIN_NS) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return STATUS_OK;
}

status_t group_check(context_t *ctx, const char *op, const group_t *group)
{
    if (group->is_broken)
        FAIL(ctx, STATUS_IO, "%s: a rank has ended or left, rank %d cannot continue without it", op,
             group->rank);
    return STATUS_OK;
}

status_t group_begin(context_t *ctx, const char *op, group_t *group, int result)
{
    if (result == MPI_SUCCESS) return STATUS_OK;
    group_leave(group);
    FAIL(ctx, STATUS_IO, "%s: Open MPI fails on rank %d, error %d", op, group->rank, result);
}

status_t group_wait(context_t *ctx, const char *op, group_t *group, MPI_Request *request)
{
    wait_t wait = {.begin_ns = context_now()};
    for (;;) {
        int is_done = 0;
        TRY(group_begin(ctx, op, group, MPI_Test(request, &is_done, MPI_STATUS_IGNORE)));
        if (is_done) return STATUS_OK;
        TRY(look(ctx, op, group, &wait));
    }
}

void group_leave(group_t *group)
{
    group->is_broken = true;
    if (group->lock >= 0) close(group->lock);
    group->lock = -1;
}

/* ---- collective operations ---- */

status_t group_sum(context_t *ctx, const char *op, group_t *group, int n, double *numbers)
{
    MPI_Request request;
    TRY(group_check(ctx, op, group));
    TRY(group_begin(
        ctx, op, group,
        MPI_Iallreduce(MPI_IN_PLACE, numbers, n, MPI_DOUBLE, MPI_SUM, group->comm, &request)));
    return group_wait(ctx, op, group, &request);
}

status_t group_max(context_t *ctx, const char *op, group_t *group, int n, uint64_t *words)
{
    MPI_Request request;
    TRY(group_check(ctx, op, group));
    TRY(group_begin(
        ctx, op, group,
        MPI_Iallreduce(MPI_IN_PLACE, words, n, MPI_UINT64_T, MPI_MAX, group->comm, &request)));
    return group_wait(ctx, op, group, &request);
}

/* MPI counts bytes in int, so longer arrays are sent in pieces. */
#define PIECE ((size_t)1 << 30)

status_t group_broadcast(context_t *ctx, const char *op, group_t *group, size_t n_bytes,
                         void *bytes)
{
    TRY(group_check(ctx, op, group));
    for (size_t begin = 0; begin < n_bytes; begin += PIECE) {
        const size_t n = n_bytes - begin < PIECE ? n_bytes - begin : PIECE;
        MPI_Request request;
        TRY(group_begin(
            ctx, op, group,
            MPI_Ibcast((char *)bytes + begin, (int)n, MPI_BYTE, 0, group->comm, &request)));
        TRY(group_wait(ctx, op, group, &request));
    }
    return STATUS_OK;
}

/* ---- opening ---- */

static status_t begin_mpi(context_t *ctx, const char *op, group_t *group)
{
    int is_initialized = 0, is_finalized = 0, level = 0;
    MPI_Finalized(&is_finalized);
    REQUIRE(ctx, !is_finalized,
            "%s: MPI is finalised already, a process can initialise it only once", op);
    MPI_Initialized(&is_initialized);
    if (!is_initialized) {
        TRY(group_begin(ctx, op, group, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level)));
        group->has_begun = true;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &group->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &group->n_ranks);
    TRY(group_begin(ctx, op, group, MPI_Comm_dup(MPI_COMM_WORLD, &group->comm)));
    group->has_comm = true;
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    return STATUS_OK;
}

static status_t lock_file(context_t *ctx, const char *op, group_t *group, card_t *card)
{
    struct stat about = {0};
    memcpy(card->path, PATH_TEMPLATE, sizeof PATH_TEMPLATE);
    group->lock = mkstemp(card->path);
    if (group->lock < 0 || fcntl(group->lock, F_SETFD, FD_CLOEXEC) != 0 ||
        flock(group->lock, LOCK_EX) != 0 || fstat(group->lock, &about) != 0)
        FAIL(ctx, STATUS_IO, "%s: cannot create and lock a file in /tmp, each rank needs one", op);
    card->device = about.st_dev;
    card->number = about.st_ino;
    if (gethostname(card->host, sizeof card->host - 1) != 0) card->host[0] = '\0';
    return STATUS_OK;
}

/* Opens the file of another rank. Returns -1 if the rank is on another machine. */
static int open_peer(const card_t *own, const card_t *peer)
{
    struct stat about;
    if (strcmp(own->host, peer->host) != 0) return -1;
    const int file = open(peer->path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    if (fstat(file, &about) == 0 && about.st_dev == peer->device && about.st_ino == peer->number)
        return file;
    close(file);
    return -1;
}

static status_t meet(context_t *ctx, const char *op, group_t *group, card_t *cards)
{
    MPI_Request request;
    double done = 0.0;
    card_t *own = &cards[group->rank];
    status_t status = lock_file(ctx, op, group, own);
    if (status == STATUS_OK)
        status = group_begin(ctx, op, group,
                             MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards,
                                            (int)sizeof *cards, MPI_BYTE, group->comm, &request));
    if (status == STATUS_OK) status = group_wait(ctx, op, group, &request);
    for (int i = 0; i < group->n_ranks && status == STATUS_OK; i++)
        if (i != group->rank) group->peers[i] = open_peer(own, &cards[i]);
    if (status == STATUS_OK) status = group_sum(ctx, op, group, 1, &done);
    if (group->lock >= 0) unlink(own->path);
    return status;
}

static status_t get_peers(context_t *ctx, const char *op, group_t *group)
{
    card_t *cards = NULL;
    TRY(context_get(ctx, (size_t)group->n_ranks * sizeof(int), "ranks", &group->peers));
    for (int i = 0; i < group->n_ranks; i++) group->peers[i] = -1;
    TRY(context_get_zeroed(ctx, (size_t)group->n_ranks * sizeof *cards, "ranks", &cards));
    FINISH(meet(ctx, op, group, cards), context_put(ctx, cards));
}

status_t group_open(context_t *ctx, const char *op, group_t *out_group)
{
    *out_group = (group_t){.lock = -1};
    status_t status = begin_mpi(ctx, op, out_group);
    if (status == STATUS_OK) status = get_peers(ctx, op, out_group);
    if (status != STATUS_OK) {
        group_leave(out_group);
        group_close(ctx, out_group);
    }
    return status;
}

/* ---- closing ---- */

static void end_mpi(context_t *ctx, group_t *group)
{
    MPI_Request request;
    status_t status = STATUS_OK;
    if (group->is_broken || !group->has_comm) return;
    status = group_begin(ctx, "parallel_destroy", group, MPI_Ibarrier(group->comm, &request));
    if (status == STATUS_OK) status = group_wait(ctx, "parallel_destroy", group, &request);
    if (status != STATUS_OK) return;
    MPI_Comm_free(&group->comm);
    if (group->has_begun) MPI_Finalize();
}

void group_close(context_t *ctx, group_t *group)
{
    end_mpi(ctx, group);
    for (int i = 0; group->peers != NULL && i < group->n_ranks; i++)
        if (group->peers[i] >= 0) close(group->peers[i]);
    if (group->lock >= 0) close(group->lock);
    group->lock = -1;
    context_put(ctx, group->peers);
    group->peers = NULL;
}

#endif
