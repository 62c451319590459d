/* Following the paths of effects through memory, without running code of the program. */
#include "effects.h"

#include <structmember.h>

#include "contents.h"
#include "core.h"

/* One resolving: where the paths start, and where what is found goes. */
typedef struct {
    const Code *code;
    PyFrameObject *frame;
    const Effect *effect;
    Objects *found;
    /* What paths lead through. */
    Objects *through;
} Resolution;


enum { DEEPEST_CALL = 100 };

typedef struct {
    PyObject *function;
    bool changes_first;
} Known;

static struct {
    Known *table;
    size_t mask;
} known;

void objects_add(Objects *objects, PyObject *object)
{
    if (objects->count == objects->room) {
        Py_ssize_t room = objects->room ? objects->room * 2 : 32;
        PyObject **items = PyMem_RawRealloc(objects->items, (size_t)room * sizeof *items);
        if (!items) {
            Py_DECREF(object);
            core_fail("there is no memory");
            return;
        }
        objects->items = items;
        objects->room = room;
    }
    objects->items[objects->count++] = object;
}

void objects_cut(Objects *objects, Py_ssize_t count)
{
    while (objects->count > count) {
        PyObject *last = objects->items[--objects->count];
        Py_DECREF(last);
    }
}

static Known *known_place(const PyObject *function)
{
    size_t at = ((uintptr_t)function >> 4) * 0x9e3779b97f4a7c15u >> 24 & known.mask;
    while (known.table[at].function && known.table[at].function != function)
        at = (at + 1) & known.mask;
    return &known.table[at];
}

/* The functions are kept alive by their modules' names or, if the program removes these, are the same at worst. */
bool known_open(PyObject *functions)
{
    size_t size = 64;
    while (size < (size_t)PyDict_GET_SIZE(functions) * 2)
        size *= 2;
    known.table = PyMem_RawCalloc(size, sizeof *known.table);
    if (!known.table)
        return PyErr_NoMemory(), false;
    known.mask = size - 1;
    PyObject *id, *how;
    for (Py_ssize_t at = 0; PyDict_Next(functions, &at, &id, &how);) {
        PyObject *function = PyLong_AsVoidPtr(id);
        if (!function || !PyUnicode_Check(how))
            return known_close(), PyErr_SetString(PyExc_TypeError, "known functions are malformed"), false;
        *known_place(function) = (Known){function, PyUnicode_CompareWithASCIIString(how, "first") == 0};
    }
    return true;
}

void known_close(void)
{
    PyMem_RawFree(known.table);
    known.table = NULL;
}

static PyObject *get(PyObject *dictionary, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(dictionary, key);
    if (!found && PyErr_Occurred())
        PyErr_Clear();
    return found;
}

/* On 3.12 the namespace of a class is seen through the variables of an inlined comprehension that runs in it; later it is not seen. */
static PyObject *hidden_value(const Name *name, PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    PyObject *names = frame_code(frame)->co_localsplusnames;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (PyTuple_GET_ITEM(names, i) == name->name && is_hidden_slot(frame, (int)i))
            return frame_slot(frame, (int)i);
#else
    (void)name;
    (void)frame;
#endif
    return NULL;
}

bool space_is_readable(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    int count = frame_code(frame)->co_nlocalsplus;
    for (int i = 0; i < count; i++)
        if (is_hidden_slot(frame, i) && frame_slot(frame, i))
            return false;
#endif
    PyObject *space = frame_space(frame);
    return space && PyDict_Check(space);
}

PyObject *value_of(const Name *name, const Code *code, PyFrameObject *frame)
{
    if (name->where == GLOBAL)
        return get(frame_globals(frame), name->name);
    if (name->where != SPACE && !code->is_body)
        return name->slot < 0 ? NULL : frame_slot(frame, name->slot);
    if (code->kind == MODULE)
        return get(frame_globals(frame), name->name);
    PyObject *found = hidden_value(name, frame);
    if (!found && space_is_readable(frame))
        found = get(frame_space(frame), name->name);
    return found || name->where != SPACE ? found : get(frame_globals(frame), name->name);
}

static bool is_container(PyTypeObject *type, bool only_dicts)
{
    int count = only_dicts ? core.helpers.dict_count : core.helpers.container_count;
    for (int i = 0; i < count; i++)
        if (core.helpers.containers[i] == type)
            return true;
    return false;
}

