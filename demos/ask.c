/* ask.c - pictures and a question in, an answer out: a vision-language model from a folder

       cc -O2 demos/ask.c -o ask -lm -lpthread && ./ask folder cat.jpg "What is this?"
       ./ask folder one.jpg two.jpg "What is different?"
       ./ask folder frame*.jpg "What happens?" --film 2
       ./ask SmolVLM.gguf --mmproj mmproj-SmolVLM.gguf cat.jpg "What is this?"

   The folder is one of Hugging Face's, as it is downloaded: SmolVLM and Idefics3, LLaVA-OneVision,
   Qwen2-VL and Qwen2.5-VL, NVILA (docs/models.md lists them). In its place there may be llama.cpp's
   two GGUFs, the decoder's and the tower's. JPEG and PNG need stb_image.h (Debian:
   libstb-dev), PPM nothing. Frames of a film are pictures in their order; with --film Qwen and NVILA
   read them as one film.

   What happens: the model's rules say into which tiles a picture is cut and how many tokens it
   becomes (mmix_vlm_plan_picture). The prompt is written as the model was taught, with so many
   image tokens in the place of each picture, and the tokenizer makes it numbers. A tower makes
   features of the tiles, which stand where the image tokens are (mmix_vlm_sequence), and the
   decoder reads all and answers, word by word (talk.h).

   Without arguments it says into how many tiles SmolVLM and LLaVA-OneVision cut pictures, lets a
   small model with random weights read one, and looks whether both ways to read agree. */

#define _POSIX_C_SOURCE 200112L              /* clock_gettime */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#define TOKENIZER_IMPLEMENTATION
#include "tokenizer.h"
#define TALK_PROGRAM "ask"
#include "talk.h"
#include "studies/pictures.h"

static const char help[] =
    "ask - a vision-language model answers\n\n"
    "  ask FOLDER PICTURE... QUESTION   FOLDER: model.safetensors (or its index), config.json,\n"
    "                                   preprocessor_config.json and tokenizer.json of a SmolVLM,\n"
    "                                   an Idefics3, a LLaVA-OneVision or a Qwen2-VL or 2.5-VL;\n"
    "                                   or NVILA's, with llm, vision_tower and mm_projector\n"
    "  ask MODEL.gguf --mmproj MMPROJ.gguf PICTURE... QUESTION\n"
    "                                   SmolVLM, Idefics3, Qwen2-VL and 2.5-VL as llama.cpp has them\n\n"
    "  --type NAME        float, bf16, f16, int8 or q4: how weights are held; q4 is fastest,\n"
    "                     float the most exact                                (float)\n"
    "  --longest N        SmolVLM, Idefics3: pixels of a picture's longer side; with 512 it is\n"
    "                     one tile and soon read                              (the model's)\n"
    "  --film RATE        Qwen, NVILA: the pictures are the frames of a film, so many a second\n"
    "  --count N          an answer's length at most, in tokens               (256)\n"
    "  --temperature T    0: always the likeliest token                       (0)\n"
    "  --top-p P          of the likeliest with together P; 0: all            (0)\n"
    "  --seed N           of what is drawn                                    (1)\n"
    "  --plain            no chat template: pictures, then the text\n"
    "  --show             the prompt, in which <image> stands for all of a picture's tokens\n"
    "  --threads N        (all cores)\n"
    "  --help\n\n"
    "At the end it prints how long the first token took and how fast the others came, to stderr.\n"
    "Exit status: 0, 1 for an error.\n";

enum { MOST_PICTURES = 1000 };
typedef struct settings {
    const char *folder, *mmproj, *question, *type;   /* with mmproj `folder` is the decoder's file */
    const char *path[MOST_PICTURES];
    double temperature, top_p, count, seed, threads, longest, film;
    size_t pictures;
    int plain, show;
} settings;

typedef struct ask {
    talk k;
    const settings *o;
    mmix_vlm *v;
    mmix_picture *picture;                       /* in the order of the question */
    mmix_vlm_plan *plan;                         /* with --film only the first */
    tokenizer_text prompt;
    char words[4096];                            /* the folder, or GGUF, with the tokenizer */
    double first;                                /* seconds to the first token */
} ask;

