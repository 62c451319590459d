/* Values as JSON text. No code of the program runs: what a value holds is read from its memory by its base type. */
#include "values.h"

#include <math.h>
#include <stdlib.h>

#include "compat.h"
#include "core.h"
#include "heap.h"
#include "numbers.h"

enum {
    LONG_TEXT = 400,
    TEXT_HEAD = 200,
    TEXT_TAIL = 50,
    LONG_BYTES = 200,
    MANY_ITEMS = 32,
    ITEMS_HEAD = 24,
    ITEMS_TAIL = 4,
    DEEPEST_TUPLE = 6,
    MOST_PARTS = 2000,
};

/* How many parts of tuples the value that is being written has shown. */
static Py_ssize_t shown;

static void write_str(PyObject *value)
{
    Text *out = &core.text;
    Py_ssize_t length = PyUnicode_GET_LENGTH(value);
    if (length <= LONG_TEXT) {
        text_string(out, value);
        return;
    }
    PyObject *bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass");
    if (!bytes) {
        core_fail("a string could not be encoded");
        return;
    }
    text_literal(out, "{\"str\":{\"len\":");
    text_int(out, length);
    text_literal(out, ",\"head\":\"");
    text_escaped(out, value, 0, TEXT_HEAD);
    text_literal(out, "\",\"tail\":\"");
    text_escaped(out, value, length - TEXT_TAIL, length);
    text_literal(out, "\",\"sha256\":\"");
    text_sha256(out, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    text_literal(out, "\"}}");
    Py_DECREF(bytes);
}

static void write_real(double value)
{
    Text *out = &core.text;
    if (isfinite(value))
        text_float(out, value);
    else if (isnan(value))
        text_literal(out, "{\"float\":\"nan\"}");
    else if (value > 0)
        text_literal(out, "{\"float\":\"inf\"}");
    else
        text_literal(out, "{\"float\":\"-inf\"}");
}

static void write_complex(PyObject *value)
{
    Py_complex parts = ((PyComplexObject *)value)->cval;
    text_literal(&core.text, "{\"complex\":[");
    write_real(parts.real);
    text_char(&core.text, ',');
    write_real(parts.imag);
    text_literal(&core.text, "]}");
}

static void write_bytes(PyObject *value)
{
    Text *out = &core.text;
    Py_ssize_t size = PyBytes_GET_SIZE(value);
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(value);
    text_literal(out, "{\"bytes\":{\"len\":");
    text_int(out, size);
    text_literal(out, ",\"hex\":\"");
    text_hex(out, data, size > LONG_BYTES ? LONG_BYTES : size);
    if (size > LONG_BYTES) {
        text_literal(out, "\",\"sha256\":\"");
        text_sha256(out, data, (size_t)size);
    }
    text_literal(out, "\"}}");
}

static void write_range(PyObject *value)
{
    static const char *const names[] = {"start", "stop", "step"};
    text_literal(&core.text, "{\"range\":[");
    for (int i = 0; i < 3; i++) {
        PyObject *part = PyObject_GetAttrString(value, names[i]);
        if (!part) {
            core_fail("a range could not be read");
            return;
        }
        if (i)
            text_char(&core.text, ',');
        write_integer(part);
        Py_DECREF(part);
    }
    text_literal(&core.text, "]}");
}

static void write_named(const char *opening, size_t size, PyObject *name)
{
    text_bytes(&core.text, opening, size);
    text_string(&core.text, name);
    text_char(&core.text, '}');
}
#define write_named(opening, name) write_named(opening, sizeof(opening) - 1, name)

static void write_module(PyObject *value)
{
    PyObject *dictionary = PyModule_GetDict(value);
    PyObject *name = dictionary ? PyDict_GetItemString(dictionary, "__name__") : NULL;
    if (name && PyUnicode_CheckExact(name))
        write_named("{\"module\":", name);
    else
        text_literal(&core.text, "{\"opaque\":\"module\"}");
}

/* The unqualified name of a class, or its qualified one. */
static void write_type_name(PyTypeObject *type, bool qualified)
{
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        PyHeapTypeObject *heap_type = (PyHeapTypeObject *)type;
        text_string(&core.text, qualified ? heap_type->ht_qualname : heap_type->ht_name);
        return;
    }
    const char *dot = strrchr(type->tp_name, '.');
    text_utf8(&core.text, dot ? dot + 1 : type->tp_name);
}

