/* The `object` record of an object, and the fields that a `replace` shares with it. */
#include "describing.h"

#include "core.h"
#include "values.h"

enum { MANY_BYTES = 200 };

size_t record_begin(void) { return core.text.size; }

void record_end(size_t start)
{
    text_char(&core.text, '\n');
    if (core.text.broken)
        core_fail("there is no memory");
    else
        memory_add(&core.memory, core.text.data + start, core.text.size - start);
    core.text.size = start;
}

static void write_opening(const Entry *entry)
{
    Text *out = &core.text;
    text_literal(out, "{\"k\":\"object\",\"id\":");
    text_int(out, entry->label);
    text_literal(out, ",\"type\":");
    text_string(out, entry->kind->word);
    if (entry->kind->told == CLASS_OBJECT) {
        text_literal(out, ",\"class\":");
        write_class_name((PyTypeObject *)entry->value);
    } else if (entry->kind->name) {
        text_literal(out, ",\"class\":");
        text_bytes(out, PyUnicode_AsUTF8(entry->kind->name), (size_t)PyUnicode_GET_LENGTH(entry->kind->name));
    }
}

static void write_elided(Py_ssize_t count)
{
    text_literal(&core.text, ",\"elided\":");
    text_int(&core.text, count);
}

static void write_items(const Contents *contents)
{
    Text *out = &core.text;
    text_literal(out, ",\"items\":[");
    write_values(contents->items, contents->count > MANY ? HEAD : contents->count, 0);
    text_char(out, ']');
    if (contents->count <= MANY)
        return;
    text_literal(out, ",\"tail\":[");
    write_values(contents->items + contents->count - TAIL, TAIL, 0);
    text_char(out, ']');
    write_elided(contents->count - HEAD - TAIL);
}

static void write_pairs_of(const Contents *contents, Py_ssize_t start, Py_ssize_t stop)
{
    for (Py_ssize_t i = start; i < stop; i++) {
        if (i > start)
            text_char(&core.text, ',');
        text_char(&core.text, '[');
        write_value(contents->keys[i], 0);
        text_char(&core.text, ',');
        write_value(contents->items[i], 0);
        text_char(&core.text, ']');
    }
}

static void write_pairs(const Contents *contents)
{
    Text *out = &core.text;
    Py_ssize_t count = contents->count;
    text_literal(out, ",\"pairs\":[");
    write_pairs_of(contents, 0, count > MANY ? HEAD : count);
    text_char(out, ']');
    if (count <= MANY)
        return;
    text_literal(out, ",\"tail\":[");
    write_pairs_of(contents, count - TAIL, count);
    text_char(out, ']');
    write_elided(count - HEAD - TAIL);
}

static void write_attributes(const Contents *contents)
{
    Text *out = &core.text;
    Py_ssize_t shown = contents->count > MANY ? HEAD : contents->count;
    text_literal(out, ",\"attrs\":{");
    for (Py_ssize_t i = 0; i < shown; i++) {
        if (i)
            text_char(out, ',');
        text_string(out, contents->keys[i]);
        text_char(out, ':');
        write_value(contents->items[i], 0);
    }
    text_char(out, '}');
    if (contents->count > MANY)
        write_elided(contents->count - HEAD);
}

static void write_maxlen(PyObject *value)
{
    PyGetSetDef *maxlen = core.helpers.deque_maxlen;
    PyObject *told = maxlen->get(value, maxlen->closure);
    if (!told) {
        core_fail("a deque could not be read");
    } else if (told != Py_None) {
        text_literal(&core.text, ",\"maxlen\":");
        text_int(&core.text, PyLong_AsLongLong(told));
    }
    Py_XDECREF(told);
}

static void write_bytearray(const Contents *contents)
{
    Text *out = &core.text;
    PyObject *data = contents->items[0];
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    text_literal(out, ",\"hex\":\"");
    text_hex(out, (const unsigned char *)PyBytes_AS_STRING(data), size > MANY_BYTES ? MANY_BYTES : size);
    text_literal(out, "\",\"len\":");
    text_int(out, size);
}

