/* tessera profile: its JSON must agree with the counters, and its trace file must be valid. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TESSERA_HAVE_SAFETENSORS
#include <jansson.h>

#include "tests/support/onnx/onnx_model.h"
#include "tests/support/scratch.h"

#define MODEL "zoo:squeezenet1_1 --shape x=1x3x64x64 --iterations 2"

/* Runs `tessera ARGUMENTS` in the scratch directory. The files out and err have its output. */
static int tessera(const char *arguments)
{
    char line[2048];
    snprintf(line, sizeof line, "cd %s && " TESSERA_COMMAND " %s >out 2>err", scratch, arguments);
    const int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *read_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long length = ftell(file);
    rewind(file);
    char *text = malloc((size_t)length + 1);
    assert_non_null(text);
    text[fread(text, 1, (size_t)length, file)] = '\0';
    fclose(file);
    return text;
}

static void check(const char *arguments, int code, const char *file, const char *part)
{
    const int got = tessera(arguments);
    char *text = read_file(file);
    if (got != code || strstr(text, part) == NULL)
        fail_msg("repeat: tessera %s\nexit %d, wanted %d; %s with %s: %.2000s", arguments, got,
                 code, file, part, text);
    free(text);
}

static json_t *parse(const char *name)
{
    char *text = read_file(name);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) fail_msg("%s: line %d: %s: %.300s", name, error.line, error.text, text);
    free(text);
    return json;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

static const char *string(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) fail_msg("no string %s", key);
    return json_string_value(value);
}

static bool is_near(double a, double b, double tolerance)
{
    return a - b <= tolerance && b - a <= tolerance;
}

/* ---- JSON ---- */

static void check_reorders(const json_t *mode)
{
    size_t i, k;
    json_t *node, *reorder;
    double reorders = 0, copies = 0, bytes = 0;
    json_array_foreach(json_object_get(mode, "nodes"), i, node)
    {
        double inside = 0;
        json_array_foreach(json_object_get(node, "reorders"), k, reorder)
        {
            *(json_is_true(json_object_get(reorder, "copy")) ? &copies : &reorders) += 1;
            bytes += number(reorder, "bytes");
            inside += number(reorder, "shown_ms");
            assert_true(strlen(string(reorder, "from")) > 0 && strlen(string(reorder, "to")) > 0);
        }
        assert_true(inside <= number(node, "shown_ms") + 1e-6);
    }
    assert_true(reorders == number(mode, "weight_reorders") + number(mode, "activation_reorders"));
    assert_true(copies == number(mode, "copies"));
    assert_true(bytes == number(mode, "reorder_bytes"));
}

/* The network has one input, so each node but the first must read an earlier node's result. */
static void check_producers(const json_t *node, size_t index)
{
    size_t k;
    json_t *producer;
    double latest = 0;
    json_array_foreach(json_object_get(node, "producers"), k,
                       producer) if (json_number_value(producer) > latest)
        latest = json_number_value(producer);
    if (index == 0 ? latest != 0 : latest < 1 || latest > (double)index)
        fail_msg("node %zu, %s, reads from node %.0f", index + 1, string(node, "operator"), latest);
}

static void check_nodes(const json_t *mode)
{
    const json_t *nodes = json_object_get(mode, "nodes");
    size_t i;
    json_t *node;
    double share = 0, ms = 0, shown = 0, slowest = 0;
    assert_true(json_array_size(nodes) > 20);
    json_array_foreach(nodes, i, node)
    {
        assert_int_equal(number(node, "index"), i + 1);
        assert_true(strlen(string(node, "operator")) > 0);
        assert_non_null(string(node, "path"));
        assert_non_null(string(node, "implementation"));
        assert_true(number(node, "gflops") >= 0 && number(node, "gbs") >= 0);
        assert_true(number(node, "limit_share") >= 0);
        assert_true(json_array_size(json_object_get(node, "out")) > 0);
        check_producers(node, i);
        share += number(node, "share");
        ms += number(node, "ms");
        shown += number(node, "shown_ms");
        if (number(node, "ms") > slowest) slowest = number(node, "ms");
    }
    assert_true(is_near(share, 1.0, 1e-6));
    assert_true(is_near(ms, number(mode, "nodes_ms"), 1e-4 * ms));
    /* The sum may be less than the run's time, which includes the time between nodes. */
    assert_true(shown > 0 && shown <= number(mode, "shown_run_ms") * 1.0001);
    const json_t *named = json_array_get(nodes, (size_t)number(mode, "slowest") - 1);
    assert_true(number(named, "ms") == slowest);
    check_reorders(mode);
}

