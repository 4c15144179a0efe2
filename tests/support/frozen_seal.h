/* Corrects the checksums of a .tessera file. Does not depend on the test framework. */
#ifndef TESSERA_TESTS_FROZEN_SEAL_H
#define TESSERA_TESTS_FROZEN_SEAL_H

#include "freeze/file_impl.h"

/* Corrects the size and every checksum in a changed file, as an attacker would. */
void frozen_seal(void *bytes, size_t n);

#endif
