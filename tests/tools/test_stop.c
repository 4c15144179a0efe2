/* Ctrl-C and limits: the command must exit with the right code, print one line to stderr, and leave
 * no partial file. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/tessera_stop_XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

/* True if the process has a handler for the signal, as Linux reports it, and is not the shell,
 * which has one before it becomes the command. */
static bool handles(pid_t process, int signal_number)
{
    char path[64], line[128];
    unsigned long long caught = 0;
    bool is_shell = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        is_shell = is_shell || strcmp(line, "Name:\tsh\n") == 0;
        if (sscanf(line, "SigCgt: %llx", &caught) == 1) break;
    }
    fclose(file);
    return !is_shell && (caught >> (signal_number - 1) & 1) != 0;
}

/* Waits until the command has started, for a minute at most: until it handles SIGINT. */
static void wait_for_handler(pid_t process)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < 12000 && !handles(process, SIGINT); i++) nanosleep(&pause, NULL);
    assert_true(handles(process, SIGINT));
}

/* Runs the command, and sends SIGINT interrupt_ms after it has started, unless that is 0. Returns
 * the exit code and the text of stderr. */
static int run(const char *arguments, int interrupt_ms, char *out_text, size_t capacity)
{
    char command[1024];
    int ends[2], status = 0;
    snprintf(command, sizeof command, "exec %s %s >/dev/null", TESSERA_COMMAND, arguments);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (interrupt_ms > 0) {
        wait_for_handler(child);
        const struct timespec pause = {interrupt_ms / 1000, interrupt_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGINT), 0);
    }
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], out_text + n, capacity - 1 - n)) > 0;) n += (size_t)got;
    out_text[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count_files(void)
{
    DIR *folder = opendir(directory);
    assert_non_null(folder);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void ctrl_c_ends_a_command_and_leaves_no_file(void **state)
{
    (void)state;
    char text[4096], arguments[256];
    for (int i = 0; i < 3; i++) {
        snprintf(arguments, sizeof arguments, "freeze zoo:vgg16 -o %s/a.tessera", directory);
        assert_int_equal(run(arguments, 1 + 200 * i, text, sizeof text), 130);
        if (strstr(text, "tessera freeze: interrupted") != text) fail_msg("%s", text);
        assert_int_equal(count_files(), 0);
    }
}

/* bench measures in a process of its own, which must not go on when bench ends. Both share stderr,
 * so `run` returns when both have ended. */
static void an_interrupt_ends_the_process_that_measures(void **state)
{
    (void)state;
    char text[4096];
    const time_t begin = time(NULL);
    assert_int_equal(
        run("bench zoo:vgg16 --train --modes dense --iterations 60", 1500, text, sizeof text), 130);
    assert_true(time(NULL) - begin < 8);
}

static void limits_end_a_command(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run("run zoo:vgg16 --limit-time 0.2", 0, text, sizeof text), 1);
    if (strstr(text, "tessera run: --limit-time is over") != text) fail_msg("%s", text);
    assert_int_equal(run("run zoo:vgg16 --limit-memory 64M", 0, text, sizeof text), 1);
    if (strstr(text, "the context's limit is 67108864 bytes") == NULL) fail_msg("%s", text);
    assert_int_equal(run("run zoo:vgg16 --limit-memory 64X", 0, text, sizeof text), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ctrl_c_ends_a_command_and_leaves_no_file),
        TEST(an_interrupt_ends_the_process_that_measures),
        TEST(limits_end_a_command),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