/* The shape, written; gives the number of items. */
static long long write_shape(PyObject *shape)
{
    long long count = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++) {
        long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        count *= size;
        if (i)
            text_char(&core.text, ',');
        text_int(&core.text, size);
    }
    return count;
}

static bool is_list_pair(PyObject *shown)
{
    return shown && PyTuple_CheckExact(shown) && PyTuple_GET_SIZE(shown) == 2 &&
           PyList_CheckExact(PyTuple_GET_ITEM(shown, 0)) && PyList_CheckExact(PyTuple_GET_ITEM(shown, 1));
}

static void write_list(PyObject *list) { write_values(((PyListObject *)list)->ob_item, PyList_GET_SIZE(list), 0); }

static void write_array(PyObject *value, const Contents *contents)
{
    Text *out = &core.text;
    PyObject *facts = contents->count ? contents->items[0] : NULL;
    PyObject *shown = core_call(core.helpers.shown_items, &value, 1);
    if (!is_list_pair(shown) || !facts || !PyTuple_CheckExact(facts) || PyTuple_GET_SIZE(facts) < 2) {
        core_fail("an array could not be read");
        Py_XDECREF(shown);
        return;
    }
    text_literal(out, ",\"dtype\":");
    text_string(out, PyTuple_GET_ITEM(facts, 0));
    text_literal(out, ",\"shape\":[");
    long long count = write_shape(PyTuple_GET_ITEM(facts, 1));
    text_literal(out, "],\"items\":[");
    write_list(PyTuple_GET_ITEM(shown, 0));
    text_char(out, ']');
    if (PyList_GET_SIZE(PyTuple_GET_ITEM(shown, 1))) {
        text_literal(out, ",\"tail\":[");
        write_list(PyTuple_GET_ITEM(shown, 1));
        text_char(out, ']');
        write_elided(count - HEAD - TAIL);
    }
    Py_DECREF(shown);
}

void write_fields(const Entry *entry, const Contents *contents)
{
    switch (entry->kind->told) {
    case LIST:
        write_items(contents);
        if (entry->kind->base == BASE_DEQUE)
            write_maxlen(entry->value);
        break;
    case DICT:
        write_pairs(contents);
        break;
    case SET:
        text_literal(&core.text, ",\"items\":");
        write_sorted(contents->items, contents->count, 0, MANY, HEAD, TAIL);
        break;
    case BYTES:
        write_bytearray(contents);
        return;
    case ARRAY:
        write_array(entry->value, contents);
        return;
    default:
        write_attributes(contents);
        return;
    }
    if (contents->extra)
        write_attributes(contents->extra);
}

void describe_object(const Entry *entry, const Contents *contents)
{
    size_t start = record_begin();
    write_opening(entry);
    write_fields(entry, contents);
    text_char(&core.text, '}');
    record_end(start);
}

static Py_ssize_t length_of(const Entry *entry, const Contents *contents)
{
    if (entry->kind->told == BYTES)
        return PyByteArray_GET_SIZE(entry->value);
    if (entry->kind->told != ARRAY)
        return contents->count;
    PyObject *length = core_call(core.helpers.length, &entry->value, 1);
    Py_ssize_t count = length ? PyLong_AsSsize_t(length) : -1;
    if (count < 0)
        core_fail("an array could not be read");
    Py_XDECREF(length);
    return count;
}

void describe_stub(const Entry *entry, const Contents *contents)
{
    size_t start = record_begin();
    enum told told = entry->kind->told;
    write_opening(entry);
    if (told == DICT)
        text_literal(&core.text, ",\"pairs\":[]");
    else if (told == OBJECT || told == CLASS_OBJECT)
        text_literal(&core.text, ",\"attrs\":{}");
    else
        text_literal(&core.text, ",\"items\":[]");
    write_elided(length_of(entry, contents));
    text_char(&core.text, '}');
    record_end(start);
}
