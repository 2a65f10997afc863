/* Native kernels: everything that touches each element of a tensor.
 *
 * Each function computes exactly what the torch operations of noise.py, rounding.py, float_rounding.py,
 * integer_sums.py, convolutions.py and relu.py compute, bit for bit: the file is compiled without fused
 * multiply-adds and without fast-math, and the order of the operations is the same.
 * Tensors are dense arrays of single precision, passed as addresses. The loops are plain C; the compiler makes clones of
 * them for AVX-512, AVX2 and the baseline, and the loader chooses one. Products of codes use the instructions of VNNI.
 *
 * A tensor is seen as (outer, shared, inner): values that differ only in their shared index have one grid.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(BITCYCLE_NO_CLONES)
#define CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONED
#endif
#define INLINE static inline __attribute__((always_inline))

#define SMALLEST 1.17549435e-38f /* the smallest normal number: a smaller scale cannot divide */
#define NO_STEP 0x1p-100f /* the scale of a constant, see rounding.py */
#define TILE 256          /* columns that are rounded together, and rows or columns that are transposed together */
#define BLOCK 16384       /* elements of one grid that a thread handles at a time */

/* ------------------------------------------------------------------------------------------------- noise */

/* A counter-based hash of an element's index under two 32-bit keys: three rounds of shift and multiply, with the second
 * key between them, so that streams of different keys are not shifted copies of one another. Its upper half is used. */
INLINE uint32_t hash(uint32_t index, uint32_t key1, uint32_t key2)
{
    uint32_t x = index + key1;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15) ^ key2) * 0x846CA68Bu;
    return (x ^ (x >> 16)) * 0xC2B2AE35u;
}

/* Uniform in (-1/2, 1/2), in steps of 2^-16. */
INLINE float noise(uint32_t index, uint32_t key1, uint32_t key2)
{
    int32_t n = (int32_t)hash(index, key1, key2) >> 16;
    return ((float)n + 0.5f) * 0x1p-16f;
}

CLONED static void draw_run(int16_t *out, int64_t n, uint32_t first, uint32_t step, uint32_t key1, uint32_t key2)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (int16_t)((int32_t)hash(first + (uint32_t)i * step, key1, key2) >> 16);
}

/* ------------------------------------------------------------------------------------------------- range */

/* Floating-point numbers as integers in the same order. NaN comes out beyond both infinities, so that the minimum or the
 * maximum shows it. */
INLINE int32_t ordered(float x)
{
    int32_t i;
    memcpy(&i, &x, 4);
    return i ^ ((i >> 31) & 0x7FFFFFFF);
}

INLINE float unordered(int32_t i)
{
    float x;
    i ^= (i >> 31) & 0x7FFFFFFF;
    memcpy(&x, &i, 4);
    return x;
}

/* A number of bfloat16 in single precision. */
INLINE float widened(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

CLONED static void range_run(const float *restrict x, int64_t n, int32_t *low, int32_t *high)
{
    int32_t lo = *low, hi = *high;
    for (int64_t i = 0; i < n; i++) {
        int32_t k = ordered(x[i]);
        lo = k < lo ? k : lo;
        hi = k > hi ? k : hi;
    }
    *low = lo;
    *high = hi;
}

CLONED static void range_columns(const float *restrict x, int64_t n, int32_t *restrict low, int32_t *restrict high)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t k = ordered(x[i]);
        low[i] = k < low[i] ? k : low[i];
        high[i] = k > high[i] ? k : high[i];
    }
}

enum span { RANGE, SYMMETRIC, WITH_ZERO }; /* what a grid spans, see rounding.py */

/* The grid of a range. Returns whether there is one: not for a range that is infinite, not a number, or tiny. */
static int grid_of(int32_t low, int32_t high, float levels, enum span span, float *scale, float *zero)
{
    float lo = unordered(low), hi = unordered(high);
    if (lo != lo || hi != hi) {
        *scale = *zero = NAN;
        return 0;
    }
    if (span == SYMMETRIC) {
        hi = -lo > hi ? -lo : hi;
        lo = 0.0f;
    } else if (span == WITH_ZERO) {
        lo = lo < 0.0f ? lo : 0.0f;
        hi = hi > 0.0f ? hi : 0.0f;
    }
    *scale = lo == hi ? (isfinite(lo) ? NO_STEP : NAN) : (hi - lo) / levels;
    *zero = lo + 0.0f; /* no negative zero */
    return isfinite(*scale) && *scale >= SMALLEST;
}

/* --------------------------------------------------------------------------------------------- transpose */

typedef int8_t bytes __attribute__((vector_size(16)));
typedef int32_t words __attribute__((vector_size(32)));

#define LOW_BYTES {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define HIGH_BYTES {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
#define LOW_WORDS {0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH_WORDS {4, 12, 5, 13, 6, 14, 7, 15}

/* A matrix (rows, columns) to (columns, rows); `from` and `to` are the distances of their rows in memory. It is moved in
 * square tiles of one vector per row. Interleaving vector i with vector i + side / 2 moves one bit of an element's row
 * number to its column number, so log2(side) such stages transpose a tile. */
#define TRANSPOSE(name, type, vector, side, stages, low, high)                                                        \
    INLINE void name##_tile(const type *x, int64_t from, type *out, int64_t to)                                       \
    {                                                                                                                 \
        const vector lower = low, upper = high;                                                                       \
        vector a[side], b[side];                                                                                      \
        for (int i = 0; i < side; i++)                                                                                \
            memcpy(&a[i], x + i * from, sizeof(vector));                                                              \
        _Pragma("GCC unroll 4") for (int stage = 0; stage < stages; stage++)                                          \
        {                                                                                                             \
            _Pragma("GCC unroll 8") for (int i = 0; i < side / 2; i++)                                                \
            {                                                                                                         \
                b[2 * i] = __builtin_shuffle(a[i], a[i + side / 2], lower);                                           \
                b[2 * i + 1] = __builtin_shuffle(a[i], a[i + side / 2], upper);                                       \
            }                                                                                                         \
            _Pragma("GCC unroll 16") for (int i = 0; i < side; i++) a[i] = b[i];                                      \
        }                                                                                                             \
        for (int i = 0; i < side; i++)                                                                                \
            memcpy(out + i * to, &a[i], sizeof(vector));                                                              \
    }                                                                                                                 \
    CLONED static void name(const type *x, int64_t rows, int64_t columns, int64_t from, type *out, int64_t to)        \
    {                                                                                                                 \
        int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;                               \
        for (int64_t column = 0; column < whole_columns; column += side)                                              \
            for (int64_t row = 0; row < whole_rows; row += side)                                                      \
                name##_tile(x + row * from + column, from, out + column * to + row, to);                              \
        for (int64_t column = 0; column < columns; column++)                                                          \
            for (int64_t row = column < whole_columns ? whole_rows : 0; row < rows; row++)                            \
                out[column * to + row] = x[row * from + column];                                                      \
    }
TRANSPOSE(transpose_bytes, int8_t, bytes, 16, 4, LOW_BYTES, HIGH_BYTES)
TRANSPOSE(transpose_words, int32_t, words, 8, 3, LOW_WORDS, HIGH_WORDS)

/* ----------------------------------------------------------------------------------------- sums of codes */

/* Stored codes are signed bytes, or unsigned ones with the flip 0x80, which turns an unsigned byte into a signed one 128
 * below it. */
INLINE void sum_rows_any(const int8_t *restrict codes, int64_t rows, int64_t columns, int8_t flip, int32_t *restrict out)
{
    for (int64_t row = 0; row < rows; row++) {
        int32_t total = 0;
        for (int64_t i = 0; i < columns; i++)
            total += (int8_t)(codes[row * columns + i] ^ flip);
        out[row] = flip ? total + 128 * (int32_t)columns : total;
    }
}

/* Short rows, such as the channels of a pixel, need loops of a known length to be fast. */
CLONED static void sum_rows(const int8_t *restrict codes, int64_t rows, int64_t columns, int8_t flip,
                            int32_t *restrict out)
{
    if (columns == 16)
        sum_rows_any(codes, rows, 16, flip, out);
    else if (columns == 32)
        sum_rows_any(codes, rows, 32, flip, out);
    else if (columns == 64)
        sum_rows_any(codes, rows, 64, flip, out);
    else
        sum_rows_any(codes, rows, columns, flip, out);
}

/* The sums of the columns of a few rows. */
CLONED static void add_rows(const uint8_t *restrict codes, int64_t rows, int64_t columns, int32_t *restrict totals)
{
    memset(totals, 0, (size_t)columns * 4);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < columns; i++)
            totals[i] += codes[row * columns + i];
}

/* ---------------------------------------------------------------------------------------------- rounding */

/* Round n elements. Their indices, from which noise is drawn, are `first` and the next ones, or `first` and the indices. */
INLINE void round_any(const float *restrict x, int64_t n, const float *scales, const float *zeros, int columns,
                      float lowest, float levels, int noisy, uint32_t first, const uint32_t *indices, uint32_t key1,
                      uint32_t key2, float *restrict values, int8_t *restrict codes, int32_t offset)
{
    float scale = scales[0], zero = zeros[0];
    for (int64_t i = 0; i < n; i++) {
        float s = columns ? scales[i] : scale, z = columns ? zeros[i] : zero;
        float t = (x[i] - z) / s;
        if (noisy)
            t += noise(first + (indices ? indices[i] : (uint32_t)i), key1, key2);
        t = rintf(t);
        if (noisy) {
            t = t < lowest ? lowest : t;
            t = t > levels ? levels : t;
        }
        if (codes)
            codes[i] = (int8_t)((int32_t)t - offset);
        if (values)
            values[i] = t * s + z;
    }
}

#define ROUND(name, columns, noisy, with_values, with_codes)                                                          \
    CLONED static void name(const float *restrict x, int64_t n, const float *restrict s, const float *restrict z,     \
                            float lowest, float levels, uint32_t first, const uint32_t *restrict indices,             \
                            uint32_t k1, uint32_t k2, float *restrict values, int8_t *restrict codes, int32_t offset) \
    {                                                                                                                 \
        if (noisy && indices)                                                                                         \
            round_any(x, n, s, z, columns, lowest, levels, noisy, first, indices, k1, k2,                             \
                      with_values ? values : NULL, with_codes ? codes : NULL, offset);                                \
        else                                                                                                          \
            round_any(x, n, s, z, columns, lowest, levels, noisy, first, NULL, k1, k2, with_values ? values : NULL,   \
                      with_codes ? codes : NULL, offset);                                                             \
    }
ROUND(nearest_values, 0, 0, 1, 0)
ROUND(nearest_codes, 0, 0, 0, 1)
ROUND(nearest_both, 0, 0, 1, 1)
ROUND(noisy_values, 0, 1, 1, 0)
ROUND(noisy_codes, 0, 1, 0, 1)
ROUND(noisy_both, 0, 1, 1, 1)
ROUND(columns_values, 1, 0, 1, 0)
ROUND(columns_codes, 1, 0, 0, 1)
ROUND(columns_both, 1, 0, 1, 1)
ROUND(noisy_columns_values, 1, 1, 1, 0)
ROUND(noisy_columns_codes, 1, 1, 0, 1)
ROUND(noisy_columns_both, 1, 1, 1, 1)

typedef void (*rounder)(const float *, int64_t, const float *, const float *, float, float, uint32_t, const uint32_t *,
                        uint32_t, uint32_t, float *, int8_t *, int32_t);

static rounder choose(int columns, int noisy, int values, int codes)
{
    static const rounder table[2][2][3] = {
        {{nearest_values, nearest_codes, nearest_both}, {noisy_values, noisy_codes, noisy_both}},
        {{columns_values, columns_codes, columns_both},
         {noisy_columns_values, noisy_columns_codes, noisy_columns_both}},
    };
    return table[columns][noisy][values && codes ? 2 : codes ? 1 : 0];
}

enum layout {
    FLAT,   /* (outer, shared, inner) */
    LAST,   /* images with the channels last in memory: (image, channel, pixel) are outer, shared, inner */
    TO_LAST /* the same, but the channels come before the pixels in memory, and are to be last in that of the codes */
};

enum grids { ONE, PER_IMAGE, PER_CHANNEL }; /* of images, in all layouts but FLAT: PER_CHANNEL of each image */

