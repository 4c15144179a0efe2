/* A directory for files that a test program writes. */
#ifndef TESSERA_TESTS_SCRATCH_H
#define TESSERA_TESTS_SCRATCH_H

/* Its path, valid after scratch_begin. */
extern char scratch[];

/* Setup and teardown of a group of tests: create the directory, and remove it with its content. */
int scratch_begin(void **state);
int scratch_end(void **state);

#endif
