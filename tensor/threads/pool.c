/* A caller publishes a loop in a slot. The loop's range of indices is divided into parts, one for
 * each member (the caller and the workers that help), and each part into chunks. Each member has a
 * cursor: a word with the number of the loop and the number of the member's chunks that were taken.
 * A thread takes a chunk with a compare-and-exchange on this word. This fails if the word has the
 * number of a later loop, so a worker that is late takes nothing. The loop ends when all chunks are
 * done. Then no thread can take a chunk of it, so the caller may free the loop's data. */
#define _DEFAULT_SOURCE

#include "tensor/threads/pool_impl.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tensor/context_impl.h"
#include "tensor/threads/processor_impl.h"
#include "tensor/threads/threads_impl.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#ifdef __SSE__
#include <xmmintrin.h>
#define MXCSR_CONTROL 0xffc0u /* all bits except the flags that operations set */
#endif

enum {
    LINE = 64,
    MAX_CALLERS = 32, /* callers at the same time; further ones run their loops alone */
    MAX_MEMBERS = 256,
    CHUNKS = 4 /* chunks of a part; fewer if the part has fewer indices */
};

/* Time that an idle worker spins before it sleeps. SPIN_NS is longer than the gap between two
 * operators of a plan, and about as long as it takes to wake a worker. SPIN_SHORT_NS is used after
 * the worker has spun MAX_IN_VAIN times in a row without finding a loop. */
#define SPIN_NS 50000u
#define SPIN_SHORT_NS 5000u
#define MAX_IN_VAIN 8

/* Time that a caller spins while workers finish their chunks: a quarter of the loop's time so far,
 * within these bounds. Then it looks each CHECK_NS whether the workers run. If one did not,
 * because another program has its processor, the caller moves it to its own processor and sleeps.
 * After MAX_SPIN_NS it sleeps in any case. */
#define WAIT_NS 20000u
#define MAX_WAIT_NS 300000u
#define CHECK_NS 100000u
#define MAX_SPIN_NS 2000000u

/* A thread counts as a caller for this time after its last loop began. */
#define BETWEEN_NS 200000u

/* The bits of a cursor, from high to low: loop number; flag, set if a thread runs as this member;
 * number of chunks; number of chunks taken. */
#define CURSOR_ONE 1u
#define CURSOR_CHUNKS_SHIFT 4
#define CURSOR_JOINED 0x100u
#define CURSOR_LOOP_SHIFT 9
#define CURSOR_COUNT 0xfu

/* A flag in n_left (the number of chunks that are not done): the caller sleeps until the number is
 * 0. */
#define LEFT_SLEEPS 0x80000000u

typedef struct cursor {
    _Alignas(LINE) atomic_uint_least64_t word;
} cursor_t;

typedef struct slot {
    _Alignas(LINE) atomic_uint_least64_t loop; /* number of the last loop; 0: none so far */
    _Atomic(pool_body_t) body;
    _Atomic(void *) user;
    atomic_int_least64_t n;
    atomic_int n_members;
    atomic_uint mode;
    atomic_int processor; /* where the caller ran when it published the loop */
    _Alignas(LINE) atomic_uint n_left;
    _Alignas(LINE) atomic_bool is_taken; /* a caller uses the slot */
    atomic_uint_least64_t time;          /* when the caller's last loop began */
    cursor_t cursors[MAX_MEMBERS];
} slot_t;

typedef struct worker {
    _Alignas(LINE) atomic_uint is_asleep;
    _Atomic(slot_t *) slot; /* the loop of which the worker may have a chunk; NULL: none */
    _Atomic(processor_thread_t) self;
    atomic_uint_least64_t time; /* CPU time when a waiting caller last looked */
    pthread_t thread;
    int node; /* see threads_node */
} worker_t;

