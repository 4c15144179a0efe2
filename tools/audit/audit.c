#include "tools/audit/audit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#define MAX_FIELDS 32

/* A part of a line; no zero byte ends it. */
typedef struct piece {
    const char *at;
    size_t length;
} piece_t;

/* The source or destination of a reorder. */
typedef struct side {
    char dtype[16];
    char kind[16];
    char tag[AUDIT_FORMAT_MAX - 16];
    bool has_compensation;
} side_t;

/* The fields of a line that records an execution. */
typedef struct line_fields {
    piece_t kind, implementation, tensors, problem;
    piece_t all; /* all fields from the engine to the problem */
    double ms;
} line_fields_t;

const char *audit_cause_name(audit_cause_t cause)
{
    static const char *const names[AUDIT_CAUSE_COUNT] = {"copy", "weight", "activation",
                                                         "mismatch"};
    return names[cause];
}

/* ---- pieces ---- */

static bool is_word(piece_t piece, const char *word)
{
    return piece.length == strlen(word) && memcmp(piece.at, word, piece.length) == 0;
}

static void copy_piece(char *out, size_t capacity, piece_t piece)
{
    size_t length = piece.length < capacity - 1 ? piece.length : capacity - 1;
    memcpy(out, piece.at, length);
    out[length] = '\0';
}

static int split(piece_t text, char separator, int max, piece_t *out_pieces)
{
    int n = 0;
    const char *at = text.at, *end = text.at + text.length;
    while (n < max) {
        const char *next = memchr(at, separator, (size_t)(end - at));
        if (next == NULL) next = end;
        out_pieces[n++] = (piece_t){at, (size_t)(next - at)};
        if (next == end) break;
        at = next + 1;
    }
    return n;
}

static bool all_digits(piece_t piece)
{
    for (size_t i = 0; i < piece.length; i++)
        if (!isdigit((unsigned char)piece.at[i])) return false;
    return piece.length > 0;
}

static bool parse_number(piece_t piece, double *out_number)
{
    char text[64], *end = NULL;
    if (piece.length == 0 || piece.length >= sizeof text) return false;
    copy_piece(text, sizeof text, piece);
    double number = strtod(text, &end);
    if (*end != '\0' || !(number >= 0.0) || number > 1e15) return false;
    *out_number = number;
    return true;
}

/* ---- formats ---- */

/* Names of weight formats in oneDNN 0.x contain o (output channel) and i (input channel). */
static bool is_old_weight_name(const char *name)
{
    return strpbrk(name, "oO") != NULL && strpbrk(name, "iI") != NULL && strcmp(name, "undef") != 0;
}

bool audit_is_weight_format(const char *kind, const char *tag)
{
    if (kind[0] == '\0') return is_old_weight_name(tag);
    if (strcmp(kind, "blocked") != 0 && strcmp(kind, "any") != 0 && strcmp(kind, "undef") != 0)
        return true;
    unsigned blocked = 0;
    bool is_ascending = true;
    char previous = 0;
    for (const char *at = tag; *at != '\0'; at++) {
        if (isdigit((unsigned char)*at)) {
            while (isdigit((unsigned char)*at)) at++;
            if (*at == '\0') break;
            if (islower((unsigned char)*at)) blocked |= 1u << (*at - 'a');
        } else if (isalpha((unsigned char)*at)) {
            char letter = (char)tolower((unsigned char)*at);
            if (letter < previous) is_ascending = false;
            previous = letter;
        }
    }
    if (tag[0] != '\0' && tolower((unsigned char)tag[0]) != 'a') return true;
    if ((blocked & (blocked - 1)) != 0 || (blocked & 1) != 0) return true;
    return blocked != 0 && !is_ascending;
}

