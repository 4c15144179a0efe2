/* The checksums of a .tessera file, made right: needs nothing of a test. */
#ifndef TESSERA_TESTS_FROZEN_SEAL_H
#define TESSERA_TESTS_FROZEN_SEAL_H

#include "freeze/file_impl.h"

/* Of all that lies inside the file, and its size, as a patient attacker does. */
void frozen_seal(void *bytes, size_t n);

#endif
