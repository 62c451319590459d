/* Printed text: of what was written since the last record, only what the record shows is kept. */
#include "printing.h"

#include "core.h"
#include "describing.h"

enum { LONG = 2000, FIRST = 1500, LAST = 300 };

static struct {
    int stream;
    /* Something was written, be it the empty string. */
    bool any;
    long long length;
    Py_UCS4 head[LONG];
    /* The last characters; the one of position p is at p % LAST. */
    Py_UCS4 tail[LAST];
} printed;

void printed_reset(void)
{
    printed.stream = 0;
    printed.any = false;
    printed.length = 0;
}

static void write_text(const Py_UCS4 *characters, Py_ssize_t count)
{
    PyObject *string = PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, characters, count);
    if (string)
        text_string(&core.text, string);
    else
        core_fail("printed text could not be written");
    Py_XDECREF(string);
}

static void write_long(long long length)
{
    Py_UCS4 tail[LAST];
    for (int i = 0; i < LAST; i++)
        tail[i] = printed.tail[(length + i) % LAST];
    write_text(printed.head, FIRST);
    text_literal(&core.text, ",\"tail\":");
    write_text(tail, LAST);
    text_literal(&core.text, ",\"elided\":");
    text_int(&core.text, length - FIRST - LAST);
}

void printed_flush(void)
{
    long long length = printed.length;
    printed.any = false;
    if (!length)
        return;
    printed.length = 0;
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"out\",\"s\":");
    text_int(&core.text, printed.stream);
    text_literal(&core.text, ",\"text\":");
    if (length > LONG)
        write_long(length);
    else
        write_text(printed.head, (Py_ssize_t)length);
    text_char(&core.text, '}');
    record_end(start);
}

void printed_add(int stream, PyObject *text)
{
    if (stream != printed.stream) {
        if (printed.any) {
            printed_flush();
            memory_commit(&core.memory);
        }
        printed.stream = stream;
    }
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    Py_ssize_t count = PyUnicode_GET_LENGTH(text);
    for (Py_ssize_t i = 0; i < count && printed.length + i < LONG; i++)
        printed.head[printed.length + i] = PyUnicode_READ(kind, data, i);
    for (Py_ssize_t i = count > LAST ? count - LAST : 0; i < count; i++)
        printed.tail[(printed.length + i) % LAST] = PyUnicode_READ(kind, data, i);
    printed.length += count;
    printed.any = true;
}