/* Methods of values of these types change nothing that is told. */
static bool is_unchanging(PyTypeObject *type)
{
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == Py_TYPE(Py_None) || type == &PyBytes_Type || type == &PyTuple_Type || type == &PyRange_Type ||
           type == &PyFrozenSet_Type || type == &PyComplex_Type || type == &PyGen_Type || type == &PyCoro_Type ||
           type == &PyAsyncGen_Type;
}

static bool has_get(PyTypeObject *type)
{
    static PyObject *name;
    if (!name && !(name = PyUnicode_InternFromString("__get__")))
        return PyErr_Clear(), false;
    return _PyType_Lookup(type, name) != NULL;
}

static void add(const Resolution *resolution, PyObject *value)
{
    if (value)
        objects_add(resolution->found, Py_NewRef(value));
}

/* What a descriptor's owner would give is not known. */
static bool add_plain(const Resolution *resolution, PyObject *value)
{
    if (value && has_get(Py_TYPE(value)))
        return false;
    add(resolution, value);
    return true;
}

static bool add_slot(const Resolution *resolution, PyObject *descriptor, PyObject *value)
{
    PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    if (member->type == T_OBJECT_EX) {
        add(resolution, *(PyObject **)((char *)value + member->offset));
        return true;
    }
    PyObject *item = PyMember_GetOne((const char *)value, member);
    if (item)
        objects_add(resolution->found, item);
    else
        PyErr_Clear();
    return true;
}

static bool add_attribute(const Resolution *resolution, PyObject *value, const Step *step)
{
    PyTypeObject *type = Py_TYPE(value);
    PyObject *name = step->value;
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
        return add(resolution, (PyObject *)type), true;
    if (type == &PyModule_Type)
        return add(resolution, get(PyModule_GetDict(value), name)), true;
    if (PyType_Check(value))
        return add_plain(resolution, _PyType_Lookup((PyTypeObject *)value, name));
    Kind *kind = kind_find(type);
    /* `__getattr__` and `__getattribute__` of the program may give anything. */
    if (!kind || !kind->own || type->tp_getattro != PyObject_GenericGetAttr)
        return false;
    PyObject *found = _PyType_Lookup(type, name);
    if (found && Py_IS_TYPE(found, &PyMemberDescr_Type))
        return add_slot(resolution, found, value);
    if (found && !PyFunction_Check(found) && has_get(Py_TYPE(found)))
        return false;
    PyObject *dictionary = kind->has_dictionary ? instance_dictionary(value) : NULL;
    PyObject *own = dictionary ? get(dictionary, name) : NULL;
    if (own)
        return add(resolution, own), true;
    return add_plain(resolution, found);
}

static bool add_all(const Resolution *resolution, PyObject *value, bool is_dict)
{
    PyTypeObject *type = Py_TYPE(value);
    if (is_dict) {
        PyObject *key, *item;
        for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);)
            add(resolution, item);
    } else if (type == &PyList_Type) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++)
            add(resolution, PyList_GET_ITEM(value, i));
    } else if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
            add(resolution, PyTuple_GET_ITEM(value, i));
    } else {
        PyObject *iterator = type->tp_iter(value), *item;
        while (iterator && (item = Py_TYPE(iterator)->tp_iternext(iterator)))
            objects_add(resolution->found, item);
        Py_XDECREF(iterator);
        PyErr_Clear();
    }
    return true;
}

static bool has_atom_keys(PyObject *dictionary)
{
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(dictionary, &at, &key, &item);)
        if (!is_atom_type(Py_TYPE(key)))
            return false;
    return true;
}

static bool add_by_index(const Resolution *resolution, PyObject *value, PyObject *key)
{
    Py_ssize_t size = Py_SIZE(value), index = PyLong_AsSsize_t(key);
    if (index == -1 && PyErr_Occurred())
        return PyErr_Clear(), true;
    if (index < 0)
        index += size;
    if (index < 0 || index >= size)
        return true;
    if (PyList_CheckExact(value)) {
        add(resolution, PyList_GET_ITEM(value, index));
    } else if (PyTuple_CheckExact(value)) {
        add(resolution, PyTuple_GET_ITEM(value, index));
    } else {
        PyObject *item = core.helpers.deque->tp_as_sequence->sq_item(value, index);
        if (item)
            objects_add(resolution->found, item);
        PyErr_Clear();
    }
    return true;
}

