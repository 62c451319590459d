/* Contents of objects, read from their memory by the layout of their base type. */
#include "contents.h"

#include <structmember.h>

#include "compat.h"
#include "core.h"

/* Walks over the attributes of an instance or class; names and items are borrowed until the next step. */
typedef struct {
    PyObject *dictionary;
    Py_ssize_t position;
    const char *hidden;
    PyObject *value;
    const Kind *kind;
    int slot;
    PyObject *owned;
} Cursor;

PyObject *instance_dictionary(PyObject *value)
{
    PyObject **found = _PyObject_GetDictPtr(value);
    if (!found && PyErr_Occurred())
        PyErr_Clear();
    return found && *found && PyDict_Check(*found) ? *found : NULL;
}

static Cursor attributes_of(PyObject *value, const Kind *kind)
{
    return (Cursor){.dictionary = kind->has_dictionary ? instance_dictionary(value) : NULL, .value = value, .kind = kind};
}

static Cursor class_attributes_of(PyObject *value)
{
    const char *hidden = Py_TYPE(value) == &PyType_Type ? "__" : "_";
    return (Cursor){.dictionary = ((PyTypeObject *)value)->tp_dict, .value = value, .hidden = hidden};
}

/* Names come from C literals of one or two underscores. */
static bool is_hidden(PyObject *name, const char *hidden)
{
    for (Py_ssize_t i = 0; hidden[i]; i++)
        if (i >= PyUnicode_GET_LENGTH(name) || PyUnicode_READ_CHAR(name, i) != '_')
            return false;
    return true;
}

static bool has_get(PyTypeObject *type)
{
    static PyObject *get;
    if (!get && !(get = PyUnicode_InternFromString("__get__")))
        return PyErr_Clear(), false;
    return _PyType_Lookup(type, get) != NULL;
}

static bool next_slot(Cursor *cursor, PyObject **name, PyObject **item)
{
    while (cursor->kind && cursor->slot < cursor->kind->slot_count) {
        const Slot *slot = &cursor->kind->slots[cursor->slot++];
        *name = slot->name;
        if (slot->member->type == T_OBJECT_EX) {
            *item = *(PyObject **)((char *)cursor->value + slot->member->offset);
            if (*item)
                return true;
            continue;
        }
        *item = cursor->owned = PyMember_GetOne((const char *)cursor->value, slot->member);
        if (*item)
            return true;
        PyErr_Clear();
    }
    return false;
}

static bool next_attribute(Cursor *cursor, PyObject **name, PyObject **item)
{
    Py_CLEAR(cursor->owned);
    while (cursor->dictionary && PyDict_Next(cursor->dictionary, &cursor->position, name, item))
        if (PyUnicode_CheckExact(*name) &&
            (!cursor->hidden || !(is_hidden(*name, cursor->hidden) || has_get(Py_TYPE(*item)))))
            return true;
    return next_slot(cursor, name, item);
}

static Contents *contents_new(Py_ssize_t room, bool with_keys)
{
    Contents *contents = PyMem_RawCalloc(1, sizeof *contents);
    size_t arrays = with_keys ? 2 : 1;
    PyObject **items = contents ? PyMem_RawMalloc((size_t)(room + 1) * arrays * sizeof *items) : NULL;
    if (!items) {
        PyMem_RawFree(contents);
        core_fail("there is no memory");
        return NULL;
    }
    contents->room = room;
    contents->items = items;
    contents->keys = with_keys ? items + room + 1 : NULL;
    return contents;
}

bool contents_reserve(Contents *contents, Py_ssize_t count)
{
    if (count <= contents->room)
        return true;
    Py_ssize_t room = count + count / 4 + 8;
    size_t arrays = contents->keys ? 2 : 1, used = (size_t)contents->count * sizeof *contents->items;
    PyObject **items = PyMem_RawMalloc((size_t)(room + 1) * arrays * sizeof *items);
    if (!items)
        return core_fail("there is no memory"), false;
    memcpy(items, contents->items, used);
    if (contents->keys)
        memcpy(items + room + 1, contents->keys, used);
    PyMem_RawFree(contents->items);
    contents->room = room;
    contents->items = items;
    contents->keys = contents->keys ? items + room + 1 : NULL;
    return true;
}

static void put(Contents *contents, PyObject *key, PyObject *item)
{
    contents->items[contents->count] = Py_NewRef(item);
    if (contents->keys)
        contents->keys[contents->count] = Py_NewRef(key);
    contents->count++;
}

