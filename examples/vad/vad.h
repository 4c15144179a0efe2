/* Where somebody speaks in a WAV file, by silero-vad: a network that hears a chunk of some 32 ms at
 * a time and remembers what was before in its state. */
#ifndef EXAMPLES_VAD_H
#define EXAMPLES_VAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <tessera.h>

/* ---- wav.c: a RIFF file of PCM, 16 bit, one channel, read from front to back ---- */

typedef struct wav {
    FILE *file;      /* borrowed; need not be one that can seek */
    int rate;        /* samples a second: 8000 or 16000 */
    uint32_t n_left; /* bytes of samples; WAV_ENDLESS: as many as come */
    char error[128]; /* of the call that failed */
} wav_t;

#define WAV_ENDLESS UINT32_MAX /* what programs write that do not know the length */

/* Reads up to the first sample. False with a text in error. */
bool wav_open(FILE *file, wav_t *out_wav);

/* Up to n samples of -1..1; fewer only at the end. False if the file ends before its samples do. */
bool wav_read(wav_t *wav, int n, float *out_samples, int *out_n);

/* ---- detector.c: the network ---- */

#define DETECTOR_MAX_CHUNK 512
#define DETECTOR_MAX_SEEN (DETECTOR_MAX_CHUNK + DETECTOR_MAX_CHUNK / 8)

typedef struct detector {
    context_t *ctx;
    module_t *model;
    tensor_t *state, *rate;        /* [2][1][128], and a number */
    int n_chunk;                   /* samples that a step takes */
    int n_before;                  /* and those of the step before that it hears again */
    float seen[DETECTOR_MAX_SEEN]; /* both, in the order of time */
} detector_t;

/* The module of a file silero_vad.onnx, for chunks of this rate. */
status_t detector_load(context_t *ctx, const char *path, int rate, module_t **out_model);

/* Silence was before. The module is retained; detector_end releases what a detector has. */
status_t detector_begin(context_t *ctx, module_t *model, int rate, detector_t *out_detector);
void detector_end(detector_t *detector);

/* How likely it is that somebody speaks in these n_chunk samples. */
status_t detector_step(detector_t *detector, const float *samples, float *out_probability);

/* ---- segments.c: from probabilities to begin and end ---- */

/* In samples. Speech begins at a probability of 0.5, and ends where it is below 0.35 for 0.1 s;
 * what is shorter than 0.25 s is none. 0.03 s are added on both sides. */
typedef struct segments {
    int rate, n_chunk;
    int64_t at;    /* the next chunk's first sample */
    int64_t begin; /* of the speech; -1: nobody speaks */
    int64_t quiet; /* since when it has been quiet in that speech; -1: it is not */
} segments_t;

typedef struct segment {
    int64_t begin, end;
} segment_t;

segments_t segments_begin(int rate, int n_chunk);

/* The next chunk's probability. True: a segment has ended. */
bool segments_add(segments_t *segments, float probability, segment_t *out_segment);

/* The sound ends after n samples. True: so does a segment. */
bool segments_end(segments_t *segments, int64_t n, segment_t *out_segment);

#endif
