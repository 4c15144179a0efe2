/* A RIFF file is a list of chunks: a 4-byte name, a 4-byte size, the data, padded to an even size.
 * Integers are little-endian. "fmt " describes the samples in "data"; other chunks are skipped. */
#include <stdarg.h>
#include <string.h>

#include "vad.h"

enum { FORMAT_PCM = 1, FORMAT_BYTES = 16 };

static bool fail(wav_t *wav, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(wav_t *wav, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wav->error, sizeof wav->error, format, arguments);
    va_end(arguments);
    return false;
}

static uint32_t read_integer(const unsigned char *bytes, int n)
{
    uint32_t integer = 0;
    for (int i = n; i-- > 0;) integer = integer << 8 | bytes[i];
    return integer;
}

static bool read_bytes(wav_t *wav, size_t n, unsigned char *out)
{
    return fread(out, 1, n, wav->file) == n || fail(wav, "it ends before its samples");
}

/* Skips the rest of a chunk of which n_read bytes were read. */
static bool skip(wav_t *wav, uint32_t size, uint32_t n_read)
{
    const uint64_t end = (uint64_t)size + size % 2;
    unsigned char byte;
    for (uint64_t i = n_read; i < end; i++)
        if (!read_bytes(wav, 1, &byte)) return false;
    return true;
}

static bool read_format(wav_t *wav, uint32_t size)
{
    unsigned char bytes[FORMAT_BYTES];
    if (size < FORMAT_BYTES) return fail(wav, "a format of %u bytes, needs 16", size);
    if (!read_bytes(wav, FORMAT_BYTES, bytes)) return false;
    const uint32_t kind = read_integer(bytes, 2), n_channels = read_integer(bytes + 2, 2);
    const uint32_t rate = read_integer(bytes + 4, 4), n_bits = read_integer(bytes + 14, 2);
    if (kind != FORMAT_PCM) return fail(wav, "samples of format %u, 1 (PCM) is needed", kind);
    if (n_channels != 1) return fail(wav, "%u channels, 1 is needed", n_channels);
    if (n_bits != 16) return fail(wav, "samples of %u bits, needs 16", n_bits);
    if (rate != 8000 && rate != 16000)
        return fail(wav, "%u samples a second, 8000 or 16000 are needed", rate);
    wav->rate = (int)rate;
    return skip(wav, size, FORMAT_BYTES);
}

bool wav_open(FILE *file, wav_t *out_wav)
{
    wav_t *wav = out_wav;
    unsigned char head[12];
    *wav = (wav_t){.file = file};
    if (!read_bytes(wav, 12, head)) return false;
    if (memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0)
        return fail(wav, "it is no WAV file");
    for (;;) {
        if (!read_bytes(wav, 8, head)) return false;
        const uint32_t size = read_integer(head + 4, 4);
        if (memcmp(head, "data", 4) == 0) {
            if (wav->rate == 0) return fail(wav, "its samples stand before their format");
            if (size % 2 != 0 && size != WAV_ENDLESS)
                return fail(wav, "%u bytes of samples, a sample has 2", size);
            wav->n_left = size;
            return true;
        }
        if (memcmp(head, "fmt ", 4) == 0 ? !read_format(wav, size) : !skip(wav, size, 0))
            return false;
    }
}

bool wav_read(wav_t *wav, int n, float *out_samples, int *out_n)
{
    unsigned char bytes[2];
    const bool is_endless = wav->n_left == WAV_ENDLESS;
    for (*out_n = 0; *out_n < n && wav->n_left > 0; (*out_n)++) {
        if (fread(bytes, 1, 2, wav->file) != 2)
            return is_endless || fail(wav, "it ends %u bytes before its samples do", wav->n_left);
        const int sample = (int)read_integer(bytes, 2);
        out_samples[*out_n] = (float)(sample < 0x8000 ? sample : sample - 0x10000) / 32768.0F;
        if (!is_endless) wav->n_left -= 2;
    }
    return true;
}
