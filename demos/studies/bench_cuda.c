/* bench_cuda [--dtype bf16|tf32|fp32] [--only TEXT] [--reps N] [--segments N] [--check]

   Times of the kernels of mamba_mix_cuda.cu at the shapes of a comparison with PyTorch's
   attention and mamba_ssm's Triton SSD: one JSON object a line,

       {"case", "impl", "dtype", "ms", "ms_min", "reps", "tokens_per_s", "gb", "gflop"}

   ms: the median; gb, gflop: the fewest bytes and operations of a call, each input read once and
   each output written once, a product of the chunked form (64 tokens) counted twice for a
   multiply and an add. Inputs rotate among sets, so that repeated runs do not measure the L2
   cache. The rows of impl mamba_mix_graph are one call as a CUDA graph, without the time of
   launches. A shape that the kernels have no form for is a line with "error". --only: cases
   whose name contains TEXT. --segments: SSD cuts a sequence into so many pieces (0, the default:
   as many as it chooses). --check: one small case of each kind must give finite numbers, no
   times. */
#include "../../mamba_mix_cuda.cu"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPS = 1000, MAX_SETS = 8, ARRAYS = 12 };

/* N of attention: its P, too */
typedef struct Shape {
    const char *name;
    size_t B, L, H, P, N;
    int causal;
} Shape;
static const Shape ssd_shapes[] = {
    { "ssd_vision_64x198_h16", 64, 198, 16, 64, 64, 0 },
        { "ssd_vision_256x48_h24", 256, 48, 24, 64, 64, 0 },
    { "ssd_1x2048_h80", 1, 2048, 80, 64, 128, 0 }, { "ssd_8x2048_h80", 8, 2048, 80, 64, 128, 0 },
    { "ssd_8x2048_h24", 8, 2048, 24, 64, 128, 0 }, { "ssd_1x65536_h8", 1, 65536, 8, 64, 64, 0 },
    { "ssd_4x32768_h80", 4, 32768, 80, 64, 128, 0 } };
static const Shape attention_shapes[] = {
    { "attn_vision_64x197_h6", 64, 197, 6, 64, 64, 0 },
        { "attn_vision_256x37_h12", 256, 37, 12, 64, 64, 0 },
    { "attn_4x4096_h16_causal", 4, 4096, 16, 64, 64, 1 },
    { "attn_1x16384_h16_causal", 1, 16384, 16, 64, 64, 1 } };

static int precision = MMIX_CUDA_BF16, reps = 50;
static const char *dtype = "bf16", *only = "";
static size_t size = 2;                          /* bytes of a number in arrays */
static size_t segments = 0;                      /* of SSD; 0: the library chooses */

static void ok(int error, const char *what)
{
    if (!error) return;
    fprintf(stderr, "%s: %s\n", what, mmix_cuda_error_text(error));
    exit(1);
}
static void *take(size_t bytes)
{
    void *p;
    ok((int)cudaMalloc(&p, bytes ? bytes : 1), "cudaMalloc");
    return p;
}

/* n numbers of mean 0 and deviation 1, or between low and high: blocks of the same million, each
   begun elsewhere */
static void *numbers(size_t n, double low, double high, int in_float, unsigned seed)
{
    enum { BLOCK = 1 << 20 };
    static float values[BLOCK];
    static uint16_t halves[BLOCK];
    const size_t each = in_float ? 4 : size;
    char *p = (char *)take(n * each);
    uint64_t s = 88172645463325252ull + seed;
    for (size_t i = 0; i < BLOCK; i++) {
        double sum = 0;
        uint32_t bits;
        for (int k = 0; k < 4; k++) {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            sum += (double)(s >> 11) / 9007199254740992.0;
            if (low < high) break;
        }
        values[i] = (float)(low < high ? low + (high - low) * sum : (sum - 2) * 1.7320508);
        memcpy(&bits, &values[i], 4);
        halves[i] = (uint16_t)((bits + 0x7fff) >> 16);
    }
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t from = at / BLOCK * 7919 % (BLOCK / 2);
        const size_t count = n - at < BLOCK ? n - at : BLOCK;
        const size_t first = count < BLOCK - from ? count : BLOCK - from;
        const char *source = each == 2 ? (const char *)halves : (const char *)values;
        ok((int)cudaMemcpy(p + at * each, source + from * each, first * each,
                           cudaMemcpyHostToDevice), "copy");
        ok((int)cudaMemcpy(p + (at + first) * each, source, (count - first) * each,
                           cudaMemcpyHostToDevice), "copy");
    }
    return p;
}

typedef struct Set { mmix_cuda_ssd ssd; mmix_cuda_attention attention; void *array[ARRAYS];
                    int arrays; } Set;