static bool is_row_major(const side_t *side)
{
    if (side->kind[0] == '\0') {
        static const char *const plain[] = {"x", "nc", "ncw", "nchw", "ncdhw", "oihw", "goihw"};
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
            if (strcmp(side->tag, plain[i]) == 0) return true;
        return false;
    }
    for (int i = 0; side->tag[i] != '\0'; i++)
        if (side->tag[i] != 'a' + i) return false;
    return true;
}

static size_t dtype_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"f64", 8}, {"s64", 8},  {"f32", 4}, {"s32", 4},
                 {"f16", 2}, {"bf16", 2}, {"s16", 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(dtype, sizes[i].name) == 0) return sizes[i].bytes;
    return 1;
}

/* Parses "src_f32::blocked:abcd:f0", "src_f32:p:blocked:abcd:8x4x2x1:f0",
 * "src:f32::blocked:abcd::f0" or "in:f32_nchw". */
static bool parse_side(piece_t text, side_t *out_side)
{
    piece_t part[8], first[2];
    int n = split(text, ':', 8, part), n_first = split(part[0], '_', 2, first);
    *out_side = (side_t){.has_compensation = false};
    if (n == 2 && (is_word(part[0], "in") || is_word(part[0], "out"))) {
        if (split(part[1], '_', 2, first) != 2) return false;
        copy_piece(out_side->dtype, sizeof out_side->dtype, first[0]);
        copy_piece(out_side->tag, sizeof out_side->tag, first[1]);
        return true;
    }
    /* After the name come type, flags, kind, tag, strides (optional) and extra. */
    int at = n_first == 2 ? 0 : 1;
    if (n < at + 4) return false;
    copy_piece(out_side->dtype, sizeof out_side->dtype, n_first == 2 ? first[1] : part[1]);
    copy_piece(out_side->kind, sizeof out_side->kind, part[at + 2]);
    copy_piece(out_side->tag, sizeof out_side->tag, part[at + 3]);
    if (out_side->kind[0] == '\0') return false;
    for (int i = at + 4; i < n; i++)
        if (part[i].length > 1 && part[i].at[0] == 'f' && part[i].at[1] != '0')
            out_side->has_compensation = true;
    return true;
}

static bool is_weight(const side_t *side)
{
    return side->has_compensation || audit_is_weight_format(side->kind, side->tag);
}

/* Equal tags mean equal formats only for blocked kinds. An opaque kind has the same tag for all its
 * formats. */
static bool is_copy(const side_t *src, const side_t *dst)
{
    bool is_open = strcmp(src->kind, "blocked") == 0 || src->kind[0] == '\0';
    return is_open && strcmp(src->kind, dst->kind) == 0 && strcmp(src->tag, dst->tag) == 0 &&
           !src->has_compensation && !dst->has_compensation;
}

static audit_cause_t judge(const side_t *src, const side_t *dst)
{
    if (is_copy(src, dst)) return AUDIT_COPY;
    if (is_weight(src) || is_weight(dst)) return AUDIT_WEIGHT;
    return is_row_major(src) || is_row_major(dst) ? AUDIT_ACTIVATION : AUDIT_MISMATCH;
}

/* ---- lines ---- */

/* Splits the line into fields, from the marker (such as onednn_verbose) to its end. */
static int split_line(const char *line, piece_t *out_fields, bool *out_is_old)
{
    static const char *const markers[] = {"onednn_verbose,", "mkldnn_verbose,", "dnnl_verbose,"};
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
        const char *begin = strstr(line, markers[i]);
        if (begin == NULL) continue;
        begin += strlen(markers[i]);
        size_t length = strcspn(begin, "\r\n");
        while (length > 0 && isspace((unsigned char)begin[length - 1])) length--;
        *out_is_old = i == 1;
        return split((piece_t){begin, length}, ',', MAX_FIELDS, out_fields);
    }
    return 0;
}

/* Returns the index of the field "exec" or "info", or -1. Before it, only a version, a component
 * and a time stamp are allowed. */
