/* Each format has one function that reads or measures a file. The file's first bytes determine the
 * format. */
#include "io/data/picture_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/data/dataset_impl.h"

/* A request to read or measure a file. */
typedef struct picture {
    const char *path;
    FILE *file;
    int64_t height, width; /* size of the file's picture, once known */
    uint8_t *pixels;       /* NULL: read only the size */
    int64_t wanted_height, wanted_width;
    failure_t *failure;
} picture_t;

#if defined(TESSERA_HAVE_PNG) || defined(TESSERA_HAVE_JPEG)
static status_t check_size(const picture_t *picture)
{
    if (picture->pixels == NULL ||
        (picture->height == picture->wanted_height && picture->width == picture->wanted_width))
        return STATUS_OK;
    return dataset_fail(picture->failure, STATUS_INVALID_ARGUMENT,
                        "%s: %lld x %lld points, pictures before it have %lld x %lld",
                        picture->path, (long long)picture->height, (long long)picture->width,
                        (long long)picture->wanted_height, (long long)picture->wanted_width);
}
#endif

/* ---- PNG ---- */

#ifdef TESSERA_HAVE_PNG
#include <png.h>

static status_t read_png(picture_t *picture)
{
    const png_color white = {255, 255, 255};
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_stdio(&image, picture->file) == 0)
        return dataset_fail(picture->failure, STATUS_CORRUPT, "%s: PNG, %s", picture->path,
                            image.message);
    image.format = PNG_FORMAT_RGB;
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    picture->height = image.height;
    picture->width = image.width;
    status_t status = check_size(picture);
    if (status == STATUS_OK && picture->pixels != NULL &&
        png_image_finish_read(&image, &white, picture->pixels, 0, NULL) == 0)
        status = dataset_fail(picture->failure, STATUS_CORRUPT, "%s: PNG, %s", picture->path,
                              image.message);
    png_image_free(&image);
    return status;
}
#else
static status_t read_png(picture_t *picture)
{
    return dataset_fail(picture->failure, STATUS_UNSUPPORTED, "%s: PNG, this build has no libpng",
                        picture->path);
}
#endif

/* ---- JPEG ---- */

#ifdef TESSERA_HAVE_JPEG
#include <setjmp.h>

#include <jerror.h>
#include <jpeglib.h>

/* libjpeg reports a fatal error by calling `leave`, which jumps back to read_jpeg. */
typedef struct jpeg_errors {
    struct jpeg_error_mgr base;
    jmp_buf leave;
    char message[JMSG_LENGTH_MAX];
} jpeg_errors_t;

static void leave(j_common_ptr info)
{
    jpeg_errors_t *errors = (jpeg_errors_t *)(void *)info->err;
    info->err->format_message(info, errors->message);
    longjmp(errors->leave, 1);
}

/* Warnings (level < 0) mean missing or damaged data, which the library would replace with gray. */
static void leave_on_warning(j_common_ptr info, int level)
{
    if (level < 0) leave(info);
}

static status_t jpeg_status(int code)
{
    if (code == JERR_OUT_OF_MEMORY) return STATUS_OUT_OF_MEMORY;
    return code == JERR_CONVERSION_NOTIMPL ? STATUS_UNSUPPORTED : STATUS_CORRUPT;
}

static status_t decode_jpeg(picture_t *picture, struct jpeg_decompress_struct *jpeg)
{
    jpeg_stdio_src(jpeg, picture->file);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_RGB;
    picture->height = jpeg->image_height;
    picture->width = jpeg->image_width;
    status_t status = check_size(picture);
    if (status != STATUS_OK || picture->pixels == NULL) return status;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        size_t row = (size_t)jpeg->output_scanline * jpeg->output_width;
        JSAMPROW into = picture->pixels + row * PICTURE_CHANNELS;
        jpeg_read_scanlines(jpeg, &into, 1);
    }
    jpeg_finish_decompress(jpeg);
    return STATUS_OK;
}

static status_t read_jpeg(picture_t *picture)
{
    struct jpeg_decompress_struct jpeg;
    jpeg_errors_t errors;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.emit_message = leave_on_warning;
    if (setjmp(errors.leave) != 0) {
        jpeg_destroy_decompress(&jpeg);
        return dataset_fail(picture->failure, jpeg_status(errors.base.msg_code), "%s: JPEG, %s",
                            picture->path, errors.message);
    }
    jpeg_create_decompress(&jpeg);
    FINISH(decode_jpeg(picture, &jpeg), jpeg_destroy_decompress(&jpeg));
}
#else
static status_t read_jpeg(picture_t *picture)
{
    return dataset_fail(picture->failure, STATUS_UNSUPPORTED, "%s: JPEG, this build has no libjpeg",
                        picture->path);
}
#endif

/* ---- either format ---- */

static status_t read_either(picture_t *picture)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char jpeg[] = {0xff, 0xd8, 0xff};
    unsigned char first[sizeof png];
    size_t n = fread(first, 1, sizeof first, picture->file);
    if (ferror(picture->file) != 0)
        return dataset_fail(picture->failure, STATUS_IO, "%s: %s", picture->path, strerror(errno));
    rewind(picture->file);
    if (n == sizeof png && memcmp(first, png, sizeof png) == 0) return read_png(picture);
    if (n >= sizeof jpeg && memcmp(first, jpeg, sizeof jpeg) == 0) return read_jpeg(picture);
    return dataset_fail(picture->failure, STATUS_CORRUPT, "%s: neither a PNG nor a JPEG file",
                        picture->path);
}

static status_t read_file(picture_t *picture)
{
    picture->file = fopen(picture->path, "rb");
    if (picture->file == NULL)
        return dataset_fail(picture->failure, STATUS_IO, "%s: %s", picture->path, strerror(errno));
    FINISH(read_either(picture), fclose(picture->file));
}

status_t picture_measure(const char *path, int64_t *out_height, int64_t *out_width,
                         failure_t *failure)
{
    picture_t picture = {.path = path, .failure = failure};
    status_t status = read_file(&picture);
    if (status != STATUS_OK) return status;
    *out_height = picture.height;
    *out_width = picture.width;
    return STATUS_OK;
}

status_t picture_read(const char *path, int64_t height, int64_t width, uint8_t *out_pixels,
                      failure_t *failure)
{
    picture_t picture = {.path = path,
                         .pixels = out_pixels,
                         .wanted_height = height,
                         .wanted_width = width,
                         .failure = failure};
    return read_file(&picture);
}