static void *keep(Set *s, void *p) { return s->array[s->arrays++] = p; }

static int call(const Set *s, int is_ssd, int back)
{
    int error = is_ssd ? mmix_cuda_ssd_forward(&s->ssd) :
        mmix_cuda_attention_forward(&s->attention);
    if (!error && back) error = is_ssd ? mmix_cuda_ssd_backward(&s->ssd) :
        mmix_cuda_attention_backward(&s->attention);
    return error;
}
/* One set of arrays; results go to the shared ones in `out`, since they are only written. */
static void fill(Set *s, const Shape *c, int is_ssd, int back, unsigned seed, Set *out,
                 void *workspace)
{
    const size_t B = c->B, L = c->L, H = c->H, P = c->P, N = c->N;
    const size_t big = B * L * H * P;
    memset(s, 0, sizeof *s);
    if (is_ssd) {
        mmix_cuda_ssd *x = &s->ssd;
        x->precision = precision;
        x->segments = segments;
        x->B = B;
        x->L = L;
        x->H = H;
        x->N = N;
        x->P = P;
        x->x = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed)), L, H, P, H);
        x->dt = mmix_cuda_head_view_rows(keep(s, numbers(B * L * H, 0.001, 0.101, 0, seed + 1)), L,
                                         H, 1, H);
        x->A = (float *)keep(s, numbers(H, -16, -1, 1, seed + 2));
        x->b = mmix_cuda_head_view_rows(keep(s, numbers(B * L * N, 0, 0, 0, seed + 3)), L, 1, N, H);
        x->c = mmix_cuda_head_view_rows(keep(s, numbers(B * L * N, 0, 0, 0, seed + 4)), L, 1, N, H);
        x->y = mmix_cuda_head_view_rows(out->array[0], L, H, P, H);
        if (back) {
            x->dy = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed + 5)), L, H, P, H);
            x->dx = mmix_cuda_head_view_rows(out->array[1], L, H, P, H);
            x->ddt = mmix_cuda_head_view_rows(out->array[2], L, H, 1, H);
            x->db = mmix_cuda_head_view_rows(out->array[3], L, 1, N, H);
            x->dc = mmix_cuda_head_view_rows(out->array[4], L, 1, N, H);
            x->dA = (float *)out->array[5];
        }
        x->workspace = workspace;
    } else {
        mmix_cuda_attention *x = &s->attention;
        x->precision = precision;
        x->B = B;
        x->L = x->S = L;
        x->H = H;
        x->N = x->P = N;
        x->scale = 1 / sqrt((double)N);
        x->mask = c->causal ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        x->q = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed)), L, H, N, H);
        x->k = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed + 1)), L, H, N, H);
        x->v = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed + 2)), L, H, N, H);
        x->y = mmix_cuda_head_view_rows(out->array[0], L, H, N, H);
        if (back) {
            x->top = (float *)out->array[4];
            x->over = (float *)out->array[5];
            x->dy = mmix_cuda_head_view_rows(keep(s, numbers(big, 0, 0, 0, seed + 3)), L, H, N, H);
            x->dq = mmix_cuda_head_view_rows(out->array[1], L, H, N, H);
            x->dk = mmix_cuda_head_view_rows(out->array[2], L, H, N, H);
            x->dv = mmix_cuda_head_view_rows(out->array[3], L, H, N, H);
        }
        x->workspace = workspace;
    }
}
static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}
/* Fewest bytes and operations of a call. */
static void floors(const Shape *c, int is_ssd, int back, double *gb, double *gflop)
{
    const double T = (double)c->B * (double)c->L;
    const double H = (double)c->H, P = (double)c->P, N = (double)c->N, L = (double)c->L;
    const double Q = L < 64 ? L : 64;
    if (is_ssd) {
        const double heads = T * H * P * (double)size;
        const double group = T * N * (double)size;
        const double steps = T * H * (double)size;
        *gb = (2 * heads + 2 * group + steps) * 1e-9;
        *gflop = 2e-9 * T * (Q / 2 * (N + H * P) + 2 * H * N * P);
        if (back) {
            *gb += (3 * heads + 4 * group + 2 * steps) * 1e-9;
            *gflop += 2e-9 * T * H * (Q / 2 * (4 * N + 2 * P) + 5 * N * P);
        }
    } else {
        const double one = T * H * N * (double)size;
        const double pairs = T * H * L * (c->causal ? 0.5 : 1);
        *gb = 4 * one * 1e-9;
        *gflop = 4e-9 * pairs * N;
        if (back) {
            *gb += 8 * one * 1e-9;
            *gflop += 10e-9 * pairs * N;
        }
    }
}
/* A case that is set up: its name, rotating sets of inputs, the results and workspace that they
   share. */
