/* converse.h - the tokenizer beside a decoder's weights, and text as its ids. Include mamba_mix.h
   and tokenizer.h before it. */
#ifndef CONVERSE_H
#define CONVERSE_H

#include <stdio.h>
#include <string.h>

static inline int encode(mmix_ctx *m, const tokenizer *t, const char *words, tokenizer_ids *ids)
{
    if (!tokenizer_encode(t, words, strlen(words), 0, ids)) return 0;
    return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for ids");
}
/* The tokenizer of a decoder that holds ChatML's conversations. A folder's lies beside the weights;
   a GGUF holds its own. */
static inline tokenizer *open_tokenizer(mmix_ctx *m, const char *decoder)
{
    char error[TOKENIZER_ERROR], folder[1024];
    size_t n = strlen(decoder);
    snprintf(folder, sizeof folder, "%s", decoder);
    if (n > 12 && !strcmp(decoder + n - 12, ".safetensors")) {
        while (n && decoder[n - 1] != '/') n--;
        snprintf(folder, sizeof folder, "%.*s", n ? (int)n : 1, n ? decoder : ".");
    }
    tokenizer *t = tokenizer_load(folder, error);
    if (!t) mmix_fail(m, MMIX_ERROR_FILE, "%s", error);
    else if (tokenizer_chat_kind(t) != TOKENIZER_CHATML)
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected ChatML's conversations", folder);
    return t;
}

#endif
