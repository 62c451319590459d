/* Kinds are made by Python (classes.py) and cached by the address of the type. */
#include "kinds.h"

#include <stdint.h>

#include "core.h"

static const struct {
    PyTypeObject *type;
    enum base base;
} STATIC_BASES[] = {
    {&PyLong_Type, BASE_INT},         {&PyFloat_Type, BASE_FLOAT}, {&PyComplex_Type, BASE_COMPLEX},
    {&PyUnicode_Type, BASE_STR},      {&PyBytes_Type, BASE_BYTES}, {&PyBool_Type, BASE_BOOL},
    {&PyRange_Type, BASE_RANGE},      {&PyModule_Type, BASE_MODULE}, {&PyFunction_Type, BASE_FUNCTION},
    {&PyList_Type, BASE_LIST},        {&PyDict_Type, BASE_DICT},   {&PyODict_Type, BASE_ORDERED_DICT},
};

static enum base base_of(PyTypeObject *base)
{
    for (size_t i = 0; i < sizeof STATIC_BASES / sizeof *STATIC_BASES; i++)
        if (STATIC_BASES[i].type == base)
            return STATIC_BASES[i].base;
    if (base == core.helpers.deque)
        return BASE_DEQUE;
    return base == Py_TYPE(Py_None) ? BASE_NONE : BASE_OTHER;
}

/* Types whose values Python writes: enumerations, standard immutable types, and builtins that have a name. */
static bool is_told_by_python(const Kind *kind)
{
    PyTypeObject *type = kind->type;
    if (PyUnicode_CompareWithASCIIString(kind->word, "enum") == 0 || type == &PyWrapperDescr_Type ||
        type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type || type == core.helpers.method_wrapper)
        return true;
    PyObject *id = PyLong_FromVoidPtr(type);
    int found = id ? PyDict_Contains(core.helpers.standard_reprs, id) : -1;
    Py_XDECREF(id);
    if (found < 0)
        core_fail("a type could not be read");
    return found > 0;
}

static void set_base(Kind *kind, PyObject *base)
{
    /* A bool is no plain int. */
    kind->base = base_of(is_leaf_type(kind->type) ? kind->type : (PyTypeObject *)base);
    if (kind->told == LEAF && is_told_by_python(kind))
        kind->base = BASE_OTHER;
    else if (kind->told == LEAF && kind->base == BASE_OTHER)
        kind->base = BASE_OPAQUE;
}

static PyObject *field(PyObject *of, const char *name)
{
    PyObject *found = PyObject_GetAttrString(of, name);
    /* The tuple has it, too. */
    Py_XDECREF(found);
    return found;
}

static bool read_slots(Kind *kind, PyObject *slots)
{
    Py_ssize_t count = PyTuple_GET_SIZE(slots);
    kind->slots = PyMem_RawCalloc((size_t)count + 1, sizeof *kind->slots);
    if (!kind->slots)
        return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *slot = PyTuple_GET_ITEM(slots, i);
        PyObject *member = PyTuple_Check(slot) && PyTuple_GET_SIZE(slot) == 2 ? PyTuple_GET_ITEM(slot, 1) : NULL;
        if (!member || !Py_IS_TYPE(member, &PyMemberDescr_Type))
            return PyErr_SetString(PyExc_TypeError, "a slot is no member descriptor"), false;
        kind->slots[i] = (Slot){PyTuple_GET_ITEM(slot, 0), ((PyMemberDescrObject *)member)->d_member};
    }
    kind->slot_count = (int)count;
    return true;
}

static bool read_kind(Kind *kind, PyObject *from)
{
    PyObject *told = field(from, "kind"), *own = field(from, "own"), *dictionary = field(from, "dictionary");
    PyObject *base = field(from, "base"), *slots = field(from, "slots"), *name = field(from, "name");
    kind->word = field(from, "word");
    if (!told || !own || !dictionary || !base || !slots || !name || !kind->word)
        return false;
    if (!PyUnicode_Check(kind->word) || !PyTuple_Check(slots) || !PyLong_Check(told))
        return PyErr_SetString(PyExc_TypeError, "a kind is malformed"), false;
    kind->told = (enum told)PyLong_AsLong(told);
    kind->own = own == Py_True;
    kind->has_dictionary = dictionary != Py_None;
    kind->name = name == Py_None ? NULL : name;
    set_base(kind, base);
    return read_slots(kind, slots);
}

static void kind_free(Kind *kind)
{
    Py_XDECREF(kind->kind);
    PyMem_RawFree(kind->slots);
    PyMem_RawFree(kind);
}

static Kind *kind_make(PyTypeObject *type)
{
    Kind *kind = PyMem_RawCalloc(1, sizeof *kind);
    PyObject *argument = (PyObject *)type;
    if (!kind)
        return NULL;
    kind->type = type;
    kind->kind = core_call(core.helpers.kind_of, &argument, 1);
    if (kind->kind && read_kind(kind, kind->kind))
        return kind;
    kind_free(kind);
    return NULL;
}

static size_t place_of(const KindTable *kinds, const PyTypeObject *type)
{
    size_t at = ((uintptr_t)type >> 4) * 0x9e3779b97f4a7c15u >> 24 & kinds->mask;
    while (kinds->table[at] && kinds->table[at]->type != type)
        at = (at + 1) & kinds->mask;
    return at;
}

static bool grow(KindTable *kinds)
{
    KindTable larger = {kinds->count, kinds->table ? kinds->mask * 2 + 1 : 63, NULL};
    larger.table = PyMem_RawCalloc(larger.mask + 1, sizeof *larger.table);
    if (!larger.table)
        return false;
    for (size_t i = 0; kinds->table && i <= kinds->mask; i++)
        if (kinds->table[i])
            larger.table[place_of(&larger, kinds->table[i]->type)] = kinds->table[i];
    PyMem_RawFree(kinds->table);
    *kinds = larger;
    return true;
}

Kind *kind_find(PyTypeObject *type)
{
    KindTable *kinds = &core.kinds;
    Kind *kind = kinds->table ? kinds->table[place_of(kinds, type)] : NULL;
    if (kind)
        return kind;
    if (!(kind = kind_make(type)))
        return NULL;
    if ((!kinds->table || kinds->count * 2 > kinds->mask) && !grow(kinds)) {
        kind_free(kind);
        return NULL;
    }
    kinds->count++;
    return kinds->table[place_of(kinds, type)] = kind;
}

bool kind_is_own(PyTypeObject *type)
{
    static PyObject *name;
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !type->tp_dict || !core.module_name)
        return false;
    if (!name && !(name = PyUnicode_InternFromString("__module__")))
        return PyErr_Clear(), false;
    PyObject *module = PyDict_GetItemWithError(type->tp_dict, name);
    if (!module && PyErr_Occurred())
        PyErr_Clear();
    return module && PyUnicode_CheckExact(module) && PyUnicode_Compare(module, core.module_name) == 0;
}

void kinds_free(void)
{
    KindTable kinds = core.kinds;
    core.kinds = (KindTable){0};
    for (size_t i = 0; kinds.table && i <= kinds.mask; i++)
        if (kinds.table[i])
            kind_free(kinds.table[i]);
    PyMem_RawFree(kinds.table);
}