static slot_t slots[MAX_CALLERS];
static worker_t workers[MAX_MEMBERS];
static atomic_int n_slots;      /* slots that have been used */
static atomic_int n_workers;    /* workers that were started */
static atomic_int n_wanted;     /* most workers requested so far, even if some did not start */
static atomic_int n_awake;      /* workers that are awake */
static atomic_int n_alive;      /* workers that have not ended; stop waits for them */
static atomic_int n_processors; /* 0: not known yet */
static atomic_bool is_resting, is_stopped;               /* is_resting: see pool_rest */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while workers are started */

static _Thread_local bool is_inside;
static _Thread_local int favourite; /* slot that this thread tries first */

bool pool_is_inside(void)
{
    return is_inside;
}

int pool_workers(void)
{
    return atomic_load(&n_workers);
}

/* ---- waiting ---- */

static void relax(void)
{
#ifdef __SSE__
    _mm_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#ifdef __linux__
static void sleep_on(atomic_uint *word, unsigned value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_end = PTHREAD_COND_INITIALIZER;

static void sleep_on(atomic_uint *word, unsigned value)
{
    pthread_mutex_lock(&sleep_lock);
    if (atomic_load(word) == value) pthread_cond_wait(&sleep_end, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

static void wake(atomic_uint *word)
{
    (void)word;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleep_end);
    pthread_mutex_unlock(&sleep_lock);
}
#endif

/* ---- modes ---- */

static unsigned read_mode(void)
{
#ifdef __SSE__
    return _mm_getcsr() & MXCSR_CONTROL;
#else
    return 0;
#endif
}

static void set_mode(unsigned mode)
{
#ifdef __SSE__
    const unsigned is = _mm_getcsr();
    if ((is & MXCSR_CONTROL) != mode) _mm_setcsr((is & ~MXCSR_CONTROL) | mode);
#else
    (void)mode;
#endif
}

/* ---- chunks ---- */

/* The fields of a slot as a member has read them. */
typedef struct view {
    slot_t *slot;
    uint64_t loop;
    pool_body_t body;
    void *user;
    int64_t n;
    int n_members;
} view_t;

static int64_t part_begin(int64_t n, int n_members, int member)
{
    const int64_t share = n / n_members, rest = n % n_members;
    return member * share + (member < rest ? member : rest);
}

static int count_chunks(int64_t n, int n_members, int member)
{
    const int64_t size = part_begin(n, n_members, member + 1) - part_begin(n, n_members, member);
    return size < CHUNKS ? (int)size : CHUNKS;
}

/* Takes the next chunk from the part of member `of`. Returns its number; -1 if none is left. */
static int take_chunk(const view_t *view, int of, int *out_count)
{
    atomic_uint_least64_t *cursor = &view->slot->cursors[of].word;
    uint64_t word = atomic_load_explicit(cursor, memory_order_relaxed);
    while (word >> CURSOR_LOOP_SHIFT == view->loop) {
        const unsigned taken = word & CURSOR_COUNT;
        *out_count = (int)(word >> CURSOR_CHUNKS_SHIFT & CURSOR_COUNT);
        if ((int)taken >= *out_count) break;
        if (atomic_compare_exchange_weak_explicit(cursor, &word, word + CURSOR_ONE,
                                                  memory_order_acq_rel, memory_order_relaxed))
            return (int)taken;
    }
    return -1;
}

/* Runs chunks until all are taken, beginning with those of the member's own part. Returns how many
 * it ran. */
static unsigned run_chunks(const view_t *view, int member)
{
    unsigned n_done = 0;
    int chunk = 0, count = 0;
    is_inside = true;
    for (int i = 0; i < view->n_members; i++) {
        const int of = member + i < view->n_members ? member + i : member + i - view->n_members;
        while ((chunk = take_chunk(view, of, &count)) >= 0) {
            const int64_t begin = part_begin(view->n, view->n_members, of);
            const int64_t size = part_begin(view->n, view->n_members, of + 1) - begin;
            view->body(view->user, begin + size * chunk / count, begin + size * (chunk + 1) / count,
                       member);
            n_done++;
        }
    }
    is_inside = false;
    return n_done;
}

/* ---- workers ---- */

/* Makes the worker a member of the loop. Returns the member's number; 0 if the loop has no free
 * member, or is over. */
static int join(const view_t *view, int number)
{
    for (int i = 0; i + 1 < view->n_members; i++) {
        const int member = 1 + (number + i) % (view->n_members - 1);
        atomic_uint_least64_t *cursor = &view->slot->cursors[member].word;
        uint64_t word = atomic_load_explicit(cursor, memory_order_relaxed);
        while (word >> CURSOR_LOOP_SHIFT == view->loop && (word & CURSOR_JOINED) == 0)
            if (atomic_compare_exchange_weak_explicit(cursor, &word, word | CURSOR_JOINED,
                                                      memory_order_acq_rel, memory_order_relaxed))
                return member;
        if (word >> CURSOR_LOOP_SHIFT != view->loop) return 0;
    }
    return 0;
}

/* Runs chunks of a loop. The fields that are read here may belong to a later loop than `loop`; then
 * join or take_chunk fails, so they are not used. */
static void help(slot_t *slot, uint64_t loop, int number)
{
    const view_t view = {slot,
                         loop,
                         atomic_load_explicit(&slot->body, memory_order_relaxed),
                         atomic_load_explicit(&slot->user, memory_order_relaxed),
                         atomic_load_explicit(&slot->n, memory_order_relaxed),
                         atomic_load_explicit(&slot->n_members, memory_order_relaxed)};
    const unsigned mode = atomic_load_explicit(&slot->mode, memory_order_relaxed);
    const int member = join(&view, number);
    if (member == 0) return;
    set_mode(mode);
    const unsigned n_done = run_chunks(&view, member);
    if (n_done == 0) return;
    const unsigned left = atomic_fetch_sub_explicit(&slot->n_left, n_done, memory_order_acq_rel);
    if (left == (n_done | LEFT_SLEEPS)) wake(&slot->n_left);
}

/* Counts callers, including those between two loops, which will soon need their cores again. */
static int count_callers(int n)
{
    const uint64_t now = context_now();
    int count = 0;
    for (int i = 0; i < n; i++)
        if (atomic_load_explicit(&slots[i].is_taken, memory_order_relaxed) ||
            now - atomic_load_explicit(&slots[i].time, memory_order_relaxed) < BETWEEN_NS)
            count++;
    return count;
}

/* True if callers and awake workers outnumber the processors. */
static bool is_crowded(int n)
{
    return n > 1 && count_callers(n) + atomic_load_explicit(&n_awake, memory_order_relaxed) >
                        atomic_load_explicit(&n_processors, memory_order_relaxed);
}

/* Moves the worker away from the processor on which its caller runs. */
static void leave_caller(const slot_t *slot, const worker_t *worker)
{
    const int processor = atomic_load_explicit(&slot->processor, memory_order_relaxed);
    if (processor >= 0 && processor == processor_current())
        processor_push(atomic_load_explicit(&worker->self, memory_order_relaxed), processor);
}

/* Runs chunks of loops that the worker has not seen yet. Returns false if there are none, or no
 * free processor. */
static bool help_any(uint64_t *seen, worker_t *worker)
{
    const int n = atomic_load_explicit(&n_slots, memory_order_acquire);
    bool is_useful = false;
    for (int i = 0; i < n; i++) {
        const uint64_t loop = atomic_load(&slots[i].loop);
        if (loop == seen[i]) continue;
        if (is_crowded(n)) return false;
        seen[i] = loop;
        leave_caller(&slots[i], worker);
        atomic_store_explicit(&worker->slot, &slots[i], memory_order_relaxed);
        help(&slots[i], loop, (int)(worker - workers));
        atomic_store_explicit(&worker->slot, NULL, memory_order_relaxed);
        leave_caller(&slots[i], worker);
        is_useful = true;
    }
    return is_useful;
}

/* Lets the worker sleep until a caller wakes it, unless a new loop was published meanwhile. */
static void sleep_worker(worker_t *worker, const uint64_t *seen)
{
    unsigned is_asleep = 1;
    atomic_fetch_sub(&n_awake, 1);
    atomic_store(&worker->is_asleep, 1);
    const int n = atomic_load(&n_slots);
    bool is_wanted = atomic_load(&is_stopped);
    for (int i = 0; i < n && !is_wanted; i++) is_wanted = atomic_load(&slots[i].loop) != seen[i];
    if (is_wanted && !is_crowded(n)) {
        if (atomic_compare_exchange_strong(&worker->is_asleep, &is_asleep, 0))
            atomic_fetch_add(&n_awake, 1);
        return;
    }
    while (atomic_load(&worker->is_asleep) == 1) sleep_on(&worker->is_asleep, 1);
}

static void *work(void *user)
{
    worker_t *worker = user;
    const int number = (int)(worker - workers);
    uint64_t seen[MAX_CALLERS] = {0};
    int n_in_vain = 0;
#ifdef __linux__
    char name[16];
    (void)snprintf(name, sizeof name, "tessera-%d", number),
        (void)prctl(PR_SET_NAME, name, 0, 0, 0);
#endif
    atomic_store(&worker->self, processor_thread());
    (void)threads_stay(worker->node, number);
    omp_set_num_threads(1); /* for OpenMP regions in the bodies of loops */
    while (!atomic_load_explicit(&is_stopped, memory_order_relaxed)) {
        if (help_any(seen, worker)) continue;
        const uint64_t end = context_now() + (n_in_vain < MAX_IN_VAIN ? SPIN_NS : SPIN_SHORT_NS);
        bool is_useful = false;
        while (!is_useful && !atomic_load_explicit(&is_resting, memory_order_relaxed) &&
               !is_crowded(atomic_load_explicit(&n_slots, memory_order_relaxed)) &&
               context_now() < end)
            for (int i = 0; i < 8 && !is_useful; i++) {
                relax();
                is_useful = help_any(seen, worker);
            }
        n_in_vain = is_useful ? 0 : n_in_vain + 1;
        if (!is_useful) sleep_worker(worker, seen);
    }
    atomic_fetch_sub(&n_alive, 1);
    return NULL;
}

static void wake_worker(worker_t *worker)
{
    unsigned is_asleep = 1;
    if (atomic_load_explicit(&worker->is_asleep, memory_order_relaxed) == 0) return;
    if (!atomic_compare_exchange_strong(&worker->is_asleep, &is_asleep, 0)) return;
    atomic_fetch_add(&n_awake, 1);
    wake(&worker->is_asleep);
}

/* Ends the workers when the process ends or the library is unloaded. Waits at most half a second
 * for workers that run a body. */
static void stop(void)
{
    const struct timespec moment = {0, 100000};
    const int n = atomic_load(&n_workers);
    atomic_store(&is_stopped, true);
    for (int w = 0; w < n; w++) wake_worker(&workers[w]);
    for (int i = 0; i < 5000 && atomic_load(&n_alive) > 0; i++) (void)nanosleep(&moment, NULL);
    const bool is_over = atomic_load(&n_alive) == 0;
    for (int w = 0; w < n; w++) {
        if (is_over)
            (void)pthread_join(workers[w].thread, NULL);
        else
            (void)pthread_detach(workers[w].thread);
    }
    atomic_store(&n_workers, 0);
}

/* Starts workers until there are n. Workers block all signals, because threads of the host program
 * must handle them. */
static void make_workers(int n)
{
    static bool is_registered = false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_lock(&lock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&n_wanted, n);
    if (!is_registered) is_registered = atexit(stop) == 0;
    for (int w = atomic_load(&n_workers); w < n && is_registered; w++) {
        atomic_store(&workers[w].is_asleep, 0);
        atomic_store(&workers[w].slot, NULL);
        atomic_store(&workers[w].self, (processor_thread_t){0});
        workers[w].node = w > 0 ? workers[0].node : threads_node();
        atomic_fetch_add(&n_awake, 1);
        atomic_fetch_add(&n_alive, 1);
        if (pthread_create(&workers[w].thread, NULL, work, &workers[w]) != 0) {
            atomic_fetch_sub(&n_awake, 1);
            atomic_fetch_sub(&n_alive, 1);
            break;
        }
        atomic_store(&n_workers, w + 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_unlock(&lock);
}

/* ---- callers ---- */

static slot_t *take_slot(void)
{
    for (int i = 0; i < MAX_CALLERS; i++) {
        const int at = (favourite + i) % MAX_CALLERS;
        if (atomic_load_explicit(&slots[at].is_taken, memory_order_relaxed)) continue;
        if (atomic_exchange(&slots[at].is_taken, true)) continue;
        favourite = at;
        int n = atomic_load(&n_slots);
        while (n <= at && !atomic_compare_exchange_weak(&n_slots, &n, at + 1)) continue;
        return &slots[at];
    }
    return NULL;
}

/* Stores a loop in the slot. The loop's number is stored last, so a worker that reads the number
 * also reads all other fields of this loop. */
static void publish(const view_t *view)
{
    slot_t *slot = view->slot;
    unsigned n_chunks = 0;
    for (int m = 0; m < view->n_members; m++) {
        const unsigned count = (unsigned)count_chunks(view->n, view->n_members, m);
        const uint64_t word = view->loop << CURSOR_LOOP_SHIFT | (m == 0 ? CURSOR_JOINED : 0u) |
                              count << CURSOR_CHUNKS_SHIFT;
        atomic_store_explicit(&slot->cursors[m].word, word, memory_order_relaxed);
        n_chunks += count;
    }
    atomic_store_explicit(&slot->n_left, n_chunks, memory_order_relaxed);
    atomic_store_explicit(&slot->body, view->body, memory_order_relaxed);
    atomic_store_explicit(&slot->user, view->user, memory_order_relaxed);
    atomic_store_explicit(&slot->n, view->n, memory_order_relaxed);
    atomic_store_explicit(&slot->n_members, view->n_members, memory_order_relaxed);
    atomic_store_explicit(&slot->mode, read_mode(), memory_order_relaxed);
    atomic_store_explicit(&slot->processor, processor_current(), memory_order_relaxed);
    if (atomic_load_explicit(&is_resting, memory_order_relaxed)) atomic_store(&is_resting, false);
    atomic_store(&slot->loop, view->loop);
}

/* Wakes as many workers as the loop can use, but no more than there are free processors. */
static void wake_workers(int n_members)
{
    const int n = atomic_load_explicit(&n_slots, memory_order_relaxed);
    const int awake = atomic_load(&n_awake), made = atomic_load(&n_workers);
    if (awake >= made) return;
    const int n_callers = n > 1 ? count_callers(n) : 1;
    const int wanted = n_members - 1 - (n_callers > 1 ? 0 : awake);
    const int room = atomic_load_explicit(&n_processors, memory_order_relaxed) - n_callers - awake;
    int left = wanted < room ? wanted : room;
    for (int w = 0; w < made && left > 0; w++)
        if (atomic_load(&workers[w].is_asleep) == 1) {
            wake_worker(&workers[w]);
            left--;
        }
}

/* Spins until the chunks are done; false if they are not after `limit` ns. */
static bool spin_for(slot_t *slot, uint64_t limit)
{
    const uint64_t begin = context_now();
    while (context_now() - begin < limit)
        for (int i = 0; i < 8; i++) {
            relax();
            if (atomic_load_explicit(&slot->n_left, memory_order_acquire) == 0) return true;
        }
    return false;
}

/* Finds workers that have begun chunks of the slot's loop, but have not run since the last look,
 * and moves them to the caller's processor. Returns how many. */
static int lend_processor(const slot_t *slot, bool is_first)
{
    int n_lent = 0;
    const int n = atomic_load_explicit(&n_workers, memory_order_relaxed);
    for (int w = 0; w < n; w++) {
        worker_t *worker = &workers[w];
        if (atomic_load_explicit(&worker->slot, memory_order_relaxed) != slot) continue;
        const processor_thread_t self = atomic_load_explicit(&worker->self, memory_order_relaxed);
        const uint64_t time = processor_time(self);
        if (!is_first && time == atomic_load_explicit(&worker->time, memory_order_relaxed)) {
            processor_pull(self, processor_current());
            n_lent++;
        }
        atomic_store_explicit(&worker->time, time, memory_order_relaxed);
    }
    return n_lent;
}

static void wait_for(slot_t *slot, uint64_t begin)
{
    int n_lent = 0;
    if (atomic_load_explicit(&slot->n_left, memory_order_acquire) == 0) return;
    const uint64_t now = context_now();
    uint64_t limit = (now - begin) / 4;
    limit = limit < WAIT_NS ? WAIT_NS : limit > MAX_WAIT_NS ? MAX_WAIT_NS : limit;
    if (spin_for(slot, limit)) return;
    (void)lend_processor(slot, true);
    while (n_lent == 0 && context_now() - now < MAX_SPIN_NS) {
        if (spin_for(slot, CHECK_NS)) return;
        n_lent = lend_processor(slot, false);
    }
    unsigned left = atomic_fetch_or(&slot->n_left, LEFT_SLEEPS) | LEFT_SLEEPS;
    while (left != LEFT_SLEEPS) {
        sleep_on(&slot->n_left, left);
        left = atomic_load_explicit(&slot->n_left, memory_order_acquire);
    }
}

static int read_processors(void)
{
    int n = atomic_load_explicit(&n_processors, memory_order_relaxed);
    if (n > 0) return n;
    n = threads_processors();
    atomic_store(&n_processors, n);
    return n;
}

void pool_set_processors(int n)
{
    atomic_store(&n_processors, n);
}

void pool_run(int n_members, int64_t n, pool_body_t body, void *user)
{
    const int n_useful = n_members > 1 ? read_processors() : 1;
    if (n_members > n_useful) n_members = n_useful;
    if (n_members > MAX_MEMBERS) n_members = MAX_MEMBERS;
    if (n_members > n) n_members = (int)n;
    const bool is_alone = n_members <= 1 || is_inside ||
                          atomic_load_explicit(&is_stopped, memory_order_relaxed);
    slot_t *slot = is_alone ? NULL : take_slot();
    if (slot == NULL) {
        body(user, 0, n, 0);
        return;
    }
    if (atomic_load_explicit(&n_wanted, memory_order_relaxed) < n_members - 1)
        make_workers(n_members - 1);
    const uint64_t loop = atomic_load_explicit(&slot->loop, memory_order_relaxed) + 1;
    const view_t view = {slot, loop, body, user, n, n_members};
    const uint64_t begin = context_now();
    atomic_store_explicit(&slot->time, begin, memory_order_relaxed);
    publish(&view);
    wake_workers(n_members);
    atomic_fetch_sub_explicit(&slot->n_left, run_chunks(&view, 0), memory_order_acq_rel);
    wait_for(slot, begin);
    atomic_store_explicit(&slot->is_taken, false, memory_order_release);
}

void pool_rest(void)
{
    if (!atomic_load_explicit(&is_resting, memory_order_relaxed)) atomic_store(&is_resting, true);
}

/* ---- fork ---- */

void pool_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void pool_after_fork(bool is_child)
{
    if (is_child) {
        atomic_store(&n_workers, 0);
        atomic_store(&n_wanted, 0);
        atomic_store(&n_awake, 0);
        atomic_store(&n_alive, 0);
        for (int i = 0; i < MAX_CALLERS; i++) atomic_store(&slots[i].is_taken, false);
    }
    pthread_mutex_unlock(&lock);
}
