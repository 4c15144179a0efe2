/* A directory for what a program of tests writes. */
#ifndef TESSERA_TESTS_SCRATCH_H
#define TESSERA_TESTS_SCRATCH_H

/* Its path, from scratch_begin on. */
extern char scratch[];

/* Before and after a group of tests: make it, and remove it with all that is in it. */
int scratch_begin(void **state);
int scratch_end(void **state);

#endif