void write_class_name(PyTypeObject *type) { write_type_name(type, true); }

static void write_elided(const char *opening, size_t size, Py_ssize_t count)
{
    text_bytes(&core.text, opening, size);
    text_literal(&core.text, "[]");
    if (count) {
        text_literal(&core.text, ",\"elided\":");
        text_int(&core.text, count);
    }
}
#define write_elided(opening, count) write_elided(opening, sizeof(opening) - 1, count)

void write_values(PyObject *const *values, Py_ssize_t count, int depth)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i)
            text_char(&core.text, ',');
        write_value(values[i], depth);
    }
}

static void write_tuple(PyObject *value, const Kind *kind, int depth)
{
    Text *out = &core.text;
    Py_ssize_t count = PyTuple_GET_SIZE(value);
    PyObject *const *items = ((PyTupleObject *)value)->ob_item;
    if (depth >= DEEPEST_TUPLE || shown >= MOST_PARTS) {
        write_elided("{\"tuple\":", count);
    } else if (count <= MANY_ITEMS) {
        shown += count;
        text_literal(out, "{\"tuple\":[");
        write_values(items, count, depth + 1);
        text_char(out, ']');
    } else {
        shown += ITEMS_HEAD + ITEMS_TAIL;
        text_literal(out, "{\"tuple\":[");
        write_values(items, ITEMS_HEAD, depth + 1);
        text_literal(out, "],\"tail\":[");
        write_values(items + count - ITEMS_TAIL, ITEMS_TAIL, depth + 1);
        text_literal(out, "],\"elided\":");
        text_int(out, count - ITEMS_HEAD - ITEMS_TAIL);
    }
    if (kind->name) {
        text_literal(out, ",\"class\":");
        text_bytes(out, PyUnicode_AsUTF8(kind->name), (size_t)PyUnicode_GET_LENGTH(kind->name));
    }
    text_char(out, '}');
}

typedef struct {
    size_t start, size;
} Piece;

static const char *piece_base;

static int compare_pieces(const void *one, const void *other)
{
    const Piece *a = one, *b = other;
    int order = memcmp(piece_base + a->start, piece_base + b->start, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static void put_pieces(const Piece *pieces, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i)
            text_char(&core.text, ',');
        if (text_room(&core.text, pieces[i].size))
            text_bytes(&core.text, core.text.data + pieces[i].start, pieces[i].size);
    }
}

/* The texts stand one after the other at the end of core.text; the sorted ones are put behind them, then moved down. */
void write_sorted(PyObject *const *values, Py_ssize_t count, int depth, Py_ssize_t many, Py_ssize_t head, Py_ssize_t tail)
{
    Text *out = &core.text;
    Piece *pieces = PyMem_RawMalloc((size_t)(count + 1) * sizeof *pieces);
    if (!pieces) {
        core_fail("there is no memory");
        return;
    }
    size_t from = out->size;
    for (Py_ssize_t i = 0; i < count; i++) {
        pieces[i].start = out->size;
        write_value(values[i], depth);
        pieces[i].size = out->size - pieces[i].start;
    }
    piece_base = out->data;
    qsort(pieces, (size_t)count, sizeof *pieces, compare_pieces);
    size_t sorted = out->size;
    text_char(out, '[');
    put_pieces(pieces, count > many ? head : count);
    text_char(out, ']');
    if (count > many) {
        text_literal(out, ",\"tail\":[");
        put_pieces(pieces + count - tail, tail);
        text_literal(out, "],\"elided\":");
        text_int(out, count - head - tail);
    }
    PyMem_RawFree(pieces);
    if (out->broken)
        return;
    memmove(out->data + from, out->data + sorted, out->size - sorted);
    out->size -= sorted - from;
}