/* In the sums by operator each node counts once. In those by module, the first row is the total. */
static void check_sums(const json_t *mode)
{
    size_t i;
    json_t *kind;
    double n = 0, ms = 0;
    json_array_foreach(json_object_get(mode, "kinds"), i, kind)
    {
        n += number(kind, "nodes");
        ms += number(kind, "ms");
    }
    const json_t *root = json_array_get(json_object_get(mode, "modules"), 0);
    const double n_nodes = (double)json_array_size(json_object_get(mode, "nodes"));
    assert_true(n == n_nodes && number(root, "nodes") == n_nodes);
    assert_true(is_near(ms, number(mode, "nodes_ms"), 1e-4 * ms));
    assert_true(is_near(number(root, "share"), 1.0, 1e-6));
    assert_string_equal(string(root, "path"), "");
}

static void json_of_every_mode_adds_up(void **state)
{
    (void)state;
    static const char *const modes[] = {"dense", "nhwc", "mkldnn", "graph", "frozen"};
    for (size_t m = 0; m < 5; m++) {
        char line[256];
        snprintf(line, sizeof line, "profile " MODEL " --json --mode %s", modes[m]);
        check(line, 0, "out", modes[m]);
        json_t *json = parse("out");
        assert_string_equal(string(json, "mode"), modes[m]);
        assert_true(number(json_object_get(json, "limits"), "gflops") > 0);
        assert_true(number(json, "run_ms") > 0 && number(json, "runs") == 2);
        check_nodes(json);
        check_sums(json);
        if (m == 0) assert_true(number(json, "weight_reorders") == 26);
        if (m > 2) assert_true(number(json, "weight_reorders") == 0);
        json_decref(json);
    }
}

/* torchvision states 0.349e9 multiply-adds for SqueezeNet 1.1 at 3x224x224. */
static void flops_are_those_that_torchvision_states(void **state)
{
    (void)state;
    check("profile zoo:squeezenet1_1 --iterations 1 --json", 0, "out", "squeezenet");
    json_t *json = parse("out"), *node;
    size_t i;
    double flops = 0;
    json_array_foreach(json_object_get(json, "nodes"), i,
                       node) if (strcmp(string(node, "operator"), "conv2d") == 0)
        flops += number(node, "flops");
    assert_true(is_near(flops / 2e9, 0.349, 0.0005));
    json_decref(json);
}

static void a_second_mode_stands_in_the_same_object(void **state)
{
    (void)state;
    check("profile " MODEL " --mode dense --against frozen --json", 0, "out", "\"against\":{");
    json_t *json = parse("out");
    const json_t *against = json_object_get(json, "against");
    assert_string_equal(string(against, "mode"), "frozen");
    check_nodes(json);
    check_nodes(against);
    check_sums(against);
    json_decref(json);
}

/* ---- the table ---- */

static void the_table_names_the_slowest_node_and_the_reorders(void **state)
{
    (void)state;
    check("profile " MODEL " --mode dense", 0, "out", "slowest: #");
    char *text = read_file("out");
    assert_non_null(strstr(text, "input abcd>"));
    assert_non_null(strstr(text, "reorders: weight 26 "));
    assert_non_null(strstr(text, "by operator"));
    assert_non_null(strstr(text, "by module"));
    assert_non_null(strstr(text, "expand3x3"));
    assert_null(strchr(text, '\x1b')); /* stdout is no terminal */
    free(text);
    check("profile " MODEL " --mode mkldnn --against dense", 0, "out", "mkldnn / dense: ");
}

/* ---- the trace ---- */

/* Two events of one thread must not overlap, unless one is inside the other. */
static void check_nesting(const json_t *events, double pid)
{
    double ends[128];
    int depth = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (string(event, "ph")[0] != 'X' || number(event, "pid") != pid) continue;
        const double begin = number(event, "ts"), end = begin + number(event, "dur");
        while (depth > 0 && begin >= ends[depth - 1] - 0.0015) depth--;
        if (depth > 0 && end > ends[depth - 1] + 0.0025)
            fail_msg("event %zu, %s, ends at %f, around it ends at %f", i, string(event, "name"),
                     end, ends[depth - 1]);
        assert_true(depth < 128);
        ends[depth++] = end;
    }
}

