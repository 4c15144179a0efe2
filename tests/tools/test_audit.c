/* The reader of oneDNN's verbose output, tested on lines of each oneDNN version. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "tools/audit/audit.h"

static bool read_line(audit_t *audit, const char *line)
{
    memset(audit, 0, sizeof *audit);
    return audit_line(audit, line);
}

/* Checks that the line is one reorder with this cause, bytes and time. */
static void check_reorder(const char *line, audit_cause_t cause, uint64_t bytes, double ms)
{
    static audit_t audit;
    if (!read_line(&audit, line)) fail_msg("not read: %s", line);
    if (audit.reorders[cause].n != 1) fail_msg("not %s: %s", audit_cause_name(cause), line);
    assert_int_equal(audit_reorders(&audit).n, 1);
    assert_int_equal(audit.total.n, 1);
    assert_int_equal(audit.n_malformed, 0);
    if (audit.total.bytes != bytes)
        fail_msg("%llu bytes, not %llu: %s", (unsigned long long)audit.total.bytes,
                 (unsigned long long)bytes, line);
    assert_true(audit.total.ms > ms - 1e-9 && audit.total.ms < ms + 1e-9);
}

static void reorders_of_every_version_are_read(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,num:1,1x16x8x8,0.25",
        "mkldnn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd8b:f0,,,1x16x8x8,0.25",
        "dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,0.25",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,attr-scratchpad:user ,,1x16x8x8,0.25",
        "onednn_verbose,1693529119.73,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,0.25",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd::f0 "
        "dst_f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25",
        "onednn_verbose,primitive,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd::f0 "
        "dst_f32:p:blocked:aBcd16b::f0,,,1x16x8x8,0.25",
        "onednn_verbose,primitive,1693529119.73,exec,cpu,reorder,jit:uni,undef,"
        "src_f32::blocked:abcd::f0 dst_f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25",
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
        "dst:f32:p:blocked:aBcd16b::f0,attr-scratchpad:user,,1x16x8x8,0.25",
        "onednn_verbose,v1,1693529119.73,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd:1024x64x8x1:f0 dst:f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25",
        "onednn_verbose,v1,primitive,exec,gpu,reorder,ocl:any,undef,src:f32::blocked:abcd::f0 "
        "dst:f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        check_reorder(lines[i], AUDIT_ACTIVATION, 1024 * 8, 0.25);
}

static void a_line_is_found_behind_other_output(void **state)
{
    (void)state;
    check_reorder("[pid 7] loss 0.3 onednn_verbose,exec,cpu,reorder,jit:uni,undef,"
                  "src_f32::blocked:ab:f0 dst_bf16::blocked:ab:f0,,,4x4,0.5\r\n",
                  AUDIT_COPY, 16 * 6, 0.5);
}

static void a_decimal_comma_is_understood(void **state)
{
    (void)state;
    check_reorder("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nChw8c out:f32_nchw,num:1,"
                  "2x8x4x4,1,432",
                  AUDIT_ACTIVATION, 256 * 8, 1.432);
    check_reorder("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_x out:f32_x,num:1,144,4",
                  AUDIT_COPY, 144 * 8, 4.0);
    check_reorder("onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:a:f0 "
                  "dst_f32::blocked:a:f0,,,144,4",
                  AUDIT_COPY, 144 * 8, 4.0);
}

static void check_formats(const char *src, const char *dst, audit_cause_t cause)
{
    char line[512];
    snprintf(line, sizeof line,
             "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::%s:f0 dst_f32::%s:f0,,,2,1",
             src, dst);
    check_reorder(line, cause, 16, 1.0);
}