/* The items of a set or frozenset in its own order; a new array of borrowed references. */
static PyObject **set_items(PyObject *set)
{
    PyObject **items = PyMem_RawMalloc((size_t)(PySet_GET_SIZE(set) + 1) * sizeof *items);
    Py_ssize_t position = 0, count = 0;
    Py_hash_t hash;
    if (!items) {
        core_fail("there is no memory");
        return NULL;
    }
    while (count < PySet_GET_SIZE(set) && _PySet_NextEntry(set, &position, &items[count], &hash))
        count++;
    return items;
}

static void write_frozenset(PyObject *value, int depth)
{
    Py_ssize_t count = PySet_GET_SIZE(value);
    if (depth >= DEEPEST_TUPLE || shown >= MOST_PARTS) {
        write_elided("{\"frozenset\":", count);
        text_char(&core.text, '}');
        return;
    }
    shown += count;
    PyObject **items = set_items(value);
    if (!items)
        return;
    text_literal(&core.text, "{\"frozenset\":");
    write_sorted(items, count, depth + 1, MANY_ITEMS, ITEMS_HEAD, ITEMS_TAIL);
    text_char(&core.text, '}');
    PyMem_RawFree(items);
}

/* The object that a bound method is shown with, or NULL. */
static PyObject *owner_of(PyObject *method)
{
    if (PyMethod_Check(method))
        return PyFunction_Check(PyMethod_GET_FUNCTION(method)) ? PyMethod_GET_SELF(method) : NULL;
    PyObject *owner = PyCFunction_GET_SELF(method);
    return owner && PyModule_CheckExact(owner) ? NULL : owner;
}

static void write_method(PyObject *value, int depth)
{
    Text *out = &core.text;
    PyObject *owner = owner_of(value);
    bool builtin = !PyMethod_Check(value);
    if (!owner && !builtin) {
        text_literal(out, "{\"opaque\":\"method\"}");
        return;
    }
    if (!owner || owner == Py_None) {
        text_literal(out, "{\"builtin\":");
        text_utf8(out, ((PyCFunctionObject *)value)->m_ml->ml_name);
        text_char(out, '}');
        return;
    }
    if (depth >= DEEPEST_TUPLE || shown >= MOST_PARTS) {
        text_literal(out, "{\"opaque\":\"method\"}");
        return;
    }
    shown++;
    text_literal(out, "{\"method\":");
    if (builtin)
        text_utf8(out, ((PyCFunctionObject *)value)->m_ml->ml_name);
    else
        text_string(out, ((PyFunctionObject *)PyMethod_GET_FUNCTION(value))->func_qualname);
    text_literal(out, ",\"of\":");
    write_value(owner, depth + 1);
    text_char(out, '}');
}

/* Values of standard immutable types, enumeration members and the like are written by Python. */
static void write_told(PyObject *value, const Kind *kind)
{
    PyObject *arguments[] = {value, (PyObject *)kind->type, kind->kind};
    PyObject *told = core_call(core.helpers.leaf, arguments, 3);
    Py_ssize_t size;
    const char *text = told ? PyUnicode_AsUTF8AndSize(told, &size) : NULL;
    if (text)
        text_bytes(&core.text, text, (size_t)size);
    else
        core_fail("a value could not be written");
    Py_XDECREF(told);
}

