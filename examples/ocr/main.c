/* Prints the text in a PNG image, line by line, with rapidocr's networks.
 *
 *     ocr build/models/rapidocr tests/examples/ocr_wide.png
 *
 * The folder has the networks; tools/models downloads them. */
#include <stdio.h>
#include <stdlib.h>

#include "ocr.h"

enum { PATH_BYTES = 4096, TEXT_BYTES = 4096 };

#define SURE 0.5 /* text with a lower score is ignored */

static bool check(const context_t *ctx, status_t status)
{
    if (status != STATUS_OK) fprintf(stderr, "ocr: %s\n", context_error(ctx));
    return status == STATUS_OK;
}

static bool read_lines(context_t *ctx, module_t *detector, const reader_t *reader,
                       const picture_t *picture)
{
    box_t boxes[DETECT_MAX];
    int n = 0;
    if (!check(ctx, detect(ctx, detector, picture, boxes, &n))) return false;
    for (int i = 0; i < n; i++) {
        char text[TEXT_BYTES];
        double score = 0;
        if (!check(ctx, reader_read(ctx, reader, picture, &boxes[i], sizeof text, text, &score)))
            return false;
        if (score >= SURE) printf("%s\n", text);
    }
    return true;
}

static bool run(context_t *ctx, module_t *detector, const reader_t *reader, int n, char **paths)
{
    bool done = true;
    for (int i = 0; i < n && done; i++) {
        picture_t picture;
        char error[128];
        done = picture_read(paths[i], &picture, sizeof error, error);
        if (done)
            done = read_lines(ctx, detector, reader, &picture);
        else
            fprintf(stderr, "ocr: %s: %s\n", paths[i], error);
        picture_clear(&picture);
    }
    return done;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    module_t *detector = NULL, *model = NULL;
    reader_t *reader = NULL;
    char path[PATH_BYTES];
    const char *error = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: ocr FOLDER PICTURE.png...\n");
        return 2;
    }
    if (context_create(NULL, &ctx) != STATUS_OK) return EXIT_FAILURE;
    snprintf(path, sizeof path, "%s/ch_PP-OCRv4_det_infer.onnx", argv[1]);
    bool done = check(ctx, detect_load(ctx, path, &detector));
    snprintf(path, sizeof path, "%s/ch_PP-OCRv4_rec_infer.onnx", argv[1]);
    done = done && check(ctx, reader_load(ctx, path, &model));
    if (done) {
        reader = reader_create(ctx, model, &error);
        if (reader == NULL) fprintf(stderr, "ocr: %s: %s\n", path, error);
        done = reader != NULL && run(ctx, detector, reader, argc - 2, argv + 2);
    }
    reader_destroy(reader);
    module_release(model);
    module_release(detector);
    context_destroy(ctx);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
