/*
 * loss_code.c - see loss_code.h.
 *
 * Hugging Face's functions for losses begin with a copy in fp32, and so say which; its models that call
 * PyTorch's loss themselves give it what they have.  What else calls it, as a program's own line does, may
 * have copied or not.
 */
#include "loss_code.h"

#include <string.h>

#include "trace/journal/journal.h"

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

static bool begins_with_one_of(const char *name, const char *const *names)
{
    while (*names && strncmp(name, *names, strlen(*names)) != 0)
        names++;
    return *names;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), k = strlen(with);
    return n >= k && !strcmp(text + n - k, with);
}

/* logits.float() is their first line. */
bool loss_code_upcasts(const char *function)
{
    static const char *const names[] = {"ForCausalLMLoss", "ForMaskedLMLoss", "ForTokenClassification", NULL};
    return is_one_of(function, names);
}

/* Of torch.nn.functional. */
static bool is_loss(const char *function)
{
    static const char *const names[] = {"cross_entropy",
                                        "nll_loss",
                                        "log_softmax",
                                        "binary_cross_entropy",
                                        "binary_cross_entropy_with_logits",
                                        "mse_loss",
                                        "l1_loss",
                                        "smooth_l1_loss",
                                        "huber_loss",
                                        "kl_div",
                                        "ctc_loss",
                                        "poisson_nll_loss",
                                        "gaussian_nll_loss",
                                        "hinge_embedding_loss",
                                        "soft_margin_loss",
                                        "multilabel_soft_margin_loss",
                                        "multi_margin_loss",
                                        NULL};
    return is_one_of(function, names);
}

static bool is_node_of_loss(const char *node)
{
    static const char *const names[] = {"NllLoss",      "LogSoftmaxBackward", "MseLoss", "BinaryCrossEntropy",
                                        "SmoothL1Loss", "HuberLoss",          "KlDiv",   "CtcLoss",
                                        "SoftMargin",   "MultiMargin",        NULL};
    return begins_with_one_of(node, names);
}

/* Whether a model of Hugging Face's gives its logits to PyTorch's loss as they are, in every version that has
 * the model.  Models that fill in words do, and models with an encoder and a decoder of their own.  Models
 * that continue a text did so in some versions, and copied to fp32 in others. */
static bool gives_as_they_are(const char *function, const char *file)
{
    static const char *const classes[] = {"T5For",
                                          "MT5For",
                                          "UMT5For",
                                          "LongT5For",
                                          "SwitchTransformersFor",
                                          "BartFor",
                                          "MBartFor",
                                          "PegasusFor",
                                          "PegasusXFor",
                                          "MarianMTModel.",
                                          "BlenderbotFor",
                                          "M2M100For",
                                          "LEDFor",
                                          "PLBartFor",
                                          "MvpFor",
                                          "NllbMoeFor",
                                          "BlenderbotSmallFor",
                                          "FSMTFor",
                                          "WhisperFor",
                                          "Speech2TextFor",
                                          "BigBirdPegasusFor",
                                          NULL};
    if (!strstr(file, "/transformers/"))
        return false;
    if (!strcmp(function, "ForSequenceClassificationLoss") || !strcmp(function, "ForQuestionAnsweringLoss"))
        return true;
    if (!ends(function, ".forward") || strstr(function, "ForCausalLM."))
        return false;
    return strstr(function, "ForMaskedLM.") || begins_with_one_of(function, classes);
}

bool loss_code_is_loss(const struct trace_frame *frame)
{
    if (frame->kind == VS_FRAME_NODE)
        return is_node_of_loss(frame->function);
    return frame->kind == VS_FRAME_PYTHON && frame->file && ends(frame->file, "/torch/nn/functional.py") &&
           is_loss(frame->function);
}

enum loss_giving loss_code_gives(const struct trace_frame *frame)
{
    const char *file = frame->file ? frame->file : "";
    bool hands_on = !strcmp(frame->function, "fixed_cross_entropy");
    if (frame->kind != VS_FRAME_PYTHON || strstr(file, "-packages/torch/") || hands_on)
        return GIVES_ON;
    return gives_as_they_are(frame->function, file) ? GIVES_AS_IT_IS : GIVES_UNKNOWN;
}