static void write_leaf(PyObject *value, const Kind *kind)
{
    switch (kind->base) {
    case BASE_NONE:
        text_literal(&core.text, "null");
        break;
    case BASE_BOOL:
        if (value == Py_True)
            text_literal(&core.text, "true");
        else
            text_literal(&core.text, "false");
        break;
    case BASE_INT:
        write_integer(value);
        break;
    case BASE_FLOAT:
        write_real(PyFloat_AS_DOUBLE(value));
        break;
    case BASE_COMPLEX:
        write_complex(value);
        break;
    case BASE_STR:
        write_str(value);
        break;
    case BASE_BYTES:
        write_bytes(value);
        break;
    case BASE_RANGE:
        write_range(value);
        break;
    case BASE_FUNCTION:
        write_named("{\"function\":", ((PyFunctionObject *)value)->func_qualname);
        break;
    case BASE_MODULE:
        write_module(value);
        break;
    case BASE_OPAQUE:
        text_literal(&core.text, "{\"opaque\":");
        write_type_name(kind->type, false);
        text_char(&core.text, '}');
        break;
    default:
        write_told(value, kind);
    }
}

static void write_object(PyObject *value, const Kind *kind, int depth)
{
    if (kind->told == LEAF) {
        write_leaf(value, kind);
    } else if (kind->told == TUPLE) {
        write_tuple(value, kind, depth);
    } else if (kind->told == FROZENSET) {
        write_frozenset(value, depth);
    } else if (kind->told == METHOD) {
        write_method(value, depth);
    } else if (kind->told != CLASS_OBJECT || kind_is_own((PyTypeObject *)value)) {
        heap_write_ref(value, kind);
    } else {
        text_literal(&core.text, "{\"class\":");
        write_class_name((PyTypeObject *)value);
        text_char(&core.text, '}');
    }
}

void write_value(PyObject *value, int depth)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyLong_Type) {
        write_integer(value);
    } else if (type == &PyUnicode_Type) {
        write_str(value);
    } else {
        Kind *kind = kind_find(type);
        if (!kind) {
            core_fail("a type could not be read");
            return;
        }
        if (depth == 0 && !is_leaf_type(type) && (kind->told < LIST || kind->told == CLASS_OBJECT))
            shown = 0;
        write_object(value, kind, depth);
    }
}

bool parts_of(PyObject *value, const Kind *kind, PyObject ***parts, Py_ssize_t *count)
{
    PyObject **found;
    if (kind->told == FROZENSET) {
        *count = PySet_GET_SIZE(value);
        return (*parts = set_items(value)) != NULL;
    }
    PyObject *owner = kind->told == METHOD ? owner_of(value) : NULL;
    PyObject *const *items = kind->told == METHOD ? &owner : ((PyTupleObject *)value)->ob_item;
    Py_ssize_t size = kind->told == METHOD ? owner != NULL : PyTuple_GET_SIZE(value);
    Py_ssize_t head = size > MANY_ITEMS ? ITEMS_HEAD : size, tail = size > MANY_ITEMS ? ITEMS_TAIL : 0;
    *count = head + tail;
    *parts = found = PyMem_RawMalloc((size_t)(head + tail + 1) * sizeof *found);
    if (!found) {
        core_fail("there is no memory");
        return false;
    }
    memcpy(found, items, (size_t)head * sizeof *found);
    if (tail)
        memcpy(found + head, items + size - tail, (size_t)tail * sizeof *found);
    return true;
}

static void gather(PyObject *value, const Kind *kind, int depth, Py_ssize_t *seen, void (*each)(PyObject *))
{
    PyObject **parts;
    Py_ssize_t count;
    if (depth >= DEEPEST_TUPLE || *seen >= MOST_PARTS || !parts_of(value, kind, &parts, &count))
        return;
    *seen += count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Kind *inner = kind_find(Py_TYPE(parts[i]));
        if (!inner)
            core_fail("a type could not be read");
        else if (inner->told == TUPLE || inner->told == FROZENSET || inner->told == METHOD)
            gather(parts[i], inner, depth + 1, seen, each);
        else if (inner->told != LEAF)
            each(parts[i]);
    }
    PyMem_RawFree(parts);
}

void inner_objects(PyObject *value, const Kind *kind, void (*each)(PyObject *))
{
    Py_ssize_t seen = 0;
    gather(value, kind, 0, &seen, each);
}