static Contents *take_attributes(Cursor cursor)
{
    Py_ssize_t room = cursor.dictionary ? PyDict_GET_SIZE(cursor.dictionary) : 0;
    Contents *contents = contents_new(room + (cursor.kind ? cursor.kind->slot_count : 0), true);
    PyObject *name, *item;
    if (contents) {
        /* A finalizer, run because a slot made an object, might have added attributes since they were counted. */
        Py_ssize_t most = room + (cursor.kind ? cursor.kind->slot_count : 0);
        while (contents->count < most && next_attribute(&cursor, &name, &item))
            put(contents, name, item);
        Py_CLEAR(cursor.owned);
    }
    return contents;
}

static Contents *take_list(PyObject *value)
{
    Contents *contents = contents_new(PyList_GET_SIZE(value), false);
    for (Py_ssize_t i = 0; contents && i < PyList_GET_SIZE(value); i++)
        put(contents, NULL, PyList_GET_ITEM(value, i));
    return contents;
}

static Contents *take_deque(PyObject *value)
{
    Py_ssize_t room = Py_SIZE(value);
    Contents *contents = contents_new(room, false);
    PyObject *iterator = contents ? core.helpers.deque->tp_iter(value) : NULL, *item;
    while (iterator && contents->count < room && (item = Py_TYPE(iterator)->tp_iternext(iterator)))
        contents->items[contents->count++] = item;
    if (!iterator || PyErr_Occurred())
        core_fail("a deque could not be read");
    Py_XDECREF(iterator);
    return contents;
}

static Contents *take_dict(PyObject *value)
{
    Py_ssize_t room = PyDict_GET_SIZE(value), position = 0;
    Contents *contents = contents_new(room, true);
    PyObject *key, *item;
    while (contents && contents->count < room && PyDict_Next(value, &position, &key, &item))
        put(contents, key, item);
    return contents;
}

static bool only_atoms(PyObject *const *values, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_atom_type(Py_TYPE(values[i])))
            return false;
    return true;
}

/* Its own order is that of its iterator, which hashes the keys: that must run no code of the program. */
static Contents *take_ordered_dict(PyObject *value)
{
    Contents *contents = take_dict(value);
    if (!contents || !only_atoms(contents->keys, contents->count))
        return contents;
    Contents *ordered = contents_new(contents->count, true);
    PyObject *iterator = ordered ? PyODict_Type.tp_iter(value) : NULL, *key;
    while (iterator && ordered->count < contents->count && (key = Py_TYPE(iterator)->tp_iternext(iterator))) {
        PyObject *item = PyDict_GetItemWithError(value, key);
        if (item)
            put(ordered, key, item);
        Py_DECREF(key);
    }
    if (!iterator || PyErr_Occurred())
        core_fail("an OrderedDict could not be read");
    Py_XDECREF(iterator);
    contents_free(contents);
    return ordered;
}

static Contents *take_set(PyObject *value)
{
    Py_ssize_t room = PySet_GET_SIZE(value), position = 0;
    Contents *contents = contents_new(room, false);
    PyObject *item;
    Py_hash_t hash;
    while (contents && contents->count < room && _PySet_NextEntry(value, &position, &item, &hash))
        put(contents, NULL, item);
    return contents;
}

static Contents *take_bytes(PyObject *value)
{
    Contents *contents = contents_new(1, false);
    PyObject *data = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value));
    if (contents && data)
        put(contents, NULL, data);
    else
        core_fail("a bytearray could not be read");
    Py_XDECREF(data);
    return contents;
}

static Contents *take_array(PyObject *value)
{
    PyObject *list = core_call(core.helpers.array, &value, 1);
    Contents *contents = list && PyList_CheckExact(list) ? take_list(list) : contents_new(0, false);
    if (!contents || !contents->count)
        core_fail("an array could not be read");
    Py_XDECREF(list);
    return contents;
}

static bool only_leaves(PyObject *const *values, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_leaf_type(Py_TYPE(values[i])))
            return false;
    return true;
}

static bool is_plain(const Contents *contents)
{
    return only_leaves(contents->items, contents->count) &&
           (!contents->keys || only_leaves(contents->keys, contents->count)) &&
           (!contents->extra || contents->extra->plain);
}

static Contents *take_main(PyObject *value, const Kind *kind)
{
    switch (kind->told) {
    case LIST:
        return kind->base == BASE_DEQUE ? take_deque(value) : take_list(value);
    case DICT:
        return kind->base == BASE_ORDERED_DICT ? take_ordered_dict(value) : take_dict(value);
    case SET:
        return take_set(value);
    case OBJECT:
        return take_attributes(attributes_of(value, kind));
    case CLASS_OBJECT:
        return take_attributes(class_attributes_of(value));
    case BYTES:
        return take_bytes(value);
    default:
        return take_array(value);
    }
}

