#include "tests/support/scratch.h"

#include <stdio.h>
#include <stdlib.h>

char scratch[] = "/tmp/tessera-test-XXXXXX";

int scratch_begin(void **state)
{
    (void)state;
    return mkdtemp(scratch) != NULL ? 0 : -1;
}

int scratch_end(void **state)
{
    char line[64];
    (void)state;
    snprintf(line, sizeof line, "rm -rf %s", scratch);
    return system(line);
}
