#include "tests/support/lines.h"

bool lines_read(FILE *file, int size, char *line)
{
    if (fgets(line, size, file) == NULL) return false;
    char *to = line;
    for (const char *at = line; *at != '\0' && *at != '\n'; to++) {
        unsigned byte = (unsigned char)*at;
        const bool is_escaped = at[0] == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1;
        *to = (char)byte;
        at += is_escaped ? 4 : 1;
    }
    *to = '\0';
    return true;
}
