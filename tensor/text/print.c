/* Prints in two passes over the elements that are shown: the first finds notation and width, the
 * second writes them. */
#include "tensor/text/print.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

#define MOST_ELEMENTS 1000 /* largest tensor that is shown completely */
#define EDGE 3             /* elements shown at each end of a dimension of a larger tensor */
#define LINE 80
#define DIGITS 4
#define NUMBER_MAX 400 /* "%.4f" of the largest double */

typedef struct printer {
    text_t *text;
    const tensor_info_t *info; /* dense */
    const char *bytes;
    bool is_cut;
    bool is_scientific, is_whole; /* for floating-point types only */
    double smallest, largest;     /* smallest and largest magnitude of finite nonzero elements */
    int width;
} printer_t;

static const char begin[] = "tensor(";

/* ---- one number ---- */

/* Replaces the locale's decimal point by ".". */
static void set_point(char *number)
{
    char *point = number + strspn(number, "-0123456789");
    size_t length = strcspn(point, "0123456789e");
    if (*point == '\0' || length == 0) return;
    *point = '.';
    memmove(point + 1, point + length, strlen(point + length) + 1);
}

static void write_floating(const printer_t *printer, double value, char *out_number)
{
    if (isnan(value) || isinf(value)) {
        snprintf(out_number, NUMBER_MAX, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (printer->is_scientific)
        snprintf(out_number, NUMBER_MAX, "%.*e", DIGITS, value);
    else if (printer->is_whole)
        snprintf(out_number, NUMBER_MAX, "%.0f.", value);
    else
        snprintf(out_number, NUMBER_MAX, "%.*f", DIGITS, value);
    set_point(out_number);
}

static void write_number(const printer_t *printer, int64_t at, char *out_number)
{
    const dtype_t dtype = printer->info->dtype;
    const void *element = printer->bytes + at * (int64_t)dtype_size(dtype);
    const int64_t integer = dtype_load_integer(dtype, element);
    if (dtype_is_floating(dtype))
        write_floating(printer, dtype_load(dtype, element), out_number);
    else if (dtype == DTYPE_BOOL)
        snprintf(out_number, NUMBER_MAX, integer != 0 ? "True" : "False");
    else if (dtype_is_unsigned(dtype))
        snprintf(out_number, NUMBER_MAX, "%llu", (unsigned long long)integer);
    else
        snprintf(out_number, NUMBER_MAX, "%lld", (long long)integer);
}

/* ---- first pass ---- */

/* Number of elements that are shown along a dimension. */
static int64_t n_shown(const printer_t *printer, int dim)
{
    int64_t n = printer->info->sizes[dim];
    return printer->is_cut && n > 2 * EDGE ? 2 * EDGE : n;
}

/* Index of the i-th element that is shown along a dimension. */
static int64_t shown(const printer_t *printer, int dim, int64_t i)
{
    int64_t n = printer->info->sizes[dim];
    return printer->is_cut && n > 2 * EDGE && i >= EDGE ? n - 2 * EDGE + i : i;
}

static void look_at(printer_t *printer, int64_t at)
{
    const dtype_t dtype = printer->info->dtype;
    const double value = dtype_load(dtype, printer->bytes + at * (int64_t)dtype_size(dtype));
    if (!dtype_is_floating(dtype) || value == 0 || isnan(value) || isinf(value)) return;
    printer->smallest = fmin(printer->smallest, fabs(value));
    printer->largest = fmax(printer->largest, fabs(value));
    printer->is_whole = printer->is_whole && value == ceil(value);
}

static void measure(printer_t *printer, int64_t at)
{
    char number[NUMBER_MAX];
    const dtype_t dtype = printer->info->dtype;
    const double value = dtype_load(dtype, printer->bytes + at * (int64_t)dtype_size(dtype));
    if (dtype_is_floating(dtype) && (value == 0 || isnan(value) || isinf(value))) return;
    write_number(printer, at, number);
    int length = (int)strlen(number);
    if (length > printer->width) printer->width = length;
}

static void visit(printer_t *printer, int dim, int64_t at, void (*element)(printer_t *, int64_t))
{
    const tensor_info_t *info = printer->info;
    if (dim == info->rank) {
        element(printer, at);
        return;
    }
    for (int64_t i = 0; i < n_shown(printer, dim); i++)
        visit(printer, dim + 1, at + shown(printer, dim, i) * info->format.strides[dim], element);
}

static void find_form(printer_t *printer)
{
    printer->is_whole = true;
    printer->smallest = INFINITY;
    printer->width = 1;
    visit(printer, 0, 0, look_at);
    if (printer->largest > 0)
        printer->is_scientific = printer->largest / printer->smallest > 1000.0 ||
                                 printer->largest > 1e8 ||
                                 (!printer->is_whole && printer->smallest < 1e-4);
    visit(printer, 0, 0, measure);
}

/* ---- second pass ---- */

static void put_spaces(printer_t *printer, int n)
{
    text_append(printer->text, "%*s", n, "");
}

/* Writes a row in lines of at most LINE characters; "..." counts as an element. */
static void put_row(printer_t *printer, int dim, int64_t at, int indent)
{
    char number[NUMBER_MAX];
    const int64_t n = n_shown(printer, dim);
    const bool has_gap = n < printer->info->sizes[dim];
    const int64_t room = (LINE - indent) / (printer->width + 2), per_line = room > 1 ? room : 1;
    int64_t place = 0;
    text_append(printer->text, "[");
    for (int64_t i = 0; i < n; i++) {
        for (int gap = has_gap && i == EDGE ? 1 : 0; gap >= 0; gap--, place++) {
            if (place > 0 && place % per_line == 0) {
                text_append(printer->text, ",\n");
                put_spaces(printer, indent + 1);
            } else if (place > 0) {
                text_append(printer->text, ", ");
            }
            if (gap == 1) {
                text_append(printer->text, " ...");
                continue;
            }
            write_number(printer, at + shown(printer, dim, i) * printer->info->format.strides[dim],
                         number);
            text_append(printer->text, "%*s", printer->width, number);
        }
    }
    text_append(printer->text, "]");
}

static void put_separator(printer_t *printer, int n_newlines, int indent)
{
    text_append(printer->text, ",");
    for (int i = 0; i < n_newlines; i++) text_append(printer->text, "\n");
    put_spaces(printer, indent + 1);
}

static void put_rows(printer_t *printer, int dim, int64_t at, int indent)
{
    const tensor_info_t *info = printer->info;
    const int64_t n = n_shown(printer, dim);
    if (dim == info->rank - 1) {
        put_row(printer, dim, at, indent);
        return;
    }
    text_append(printer->text, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put_separator(printer, info->rank - dim - 1, indent);
        if (n < info->sizes[dim] && i == EDGE) {
            text_append(printer->text, "...");
            put_separator(printer, info->rank - dim - 1, indent);
        }
        put_rows(printer, dim + 1, at + shown(printer, dim, i) * info->format.strides[dim],
                 indent + 1);
    }
    text_append(printer->text, "]");
}

static void put_elements(printer_t *printer, int indent)
{
    char number[NUMBER_MAX];
    if (info_numel(printer->info) == 0) {
        text_append(printer->text, "[]");
        return;
    }
    find_form(printer);
    if (printer->info->rank > 0) {
        put_rows(printer, 0, 0, indent);
        return;
    }
    write_number(printer, 0, number);
    text_append(printer->text, "%s", number);
}

/* Appends type and sizes, on a new line if the last line is full. */
static void put_info(text_t *text, const tensor_info_t *info, int indent)
{
    char said[INFO_TEXT_MAX];
    info_text(info, said);
    const char *last = strrchr(text_string(text), '\n');
    size_t length = strlen(last != NULL ? last + 1 : text_string(text));
    text_append(text, length + 2 + strlen(said) + 1 > LINE ? ",\n" : ", ");
    if (length + 2 + strlen(said) + 1 > LINE) text_append(text, "%*s", indent, "");
    text_append(text, "%s)", said);
}

status_t tensor_print_text(context_t *ctx, const tensor_t *tensor, text_t *text)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (tensor == NULL) return context_null(ctx, "tensor_print_text", "tensor");
    if (text == NULL) return context_null(ctx, "tensor_print_text", "text");
    const int indent = (int)sizeof begin - 1;
    tensor_t *dense = NULL;
    TRY(tensor_readable(ctx, tensor, &dense));
    printer_t printer = {.text = text,
                         .info = &dense->info,
                         .bytes = tensor_bytes(dense),
                         .is_cut = info_numel(&dense->info) > MOST_ELEMENTS};
    text_append(text, "%s", begin);
    put_elements(&printer, indent);
    put_info(text, &tensor->info, indent);
    tensor_drop(dense);
    return text_status(text);
}

status_t tensor_print(context_t *ctx, const tensor_t *tensor, FILE *file)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (tensor == NULL) return context_null(ctx, "tensor_print", "tensor");
    if (file == NULL) return context_null(ctx, "tensor_print", "file");
    text_t text = text_begin(ctx);
    status_t status = tensor_print_text(ctx, tensor, &text);
    if (status == STATUS_OK && fprintf(file, "%s\n", text_string(&text)) < 0)
        status = context_fail(ctx, STATUS_IO, "tensor_print: %s", strerror(errno));
    text_clear(&text);
    return status;
}
