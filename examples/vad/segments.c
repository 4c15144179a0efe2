/* A chunk whose probability is between the two thresholds counts as speech if the chunk before it
 * did, and as silence otherwise (hysteresis). */
#include "vad.h"

#define SPEECH 0.5F
#define QUIET 0.35F

segments_t segments_begin(int rate, int n_chunk)
{
    return (segments_t){.rate = rate, .n_chunk = n_chunk, .begin = -1, .quiet = -1};
}

/* Ends a segment of speech at sample `at` of n. Returns false if it is too short. */
static bool end(segments_t *segments, int64_t at, int64_t n, segment_t *out_segment)
{
    const int64_t begin = segments->begin, margin = segments->rate * 3 / 100;
    segments->begin = segments->quiet = -1;
    if (at - begin <= segments->rate / 4) return false;
    out_segment->begin = begin > margin ? begin - margin : 0;
    out_segment->end = at + margin < n ? at + margin : n;
    return true;
}

bool segments_add(segments_t *segments, float probability, segment_t *out_segment)
{
    const int64_t at = segments->at;
    segments->at += segments->n_chunk;
    if (probability >= SPEECH) {
        segments->quiet = -1;
        if (segments->begin < 0) segments->begin = at;
    } else if (probability < QUIET && segments->begin >= 0) {
        if (segments->quiet < 0) segments->quiet = at;
        if (at - segments->quiet >= segments->rate / 10)
            return end(segments, segments->quiet, at, out_segment);
    }
    return false;
}

bool segments_end(segments_t *segments, int64_t n, segment_t *out_segment)
{
    return segments->begin >= 0 && end(segments, n, n, out_segment);
}