static void causes_are_judged_from_formats(void **state)
{
    (void)state;
    check_formats("blocked:abcd", "blocked:ABcd16b16a", AUDIT_WEIGHT);
    check_formats("blocked:ABcd16b16a", "blocked:abcd", AUDIT_WEIGHT);
    check_formats("blocked:abcd", "blocked:Acdb16a", AUDIT_WEIGHT);
    check_formats("blocked:abcd", "blocked:cdba", AUDIT_WEIGHT);
    check_formats("blocked:ab", "blocked:ba", AUDIT_WEIGHT);
    check_formats("blocked:ab", "blocked:BA16a64b4a", AUDIT_WEIGHT);
    check_formats("blocked:abcde", "blocked:Abcde16a", AUDIT_WEIGHT);
    check_formats("blocked:abcde", "blocked:debcA16a", AUDIT_WEIGHT);
    check_formats("blocked:abcde", "blocked:aBCde4b4c", AUDIT_WEIGHT);
    check_formats("blocked:abcde", "blocked:aBdec16b", AUDIT_WEIGHT);
    check_formats("blocked:abcd", "wino:wino_fmt", AUDIT_WEIGHT);
    check_formats("blocked:abcde", "rnn_packed:rnn_fmt", AUDIT_WEIGHT);
    check_formats("blocked:abcd", "blocked:aBcd16b", AUDIT_ACTIVATION);
    check_formats("blocked:acdb", "blocked:abcd", AUDIT_ACTIVATION);
    check_formats("blocked:abcde", "blocked:aBcde16b", AUDIT_ACTIVATION);
    check_formats("blocked:abcd", "blocked:abcd", AUDIT_COPY);
    check_formats("blocked:ABcd16b16a", "blocked:ABcd16b16a", AUDIT_COPY);
    check_formats("blocked:aBcd16b", "blocked:aBcd16b", AUDIT_COPY);
    check_formats("wino:wino_fmt", "wino:wino_fmt", AUDIT_WEIGHT);
    check_formats("blocked:acdb", "blocked:aBcd16b", AUDIT_MISMATCH);
    check_formats("blocked:aBcd8b", "blocked:aBcd16b", AUDIT_MISMATCH);
}

static void compensation_and_old_names_tell_weights(void **state)
{
    (void)state;
    check_reorder("onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_s8::blocked:abcd:f0 "
                  "dst_s8::blocked:abcd:f8:zpm1,,,8,1",
                  AUDIT_WEIGHT, 16, 1.0);
    check_reorder("onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_s8::blocked:abcd:f0 "
                  "dst_s8::blocked:acdb:f8,,,8,1",
                  AUDIT_WEIGHT, 16, 1.0);
    check_reorder("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_hwio out:f32_Ohwi8o,num:1,"
                  "8x1x1x1,1",
                  AUDIT_WEIGHT, 64, 1.0);
    check_reorder("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_goihw out:f32_gOhwi8o,num:1,"
                  "1x8x1x1x1,1",
                  AUDIT_WEIGHT, 64, 1.0);
    check_reorder("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nhwc out:f32_nChw8c,num:1,"
                  "1x8x1x1,1",
                  AUDIT_MISMATCH, 64, 1.0);
}

static void kinds_and_references_are_summed(void **state)
{
    (void)state;
    static audit_t audit;
    memset(&audit, 0, sizeof audit);
    const char *conv = "onednn_verbose,exec,cpu,convolution,%s,forward_inference,"
                       "src_f32::blocked:abcd:f0 wei_f32::blocked:Acdb16a:f0 "
                       "bia_undef::undef::f0 dst_f32::blocked:aBcd16b:f0,attr-scratchpad:user ,"
                       "alg:convolution_direct,mb1_ic3oc64_ih224oh112kh7sh2dh0ph3,%s";
    static const char *const made[][2] = {{"jit:avx512_core", "0.5"},
                                          {"ref:any", "2"},
                                          {"conv:any+ref:any", "2"},
                                          {"ref_fused_convolution:any", "1"},
                                          {"prefer:any", "1"}};
    char line[512];
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        const char *hole = strstr(conv, "%s");
        snprintf(line, sizeof line, "%.*s%s%.*s%s", (int)(hole - conv), conv, made[i][0],
                 (int)(strrchr(conv, '%') - hole - 2), hole + 2, made[i][1]);
        assert_true(audit_line(&audit, line));
    }
    assert_true(audit_line(&audit,
                           "onednn_verbose,exec,cpu,eltwise,jit:avx512_core,"
                           "forward_inference,data_f32::blocked:aBcd16b:f0 diff_undef::"
                           "undef::f0,,alg:eltwise_relu alpha:0 beta:0,1x64x112x112,0.125"));
    assert_int_equal(audit_of(&audit, "convolution").n, 5);
    assert_int_equal(audit.kinds[0].reference.n, 3);
    assert_true(audit.kinds[0].reference.ms == 5.0);
    assert_int_equal(audit_of(&audit, "eltwise").n, 1);
    assert_int_equal(audit_reorders(&audit).n, 0);
    assert_true(audit.total.ms == 6.625);
    assert_int_equal(audit.n_lines, 6);
}

