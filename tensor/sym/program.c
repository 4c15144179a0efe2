/* Compiles all guards into one program that computes them from the values of names. An expression
 * that several guards contain is computed once.
 *
 *   r0 = H; r1 = r0/8; r2 = r0-8*r1; guard 0: r2 == 0; r3 = W; r4 = r3-100; guard 1: r4 >= 0
 *
 * After a new guard, the program is compiled again when it is next needed. */
#include <string.h>

#include "tensor/sym/sym_impl.h"

#define MAX_REGISTERS 1024

struct sym_program {
    int n_asked;              /* number of guards of the space when the program was made */
    int n_guards;             /* guards that fit into the registers */
    int n_nodes;              /* the result of node i is in register i */
    const sym_node_t **nodes; /* operands come before their users */
    int *ends;                /* [guard] number of nodes to compute before its value is known */
    int *values;              /* [guard] register of its value */
    int16_t *registers;       /* [node number] its register; -1: none */
};

/* Adds a node after its operands. Returns false if there are no registers left. */
static bool add_node(const sym_space_t *space, sym_program_t *program, int64_t handle)
{
    const sym_node_t *node = sym_find(space, handle);
    int16_t *own = &program->registers[sym_number(handle)];
    if (*own >= 0) return true;
    for (int i = 0; i < node->n && node->kind != SYM_REAL; i++)
        if (sym_is(node->operands[i]) && !add_node(space, program, node->operands[i])) return false;
    if (program->n_nodes == MAX_REGISTERS) return false;
    *own = (int16_t)program->n_nodes;
    program->nodes[program->n_nodes++] = node;
    return true;
}

static sym_program_t *make_program(sym_space_t *space)
{
    const size_t n_guards = (size_t)atomic_load(&space->n_guards);
    const size_t n_nodes = (size_t)atomic_load(&space->n_nodes);
    const status_t status = space->status;
    sym_program_t *program = sym_get(space, sizeof *program);
    if (program != NULL) {
        program->nodes = sym_get(space, MAX_REGISTERS * sizeof *program->nodes);
        program->ends = sym_get(space, (n_guards + 1) * sizeof *program->ends);
        program->values = sym_get(space, (n_guards + 1) * sizeof *program->values);
        program->registers = sym_get(space, (n_nodes + 1) * sizeof *program->registers);
    }
    /* without memory for the program, guards are evaluated one by one */
    if (program == NULL || program->nodes == NULL || program->ends == NULL ||
        program->values == NULL || program->registers == NULL) {
        space->status = status;
        return NULL;
    }
    memset(program->registers, 0xff, n_nodes * sizeof *program->registers);
    program->n_nodes = program->n_guards = 0;
    program->n_asked = (int)n_guards;
    for (size_t i = 0; i < n_guards && add_node(space, program, space->guards[i].value); i++) {
        program->ends[i] = program->n_nodes;
        program->values[i] = program->registers[sym_number(space->guards[i].value)];
        program->n_guards++;
    }
    return program;
}

/* Returns the program for the guards that exist now, and makes it if necessary; NULL if memory runs
 * out. */
static const sym_program_t *program_of(const sym_space_t *space)
{
    sym_space_t *own = (sym_space_t *)(uintptr_t)space;
    const sym_program_t *program = atomic_load_explicit(&own->program, memory_order_acquire);
    if (program != NULL && program->n_asked == atomic_load(&own->n_guards)) return program;
    pthread_mutex_lock(&own->lock);
    program = atomic_load(&own->program);
    if (program == NULL || program->n_asked != atomic_load(&own->n_guards)) {
        sym_program_t *made = make_program(own);
        atomic_store_explicit(&own->program, made, memory_order_release);
        program = made;
    }
    pthread_mutex_unlock(&own->lock);
    return program;
}

typedef struct run {
    const sym_program_t *program;
    bool is_known[MAX_REGISTERS];
    sym_value_t registers[MAX_REGISTERS];
} run_t;

static bool get_register(void *user, int64_t operand, sym_value_t *out_value)
{
    const run_t *run = user;
    const int at = run->program->registers[sym_number(operand)];
    *out_value = run->registers[at];
    return run->is_known[at];
}

static bool get_name(const sym_node_t *node, sym_size_t size_of, void *user, sym_value_t *out)
{
    if (!size_of(user, node->name, node->text, &out->integer)) return false;
    out->real = (double)out->integer;
    return !sym_is(out->integer) && !sym_is_huge(out->integer);
}

/* Evaluates the guards from `first` on, one by one. */
static bool hold_alone(const sym_space_t *space, int first, sym_size_t size_of, void *user,
                       int *out_first)
{
    for (int i = first; i < sym_n_guards(space); i++) {
        int64_t value;
        *out_first = i;
        if (!sym_calculate(space, space->guards[i].value, size_of, user, &value) ||
            !sym_holds(space->guards[i].relation, value))
            return false;
    }
    return true;
}

bool sym_guards_hold(const sym_space_t *space, sym_size_t size_of, void *user, int *out_first)
{
    run_t run;
    int at = 0;
    if (sym_n_guards(space) == 0) return true;
    run.program = program_of(space);
    if (run.program == NULL) return hold_alone(space, 0, size_of, user, out_first);
    for (int k = 0; k < run.program->n_guards; k++) {
        for (; at < run.program->ends[k]; at++) {
            const sym_node_t *node = run.program->nodes[at];
            run.is_known[at] = node->kind == SYM_NAME
                                   ? get_name(node, size_of, user, &run.registers[at])
                                   : sym_evaluate(node, get_register, &run, &run.registers[at]);
        }
        const int value = run.program->values[k];
        *out_first = k;
        if (!run.is_known[value] ||
            !sym_holds(space->guards[k].relation, run.registers[value].integer))
            return false;
    }
    return hold_alone(space, run.program->n_guards, size_of, user, out_first);
}

/* ---- queries of guards ---- */

int sym_n_guards(const sym_space_t *space)
{
    return space != NULL ? atomic_load(&((sym_space_t *)(uintptr_t)space)->n_guards) : 0;
}

int64_t sym_guard_value(const sym_space_t *space, int k)
{
    return space->guards[k].value;
}

bool sym_guard_fails(const sym_space_t *space, int k, sym_size_t size_of, void *user)
{
    int64_t value;
    return sym_calculate(space, space->guards[k].value, size_of, user, &value) &&
           !sym_holds(space->guards[k].relation, value);
}

const char *sym_guard_origin(const sym_space_t *space, int k)
{
    return space->guards[k].origin;
}