static bool add_item(const Resolution *resolution, PyObject *value, const Step *step)
{
    PyTypeObject *type = Py_TYPE(value);
    bool is_dict = is_container(type, true);
    if (!is_dict && type != &PyList_Type && type != &PyTuple_Type && type != core.helpers.deque)
        return false;
    if (step->item == ANY)
        return add_all(resolution, value, is_dict);
    PyObject *key = step->value;
    if (step->item == VALUE_OF && !(key = value_of(&step->name, resolution->code, resolution->frame)))
        return true;
    if (!is_atom_type(Py_TYPE(key)))
        return false;
    if (!is_dict)
        return PyLong_CheckExact(key) && add_by_index(resolution, value, key);
    if (!has_atom_keys(value))
        return false;
    add(resolution, get(value, key));
    return true;
}

/* Replaces the objects found from `start` on by those that a step leads to from each of them, and adds them to `through`
   unless it is NULL. */
static bool take_step(const Resolution *resolution, Py_ssize_t start, const Step *step, Objects *through)
{
    Objects *found = resolution->found;
    Py_ssize_t stop = found->count;
    for (Py_ssize_t i = start; i < stop; i++)
        if (!(step->attribute ? add_attribute : add_item)(resolution, found->items[i], step))
            return false;
    for (Py_ssize_t i = start; i < stop; i++)
        if (through)
            objects_add(through, found->items[i]);
        else
            Py_DECREF(found->items[i]);
    memmove(found->items + start, found->items + stop, (size_t)(found->count - stop) * sizeof *found->items);
    found->count -= stop - start;
    return true;
}

/* What the first `count` steps of a path lead to: one object, several by ANY, none if the path ends. It is unknown if the
   root has no value: it is a name of a builtin (`list.append(x, 1)`), or the line has deleted it. */
static bool follow(const Resolution *resolution, const Path *path, int count)
{
    Py_ssize_t start = resolution->found->count;
    PyObject *root = value_of(&path->root, resolution->code, resolution->frame);
    if (!root)
        return false;
    add(resolution, root);
    for (int i = 0; i < count; i++) {
        bool is_own = resolution->effect->in_place && i == count - 1;
        if (!take_step(resolution, start, &path->steps[i], is_own ? NULL : resolution->through))
            return false;
    }
    return true;
}

static bool is_user_function(PyObject *function)
{
    return PyFunction_Check(function) && plan_of(&core.plan, (PyCodeObject *)PyFunction_GET_CODE(function));
}

/* A function of the program, also as a static or class method. */
static bool is_ours(PyObject *function)
{
    static PyObject *name;
    if (!Py_IS_TYPE(function, &PyStaticMethod_Type) && !Py_IS_TYPE(function, &PyClassMethod_Type))
        return is_user_function(function);
    if (!name && !(name = PyUnicode_InternFromString("__func__")))
        return PyErr_Clear(), false;
    PyObject *wrapped = PyObject_GenericGetAttr(function, name);
    bool ours = wrapped && is_user_function(wrapped);
    Py_XDECREF(wrapped);
    PyErr_Clear();
    return ours;
}

static bool add_of_library(const Resolution *resolution, PyObject *owner)
{
    if (is_container(Py_TYPE(owner), false))
        add(resolution, owner);
    return true;
}

static bool add_called(const Resolution *resolution, PyObject *function)
{
    static PyObject *call;
    for (int depth = 0; PyMethod_Check(function) && depth < DEEPEST_CALL; depth++) {
        if (known_place(function)->function)
            break;
        function = PyMethod_GET_FUNCTION(function);
    }
    PyTypeObject *type = Py_TYPE(function);
    if (is_user_function(function))
        return true;
    const Known *library = known_place(function);
    if (library->function) {
        if (!library->changes_first)
            return true;
        const Path *first = &resolution->effect->first;
        return resolution->effect->has_first && follow(resolution, first, first->count);
    }
    if (type == core.helpers.cached || PyType_Check(function))
        return true;
    if (type == &PyCFunction_Type) {
        PyObject *owner = PyCFunction_GET_SELF(function);
        return owner && !PyModule_CheckExact(owner) && owner != Py_None && add_of_library(resolution, owner);
    }
    if (!call && !(call = PyUnicode_InternFromString("__call__")))
        return PyErr_Clear(), false;
    Kind *kind = kind_find(type);
    PyObject *found = kind && kind->own ? _PyType_Lookup(type, call) : NULL;
    return found && is_ours(found);
}