typedef struct {
    const void *x; /* in single precision or in bfloat16 */
    int is_bfloat16;
    const float *factors; /* what the elements are multiplied by before they are rounded, or NULL */
    int64_t period; /* of rows in memory that share a row of factors; 0: one factor for each row. Of images: for each
                     * channel, or 0 for each image */
    int64_t outer, shared, inner;
    enum layout layout;
    enum span span;
    float lowest, levels; /* the smallest and the largest code; the smallest is 0 unless the grid is symmetric */
    int noisy;
    uint32_t key1, key2;
    float *scale, *zero, *values;
    int8_t *codes;
    int32_t offset; /* codes are stored less this offset, modulo 256 */
    int threads;
    int32_t *sums;   /* of the codes of each pixel, as unsigned bytes, or NULL; only for images */
    int8_t *buffers; /* for each thread one strip of an image */
    enum grids grids;
    int is_small; /* images in the layout TO_LAST, of which each is rounded in one run */
    uint32_t *indices; /* in the layout LAST: of the elements of the first pixels, which are rounded together */
} encoding;

#define STAGE 1024 /* elements that are converted and multiplied at a time */

#define STAGE_RUN(name, type, element)                                                                                \
    CLONED static void name(const type *restrict x, int64_t n, const float *restrict factors, float factor,           \
                            float *restrict out)                                                                      \
    {                                                                                                                 \
        if (factors)                                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = element * factors[i];                                                                        \
        else                                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = element * factor;                                                                            \
    }
STAGE_RUN(stage_floats, float, x[i])
STAGE_RUN(stage_bfloat16, uint16_t, widened(x[i]))

static void widen(const uint16_t *x, int64_t n, float *out, int threads)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t b = 0; b < blocks; b++)
        stage_bfloat16(x + b * BLOCK, b + 1 < blocks ? BLOCK : n - b * BLOCK, NULL, 1.0f, out + b * BLOCK);
}

/* A run of elements within a row of memory, as they are rounded: those of the tensor itself if nothing is done to them. */
static const float *run_of(const encoding *e, int64_t at, int64_t n, float *buffer)
{
    if (!e->is_bfloat16 && !e->factors)
        return (const float *)e->x + at;
    const float *factors = NULL;
    float factor = 1.0f;
    if (e->factors && e->layout == FLAT) {
        int64_t length = e->inner > 1 ? e->inner : e->shared, row = at / length;
        if (e->period)
            factors = e->factors + row / e->period * length + at % length;
        else
            factor = e->factors[row];
    } else if (e->factors && e->period && (e->layout == LAST || e->is_small)) {
        factors = e->factors; /* repeated for all pixels of a stage, or of an image */
    } else if (e->factors) {
        int64_t run = at / e->inner; /* (image, channel); of the layout LAST only the image counts */
        factor = e->factors[e->period ? run % e->shared : run / e->shared];
    }
    if (e->is_bfloat16)
        stage_bfloat16((const uint16_t *)e->x + at, n, factors, factor, buffer);
    else
        stage_floats((const float *)e->x + at, n, factors, factor, buffer);
    return buffer;
}

/* Elements from one run that can be staged together: with the channels last, those of whole pixels. */
static int64_t stage_of(const encoding *e, int64_t n)
{
    if (!e->is_bfloat16 && !e->factors)
        return n;
    return e->layout == LAST ? STAGE / e->shared * e->shared : STAGE;
}

/* Round a run of memory from element `at` on. */
static void round_run(const encoding *e, rounder round, int64_t at, int64_t n, const float *scale, const float *zero)
{
    float buffer[STAGE];
    int64_t stage = stage_of(e, n);
    for (int64_t end = at + n; at < end; at += stage) {
        n = end - at < stage ? end - at : stage;
        round(run_of(e, at, n, buffer), n, scale, zero, e->lowest, e->levels, (uint32_t)at, NULL, e->key1, e->key2,
              e->values ? e->values + at : NULL, e->codes ? e->codes + at : NULL, e->offset);
    }
}

/* Extend a range by that of a run of memory. */
static void range_of_run(const encoding *e, int64_t at, int64_t n, int32_t *low, int32_t *high)
{
    float buffer[STAGE];
    int64_t stage = stage_of(e, n);
    for (int64_t end = at + n; at < end; at += stage) {
        n = end - at < stage ? end - at : stage;
        range_run(run_of(e, at, n, buffer), n, low, high);
    }
}

/* Copy the values of a run of memory that has no grid. */
static void pass_through(const encoding *e, int64_t at, int64_t n)
{
    for (int64_t end = at + n; e->values && at < end; at += STAGE) {
        float buffer[STAGE];
        n = end - at < STAGE ? end - at : STAGE;
        memcpy(e->values + at, run_of(e, at, n, buffer), (size_t)n * 4);
    }
}

/* Repeat each of some numbers. */
CLONED static void repeat(const float *restrict x, int64_t n, int64_t times, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < times; j++)
            out[i * times + j] = x[i];
}

/* Pixels of an image that are handled together: as many as a small buffer holds, in whole tiles. */
static int64_t strip_of(int64_t channels)
{
    int64_t pixels = 4096 / (channels > 0 ? channels : 1) / 16 * 16;
    return pixels < 16 ? 16 : pixels > 256 ? 256 : pixels;
}

/* Round the pixels of an image with the channels last in memory: several together, or some channels of one. */
static void round_pixels(const encoding *e, rounder round, int64_t image, const float *scale, const float *zero)
{
    int64_t channels = e->shared, pixels = e->inner, width = channels < STAGE ? channels : STAGE, together = STAGE / width;
    int by_channel = e->grids == PER_CHANNEL, repeats = by_channel && channels == width;
    float scales[STAGE], zeros[STAGE], staged[STAGE];
    for (int64_t i = 0; repeats && i < together; i++) {
        memcpy(scales + i * width, scale, (size_t)width * 4);
        memcpy(zeros + i * width, zero, (size_t)width * 4);
    }
    for (int64_t i = 0; i < pixels; i += together)
        for (int64_t channel = 0; channel < channels; channel += width) {
            int64_t some = together > 1 ? (pixels - i < together ? pixels - i : together) * width
                           : channels - channel < width ? channels - channel : width;
            int64_t from = (image * pixels + i) * channels + channel;
            round(run_of(e, from, some, staged), some, repeats ? scales : scale + by_channel * channel,
                  repeats ? zeros : zero + by_channel * channel, e->lowest, e->levels,
                  (uint32_t)(image * channels * pixels + i + channel * pixels), e->indices, e->key1, e->key2,
                  e->values ? e->values + from : NULL, e->codes ? e->codes + from : NULL, e->offset);
        }
    if (e->sums)
        sum_rows(e->codes + image * channels * pixels, pixels, channels, INT8_MIN, e->sums + image * pixels);
}

/* Round an image on its grids. The index of an element counts (image, channel, pixel) in all layouts. */
static void round_image(const encoding *e, int64_t image, const float *scale, const float *zero, int8_t *buffer)
{
    int64_t channels = e->shared, pixels = e->inner, strip = strip_of(channels), together = e->is_small ? channels : 1;
    int by_channel = e->grids == PER_CHANNEL, by_column = by_channel && (e->layout == LAST || e->is_small);
    rounder round = choose(by_column, e->noisy, e->values != NULL, e->codes != NULL);
    float staged[STAGE], scales[STAGE], zeros[STAGE]; /* a strip has fewer elements of a channel */
    if (e->layout == LAST) {
        round_pixels(e, round, image, scale, zero);
        return;
    }
    if (by_column) {
        repeat(scale, channels, pixels, scales);
        repeat(zero, channels, pixels, zeros);
    }
    for (int64_t first = 0; first < pixels; first += strip) {
        int64_t n = pixels - first < strip ? pixels - first : strip, at = image * pixels + first;
        for (int64_t channel = 0; channel < channels; channel += together) {
            int64_t index = (image * channels + channel) * pixels + first, some = n * together;
            round(run_of(e, index, some, staged), some, by_column ? scales : scale + by_channel * channel,
                  by_column ? zeros : zero + by_channel * channel, e->lowest, e->levels, (uint32_t)index, NULL, e->key1,
                  e->key2, NULL, buffer + channel * n, e->offset);
        }
        transpose_bytes(buffer, channels, n, n, e->codes + at * channels, channels);
        if (e->sums && n < channels)
            sum_rows(e->codes + at * channels, n, channels, INT8_MIN, e->sums + at);
        else if (e->sums)
            add_rows((const uint8_t *)buffer, channels, n, e->sums + at);
    }
}

/* The range of a run of memory, in blocks over the threads. */
static void range_of(const encoding *e, int64_t n, int32_t *lowest, int32_t *highest)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    int32_t low = INT32_MAX, high = INT32_MIN;
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1) reduction(min : low) reduction(max : high)
    for (int64_t b = 0; b < blocks; b++)
        range_of_run(e, b * BLOCK, b + 1 < blocks ? BLOCK : n - b * BLOCK, &low, &high);
    *lowest = low;
    *highest = high;
}

/* One grid for everything: the range first, then rounding, both in blocks over the threads. */
static int64_t encode_whole(const encoding *e)
{
    int64_t n = e->outer * e->shared * e->inner, blocks = (n + BLOCK - 1) / BLOCK;
    int32_t low, high;
    range_of(e, n, &low, &high);
    if (!grid_of(low, high, e->levels, e->span, e->scale, e->zero)) {
        pass_through(e, 0, n);
        return 1;
    }
    if (e->layout != FLAT) {
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1)
        for (int64_t part = 0; part < e->threads; part++)
            for (int64_t image = part; image < e->outer; image += e->threads)
                round_image(e, image, e->scale, e->zero, e->buffers + part * strip_of(e->shared) * e->shared);
        return 0;
    }
    rounder round = choose(0, e->noisy, e->values != NULL, e->codes != NULL);
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1)
    for (int64_t b = 0; b < blocks; b++)
        round_run(e, round, b * BLOCK, b + 1 < blocks ? BLOCK : n - b * BLOCK, e->scale, e->zero);
    return 0;
}

/* The ranges of the channels of an image. */
static void range_channels(const encoding *e, int64_t image, int32_t *low, int32_t *high)
{
    int64_t channels = e->shared, n = channels * e->inner, at = image * n;
    float buffer[STAGE];
    const float *x = e->is_small ? run_of(e, at, n, buffer) : NULL;
    for (int64_t channel = 0; channel < channels; channel++) {
        low[channel] = INT32_MAX;
        high[channel] = INT32_MIN;
        if (e->is_small)
            range_run(x + channel * e->inner, e->inner, low + channel, high + channel);
        else if (e->layout != LAST)
            range_of_run(e, at + channel * e->inner, e->inner, low + channel, high + channel);
    }
    if (e->layout != LAST)
        return;
    if (channels > STAGE) { /* the elements are those of the tensor */
        for (int64_t i = 0; i < n; i += channels)
            range_columns((const float *)e->x + at + i, channels, low, high);
        return;
    }
    /* Those of several pixels are columns of their own at first. */
    int64_t width = STAGE / channels * channels;
    int32_t lows[STAGE], highs[STAGE];
    for (int64_t i = 0; i < width; i++) {
        lows[i] = INT32_MAX;
        highs[i] = INT32_MIN;
    }
    for (int64_t i = 0; i < n; i += width)
        range_columns(run_of(e, at + i, n - i < width ? n - i : width, buffer), n - i < width ? n - i : width, lows,
                      highs);
    for (int64_t i = 0; i < width; i += channels)
        for (int64_t channel = 0; channel < channels; channel++) {
            low[channel] = lows[i + channel] < low[channel] ? lows[i + channel] : low[channel];
            high[channel] = highs[i + channel] > high[channel] ? highs[i + channel] : high[channel];
        }
}

/* Images with a grid for each, or for each of their channels. If some grid does not exist, the caller has no use for the
 * codes. `ranges` has room for two numbers for each channel and thread. */
static int64_t encode_images(const encoding *e, int32_t *ranges)
{
    int64_t without = 0, channels = e->shared, of_image = e->shared * e->inner;
    int64_t grids = e->grids == PER_CHANNEL ? channels : 1; /* of an image */
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1) reduction(+ : without)
    for (int64_t part = 0; part < e->threads; part++)
        for (int64_t image = part; image < e->outer; image += e->threads) {
            int32_t *low = ranges + 2 * part * grids, *high = low + grids;
            float *scale = e->scale + image * grids, *zero = e->zero + image * grids;
            int64_t missing = 0;
            if (e->grids == PER_CHANNEL) {
                range_channels(e, image, low, high);
            } else {
                int64_t run = e->layout == LAST || e->is_small ? of_image : e->inner;
                *low = INT32_MAX;
                *high = INT32_MIN;
                for (int64_t i = 0; i < of_image; i += run)
                    range_of_run(e, image * of_image + i, run, low, high);
            }
            for (int64_t i = 0; i < grids; i++)
                missing += !grid_of(low[i], high[i], e->levels, e->span, scale + i, zero + i);
            without += missing;
            if (!missing)
                round_image(e, image, scale, zero, e->buffers + part * strip_of(channels) * channels);
        }
    return without;
}