/* ---- what a model was taught ------------------------------------------------------------------ */

static int say(tokenizer_text *text, const char *words)
{
    return tokenizer_text_add(text, words, strlen(words));
}
static int say_often(tokenizer_text *text, const char *words, size_t n)
{
    int bad = 0;
    while (n-- && !bad) bad = say(text, words);
    return bad;
}
static int say_images(tokenizer_text *text, size_t n) { return say_often(text, "<image>", n); }
/* What stands for a picture of Idefics3: each tile with its row and column, line by line, and the
   whole picture. transformers: _prompt_split_image, _prompt_single_image */
static int say_tiles(tokenizer_text *text, const mmix_vlm_plan *plan)
{
    size_t tile = plan->grid[0] * plan->grid[1];
    int bad = 0;
    for (size_t row = 0; row < plan->rows; row++) {
        for (size_t column = 0; column < plan->columns; column++) {
            char place[64];
            snprintf(place, sizeof place, "<row_%d_col_%d>", (int)row + 1, (int)column + 1);
            bad |= say(text, "<fake_token_around_image>") || say(text, place);
            bad |= say_images(text, tile);
        }
        bad |= say(text, "\n");
    }
    if (plan->rows) bad |= say(text, "\n");
    bad |= say(text, "<fake_token_around_image><global-img>") || say_images(text, tile);
    return bad || say(text, "<fake_token_around_image>");
}
/* What stands for a picture or a film of Qwen2-VL. */
static int say_qwen(const ask *a, tokenizer_text *text, size_t i)
{
    const char *pad = a->o->film > 0 ? "<|video_pad|>" : "<|image_pad|>";
    size_t tokens = a->o->show ? 1 : a->plan[i].tokens;
    int bad = say(text, "<|vision_start|>") || say_often(text, pad, tokens);
    return bad || say(text, "<|vision_end|>");
}
/* Tokens that stand together: NVILA's prompt has one mark for them, see spread_marks. */
static size_t together(const mmix_vlm_plan *plan) { return plan->grid[0] * plan->grid[1]; }
/* What stands for a picture or a film of NVILA. Tiles are a line each. */
static int say_nvila(const ask *a, tokenizer_text *text, size_t i)
{
    const mmix_vlm_config *c = mmix_vlm_config_of(a->v);
    int bad = 0, in_lines = c->most > 1 && !c->n_scales && a->o->pictures == 1;
    if (a->o->film > 0) return say(text, "<vila/video>");
    for (size_t n = a->plan[i].tokens / together(&a->plan[i]); n-- > 0 && !bad;)
        bad = say(text, "<image>") || (in_lines && say(text, "\n"));
    return bad;
}
static int say_picture(const ask *a, tokenizer_text *text, size_t i)
{
    if (mmix_vlm_config_of(a->v)->kind == MMIX_VLM_QWEN) return say_qwen(a, text, i);
    if (mmix_vlm_config_of(a->v)->kind == MMIX_VLM_NVILA) return say_nvila(a, text, i);
    if (a->o->show) return say(text, "<image>");
    if (mmix_vlm_config_of(a->v)->kind == MMIX_VLM_IDEFICS3) return say_tiles(text, &a->plan[i]);
    return say_images(text, a->plan[i].tokens);
}
/* How a kind of model is asked: before the pictures, between them and the question, after it. */
typedef struct manner {
    int kind;                                    /* MMIX_VLM_… */
    const char *sign;                            /* what tells it in a template */
    const char *before, *between, *after;
} manner;
static const manner manners[] = {
    { MMIX_VLM_IDEFICS3, "message['role'] | capitalize", "<|im_start|>User:", "",
      "<end_of_utterance>\nAssistant:" },
    { MMIX_VLM_LLAVA, "'<|im_start|>' + message['role'] + ' '", "<|im_start|>user ", "\n",
      "<|im_end|><|im_start|>assistant\n" },
    { MMIX_VLM_LLAVA, "'<|im_start|>' + message['role'] + '\\n'", "<|im_start|>user\n", "\n",
      "<|im_end|><|im_start|>assistant\n" },
    { MMIX_VLM_QWEN, "<|vision_start|><|image_pad|><|vision_end|>",
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n", "",
      "<|im_end|>\n<|im_start|>assistant\n" },
    { MMIX_VLM_NVILA, "system\\nYou are a helpful assistant.<|im_end|>",
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n", "",
      "<|im_end|>\n<|im_start|>assistant\n" },
    { MMIX_VLM_NVILA, "system\\nYou are a helpful assistant<|im_end|>",
      "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\n", "",
      "<|im_end|>\n<|im_start|>assistant\n" },
    { MMIX_VLM_NVILA, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
      "<|im_end|>\n<|im_start|>user\n", "", "<|im_end|>\n<|im_start|>assistant\n" },
};
/* Whether a template, as a file holds it, has the words. Their \n stands there as it is, escaped,
   or as the end of a line. */
