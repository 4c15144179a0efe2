/* tessera append: adds the packed weights and formats that a machine needs to a .tessera file. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"

#define NAME "append"

static const args_command_t command = {
    .name = NAME,
    .operands = "FILE.tessera",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera append resnet50.tessera --isa AVX2 --threads 4",
    .about =
        "Adds packed weights and formats for another kind of machine to a frozen file, so that\n"
        "the model starts there as fast as on the machine that froze it. Data for other\n"
        "machines stays in the file. The other machine must have this version of oneDNN. Two\n"
        "commands must not append to one file at the same time."};

/* oneDNN reads this environment variable once, when it is first used. */
#define ISA_VARIABLE "ONEDNN_MAX_CPU_ISA"

static const char *const isas[] = {"DEFAULT",
                                   "SSE41",
                                   "AVX",
                                   "AVX2",
                                   "AVX2_VNNI",
                                   "AVX2_VNNI_2",
                                   "AVX512_CORE",
                                   "AVX512_CORE_VNNI",
                                   "AVX512_CORE_BF16",
                                   "AVX512_CORE_FP16",
                                   "AVX512_CORE_AMX",
                                   "AVX512_CORE_AMX_FP16"};

/* Returns the name of the ISA as oneDNN spells it, or NULL. */
static const char *find_isa(const char *name)
{
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        size_t at = 0;
        while (isas[i][at] != '\0' && isas[i][at] == toupper((unsigned char)name[at])) at++;
        if (isas[i][at] == '\0' && name[at] == '\0') return isas[i];
    }
    return NULL;
}

/* Returns true if isa is NULL, or if the variable limits this process to it already. Otherwise sets
 * the variable and restarts the command; returns false if that fails. */
static bool is_under(const char *isa, char **argv)
{
    const char *set = getenv(ISA_VARIABLE);
    if (isa == NULL || (set != NULL && strcmp(set, isa) == 0)) return true;
    setenv(ISA_VARIABLE, isa, 1);
    execv("/proc/self/exe", argv - 1);
    print_error("tessera " NAME ": cannot run itself: %s\n", strerror(errno));
    return false;
}

static bool append(const char *path, int n_threads, bool has_forms)
{
    context_t *ctx = NULL;
    context_options_t options = {.n_threads = n_threads};
    status_t status = stop_create(&options, &ctx);
    if (status == STATUS_OK)
        status = has_forms ? freeze_append_forms(ctx, path) : freeze_append(ctx, path);
    bool is_done = session_check(NAME, ctx, status);
    if (is_done) session_print_size(path);
    stop_destroy(ctx);
    return is_done;
}

int command_append(int argc, char **argv)
{
    int64_t n_threads = 0;
    bool has_forms = false;
    const char *isa_text = NULL, *isa = NULL;
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        {"--isa", ARGS_TEXT, &isa_text, "ISA",
         "such as AVX2, or default: all that this machine has (" ISA_VARIABLE ")", 0, 0},
        {"--forms", ARGS_FLAG, &has_forms, NULL,
         "all packed weights, large ones too; needs no store then", 0, 0},
        option_of(OPTION_THREADS, &n_threads),
    };
    if (!args_parse(&command, table, 3, argc, argv, &operands, &code)) return code;
    const char *path = operands.items[0];
    if (model_kind(path) != MODEL_FROZEN)
        return args_usage_error(NAME, "%s, must be FILE.tessera", path);
    if (isa_text != NULL && (isa = find_isa(isa_text)) == NULL)
        return args_usage_error(NAME, "--isa %s, oneDNN has no such ISA; try AVX2", isa_text);
    bool is_done = is_under(isa, argv) && append(path, (int)n_threads, has_forms);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