/* One grid for each row of `shared` consecutive elements. */
static int64_t encode_rows(const encoding *e)
{
    int64_t without = 0;
    rounder round = choose(0, e->noisy, e->values != NULL, e->codes != NULL);
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1) reduction(+ : without)
    for (int64_t row = 0; row < e->outer; row++) {
        int32_t low = INT32_MAX, high = INT32_MIN;
        int64_t at = row * e->shared;
        range_of_run(e, at, e->shared, &low, &high);
        if (grid_of(low, high, e->levels, e->span, e->scale + row, e->zero + row)) {
            round_run(e, round, at, e->shared, e->scale + row, e->zero + row);
        } else {
            pass_through(e, at, e->shared);
            without++;
        }
    }
    return without;
}

/* One grid for each (outer, inner): consecutive elements have different grids. */
static int64_t encode_columns(const encoding *e)
{
    /* Tiles are narrow enough for all threads. */
    int64_t tile = e->outer < e->threads ? (e->inner + e->threads - 1) / e->threads : TILE, without = 0;
    tile = tile > TILE ? TILE : (tile + 15) / 16 * 16;
    int64_t tiles = (e->inner + tile - 1) / tile;
    rounder round = choose(1, e->noisy, e->values != NULL, e->codes != NULL);
    rounder round_one = choose(0, e->noisy, 1, 0);
#pragma omp parallel for num_threads(e->threads) if (e->threads > 1) reduction(+ : without)
    for (int64_t task = 0; task < e->outer * tiles; task++) {
        int64_t block = task / tiles, first = task % tiles * tile;
        int64_t width = e->inner - first < tile ? e->inner - first : tile;
        int64_t at = block * e->shared * e->inner + first, missing = 0;
        float *scale = e->scale + block * e->inner + first, *zero = e->zero + block * e->inner + first;
        int32_t low[TILE], high[TILE];
        char has_grid[TILE];
        float staged[TILE];
        for (int64_t i = 0; i < width; i++) {
            low[i] = INT32_MAX;
            high[i] = INT32_MIN;
        }
        for (int64_t j = 0; j < e->shared; j++)
            range_columns(run_of(e, at + j * e->inner, width, staged), width, low, high);
        for (int64_t i = 0; i < width; i++) {
            has_grid[i] = (char)grid_of(low[i], high[i], e->levels, e->span, scale + i, zero + i);
            missing += !has_grid[i];
        }
        without += missing;
        if (missing && !e->values)
            continue; /* the caller has no use for the codes then */
        for (int64_t j = 0; j < e->shared; j++) {
            int64_t line = at + j * e->inner;
            const float *x = run_of(e, line, width, staged);
            if (!missing) {
                round(x, width, scale, zero, e->lowest, e->levels, (uint32_t)line, NULL, e->key1, e->key2,
                      e->values ? e->values + line : NULL, e->codes ? e->codes + line : NULL, e->offset);
                continue;
            }
            for (int64_t i = 0; i < width; i++)
                if (has_grid[i])
                    round_one(x + i, 1, scale + i, zero + i, e->lowest, e->levels, (uint32_t)(line + i), NULL,
                              e->key1, e->key2, e->values + line + i, NULL, 0);
                else
                    e->values[line + i] = x[i];
        }
    }
    return without;
}

/* --------------------------------------------------------------------------------------- codes to values */

INLINE void decode_any(const int8_t *restrict codes, int64_t n, const float *scales, const float *zeros, int columns,
                       int32_t offset, float origin, float *restrict values)
{
    float scale = scales[0], zero = zeros[0];
    for (int64_t i = 0; i < n; i++) {
        float code = (float)(uint8_t)(codes[i] + offset) - origin;
        values[i] = code * (columns ? scales[i] : scale) + (columns ? zeros[i] : zero);
    }
}

CLONED static void decode_run(const int8_t *restrict codes, int64_t n, const float *restrict scale,
                              const float *restrict zero, int32_t offset, float origin, float *restrict values)
{
    decode_any(codes, n, scale, zero, 0, offset, origin, values);
}

CLONED static void decode_columns(const int8_t *restrict codes, int64_t n, const float *restrict scale,
                                  const float *restrict zero, int32_t offset, float origin, float *restrict values)
{
    decode_any(codes, n, scale, zero, 1, offset, origin, values);
}

static void decode_all(const int8_t *codes, int64_t outer, int64_t shared, int64_t inner, const float *scale,
                       const float *zero, int32_t offset, float origin, float *values, int threads)
{
    if (inner > 1) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (int64_t line = 0; line < outer * shared; line++) {
            int64_t grid = line / shared * inner;
            decode_columns(codes + line * inner, inner, scale + grid, zero + grid, offset, origin, values + line * inner);
        }
        return;
    }
    int64_t blocks = (shared + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t task = 0; task < outer * blocks; task++) {
        int64_t row = task / blocks, first = task % blocks * BLOCK;
        int64_t n = shared - first < BLOCK ? shared - first : BLOCK, at = row * shared + first;
        decode_run(codes + at, n, scale + row, zero + row, offset, origin, values + at);
    }
}

/* -------------------------------------------------------------------------------------- products of codes */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,prefer-vector-width=512")))

#define PANEL 64   /* columns that are multiplied together: four vectors of sums */
#define HEIGHT 6   /* rows that are multiplied together: with four vectors each, they fill the registers */
#define CHUNK 96  /* rows of a task */

/* A batch of matrices of signed codes, each with so many lines. The codes of a line, which a product sums over, lie apart
 * by `term`, lines by `line`; one of both is 1. */
typedef struct {
    const int8_t *codes;
    int64_t lines, line, term, batch[2];
    const float *scale, *zero;
    int64_t grids; /* of each matrix: 1 or one for each line; 0 if one belongs to all matrices */
    float offset;
} matrices;

typedef struct {
    matrices a, b;
    int64_t batch[2], terms;
    const float *bias, *row_bias; /* NULL means none */
    int64_t bias_step;            /* from the biases of a matrix to those of the next one */
    void *out;
    int to_bfloat16, is_summed, threads; /* is_summed: the products of all matrices are added up */
    int8_t *packed_a, *packed_b;
    int32_t *sums_a, *sums_b; /* of the codes of each line */
} multiplication;

INLINE const int8_t *matrix_of(const matrices *m, const multiplication *w, int64_t number)
{
    return m->codes + number / w->batch[1] * m->batch[0] + number % w->batch[1] * m->batch[1];
}

INLINE int64_t panels_of(int64_t lines) { return (lines + PANEL - 1) / PANEL; }

/* Codes are multiplied in groups of four terms: a panel is (groups, lines, 4), filled with zeros. */
INLINE int64_t groups_of(const multiplication *w) { return (w->terms + 3) / 4; }

/* Lay out the lines of a panel, and sum their codes. */
VNNI static void pack_panel(const int8_t *codes, const matrices *m, int64_t lines, int64_t terms, int8_t *panel,
                            int32_t *sums)
{
    int64_t groups = (terms + 3) / 4, whole = terms / 4;
    int32_t *words = (int32_t *)panel;
    if (lines < PANEL || whole < groups)
        memset(panel, 0, (size_t)(groups * PANEL * 4));
    if (m->term == 1 && m->line % 4 == 0) {
        transpose_words((const int32_t *)codes, lines, whole, m->line / 4, words, PANEL);
    } else if (m->term == 1) {
        for (int64_t i = 0; i < lines; i++)
            for (int64_t g = 0; g < whole; g++)
                memcpy(words + g * PANEL + i, codes + i * m->line + 4 * g, 4);
    } else {
        for (int64_t g = 0; g < whole; g++) {
            const uint8_t *t0 = (const uint8_t *)codes + 4 * g * m->term, *t1 = t0 + m->term, *t2 = t1 + m->term,
                          *t3 = t2 + m->term;
            uint32_t *to = (uint32_t *)words + g * PANEL;
            for (int64_t i = 0; i < lines; i++)
                to[i] = t0[i] | (uint32_t)t1[i] << 8 | (uint32_t)t2[i] << 16 | (uint32_t)t3[i] << 24;
        }
    }
    for (int64_t t = 4 * whole; t < terms; t++)
        for (int64_t i = 0; i < lines; i++)
            panel[whole * PANEL * 4 + 4 * i + t % 4] = codes[i * m->line + t * m->term];
    const __m512i ones = _mm512_set1_epi8(1);
    for (int64_t first = 0; first < PANEL; first += 16) {
        __m512i total = _mm512_setzero_si512();
        for (int64_t g = 0; g < groups; g++)
            total = _mm512_dpbusd_epi32(total, ones, _mm512_loadu_si512(words + g * PANEL + first));
        _mm512_storeu_si512(sums + first, total);
    }
}

/* The products of a few rows with a panel. The instruction multiplies unsigned by signed bytes: the codes of a row are
 * taken 128 larger, and `start` has -128 times the sums of the columns. */
#define PRODUCTS(rows)                                                                                                \
    VNNI static void products_##rows(const int8_t *a, int64_t line, int64_t step, const int8_t *panel, int64_t groups,\
                                     const int32_t *start, int32_t *out)                                              \
    {                                                                                                                 \
        const __m512i flip = _mm512_set1_epi8(INT8_MIN);                                                              \
        __m512i sums[rows][4];                                                                                        \
        _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)                                                        \
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) sums[r][v] = _mm512_loadu_si512(start + 16 * v);      \
        for (int64_t g = 0; g < groups; g++, panel += 4 * PANEL, a += step) {                                         \
            __m512i b[4];                                                                                             \
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) b[v] = _mm512_loadu_si512(panel + 64 * v);            \
            _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)                                                    \
            {                                                                                                         \
                int32_t four;                                                                                         \
                memcpy(&four, a + r * line, 4);                                                                       \
                const __m512i x = _mm512_xor_si512(_mm512_set1_epi32(four), flip);                                    \
                _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)                                                   \
                    sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], x, b[v]);                                            \
            }                                                                                                         \
        }                                                                                                             \
        _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)                                                        \
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)                                                       \
                _mm512_storeu_si512(out + r * PANEL + 16 * v, sums[r][v]);                                            \
    }
PRODUCTS(1)
PRODUCTS(2)
PRODUCTS(3)
PRODUCTS(4)
PRODUCTS(5)
PRODUCTS(6)

/* Round to bfloat16, half to even, as torch does. */
INLINE uint16_t to_bfloat16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return x != x ? 0x7FC0 : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Write the first columns of a row of a panel. */
INLINE void write_row(const multiplication *w, const float *values, int64_t width, int64_t at)
{
    if (!w->to_bfloat16)
        memcpy((float *)w->out + at, values, (size_t)width * 4);
    else
        for (int64_t i = 0; i < width; i++)
            ((uint16_t *)w->out)[at + i] = to_bfloat16(values[i]);
}

/* Some rows of a matrix times a panel: out = s_p s_q S + s_p r z_q + z_p u + row_bias + bias, see integer_sums.py. They
 * are written, or added to `totals` if given. */