/* The dict of a class that is not of the program may be kept in the interpreter's state. */
static PyObject *find_in_dict(PyTypeObject *type, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dictionary = PyType_GetDict(type);
    PyObject *found = dictionary ? get(dictionary, name) : NULL;
    Py_XDECREF(dictionary);
    return found;
#else
    return type->tp_dict ? get(type->tp_dict, name) : NULL;
#endif
}

static bool add_found_in(const Resolution *resolution, PyTypeObject *base, PyObject *function, PyObject *owner)
{
    if (is_ours(function))
        return true;
    if (is_container(base, false))
        return add(resolution, owner), true;
    return base == &PyBaseObject_Type || Py_IS_TYPE(function, core.helpers.cached);
}

static bool add_of_instance(const Resolution *resolution, PyObject *owner, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    Kind *kind = kind_find(type);
    if (!kind || !kind->own)
        return false;
    PyObject *dictionary = kind->has_dictionary ? instance_dictionary(owner) : NULL;
    PyObject *own = dictionary ? get(dictionary, name) : NULL;
    if (own)
        return add_called(resolution, own);
    PyObject *mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        PyObject *found = find_in_dict(base, name);
        if (found)
            return add_found_in(resolution, base, found, owner);
    }
    return false;
}

static bool add_of_method(const Resolution *resolution, PyObject *owner, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    if (is_unchanging(type))
        return true;
    if (is_container(type, false))
        return add(resolution, owner), true;
    if (type != &PyModule_Type && !PyType_Check(owner))
        return add_of_instance(resolution, owner, name);
    PyObject *found = type == &PyModule_Type ? get(PyModule_GetDict(owner), name)
                                             : _PyType_Lookup((PyTypeObject *)owner, name);
    return found && (is_ours(found) || add_called(resolution, found));
}

static bool add_builtin(const Resolution *resolution)
{
    PyObject *builtins = frame_builtins(resolution->frame);
    PyObject *name = resolution->effect->path.root.name;
    PyObject *function = PyDict_CheckExact(builtins) ? get(builtins, name) : NULL;
    return function && add_called(resolution, function);
}

/* Replaces the owners or functions found from `start` on by what calling each of them may change. */
static bool take_calls(const Resolution *resolution, Py_ssize_t start, PyObject *method)
{
    Objects *found = resolution->found;
    Py_ssize_t stop = found->count;
    for (Py_ssize_t i = start; i < stop; i++) {
        PyObject *value = found->items[i];
        if (!(method ? add_of_method(resolution, value, method) : add_called(resolution, value)))
            return false;
    }
    for (Py_ssize_t i = start; i < stop; i++)
        Py_DECREF(found->items[i]);
    memmove(found->items + start, found->items + stop, (size_t)(found->count - stop) * sizeof *found->items);
    found->count -= stop - start;
    return true;
}

static bool add_call(const Resolution *resolution)
{
    const Path *path = &resolution->effect->path;
    Py_ssize_t start = resolution->found->count;
    if (path->count && path->steps[path->count - 1].attribute)
        return follow(resolution, path, path->count - 1) &&
               take_calls(resolution, start, path->steps[path->count - 1].value);
    if (!path->count && !value_of(&path->root, resolution->code, resolution->frame))
        return add_builtin(resolution);
    return follow(resolution, path, path->count) && take_calls(resolution, start, NULL);
}

/* Whether a path may have led elsewhere before the line was done: through something that the line has changed. */
static bool may_have_led_elsewhere(const Objects *through, const Objects *found, bool has_others)
{
    enum { MOST_PAIRS = 1 << 16 };
    if (has_others && through->count && found->count > MOST_PAIRS / through->count)
        return true;
    for (Py_ssize_t i = 0; i < through->count; i++) {
        if (heap_has_changed(through->items[i]))
            return true;
        for (Py_ssize_t j = 0; has_others && j < found->count; j++)
            if (through->items[i] == found->items[j])
                return true;
    }
    return false;
}

bool effects_touched(const Line *line, const Code *code, PyFrameObject *frame, Objects *found)
{
    Objects through = {0};
    bool is_known = true;
    for (int i = 0; is_known && i < line->effect_count; i++) {
        const Effect *effect = &line->effects[i];
        Resolution resolution = {code, frame, effect, found, &through};
        is_known = effect->calls ? add_call(&resolution) : follow(&resolution, &effect->path, effect->path.count);
    }
    is_known = is_known && !may_have_led_elsewhere(&through, found, line->effect_count > 1);
    objects_cut(&through, 0);
    PyMem_RawFree(through.items);
    return is_known;
}