Contents *contents_take(PyObject *value, const Kind *kind)
{
    Contents *contents = take_main(value, kind);
    if (contents && kind->own && kind->told != OBJECT) {
        contents->extra = take_attributes(attributes_of(value, kind));
        if (!contents->extra)
            return contents_free(contents), NULL;
        contents->extra->plain = is_plain(contents->extra);
    }
    if (contents)
        contents->plain = is_plain(contents);
    return contents;
}

static bool attributes_hold(Cursor cursor, const Contents *shadow)
{
    PyObject *name, *item;
    Py_ssize_t at = 0;
    bool same = true;
    while (same && next_attribute(&cursor, &name, &item)) {
        same = at < shadow->count && shadow->items[at] == item && shadow->keys[at] == name;
        at++;
    }
    Py_CLEAR(cursor.owned);
    return same && at == shadow->count;
}

static bool dict_holds(PyObject *value, const Contents *shadow)
{
    Py_ssize_t position = 0, at = 0;
    PyObject *key, *item;
    if (PyDict_GET_SIZE(value) != shadow->count)
        return false;
    while (PyDict_Next(value, &position, &key, &item)) {
        if (shadow->items[at] != item || shadow->keys[at] != key)
            return false;
        at++;
    }
    return true;
}

static bool set_holds(PyObject *value, const Contents *shadow)
{
    Py_ssize_t position = 0, at = 0;
    PyObject *item;
    Py_hash_t hash;
    if (PySet_GET_SIZE(value) != shadow->count)
        return false;
    while (_PySet_NextEntry(value, &position, &item, &hash))
        if (shadow->items[at++] != item)
            return false;
    return true;
}

static bool list_holds(PyObject *value, const Contents *shadow)
{
    return PyList_GET_SIZE(value) == shadow->count &&
           !memcmp(((PyListObject *)value)->ob_item ? (void *)((PyListObject *)value)->ob_item : (void *)"",
                   shadow->items, (size_t)shadow->count * sizeof *shadow->items);
}

static bool bytes_hold(PyObject *value, const Contents *shadow)
{
    Py_ssize_t size = PyByteArray_GET_SIZE(value);
    return shadow->count == 1 && PyBytes_CheckExact(shadow->items[0]) && PyBytes_GET_SIZE(shadow->items[0]) == size &&
           !memcmp(PyBytes_AS_STRING(shadow->items[0]), PyByteArray_AS_STRING(value), (size_t)size);
}

static bool main_holds(PyObject *value, const Kind *kind, const Contents *shadow)
{
    switch (kind->told) {
    case LIST:
        return kind->base == BASE_LIST && list_holds(value, shadow);
    case DICT:
        return kind->base == BASE_DICT && dict_holds(value, shadow);
    case SET:
        return set_holds(value, shadow);
    case OBJECT:
        return attributes_hold(attributes_of(value, kind), shadow);
    case CLASS_OBJECT:
        return attributes_hold(class_attributes_of(value), shadow);
    case BYTES:
        return bytes_hold(value, shadow);
    default:
        return false;
    }
}

bool contents_hold(PyObject *value, const Kind *kind, const Contents *shadow)
{
    return main_holds(value, kind, shadow) &&
           (!shadow->extra || attributes_hold(attributes_of(value, kind), shadow->extra));
}

static bool same_data(const Contents *one, const Contents *other)
{
    if (one->count != other->count || !one->count)
        return false;
    int equal = PyObject_RichCompareBool(one->items[0], other->items[0], Py_EQ);
    if (equal < 0)
        core_fail("an array could not be compared");
    return equal > 0 && !memcmp(one->items + 1, other->items + 1, (size_t)(one->count - 1) * sizeof *one->items);
}

bool contents_same(const Contents *one, const Contents *other, const Kind *kind)
{
    if (kind->told == BYTES || kind->told == ARRAY)
        return same_data(one, other);
    size_t size = (size_t)one->count * sizeof *one->items;
    if (one->count != other->count || memcmp(one->items, other->items, size))
        return false;
    if (one->keys && other->keys && memcmp(one->keys, other->keys, size))
        return false;
    return !one->extra || !other->extra || contents_same(one->extra, other->extra, kind);
}

void contents_free(Contents *contents)
{
    if (!contents)
        return;
    contents_free(contents->extra);
    for (Py_ssize_t i = 0; i < contents->count; i++) {
        Py_DECREF(contents->items[i]);
        if (contents->keys)
            Py_DECREF(contents->keys[i]);
    }
    PyMem_RawFree(contents->items);
    PyMem_RawFree(contents);
}