static int has_words(const char *template, const char *words)
{
    for (; *template; template++) {
        const char *p = template, *w = words;
        while (*w) {
            int is_end = *p == '\n' && w[0] == '\\' && w[1] == 'n';
            if (*p != *w && !is_end) break;
            if (*p == '\\' && p[1] == '\\') p++;
            if (is_end) w++;
            p++;
            w++;
        }
        if (!*w) return 1;
    }
    return 0;
}
/* The manner of the model's kind whose sign a template has; NULL: it is another. */
static const manner *manner_of(int kind, const char *template)
{
    const manner *found = NULL;
    for (size_t i = sizeof manners / sizeof *manners; i-- > 0;)
        if (manners[i].kind == kind && has_words(template, manners[i].sign)) found = &manners[i];
    return found;
}
/* The manner of a GGUF's template, or `otherwise` where it has none. */
static const manner *gguf_manner(const ask *a, int kind, const manner *otherwise)
{
    mmix_archive *file = mmix_archive_open(a->k.m, a->words);
    const char *template = mmix_archive_metadata(file, "tokenizer.chat_template");
    if (template) otherwise = manner_of(kind, template);
    mmix_archive_close(file);
    return otherwise;
}
/* The manner of a folder's template, or its kind's first where there is no template; NULL: it is
   another. */
static const manner *find_manner(const ask *a)
{
    static const char *const names[] = { "chat_template.jinja", "chat_template.json",
                                         "tokenizer_config.json" };
    static const manner plain = { 0, "", "", "", "" };
    const manner *found = NULL;
    int kind = mmix_vlm_config_of(a->v)->kind, told = 0;
    if (a->o->plain) return &plain;
    for (size_t i = sizeof manners / sizeof *manners; i-- > 0;)
        if (manners[i].kind == kind) found = &manners[i];
    if (a->o->mmproj) return gguf_manner(a, kind, found);
    for (int n = 0; n < 3 && !told; n++) {
        char *text = read_beside(a->words, names[n]);
        told = text && (n == 0 || strstr(text, "\"chat_template\""));
        if (told) found = manner_of(kind, text);
        free(text);
    }
    return found;
}
/* Writes the prompt. 0, or 1 after a message. */
static int write_prompt(ask *a)
{
    const manner *how = find_manner(a);
    if (!how) return fail("its chat template is not done; --plain gives it pictures and text");
    int bad = say(&a->prompt, how->before);
    size_t media = a->o->film > 0 ? 1 : a->o->pictures;
    for (size_t i = 0; i < media && !bad; i++) bad = say_picture(a, &a->prompt, i);
    /* without a picture Idefics3's template has a space there */
    if (!a->o->pictures && how->kind == MMIX_VLM_IDEFICS3 && *how->before)
        bad |= say(&a->prompt, " ");
    bad = bad || say(&a->prompt, how->between) || say(&a->prompt, a->o->question);
    return bad || say(&a->prompt, how->after) ? fail("out of memory") : 0;
}