static void equal_pairs_of_formats_are_one(void **state)
{
    (void)state;
    static audit_t audit;
    memset(&audit, 0, sizeof audit);
    for (int i = 0; i < 3; i++)
        audit_line(&audit, "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
                           "dst_bf16::blocked:aBcd16b:f0,,,1x16x8x8,0.25");
    assert_int_equal(audit.n_pairs, 1);
    assert_string_equal(audit.pairs[0].src, "f32 abcd");
    assert_string_equal(audit.pairs[0].dst, "bf16 aBcd16b");
    assert_int_equal(audit.pairs[0].total.n, 3);
}

static void other_lines_are_skipped(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "\n",
        "hello, world",
        "onednn_verbose,",
        "onednn_verbose,info,oneDNN v2.6.3 (commit N/A)",
        "onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost",
        "onednn_verbose,info,prim_template:operation,engine,primitive,implementation,prop_kind,"
        "memory_descriptors,attributes,auxiliary,problem_desc,exec_time",
        "onednn_verbose,v1,primitive,info,template:operation,engine,primitive",
        "onednn_verbose,create:cache_miss,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,0.25",
        "onednn_verbose,v1,primitive,create_nested:cache_hit,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd::f0 dst:f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25",
        "onednn_verbose,primitive,exec:check,primitive,unused primitive execution argument (4113)",
        "onednn_verbose,v1,graph,exec,cpu,100002,conv_post_ops,conv,,,fpm:strict,dnnl_backend,0.1",
        "xonednn_verbos,exec,cpu,reorder,jit:uni,undef,a b,,,1,1",
    };
    static audit_t audit;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (read_line(&audit, lines[i])) fail_msg("read: %s", lines[i]);
        if (audit.n_malformed != 0) fail_msg("called malformed: %s", lines[i]);
        assert_int_equal(audit.total.n, 0);
    }
}

/* A line that is incomplete or mixed with another one must be counted as malformed, and as nothing
 * else. */
static void garbled_lines_are_told_apart(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "onednn_verbose,exec",
        "onednn_verbose,exec,",
        "onednn_verbose,exec,cpu",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32,,,8,1",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,,,,8,1",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,fast",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,-1",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,nan",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1xx8,1",
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,99999999999x99999999999x99,1",
        "onednn_verbose,exec,tpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,8,1",
        "mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32 out:f32,num:1,8,1",
    };
    static audit_t audit;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (read_line(&audit, lines[i])) fail_msg("read: %s", lines[i]);
        if (audit.n_malformed != 1) fail_msg("not called malformed: %s", lines[i]);
        assert_int_equal(audit.total.n, 0);
        assert_int_equal(audit_reorders(&audit).n, 0);
    }
}

static void every_prefix_of_a_line_is_survived(void **state)
{
    (void)state;
    static const char line[] =
        "onednn_verbose,v1,1693529119.73,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd:1024x64x8x1:f0 dst:f32::blocked:aBcd16b::f0,,,1x16x8x8,0.25";
    static audit_t audit;
    char part[sizeof line];
    memset(&audit, 0, sizeof audit);
    for (size_t n = 0; n < sizeof line; n++) {
        memcpy(part, line, n);
        part[n] = '\0';
        audit_line(&audit, part);
    }
    assert_int_equal(audit.n_lines, sizeof line);
}