VNNI static void multiply_chunk(const multiplication *w, int64_t number, int64_t panel, int64_t first, int64_t last,
                                float *totals)
{
    static void (*const products[HEIGHT])(const int8_t *, int64_t, int64_t, const int8_t *, int64_t, const int32_t *,
                                          int32_t *) = {products_1, products_2, products_3,
                                                        products_4, products_5, products_6};
    const matrices *a = &w->a, *b = &w->b;
    int64_t groups = groups_of(w), column = panel * PANEL, place = number * panels_of(b->lines) + panel;
    int64_t width = b->lines - column < PANEL ? b->lines - column : PANEL;
    int64_t b_grids = b->grids > 1 ? b->lines : b->grids, a_grids = a->grids > 1 ? a->lines : a->grids;
    float q_scale[PANEL] = {0}, q_zero[PANEL] = {0}, u[PANEL] = {0}, bias[PANEL] = {0};
    int32_t start[PANEL] = {0}, sums[HEIGHT * PANEL];
    int has_biases = !totals || number == 0;
    for (int64_t i = 0; i < width; i++) {
        int64_t grid = number * b_grids + (b->grids > 1 ? column + i : 0);
        int32_t total = w->sums_b[place * PANEL + i];
        start[i] = (int32_t)(-128u * (uint32_t)total);
        q_scale[i] = b->scale[grid];
        q_zero[i] = b->zero[grid] + q_scale[i] * b->offset;
        u[i] = (float)((double)q_scale[i] * (double)total + (double)q_zero[i] * (double)w->terms);
        bias[i] = w->bias && has_biases ? w->bias[number * w->bias_step + column + i] : 0.0f;
    }
    const int8_t *matrix = matrix_of(a, w, number);
    int64_t out_row = totals ? 0 : number * a->lines;
    int is_unit = totals && b->grids == 0 && q_scale[0] == 1.0f && q_zero[0] == 0.0f && !w->bias; /* fewer terms then */
    for (int64_t row = first; row < last;) {
        /* Rows that are packed lie in panels, of which none is crossed. */
        int64_t in_panel = w->packed_a ? PANEL - row % PANEL : HEIGHT;
        int64_t rows = last - row < HEIGHT ? last - row : HEIGHT;
        rows = rows < in_panel ? rows : in_panel;
        int64_t a_place = (number * panels_of(a->lines) + row / PANEL) * groups * PANEL * 4 + row % PANEL * 4;
        products[rows - 1](w->packed_a ? w->packed_a + a_place : matrix + row * a->line, w->packed_a ? 4 : a->line,
                           w->packed_a ? 4 * PANEL : 4, w->packed_b + place * groups * PANEL * 4, groups, start, sums);
        for (int64_t r = 0; r < rows; r++, row++) {
            int64_t grid = number * a_grids + (a->grids > 1 ? row : 0), at = (out_row + row) * b->lines + column;
            float p_scale = a->scale[grid], p_zero = a->zero[grid] + p_scale * a->offset;
            float p_term = p_scale * (float)w->sums_a[number * panels_of(a->lines) * PANEL + row];
            float row_bias = w->row_bias && has_biases ? w->row_bias[out_row + row] : 0.0f, values[PANEL];
            float *restrict total = totals ? totals + (row - first) * PANEL : NULL;
            if (is_unit) {
                for (int64_t i = 0; i < PANEL; i++)
                    total[i] += (float)sums[r * PANEL + i] * p_scale + u[i] * p_zero + row_bias;
                continue;
            }
            for (int64_t i = 0; i < PANEL; i++) {
                float value = (float)sums[r * PANEL + i] * q_scale[i] * p_scale;
                value = value + q_zero[i] * p_term;
                value = value + u[i] * p_zero;
                value = value + row_bias;
                values[i] = value + bias[i];
            }
            for (int64_t i = 0; total && i < PANEL; i++)
                total[i] += values[i];
            if (!total)
                write_row(w, values, width, at);
        }
    }
}

static void pack_all(const multiplication *w, const matrices *m, int8_t *packed, int32_t *sums)
{
    int64_t panels = panels_of(m->lines), batch = w->batch[0] * w->batch[1];
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t task = 0; task < batch * panels; task++) {
        int64_t first = task % panels * PANEL, lines = m->lines - first < PANEL ? m->lines - first : PANEL;
        const int8_t *codes = matrix_of(m, w, task / panels) + first * m->line;
        if (packed)
            pack_panel(codes, m, lines, w->terms, packed + task * groups_of(w) * PANEL * 4, sums + task * PANEL);
        else
            for (int64_t i = 0; i < lines; i++)
                sum_rows(codes + i * m->line, 1, w->terms, 0, sums + task * PANEL + i);
    }
}

static void multiply_all(multiplication *w)
{
    int64_t batch = w->batch[0] * w->batch[1], panels = panels_of(w->b.lines);
    int64_t chunks = (w->a.lines + CHUNK - 1) / CHUNK;
    pack_all(w, &w->a, w->packed_a, w->sums_a);
    pack_all(w, &w->b, w->packed_b, w->sums_b);
    int64_t together = w->is_summed ? batch : 1; /* matrices of a task */
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t task = 0; task < batch / together * panels * chunks; task++) {
        int64_t number = task / (panels * chunks), first = task / panels % chunks * CHUNK, panel = task % panels;
        int64_t last = w->a.lines - first < CHUNK ? w->a.lines : first + CHUNK, left = w->b.lines - panel * PANEL;
        float totals[CHUNK * PANEL];
        memset(totals, 0, w->is_summed ? sizeof(totals) : 0);
        for (int64_t i = number; i < number + together; i++)
            multiply_chunk(w, i, panel, first, last, w->is_summed ? totals : NULL);
        for (int64_t row = first; w->is_summed && row < last; row++)
            write_row(w, totals + (row - first) * PANEL, left < PANEL ? left : PANEL, row * w->b.lines + panel * PANEL);
    }
}

/* Return whether this processor has the instruction. */
static int has_vnni(void) { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"); }

static int64_t bytes_of_panels(const multiplication *w, const matrices *m)
{
    return w->batch[0] * w->batch[1] * panels_of(m->lines) * groups_of(w) * PANEL * 4;
}

/* Return false if there is not enough memory. */
static int multiply(multiplication *w)
{
    int64_t batch = w->batch[0] * w->batch[1], of_b = bytes_of_panels(w, &w->b);
    int is_packed = w->a.term != 1 || w->terms % 4 != 0;
    int64_t of_a = is_packed ? bytes_of_panels(w, &w->a) : 0;
    int64_t a_sums = batch * panels_of(w->a.lines) * PANEL, b_sums = batch * panels_of(w->b.lines) * PANEL;
    int8_t *memory = malloc((size_t)(of_a + of_b + 4 * (a_sums + b_sums)));
    if (!memory)
        return 0;
    w->packed_b = memory;
    w->packed_a = is_packed ? memory + of_b : NULL;
    w->sums_a = (int32_t *)(memory + of_b + of_a);
    w->sums_b = w->sums_a + a_sums;
    multiply_all(w);
    free(memory);
    return 1;
}

/* ------------------------------------------------------------------------------------ convolutions of codes */

#define BAND 32768      /* bytes of an image that are laid out together */

/* Codes are (images, height, width, channels), unsigned. Out of the image is the code 0. */
typedef struct {
    const uint8_t *codes;
    int64_t images, height, width, channels, out_height, out_width, out_channels;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t apart[2]; /* rows and columns of the image lie so far apart, with zeros between them */
} geometry;

INLINE int64_t taps_of(const geometry *g) { return g->kernel[0] * g->kernel[1]; }
INLINE int64_t lanes_of(const geometry *g) { return (g->out_channels + 15) / 16 * 16; }
INLINE int64_t deep_of(const geometry *g) { return (g->channels + 3) / 4 * 4; }

/* Rows or columns of the image, zeros among them, that so many of the output meet. */
INLINE int64_t reach_of(const geometry *g, int side, int64_t count)
{
    return (count - 1) * g->stride[side] + (g->kernel[side] - 1) * g->dilation[side] + 1;
}

/* Vectors of 16 output channels that are computed together, of those that are left. */
INLINE int vectors_of(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* The sums of some windows, for some vectors of output channels. */
#define WINDOWS(pixels, vectors)                                                                                      \
    VNNI static void windows_##pixels##_##vectors(const uint8_t *codes, int64_t step, const int64_t *taps,            \
                                                  int64_t count, int64_t groups, const int8_t *kernel, int32_t *out,  \
                                                  int64_t line)                                                       \
    {                                                                                                                 \
        __m512i sums[pixels][vectors];                                                                                \
        _Pragma("GCC unroll 16") for (int p = 0; p < pixels; p++)                                                     \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) sums[p][v] = _mm512_setzero_si512();            \
        for (int64_t t = 0; t < count; t++) {                                                                         \
            const uint8_t *at = codes + taps[t];                                                                      \
            for (int64_t g = 0; g < groups; g++, at += 4, kernel += 64 * vectors) {                                   \
                __m512i b[vectors];                                                                                   \
                _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) b[v] = _mm512_loadu_si512(kernel + 64 * v); \
                _Pragma("GCC unroll 16") for (int p = 0; p < pixels; p++)                                             \
                {                                                                                                     \
                    int32_t four;                                                                                     \
                    memcpy(&four, at + p * step, 4);                                                                  \
                    const __m512i x = _mm512_set1_epi32(four);                                                        \
                    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                         \
                        sums[p][v] = _mm512_dpbusd_epi32(sums[p][v], x, b[v]);                                        \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        _Pragma("GCC unroll 16") for (int p = 0; p < pixels; p++)                                                     \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                                 \
                _mm512_storeu_si512(out + p * line + 16 * v, sums[p][v]);                                             \
    }
WINDOWS(1, 1)
WINDOWS(2, 1)
WINDOWS(4, 1)
WINDOWS(8, 1)
WINDOWS(16, 1)
WINDOWS(1, 2)
WINDOWS(2, 2)
WINDOWS(4, 2)
WINDOWS(8, 2)
WINDOWS(1, 4)
WINDOWS(2, 4)
WINDOWS(4, 4)

typedef void (*windows)(const uint8_t *, int64_t, const int64_t *, int64_t, int64_t, const int8_t *, int32_t *, int64_t);

/* The function for so many vectors, and the most pixels that it can do of so many. */
static windows choose_windows(int vectors, int64_t pixels, int64_t *chosen)
{
    static const windows table[3][5] = {{windows_1_1, windows_2_1, windows_4_1, windows_8_1, windows_16_1},
                                        {windows_1_2, windows_2_2, windows_4_2, windows_8_2, NULL},
                                        {windows_1_4, windows_2_4, windows_4_4, NULL, NULL}};
    int log = 0;
    while (log < 4 && 2 << log <= pixels && (2 << log) * vectors <= 16)
        log++;
    *chosen = 1 << log;
    return table[vectors / 2][log];
}

typedef struct {
    geometry g;
    const int32_t *pixel_sums;   /* of the codes of a pixel (images, height, width) */
    const int8_t *kernel;        /* signed codes */
    int64_t steps[4];            /* of the kernel: output channel, channel, row, column */
    const int32_t *kinds;        /* of each output position: which elements of the kernel meet the image there */
    int64_t kind_count;
    const uint8_t *inside;       /* (kinds, elements): 1 if the element meets the image */
    const float *p_scale, *p_zero, *q_scale, *q_zero, *bias, *row_bias;
    int64_t p_grids, q_grids;
    float p_offset, q_offset;
    void *out;
    int channels_last, to_bfloat16, threads;
    int64_t *taps;               /* where each element of the kernel meets a band */
    int8_t *packed;
    float *u, *scales, *zeros, *biases; /* of each lane; u (kinds, lanes) */
} convolution;

/* Lay out the kernel in chunks of several vectors: (chunk, element, four channels, lane, 4). */
static void pack_kernel(const convolution *w)
{
    const geometry *g = &w->g;
    int64_t groups = deep_of(g) / 4, lanes = lanes_of(g), taps = taps_of(g), step = w->steps[1];
    uint32_t *to = (uint32_t *)w->packed;
    for (int64_t first = 0, width; first < lanes; first += width) {
        width = 16 * vectors_of((lanes - first) / 16);
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < 4 * groups; c += 4)
                for (int64_t o = first; o < first + width; o++, to++) {
                    const uint8_t *from = (const uint8_t *)w->kernel + o * w->steps[0] + c * step +
                                          t / g->kernel[1] * w->steps[2] + t % g->kernel[1] * w->steps[3];
                    int64_t left = o < g->out_channels ? g->channels - c : 0;
                    *to = left < 1 ? 0 : from[0];
                    *to |= left < 2 ? 0 : (uint32_t)from[step] << 8;
                    *to |= left < 3 ? 0 : (uint32_t)from[2 * step] << 16;
                    *to |= left < 4 ? 0 : (uint32_t)from[3 * step] << 24;
                }
    }
}

/* The numbers of each lane, and what is added for the zero points at each kind of position. */
VNNI static void prepare_lanes(const convolution *w)
{
    const geometry *g = &w->g;
    int64_t lanes = lanes_of(g), taps = taps_of(g), groups = deep_of(g) / 4;
    const __m512i ones = _mm512_set1_epi8(1);
    memset(w->u, 0, (size_t)((w->kind_count + 3) * lanes) * 4);
    for (int64_t o = 0; o < g->out_channels; o++) {
        int64_t grid = w->q_grids > 1 ? o : 0;
        w->scales[o] = w->q_scale[grid];
        w->zeros[o] = w->q_zero[grid] + w->q_scale[grid] * w->q_offset;
        w->biases[o] = w->bias ? w->bias[o] : 0.0f;
    }
    for (int64_t first = 0, vectors; first < lanes / 16; first += vectors) {
        vectors = vectors_of(lanes / 16 - first);
        const int8_t *chunk = w->packed + 16 * first * taps * 4 * groups;
        for (int64_t vector = 0; vector < vectors; vector++)
            for (int64_t kind = 0; kind < w->kind_count; kind++) {
                int32_t terms = 0, totals[16];
                __m512i total = _mm512_setzero_si512();
                for (int64_t t = 0; t < taps; t++)
                    if (w->inside[kind * taps + t]) {
                        terms += (int32_t)g->channels;
                        for (int64_t i = t * groups; i < (t + 1) * groups; i++)
                            total = _mm512_dpbusd_epi32(
                                total, ones, _mm512_loadu_si512(chunk + (i * vectors + vector) * 64));
                    }
                _mm512_storeu_si512(totals, total);
                for (int64_t i = 0, o = 16 * (first + vector); i < 16; i++, o++)
                    w->u[kind * lanes + o] =
                        (float)((double)w->scales[o] * (double)totals[i] + (double)w->zeros[o] * (double)terms);
            }
    }
}

INLINE void copy_pixels(uint8_t *restrict to, int64_t step, const uint8_t *restrict from, int64_t count, int64_t n)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * step, from + i * n, (size_t)n);
}

