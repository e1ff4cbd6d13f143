/* text.c - a decoder with Mamba-2 learns a text file of yours and writes on

       cc -O2 demos/text.c -o text -lm -lpthread && ./text
       ./text novel.txt 3000 "It was a dark"

   Arguments: the file, how many steps (300), what it goes on from. A token is a byte, so that any
   text will do. The network is a decoder with Mamba-2 in the place of attention: what it carries
   from one byte to the next has a fixed size. A line every 100 steps has the loss in bits a byte, 8
   at first, and what the network writes at that time; text.safetensors keeps it. Without arguments
   it learns sums from "0 + 0 = 0" to "9 + 9 = 18" and looks whether it can add. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 8, L = 128, WRITTEN = 160 };          /* sequences of so many bytes a step */

static unsigned char text[1 << 24];
static size_t length;

/* 0, or 1 after a message. */
static int read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        printf("text: %s cannot be opened\n", path);
        return 1;
    }
    length = fread(text, 1, sizeof text, f);
    int is_bad = ferror(f) != 0;
    fclose(f);
    if (!is_bad && length > L && length < sizeof text) return 0;
    printf("text: %s: expected a file of more than %d bytes and less than 16 MiB\n", path, L);
    return 1;
}
static void draw_sums(mmix_ctx *m)
{
    for (uint64_t i = 0; i < 5000; i++) {
        int a = (int)(mmix_random_u32(m, 2, 0, i) % 10);
        int b = (int)(mmix_random_u32(m, 2, 1, i) % 10);
        length += (size_t)sprintf((char *)text + length, "%d + %d = %d\n", a, b, a + b);
    }
}

/* One step on pieces of the text from random places; returns the loss in bits. */
static double learn(mmix_ctx *m, mmix_decoder *d, mmix_optimizer *adamw, size_t step, size_t steps)
{
    int32_t in[B * L], next[B * L];
    size_t shape[2] = { B, L };
    mmix_sequence q = { NULL, NULL, 0, NULL, NULL };
    mmix_adamw options = mmix_adamw_config_default();
    for (size_t i = 0; i < B * L; i++) {
        size_t start = mmix_random_u32(m, 1, step, i / L) % (length - L);
        in[i] = text[start + i % L];
        next[i] = text[start + i % L + 1];
    }
    q.tokens = mmix_from_i32(m, 2, shape, in);
    mmix_record(m, 1);
    mmix_tensor *guess = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &q, NULL));
    mmix_tensor *loss = mmix_cross_entropy(m, guess, mmix_from_i32(m, 2, shape, next), -1);
    mmix_backward(m, loss);
    mmix_record(m, 0);
    double nats = mmix_item(loss);
    options.lr = mmix_schedule_cosine(4e-3, 1e-4, 1, steps, 0, 0, step);
    mmix_adamw_step(adamw, &options, -1, NULL);
    mmix_reset(m);
    return nats / log(2);
}

/* Goes on from `begin` and prints it. Returns what it wrote, which stays until the next call. */
static const char *write_on(mmix_ctx *m, const mmix_decoder *d, const char *begin, double warm)
{
    static char said[WRITTEN + 1];
    int32_t tokens[256], made[WRITTEN];
    size_t shape[2] = { 1, strlen(begin) }, n;
    mmix_sampling sampling = { 0 };
    mmix_sequence q = { NULL, NULL, 0, NULL, NULL };
    sampling.temperature = warm;
    for (size_t i = 0; i < shape[1]; i++) tokens[i] = (unsigned char)begin[i];
    q.tokens = mmix_from_i32(m, 2, shape, tokens);
    n = mmix_decoder_generate(m, d, &q, &sampling, made, WRITTEN);
    for (size_t i = 0; i < n; i++) said[i] = (char)made[i];
    said[n] = 0;
    mmix_reset(m);
    printf("%s%s\n\n", begin, said);
    return said;
}

int main(int argc, char **argv)
{
    const char *begin = argc > 3 ? argv[3] : "3 + 4 =";
    long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 300;
    if (steps < 1 || !*begin || strlen(begin) > 255) {
        puts("text: expected FILE STEPS BEGINNING, a step or more and 1 to 255 bytes");
        return 1;
    }
    if (argc > 1 && read_text(argv[1])) return 1;
    mmix_optimizer adamw;
    memset(&adamw, 0, sizeof adamw);
    mmix_decoder_config c = { 0 };
    mmix_ctx *m = mmix_create(NULL);
    if (argc < 2) draw_sums(m);
    c.mixer = MMIX_DECODER_MAMBA2;               /* no feed-forward: ffn is 0 */
    c.vocabulary = 256;
    c.dim = 64;
    c.depth = 2;
    c.tied = 1;
    c.mamba2.head_dim = 32;
    mmix_decoder *d = mmix_decoder_create(m, c);
    int bad = !d || mmix_adamw_init(&adamw, d->params) != 0;
    for (long step = 0; !bad && step < steps && !mmix_error(m); step++) {
        double bits = learn(m, d, &adamw, (size_t)step, (size_t)steps);
        if (step % 100 == 0 || step + 1 == steps) {
            printf("step %ld of %ld: %.2f bits a byte\n", step + 1, steps, bits);
            write_on(m, d, begin, argc > 1 ? 0.8 : 0);
            if (argc > 1) mmix_decoder_save(d, "text.safetensors");
        }
    }
    int right = argc > 1 || (!bad && !strncmp(write_on(m, d, "6 + 7 =", 0), " 13\n", 4));
    bad = mmix_error(m) || !right;
    if (mmix_error(m)) printf("text: %s\n", mmix_error(m));
    mmix_optimizer_free(&adamw);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
    return bad;
}
