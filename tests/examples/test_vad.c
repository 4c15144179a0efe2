/* The example vad, its WAV reader and its segments, compared with ONNX Runtime. vad_values.py
 * writes the sounds and vad_values.txt; tools/models downloads the network. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/vad/vad.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/examples/"
#define MODEL TESSERA_SOURCE_DIR "/build/models/silero_vad/silero_vad.onnx"

enum { MAX_CHUNKS = 128, MAX_LINE = 4096 };

/* ---- the reader ---- */

/* A small file: a chunk to skip, the format, four samples. The enum has offsets of fields. */
enum { RATE = 36, BITS = 46, CHANNELS = 34, FORMAT = 32, ODD = 16, N_BYTES = 64 };
static const unsigned char whole[N_BYTES] = {
    'R', 'I', 'F', 'F', 56,   0,    0,   0, 'W',  'A',  'V', 'E', 'L',  'I',  'S',  'T',
    3,   0,   0,   0,   'a',  'b',  'c', 0, 'f',  'm',  't', ' ', 16,   0,    0,    0,
    1,   0,   1,   0,   0x40, 0x1f, 0,   0, 0x80, 0x3e, 0,   0,   2,    0,    16,   0,
    'd', 'a', 't', 'a', 8,    0,    0,   0, 0x00, 0x40, 0,   0,   0xff, 0xff, 0x00, 0x80};

static FILE *file_of(const unsigned char *bytes, size_t n)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    rewind(file);
    return file;
}

static void samples_of_a_file_come_in_order_in_pieces(void **state)
{
    (void)state;
    wav_t wav;
    float samples[8] = {0};
    int n = 0;
    FILE *file = file_of(whole, N_BYTES);
    assert_true(wav_open(file, &wav));
    assert_int_equal(wav.rate, 8000);
    assert_true(wav_read(&wav, 3, samples, &n));
    assert_int_equal(n, 3);
    assert_true(wav_read(&wav, 5, samples + n, &n));
    assert_int_equal(n, 1);
    const float wanted[] = {0.5F, 0, -1 / 32768.0F, -1};
    assert_memory_equal(samples, wanted, sizeof wanted);
    assert_true(wav_read(&wav, 5, samples, &n));
    assert_int_equal(n, 0);
    fclose(file);
}

static void a_file_of_unknown_length_is_read_to_its_end(void **state)
{
    (void)state;
    wav_t wav;
    float samples[8];
    int n = 0;
    unsigned char bytes[N_BYTES];
    memcpy(bytes, whole, N_BYTES);
    memset(bytes + 52, 0xff, 4);
    FILE *file = file_of(bytes, N_BYTES);
    assert_true(wav_open(file, &wav));
    assert_true(wav_read(&wav, 8, samples, &n));
    assert_int_equal(n, 4);
    fclose(file);
}

static void check_refused(const unsigned char *bytes, size_t n_bytes, const char *message)
{
    wav_t wav;
    FILE *file = file_of(bytes, n_bytes);
    assert_false(wav_open(file, &wav));
    assert_string_equal(wav.error, message);
    fclose(file);
}

/* Checks the message for the file with n changed bytes at offset `at`. */
static void check_changed(size_t at, size_t n, const void *bytes, const char *message)
{
    unsigned char changed[N_BYTES];
    memcpy(changed, whole, N_BYTES);
    memcpy(changed + at, bytes, n);
    check_refused(changed, N_BYTES, message);
}

static void a_file_that_is_cut_off_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    for (size_t n = 0; n < 56; n++) check_refused(whole, n, "it ends before its samples");
    for (size_t n = 56; n < N_BYTES; n++) {
        wav_t wav;
        float samples[8];
        char message[64];
        int n_samples = 0;
        FILE *file = file_of(whole, n);
        assert_true(wav_open(file, &wav));
        assert_false(wav_read(&wav, 8, samples, &n_samples));
        snprintf(message, sizeof message, "it ends %d bytes before its samples do",
                 (int)(N_BYTES - n / 2 * 2));
        assert_string_equal(wav.error, message);
        fclose(file);
    }
}

static void a_file_of_another_format_is_refused_in_words(void **state)
{
    (void)state;
    check_changed(0, 4, "RIFX", "it is no WAV file");
    check_changed(8, 4, "AVI ", "it is no WAV file");
    check_changed(FORMAT, 1, "\3", "samples of format 3, 1 (PCM) is needed");
    check_changed(CHANNELS, 1, "\2", "2 channels, 1 is needed");
    check_changed(RATE, 2, "\x44\xac", "44100 samples a second, 8000 or 16000 are needed");
    check_changed(BITS, 1, "\x18", "samples of 24 bits, needs 16");
    check_changed(28, 1, "\16", "a format of 14 bytes, needs 16");
    check_changed(24, 4, "none", "its samples stand before their format");
    check_changed(52, 1, "\7", "7 bytes of samples, a sample has 2");
}

/* ---- segments ---- */

/* Checks segments "begin end ...", in samples. Each digit is the probability of a chunk of 100
 * samples (0.05 s) in tenths. */