/* Lay out the rows of an image that output rows from `first` on meet, in memory that has zeros around and between them. */
CLONED static void fill_band(const convolution *w, int64_t image, int64_t first, int64_t rows, uint8_t *band,
                             int32_t *sums)
{
    const geometry *g = &w->g;
    int64_t width = reach_of(g, 1, g->out_width), deep = deep_of(g), apart = g->apart[1];
    int64_t room = width > g->padding[1] ? (width - g->padding[1] + apart - 1) / apart : 0;
    int64_t count = room < g->width ? room : g->width;
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = first * g->stride[0] - g->padding[0] + i;
        if (at < 0 || at % g->apart[0] || at / g->apart[0] >= g->height)
            continue;
        int64_t line = (image * g->height + at / g->apart[0]) * g->width, place = i * width + g->padding[1];
        const uint8_t *from = g->codes + line * g->channels;
        uint8_t *to = band + place * deep;
        if (apart == 1 && deep == g->channels)
            memcpy(to, from, (size_t)(count * deep));
        else if (g->channels == 16)
            copy_pixels(to, 16 * apart, from, count, 16);
        else if (g->channels == 32)
            copy_pixels(to, 32 * apart, from, count, 32);
        else if (g->channels == 64)
            copy_pixels(to, 64 * apart, from, count, 64);
        else
            copy_pixels(to, deep * apart, from, count, g->channels);
        for (int64_t x = 0; x < count; x++)
            sums[place + x * apart] = w->pixel_sums[line + x];
    }
}

/* The sums of the codes in the window that starts at each pixel, as far as windows start there. */
CLONED static void sum_windows(const geometry *g, int64_t rows, const int32_t *restrict sums, int32_t *restrict columns,
                               int32_t *restrict out)
{
    int64_t width = reach_of(g, 1, g->out_width), n = ((rows - 1) * g->stride[0] + 1) * width;
    int64_t windows = n - (g->kernel[1] - 1) * g->dilation[1];
    memcpy(columns, sums, (size_t)n * 4);
    for (int64_t i = 1; i < g->kernel[0]; i++)
        for (int64_t x = 0; x < n; x++)
            columns[x] += sums[i * g->dilation[0] * width + x];
    memcpy(out, columns, (size_t)windows * 4);
    for (int64_t j = 1; j < g->kernel[1]; j++)
        for (int64_t x = 0; x < windows; x++)
            out[x] += columns[x + j * g->dilation[1]];
}

/* out = s_p s_q S + s_p r z_q + z_p u + row_bias + bias, see integer_sums.py, for a row of the output. */
INLINE void finish_any(const convolution *w, int64_t image, int64_t y, const int32_t *restrict sums,
                       const int32_t *by_row, float *restrict out, int64_t lanes)
{
    const geometry *g = &w->g;
    const float *restrict q_scale = w->scales, *restrict q_zero = w->zeros, *restrict bias = w->biases;
    const int32_t *kinds = w->kinds + y * g->out_width;
    const float *row_bias = w->row_bias ? w->row_bias + (image * g->out_height + y) * g->out_width : NULL;
    int64_t grid = w->p_grids > 1 ? image : 0;
    float p_scale = w->p_scale[grid], p_zero = w->p_zero[grid] + p_scale * w->p_offset;
    for (int64_t x = 0; x < g->out_width; x++) {
        const float *restrict u = w->u + kinds[x] * lanes;
        float p_term = p_scale * (float)by_row[x * g->stride[1]], added = row_bias ? row_bias[x] : 0.0f;
        for (int64_t i = 0; i < lanes; i++) {
            float value = (float)sums[x * lanes + i] * q_scale[i] * p_scale;
            value = value + q_zero[i] * p_term;
            value = value + u[i] * p_zero;
            value = value + added;
            out[x * lanes + i] = value + bias[i];
        }
    }
}

/* Loops of a known length are faster. */
CLONED static void finish(const convolution *w, int64_t image, int64_t y, const int32_t *sums, const int32_t *by_row,
                          float *out)
{
    if (lanes_of(&w->g) == 16)
        finish_any(w, image, y, sums, by_row, out, 16);
    else if (lanes_of(&w->g) == 32)
        finish_any(w, image, y, sums, by_row, out, 32);
    else
        finish_any(w, image, y, sums, by_row, out, lanes_of(&w->g));
}

CLONED static void write_run(const float *restrict from, int64_t n, int narrow, void *out, int64_t at)
{
    if (!narrow)
        memcpy((float *)out + at, from, (size_t)n * 4);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[at + i] = to_bfloat16(from[i]);
}

/* Write pixels of an image: the channels last in memory, or before the pixels. */
static void write_pixels(const convolution *w, int64_t image, int64_t first, int64_t n, const float *values, float *buffer)
{
    int64_t lanes = lanes_of(&w->g), channels = w->g.out_channels, pixels = w->g.out_height * w->g.out_width;
    if (w->channels_last) {
        int64_t at = (image * pixels + first) * channels;
        if (lanes == channels)
            write_run(values, n * channels, w->to_bfloat16, w->out, at);
        else
            for (int64_t j = 0; j < n; j++)
                write_run(values + j * lanes, channels, w->to_bfloat16, w->out, at + j * channels);
        return;
    }
    int64_t at = image * channels * pixels + first;
    if (!w->to_bfloat16) {
        transpose_words((const int32_t *)values, n, channels, lanes, (int32_t *)w->out + at, pixels);
        return;
    }
    transpose_words((const int32_t *)values, n, channels, lanes, (int32_t *)buffer, n);
    for (int64_t c = 0; c < channels; c++)
        write_run(buffer + c * n, n, 1, w->out, at + c * pixels);
}

/* Rows of the output that are computed together. */
static int64_t height_of_bands(const geometry *g)
{
    int64_t row = reach_of(g, 1, g->out_width) * deep_of(g), height = g->out_height;
    while (height > 1 && (reach_of(g, 0, height) * row > BAND || height * g->out_width * lanes_of(g) * 4 > 2 * BAND))
        height = (height + 1) / 2;
    return height;
}

/* A band of an image, in the memory of a thread: its codes, the sums of its pixels, and what is computed from them. */
static void convolve_band(const convolution *w, int64_t image, int64_t first, int64_t rows, uint8_t *memory)
{
    const geometry *g = &w->g;
    int64_t width = reach_of(g, 1, g->out_width), deep = deep_of(g), lanes = lanes_of(g), taps = taps_of(g);
    int64_t met = reach_of(g, 0, rows), n = rows * g->out_width;
    int32_t *map = (int32_t *)(memory + met * width * deep), *columns = map + met * width;
    int32_t *by_row = columns + met * width, *sums = by_row + met * width;
    float *values = (float *)(sums + n * lanes), *buffer = values + n * lanes;
    int in_place = w->channels_last && !w->to_bfloat16 && lanes == g->out_channels;
    if (in_place)
        values = (float *)w->out + (image * g->out_height + first) * g->out_width * lanes;
    fill_band(w, image, first, met, memory, map);
    for (int64_t vector = 0, vectors; vector < lanes / 16; vector += vectors) {
        int64_t pixels, step = g->stride[1] * deep;
        vectors = vectors_of(lanes / 16 - vector);
        windows compute = choose_windows((int)vectors, g->out_width, &pixels);
        for (int64_t y = 0; y < rows; y++)
            for (int64_t next = 0; next < g->out_width; next += pixels) {
                int64_t x = next + pixels <= g->out_width ? next : g->out_width - pixels; /* some are computed twice */
                compute(memory + (y * g->stride[0] * width + x * g->stride[1]) * deep, step, w->taps, taps, deep / 4,
                        w->packed + 16 * vector * taps * deep, sums + (y * g->out_width + x) * lanes + 16 * vector, lanes);
            }
    }
    sum_windows(g, rows, map, columns, by_row);
    for (int64_t y = 0; y < rows; y++)
        finish(w, image, first + y, sums + y * g->out_width * lanes, by_row + y * g->stride[0] * width,
               values + y * g->out_width * lanes);
    if (!in_place)
        write_pixels(w, image, first * g->out_width, n, values, buffer);
}

/* Return false if there is not enough memory. */
static int convolve(convolution *w)
{
    const geometry *g = &w->g;
    int64_t width = reach_of(g, 1, g->out_width), deep = deep_of(g), lanes = lanes_of(g), taps = taps_of(g);
    int64_t height = height_of_bands(g), bands = (g->out_height + height - 1) / height, n = height * g->out_width;
    int64_t kernel = taps * deep * lanes, met = reach_of(g, 0, height);
    int64_t padded = met * width * (deep + 4), band = (padded + 4 * (2 * met * width + 3 * n * lanes) + 63) / 64 * 64;
    int64_t numbers = 8 * taps + 4 * lanes * (w->kind_count + 3);
    uint8_t *memory = malloc((size_t)(w->threads * band + kernel + numbers));
    if (!memory)
        return 0;
    w->taps = (int64_t *)(memory + w->threads * band);
    w->u = (float *)(w->taps + taps);
    w->scales = w->u + w->kind_count * lanes;
    w->zeros = w->scales + lanes;
    w->biases = w->zeros + lanes;
    w->packed = (int8_t *)(w->biases + lanes);
    for (int64_t t = 0; t < taps; t++)
        w->taps[t] = (t / g->kernel[1] * g->dilation[0] * width + t % g->kernel[1] * g->dilation[1]) * deep;
    pack_kernel(w);
    prepare_lanes(w);
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t part = 0; part < w->threads; part++)
        for (int64_t task = part; task < g->images * bands; task += w->threads) {
            int64_t first = task % bands * height, left = g->out_height - first;
            if (bands > 1 || task == part) /* whole images have their zeros in the same places */
                memset(memory + part * band, 0, (size_t)padded);
            convolve_band(w, task / bands, first, left < height ? left : height, memory + part * band);
        }
    free(memory);
    return 1;
}

/* The gradient of a kernel: for each of its elements, the sum over all windows of e times what the element meets.
 *
 * Instructions multiply four positions at once, unsigned bytes by signed ones: e by the image less its middle code, or if
 * that is 0, the image by e less its middle code. e is laid out as (output row, four columns, lane, 4), the image as
 * (channel, row, phase of the stride, column). The sums of an image are integers; those of GROUP images, and then the
 * groups, are added in single precision, in their order. */
#define CHANNELS 16 /* of the image that are laid out together */
#define GROUP 32

typedef struct {
    geometry g;
    const uint8_t *e;            /* (images, output rows, output columns, output channels) */
    const float *scale, *middle; /* of e: (images, output channels) */
    int32_t e_middle, p_middle;
    float *out;                  /* (output channels, channels, rows, columns) */
    int threads;
    uint8_t *quads;              /* e as it is laid out */
} correlation;

INLINE int64_t quads_of(const geometry *g) { return (g->out_width + 3) / 4; }

/* Lay out a row of pixels of e, lower by a number, four at a time. */
VNNI static void fill_line(const uint8_t *pixels, int64_t n, int64_t channels, int32_t lower, uint8_t *out)
{
    const __m512i less = _mm512_set1_epi8((char)lower);
    const __m512i together = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i by_lane = _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400);
    for (int64_t q = 0; q < n; q += 4)
        for (int64_t c = 0; c < channels; c += 16, out += 64) {
            __mmask16 some = (__mmask16)(channels - c < 16 ? (1 << (channels - c)) - 1 : 0xFFFF);
            __mmask64 inside = ~(__mmask64)0 >> (n - q < 4 ? 64 - 16 * (n - q) : 0);
            __m128i x[4];
            for (int64_t j = 0; j < 4; j++)
                x[j] = _mm_maskz_loadu_epi8(q + j < n ? some : 0, pixels + (q + j) * channels + c);
            __m512i all = _mm512_inserti32x4(_mm512_castsi128_si512(x[0]), x[1], 1);
            all = _mm512_inserti32x4(_mm512_inserti32x4(all, x[2], 2), x[3], 3);
            all = _mm512_permutexvar_epi32(together, _mm512_maskz_sub_epi8(inside, all, less));
            _mm512_storeu_si512(out, _mm512_shuffle_epi8(all, by_lane));
        }
}

