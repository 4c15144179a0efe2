#include "tools/support/bar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define CELLS 24
#define REFRESH_MS 100.0
#define DELAY_MS 300.0 /* a command that ends earlier shows no bar */
#define LINE_MAX 256

/* A process has one bar. */
static struct {
    bool is_quiet, is_shown;
    double begin_ms, shown_ms; /* times of the first call and of the last drawing */
    char what[LINE_MAX];       /* current activity, and its time and progress when it began */
    double what_ms;
    int64_t what_done;
} bar;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void begin_what(const char *what, int64_t done, double now)
{
    if (bar.begin_ms == 0.0) bar.begin_ms = now;
    if (strncmp(bar.what, what, sizeof bar.what - 1) == 0 && done >= bar.what_done) return;
    text_escape(what, bar.what, sizeof bar.what);
    bar.what_ms = now;
    bar.what_done = done;
}

/* Estimates the time left from the rate of the current activity so far. */
static int print_time_left(char *text, size_t room, int64_t done, int64_t total, double now)
{
    if (total <= 0 || done <= bar.what_done || done > total) return 0;
    double ms = (now - bar.what_ms) / (double)(done - bar.what_done) * (double)(total - done);
    int64_t seconds = (int64_t)(ms / 1e3 + 0.5);
    int n = 0;
    if (seconds >= 3600) n = snprintf(text, room, "  %" PRId64, seconds / 3600);
    return n + snprintf(text + n, room - (size_t)n, "%s%02" PRId64 ":%02" PRId64 " left",
                        n > 0 ? ":" : "  ", seconds / 60 % 60, seconds % 60);
}

/* Returns the length of the line, which is cut at LINE_MAX. */
static int print_line(char *text, int64_t done, int64_t total, const char *more, double now)
{
    int n = 0, filled = total > 0 ? (int)((double)done / (double)total * CELLS) : 0;
    if (total > 0) text[n++] = '[';
    for (int i = 0; i < CELLS && total > 0; i++) text[n++] = i < filled ? '=' : ' ';
    if (total > 0) n += snprintf(text + n, LINE_MAX - (size_t)n, "] ");
    n += snprintf(text + n, LINE_MAX - (size_t)n, "%.120s", bar.what);
    if (total > 0)
        n += snprintf(text + n, LINE_MAX - (size_t)n, " %" PRId64 "/%" PRId64, done, total);
    else if (done > 0)
        n += snprintf(text + n, LINE_MAX - (size_t)n, " %" PRId64, done);
    if (more != NULL) n += snprintf(text + n, LINE_MAX - (size_t)n, "  %.40s", more);
    return n + print_time_left(text + n, LINE_MAX - (size_t)n, done, total, now);
}

void bar_show(const char *what, int64_t done, int64_t total, const char *more)
{
    char text[LINE_MAX];
    struct winsize size = {.ws_col = 0};
    double now = now_ms();
    if (bar.is_quiet) return;
    begin_what(what, done, now);
    if (now - bar.begin_ms < DELAY_MS || now - bar.shown_ms < REFRESH_MS) return;
    if (isatty(STDERR_FILENO) == 0) return;
    int n = print_line(text, done, total, more, now);
    /* A line wider than the terminal would continue on the next line, and could not be erased. */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && n >= size.ws_col)
        n = size.ws_col - 1;
    /* The carriage return makes other output begin at column 0, even before bar_end. */
    fprintf(stderr, "%.*s\033[K\r", n, text);
    fflush(stderr);
    bar.shown_ms = now;
    bar.is_shown = true;
}

void bar_end(void)
{
    if (bar.is_shown) fprintf(stderr, "\033[K");
    fflush(stderr);
    bar.is_shown = false;
}

static void show_told(void *user, const progress_t *progress)
{
    char what[LINE_MAX];
    const char *within = user;
    snprintf(what, sizeof what, "%s%s%s", within != NULL ? within : "", within != NULL ? ": " : "",
             progress->what);
    bar_show(what, progress->done, progress->total, NULL);
}

void bar_follow(context_t *ctx, const char *what)
{
    void *user = NULL;
    memcpy(&user, &what, sizeof user);
    progress_listen(ctx, show_told, user);
}

void bar_set_quiet(void)
{
    bar.is_quiet = true;
}

bool bar_is_quiet(void)
{
    return bar.is_quiet;
}