static void too_many_kinds_and_pairs_stay_in_the_sums(void **state)
{
    (void)state;
    static audit_t audit;
    char line[512];
    memset(&audit, 0, sizeof audit);
    for (int i = 0; i < 300; i++) {
        snprintf(line, sizeof line, "onednn_verbose,exec,cpu,kind%d,jit,undef,a,,,1,1", i);
        assert_true(audit_line(&audit, line));
        snprintf(line, sizeof line,
                 "onednn_verbose,exec,cpu,reorder,jit,undef,src_f32::blocked:aBcd%db:f0 "
                 "dst_f32::blocked:abcd:f0,,,1,1",
                 i + 1);
        assert_true(audit_line(&audit, line));
    }
    uint64_t n = 0;
    for (int i = 0; i < audit.n_kinds; i++) n += audit.kinds[i].total.n;
    assert_int_equal(audit.n_kinds, AUDIT_MAX_KINDS);
    assert_int_equal(audit.n_pairs, AUDIT_MAX_PAIRS);
    assert_int_equal(n, 600);
    assert_int_equal(audit_reorders(&audit).n, 300);
    assert_int_equal(audit.reorders[AUDIT_ACTIVATION].n, 300);
}

/* ---- complete logs ---- */

#define LOGS TESSERA_SOURCE_DIR "/tests/tools/logs/"
#define MAX_EXECUTIONS 64

typedef struct whole_log {
    audit_t audit;
    size_t n;
    audit_execution_t executions[MAX_EXECUTIONS];
    bool has_steady;
    audit_steady_t steady;
} whole_log_t;

static void read_log(const char *path, whole_log_t *log)
{
    static char line[4096];
    static size_t scratch[MAX_EXECUTIONS];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    memset(log, 0, sizeof *log);
    while (fgets(line, sizeof line, file) != NULL)
        if (audit_line(&log->audit, line)) log->executions[log->n++] = log->audit.last;
    fclose(file);
    assert_int_equal(log->audit.n_malformed, 0);
    log->has_steady = audit_find_steady(log->n, log->executions, scratch, &log->steady);
}

/* Counts the reorders by cause among the executions from begin to end. */
static void check_causes(const whole_log_t *log, size_t begin, size_t end,
                         const int (*wanted)[AUDIT_CAUSE_COUNT])
{
    int n[AUDIT_CAUSE_COUNT] = {0};
    for (size_t i = begin; i < end; i++)
        if (log->executions[i].is_reorder) n[log->executions[i].cause]++;
    for (int cause = 0; cause < AUDIT_CAUSE_COUNT; cause++)
        if (n[cause] != (*wanted)[cause])
            fail_msg("%d of %s, not %d, in executions %zu to %zu", n[cause],
                     audit_cause_name((audit_cause_t)cause), (*wanted)[cause], begin, end);
}

/* The log of two convolutions with oneDNN 2.6, counted by hand: first row-major between operators
 * (2 weight and 4 activation reorders), then with 2 packed weights (2 and 1), then 3 times with
 * only the output reordered. */
static void a_log_of_onednn_2_has_set_up_and_a_steady_state(void **state)
{
    (void)state;
    static whole_log_t log;
    read_log(LOGS "onednn-2.6.txt", &log);
    assert_string_equal(log.audit.version, "2.6.3");
    assert_int_equal(log.n, 22);
    assert_true(log.has_steady);
    assert_int_equal(log.steady.first, 13);
    assert_int_equal(log.steady.length, 3);
    assert_int_equal(log.steady.n_times, 3);
    check_causes(&log, 0, 13, &(const int[]){[AUDIT_WEIGHT] = 4, [AUDIT_ACTIVATION] = 5, [3] = 0});
    check_causes(&log, 13, 22, &(const int[]){[AUDIT_ACTIVATION] = 3, [3] = 0});
}

/* The log of PyTorch 2.13 with oneDNN 3.12: to_mkldnn of two convolutions copies their 2 weights
 * and 2 biases and packs the weights. Each of 3 inferences copies the input, reorders the second
 * weight again, and reorders the output. */