static void fill_quads(const correlation *w)
{
    const geometry *g = &w->g;
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t line = 0; line < g->images * g->out_height; line++)
        fill_line(w->e + line * g->out_width * g->out_channels, g->out_width, g->out_channels,
                  w->p_middle ? 0 : w->e_middle, w->quads + line * quads_of(g) * 4 * lanes_of(g));
}

/* Rows of the output of images that are laid out together. */
typedef struct {
    const int8_t *planes;
    const uint8_t *e;
    const int64_t *offsets; /* of what the elements of the kernel meet first, in the planes of an image */
    int64_t images, rows, row_step, quads, of_planes, of_e; /* the last two are distances of images */
    int64_t lanes, outputs, elements;
    const float *scale, *middle;
    const int32_t *met; /* what each element meets in an image */
    int32_t e_middle;
    int32_t *before, *after; /* the sums of an image, if there are rows of it before or after these, or NULL */
    float *totals;
} stretch;

/* Add up products of some elements of the kernel with some vectors of output channels over a stretch. The sums of an image
 * are added to the totals: s S + m r, see convolutions.py. */
#define CORRELATE(count, vectors, name, PRODUCT, LESS)                                                                \
    VNNI static void correlate_##name##_##vectors(const stretch *given, int64_t element, int64_t first)               \
    {                                                                                                                 \
        const stretch w = *given; /* apart from what is written */                                                    \
        const int8_t *at[count];                                                                                      \
        __mmask16 some[vectors];                                                                                      \
        _Pragma("GCC unroll 8") for (int k = 0; k < count; k++) at[k] = w.planes + w.offsets[element + k];            \
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                                     \
            some[v] = (__mmask16)((1 << (w.outputs - first < 16 * v + 16 ? w.outputs - first - 16 * v : 16)) - 1);    \
        int64_t place = element * w.lanes + first;                                                                    \
        for (int64_t image = 0; image < w.images; image++) {                                                          \
            const uint8_t *e = w.e + image * w.of_e + 4 * first;                                                      \
            __m512i sums[count][vectors];                                                                             \
            _Pragma("GCC unroll 8") for (int k = 0; k < count; k++)                                                   \
                _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                             \
                    sums[k][v] = w.before ? _mm512_loadu_si512(w.before + place + k * w.lanes + 16 * v)               \
                                          : _mm512_setzero_si512();                                                   \
            for (int64_t row = 0; row < w.rows; row++) {                                                              \
                int64_t start = image * w.of_planes + row * w.row_step;                                               \
                for (int64_t i = start; i < start + 4 * w.quads; i += 4, e += 4 * w.lanes) {                          \
                    __m512i x[vectors];                                                                               \
                    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) x[v] = _mm512_loadu_si512(e + 64 * v);  \
                    _Pragma("GCC unroll 8") for (int k = 0; k < count; k++)                                           \
                    {                                                                                                 \
                        int32_t four;                                                                                 \
                        memcpy(&four, at[k] + i, 4);                                                                  \
                        const __m512i y = _mm512_set1_epi32(four);                                                    \
                        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                     \
                            sums[k][v] = PRODUCT(sums[k][v], x[v], y);                                                \
                    }                                                                                                 \
                }                                                                                                     \
            }                                                                                                         \
            if (w.after) {                                                                                            \
                _Pragma("GCC unroll 8") for (int k = 0; k < count; k++)                                               \
                    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                         \
                        _mm512_storeu_si512(w.after + place + k * w.lanes + 16 * v, sums[k][v]);                      \
                continue;                                                                                             \
            }                                                                                                         \
            const int32_t *met = w.met + image * w.elements + element;                                                \
            __m512 scale[vectors], middle[vectors];                                                                   \
            _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                                 \
            {                                                                                                         \
                scale[v] = _mm512_maskz_loadu_ps(some[v], w.scale + image * w.outputs + first + 16 * v);              \
                middle[v] = _mm512_maskz_loadu_ps(some[v], w.middle + image * w.outputs + first + 16 * v);            \
            }                                                                                                         \
            _Pragma("GCC unroll 8") for (int k = 0; k < count; k++)                                                   \
            {                                                                                                         \
                const __m512i lower = _mm512_set1_epi32(met[k] * w.e_middle);                                         \
                const __m512 number = _mm512_cvtepi32_ps(_mm512_set1_epi32(met[k]));                                  \
                _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)                                             \
                {                                                                                                     \
                    __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(LESS(sums[k][v], lower)), scale[v]);                \
                    sum = _mm512_add_ps(sum, _mm512_mul_ps(number, middle[v]));                                       \
                    sum = _mm512_add_ps(_mm512_loadu_ps(w.totals + place + k * w.lanes + 16 * v), sum);               \
                    _mm512_storeu_ps(w.totals + place + k * w.lanes + 16 * v, sum);                                   \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }
#define UNSIGNED_E(sums, x, y) _mm512_dpbusd_epi32(sums, x, y)
#define UNSIGNED_P(sums, x, y) _mm512_dpbusd_epi32(sums, y, x)
#define AS_IT_IS(sums, lower) ((void)(lower), (sums)) /* e was lower before */
CORRELATE(8, 1, e, UNSIGNED_E, _mm512_sub_epi32)
CORRELATE(8, 2, e, UNSIGNED_E, _mm512_sub_epi32)
CORRELATE(4, 4, e, UNSIGNED_E, _mm512_sub_epi32)
CORRELATE(8, 1, p, UNSIGNED_P, AS_IT_IS)
CORRELATE(8, 2, p, UNSIGNED_P, AS_IT_IS)
CORRELATE(4, 4, p, UNSIGNED_P, AS_IT_IS)

/* How some channels of some images lie in memory. */
typedef struct {
    int64_t phase, row, channel; /* distances */
    int64_t height;              /* of a band, in rows of the output */
    int64_t images;              /* that are laid out together: one, or whole ones */
} planes;

static planes planes_of(const geometry *g)
{
    planes p = {.height = g->out_height};
    p.phase = 4 * quads_of(g) + (g->kernel[1] - 1) * g->dilation[1] / g->stride[1] + 1;
    p.row = p.phase * g->stride[1];
    while (p.height > 1 && reach_of(g, 0, p.height) * p.row * CHANNELS > BAND)
        p.height = (p.height + 1) / 2;
    p.channel = reach_of(g, 0, p.height) * p.row;
    int64_t room = BAND / (p.channel * CHANNELS + p.height * quads_of(g) * 4 * lanes_of(g));
    p.images = p.height < g->out_height || room < 1 ? 1 : room < GROUP ? room : GROUP;
    return p;
}

/* Lay out some channels of a phase of a row, lower by the middle. */
VNNI static void fill_rows(const int8_t *from, int64_t n, int64_t count, int64_t stride, int64_t channels,
                           int32_t lower, int8_t *to, int64_t apart)
{
    const __m512i middle = _mm512_set1_epi8((char)lower);
    for (int64_t x = 0; x < count && stride <= 2; x += 64, to += 64 / stride) {
        const __mmask64 read = ~(__mmask64)0 >> (count - x < 64 ? 64 - (count - x) : 0);
        const __mmask64 write = stride == 1 ? read : ~(__mmask64)0 >> (count - x < 64 ? 64 - (count - x + 1) / 2 : 32);
        for (int64_t c = 0; c < channels; c++) {
            __m512i codes = _mm512_maskz_loadu_epi8(read, from + c * n + x);
            if (stride == 2)
                codes = _mm512_zextsi256_si512(_mm512_cvtepi16_epi8(codes));
            _mm512_mask_storeu_epi8(to + c * apart, write, _mm512_sub_epi8(codes, middle));
        }
    }
    for (int64_t c = 0; c < channels && stride > 2; c++)
        for (int64_t x = 0, i = 0; x < count; x += stride, i++)
            to[c * apart + i] = (int8_t)(from[c * n + x] - lower);
}

/* Lay out some channels of the rows of images that output rows from `first` on meet, in memory that has zeros around
 * them. The buffer holds the channels of all these rows. */
static void fill_planes(const correlation *w, const planes *p, int64_t image, int64_t images, int64_t first,
                        int64_t channel, int64_t channels, int8_t *out, int8_t *buffer)
{
    const geometry *g = &w->g;
    int64_t stride = g->stride[1], room = p->row - g->padding[1], count = room < g->width ? room : g->width;
    int64_t start = first * g->stride[0] - g->padding[0], end = start + p->channel / p->row;
    int64_t low = start < 0 ? 0 : start, high = end < g->height ? end : g->height;
    int64_t n = ((images - 1) * g->height + high - low) * g->width;
    if (high <= low)
        return;
    transpose_bytes((const int8_t *)g->codes + (image * g->height + low) * g->width * g->channels + channel, n, channels,
                    g->channels, buffer, n);
    for (int64_t phase = 0; phase < stride && phase <= (g->kernel[1] - 1) * g->dilation[1]; phase++) {
        int64_t at = (phase + stride - g->padding[1] % stride) % stride; /* the first column of the phase */
        int8_t *to = out + phase * p->phase + (at + g->padding[1]) / stride;
        for (int64_t row = low; row < high; row++)
            for (int64_t i = 0; i < images && (row - start) % g->stride[0] <= (g->kernel[0] - 1) * g->dilation[0]; i++)
                fill_rows(buffer + (i * g->height + row - low) * g->width + at, n, count - at, stride, channels,
                          w->p_middle, to + i * CHANNELS * p->channel + (row - start) * p->row, p->channel);
    }
}

/* Vectors that `sum_elements` computes. */
INLINE int64_t vectors_of_sums(const geometry *g)
{
    return reach_of(g, 1, g->out_width + 1) + reach_of(g, 0, g->out_height) * g->kernel[1] + taps_of(g);
}

/* Sum up what each element of the kernel meets in an image, for some channels. What it meets in a row is the difference of
 * two sums over the columns of one phase, from the left on. */
VNNI static void sum_elements(const correlation *w, int64_t image, int64_t channel, int64_t channels, __m512i *columns,
                              int32_t *met)
{
    const geometry g = w->g;
    const int64_t stride = g.stride[1], width = reach_of(&g, 1, g.out_width), height = reach_of(&g, 0, g.out_height);
    const int64_t begin = g.padding[1], end = begin + g.width < width ? begin + g.width : width;
    const int64_t across = g.kernel[1], taps = taps_of(&g);
    const __m512i middle = _mm512_set1_epi32(w->p_middle);
    __m512i *rows = columns + width + stride, *elements = rows + height * across, total;
    memset(columns, 0, (size_t)(width + stride) * 64);
    for (int64_t row = 0; row < height; row++) {
        int64_t y = row - g.padding[0], x;
        const __mmask16 some = (__mmask16)(y >= 0 && y < g.height ? (1 << channels) - 1 : 0);
        const uint8_t *codes = g.codes + ((image * g.height + y) * g.width - begin) * g.channels + channel;
        for (int64_t first = begin; first < begin + stride; first++) {
            for (x = first, total = _mm512_setzero_si512(); x < end; x += stride) {
                const __m512i code = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, codes + x * g.channels));
                columns[x + stride] = total = _mm512_add_epi32(total, _mm512_maskz_sub_epi32(some, code, middle));
            }
            for (; x < width; x += stride)
                columns[x + stride] = total;
        }
        for (int64_t j = 0; j < across; j++)
            rows[row * across + j] = _mm512_sub_epi32(columns[j * g.dilation[1] + g.out_width * stride],
                                                      columns[j * g.dilation[1]]);
    }
    for (int64_t t = 0; t < taps; t++) {
        elements[t] = _mm512_setzero_si512();
        for (int64_t y = 0, row = t / across * g.dilation[0]; y < g.out_height; y++, row += g.stride[0])
            elements[t] = _mm512_add_epi32(elements[t], rows[row * across + t % across]);
    }
    transpose_words((const int32_t *)elements, taps, channels, 16, met, taps);
}

