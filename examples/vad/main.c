/* Finds speech in a WAV file. Prints begin and end of each segment in seconds, then the
 * real-time factor: the time that the program ran, divided by the length of the sound.
 *
 *     vad build/models/silero_vad/silero_vad.onnx speech.wav
 *
 * "-" is standard input. The file is PCM, 16 bit, one channel, 8000 or 16000 samples a second;
 * tools/models downloads the network. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vad.h"

static double now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool check(const context_t *ctx, status_t status)
{
    if (status != STATUS_OK) fprintf(stderr, "vad: %s\n", context_error(ctx));
    return status == STATUS_OK;
}

static void print_segment(const segment_t *segment, int rate)
{
    printf("%.3f %.3f\n", (double)segment->begin / rate, (double)segment->end / rate);
}

/* Processes the file in chunks. Silence fills the last chunk. */
static bool listen(wav_t *wav, detector_t *detector)
{
    segments_t segments = segments_begin(wav->rate, detector->n_chunk);
    segment_t segment;
    int64_t n_samples = 0;
    const double begin = now();
    for (int n = detector->n_chunk; n == detector->n_chunk; n_samples += n) {
        float samples[DETECTOR_MAX_CHUNK] = {0}, probability = 0;
        if (!wav_read(wav, detector->n_chunk, samples, &n)) {
            fprintf(stderr, "vad: %s\n", wav->error);
            return false;
        }
        if (n == 0) break;
        if (!check(detector->ctx, detector_step(detector, samples, &probability))) return false;
        if (segments_add(&segments, probability, &segment)) print_segment(&segment, wav->rate);
    }
    if (segments_end(&segments, n_samples, &segment)) print_segment(&segment, wav->rate);
    const double seconds = (double)n_samples / wav->rate;
    if (n_samples > 0) printf("real-time factor %.4f\n", (now() - begin) / seconds);
    return true;
}

static bool run(context_t *ctx, const char *path, FILE *file)
{
    module_t *model = NULL, *frozen = NULL;
    detector_t detector = {.model = NULL};
    wav_t wav;
    if (!wav_open(file, &wav)) {
        fprintf(stderr, "vad: %s\n", wav.error);
        return false;
    }
    bool done = check(ctx, detector_load(ctx, path, wav.rate, &model)) &&
                check(ctx, freeze_take(ctx, &model, NULL, &frozen)) &&
                check(ctx, detector_begin(ctx, frozen, wav.rate, &detector)) &&
                listen(&wav, &detector);
    detector_end(&detector);
    module_release(frozen);
    module_release(model);
    return done;
}

int main(int argc, char **argv)
{
    context_t *ctx = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: vad MODEL.onnx FILE.wav\n");
        return 2;
    }
    FILE *file = strcmp(argv[2], "-") == 0 ? stdin : fopen(argv[2], "rb");
    if (file == NULL) {
        perror(argv[2]);
        return EXIT_FAILURE;
    }
    /* The network is so small that more threads do not help. */
    const context_options_t options = {.n_threads = 1};
    const bool done = context_create(&options, &ctx) == STATUS_OK && run(ctx, argv[1], file);
    context_destroy(ctx);
    fclose(file);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
