/* swap.c - attention out of a decoder, mixers of linear cost in

   A decoder with softmax attention keeps keys and values of every token that it has read. LinMU
   (arXiv 2601.01322) puts M-MATE in attention's place: Flex-MA, a Mamba-2 scan with a state of a
   fixed size, and Local-Swin, attention to what is near. The student begins with the teacher's
   own weights, for queries, keys and values have counterparts in a scan (C, B and x), and then
   learns in three stages to do what the teacher does.

   The teacher is a small decoder that this program trains first, on the rhyme of write.c.

       cc -O2 demos/swap.c -o swap -lm -lpthread && ./swap

   It takes some ten seconds. For the teacher and for the student, before and after each stage,
   it prints how sure they are of the rhyme (the loss, in nats a character), the bytes of their
   memory when they have read it, and what they write. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <string.h>

enum { VOCABULARY = 128, BATCH = 8, L = 96, STEPS = 150 };

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
static char rhyme[4096];

static void append_verse(int last)
{
    strcat(rhyme, "This is ");
    for (int i = last; i >= 0; i--) {
        strcat(rhyme, who[i]);
        strcat(rhyme, did[i]);
    }
    strcat(rhyme, ".\n");
}

/* Pieces of the rhyme from random places, and for each character the one that follows. */
static mmix_distill_batch draw(mmix_ctx *m, uint64_t number)
{
    mmix_distill_batch batch = { 0 };
    size_t shape[2] = { BATCH, L };
    int32_t in[BATCH * L], target[BATCH * L];
    for (size_t b = 0; b < BATCH; b++) {
        size_t start = mmix_random_u32(m, 1, number, b) % (strlen(rhyme) - L);
        for (size_t t = 0; t < L; t++) {
            in[b * L + t] = rhyme[start + t];
            target[b * L + t] = rhyme[start + t + 1];
        }
    }
    batch.input.tokens = mmix_from_i32(m, 2, shape, in);
    batch.target = mmix_from_i32(m, 2, shape, target);
    return batch;
}

static mmix_tensor *loss_of(mmix_ctx *m, const mmix_decoder *d, const mmix_distill_batch *batch)
{
    mmix_tensor *hidden = mmix_decoder_forward(m, d, &batch->input, NULL);
    return mmix_cross_entropy(m, mmix_decoder_logits(m, d, hidden), batch->target, -1);
}

static mmix_decoder *train_teacher(mmix_ctx *m)
{
    mmix_decoder_config config = { 0 };
    config.vocabulary = VOCABULARY;
    config.dim = 64;
    config.depth = 2;
    config.heads = 4;
    config.ffn = 128;
    config.tied = 1;
    mmix_decoder *teacher = mmix_decoder_create(m, config);
    mmix_optimizer adamw;
    mmix_adamw options = mmix_adamw_config_default();
    if (!teacher || mmix_adamw_init(&adamw, teacher->params) != 0) return teacher;
    for (size_t step = 0; step < 2 * STEPS && !mmix_error(m); step++) {
        mmix_distill_batch batch = draw(m, step);
        mmix_record(m, 1);
        mmix_backward(m, loss_of(m, teacher, &batch));
        mmix_record(m, 0);
        options.lr = mmix_schedule_cosine(5e-3, 1e-4, 1, 2 * STEPS, 0, 0, step);
        mmix_adamw_step(&adamw, &options, -1, NULL);
        mmix_reset(m);
    }
    mmix_optimizer_free(&adamw);
    return teacher;
}

static mmix_sequence sequence_of(mmix_ctx *m, const char *text, size_t length)
{
    int32_t tokens[L];
    mmix_sequence sequence = { 0 };
    size_t shape[2] = { 1, length };
    for (size_t i = 0; i < length; i++) tokens[i] = text[i];
    sequence.tokens = mmix_from_i32(m, 2, shape, tokens);
    return sequence;
}

/* Bytes that a decoder carries along when it has read the rhyme, L characters at a time. */
static int memory(mmix_ctx *m, const mmix_decoder *d)
{
    mmix_mix_state *state = mmix_decoder_state_create(d);
    for (size_t at = 0; at + L <= strlen(rhyme); at += L) {
        mmix_sequence piece = sequence_of(m, rhyme + at, L);
        mmix_decoder_step(m, d, &piece, state);
    }
    int bytes = state ? (int)mmix_mix_state_bytes(state) : 0;
    mmix_mix_state_destroy(state);
    return bytes;
}

/* Prints a line about a decoder; returns its loss. */
static double report(mmix_ctx *m, const mmix_decoder *d, const char *name)
{
    static const char start[] = "This is the man";
    char text[49] = "";
    int32_t more[48];
    mmix_sequence prompt = sequence_of(m, start, strlen(start));
    size_t made = mmix_decoder_generate(m, d, &prompt, NULL, more, 48);
    for (size_t i = 0; i < made; i++) text[i] = more[i] < ' ' ? ' ' : (char)more[i];

    mmix_distill_batch batch = draw(m, 1u << 20);            /* a number that no training has */
    double loss = mmix_item(loss_of(m, d, &batch));
    printf("%-17s loss %.3f  memory %7d bytes  %s%s\n", name, loss, memory(m, d), start, text);
    mmix_reset(m);
    return loss;
}

int main(void)
{
    static const char *const after[] = { "stage 1: Flex-MA", "stage 2: both", "stage 3: and LoRA" };
    mmix_ctx *m = mmix_create(NULL);
    for (int i = 0; i < VERSES; i++) append_verse(i);
    mmix_decoder *teacher = train_teacher(m);
    if (!teacher || mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    double best = report(m, teacher, "attention");

    mmix_mmate_options mixer = { 0 };
    mixer.text_window = 16;                  /* Local-Swin: the last 16 characters */
    mmix_decoder *student = mmix_decoder_student(teacher, &mixer);
    double fresh = report(m, student, "M-MATE, untaught"), taught = fresh;
    mmix_distill_config stages = mmix_distill_config_linmu();
    for (size_t i = 0; i < stages.stages; i++) stages.stage[i].steps = STEPS;
    stages.stage[2].sequence = 0;  /* the rhyme itself serves, not what the teacher writes */
    mmix_distill *run = mmix_distill_create(teacher, student, stages);
    mmix_distill_stats stats;
    size_t stage = 0;
    while (run && !mmix_error(m)) {
        mmix_distill_batch batch = draw(m, 10000 + run->number);
        int more = mmix_distill_step(run, &batch, &stats);
        mmix_reset(m);
        if (run->stage > stage) taught = report(m, student, after[stage]);
        stage = run->stage;
        if (more <= 0) break;
    }
    if (mmix_error(m)) puts(mmix_error(m));
    int wrong = mmix_error(m) || !(taught < best + 0.1) || !(fresh > best + 0.5);
    mmix_distill_destroy(run);
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    mmix_destroy(m);
    return wrong;
}