CLONED static void add_floats(const float *restrict x, int64_t n, float *restrict totals)
{
    for (int64_t i = 0; i < n; i++)
        totals[i] += x[i];
}

/* Add up some channels of some images, in the memory of a thread. */
static void correlate_images(const correlation *w, const planes *p, int64_t first, int64_t last, int64_t channel,
                             int64_t channels, int8_t *memory, float *totals)
{
    static void (*const table[2][3])(const stretch *, int64_t, int64_t) = {
        {correlate_p_1, correlate_p_2, correlate_p_4}, {correlate_e_1, correlate_e_2, correlate_e_4}};
    const geometry *g = &w->g;
    int64_t taps = taps_of(g), elements = channels * taps, padded = (elements + 7) / 8 * 8, lanes = lanes_of(g);
    int64_t row_of_e = quads_of(g) * 4 * lanes;
    int64_t *offsets = (int64_t *)((__m512i *)memory + vectors_of_sums(g));
    int32_t *sums = (int32_t *)(offsets + padded), *met = sums + padded * lanes;
    int8_t *laid_out = (int8_t *)(met + p->images * padded), *buffer = laid_out + p->images * CHANNELS * p->channel + 64;
    stretch s = {.planes = laid_out, .offsets = offsets, .row_step = g->stride[0] * p->row, .quads = quads_of(g),
                 .of_planes = CHANNELS * p->channel, .of_e = g->out_height * row_of_e, .lanes = lanes,
                 .outputs = g->out_channels, .elements = padded, .met = met, .e_middle = w->e_middle, .totals = totals};
    memset(offsets, 0, (size_t)(8 * padded + 4 * padded * (lanes + p->images)));
    for (int64_t k = 0; k < elements; k++) {
        int64_t t = k % taps, across = t % g->kernel[1] * g->dilation[1];
        offsets[k] = k / taps * p->channel + t / g->kernel[1] * g->dilation[0] * p->row +
                     across % g->stride[1] * p->phase + across / g->stride[1];
    }
    for (int64_t image = first; image < last; image += p->images) {
        s.images = last - image < p->images ? last - image : p->images;
        s.scale = w->scale + image * g->out_channels;
        s.middle = w->middle + image * g->out_channels;
        for (int64_t i = 0; i < s.images; i++)
            sum_elements(w, image + i, channel, channels, (__m512i *)memory, met + i * padded);
        for (int64_t y = 0; y < g->out_height; y += p->height) {
            s.rows = g->out_height - y < p->height ? g->out_height - y : p->height;
            s.e = w->quads + (image * g->out_height + y) * row_of_e;
            s.before = y ? sums : NULL;
            s.after = y + p->height < g->out_height ? sums : NULL;
            if (p->height < g->out_height || image == first) /* whole images have their zeros in the same places */
                memset(laid_out, 0, (size_t)(s.images * CHANNELS * p->channel));
            fill_planes(w, p, image, s.images, y, channel, channels, laid_out, buffer);
            for (int64_t vector = 0, vectors; vector < lanes / 16; vector += vectors) {
                vectors = vectors_of(lanes / 16 - vector);
                for (int64_t k = 0; k < elements; k += vectors == 4 ? 4 : 8)
                    table[w->p_middle != 0][vectors / 2](&s, k, 16 * vector);
            }
        }
    }
}

/* Return false if there is not enough memory. */
static int correlate(correlation *w)
{
    const geometry *g = &w->g;
    int64_t taps = taps_of(g), lanes = lanes_of(g), blocks = (g->channels + CHANNELS - 1) / CHANNELS;
    int64_t groups = (g->images + GROUP - 1) / GROUP, block = CHANNELS * taps * lanes;
    planes p = planes_of(g);
    int64_t padded = (CHANNELS * taps + 7) / 8 * 8;
    int64_t rows = (p.images - 1) * g->height + p.channel / p.row; /* of the images that are laid out together */
    int64_t own = 64 * vectors_of_sums(g) + 8 * padded + 4 * padded * (lanes + p.images);
    own = (own + CHANNELS * (p.images * p.channel + rows * g->width) + 127) / 64 * 64;
    int64_t e_size = g->images * g->out_height * quads_of(g) * 4 * lanes;
    uint8_t *memory = aligned_alloc(64, (size_t)(w->threads * own + 4 * groups * blocks * block + e_size));
    if (!memory)
        return 0;
    float *totals = (float *)(memory + w->threads * own);
    w->quads = (uint8_t *)(totals + groups * blocks * block);
    memset(totals, 0, (size_t)(groups * blocks * block) * 4);
    fill_quads(w);
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t part = 0; part < w->threads; part++)
        for (int64_t task = part; task < blocks * groups; task += w->threads) {
            int64_t channel = task % blocks * CHANNELS, first = task / blocks * GROUP, left = g->channels - channel;
            correlate_images(w, &p, first, first + GROUP < g->images ? first + GROUP : g->images, channel,
                             left < CHANNELS ? left : CHANNELS, (int8_t *)memory + part * own, totals + task * block);
        }
    for (int64_t group = 1; group < groups; group++)
        add_floats(totals + group * blocks * block, blocks * block, totals);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t left = g->channels - i * CHANNELS;
        transpose_words((const int32_t *)totals + i * block, (left < CHANNELS ? left : CHANNELS) * taps,
                        g->out_channels, lanes, (int32_t *)w->out + i * CHANNELS * taps, g->channels * taps);
    }
    free(memory);
    return 1;
}
#else
static int has_vnni(void) { return 0; }
#endif

/* -------------------------------------------------------------------------------- floating-point formats */

/* Values are rounded to a floating-point format after a division by the scale of their block, see float_rounding.py. A
 * tensor is seen as (outer, along, inner); a block is `block` consecutive values along the second index. */

enum { SCALED, POWERS_OF_TWO, TWO_LEVELS }; /* how the scale of a block follows from its largest magnitude */

typedef struct {
    int32_t mantissa, smallest; /* bits of the mantissa, and the exponent of the smallest normal number */
    float largest;
} format;

static const format e4m3 = {3, -6, 448.0f};

typedef struct {
    const float *x;
    float *values;
    int64_t outer, along, inner, block;
    int scaling;
    format to;
    float tensor; /* TWO_LEVELS: the scale of the whole tensor */
    int noisy;
    uint32_t key1, key2;
    int threads;
} formatting;

INLINE float power_of_two(int32_t exponent)
{
    uint32_t i = exponent < -126 ? 1u << 22 : (uint32_t)(exponent + 127) << 23; /* the smallest one is 2^-127 */
    float x;
    memcpy(&x, &i, 4);
    return x;
}

INLINE int32_t exponent_of(float x)
{
    int32_t i;
    memcpy(&i, &x, 4);
    return ((i >> 23) & 255) - 127;
}

/* To the nearest number of a format, ties to even, or with noise added in units of its last place. Saturates. */
INLINE float to_format(float x, format f, float noise)
{
    int32_t exponent = exponent_of(x);
    exponent = exponent < f.smallest ? f.smallest : exponent;
    float t = rintf(x * power_of_two(f.mantissa - exponent) + noise) * power_of_two(exponent - f.mantissa);
    t = t < -f.largest ? -f.largest : t;
    return t > f.largest ? f.largest : t;
}

/* A scale that is not a number leaves the values as they are, a scale of 0 makes them 0. */
INLINE void format_any(const float *restrict x, int64_t n, const float *scales, int columns, format f, int noisy,
                       uint32_t first, uint32_t key1, uint32_t key2, float *restrict values)
{
    float scale = scales[0];
    for (int64_t i = 0; i < n; i++) {
        float s = columns ? scales[i] : scale;
        float rounded = to_format(x[i] / (s == 0.0f ? 1.0f : s), f, noisy ? noise(first + (uint32_t)i, key1, key2) : 0.0f);
        values[i] = s != s ? x[i] : rounded * s;
    }
}

#define FORMAT(name, columns, noisy)                                                                                  \
    CLONED static void name(const float *restrict x, int64_t n, const float *restrict scales, const format *f,        \
                            uint32_t first, uint32_t k1, uint32_t k2, float *restrict values)                         \
    {                                                                                                                 \
        format_any(x, n, scales, columns, *f, noisy, first, k1, k2, values);                                          \
    }
FORMAT(format_nearest, 0, 0)
FORMAT(format_noisy, 0, 1)
FORMAT(format_columns_nearest, 1, 0)
FORMAT(format_columns_noisy, 1, 1)

/* Magnitudes as integers in the same order, with NaN above infinity. */
CLONED static void largest_run(const float *restrict x, int64_t n, int32_t *largest)
{
    int32_t most = *largest;
    for (int64_t i = 0; i < n; i++) {
        int32_t k;
        memcpy(&k, x + i, 4);
        k &= 0x7FFFFFFF;
        most = k > most ? k : most;
    }
    *largest = most;
}

CLONED static void largest_columns(const float *restrict x, int64_t n, int32_t *restrict largest)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t k;
        memcpy(&k, x + i, 4);
        k &= 0x7FFFFFFF;
        largest[i] = k > largest[i] ? k : largest[i];
    }
}

static float scale_of(const formatting *w, int32_t largest)
{
    float magnitude = unordered(largest), scale;
    if (!isfinite(magnitude))
        return NAN;
    switch (w->scaling) {
    case POWERS_OF_TWO: {
        int32_t exponent = exponent_of(magnitude) - exponent_of(w->to.largest);
        return power_of_two(exponent < -127 ? -127 : exponent);
    }
    case TWO_LEVELS:
        return to_format(magnitude / w->to.largest / w->tensor, e4m3, 0.0f) * w->tensor;
    default:
        scale = magnitude / w->to.largest;
        return scale >= SMALLEST ? scale : NAN;
    }
}

/* The largest magnitude of everything, in blocks over the threads. */
static int32_t largest_of(const float *x, int64_t n, int threads)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    int32_t most = 0;
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(max : most)
    for (int64_t b = 0; b < blocks; b++)
        largest_run(x + b * BLOCK, b + 1 < blocks ? BLOCK : n - b * BLOCK, &most);
    return most;
}

static void format_whole(const formatting *w)
{
    int64_t n = w->along, blocks = (n + BLOCK - 1) / BLOCK;
    float scale = scale_of(w, largest_of(w->x, n, w->threads));
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t at = b * BLOCK;
        (w->noisy ? format_noisy : format_nearest)(w->x + at, b + 1 < blocks ? BLOCK : n - at, &scale, &w->to,
                                                   (uint32_t)at, w->key1, w->key2, w->values + at);
    }
}

/* Blocks of consecutive elements. */
static void format_rows(const formatting *w)
{
    int64_t blocks = (w->along + w->block - 1) / w->block;
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t row = 0; row < w->outer; row++)
        for (int64_t b = 0; b < blocks; b++) {
            int64_t at = row * w->along + b * w->block;
            int64_t n = b + 1 < blocks ? w->block : w->along - b * w->block;
            int32_t most = 0;
            largest_run(w->x + at, n, &most);
            float scale = scale_of(w, most);
            (w->noisy ? format_noisy : format_nearest)(w->x + at, n, &scale, &w->to, (uint32_t)at, w->key1, w->key2,
                                                       w->values + at);
        }
}

/* Blocks whose elements lie apart by `inner`. */
static void format_columns(const formatting *w)
{
    int64_t tiles = (w->inner + TILE - 1) / TILE, blocks = (w->along + w->block - 1) / w->block;
#pragma omp parallel for num_threads(w->threads) if (w->threads > 1)
    for (int64_t task = 0; task < w->outer * blocks * tiles; task++) {
        int64_t tile = task % tiles * TILE, b = task / tiles % blocks, outer = task / tiles / blocks;
        int64_t width = w->inner - tile < TILE ? w->inner - tile : TILE;
        int64_t lines = b + 1 < blocks ? w->block : w->along - b * w->block;
        int64_t at = (outer * w->along + b * w->block) * w->inner + tile;
        int32_t most[TILE] = {0};
        float scales[TILE];
        for (int64_t j = 0; j < lines; j++)
            largest_columns(w->x + at + j * w->inner, width, most);
        for (int64_t i = 0; i < width; i++)
            scales[i] = scale_of(w, most[i]);
        for (int64_t j = 0; j < lines; j++) {
            int64_t line = at + j * w->inner;
            (w->noisy ? format_columns_noisy : format_columns_nearest)(w->x + line, width, scales, &w->to,
                                                                       (uint32_t)line, w->key1, w->key2,
                                                                       w->values + line);
        }
    }
}

/* -------------------------------------------------------------------------------------------------- ReLU */

#define PLANE 64 /* elements of a group of 8 PLANE that share a bit: byte k has element j PLANE + k in its bit j */