/* ---- options and files ------------------------------------------------------------------------ */

/* An exit status, or -1 to go on. */
static int read_options(settings *o, int argc, char **argv)
{
    const talk_option known[] = {
        { "--type", NULL, 0, &o->type }, { "--mmproj", NULL, 0, &o->mmproj },
        { "--longest", &o->longest, 65536, NULL },
        { "--film", &o->film, 1000, NULL },
        { "--count", &o->count, 1e6, NULL }, { "--temperature", &o->temperature, 100, NULL },
        { "--top-p", &o->top_p, 1, NULL }, { "--seed", &o->seed, 9e15, NULL },
        { "--threads", &o->threads, 64, NULL },
    };
    for (int i = 1; i < argc; i++) {
        int is_plain = !strcmp(argv[i], "--plain"), is_show = !strcmp(argv[i], "--show");
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return 0;
        }
        o->plain |= is_plain;
        o->show |= is_show;
        if (is_plain || is_show) continue;
        int found = read_option(known, sizeof known / sizeof *known, argc, argv, &i);
        if (found < 0) return 1;
        if (found) continue;
        if (!o->folder) o->folder = argv[i];
        else {
            if (o->question && o->pictures == MOST_PICTURES) return fail("more than 1000 pictures");
            if (o->question) o->path[o->pictures++] = o->question;
            o->question = argv[i];               /* the last one is the question */
        }
    }
    if (!o->folder) return fail("no model; --help says what it needs");
    if (!o->question) return fail("no question; --help says what it needs");
    if (is_there(o->question)) return fail("no question: the last argument is a file");
    return -1;
}
/* Reads the pictures and says what becomes of them. 0, or 1 after a message. */
static int read_pictures(ask *a)
{
    size_t n = a->o->pictures;
    char why[1024];
    a->picture = (mmix_picture *)calloc(n + 1, sizeof *a->picture);
    a->plan = (mmix_vlm_plan *)calloc(n + 1, sizeof *a->plan);
    if (!a->picture || !a->plan) return fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        mmix_picture *p = &a->picture[i];
        p->rgb = picture_pixels(a->k.m, a->o->path[i], &p->width, &p->height, why, sizeof why);
        if (!p->rgb) return fail(why);
        if (a->o->film > 0) continue;
        if (mmix_vlm_plan_picture(a->k.m, a->v, p->width, p->height, n, &a->plan[i]))
            return fail(mmix_error(a->k.m));
    }
    const mmix_picture *first = a->picture;
    if (a->o->film > 0 && mmix_vlm_plan_film(a->k.m, a->v, first->width, first->height, n, a->plan))
        return fail(mmix_error(a->k.m));
    return 0;
}
/* Opens the model and its tokenizer. 0, or 1 after a message. */
static int open_model(ask *a)
{
    char error[TOKENIZER_ERROR];
    talk *k = &a->k;
    int type = find_type(a->o->type ? a->o->type : "float");
    if (type < 0) return 1;
    if (a->o->mmproj) a->v = mmix_vlm_load_gguf(k->m, a->o->folder, a->o->mmproj, type);
    else a->v = mmix_vlm_load_as(k->m, a->o->folder, type);
    if (!a->v) return fail(mmix_error(k->m));
    if (a->o->longest > 0 && mmix_vlm_longest(a->v, (size_t)a->o->longest))
        return fail(mmix_error(k->m));
    const mmix_vlm_config *c = mmix_vlm_config_of(a->v);
    int is_qwen = c->kind == MMIX_VLM_QWEN, is_nvila = c->kind == MMIX_VLM_NVILA;
    k->decoder = mmix_vlm_decoder(a->v);
    if (c->positions) k->positions = c->positions;
    snprintf(a->words, sizeof a->words, "%.4000s%s", a->o->folder, is_nvila ? "/llm" : "");
    k->t = tokenizer_load(a->words, error);
    if (!k->t) return fail(error);
    /* NVILA's marks stand behind the model's vocabulary */
    if (!is_nvila && check_vocabulary(k)) return 1;
    if (tokenizer_find(k->t, is_qwen ? "<|image_pad|>" : "<image>") != c->image_token)
        return fail("the tokenizer's image token is not the model's");
    if (is_qwen && tokenizer_find(k->t, "<|video_pad|>") != c->film_token)
        return fail("the tokenizer's <|video_pad|> is not the model's");
    if (is_nvila && c->film_frames && tokenizer_find(k->t, "<vila/video>") != c->film_token)
        return fail("the tokenizer's <vila/video> is not the model's");
    int bad = a->o->mmproj ? read_metadata(k, a->words) : read_configs(k, a->words);
    bad = bad || tokenizer_ids_add(&k->ends, tokenizer_end(k->t));
    int is_idefics = c->kind == MMIX_VLM_IDEFICS3;
    int32_t end = tokenizer_find(k->t, is_idefics ? "<end_of_utterance>" : "<|im_end|>");
    return bad || (end >= 0 && tokenizer_ids_add(&k->ends, end)) ? fail("out of memory") : 0;
}

