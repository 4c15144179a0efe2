/* Status codes.
 *
 * Every fallible call returns status_t; the sentence that belongs to it is context_error(ctx).
 * Outputs are written only on success. An error of the user or of data is a status with a message,
 * a failed allocation is STATUS_OUT_OF_MEMORY. No call ends the process; a debug build of the
 * library does where an invariant of its own is broken. */
#ifndef TESSERA_TENSOR_STATUS_H
#define TESSERA_TENSOR_STATUS_H

#include "tensor/api.h"

TESSERA_BEGIN

typedef enum status {
    STATUS_OK = 0,
    STATUS_INVALID_ARGUMENT, /* what was given breaks a rule */
    STATUS_UNSUPPORTED,      /* legal, but not to be had here; the message names what is missing */
    STATUS_OUT_OF_MEMORY,    /* the allocator refused, or the context's limit of bytes */
    STATUS_IO,               /* the operating system refused a file */
    STATUS_CORRUPT,          /* a file's bytes contradict its format */
    STATUS_ONEDNN,           /* oneDNN refused a call; the message has its status */
    STATUS_CANCELLED,        /* context_cancel ended the call */
    STATUS_LIMIT             /* the context's limit of seconds or iterations ended the call */
} status_t;

/* The code's name without prefix, "INVALID_ARGUMENT"; static. */
const char *status_name(status_t status) TESSERA_API(status_name);

TESSERA_END

#endif
