#define _POSIX_C_SOURCE 200809L
#include "resident.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

double resident_mb(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

bool resident_apart(resident_body_t body, const void *user, int n, double *out_numbers)
{
    int ends[2], code = 1;
    const size_t bytes = (size_t)n * sizeof *out_numbers;
    fflush(stdout);
    if (pipe(ends) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        bool is_done = body(user, out_numbers);
        bool is_written = write(ends[1], out_numbers, bytes) == (ssize_t)bytes;
        _exit(is_done && is_written ? 0 : 1);
    }
    close(ends[1]);
    bool is_read = child > 0 && read(ends[0], out_numbers, bytes) == (ssize_t)bytes;
    close(ends[0]);
    return child > 0 && waitpid(child, &code, 0) == child && code == 0 && is_read;
}