/* ---- an answer -------------------------------------------------------------------------------- */

/* NVILA: puts all of a mark's tokens in its place, after each grid of them the end of a line. 0, or
   1 without memory. */
static int spread_marks(const ask *a, const tokenizer_ids *marked, tokenizer_ids *ids)
{
    const mmix_vlm_config *c = mmix_vlm_config_of(a->v);
    tokenizer_ids end = { NULL, 0, 0 };
    size_t i = 0, seen = 0;                      /* picture i, and how many of its tokens */
    size_t media = a->o->film > 0 ? 1 : a->o->pictures;
    int bad = tokenizer_encode(a->k.t, "\n", 1, 0, &end);
    for (size_t at = 0; at < marked->count && !bad; at++) {
        int32_t id = marked->at[at];
        int is_film = c->film_frames && id == c->film_token;
        size_t grids = is_film ? a->plan[0].frames : 1;
        if ((!is_film && id != c->image_token) || i == media) {
            bad = tokenizer_ids_add(ids, id);
            continue;
        }
        for (size_t grid = 0; grid < grids && !bad; grid++) {
            for (size_t n = together(&a->plan[i]); n-- > 0 && !bad;)
                bad = tokenizer_ids_add(ids, id);
            for (size_t n = 0; n < end.count && !bad; n++)
                bad = tokenizer_ids_add(ids, end.at[n]);
            seen += together(&a->plan[i]);
        }
        if (seen < a->plan[i].tokens) continue;
        seen = 0;
        i++;
    }
    tokenizer_ids_free(&end);
    return bad;
}
/* The prompt's tokens. 0, or 1 without memory. */
static int prompt_ids(const ask *a, tokenizer_ids *ids)
{
    tokenizer_ids marked = { NULL, 0, 0 };
    if (mmix_vlm_config_of(a->v)->kind != MMIX_VLM_NVILA)
        return tokenizer_encode(a->k.t, a->prompt.at, a->prompt.count, 0, ids);
    int bad = tokenizer_encode(a->k.t, a->prompt.at, a->prompt.count, 0, &marked);
    bad = bad || spread_marks(a, &marked, ids);
    tokenizer_ids_free(&marked);
    return bad;
}
/* Reads the question and answers it. 0, or 1 after a message. */
static int answer(ask *a)
{
    talk *k = &a->k;
    tokenizer_ids ids = { NULL, 0, 0 };
    tokenizer_text words = { NULL, 0, 0 };
    mmix_sequence question;
    const mmix_real *logits = NULL;
    if (prompt_ids(a, &ids)) return fail("out of memory");
    double start = now();
    k->state = mmix_decoder_state_create(k->decoder);
    const mmix_film film = { a->picture, a->o->pictures, a->o->film };
    size_t films = a->o->film > 0, pictures = films ? 0 : a->o->pictures;
    int bad = mmix_vlm_sequence_films(k->m, a->v, ids.at, ids.count, a->picture, pictures, &film,
                                      films, &question);
    if (!bad && k->state) logits = read_piece(k, &question, ids.at, ids.count);
    a->first = now() - start;
    k->read = ids.count;
    bad = !logits;
    if (bad) fail(mmix_error(k->m) ? mmix_error(k->m) : "out of memory");
    if (!bad) bad = write_answer(k, logits, &words);
    tokenizer_ids_free(&ids);
    tokenizer_text_free(&words);
    return bad;
}
static void say_speed(const ask *a)
{
    const talk *k = &a->k;
    size_t of_pictures = 0;
    for (size_t i = 0; i < a->o->pictures; i++) of_pictures += a->plan[i].tokens;
    fprintf(stderr, "%.0f tokens read, %.0f of them of pictures; the first word after %.2f s; "
            "%.0f written, %.1f a second\n", (double)k->read, (double)of_pictures, a->first,
            (double)k->written,
            (double)k->written / (k->write_seconds > 0 ? k->write_seconds : 1));
}