static void copies_of_weights_in_pytorch_s_log_are_no_activation_reorders(void **state)
{
    (void)state;
    static whole_log_t log;
    read_log(LOGS "pytorch-onednn-3.12.txt", &log);
    assert_string_equal(log.audit.version, "3.12.0");
    assert_int_equal(log.n, 24);
    assert_true(log.has_steady);
    assert_int_equal(log.steady.first, 6);
    assert_int_equal(log.steady.length, 6);
    assert_int_equal(log.steady.n_times, 3);
    check_causes(&log, 0, 6, &(const int[]){[AUDIT_COPY] = 4, [AUDIT_WEIGHT] = 2, [3] = 0});
    check_causes(
        &log, 6, 24,
        &(const int[]){[AUDIT_COPY] = 3, [AUDIT_WEIGHT] = 3, [AUDIT_ACTIVATION] = 3, [3] = 0});
}

/* Checks which executions of a log repeat. Each letter is an execution; equal letters are equal
 * ones. */
static void check_steady(const char *letters, size_t first, size_t length, int64_t n_times)
{
    audit_execution_t executions[MAX_EXECUTIONS];
    size_t scratch[MAX_EXECUTIONS], n = strlen(letters);
    audit_steady_t steady = {0, 0, 0};
    for (size_t i = 0; i < n; i++)
        executions[i] = (audit_execution_t){.signature = (uint64_t)letters[i]};
    bool is_found = audit_find_steady(n, executions, scratch, &steady);
    if (is_found != (n_times > 0) || steady.first != first || steady.length != length ||
        steady.n_times != n_times)
        fail_msg("%s: %zu, then %zu %d times", letters, steady.first, steady.length,
                 (int)steady.n_times);
}

static void a_steady_state_is_what_the_log_ends_in_again_and_again(void **state)
{
    (void)state;
    check_steady("", 0, 0, 0);
    check_steady("a", 0, 0, 0);
    check_steady("abcdefgh", 0, 0, 0);
    check_steady("xaybcabcabc", 5, 3, 2);
    check_steady("xaybzcabcabcabc", 6, 3, 3);
    check_steady("abababab", 0, 2, 4);
    check_steady("wabaabaaba", 1, 3, 3);
    check_steady("xabcabcabcyz", 1, 3, 3);
    check_steady("abcdefghijkk", 0, 0, 0);
}

static void versions_are_named_as_each_log_writes_them(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"mkldnn_verbose,info,Intel(R) MKL-DNN v0.17.0 (Git Hash 5c21b5a)", "0.17.0"},
        {"dnnl_verbose,info,DNNL v1.1.0 (commit N/A)", "1.1.0"},
        {"onednn_verbose,info,oneDNN v2.6.3 (commit N/A)", "2.6.3"},
        {"onednn_verbose,v1,info,oneDNN v3.5.0 (commit N/A)", "3.5.0"},
        {"onednn_verbose,info,cpu,runtime:OpenMP,nthr:2", ""},
        {"onednn_verbose,info", ""},
    };
    static audit_t audit;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        read_line(&audit, lines[i][0]);
        assert_string_equal(audit.version, lines[i][1]);
    }
    read_line(&audit, lines[2][0]);
    audit_line(&audit, lines[3][0]);
    assert_string_equal(audit.version, "2.6.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reorders_of_every_version_are_read),
        cmocka_unit_test(a_line_is_found_behind_other_output),
        cmocka_unit_test(a_decimal_comma_is_understood),
        cmocka_unit_test(causes_are_judged_from_formats),
        cmocka_unit_test(compensation_and_old_names_tell_weights),
        cmocka_unit_test(kinds_and_references_are_summed),
        cmocka_unit_test(equal_pairs_of_formats_are_one),
        cmocka_unit_test(other_lines_are_skipped),
        cmocka_unit_test(garbled_lines_are_told_apart),
        cmocka_unit_test(every_prefix_of_a_line_is_survived),
        cmocka_unit_test(too_many_kinds_and_pairs_stay_in_the_sums),
        cmocka_unit_test(a_log_of_onednn_2_has_set_up_and_a_steady_state),
        cmocka_unit_test(copies_of_weights_in_pytorch_s_log_are_no_activation_reorders),
        cmocka_unit_test(a_steady_state_is_what_the_log_ends_in_again_and_again),
        cmocka_unit_test(versions_are_named_as_each_log_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
