/* Frozen modules compute some 1-D convolutions as products of rows. Tests which ones, and compares
 * with the values of the unfrozen graph. */
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/program/plan.h"
#include "kernels/isa_impl.h"
#include "tests/support/nets/subject.h"

typedef struct problem {
    const char *parameters, *inputs, *body;
    bool is_rows;
} problem_t;

static void check(context_t *ctx, const problem_t *p)
{
    char body[256];
    snprintf(body, sizeof body, "%s  return %%y\n", p->body);
    subject_t s = subject_begin(ctx, p->parameters, p->inputs, body);
    subject_check_values(&s);
    const plan_t *plan = plan_of(s.frozen, "forward");
    int n_found = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        const plan_step_t *step = plan_step(plan, i);
        if (strncmp(step->name, "conv", 4) != 0) continue;
        const bool is_rows = strcmp(prepared_kernel(step->prepared), "rows") == 0;
        n_found++;
        if (is_rows != (p->is_rows && isa_best() != ISA_PORTABLE))
            fail_msg("%s %s: kernel %s; %s", p->parameters, p->body,
                     prepared_kernel(step->prepared), prepared_reasons(step->prepared));
    }
    assert_int_equal(n_found, 1);
    subject_end(&s);
}

#define LAST "  %p = permute(%x) dims=[0,2,1]\n"
#define LAST_OF_2 "  %u = unsqueeze(%x) dims=[3]\n  %p = permute(%u) dims=[0,2,1,3]\n"

static void windows_of_rows_are_multiplied(void **state)
{
    static const problem_t problems[] = {
        {"k=64,16,3", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none)\n", true},
        {"k=33,17,2 b=33", "%x : f32[3,33,17]", LAST "  %y = conv1d(%p, %k, %b) stride=[2]\n",
         true},
        {"k=100,31,5 b=100", "%x : f32[17,50,31]",
         LAST "  %c = conv1d(%p, %k, %b) stride=[3]\n  %y = relu(%c)\n", true},
        {"k=96,7,7 b=96", "%x : f32[2,250,7]", LAST "  %c = conv1d(%p, %k, %b)\n  %y = gelu(%c)\n",
         true},
        {"k=64,256,5,1", "%x : f32[1,61,256]", LAST_OF_2 "  %y = conv2d(%p, %k, none)\n", true},
        {"k=65,17,3,1 b=65", "%x : f32[16,33,17]",
         LAST_OF_2 "  %c = conv2d(%p, %k, %b) stride=[2,1]\n  %y = sigmoid(%c)\n", true},
        {"k=64,1,400", "%x : f32[1,2960,1]", LAST "  %y = conv1d(%p, %k, none) stride=[160]\n",
         true},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check(fixture_context(state), &problems[i]);
}

/* Padding, dilation, groups and small or odd sizes prevent it. */
static void other_windows_are_not(void **state)
{
    static const problem_t problems[] = {
        {"k=64,16,3", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none) padding=[1]\n", false},
        {"k=64,16,3", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none) dilation=[2]\n",
         false},
        {"k=64,16,1", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none)\n", false},
        {"k=64,8,3", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none) groups=2\n", false},
        {"k=31,16,3", "%x : f32[1,40,16]", LAST "  %y = conv1d(%p, %k, none)\n", false},
        {"k=64,16,3", "%x : f32[1,17,16]", LAST "  %y = conv1d(%p, %k, none)\n", false},
        {"k=64,7,2", "%x : f32[1,40,7]", LAST "  %y = conv1d(%p, %k, none)\n", false},
        {"k=64,16,3,1", "%x : f32[1,40,16]",
         LAST_OF_2 "  %y = conv2d(%p, %k, none) padding=[0,1]\n", false},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check(fixture_context(state), &problems[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(windows_of_rows_are_multiplied),
        TEST(other_windows_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
