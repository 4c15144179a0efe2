/* Options that several commands share: one table holds their names and help. */
#ifndef TESSERA_TOOLS_SUPPORT_OPTIONS_H
#define TESSERA_TOOLS_SUPPORT_OPTIONS_H

#include "tools/support/args.h"

/* Each option, with the type of the variable that it sets. */
typedef enum option {
    OPTION_BATCH,     /* int64_t */
    OPTION_SHAPE,     /* args_list_t */
    OPTION_INPUT,     /* args_list_t */
    OPTION_SEED,      /* int64_t */
    OPTION_THREADS,   /* int64_t */
    OPTION_MODE,      /* const char * */
    OPTION_MODES,     /* const char * */
    OPTION_TOLERANCE, /* double */
    OPTION_JSON,      /* bool */
    OPTION_MEMORY,    /* int64_t */
    OPTION_LOAD,      /* const char * */
    OPTION_UNCHECKED, /* bool */
    OPTION_COUNT
} option_t;

/* Returns the entry for a command's option table. */
args_option_t option_of(option_t option, void *out);

#endif
