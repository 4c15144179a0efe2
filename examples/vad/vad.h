/* Detects speech in a WAV file with silero-vad, a network that takes chunks of about 32 ms and
 * keeps a state between them. */
#ifndef EXAMPLES_VAD_H
#define EXAMPLES_VAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tessera.h>

/* ---- wav.c: reads a RIFF file of PCM, 16 bit, one channel, sequentially ---- */

typedef struct wav {
    FILE *file;      /* borrowed; need not be seekable */
    int rate;        /* samples a second: 8000 or 16000 */
    uint32_t n_left; /* bytes of samples left; WAV_ENDLESS: unknown, read to the end */
    char error[128]; /* message of the call that failed */
} wav_t;

#define WAV_ENDLESS UINT32_MAX /* written by programs that do not know the length */

/* Reads the headers before the first sample. On failure returns false, with a message in error. */
bool wav_open(FILE *file, wav_t *out_wav);

/* Reads n samples as numbers from -1 to 1; fewer only at the end of the file. Returns false if the
 * file is truncated. */
bool wav_read(wav_t *wav, int n, float *out_samples, int *out_n);

/* ---- detector.c: the network ---- */

#define DETECTOR_MAX_CHUNK 512
#define DETECTOR_MAX_SEEN (DETECTOR_MAX_CHUNK + DETECTOR_MAX_CHUNK / 8)

typedef struct detector {
    context_t *ctx;
    module_t *model;
    tensor_t *state, *rate;        /* [2][1][128], and a scalar */
    int n_chunk;                   /* samples of a chunk */
    int n_before;                  /* a step also gets this many samples before the chunk */
    float seen[DETECTOR_MAX_SEEN]; /* n_before samples, then the chunk */
} detector_t;

/* Loads silero_vad.onnx for chunks of this sample rate. */
status_t detector_load(context_t *ctx, const char *path, int rate, module_t **out_model);

/* Initializes a detector, with a state as after silence. Retains the module. detector_end releases
 * the module and the tensors. */
status_t detector_begin(context_t *ctx, module_t *model, int rate, detector_t *out_detector);
void detector_end(detector_t *detector);

/* Computes the probability of speech in n_chunk samples. */
status_t detector_step(detector_t *detector, const float *samples, float *out_probability);

/* ---- segments.c: begin and end of speech from probabilities ---- */

/* Times are in samples. Speech begins at a probability of 0.5 and ends when it stays below 0.35 for
 * 0.1 s. Speech shorter than 0.25 s is ignored. 0.03 s are added at both ends. */
typedef struct segments {
    int rate, n_chunk;
    int64_t at;    /* start of the next chunk */
    int64_t begin; /* start of the current speech; -1: none */
    int64_t quiet; /* start of a quiet period in that speech; -1: none */
} segments_t;

typedef struct segment {
    int64_t begin, end;
} segment_t;

segments_t segments_begin(int rate, int n_chunk);

/* Adds the probability of the next chunk. Returns true if a segment has ended. */
bool segments_add(segments_t *segments, float probability, segment_t *out_segment);

/* Ends the sound after n samples. Returns true if this ends a segment. */
bool segments_end(segments_t *segments, int64_t n, segment_t *out_segment);

#endif