typedef struct Case {
    const Shape *shape;
    int is_ssd, back, sets;
    char name[96];
    Set set[MAX_SETS], out;
    void *workspace;
} Case;
static size_t outputs_of(const Shape *c) { return c->B * c->L * c->H * c->P; }
static size_t workspace_of(const Case *c, int back)
{
    if (c->is_ssd) return mmix_cuda_ssd_workspace(&c->set[0].ssd, back);
    return mmix_cuda_attention_workspace(&c->set[0].attention, back);
}
static void case_begin(Case *c, const Shape *shape, int is_ssd, int back, int check)
{
    const size_t big = outputs_of(shape);
    const size_t wide = shape->H > shape->N ? shape->H : shape->N;
    const size_t per_set = (is_ssd ? 2 : 3) * big * size;
    const int like_y = is_ssd ? 2 : 4;           /* results of y's size, y included */
    memset(c, 0, sizeof *c);
    c->shape = shape;
    c->is_ssd = is_ssd;
    c->back = back;
    snprintf(c->name, sizeof c->name, "%s_%s", shape->name, back ? "fwdbwd" : "fwd");
    c->sets = (int)(2e9 / (double)per_set);
    if (c->sets < 2) c->sets = 2;
    if (c->sets > MAX_SETS) c->sets = MAX_SETS;
    if (check) c->sets = 1;
    keep(&c->out, take(big * size));
    for (int i = 1; i < 6 && back; i++) {
        const size_t bytes = i < like_y ? big * size : shape->B * shape->L * wide * 4;
        keep(&c->out, take(bytes));
    }
    fill(&c->set[0], shape, is_ssd, back, 1, &c->out, NULL);
    const size_t forward = workspace_of(c, 0);
    const size_t both = workspace_of(c, back);
    c->workspace = take(both > forward ? both : forward);
    c->set[0].ssd.workspace = c->workspace;
    c->set[0].attention.workspace = c->workspace;
    for (int i = 1; i < c->sets; i++)
        fill(&c->set[i], shape, is_ssd, back, 100 * (unsigned)i + 1, &c->out, c->workspace);
}
static void case_end(Case *c)
{
    for (int i = 0; i < c->sets; i++)
        for (int k = 0; k < c->set[i].arrays; k++) cudaFree(c->set[i].array[k]);
    for (int k = 0; k < c->out.arrays; k++) cudaFree(c->out.array[k]);
    cudaFree(c->workspace);
}

static float ms[MAX_REPS];
static void report(const Case *c, const char *impl)
{
    const Shape *shape = c->shape;
    double gb, gflop;
    qsort(ms, (size_t)reps, sizeof *ms, by_size);
    floors(shape, c->is_ssd, c->back, &gb, &gflop);
    const double median = (double)ms[reps / 2];
    const double tokens = (double)(shape->B * shape->L);
    printf("{\"case\": \"%s\", \"impl\": \"%s\", \"dtype\": \"%s\", \"ms\": %.5f, \"ms_min\": "
           "%.5f, \"reps\": %d, \"tokens_per_s\": %.0f, \"gb\": %.4f, \"gflop\": "
           "%.3f}\n", c->name, impl, dtype, median,
           (double)ms[0], reps, tokens / median * 1e3, gb, gflop);
    fflush(stdout);
}
/* What follows one another between two events on a stream, reps times: calls of the rotating
   sets, or, where there is one, a graph. */
