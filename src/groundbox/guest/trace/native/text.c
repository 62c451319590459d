/* JSON texts of atoms. */
#include "text.h"

#include "sha256.h"

static const char HEX[] = "0123456789abcdef";

bool text_grow(Text *text, size_t more)
{
    if (text->broken || more > SIZE_MAX / 4)
        return text->broken = true, false;
    size_t room = text->room ? text->room * 2 : 4096;
    while (room - text->size < more)
        room *= 2;
    char *data = PyMem_RawRealloc(text->data, room);
    if (!data)
        return text->broken = true, false;
    text->data = data;
    text->room = room;
    return true;
}

void text_free(Text *text)
{
    PyMem_RawFree(text->data);
    *text = (Text){0};
}

void text_int(Text *text, long long value)
{
    char digits[24];
    char *at = digits + sizeof digits;
    unsigned long long rest = value < 0 ? 0ULL - (unsigned long long)value : (unsigned long long)value;
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--at = '-';
    text_bytes(text, at, (size_t)(digits + sizeof digits - at));
}

void text_float(Text *text, double value)
{
    char *digits = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (!digits) {
        PyErr_Clear();
        text->broken = true;
        return;
    }
    text_bytes(text, digits, strlen(digits));
    PyMem_Free(digits);
}

void text_hex(Text *text, const unsigned char *bytes, Py_ssize_t count)
{
    if (!text_room(text, (size_t)count * 2))
        return;
    char *at = text->data + text->size;
    for (Py_ssize_t i = 0; i < count; i++) {
        *at++ = HEX[bytes[i] >> 4];
        *at++ = HEX[bytes[i] & 15];
    }
    text->size += (size_t)count * 2;
}

void text_sha256(Text *text, const void *data, size_t size)
{
    if (!text_room(text, 64))
        return;
    sha256_hex(data, size, text->data + text->size);
    text->size += 64;
}

static char *unit(char *at, unsigned value)
{
    *at++ = '\\';
    *at++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *at++ = HEX[value >> shift & 15];
    return at;
}

/* One character, at most 12 bytes of text. */
static char *escape(char *at, Py_UCS4 c)
{
    static const char short_names[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    if (c >= ' ' && c < 127 && c != '"' && c != '\\')
        return *at++ = (char)c, at;
    if (c < 127)
        for (const char *name = short_names; *name; name += 2)
            if (c == (Py_UCS4)*name)
                return *at++ = '\\', *at++ = name[1], at;
    if (c < 0x10000)
        return unit(at, c);
    c -= 0x10000;
    return unit(unit(at, 0xd800 | c >> 10), 0xdc00 | (c & 0x3ff));
}

void text_escaped(Text *text, PyObject *string, Py_ssize_t start, Py_ssize_t stop)
{
    int kind = PyUnicode_KIND(string);
    const void *data = PyUnicode_DATA(string);
    for (Py_ssize_t from = start; from < stop; from += 256) {
        Py_ssize_t to = stop - from > 256 ? from + 256 : stop;
        if (!text_room(text, (size_t)(to - from) * 12))
            return;
        char *at = text->data + text->size;
        for (Py_ssize_t i = from; i < to; i++)
            at = escape(at, PyUnicode_READ(kind, data, i));
        text->size = (size_t)(at - text->data);
    }
}

void text_string(Text *text, PyObject *string)
{
    text_char(text, '"');
    text_escaped(text, string, 0, PyUnicode_GET_LENGTH(string));
    text_char(text, '"');
}

void text_utf8(Text *text, const char *string)
{
    PyObject *decoded = PyUnicode_DecodeUTF8(string, (Py_ssize_t)strlen(string), "replace");
    if (!decoded) {
        PyErr_Clear();
        text->broken = true;
        return;
    }
    text_string(text, decoded);
    Py_DECREF(decoded);
}