/* The result of ReLU, which may be x itself, and where its gradient passes: wherever the result is not <= 0. */
INLINE void relu_any(const float *x, int64_t n, uint8_t *restrict bits, float *out)
{
    memset(bits, 0, PLANE);
    for (int64_t j = 0; j < n; j += PLANE)
#pragma GCC ivdep
        for (int64_t k = 0; k < (n - j < PLANE ? n - j : PLANE); k++) {
            float value = x[j + k];
            bits[k] |= (uint8_t)(!(value <= 0.0f) << (j / PLANE));
            out[j + k] = value < 0.0f ? 0.0f : value;
        }
}

INLINE void keep_any(const float *restrict x, int64_t n, const uint8_t *restrict bits, float *restrict out)
{
    for (int64_t j = 0; j < n; j += PLANE)
        for (int64_t k = 0; k < (n - j < PLANE ? n - j : PLANE); k++)
            out[j + k] = bits[k] >> (j / PLANE) & 1 ? x[j + k] : 0.0f;
}

/* Loops of a known length are faster. */
CLONED static void relu_group(const float *x, int64_t n, uint8_t *bits, float *out)
{
    if (n == 8 * PLANE)
        relu_any(x, 8 * PLANE, bits, out);
    else
        relu_any(x, n, bits, out);
}

CLONED static void keep_group(const float *x, int64_t n, const uint8_t *bits, float *out)
{
    if (n == 8 * PLANE)
        keep_any(x, 8 * PLANE, bits, out);
    else
        keep_any(x, n, bits, out);
}

/* Compute ReLU with its bits, or keep the elements that are marked and make the others 0. */
static void relu(const float *x, int64_t n, uint8_t *bits, float *out, int keep, int threads)
{
    int64_t group = 8 * PLANE;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < (n + group - 1) / group; i++) {
        int64_t at = i * group, count = n - at < group ? n - at : group;
        if (keep)
            keep_group(x + at, count, bits + i * PLANE, out + at);
        else
            relu_group(x + at, count, bits + i * PLANE, out + at);
    }
}

/* ------------------------------------------------------------------------------------------------ Python */

/* Every argument is an integer; addresses are those of tensors that the caller keeps alive, 0 means none. */
static int integers(PyObject *const *arguments, Py_ssize_t given, Py_ssize_t expected, int64_t *out)
{
    if (given != expected) {
        PyErr_Format(PyExc_TypeError, "expected %zd integers, got %zd", expected, given);
        return 0;
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        out[i] = PyLong_AsLongLong(arguments[i]);
        if (out[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

#define ADDRESS(type, number) ((type *)(intptr_t)(number))

static PyObject *py_encode(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[22], without;
    int32_t *ranges = NULL;
    if (!integers(arguments, given, 22, a))
        return NULL;
    encoding e = {.x = ADDRESS(const void, a[0]), .outer = a[1], .shared = a[2], .inner = a[3],
                  .layout = (enum layout)a[4], .lowest = (float)a[5], .levels = (float)a[6], .noisy = a[7] != 0,
                  .key1 = (uint32_t)a[8], .key2 = (uint32_t)a[9], .scale = ADDRESS(float, a[10]),
                  .zero = ADDRESS(float, a[11]), .values = ADDRESS(float, a[12]), .codes = ADDRESS(int8_t, a[13]),
                  .offset = (int32_t)a[14], .threads = (int)a[15], .sums = ADDRESS(int32_t, a[16]),
                  .grids = (enum grids)a[17], .is_bfloat16 = a[18] != 0, .factors = ADDRESS(const float, a[19]),
                  .period = a[20], .span = (enum span)a[21]};
    if (e.layout != FLAT) {
        size_t strips = e.layout == TO_LAST ? (size_t)(e.threads * strip_of(e.shared) * e.shared) : 0;
        size_t channels = (size_t)(2 * e.threads) * (e.grids == PER_CHANNEL ? (size_t)e.shared : 1);
        ranges = malloc(4 * (channels + 2 * STAGE) + strips);
        if (!ranges)
            return PyErr_NoMemory();
        e.indices = (uint32_t *)(ranges + channels + STAGE);
        e.buffers = (int8_t *)(e.indices + STAGE);
        int64_t width = e.shared < STAGE ? e.shared : STAGE;
        for (int64_t i = 0; e.layout == LAST && i < STAGE / width * width; i++)
            e.indices[i] = (uint32_t)(i % width * e.inner + i / width);
        e.is_small = e.layout == TO_LAST && e.inner <= strip_of(e.shared) && e.shared * e.inner <= STAGE;
        if ((e.layout == LAST || e.is_small) && e.factors && e.period) {
            float *repeated = (float *)(ranges + channels);
            for (int64_t i = 0; i < STAGE / e.shared * e.shared; i++)
                repeated[i] = e.factors[(e.is_small ? i / e.inner : i) % e.shared];
            e.factors = repeated;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    if (e.grids != ONE)
        without = encode_images(&e, ranges);
    else if (e.layout != FLAT || (e.outer == 1 && e.inner == 1))
        without = encode_whole(&e);
    else
        without = e.inner == 1 ? encode_rows(&e) : encode_columns(&e);
    Py_END_ALLOW_THREADS
    free(ranges);
    return PyLong_FromLongLong(without);
}

static PyObject *py_decode(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[10];
    if (!integers(arguments, given, 10, a))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    decode_all(ADDRESS(const int8_t, a[0]), a[1], a[2], a[3], ADDRESS(const float, a[4]), ADDRESS(const float, a[5]),
               (int32_t)a[6], (float)a[7], ADDRESS(float, a[8]), (int)a[9]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *py_round_float(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[14];
    if (!integers(arguments, given, 14, a))
        return NULL;
    formatting w = {ADDRESS(const float, a[0]), ADDRESS(float, a[1]), a[2], a[3], a[4], a[5], (int)a[6],
                    {(int32_t)a[7], (int32_t)a[8], (float)a[9] / 2.0f}, 1.0f, a[10] != 0, (uint32_t)a[11],
                    (uint32_t)a[12], (int)a[13]}; /* the largest number of a format is passed as its double */
    int64_t n = w.outer * w.along * w.inner;
    Py_BEGIN_ALLOW_THREADS
    if (w.scaling == TWO_LEVELS) {
        float scale = unordered(largest_of(w.x, n, w.threads)) / (e4m3.largest * w.to.largest);
        w.tensor = isfinite(scale) && scale >= SMALLEST ? scale : NAN;
    }
    if (w.outer == 1 && w.inner == 1 && w.block >= w.along)
        format_whole(&w);
    else if (w.inner == 1)
        format_rows(&w);
    else
        format_columns(&w);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *py_draw(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[6];
    if (!integers(arguments, given, 6, a))
        return NULL;
    int16_t *out = ADDRESS(int16_t, a[0]);
    int64_t images = a[1], channels = a[2], plane = a[3];
    uint32_t key1 = (uint32_t)a[4], key2 = (uint32_t)a[5];
    Py_BEGIN_ALLOW_THREADS
    if (plane == 0)
        draw_run(out, images * channels, 0, 1, key1, key2);
    else
        for (int64_t pixel = 0; pixel < images * plane; pixel++)
            draw_run(out + pixel * channels, channels,
                     (uint32_t)(pixel / plane * channels * plane + pixel % plane), (uint32_t)plane, key1, key2);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The arguments are those of native.multiply, see there. */
static PyObject *py_multiply(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
#if defined(__x86_64__) && defined(__GNUC__)
    int64_t a[30];
    int done;
    if (!integers(arguments, given, 30, a))
        return NULL;
    multiplication w = {.batch = {a[0], a[1]}, .terms = a[2], .threads = (int)a[3], .out = ADDRESS(void, a[4]),
                        .to_bfloat16 = a[5] != 0, .is_summed = a[6] != 0, .bias = ADDRESS(const float, a[7]),
                        .bias_step = a[8], .row_bias = ADDRESS(const float, a[9])};
    const int64_t *of = a + 10;
    for (matrices *m = &w.a; of < a + 30; m = &w.b, of += 10)
        *m = (matrices){ADDRESS(const int8_t, of[0]), of[1], of[2], of[3], {of[4], of[5]},
                        ADDRESS(const float, of[6]), ADDRESS(const float, of[7]), of[8], (float)of[9]};
    Py_BEGIN_ALLOW_THREADS
    done = multiply(&w);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
#endif
    Py_RETURN_NONE;
}

static PyObject *py_widen(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[4];
    if (!integers(arguments, given, 4, a))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    widen(ADDRESS(const uint16_t, a[0]), a[1], ADDRESS(float, a[2]), (int)a[3]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

#if defined(__x86_64__) && defined(__GNUC__)
static geometry read_geometry(const int64_t *a)
{
    return (geometry){ADDRESS(const uint8_t, a[0]), a[1], a[2], a[3], a[4], a[5], a[6], a[7], {a[8], a[9]},
                      {a[10], a[11]}, {a[12], a[13]}, {a[14], a[15]}, {a[16], a[17]}};
}
#endif

/* The arguments are those of convolutions.convolve, see there. */
static PyObject *py_convolve(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
#if defined(__x86_64__) && defined(__GNUC__)
    int64_t a[41];
    int done;
    if (!integers(arguments, given, 41, a))
        return NULL;
    convolution w = {.g = read_geometry(a), .pixel_sums = ADDRESS(const int32_t, a[18]),
                     .kernel = ADDRESS(const int8_t, a[19]), .steps = {a[20], a[21], a[22], a[23]},
                     .kinds = ADDRESS(const int32_t, a[24]), .kind_count = a[25],
                     .inside = ADDRESS(const uint8_t, a[26]), .p_scale = ADDRESS(const float, a[27]),
                     .p_zero = ADDRESS(const float, a[28]), .p_grids = a[29], .p_offset = (float)a[30],
                     .q_scale = ADDRESS(const float, a[31]), .q_zero = ADDRESS(const float, a[32]), .q_grids = a[33],
                     .q_offset = (float)a[34], .bias = ADDRESS(const float, a[35]),
                     .row_bias = ADDRESS(const float, a[36]), .out = ADDRESS(void, a[37]), .channels_last = a[38] != 0,
                     .to_bfloat16 = a[39] != 0, .threads = (int)a[40]};
    Py_BEGIN_ALLOW_THREADS
    done = convolve(&w);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
#endif
    Py_RETURN_NONE;
}

/* The arguments are those of convolutions.correlate, see there. */
static PyObject *py_correlate(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
#if defined(__x86_64__) && defined(__GNUC__)
    int64_t a[25];
    int done;
    if (!integers(arguments, given, 25, a))
        return NULL;
    correlation w = {.g = read_geometry(a), .e = ADDRESS(const uint8_t, a[18]), .scale = ADDRESS(const float, a[19]),
                     .middle = ADDRESS(const float, a[20]), .e_middle = (int32_t)a[21], .p_middle = (int32_t)a[22],
                     .out = ADDRESS(float, a[23]), .threads = (int)a[24]};
    Py_BEGIN_ALLOW_THREADS
    done = correlate(&w);
    Py_END_ALLOW_THREADS
    if (!done)
        return PyErr_NoMemory();
#endif
    Py_RETURN_NONE;
}

static PyObject *py_relu(PyObject *self, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t a[6];
    if (!integers(arguments, given, 6, a))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    relu(ADDRESS(const float, a[0]), a[1], ADDRESS(uint8_t, a[2]), ADDRESS(float, a[3]), a[4] != 0, (int)a[5]);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

#define FUNCTION(name, text) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, text}

static PyMethodDef functions[] = {
    FUNCTION(encode, "Round to a grid; return the number of grids that do not exist."),
    FUNCTION(decode, "Recover values from codes."),
    FUNCTION(round_float, "Round to a floating-point format with a scale for each block."),
    FUNCTION(draw, "Draw 16-bit noise."),
    FUNCTION(multiply, "Multiply batches of matrices of codes."),
    FUNCTION(relu, "Compute ReLU with a bit for each element, or its gradient from the bits."),
    FUNCTION(widen, "Convert bfloat16 to single precision."),
    FUNCTION(convolve, "Convolve codes of images with those of a kernel."),
    FUNCTION(correlate, "Compute the gradient of a kernel from codes."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "Native kernels of bitcycle.", -1, functions,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *created = PyModule_Create(&module);
    /* Whether this processor has the instructions that `multiply` needs. */
    if (created && PyModule_AddIntConstant(created, "HAS_VNNI", has_vnni()) < 0)
        Py_CLEAR(created);
    return created;
}
