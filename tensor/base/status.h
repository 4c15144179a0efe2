/* Status codes.
 *
 * Every call that can fail returns status_t; context_error(ctx) has the message. Outputs are
 * written only on success. Errors in arguments or data return a status with a message; a failed
 * allocation returns STATUS_OUT_OF_MEMORY. No call ends the process, except that debug builds abort
 * if an internal invariant is broken. */
#ifndef TESSERA_TENSOR_BASE_STATUS_H
#define TESSERA_TENSOR_BASE_STATUS_H

#include "tensor/base/api.h"

typedef enum status {
    STATUS_OK = 0,
    STATUS_INVALID_ARGUMENT, /* an argument breaks a rule */
    STATUS_UNSUPPORTED,      /* a valid request that is not supported; the message names it */
    STATUS_OUT_OF_MEMORY,    /* no memory, or the context's memory limit was reached */
    STATUS_IO,               /* the operating system reported an error for a file */
    STATUS_CORRUPT,          /* a file's content violates its format */
    STATUS_ONEDNN,           /* oneDNN returned an error; the message contains oneDNN's status */
    STATUS_CANCELLED,        /* context_cancel ended the call */
    STATUS_LIMIT             /* the context's limit on seconds or iterations ended the call */
} status_t;

/* Name of a code without prefix, such as "INVALID_ARGUMENT"; a static string. */
const char *status_name(status_t status) TESSERA_API(status_name);

#endif
