/* write.c - a language model of Mamba-2 layers that learns a rhyme and recites it

   A token here is a character. The network reads the characters so far and says which may come
   next; learning is to give the one that comes a higher chance, over and over (cross-entropy).
   Between the embedding of a character and the guess stand layers x = x + mamba2(norm x). When
   it writes, each layer carries a state of a fixed size from one character to the next, however
   long the text becomes.

   The names of the parameters are those of Hugging Face's Mamba2ForCausalLM, so that with the
   sizes of such a file mmix_params_load reads its weights into this network as they are.

       cc -O2 demos/write.c -o write -lm -lpthread && ./write

   It learns for two seconds. A line at steps 0, 1, 2, 4, 8, … has the loss and what the network
   writes at that time. At the end it recites the last verse of "The house that Jack built", and
   the program looks whether it is right. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <string.h>

enum { VOCABULARY = 128, D = 64, DEPTH = 2, BATCH = 8, L = 96, STEPS = 200 };

static const char *const who[] = {
    "the house that Jack built", "the malt", "the rat", "the cat", "the dog",
        "the cow with the crumpled horn",
    "the maiden all forlorn", "the man all tattered and torn", "the priest all shaven and shorn",
    "the cock that crowed in the morn", "the farmer sowing his corn",
    "the horse and the hound and the horn"
};
static const char *const did[] = {
    "", " that lay in ", " that ate ", " that killed ", " that worried ", " that tossed ",
        " that milked ",
    " that kissed ", " that married ", " that woke ", " that kept ", " that belonged to "
};
enum { VERSES = sizeof who / sizeof *who };

/* Appends verse number `last`, which goes back through all before it. */
static void append_verse(char *text, int last)
{
    strcat(text, "This is ");
    for (int i = last; i >= 0; i--) {
        strcat(text, who[i]);
        strcat(text, did[i]);
    }
    strcat(text, ".\n");
}

typedef struct model {
    mmix_params *params;
    mmix_tensor *embedding, *norm[DEPTH], *last_norm;
    mmix_mamba2_layer mamba[DEPTH];
} model;

static int model_init(model *net, mmix_ctx *m)
{
    mmix_mamba2_options options = { 0 };
    size_t table[2] = { VOCABULARY, D }, row[1] = { D };
    options.head_dim = 32;
    options.d_state = 32;
    net->params = mmix_params_create(m);
    net->embedding = mmix_params_add(net->params, "backbone.", "embeddings.weight", 2, table,
                                     MMIX_INIT_NORMAL, 0.1, 0);
    for (int i = 0; i < DEPTH; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "backbone.layers.%d.", i);
        net->norm[i] = mmix_params_add(net->params, prefix, "norm.weight", 1, row,
                                       MMIX_INIT_CONSTANT, 1, 0);
        snprintf(prefix, sizeof prefix, "backbone.layers.%d.mixer.", i);
        mmix_mamba2_init(&net->mamba[i], net->params, prefix, D, &options);
    }
    net->last_norm = mmix_params_add(net->params, "backbone.", "norm_f.weight", 1, row,
                                     MMIX_INIT_CONSTANT, 1, 0);
    return mmix_params_allocate(net->params);
}

/* tokens (B, L) → (B, L, VOCABULARY), the larger the likelier; with a state they go on from what
   came before. */
static mmix_tensor *logits(mmix_ctx *m, model *net, mmix_tensor *tokens, mmix_mix_state *state)
{
    mmix_tensor *x = mmix_take_rows(m, net->embedding, tokens);
    for (int i = 0; i < DEPTH; i++) {
        mmix_mamba2_state slot = { 0 };
        slot.in = state;
        slot.slot = (size_t)i;
        mmix_tensor *normed = mmix_rms_norm(m, x, net->norm[i], 1e-5);
        x = mmix_mamba2_forward(m, &net->mamba[i], normed, x, NULL, NULL, state ? &slot : NULL);
    }
    x = mmix_rms_norm(m, x, net->last_norm, 1e-5);
    return mmix_linear(m, x, net->embedding, NULL);  /* the embedding serves a second time */
}

