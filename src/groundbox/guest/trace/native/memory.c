/* The records' way out. Records of one event are put behind the committed ones at once, and counted together. */
#include "memory.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

enum { HEAD_BYTES = 8, KEPT_BYTES = 512 };

static unsigned char *data_of(Memory *memory) { return (unsigned char *)memory->view.buf + HEAD_BYTES; }

static void set_count(Memory *memory)
{
    unsigned char head[HEAD_BYTES];
    for (int i = 0; i < HEAD_BYTES; i++)
        head[i] = (unsigned char)((unsigned long long)memory->used >> (8 * i));
    /* The data must be there before the count says so, even to another process that reads at this moment. */
    __sync_synchronize();
    memcpy(memory->view.buf, head, HEAD_BYTES);
}

bool memory_open(Memory *memory, PyObject *buffer, long long max_events)
{
    memset(memory, 0, sizeof *memory);
    if (PyObject_GetBuffer(buffer, &memory->view, PyBUF_WRITABLE) < 0)
        return false;
    if (memory->view.len < HEAD_BYTES + KEPT_BYTES) {
        PyBuffer_Release(&memory->view);
        PyErr_SetString(PyExc_ValueError, "the buffer is too small");
        return false;
    }
    memory->open = true;
    memory->max_bytes = (size_t)memory->view.len - HEAD_BYTES;
    memory->max_events = max_events;
    set_count(memory);
    return true;
}

void memory_commit(Memory *memory)
{
    if (memory->closed || !memory->parts)
        return;
    memory->count += memory->parts - memory->more;
    memory->written += memory->parts;
    memory->more = 0;
    memory->used += memory->gathered;
    memory->parts = 0;
    memory->gathered = 0;
    set_count(memory);
}

static void last(Memory *memory, const char *record, size_t size)
{
    if (memory->used + size > memory->max_bytes)
        return;
    memcpy(data_of(memory) + memory->used, record, size);
    memory->used += size;
    memory->count++;
    memory->written++;
    set_count(memory);
}

static void close_for(Memory *memory, const char *limit, long long value)
{
    char record[128];
    memory->parts = 0;
    memory->gathered = 0;
    int size = snprintf(record, sizeof record, "{\"k\":\"lost\",\"why\":\"the trace reached %s=%lld\"}\n", limit, value);
    last(memory, record, (size_t)size);
    memory->closed = true;
}

void memory_add(Memory *memory, const char *record, size_t size)
{
    if (memory->closed)
        return;
    if (memory->used + memory->gathered + size > memory->max_bytes - KEPT_BYTES) {
        close_for(memory, "max_bytes", (long long)memory->max_bytes);
    } else if (memory->written + memory->parts + 1 > memory->max_events) {
        close_for(memory, "max_events", memory->max_events);
    } else {
        memcpy(data_of(memory) + memory->used + memory->gathered, record, size);
        memory->gathered += size;
        memory->parts++;
    }
}

void memory_lost(Memory *memory, PyObject *why)
{
    memory_commit(memory);
    if (memory->closed)
        return;
    Text text = {0};
    Py_ssize_t length = PyUnicode_GET_LENGTH(why);
    text_literal(&text, "{\"k\":\"lost\",\"why\":\"");
    text_escaped(&text, why, 0, length > 200 ? 200 : length);
    text_literal(&text, "\"}\n");
    if (!text.broken)
        last(memory, text.data, text.size);
    text_free(&text);
}

void memory_end(Memory *memory)
{
    memory_commit(memory);
    if (!memory->closed)
        last(memory, "{\"k\":\"end\"}\n", 12);
    memory->closed = true;
}

void memory_release(Memory *memory)
{
    if (memory->open)
        PyBuffer_Release(&memory->view);
    memory->open = false;
    memory->closed = true;
}