/* ---- without a model -------------------------------------------------------------------------- */

/* A model with the pictures of SmolVLM-256M (kind IDEFICS3) or LLaVA-OneVision, and networks that
   are small. */
static mmix_vlm_config small_model(int kind)
{
    int is_llava = kind == MMIX_VLM_LLAVA;
    mmix_vlm_config c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.tile = is_llava ? 384 : 512;
    c.tower.dim = 24;
    c.tower.depth = 1;
    c.tower.heads = 2;
    c.tower.ffn = 32;
    c.tower.eps = 1e-6;
    c.tower.activation = MMIX_ACTIVATION_GELU_TANH;
    c.tower.pool = MMIX_TOWER_TOKENS;
    c.tower.patch = is_llava ? 14 : 16;
    c.tower.patch_bias = 1;
    c.tower.side = c.tile;
    c.layers = 1;
    c.merge = is_llava ? 1 : 4;
    c.projector = is_llava ? MMIX_PROJECTOR_MLP : MMIX_PROJECTOR_LINEAR;
    c.longest = 2048;
    c.most = 9;
    for (c.n_shapes = 0; c.n_shapes < 36; c.n_shapes++) {
        c.shapes[c.n_shapes][0] = 384 * (c.n_shapes / 6 + 1);
        c.shapes[c.n_shapes][1] = 384 * (c.n_shapes % 6 + 1);
    }
    c.filter = is_llava ? MMIX_PILLOW_BICUBIC : MMIX_PILLOW_LANCZOS;
    c.scale = 1.0 / 255;
    for (int i = 0; i < 3; i++) {
        c.mean[i] = 0.5;
        c.deviation[i] = 0.5;
    }
    c.decoder.vocabulary = 16;
    c.decoder.dim = 24;
    c.decoder.depth = 2;
    c.decoder.heads = 2;
    c.decoder.ffn = 32;
    c.image_token = 15;
    return c;
}
/* Prints what becomes of pictures of some sizes; how many tokens that is altogether. */
static size_t print_plans(mmix_ctx *m, const mmix_vlm *v, const char *name)
{
    static const size_t sizes[][2] = { { 640, 480 }, { 1080, 1920 }, { 512, 512 }, { 3000, 200 } };
    size_t all = 0;
    for (int i = 0; i < 4; i++) {
        mmix_vlm_plan plan;
        if (mmix_vlm_plan_picture(m, v, sizes[i][0], sizes[i][1], 1, &plan)) return 0;
        printf("%-16s %4d x %-4d  %d x %d tiles and the whole: %4d tokens\n", name,
               (int)sizes[i][0], (int)sizes[i][1], (int)plan.rows, (int)plan.columns,
               (int)plan.tokens);
        all += plan.tokens;
    }
    return all;
}
/* How far the logits after a picture and two words are apart, read whole and in two pieces. */
static double read_twice(mmix_ctx *m, mmix_vlm *v)
{
    enum { SIDE = 40, MOST = 1200 };
    static uint8_t rgb[SIDE * SIDE * 3];
    int32_t ids[MOST], last = 3;
    mmix_picture picture = { rgb, SIDE, SIDE };
    mmix_vlm_plan plan;
    mmix_sequence question, word;
    size_t n = 0, shape[2] = { 1, 1 };
    double worst = 0;
    mmix_decoder *d = mmix_vlm_decoder(v);
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * i / 64);
    if (mmix_vlm_longest(v, 512) || mmix_vlm_plan_picture(m, v, SIDE, SIDE, 1, &plan)) return 1;
    ids[n++] = 1;
    for (size_t i = 0; i < plan.tokens; i++) ids[n++] = 15;
    ids[n++] = 2;
    if (mmix_vlm_sequence(m, v, ids, n, &picture, 1, &question)) return 1;
    mmix_mix_state *state = mmix_decoder_state_create(d);
    mmix_decoder_step(m, d, &question, state);
    memset(&word, 0, sizeof word);
    word.tokens = mmix_from_i32(m, 2, shape, &last);
    mmix_tensor *step = mmix_decoder_step(m, d, &word, state);
    shape[1] = n + 1;
    ids[n] = last;
    question.tokens = mmix_from_i32(m, 2, shape, ids);
    mmix_tensor *x = mmix_decoder_forward(m, d, &question, NULL);
    x = mmix_decoder_logits(m, d, mmix_slice(m, x, 1, n, 1));
    for (size_t i = 0; step && x && i < 16; i++)
        worst = fmax(worst, fabs((double)(mmix_data(step)[i] - mmix_data(x)[i])));
    mmix_mix_state_destroy(state);
    return step && x ? worst : 1;
}
static int without_model(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *smol = mmix_vlm_create(m, small_model(MMIX_VLM_IDEFICS3));
    mmix_vlm *llava = mmix_vlm_create(m, small_model(MMIX_VLM_LLAVA));
    size_t tokens = print_plans(m, smol, "SmolVLM") + print_plans(m, llava, "LLaVA-OneVision");
    double apart = smol ? read_twice(m, smol) : 1;
    printf("\nA picture and three words, read whole and in pieces: %.1e apart\n", apart);
    const char *error = mmix_error(m);
    if (error) fail(error);
    mmix_vlm_destroy(smol);
    mmix_vlm_destroy(llava);
    mmix_destroy(m);
    if (error || tokens != 19539 || !(apart < 1e-4)) return fail("that is wrong");
    puts("\nThat is right. To answer it needs a model's folder, such as SmolVLM-256M-Instruct:\n\n"
         "    ./ask SmolVLM-256M-Instruct cat.jpg \"What is this?\"\n\n"
         "--help says more.");
    return 0;
}

int main(int argc, char **argv)
{
    static settings o;
    static ask a;
    talk *k = &a.k;
    mmix_options options;
    if (argc < 2) return without_model();
    o.count = 256;
    o.seed = 1;
    int status = read_options(&o, argc, argv);
    if (status >= 0) return status;
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = (uint64_t)o.seed;
    a.o = &o;
    k->positions = SIZE_MAX;
    k->how.temperature = o.temperature;
    k->how.top_p = o.top_p;
    k->most = (size_t)o.count;
    k->m = mmix_create(&options);
    if (!k->m) return fail(mmix_error(NULL));
    status = open_model(&a) || read_pictures(&a) || write_prompt(&a);
    if (!status && o.show) puts(a.prompt.at);
    else if (!status) status = answer(&a);
    if (!status && !o.show) say_speed(&a);
    for (size_t i = 0; a.picture && i < o.pictures; i++)
        if (a.picture[i].rgb)
            picture_pixels_free(o.path[i], (uint8_t *)(uintptr_t)a.picture[i].rgb);
    free(a.picture);
    free(a.plan);
    tokenizer_text_free(&a.prompt);
    talk_free(k);
    mmix_vlm_destroy(a.v);
    mmix_destroy(k->m);
    return status;
}
