/* The subcommands. argv[0] is the name of the subcommand; each returns the exit code.
 *
 * The folder tools/support contains what several commands share: arguments, models and their
 * inputs, sessions, modes, output. */
#ifndef TESSERA_TOOLS_SUPPORT_COMMAND_H
#define TESSERA_TOOLS_SUPPORT_COMMAND_H

#include "tools/support/args.h"

int command_run(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_train(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_freeze(int argc, char **argv);
int command_append(int argc, char **argv);
int command_cache(int argc, char **argv);
int command_graph(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_profile(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_audit(int argc, char **argv);
int command_info(int argc, char **argv);

#endif