/* One step on pieces of the text that begin at random places; returns the loss. */
static double learn(mmix_ctx *m, model *net, mmix_optimizer *adamw, const char *text, size_t step)
{
    size_t length = strlen(text);
    size_t shape[2] = { BATCH, L };
    int32_t in[BATCH * L], target[BATCH * L];
    mmix_adamw options = mmix_adamw_config_default();
    for (size_t b = 0; b < BATCH; b++) {
        size_t start = mmix_random_u32(m, 1, step, b) % (length - L);
        for (size_t t = 0; t < L; t++) {
            in[b * L + t] = text[start + t];
            target[b * L + t] = text[start + t + 1];
        }
    }
    mmix_record(m, 1);
    mmix_tensor *guess = logits(m, net, mmix_from_i32(m, 2, shape, in), NULL);
    mmix_tensor *loss = mmix_cross_entropy(m, guess, mmix_from_i32(m, 2, shape, target), -1);
    mmix_backward(m, loss);
    mmix_record(m, 0);
    double value = mmix_item(loss);          /* a loss outlives the tape; the other values do not */
    options.lr = mmix_schedule_cosine(1e-2, 1e-4, 1, STEPS, 0, 0, step);
    mmix_adamw_step(adamw, &options, -1, NULL);
    mmix_reset(m);
    return value;
}

/* Continues `text`, which holds at most `size` bytes, up to the end of a line; always the
   likeliest character. */
static void recite(mmix_ctx *m, model *net, char *text, size_t size)
{
    mmix_mix_state *state = mmix_mix_state_create(m, DEPTH);
    size_t length = strlen(text), read = 0;
    while (length + 1 < size && !strchr(text, '\n') && !mmix_error(m)) {
        int32_t tokens[256];
        size_t shape[2] = { 1, length - read };
        for (size_t i = read; i < length; i++) tokens[i - read] = text[i];
        mmix_tensor *guess = logits(m, net, mmix_from_i32(m, 2, shape, tokens), state);
        if (!guess) break;
        mmix_real *last = mmix_data(guess) + (length - read - 1) * VOCABULARY;
        read = length;
        text[length] = (char)mmix_sample_token(m, last, VOCABULARY, NULL, 0);
        length++;
        text[length] = 0;
        mmix_reset(m);                       /* drops the step; the state stays */
    }
    mmix_mix_state_destroy(state);
}

int main(void)
{
    static char rhyme[4096], written[1024];
    model net;
    mmix_optimizer adamw;
    mmix_ctx *m = mmix_create(NULL);
    for (int i = 0; i < VERSES; i++) append_verse(rhyme, i);
    if (model_init(&net, m) != 0 || mmix_adamw_init(&adamw, net.params) != 0) {
        puts(mmix_error(m));
        return 1;
    }
    printf("%d characters of rhyme, %d numbers to learn\n", (int)strlen(rhyme),
           (int)net.params->elements);
    for (size_t step = 0; step < STEPS && !mmix_error(m); step++) {
        double loss = learn(m, &net, &adamw, rhyme, step);
        if (step & (step - 1)) continue;     /* not a power of two */
        strcpy(written, "This is the c");
        recite(m, &net, written, 70);
        printf("step %3d  loss %.3f  %s%s", (int)step, loss, written, strchr(written, '\n') ? "" :
               "\n");
    }
    strcpy(written, "This is the horse");
    recite(m, &net, written, sizeof written);
    if (mmix_error(m)) puts(mmix_error(m));
    size_t most = strlen(rhyme), count = strlen(written);
    int same = count < most && !strcmp(rhyme + most - count, written);
    printf("\n%s\n%s\n", written, same ? "That is the rhyme, to the letter." :
           "That is not the rhyme.");
    mmix_optimizer_free(&adamw);
    mmix_params_destroy(net.params);
    mmix_destroy(m);
    return !same;
}