static void the_trace_has_legal_events_in_each_other(void **state)
{
    (void)state;
    check("profile " MODEL " --mode dense --against frozen --trace trace.json", 0, "out",
          "trace.json: ");
    json_t *json = parse("trace.json"), *event;
    const json_t *events = json_object_get(json, "traceEvents");
    size_t i;
    int n_operators = 0, n_reorders = 0, n_modules = 0, n_names = 0;
    json_array_foreach(events, i, event)
    {
        const char *phase = string(event, "ph");
        assert_true(strcmp(phase, "X") == 0 || strcmp(phase, "M") == 0);
        assert_true(number(event, "pid") >= 1 && number(event, "tid") == 1);
        assert_true(number(event, "ts") >= 0);
        assert_true(strlen(string(event, "name")) > 0);
        if (phase[0] == 'M') {
            n_names++;
            continue;
        }
        assert_true(number(event, "dur") >= 0);
        const char *category = string(event, "cat");
        const bool is_dense = number(event, "pid") == 1;
        n_operators += is_dense && strcmp(category, "operator") == 0;
        n_reorders += is_dense && strcmp(category, "reorder") == 0;
        n_modules += is_dense && strcmp(category, "module") == 0;
    }
    assert_int_equal(n_names, 4);
    assert_int_equal(n_operators, 66);
    assert_true(n_reorders >= 3 * 25 && n_modules > 30);
    check_nesting(events, 1);
    check_nesting(events, 2);
    json_decref(json);
}

/* ---- the page ---- */

static json_t *parse_page(const char *name)
{
    char *page = read_file(name);
    char *begin = strstr(page, "id=\"data\">");
    assert_non_null(begin);
    begin += strlen("id=\"data\">");
    char *end = strstr(begin, "</script>");
    assert_non_null(end);
    *end = '\0';
    assert_null(strpbrk(begin, "<>&")); /* no character that HTML interprets */
    json_t *json = json_loads(begin, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    free(page);
    return json;
}

static void the_page_needs_nothing_else(void **state)
{
    (void)state;
    check("profile " MODEL " --mode dense --against frozen --html page.html", 0, "out",
          "page.html: ");
    char *page = read_file("page.html");
    static const char *const words[] = {"http:", "https:", "src=",    "href=",   "@import",
                                        "url(",  "@DATA@", "@STYLE@", "@SCRIPT@"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(page, words[i]) != NULL) fail_msg("the page has %s", words[i]);
    free(page);
    json_t *json = parse_page("page.html");
    check_nodes(json);
    check_nodes(json_object_get(json, "against"));
    json_decref(json);
}

#ifdef TESSERA_HAVE_ONNX
#define EVIL "</script><script>alert('&')</script>\xe2\x80\xa8 \"q\" \\ \x01"

/* A node's name is the path of its module, which may have any characters. The page must escape
 * those that HTML interprets. */
static void names_in_a_model_are_no_html(void **state)
{
    (void)state;
    char path[256];
    size_t n_bytes = 0;
    begin_model(13, DIMS(1, 3));
    maker_node(&maker, "Relu", EVIL, "x", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    snprintf(path, sizeof path, "%s/evil.onnx", scratch);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, n_bytes, file);
    fclose(file);
    free(bytes);
    check("profile evil.onnx --mode dense --iterations 1 --html evil.html --json", 0, "out",
          "relu");
    json_t *json = parse_page("evil.html"), *printed = parse("out");
    const json_t *node = json_array_get(json_object_get(json, "nodes"), 0);
    assert_string_equal(string(node, "path"), EVIL);
    assert_true(json_equal(json, printed));
    json_decref(json);
    json_decref(printed);
    char *page = read_file("evil.html");
    assert_null(strstr(page, "<script>alert"));
    free(page);
}
#endif

/* ---- errors ---- */

static void wrong_arguments_are_reported(void **state)
{
    (void)state;
    check("profile " MODEL " --mode quick", 2, "err", "--mode quick, must be dense, nhwc");
    check("profile " MODEL " --against densest", 2, "err", "did you mean dense?");
    check("profile " MODEL " --mode dense --against dense", 2, "err", "must differ from --mode");
    check("profile nothing", 2, "err", "is not a model");
    check("profile " MODEL " --iterations 0", 2, "err", "--iterations");
    check("profile " MODEL " --trace none/trace.json", 1, "err", "none/trace.json");
    check("profile " MODEL " --html none/page.html", 1, "err", "none/page.html");
    check("profile zoo:nothing", 1, "err", "tessera profile: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_of_every_mode_adds_up),
        cmocka_unit_test(flops_are_those_that_torchvision_states),
        cmocka_unit_test(a_second_mode_stands_in_the_same_object),
        cmocka_unit_test(the_table_names_the_slowest_node_and_the_reorders),
        cmocka_unit_test(the_trace_has_legal_events_in_each_other),
        cmocka_unit_test(the_page_needs_nothing_else),
#ifdef TESSERA_HAVE_ONNX
        cmocka_unit_test(names_in_a_model_are_no_html),
#endif
        cmocka_unit_test(wrong_arguments_are_reported),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
#else
int main(void)
{
    return 0; /* the JSON parser is not available */
}
#endif
