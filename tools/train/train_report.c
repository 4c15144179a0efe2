/* Output of tessera train: a bar during training, then losses and times, and a curve. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tensor/base/try_impl.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/train/train.h"

/* ---- the bar ---- */

void train_show_progress(const train_record_t *record)
{
    char more[64];
    int n = snprintf(more, sizeof more, "loss %.4g", record->losses[record->n_done - 1]);
    if (record->has_accuracy)
        snprintf(more + n, sizeof more - (size_t)n, "  accuracy %.1f %%", 100.0 * record->accuracy);
    bar_show("step", record->first_step + record->n_done, record->n_steps, more);
}

/* ---- the end ---- */

void train_print(const train_settings_t *settings, const train_record_t *record)
{
    double seconds = (record->end_ms - record->begin_ms) / 1e3;
    int64_t n = record->n_done;
    print("%" PRId64 " items", record->n_items);
    if (record->n_classes > 0) print(", %" PRId64 " classes", record->n_classes);
    print(", batches of %" PRId64 "\n", settings->batch);
    print("%" PRId64 " steps in %.1f s, %.2f ms a step\n", n, seconds,
          train_median(record->times_ms, n));
    print("loss %.4g in the first step, %.4g in the last\n", record->losses[0],
          record->losses[n - 1]);
    if (record->has_accuracy)
        print("accuracy in the last epoch %.2f %%\n", 100.0 * record->accuracy);
    if (settings->output != NULL) session_print_size(settings->output);
    if (settings->curve != NULL) session_print_size(settings->curve);
}

status_t train_print_json(context_t *ctx, const train_settings_t *settings,
                          const train_record_t *record)
{
    text_t text = text_begin(ctx);
    text_append(&text, "{\"model\":");
    text_append_quoted(&text, settings->spec);
    text_append(&text,
                ",\"items\":%" PRId64 ",\"classes\":%" PRId64 ",\"batch\":%" PRId64
                ",\"threads\":%d,\"first_step\":%" PRId64 ",\"losses\":[",
                record->n_items, record->n_classes, settings->batch, context_threads(ctx),
                record->first_step);
    for (int64_t i = 0; i < record->n_done; i++)
        text_append(&text, "%s%.9g", i > 0 ? "," : "", record->losses[i]);
    text_append(&text, "],\"step_ms\":%.4f,\"seconds\":%.3f",
                train_median(record->times_ms, record->n_done),
                (record->end_ms - record->begin_ms) / 1e3);
    if (record->has_accuracy) text_append(&text, ",\"accuracy\":%.6f", record->accuracy);
    text_append(&text, "}");
    status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}

/* ---- the curve ---- */

#define WIDTH 640
#define HEIGHT 360
#define MARGIN 48
#define LINES 4        /* horizontal lines, each labelled with a number */
#define POINTS_MAX 600 /* limit for points of the curve; each is the mean of several steps */

typedef struct curve {
    int64_t n; /* number of points */
    double losses[POINTS_MAX];
    double least, most;
} curve_t;

static void gather(const train_record_t *record, curve_t *out_curve)
{
    int64_t n_done = record->n_done;
    int64_t n = n_done < POINTS_MAX ? n_done : POINTS_MAX;
    out_curve->n = n;
    out_curve->least = HUGE_VAL;
    out_curve->most = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i * n_done / n, last = (i + 1) * n_done / n;
        double sum = 0.0;
        for (int64_t at = first; at < last; at++) sum += record->losses[at];
        double mean = sum / (double)(last - first);
        out_curve->losses[i] = mean;
        if (mean < out_curve->least) out_curve->least = mean;
        if (mean > out_curve->most) out_curve->most = mean;
    }
    if (out_curve->least > 0.0) out_curve->least = 0.0;
    if (!(out_curve->most > out_curve->least)) out_curve->most = out_curve->least + 1.0;
}

static double height_of(const curve_t *curve, double loss)
{
    double part = (loss - curve->least) / (curve->most - curve->least);
    return HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN);
}

static void draw_lines(text_t *svg, const train_record_t *record, const curve_t *curve)
{
    for (int i = 0; i <= LINES; i++) {
        double loss = curve->least + (curve->most - curve->least) * i / LINES;
        double y = height_of(curve, loss);
        text_append(svg, "<path d=\"M%d %.1fH%d\" stroke=\"#ccc\"/>\n", MARGIN, y, WIDTH - MARGIN);
        text_append(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n", MARGIN - 6,
                    y + 4, loss);
    }
    text_append(svg, "<text x=\"%d\" y=\"%d\">%" PRId64 "</text>\n", MARGIN, HEIGHT - MARGIN + 20,
                record->first_step);
    text_append(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step %" PRId64 "</text>\n",
                WIDTH - MARGIN, HEIGHT - MARGIN + 20, record->first_step + record->n_done);
    text_append(svg, "<text x=\"%d\" y=\"%d\">loss</text>\n", MARGIN, MARGIN - 12);
}

static void draw(text_t *svg, const train_record_t *record, const curve_t *curve)
{
    text_append(svg,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"12\" fill=\"none\">\n"
                "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<g fill=\"#333\">\n",
                WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_lines(svg, record, curve);
    text_append(svg, "</g>\n<polyline stroke=\"#06c\" stroke-width=\"1.5\" points=\"");
    for (int64_t i = 0; i < curve->n; i++) {
        double part = ((double)i + 0.5) / (double)curve->n;
        text_append(svg, "%s%.1f,%.1f", i > 0 ? " " : "", MARGIN + part * (WIDTH - 2 * MARGIN),
                    height_of(curve, curve->losses[i]));
    }
    text_append(svg, "\"/>\n</svg>\n");
}

static status_t write_text(context_t *ctx, const char *path, const text_t *text)
{
    file_writer_t *writer = NULL;
    TRY(file_write_begin(ctx, path, &writer));
    status_t status = file_write(writer, text_string(text), text->length);
    status_t end = file_write_end(writer, status == STATUS_OK);
    return status != STATUS_OK ? status : end;
}

status_t train_write_curve(context_t *ctx, const train_record_t *record, const char *path)
{
    curve_t curve;
    text_t svg = text_begin(ctx);
    gather(record, &curve);
    draw(&svg, record, &curve);
    status_t status = text_status(&svg);
    if (status == STATUS_OK) status = write_text(ctx, path, &svg);
    text_clear(&svg);
    return status;
}