static int find_word(int n, const piece_t *fields, const char *word)
{
    for (int i = 0; i < n && i < 4; i++) {
        if (is_word(fields[i], word)) return i;
        bool is_stamp = fields[i].length > 0 && isdigit((unsigned char)fields[i].at[0]);
        if (!is_word(fields[i], "v1") && !is_word(fields[i], "primitive") && !is_stamp) return -1;
    }
    return -1;
}

/* Reads the version in the first line, "info,oneDNN v2.6.3 (commit N/A)". */
static void take_version(audit_t *audit, int n, const piece_t *fields)
{
    int at = find_word(n, fields, "info");
    if (at < 0 || at + 1 == n || audit->version[0] != '\0') return;
    piece_t text = fields[at + 1];
    for (size_t i = 0; i + 2 < text.length; i++) {
        if (text.at[i] != ' ' || text.at[i + 1] != 'v' || !isdigit((unsigned char)text.at[i + 2]))
            continue;
        size_t begin = i + 2, end = begin;
        while (end < text.length && text.at[end] != ' ') end++;
        copy_piece(audit->version, sizeof audit->version, (piece_t){text.at + begin, end - begin});
        return;
    }
}

/* The last field is the time, and the field before it describes the sizes. In some locales a time
 * is "1,432", which is two fields. */
static bool parse_tail(int first, int n, const piece_t *fields, line_fields_t *out_line)
{
    piece_t last = fields[n - 1], before = fields[n - 2], third = fields[n - 3];
    bool is_decimal_comma = n - 3 > first && all_digits(last) && all_digits(before) &&
                            third.length > 0 && memchr(third.at, ':', third.length) == NULL;
    if (!is_decimal_comma) {
        out_line->problem = before;
        return parse_number(last, &out_line->ms);
    }
    double whole = 0.0, fraction = 0.0;
    if (!parse_number(before, &whole) || !parse_number(last, &fraction)) return false;
    for (size_t i = 0; i < last.length; i++) fraction /= 10.0;
    out_line->problem = third;
    out_line->ms = whole + fraction;
    return true;
}

static bool parse_fields(int n, const piece_t *fields, bool is_old, line_fields_t *out_line)
{
    bool has_engine = n > 0 && (is_word(fields[0], "cpu") || is_word(fields[0], "gpu"));
    int first = has_engine ? 1 : 0;
    if ((!has_engine && !is_old) || n < first + 6) return false;
    out_line->kind = fields[first];
    out_line->implementation = fields[first + 1];
    out_line->tensors = fields[first + 3];
    if (out_line->kind.length == 0 || !parse_tail(first + 3, n, fields, out_line)) return false;
    const char *end = out_line->problem.at + out_line->problem.length;
    out_line->all = (piece_t){fields[0].at, (size_t)(end - fields[0].at)};
    return true;
}

/* ---- totals ---- */

static void add(audit_total_t *total, double ms, uint64_t bytes)
{
    total->n++;
    total->bytes += bytes;
    total->ms += ms;
}

static bool is_reference(piece_t implementation)
{
    for (size_t i = 0; i + 3 <= implementation.length; i++) {
        const char *at = implementation.at + i;
        if (memcmp(at, "ref", 3) != 0) continue;
        bool begins = i == 0 || !isalpha((unsigned char)at[-1]);
        bool ends = i + 3 == implementation.length || !isalpha((unsigned char)at[3]);
        if (begins && ends) return true;
    }
    return false;
}

static audit_kind_t *find_kind(audit_t *audit, piece_t name)
{
    for (int i = 0; i < audit->n_kinds; i++)
        if (is_word(name, audit->kinds[i].name)) return &audit->kinds[i];
    if (audit->n_kinds == AUDIT_MAX_KINDS) return &audit->kinds[AUDIT_MAX_KINDS - 1];
    audit_kind_t *kind = &audit->kinds[audit->n_kinds++];
    if (audit->n_kinds == AUDIT_MAX_KINDS) name = (piece_t){"other", 5};
    copy_piece(kind->name, sizeof kind->name, name);
    return kind;
}

