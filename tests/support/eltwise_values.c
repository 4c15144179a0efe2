#include "tests/support/eltwise_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static eltwise_values_t parse(char *line)
{
    eltwise_values_t row = {0};
    double *parameters[] = {&row.alpha, &row.beta};
    int length = 0, n_points = 0;
    char *at = line, *end = NULL;
    assert_int_equal(sscanf(line, "%31s%n", row.name, &length), 1);
    row.eltwise = eltwise_parse(row.name);
    if (row.eltwise == ELTWISE_NONE) fail_msg("%s is not a function", row.name);
    for (at += length; row.n_parameters < 2; at = end, row.n_parameters++) {
        const double number = strtod(at, &end);
        if (end == at) break;
        *parameters[row.n_parameters] = number;
    }
    at = strchr(at, '|');                                      /* formula */
    while (at != NULL && (at = strchr(at + 1, '|')) != NULL) { /* points */
        assert_true(n_points < ELTWISE_POINTS);
        assert_int_equal(sscanf(at + 1, "%lf %lf %lf", &row.x[n_points], &row.value[n_points],
                                &row.slope[n_points]),
                         3);
        n_points++;
    }
    assert_int_equal(n_points, ELTWISE_POINTS);
    return row;
}

const eltwise_values_t *eltwise_values(const char *source_dir)
{
    static eltwise_values_t rows[ELTWISE_FUNCTIONS];
    bool has[ELTWISE_COUNT] = {true};
    char line[1024];
    int n = 0;
    snprintf(line, sizeof line, "%s/tests/dispatch/eltwise_values.txt", source_dir);
    FILE *file = fopen(line, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        const eltwise_values_t row = parse(line);
        if (has[row.eltwise]) fail_msg("eltwise_values.txt has %s twice", row.name);
        has[row.eltwise] = true;
        rows[n++] = row;
    }
    fclose(file);
    for (int e = 0; e < ELTWISE_COUNT; e++)
        if (!has[e]) fail_msg("eltwise_values.txt lacks %s", eltwise_name((eltwise_t)e));
    return rows;
}
