/* A growable piece of text, and the JSON writing of atoms into it. All of it is ASCII.
 *
 * Memory comes from the raw allocator, so that writing never starts a garbage collection.
 * A piece that could not grow is `broken` and stays so; its owner looks once, when the record is complete.
 */
#ifndef GROUNDBOX_TEXT_H
#define GROUNDBOX_TEXT_H

#include <Python.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    char *data;
    size_t size, room;
    bool broken;
} Text;

bool text_grow(Text *text, size_t more);
void text_free(Text *text);
void text_int(Text *text, long long value);
void text_float(Text *text, double value);
void text_hex(Text *text, const unsigned char *bytes, Py_ssize_t count);
void text_sha256(Text *text, const void *data, size_t size);
/* Characters [start, stop) of a str, escaped, without quotes. */
void text_escaped(Text *text, PyObject *string, Py_ssize_t start, Py_ssize_t stop);
/* A whole str as a JSON string. */
void text_string(Text *text, PyObject *string);
/* A C string in UTF-8 as a JSON string. */
void text_utf8(Text *text, const char *string);

static inline bool text_room(Text *text, size_t more)
{
    return text->room - text->size >= more || text_grow(text, more);
}

static inline void text_bytes(Text *text, const char *bytes, size_t count)
{
    if (text_room(text, count)) {
        memcpy(text->data + text->size, bytes, count);
        text->size += count;
    }
}

static inline void text_char(Text *text, char c)
{
    if (text_room(text, 1))
        text->data[text->size++] = c;
}

#define text_literal(text, literal) text_bytes(text, literal, sizeof(literal) - 1)

#endif