static void add_pair(audit_t *audit, const side_t *src, const side_t *dst, audit_cause_t cause,
                     double ms, uint64_t bytes)
{
    audit_pair_t pair = {.cause = cause};
    snprintf(pair.src, sizeof pair.src, "%s %s", src->dtype, src->tag);
    snprintf(pair.dst, sizeof pair.dst, "%s %s", dst->dtype, dst->tag);
    int i = 0;
    while (i < audit->n_pairs &&
           (strcmp(audit->pairs[i].src, pair.src) != 0 ||
            strcmp(audit->pairs[i].dst, pair.dst) != 0 || audit->pairs[i].cause != cause))
        i++;
    if (i == AUDIT_MAX_PAIRS) return;
    if (i == audit->n_pairs) audit->pairs[audit->n_pairs++] = pair;
    add(&audit->pairs[i].total, ms, bytes);
}

/* Multiplies the sizes in "8x64x56x56". Returns false if the text is something else. */
static bool count_elements(piece_t problem, uint64_t *out_n)
{
    piece_t sizes[16];
    int n = split(problem, 'x', 16, sizes);
    uint64_t product = 1;
    for (int i = 0; i < n; i++) {
        double size = 0.0;
        if (!all_digits(sizes[i]) || !parse_number(sizes[i], &size)) return false;
        if (__builtin_mul_overflow(product, (uint64_t)size, &product)) return false;
    }
    *out_n = product;
    return true;
}

static bool add_reorder(audit_t *audit, const line_fields_t *line, audit_execution_t *execution)
{
    piece_t tensor[8];
    side_t src, dst;
    uint64_t n_elements = 0;
    if (split(line->tensors, ' ', 8, tensor) < 2 || !parse_side(tensor[0], &src) ||
        !parse_side(tensor[1], &dst) || !count_elements(line->problem, &n_elements))
        return false;
    uint64_t per_element = dtype_bytes(src.dtype) + dtype_bytes(dst.dtype);
    if (__builtin_mul_overflow(n_elements, per_element, &execution->bytes)) return false;
    execution->is_reorder = true;
    execution->cause = judge(&src, &dst);
    add(&audit->reorders[execution->cause], line->ms, execution->bytes);
    add_pair(audit, &src, &dst, execution->cause, line->ms, execution->bytes);
    return true;
}

bool audit_line(audit_t *audit, const char *line)
{
    piece_t fields[MAX_FIELDS];
    bool is_old = false;
    audit->n_lines++;
    int n = split_line(line, fields, &is_old);
    if (n == 0) return false;
    int at = find_word(n, fields, "exec");
    take_version(audit, n, fields);
    if (at < 0) return false;
    line_fields_t parsed = {.ms = 0.0};
    audit_execution_t execution = {.is_reorder = false};
    bool is_whole = parse_fields(n - at - 1, fields + at + 1, is_old, &parsed);
    if (is_whole && is_word(parsed.kind, "reorder"))
        is_whole = add_reorder(audit, &parsed, &execution);
    if (!is_whole) {
        audit->n_malformed++;
        return false;
    }
    execution.signature = file_checksum(parsed.all.at, parsed.all.length, 0);
    execution.ms = parsed.ms;
    audit_kind_t *kind = find_kind(audit, parsed.kind);
    add(&kind->total, parsed.ms, execution.bytes);
    if (is_reference(parsed.implementation)) add(&kind->reference, parsed.ms, execution.bytes);
    add(&audit->total, parsed.ms, execution.bytes);
    audit->last = execution;
    return true;
}

audit_total_t audit_of(const audit_t *audit, const char *kind)
{
    for (int i = 0; i < audit->n_kinds; i++)
        if (strcmp(audit->kinds[i].name, kind) == 0) return audit->kinds[i].total;
    return (audit_total_t){0};
}

audit_total_t audit_reorders(const audit_t *audit)
{
    return audit_of(audit, "reorder");
}