static void measure(const Case *c, cudaStream_t stream, cudaGraphExec_t graph)
{
    cudaEvent_t begin, end;
    ok((int)cudaEventCreate(&begin), "event");
    ok((int)cudaEventCreate(&end), "event");
    for (int i = -3; i < reps; i++) {            /* three to warm up */
        ok((int)cudaEventRecord(begin, stream), "event");
        if (graph) ok((int)cudaGraphLaunch(graph, stream), c->name);
        else ok(call(&c->set[(i + 3) % c->sets], c->is_ssd, c->back), c->name);
        ok((int)cudaEventRecord(end, stream), "event");
        ok((int)cudaEventSynchronize(end), c->name);
        ok((int)cudaEventElapsedTime(&ms[i < 0 ? 0 : i], begin, end), "event");
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
}
/* As a CUDA graph of one call: what the device needs without the time of launches. Small inputs
   then lie in the L2 cache; gpu_bench.py's rows of that name are measured alike. */
static void time_graph(Case *c)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    ok((int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    c->set[0].ssd.stream = stream;
    c->set[0].attention.stream = stream;
    ok((int)cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    ok(call(&c->set[0], c->is_ssd, c->back), c->name);
    ok((int)cudaStreamEndCapture(stream, &graph), "capture");
    ok((int)cudaGraphInstantiateWithFlags(&run, graph, 0), "graph");
    measure(c, stream, run);
    report(c, "mamba_mix_graph");
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}
static int all_finite(const Case *c)
{
    const size_t words = outputs_of(c->shape) * size / 4;
    float *y = (float *)malloc(words * 4);
    size_t bad = 0;
    ok(!y, "memory");
    ok((int)cudaMemcpy(y, c->out.array[0], words * 4, cudaMemcpyDeviceToHost), "copy");
    for (size_t i = 0; i < words; i++) bad += !(fabsf(y[i]) < 1e30f);
    printf("%s: %d of %d numbers are not finite\n", c->name, (int)bad, (int)words);
    free(y);
    return !bad;
}
static void bench(const Shape *shape, int is_ssd, int back, int check)
{
    static Case c;
    char name[96];
    snprintf(name, sizeof name, "%s_%s", shape->name, back ? "fwdbwd" : "fwd");
    if (!check && !strstr(name, only)) return;
    case_begin(&c, shape, is_ssd, back, check);
    const int error = call(&c.set[0], is_ssd, back);
    /* one shape less; the others are measured all the same */
    if (error == MMIX_CUDA_UNSUPPORTED) {
        printf("{\"case\": \"%s\", \"impl\": \"mamba_mix\", \"dtype\": \"%s\", ", c.name, dtype);
        printf("\"error\": \"%s\"}\n", mmix_cuda_error_text(error));
        case_end(&c);
        return;
    }
    ok(error, c.name);
    ok((int)cudaDeviceSynchronize(), c.name);
    if (check) {
        if (!all_finite(&c)) exit(1);
    } else {
        measure(&c, 0, NULL);
        report(&c, "mamba_mix");
        time_graph(&c);
    }
    case_end(&c);
}
/* The device's own ceiling: a copy of 1 GiB, bytes read plus bytes written. */
static void copy(void)
{
    const size_t n = (size_t)1 << 30;
    char *a = (char *)take(n);
    char *b = (char *)take(n);
    float best = 1e30f, t;
    cudaEvent_t begin, end;
    ok((int)cudaMemset(a, 1, n), "memset");
    ok((int)cudaEventCreate(&begin), "event");
    ok((int)cudaEventCreate(&end), "event");
    for (int i = 0; i < 20; i++) {
        ok((int)cudaEventRecord(begin, 0), "event");
        ok((int)cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice, 0), "copy");
        ok((int)cudaEventRecord(end, 0), "event");
        ok((int)cudaEventSynchronize(end), "copy");
        ok((int)cudaEventElapsedTime(&t, begin, end), "event");
        if (t < best) best = t;
    }
    printf("{\"case\": \"copy_1GiB\", \"impl\": \"cuda\", \"gb_per_s\": %.1f}\n",
           2.0 * (double)n / (double)best / 1e6);
    cudaFree(a);
    cudaFree(b);
}
int main(int argc, char **argv)
{
    int check = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--dtype") && i + 1 < argc) dtype = argv[++i];
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else if (!strcmp(argv[i], "--reps") && i + 1 < argc) reps = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--segments") && i + 1 < argc) segments = (size_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--check")) check = 1;
        else {
            fprintf(stderr, "bench_cuda [--dtype bf16|tf32|fp32] [--only TEXT] [--reps N] "
                            "[--segments N] [--check]\n");
            return 1;
        }
    }
    if (!strcmp(dtype, "bf16")) precision = MMIX_CUDA_BF16;
    else if (!strcmp(dtype, "tf32")) {
        precision = MMIX_CUDA_TF32;
        size = 4;
    } else if (!strcmp(dtype, "fp32")) {
        precision = MMIX_CUDA_F32;
        size = 4;
    } else {
        fprintf(stderr, "--dtype %s: expected bf16, tf32 or fp32\n", dtype);
        return 1;
    }
    if (reps < 1 || reps > MAX_REPS) {
        fprintf(stderr, "--reps: 1 to %d\n", MAX_REPS);
        return 1;
    }
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        printf("there is no GPU here\n");
        return 1;
    }
    if (!check) copy();
    for (int back = 0; back < 2; back++) {
        for (size_t i = 0; i < (check ? 1 : sizeof ssd_shapes / sizeof *ssd_shapes); i++)
            bench(&ssd_shapes[i], 1, back, check);
        for (size_t i = 0; i < (check ? 1 : sizeof attention_shapes / sizeof *attention_shapes);
             i++) bench(&attention_shapes[i], 0, back, check);
    }
    return 0;
}
