/*
 * handle.h - what a handle keeps, included behind its struct: SETTING(name, which) makes set_name and
 * get_name of settings[which].
 */
#ifndef DRY_LIBRARIES_HANDLE_H
#define DRY_LIBRARIES_HANDLE_H

STANDS_IN int set_stream(struct handle *h, void *stream)
{
    if (!h)
        return NOT_INITIALIZED;
    h->stream = stream;
    return SUCCESS;
}

STANDS_IN int get_stream(const struct handle *h, void **stream)
{
    if (!h)
        return NOT_INITIALIZED;
    *stream = h->stream;
    return SUCCESS;
}

static int set_setting(struct handle *h, int which, int value)
{
    if (!h)
        return NOT_INITIALIZED;
    h->settings[which] = value;
    return SUCCESS;
}

static int get_setting(const struct handle *h, int which, int *value)
{
    if (!h)
        return NOT_INITIALIZED;
    *value = h->settings[which];
    return SUCCESS;
}

#define SETTING(name, which)                                                                                 \
    STANDS_IN int set_##name(struct handle *h, int value)                                                    \
    {                                                                                                        \
        return set_setting(h, which, value);                                                                 \
    }                                                                                                        \
    STANDS_IN int get_##name(const struct handle *h, int *value)                                             \
    {                                                                                                        \
        return get_setting(h, which, value);                                                                 \
    }

#endif