static void check_segments(const char *tenths, const char *wanted)
{
    segments_t segments = segments_begin(2000, 100);
    segment_t segment;
    char text[128] = "";
    for (const char *at = tenths; *at != '\0'; at++)
        if (segments_add(&segments, (float)(*at - '0') / 10, &segment))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d %d ", (int)segment.begin,
                     (int)segment.end);
    if (segments_end(&segments, (int64_t)strlen(tenths) * 100 - 10, &segment))
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d %d ", (int)segment.begin,
                 (int)segment.end);
    assert_string_equal(text, wanted);
}

static void speech_is_what_is_loud_for_long_and_not_quiet_for_long(void **state)
{
    (void)state;
    check_segments("0000000", "");
    check_segments("00777777000", "140 860 ");   /* 0.03 s (60 samples) are added at both ends */
    check_segments("777777000", "0 660 ");       /* but not before the sound */
    check_segments("0077777000", "");            /* 0.25 s is too short */
    check_segments("00777777", "140 790 ");      /* nor after the sound */
    check_segments("007770077777", "140 1190 "); /* only a third quiet chunk ends it */
    check_segments("0077744444770", "140 1290 ");
    check_segments("0077777714000", "140 860 ");
    check_segments("00777777000777777000", "140 860 1040 1760 ");
}

/* ---- the network ---- */

static int read_probabilities(int rate, double *out_numbers)
{
    char line[MAX_LINE];
    int at = 0, n = 0;
    FILE *file = fopen(FOLDER "vad_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "rate ", 5) == 0) at = atoi(line + 5);
        if (at != rate || strncmp(line, "probabilities", 13) != 0) continue;
        for (char *numbers = line + 13, *end = NULL;; numbers = end, n++) {
            const double number = strtod(numbers, &end);
            if (end == numbers) break;
            assert_in_range(n, 0, MAX_CHUNKS - 1);
            out_numbers[n] = number;
        }
    }
    fclose(file);
    assert_true(n > 0);
    return n;
}

/* Runs twice, since each sound must start with a fresh state. */
static void check_sound(context_t *ctx, module_t *model, int rate, const int64_t *wanted_segments)
{
    double wanted[MAX_CHUNKS];
    const int n_chunks = read_probabilities(rate, wanted);
    char path[512];
    snprintf(path, sizeof path, FOLDER "vad_%d.wav", rate);
    for (int round = 0; round < 2; round++) {
        detector_t detector;
        segment_t segment;
        wav_t wav;
        int n = 0, n_segments = 0;
        int64_t n_samples = 0;
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_true(wav_open(file, &wav));
        assert_int_equal(wav.rate, rate);
        CHECK_OK(ctx, detector_begin(ctx, model, rate, &detector));
        segments_t segments = segments_begin(rate, detector.n_chunk);
        for (int chunk = 0; chunk < n_chunks; chunk++, n_samples += n) {
            float samples[DETECTOR_MAX_CHUNK] = {0}, probability = 0;
            assert_true(wav_read(&wav, detector.n_chunk, samples, &n));
            CHECK_OK(ctx, detector_step(&detector, samples, &probability));
            if (!(fabs((double)probability - wanted[chunk]) <= 1e-4))
                fail_msg("%d samples a second, chunk %d: %g, must be %g", rate, chunk,
                         (double)probability, wanted[chunk]);
            if (!segments_add(&segments, probability, &segment)) continue;
            assert_int_equal(segment.begin, wanted_segments[n_segments++]);
            assert_int_equal(segment.end, wanted_segments[n_segments++]);
        }
        assert_int_equal(n_segments, 4);
        assert_true(n > 0 && n < detector.n_chunk);
        assert_false(segments_end(&segments, n_samples, &segment));
        detector_end(&detector);
        fclose(file);
    }
}

/* From the stored probabilities. At 16000 Hz speech is in chunks 13 to 37 and 49 to 72, each range
 * extended by 0.03 s. */
static const int64_t segments_8000[] = {3088, 10224, 12304, 19184};
static const int64_t segments_16000[] = {6176, 19424, 24608, 37344};

static void probabilities_are_those_of_onnx_runtime_dense_and_frozen(void **state)
{
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(MODEL, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    for (int i = 0; i < 2; i++) {
        const int rate = i == 0 ? 8000 : 16000;
        const int64_t *segments = i == 0 ? segments_8000 : segments_16000;
        module_t *model = NULL, *frozen = NULL;
        CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
        CHECK_OK(ctx, detector_load(ctx, MODEL, rate, &model));
        check_sound(ctx, model, rate, segments);
        CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
        CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
        check_sound(ctx, frozen, rate, segments);
        module_release(frozen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(samples_of_a_file_come_in_order_in_pieces),
        TEST(a_file_of_unknown_length_is_read_to_its_end),
        TEST(a_file_that_is_cut_off_is_refused_wherever_it_ends),
        TEST(a_file_of_another_format_is_refused_in_words),
        TEST(speech_is_what_is_loud_for_long_and_not_quiet_for_long),
        TEST(probabilities_are_those_of_onnx_runtime_dense_and_frozen),
    };
    return cmocka_run_group_tests_name("vad", tests, NULL, NULL);
}
